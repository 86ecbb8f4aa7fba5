package rows

import (
	"cmp"
	"fmt"
	"slices"
)

// Tx is a transaction. One goroutine uses it at a time.
type Tx struct {
	d       *Database
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
func (d *Database) Begin() *Tx { return &Tx{d: d, touched: map[place]bool{}} }

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

// Record is one committed transaction as the log keeps it, enough to repeat it on another node.
type Record struct {
	Sequence   int64
	RowVersion uint64 // the counter at that time
	Catalog    *Catalog
	Changes    []Change
}

// Change is the new state of one row.
type Change struct {
	Table int
	Key   string
	Row   Row // nil = deleted
}

// Commit makes the changes visible and returns their record. A transaction without changes leaves none.
func (tx *Tx) Commit() (Record, bool) {
	d := tx.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(tx.changes) == 0 {
		return Record{}, false
	}
	record := Record{Sequence: d.sequence + 1, RowVersion: d.rowVersion, Catalog: tx.catalog}
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
	return record, true
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

// Redo repeats a transaction of another node, as a secondary replica does. Records must come in their order.
func (d *Database) Redo(record Record) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if record.Sequence != d.sequence+1 {
		panic(fmt.Sprintf("rows: record %d after %d", record.Sequence, d.sequence))
	}
	d.apply(record)
	d.rowVersion = max(d.rowVersion, record.RowVersion)
	if d.logging {
		d.log = append(d.log, record)
	}
}

// KeepLog begins to keep the records of what is committed from now on.
func (d *Database) KeepLog() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.logging = true
}

// Log returns the kept records after the given sequence number.
func (d *Database) Log(after int64) []Record {
	d.mu.Lock()
	defer d.mu.Unlock()
	from, _ := slices.BinarySearchFunc(d.log, after+1, func(r Record, s int64) int { return cmp.Compare(r.Sequence, s) })
	return d.log[from:len(d.log):len(d.log)]
}

// Copy returns a database with the same committed content, as a backup restored on another node.
func (d *Database) Copy() *Database {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := New()
	c.catalog, c.generation, c.rowVersion, c.sequence, c.nextRow = d.catalog, d.generation, d.rowVersion, d.sequence, d.nextRow
	for table, h := range d.heaps {
		for _, key := range h.order {
			if row := h.records[key].seenBy(nil); row != nil {
				r := c.heap(table).record(key)
				r.committed = []version{{d.sequence, row}}
			}
		}
	}
	return c
}

// Sequence is the number of the last committed record.
func (d *Database) Sequence() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sequence
}
