package rows

import (
	"errors"
	"fmt"
	"time"
)

// Tx is a transaction. One goroutine uses it at a time.
type Tx struct {
	d       *Database
	term    uint64 // of the database when it began
	changes []change
	touched map[place]bool
	catalog *Catalog // its own version, nil as long as it has not changed anything
}

type place struct {
	table int
	key   string
}

// change is what a record was before, so that it can be undone.
type change struct {
	place
	wasMine bool
	was     Row
	catalog *Catalog // for a change of the catalog
	ddl     bool
}

// Begin starts a transaction.
func (d *Database) Begin() *Tx {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &Tx{d: d, term: d.term, touched: map[place]bool{}}
}

// Size is the number of changes made so far: a point for Undo, and what a deadlock monitor weighs.
func (tx *Tx) Size() int { return len(tx.changes) }

// Catalog returns the catalog as the transaction sees it, and whether it has changed it.
func (tx *Tx) Catalog() (*Catalog, bool) {
	if tx.catalog != nil {
		return tx.catalog, true
	}
	c, _ := tx.d.Catalog()
	return c, false
}

// ChangeCatalog lets f change the transaction's own version of the catalog.
func (tx *Tx) ChangeCatalog(f func(*Catalog)) {
	c, _ := tx.Catalog()
	own := c.Clone()
	f(own)
	tx.changes = append(tx.changes, change{ddl: true, catalog: tx.catalog})
	tx.catalog = own
}

// Put writes a row (nil deletes it) under a key that the transaction holds exclusively.
func (tx *Tx) Put(table int, key string, row Row) {
	tx.d.mu.Lock()
	defer tx.d.mu.Unlock()
	r := tx.d.heap(table).record(key)
	if r.writer != nil && r.writer != tx {
		panic(fmt.Sprintf("rows: two transactions write the row %q of table %d", key, table))
	}
	tx.changes = append(tx.changes, change{place: place{table, key}, wasMine: r.writer == tx, was: r.pending})
	tx.touched[place{table, key}] = true
	r.writer, r.pending = tx, row
}

// Undo takes back all changes behind the given size.
func (tx *Tx) Undo(size int) {
	tx.d.mu.Lock()
	defer tx.d.mu.Unlock()
	for len(tx.changes) > size {
		c := tx.changes[len(tx.changes)-1]
		tx.changes = tx.changes[:len(tx.changes)-1]
		if c.ddl {
			tx.catalog = c.catalog
			continue
		}
		h := tx.d.heap(c.table)
		r := h.records[c.key]
		r.pending = c.was
		if !c.wasMine {
			r.writer, r.pending = nil, nil
			delete(tx.touched, c.place)
			tx.d.clean(c.place)
		}
	}
}

// ErrDemoted says that the database takes no commits any more, or none of a transaction that began in an earlier term.
var ErrDemoted = errors.New("rows: the database was demoted")

// Commit makes the changes visible and returns their record. A transaction without changes leaves none. After ErrDemoted
// it is as it was, and can only be undone.
func (tx *Tx) Commit() (Record, error) {
	d := tx.d
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case len(tx.changes) == 0:
		return Record{}, nil
	case d.demoted || tx.term != d.term:
		// Decided under the mutex under which the log grows: whoever has demoted the database has its whole log.
		return Record{}, ErrDemoted
	}
	record := Record{Sequence: d.sequence + 1, Term: d.term, Committed: time.Now(), RowVersion: d.rowVersion, nextRow: d.nextRow, Catalog: tx.catalog}
	for p := range tx.touched {
		r := d.heaps[p.table].records[p.key]
		record.Changes = append(record.Changes, Change{p.table, p.key, r.pending})
		r.writer, r.pending = nil, nil
	}
	d.apply(record)
	if d.logging {
		d.log = append(d.log, record)
	}
	tx.changes, tx.touched, tx.catalog = nil, map[place]bool{}, nil
	return record, nil
}

// apply makes a record's changes the committed state.
func (d *Database) apply(record Record) {
	d.sequence = record.Sequence
	for _, c := range record.Changes {
		h := d.heap(c.Table)
		r := h.record(c.Key)
		r.committed = append(r.committed, version{record.Sequence, c.Row})
		d.clean(place{c.Table, c.Key})
	}
	if record.Catalog == nil {
		return
	}
	d.catalog = record.Catalog
	d.generation++
	alive := map[int]bool{}
	for _, t := range d.catalog.Tables {
		alive[t.ID] = true
	}
	for id := range d.heaps {
		if !alive[id] {
			delete(d.heaps, id)
		}
	}
}
