package rows

import (
	"encoding/binary"
	"slices"
	"sync"
)

// Row is the values of a row, one for each column. It is never changed once it is stored.
type Row []any

// Database is the rows of one node.
type Database struct {
	mu         sync.Mutex
	catalog    *Catalog
	generation int64 // grows whenever the catalog changes
	heaps      map[int]*heap
	rowVersion uint64
	sequence   int64 // of commits
	snapshots  map[int64]int
	stale      map[place]struct{} // records with versions that only an open snapshot needs
	nextRow    uint64
	log        []Record // as long as it is kept
	logging    bool
	start      int64  // the sequence number that it began with
	term       uint64 // of its own commits
	demoted    bool
}

// heap is the rows of one table.
type heap struct {
	records map[string]*record
	order   []string // keys, sorted
}

// record is everything that is known under one key.
type record struct {
	committed []version // oldest first; the last one is current
	writer    *Tx       // whose uncommitted state pending is
	pending   Row       // nil = deleted
}

type version struct {
	sequence int64
	row      Row // nil = deleted
}

func (r *record) at(sequence int64) Row {
	for _, version := range slices.Backward(r.committed) {
		if version.sequence <= sequence {
			return version.row
		}
	}
	return nil
}

func (r *record) seenBy(tx *Tx) Row {
	switch {
	case tx != nil && r.writer == tx:
		return r.pending
	case len(r.committed) == 0:
		return nil
	}
	return r.committed[len(r.committed)-1].row
}

// firstRowVersion is where SQL Server's counter of a new database stands.
const firstRowVersion = 2000

// New returns an empty database.
func New() *Database {
	return &Database{catalog: newCatalog(), heaps: map[int]*heap{}, rowVersion: firstRowVersion,
		snapshots: map[int64]int{}, stale: map[place]struct{}{}}
}

// DrawRowVersion takes the next value of the database's counter.
func (d *Database) DrawRowVersion() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rowVersion++
	return d.rowVersion
}

// ReturnRowVersion gives back a value that was not used, if nobody has drawn one since.
func (d *Database) ReturnRowVersion(v uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.rowVersion == v {
		d.rowVersion--
	}
}

// LastRowVersion is the value that was drawn last, whether its transaction has committed or not.
func (d *Database) LastRowVersion() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rowVersion
}

// SetRowVersion moves the counter, forward or back, as a restart or a restore does.
func (d *Database) SetRowVersion(v uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rowVersion = v
}

// RowVersionBytes is a value of the counter as a column stores it.
func RowVersionBytes(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

// Catalog returns the committed catalog and a number that grows whenever it changes.
func (d *Database) Catalog() (*Catalog, int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.catalog, d.generation
}

// Snapshot is a point in the sequence of commits that a statement reads at. Versions that it needs are kept until it
// is closed.
type Snapshot struct {
	d        *Database
	sequence int64
}

// Snapshot opens one at what is committed now.
func (d *Database) Snapshot() *Snapshot {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.snapshots[d.sequence]++
	return &Snapshot{d: d, sequence: d.sequence}
}

// Close lets the versions go.
func (s *Snapshot) Close() {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if s.d.snapshots[s.sequence]--; s.d.snapshots[s.sequence] > 0 {
		return
	}
	delete(s.d.snapshots, s.sequence)
	for p := range s.d.stale {
		s.d.clean(p)
	}
}

// Get reads the row under a key as the transaction (nil = none) sees it: its own change, else what is committed, as of
// the snapshot if there is one. It returns nil if there is no row.
func (d *Database) Get(tx *Tx, s *Snapshot, table int, key string) Row {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.heaps[table]
	if h == nil {
		return nil
	}
	r := h.records[key]
	if r == nil {
		return nil
	}
	if s != nil && (tx == nil || r.writer != tx) {
		return r.at(s.sequence)
	}
	return r.seenBy(tx)
}

// Next returns the first key after the given one, in the order of keys. Every key under which anybody has, or has had
// until recently, a row is among them; Get says whether the row is there for the reader.
func (d *Database) Next(table int, after string, begin bool) (string, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.heaps[table]
	if h == nil {
		return "", false
	}
	i, found := slices.BinarySearch(h.order, after)
	if begin {
		i = 0
	} else if found {
		i++
	}
	if i >= len(h.order) {
		return "", false
	}
	return h.order[i], true
}

// Rows is all committed rows of a table, for tests.
func (d *Database) Rows(table int) []Row {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []Row
	if h := d.heaps[table]; h != nil {
		for _, key := range h.order {
			if row := h.records[key].seenBy(nil); row != nil {
				all = append(all, row)
			}
		}
	}
	return all
}

// NewRowKey returns a key for a row of a table without primary key.
func (d *Database) NewRowKey() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nextRow++
	return string(binary.BigEndian.AppendUint64(nil, d.nextRow))
}

func (d *Database) heap(table int) *heap {
	h := d.heaps[table]
	if h == nil {
		h = &heap{records: map[string]*record{}}
		d.heaps[table] = h
	}
	return h
}

func (h *heap) record(key string) *record {
	r := h.records[key]
	if r == nil {
		r = &record{}
		h.records[key] = r
		i, _ := slices.BinarySearch(h.order, key)
		h.order = slices.Insert(h.order, i, key)
	}
	return r
}

// clean forgets versions that no snapshot needs, and the record if nothing is left of it.
func (d *Database) clean(p place) {
	h := d.heaps[p.table]
	if h == nil || h.records[p.key] == nil {
		delete(d.stale, p)
		return
	}
	r := h.records[p.key]
	oldest := d.sequence
	for s := range d.snapshots {
		oldest = min(oldest, s)
	}
	for len(r.committed) > 1 && r.committed[1].sequence <= oldest {
		r.committed = r.committed[1:]
	}
	if len(r.committed) == 1 && r.committed[0].row == nil && r.committed[0].sequence <= oldest {
		r.committed = nil
	}
	if deleted := len(r.committed) == 1 && r.committed[0].row == nil; len(r.committed) > 1 || deleted {
		d.stale[p] = struct{}{}
		return
	}
	delete(d.stale, p)
	if len(r.committed) == 0 && r.writer == nil {
		delete(h.records, p.key)
		if i, found := slices.BinarySearch(h.order, p.key); found {
			h.order = slices.Delete(h.order, i, i+1)
		}
	}
}

// Present reports whether there is, or may become, a row under the key: one that is committed, or one that a
// transaction has written or deleted and not yet committed.
func (d *Database) Present(table int, key string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.heaps[table]
	if h == nil {
		return false
	}
	r := h.records[key]
	return r != nil && (r.writer != nil || r.seenBy(nil) != nil)
}
