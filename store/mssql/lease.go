package mssql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	mssqldb "github.com/microsoft/go-mssqldb"

	"github.com/aaravsoft/leasehold/store"
)

// acquireAttempts is how often an acquisition is repeated that was answered, but with nothing: the row was released or
// expired in the middle of the batch.
const acquireAttempts = 3

var errNoDecision = errors.New("the row changed hands each time it was looked at")

// nvarchar is a parameter whose type does not depend on its length, so that a statement has one plan.
func nvarchar(s string) mssqldb.NVarCharMax { return mssqldb.NVarCharMax(s) }

// Acquire implements [store.Store].
func (s *Store) Acquire(ctx context.Context, c store.Claim) (store.Lease, error) {
	if err := c.Validate(); err != nil {
		return store.Lease{}, err
	}
	for range acquireAttempts {
		row, err := s.acquire(ctx, c)
		switch {
		case err != nil:
			return store.Lease{}, err
		case row.code == 1:
			s.sweepSoon()
			return row.lease, nil
		case row.found && row.lease.Left > 0 && row.lease.Owner != c.Owner:
			s.sweepSoon()
			return store.Lease{}, &store.HeldError{Lease: row.lease}
		}
	}
	return store.Lease{}, &store.UnavailableError{Op: "acquire", Unclear: true, Err: &contentionError{errNoDecision}}
}

// acquire is one attempt. Its answer is the grant (code 1), or the row that is there, if any.
func (s *Store) acquire(ctx context.Context, c store.Claim) (row answer, err error) {
	err = s.pool.query(ctx, call{op: "acquire", other: true, sql: s.sql.acquire.within(c.TTL),
		args: []any{nvarchar(c.Name), nvarchar(c.Owner), c.TTL.Milliseconds(), nvarchar(c.Metadata)}},
		func() { row = answer{} },
		func(rows *sql.Rows) error {
			var stamp []byte
			if err := row.scan(rows, &stamp); err != nil {
				return err
			}
			if row.code == 1 {
				row.lease.Version = version(stamp)
			}
			return nil
		})
	return row, err
}

// renew is one renewal, which waits for its row.
func (s *Store) renew(ctx context.Context, c store.Claim) store.Result {
	row, err := s.ask(ctx, call{op: "renew", sql: s.sql.renew.within(c.TTL),
		args: []any{nvarchar(c.Name), nvarchar(c.Owner), c.TTL.Milliseconds()}})
	if err != nil {
		return store.Result{Err: err}
	}
	return row.renewed(c)
}

// release is one release, which waits for its row.
func (s *Store) release(ctx context.Context, c store.Claim) store.Result {
	row, err := s.ask(ctx, call{op: "release", sql: s.sql.release.within(patience), args: []any{nvarchar(c.Name), nvarchar(c.Owner)}})
	if err != nil {
		return store.Result{Err: err}
	}
	return row.released(c)
}

// ask sends a call that is answered by a row at most.
func (s *Store) ask(ctx context.Context, c call) (row answer, err error) {
	err = s.pool.query(ctx, c, func() { row = answer{} }, func(rows *sql.Rows) error { return row.scan(rows) })
	return row, err
}

// renewed is what a renewal of c that left this row means.
func (a *answer) renewed(c store.Claim) store.Result {
	own := a.found && a.lease.Owner == c.Owner
	switch {
	case a.code == 1 && own:
		return store.Result{Lease: a.lease}
	case own && a.lease.Left > 0:
		// It came into being after the renewal had looked for it: a late acquisition of the same owner. Asking again
		// tells more.
		return store.Result{Err: &store.UnavailableError{Op: "renew", Unclear: true, Err: &contentionError{errNoDecision}}}
	}
	return store.Result{Lease: a.lease, Err: lost(c, a.found, a.lease)}
}

// released is what a release of c that deleted this row (code 1), or left it, means.
func (a *answer) released(c store.Claim) store.Result {
	if a.code == 1 && a.lease.Left > 0 {
		return store.Result{Lease: a.lease}
	}
	if a.code == 0 && a.found && a.lease.Owner == c.Owner {
		return store.Result{Err: &store.UnavailableError{Op: "release", Unclear: true, Err: &contentionError{errNoDecision}}}
	}
	return store.Result{Lease: a.lease, Err: lost(c, a.found, a.lease)}
}

// lost says why the claim's lease is over.
func lost(c store.Claim, found bool, row store.Lease) error {
	switch {
	case !found:
		return fmt.Errorf("%w: nobody holds %q", store.ErrLost, c.Name)
	case row.Owner != c.Owner:
		return fmt.Errorf("%w: %q belongs to %s", store.ErrLost, c.Name, row.Owner)
	}
	return fmt.Errorf("%w: the lease of %q has expired", store.ErrLost, c.Name)
}
