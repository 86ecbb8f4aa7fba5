package mssql_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/simtest"
	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/mssql"
)

// server starts a simulated server.
func server(t testing.TB) *mssqlsim.Server {
	t.Helper()
	return simtest.Run(t, mssqlsim.Options{})
}

// open opens a store on a server, without a table.
func open(t testing.TB, sim *mssqlsim.Server, parameters ...string) *mssql.Store {
	t.Helper()
	s, err := mssql.Open(sim.DSN(parameters...), mssql.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// ready opens a store with its table.
func ready(t testing.TB, sim *mssqlsim.Server, parameters ...string) *mssql.Store {
	t.Helper()
	s := open(t, sim, parameters...)
	require.NoError(t, s.EnsureSchema(t.Context()))
	return s
}

// database is somebody else's pool on a server. The driver races with itself when it closes a connection that it has just
// cancelled a statement on, which the race detector must not be shown.
func database(t testing.TB, sim *mssqlsim.Server, parameters ...string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlserver", sim.DSN(parameters...))
	if racing {
		db, err = mssql.OpenPool(sim.DSN(parameters...))
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// exec runs a statement of the test's own.
func exec(t testing.TB, db *sql.DB, statement string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(context.WithoutCancel(t.Context()), statement, args...)
	require.NoError(t, err)
}

// client closes what is still held, at the end of the test.
func client(t testing.TB, s store.Store, cfg mutex.Config) *mutex.Client {
	t.Helper()
	locks, err := mutex.New(s, cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, locks.Close(ctx))
	})
	return locks
}

func claim(name string, ttl time.Duration) store.Claim {
	return store.Claim{Name: name, Owner: store.NewOwner("test"), TTL: ttl}
}

func grant(t testing.TB, s store.Store, c store.Claim) store.Lease {
	t.Helper()
	lease, err := s.Acquire(t.Context(), c)
	require.NoError(t, err)
	return lease
}

func renew(t testing.TB, s store.Store, c store.Claim) store.Result {
	t.Helper()
	results, err := s.Renew(t.Context(), []store.Claim{c})
	require.NoError(t, err)
	return results[0]
}

// renewAndRelease does both, for all claims at once.
func renewAndRelease(t testing.TB, s store.Store, claims ...store.Claim) {
	t.Helper()
	for _, call := range []func(context.Context, []store.Claim) ([]store.Result, error){s.Renew, s.Release} {
		results, err := call(t.Context(), claims)
		require.NoError(t, err)
		for _, r := range results {
			require.NoError(t, r.Err)
		}
	}
}

func release(t testing.TB, s store.Store, c store.Claim) store.Result {
	t.Helper()
	results, err := s.Release(t.Context(), []store.Claim{c})
	require.NoError(t, err)
	return results[0]
}
