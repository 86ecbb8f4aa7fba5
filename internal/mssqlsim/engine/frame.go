package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/locks"
)

// errEnded says that the batch is over and its client knows why.
var errEnded = errors.New("engine: the batch has ended")

// flow is how control leaves a statement.
type flow uint8

const (
	goOn flow = iota
	breakLoop
	continueLoop
	returned
)

// step is a compiled statement. It keeps nothing: several sessions may run it at once. Its error is a *sqlerr.Error
// that a TRY may catch, errEnded, or the cause of the context's end.
type step func(f *frame) (flow, error)

// frame is a running batch.
type frame struct {
	session *Session
	ctx     context.Context //nolint:containedctx // a frame lives as long as its request
	sink    Sink
	vars    []any
	tables  []*localTable
	try     int             // TRY blocks around the statement that runs
	caught  []*sqlerr.Error // of the CATCH blocks around it, innermost last

	condition bool // what the IF or WHILE that was judged last came to
	running
}

// running is what belongs to the statement that runs.
type running struct {
	leaf     *leaf
	now      time.Time
	snapshot *rows.Snapshot
	redoing  bool         // on a secondary: every read is of the snapshot, and hints for locks are ignored
	reads    *locks.Owner // of locks that end with the statement
	saved    map[*localTable][]rows.Row
	open     bool // a result set has begun and not ended
}

// localTable is a table variable. It takes no part in transactions, but a statement that fails leaves it as it was.
type localTable struct {
	table *rows.Table
	rows  []rows.Row
	keys  map[string]bool // of the rows; nil = not made yet
}

// save notes the rows as they are before the running statement first changes them.
func (f *frame) save(t *localTable) {
	if f.saved == nil {
		f.saved = map[*localTable][]rows.Row{}
	}
	if _, ok := f.saved[t]; !ok {
		f.saved[t] = slices.Clip(t.rows) // what is appended from now on goes elsewhere
	}
}

// batch compiles and runs a text with its parameters.
func (f *frame) batch(text string, params []Param) error {
	program, err := f.session.compiled(text, params)
	if err != nil {
		return err
	}
	f.vars = make([]any, program.symbols.size)
	for i, p := range params {
		f.vars[i] = p.Value
	}
	f.tables = make([]*localTable, len(program.symbols.tables))
	for _, table := range program.symbols.tables {
		f.tables[table.slot] = &localTable{table: table.table}
	}
	_, err = program.run(f)
	return err
}

// pass takes the running statement through a point.
func (f *frame) pass(point Point) error {
	return f.session.node.traps.meet(f.ctx, Visit{Point: point, Session: f.session, Statement: f.leaf.text})
}

// report sends an error.
func (f *frame) report(e *sqlerr.Error) {
	f.sink.Error(e)
	if f.open {
		f.open = false
		f.sink.Done(CommandSelect, NoCount)
	}
}

// done ends a statement that has affected so many rows.
func (f *frame) done(command Command, count int64) {
	f.session.rowCount = count
	if f.session.noCount {
		count = NoCount
	}
	f.open = false
	f.sink.Done(command, count)
}

// fail decides what an error of a statement ends. It returns nil if the batch goes on.
func (f *frame) fail(err error) error {
	var e *sqlerr.Error
	if !errors.As(err, &e) {
		return err
	}
	s := f.session
	e = e.At(f.leaf.line)
	s.lastError, s.rowCount = e.Number, 0
	if e.Scope >= sqlerr.EndsCompilation {
		return e
	}
	if f.try > 0 {
		if f.open {
			f.open = false
			f.sink.Done(f.leaf.command, NoCount)
		}
		if s.tx != nil && (s.xactAbort || e.Scope == sqlerr.EndsTransaction) {
			s.tx.doomed = true
		}
		return e
	}
	f.report(e)
	if e.Scope == sqlerr.EndsTransaction || s.xactAbort {
		s.rollbackAnnounced(f.sink)
		return errEnded
	}
	if e.Scope == sqlerr.EndsBatch {
		return errEnded
	}
	return nil
}

// atomically runs the body of a statement: all of it or, after an error, nothing. Without an open transaction it gets
// one of its own when it needs it, which is committed at the end.
func (f *frame) atomically(body func() error) (err error) {
	s := f.session
	mark := 0
	if s.tx != nil {
		mark = s.tx.rows.Size()
	}
	node := s.node
	f.redoing = node.State() != Online
	if f.redoing || node.rcsi.Load() {
		f.snapshot = node.Data().Snapshot()
	}
	defer func() {
		if f.reads != nil {
			f.reads.UnlockAll()
		}
		if f.snapshot != nil {
			f.snapshot.Close()
		}
		if err != nil && s.auto != nil { // not committed
			s.auto.rows.Undo(0)
			s.auto.locks.UnlockAll()
			s.auto = nil
		}
	}()
	err = body()
	committed := false
	if err == nil && s.auto != nil {
		err = s.commit(f.ctx, s.auto, f.leaf.text)
		committed = s.auto == nil
	}
	if err != nil && !committed {
		if s.tx != nil {
			s.tx.rows.Undo(mark)
		}
		for table, was := range f.saved {
			table.rows, table.keys = was, nil
		}
	}
	return err
}
