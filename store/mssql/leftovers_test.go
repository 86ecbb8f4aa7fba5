package mssql_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/mssql"
)

// interruption is a statement of an operation, in the middle of which something happens.
type interruption struct {
	statement string // a part of its text
	untouched bool   // it finds no row, so it passes only the first point
	do        func(context.Context, *onePool) error
}

// onePool is a store on a pool of one connection, which the next statement must get in order.
type onePool struct {
	*mssql.Store
	sim        *mssqlsim.Server
	db         *sql.DB
	held, more store.Claim // leases that are held
	expired    store.Claim
}

func newOnePool(t *testing.T) *onePool {
	t.Helper()
	p := &onePool{sim: server(t), held: claim("held", time.Hour), more: claim("more", time.Hour), expired: claim("expired", time.Second)}
	p.db = database(t, p.sim)
	p.db.SetMaxOpenConns(1)
	var err error
	p.Store, err = mssql.New(p.db, mssql.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	require.NoError(t, p.EnsureSchema(t.Context()))
	other := open(t, p.sim) // a sweep of its own, which this test must not meet
	for _, c := range []store.Claim{p.held, p.more, p.expired} {
		grant(t, other, c)
	}
	_, err = p.Renew(t.Context(), []store.Claim{p.held, p.more}) // it knows the collation from here on
	require.NoError(t, err)
	p.sim.Node.Step(2 * time.Second)
	return p
}

func interruptions() map[string]interruption {
	acquire := func(name string) func(context.Context, *onePool) error {
		return func(ctx context.Context, p *onePool) error {
			_, err := p.Acquire(ctx, claim(name, time.Minute))
			return err
		}
	}
	renew := func(ctx context.Context, p *onePool, claims ...store.Claim) error {
		_, err := p.Renew(ctx, claims)
		return err
	}
	release := func(ctx context.Context, p *onePool, claims ...store.Claim) error {
		_, err := p.Release(ctx, claims)
		return err
	}
	one := func(call func(context.Context, *onePool, ...store.Claim) error) func(context.Context, *onePool) error {
		return func(ctx context.Context, p *onePool) error { return call(ctx, p, p.held) }
	}
	two := func(call func(context.Context, *onePool, ...store.Claim) error) func(context.Context, *onePool) error {
		return func(ctx context.Context, p *onePool) error { return call(ctx, p, p.held, p.more) }
	}
	return map[string]interruption{
		"the look for a row":   {statement: "UPDATE [lease]", untouched: true, do: acquire("fresh")},
		"a take-over":          {statement: "UPDATE [lease]", do: acquire("expired")},
		"an insert":            {statement: "INSERT INTO [lease]", do: acquire("fresh")},
		"a stamp":              {statement: "SET Metadata = Metadata", do: acquire("fresh")},
		"a renewal":            {statement: "UPDATE [lease]", do: one(renew)},
		"a release":            {statement: "DELETE FROM [lease]", do: one(release)},
		"a renewal of several": {statement: "UPDATE l SET RenewedAtUtc", do: two(renew)},
		"a release of several": {statement: "DELETE l OUTPUT", do: two(release)},
		"an operator's break": {statement: "UPDATE [lease]", do: func(ctx context.Context, p *onePool) error {
			_, err := p.Break(ctx, p.held.Name, p.held.Owner)
			return err
		}},
	}
}

// nothingLeft: the next statement of the pool finds no transaction, and nobody meets a lock.
func (p *onePool) nothingLeft(t *testing.T) {
	t.Helper()
	var open int
	require.NoError(t, p.db.QueryRow("SELECT @@TRANCOUNT + @p1", 0).Scan(&open))
	assert.Zero(t, open)
	held, waiting := p.sim.Node.Locks()
	assert.Zero(t, held+waiting)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := p.Get(ctx, "held")
	if err != nil {
		assert.ErrorIs(t, err, store.ErrNotFound)
	}
}

// TestLeftovers is SQL-10.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	points := []engine.Point{engine.BeforeStatement, engine.RowLocked, engine.BeforeCommit, engine.AfterCommit}
	for name, i := range interruptions() {
		for _, point := range points {
			if i.untouched && point != engine.BeforeStatement {
				continue
			}
			if i.statement == "INSERT INTO [lease]" && point == engine.RowLocked {
				continue // an INSERT finds no row
			}
			t.Run(fmt.Sprintf("SQL-10 an error in %s, point %d", name, point), func(t *testing.T) {
				p := newOnePool(t)
				fault := p.sim.Node.Fail(point, engine.Match{Contains: i.statement}, 1, sqlerr.New(547, "The statement conflicted with the CHECK constraint."))
				err := i.do(t.Context(), p)
				require.Equal(t, 1, fault.Hits())
				require.ErrorIs(t, err, store.ErrMisconfigured)
				p.nothingLeft(t)
			})
			t.Run(fmt.Sprintf("SQL-10 cancelled in %s, point %d", name, point), func(t *testing.T) {
				p := newOnePool(t)
				gate := p.sim.Node.Gate(point, engine.Match{Contains: i.statement})
				defer gate.Open()
				ctx, cancel := context.WithCancel(t.Context())
				arrived := make(chan struct{})
				go func() {
					defer close(arrived)
					<-gate.Arrived()
					cancel()
				}()
				err := i.do(ctx, p)
				require.ErrorIs(t, err, store.ErrUnclear)
				require.ErrorIs(t, err, context.Canceled)
				<-arrived
				gate.Open()
				p.nothingLeft(t)
			})
		}
	}
}
