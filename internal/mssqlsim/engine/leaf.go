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

func contextError(ctx context.Context) error { return context.Cause(ctx) }

// run is the step of a leaf.
func (l *leaf) run(f *frame) (flow, error) {
	f.session.node.statements.Add(1)
	// One "now" for the whole statement, taken before it waits for anything.
	f.running = running{leaf: l, now: f.session.node.Now()}
	err := l.execute(f)
	if err == nil {
		f.session.lastError = 0
		return goOn, nil
	}
	return goOn, f.fail(err)
}

func (l *leaf) execute(f *frame) error {
	s := f.session
	if err := s.node.usable(s.readIntent); err != nil {
		return err
	}
	if err := f.pass(BeforeStatement); err != nil {
		return err
	}
	if err := l.perform(f); err != nil {
		return err
	}
	return f.pass(AfterStatement)
}

func (l *leaf) perform(f *frame) error {
	if l.plain {
		return l.body(f)
	}
	return f.atomically(func() error {
		current, err := f.bind(l)
		if err != nil {
			return err
		}
		if err := f.check(current.needs); err != nil {
			return err
		}
		return current.body(f)
	})
}

// bind makes sure that the tables of a statement exist and stay as they are while it runs, and returns the statement
// compiled for them. Who creates, changes or drops one of them is waited for.
func (f *frame) bind(l *leaf) (*leaf, error) {
	for {
		for _, name := range l.names {
			if err := f.lockObject(name); err != nil {
				return nil, err
			}
		}
		_, own := f.session.catalog()
		if _, generation := f.session.node.Data().Catalog(); generation == l.generation && !own && l.missing == nil {
			return l, nil
		}
		again, err := l.again(f.session)
		if err != nil {
			return nil, err
		}
		if again.missing != nil {
			return nil, again.missing
		}
		if slices.Equal(l.names, again.names) {
			return again, nil
		}
		l = again // it names other tables, which are not locked yet
	}
}

// objectLock is the lock on a name in the catalog: shared while a statement uses what it names, exclusive until the
// end of the transaction that creates, changes or drops it.
func objectLock(schema, name string) locks.Resource {
	return locks.Resource{Space: "object", Key: rows.Fold(schema) + "." + rows.Fold(name)}
}

func (f *frame) lockObject(name objectName) error {
	resource := objectLock(name.schema, name.name)
	if name.writes {
		return f.lock(f.session.writing().locks, resource, locks.Shared, f.session.lockTimeout)
	}
	return f.lock(f.statementLocks(), resource, locks.Shared, f.session.lockTimeout)
}

// statementLocks owns what is released at the end of the statement.
func (f *frame) statementLocks() *locks.Owner {
	if f.reads == nil {
		f.reads = f.session.locks.Owner()
	}
	return f.reads
}

// lock takes a lock with the errors of SQL Server.
func (f *frame) lock(owner *locks.Owner, resource locks.Resource, mode locks.Mode, timeout time.Duration) error {
	err := owner.Lock(f.ctx, resource, mode, timeout)
	switch {
	case errors.Is(err, locks.ErrTimeout):
		return sqlerr.LockTimeout()
	case errors.Is(err, locks.ErrDeadlock):
		return sqlerr.Deadlock(f.session.id)
	}
	return err
}
