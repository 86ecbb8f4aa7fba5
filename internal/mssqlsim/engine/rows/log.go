package rows

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Record is one committed transaction as the log keeps it, enough to repeat it on another node.
type Record struct {
	Sequence   int64
	Term       uint64    // of the database that wrote it
	Committed  time.Time // by the real clock, whatever the node's says
	RowVersion uint64    // the counter at that time
	Catalog    *Catalog  // nil = unchanged
	Changes    []Change

	nextRow uint64
}

// Change is the new state of one row.
type Change struct {
	Table int
	Key   string
	Row   Row // nil = deleted
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
	d.nextRow = max(d.nextRow, record.nextRow)
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
	c.start = d.sequence
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

// Demote ends the taking of commits: every transaction that is open now, and every later one, gets ErrDemoted, and only
// Redo adds to the log.
func (d *Database) Demote() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.demoted = true
}

// Promote begins a term: transactions that begin from now on may commit, and their records bear it. The counter of row
// versions goes on behind what the log says; with a reservation, as a restart does, at its next multiple.
func (d *Database) Promote(term, reservation uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.demoted, d.term = false, term
	if reservation > 0 {
		d.rowVersion += reservation - d.rowVersion%reservation
	}
}

// Fork is the number of the last record that two logs have in common, both being kept from the same content on. What
// comes behind it in one of them, the other will never have.
func (d *Database) Fork(other *Database) int64 {
	mine, theirs := d.Log(0), other.Log(0)
	n := min(len(mine), len(theirs))
	// Records of one number and one term are the same, and so is everything before them.
	for n > 0 && mine[n-1].Term != theirs[n-1].Term {
		n--
	}
	if n == 0 {
		return d.start
	}
	return mine[n-1].Sequence
}

// Sequence is the number of the last committed record.
func (d *Database) Sequence() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sequence
}
