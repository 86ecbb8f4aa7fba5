package engine

import (
	"context"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/locks"
)

// transaction is a transaction with its locks.
type transaction struct {
	rows   *rows.Tx
	locks  *locks.Owner
	depth  int // BEGIN TRANSACTION less COMMIT
	doomed bool
}

func (s *Session) newTransaction() *transaction {
	return &transaction{rows: s.node.Data().Begin(), locks: s.locks.Owner(), depth: 1}
}

// writing is the transaction that a change of the running statement belongs to: the open one, or one of its own.
func (s *Session) writing() *transaction {
	if s.tx != nil {
		return s.tx
	}
	if s.auto == nil {
		s.auto = s.newTransaction()
	}
	return s.auto
}

// begin is BEGIN TRANSACTION; a nested one only counts.
func (s *Session) begin() {
	if s.tx == nil {
		s.tx = s.newTransaction()
		return
	}
	s.tx.depth++
}

// rollback undoes and forgets the open transaction and that of a statement, if there are any.
func (s *Session) rollback() {
	for _, tx := range []*transaction{s.auto, s.tx} {
		if tx != nil {
			tx.rows.Undo(0)
			tx.locks.UnlockAll()
		}
	}
	s.tx, s.auto = nil, nil
	s.locks.SetWeight(0)
}

func (s *Session) rollbackAnnounced(sink Sink) {
	announced := s.tx != nil
	s.rollback()
	if announced {
		sink.Transaction(TransactionRolledBack)
	}
}

// commit makes a transaction's changes permanent. Before that, an error leaves it as it was; after that, an error is
// only what the client is told.
func (s *Session) commit(ctx context.Context, tx *transaction, statement string) error {
	if tx.doomed {
		return sqlerr.Doomed()
	}
	visit := Visit{Session: s, Statement: statement}
	changed := tx.rows.Size() > 0
	if changed {
		visit.Point = BeforeCommit
		if err := s.node.traps.meet(ctx, visit); err != nil {
			return err
		}
	}
	record, err := tx.rows.Commit()
	if err != nil {
		return sqlerr.Killed() // by the failover that demoted the node
	}
	// From here on it is committed: no error may undo it, and its locks must go.
	if harden := s.node.onCommit(); changed && harden != nil {
		err = harden(ctx, record)
	}
	tx.locks.UnlockAll()
	s.locks.SetWeight(0)
	if s.tx == tx {
		s.tx = nil
	} else {
		s.auto = nil
	}
	if err == nil && changed {
		visit.Point = AfterCommit
		err = s.node.traps.meet(ctx, visit)
	}
	return err
}

// commitStatement is COMMIT: the outermost one commits, an inner one only counts.
func (s *Session) commitStatement(ctx context.Context, statement string) error {
	switch {
	case s.tx == nil:
		return sqlerr.NoTransaction("COMMIT")
	case s.tx.doomed:
		return sqlerr.Doomed()
	case s.tx.depth > 1:
		s.tx.depth--
		return nil
	}
	return s.commit(ctx, s.tx, statement)
}

// Begin is the transaction manager's request to open a transaction.
func (s *Session) Begin() error {
	s.begin()
	return nil
}

// Commit is the transaction manager's request to commit. An error is of type *sqlerr.Error, or ctx's.
func (s *Session) Commit(ctx context.Context) error {
	ctx, done := s.started(ctx)
	defer done()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.node.usable(s.readIntent); err != nil {
		return err
	}
	if s.tx != nil && s.tx.rows.Size() > 0 {
		if err := s.node.writable(); err != nil {
			return err
		}
	}
	return s.commitStatement(ctx, "COMMIT")
}

// Rollback is the transaction manager's request to roll back.
func (s *Session) Rollback() error {
	if s.tx == nil {
		return sqlerr.NoTransaction("ROLLBACK")
	}
	s.rollback()
	return nil
}
