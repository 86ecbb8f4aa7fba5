package engine

import (
	"errors"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/locks"
)

// rowLock is the lock on a row of a base table, or on the place where one is to be inserted.
func rowLock(t *rows.Table, key string) locks.Resource {
	return locks.Resource{Space: "row " + t.FullName(), Key: key}
}

// lockRow takes a row's lock with the hints. It reports false if READPAST skips the row.
func (s *source) lockRow(f *frame, owner *locks.Owner, key string, mode locks.Mode) (bool, error) {
	timeout := f.session.lockTimeout
	if s.hints.readPast || s.hints.noWait {
		timeout = 0
	}
	err := f.lock(owner, rowLock(s.base, key), mode, timeout)
	if s.hints.readPast && errors.Is(err, sqlerr.LockTimeout()) {
		return false, nil
	}
	return err == nil, err
}

// visitRow reads one row of a base table for a SELECT, or as the other table of an UPDATE.
func (s *source) visitRow(e *env, key string, yield func() error) error {
	if e.ctx.Err() != nil {
		return contextError(e.ctx)
	}
	data := e.session.node.Data()
	if !data.Present(s.base.ID, key) && e.snapshot == nil {
		return nil
	}
	row, err := s.read(e, key)
	if err != nil || row == nil {
		return err
	}
	e.rows[s.slot] = row
	return yield()
}

func (s *source) read(e *env, key string) (rows.Row, error) {
	data := e.session.node.Data()
	tx := e.session.transactionRows()
	lockless := !s.hints.readCommittedLock && !s.hints.update && !s.hints.exclusive
	if e.snapshot != nil && (lockless || e.redoing) {
		return data.Get(tx, e.snapshot, s.base.ID, key), nil
	}
	mode, owner := locks.Shared, e.statementLocks()
	if s.hints.update || s.hints.exclusive {
		// Kept until the transaction ends.
		mode, owner = locks.Update, e.session.writing().locks
		if s.hints.exclusive {
			mode = locks.Exclusive
		}
	}
	locked, err := s.lockRow(e.frame, owner, key, mode)
	if err != nil || !locked {
		return nil, err
	}
	row := data.Get(tx, nil, s.base.ID, key)
	if mode == locks.Shared || row == nil {
		owner.Unlock(rowLock(s.base, key), mode)
	}
	return row, nil
}

// transactionRows is the transaction whose own changes the running statement sees.
func (s *Session) transactionRows() *rows.Tx {
	switch {
	case s.tx != nil:
		return s.tx.rows
	case s.auto != nil:
		return s.auto.rows
	}
	return nil
}

// target is the table that an UPDATE or DELETE changes.
type target struct {
	versioned bool // the statement stores a new row version
}

// changing is what an UPDATE or DELETE is at.
type changing struct {
	key      string            // of the row of a base table that is looked at just now,
	hit      bool              // and whether it fits
	done     map[string]bool   // rows of a base table that are changed
	drawn    uint64            // a row version that is drawn and not yet stored, 0 = none
	replaced map[*any]rows.Row // changed rows of a table variable, by their old first value; nil = deleted
}

// visitTarget looks at one row of the target: it is locked (U), then read, then judged by yield, which changes it if it
// fits. If it does not, the lock is given back.
func (s *source) visitTarget(e *env, key string, yield func() error) error {
	if e.ctx.Err() != nil {
		return contextError(e.ctx)
	}
	data := e.session.node.Data()
	if !data.Present(s.base.ID, key) {
		return nil
	}
	if s.target.versioned {
		// The new row version is drawn before the row is locked: when it is stored at last, the row may already bear
		// a later one.
		if err := e.drawRowVersion(); err != nil {
			return err
		}
	}
	owner := e.session.writing().locks
	locked, err := s.lockRow(e.frame, owner, key, locks.Update)
	if err != nil || !locked {
		return err
	}
	e.key, e.hit = key, false
	defer func() {
		if !e.hit {
			owner.Unlock(rowLock(s.base, key), locks.Update)
		}
	}()
	row := data.Get(e.session.transactionRows(), nil, s.base.ID, key)
	if row == nil {
		return nil
	}
	e.rows[s.slot] = row
	return yield()
}

// drawRowVersion draws a row version for the next row that is written, unless one is left over.
func (e *env) drawRowVersion() error {
	if e.drawn == 0 {
		e.drawn = e.session.node.Data().DrawRowVersion()
	}
	return e.pass(RowVersionDrawn)
}

// storeRowVersion puts the drawn version into a row.
func (e *env) storeRowVersion(row rows.Row, place int) {
	row[place] = rows.RowVersionBytes(e.drawn)
	e.drawn = 0
}

// finishRowVersion gives back what no row needed.
func (e *env) finishRowVersion() {
	if e.drawn != 0 {
		e.session.node.Data().ReturnRowVersion(e.drawn)
		e.drawn = 0
	}
}

// write stores the new state of a row of a base table (nil = deleted) that is locked exclusively.
func (e *env) write(t *rows.Table, key string, row rows.Row) {
	tx := e.session.writing()
	tx.rows.Put(t.ID, key, row)
	e.session.locks.SetWeight(tx.rows.Size())
}
