package mssql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mssqldb "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/simtest"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/mssql"
)

// isolations are the two ways in which a database reads.
var isolations = map[string]bool{"locking": false, "SQL-06 row versions (RCSI)": true}

// crowd opens stores with 8 connections each, and their pools ready.
func crowd(t *testing.T, sim *mssqlsim.Server, n int) []*mssql.Store {
	t.Helper()
	ready(t, sim)
	stores := make([]*mssql.Store, n)
	for i := range stores {
		stores[i] = open(t, sim)
	}
	return stores
}

// TestRaces has many sessions want one name at the same instant.
func TestRaces(t *testing.T) {
	t.Parallel()
	const racers = 64
	race := func(t *testing.T, stores []*mssql.Store, name string, ttl time.Duration) store.Claim {
		t.Helper()
		var wait sync.WaitGroup
		var won atomic.Int32
		var winner store.Claim
		start := make(chan struct{})
		for n := range racers {
			wait.Go(func() {
				c := claim(name, ttl)
				<-start
				for {
					_, err := stores[n%len(stores)].Acquire(t.Context(), c)
					var marked interface{ Contention() bool }
					switch {
					case err == nil:
						if won.Add(1) == 1 {
							winner = c
						}
					case errors.As(err, &marked): // a lock timeout: somebody was in the way
						continue
					default:
						assert.ErrorIs(t, err, store.ErrHeld)
					}
					return
				}
			})
		}
		close(start)
		wait.Wait()
		require.EqualValues(t, 1, won.Load(), "winners of %s", name)
		return winner
	}
	for name, rcsi := range isolations {
		t.Run("SQL-01 a fresh name, "+name, func(t *testing.T) {
			sim := server(t)
			sim.Node.SetRCSI(rcsi)
			stores := crowd(t, sim, 4)
			for round := range 15 {
				race(t, stores, fmt.Sprint("job ", round), time.Hour)
			}
		})
		t.Run("SQL-04 an expired row, "+name, func(t *testing.T) {
			sim := server(t)
			sim.Node.SetRCSI(rcsi)
			stores := crowd(t, sim, 4)
			var before uint64
			for range 15 {
				winner := race(t, stores, "job", time.Minute)
				again := grant(t, stores[0], winner)
				assert.Greater(t, again.Version, before)
				before = again.Version
				sim.Node.Step(2 * time.Minute)
			}
		})
		t.Run("SQL-02 acquire, renew and release in a loop, "+name, func(t *testing.T) {
			sim := server(t)
			sim.Node.SetRCSI(rcsi)
			stores := crowd(t, sim, 4)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var wait sync.WaitGroup
			var rounds, deadlocks atomic.Int32
			for n := range 32 {
				wait.Go(func() {
					st := stores[n%len(stores)]
					for ctx.Err() == nil {
						c := claim("job", time.Minute)
						if _, err := st.Acquire(t.Context(), c); err != nil {
							if slices.Contains(numbers(err), 1205) {
								deadlocks.Add(1)
							}
							continue
						}
						assert.NoError(t, renew(t, st, c).Err)
						assert.NoError(t, release(t, st, c).Err)
						rounds.Add(1)
					}
				})
			}
			wait.Wait()
			assert.Zero(t, deadlocks.Load())
			assert.Positive(t, rounds.Load())
			t.Logf("%d rounds a second", rounds.Load())
		})
	}
}

// TestDeadlocks is SQL-03.
func TestDeadlocks(t *testing.T) {
	t.Parallel()
	deadlock := sqlerr.New(1205, "Transaction was deadlocked").With(13, 51).Ends(sqlerr.EndsBatch)
	t.Run("SQL-03 twice the victim, then it works", func(t *testing.T) {
		sim := server(t)
		locks := client(t, ready(t, sim), steady)
		fault := sim.Node.Fail(engine.BeforeStatement, engine.Match{Contains: "INSERT INTO [lease]"}, 2, deadlock)
		began := time.Now()
		g, err := locks.Lock(t.Context(), "job")
		require.NoError(t, err)
		assert.Equal(t, 2, fault.Hits())
		assert.Less(t, time.Since(began), 2*time.Second, "it is tried again at once")
		require.NoError(t, g.Unlock())
	})
	t.Run("SQL-03 always the victim", func(t *testing.T) {
		sim := server(t)
		locks := client(t, ready(t, sim), steady)
		sim.Node.Fail(engine.BeforeStatement, engine.Match{Contains: "INSERT INTO [lease]"}, -1, deadlock)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := locks.Lock(ctx, "job")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, mutex.ErrHeld)
		assert.Contains(t, numbers(err), int32(1205))
		health := locks.Health(t.Context())
		assert.Zero(t, health.Breaker.Failures, "a deadlock is no failure")
	})
}

// TestTriggers is SQL-05.
func TestTriggers(t *testing.T) {
	t.Parallel()
	sim := server(t)
	st := ready(t, sim)
	db := database(t, sim)
	exec(t, db, "CREATE TABLE dbo.Audit (What NVARCHAR(20) NOT NULL, N INT NOT NULL)")
	exec(t, db, `CREATE TRIGGER lease.Audit ON lease.Leases AFTER INSERT, UPDATE, DELETE AS BEGIN
		INSERT INTO dbo.Audit (What, N) VALUES (N'a', 1); INSERT INTO dbo.Audit (What, N) VALUES (N'b', 2); SELECT What, N FROM dbo.Audit; END`)
	t.Run("SQL-05 a trigger that counts, and returns rows", func(t *testing.T) {
		require.NoError(t, st.EnsureSchema(t.Context()))
		c, d := claim("job", time.Hour), claim("other", time.Hour)
		granted := grant(t, st, c)
		assert.Equal(t, c.Owner, granted.Owner)
		grant(t, st, d)
		_, err := st.Acquire(t.Context(), claim("job", time.Hour))
		require.ErrorIs(t, err, store.ErrHeld)
		for range 5 {
			require.NoError(t, renew(t, st, c).Err)
		}
		results, err := st.Renew(t.Context(), []store.Claim{c, d})
		require.NoError(t, err)
		require.NoError(t, errors.Join(results[0].Err, results[1].Err))
		_, err = st.Break(t.Context(), d.Name, d.Owner)
		require.NoError(t, err)
		require.NoError(t, release(t, st, c).Err)
		var audited int
		require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM dbo.Audit WHERE N <> @p1", 0).Scan(&audited))
		assert.GreaterOrEqual(t, audited, 2*(2*2+5+1+1+1), "the trigger ran for each statement")
	})
}

// TestTransactions is about those of the caller.
func TestTransactions(t *testing.T) {
	t.Parallel()
	t.Run("ACQ-11 the caller's own transaction on the same pool", func(t *testing.T) {
		sim := server(t)
		db := database(t, sim)
		exec(t, db, "CREATE TABLE dbo.Jobs (N INT NOT NULL)")
		st, err := mssql.New(db, mssql.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, st.Close()) })
		require.NoError(t, st.EnsureSchema(t.Context()))
		locks := client(t, st, steady)
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), "INSERT INTO dbo.Jobs (N) VALUES (@p1)", 1)
		require.NoError(t, err)
		g, err := locks.Lock(t.Context(), "job")
		require.NoError(t, err)
		other := client(t, open(t, sim), steady)
		_, err = other.TryLock(t.Context(), "job")
		require.ErrorIs(t, err, mutex.ErrHeld)
		require.NoError(t, tx.Rollback())
		_, err = other.TryLock(t.Context(), "job")
		require.ErrorIs(t, err, mutex.ErrHeld, "the rollback leaves the row")
		require.NoError(t, g.Unlock())
		var n int
		require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM dbo.Jobs WHERE N = @p1", 1).Scan(&n))
		assert.Zero(t, n, "neither Lock nor Unlock has committed it")
	})

	t.Run("ACQ-11 a pool whose sessions begin transactions by themselves", func(t *testing.T) {
		sim := server(t)
		connector, err := mssqldb.NewConnector(sim.DSN())
		require.NoError(t, err)
		connector.SessionInitSQL = "SET IMPLICIT_TRANSACTIONS ON"
		db := sql.OpenDB(connector)
		defer db.Close()
		db.SetMaxOpenConns(1)
		st, err := mssql.New(db, mssql.Config{})
		require.NoError(t, err)
		defer st.Close()
		other := ready(t, sim)
		c := claim("job", time.Hour)
		grant(t, st, c)
		require.NoError(t, db.PingContext(t.Context())) // the session is reset
		_, err = other.Acquire(t.Context(), claim("job", time.Hour))
		require.ErrorIs(t, err, store.ErrHeld, "the grant is committed")
		require.NoError(t, renew(t, st, c).Err)
		require.NoError(t, release(t, st, c).Err)
		require.NoError(t, db.PingContext(t.Context()))
		grant(t, other, claim("job", time.Hour))
	})
}

// TestTimeZones is CLK-02 and CLK-03.
func TestTimeZones(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	for _, parameter := range []string{"app name=plain", "timezone=America/New_York", "timezone=Asia/Tokyo"} {
		t.Run("CLK-02 CLK-03 a server two hours east, and "+parameter, func(t *testing.T) {
			sim := simtest.Run(t, mssqlsim.Options{Node: engine.Config{OffsetMinutes: 120}})
			set := func(at time.Time) time.Time { sim.Node.SetClock(func() time.Time { return at }); return at }
			now := set(time.Date(2026, 3, 29, 0, 59, 55, 0, time.UTC)) // clocks go forward in Europe while the lease lives
			dated := sim.Wire.Inject(tds.Fault{Place: tds.AtRequest, Match: tds.Match{Func: func(s tds.Subject) bool {
				return slices.ContainsFunc(s.Request.Params, func(p tds.Param) bool {
					return slices.Contains([]tds.Kind{tds.DateTimeOffset, tds.DateTime2, tds.Date}, p.Type.Kind)
				})
			}}})
			defer dated.Off()
			st := ready(t, sim, parameter)
			c := claim("job", ttl)
			lease := grant(t, st, c)
			for n := range 4 {
				assert.Equal(t, now.Add(ttl), lease.Expires)
				assert.Equal(t, now, lease.Renewed)
				assert.Equal(t, now.Add(-time.Duration(n)*3*time.Second), lease.Acquired)
				assert.Equal(t, ttl, lease.Left)
				stored(t, sim, lease)
				now = set(now.Add(3 * time.Second))
				renewed := renew(t, st, c)
				require.NoError(t, renewed.Err)
				lease = renewed.Lease
			}
			set(lease.Expires.Add(-time.Microsecond))
			_, err := open(t, sim, "timezone=Asia/Seoul").Acquire(t.Context(), claim("job", time.Second))
			require.ErrorIs(t, err, store.ErrHeld)
			set(lease.Expires)
			grant(t, open(t, sim, "timezone=Asia/Seoul"), claim("job", time.Second))
			assert.Zero(t, dated.Count(), "no statement brings a time of the client's")
		})
	}
}

// stored compares the columns of a row, which are UTC as their names say, with the lease.
func stored(t *testing.T, sim *mssqlsim.Server, lease store.Lease) {
	t.Helper()
	var at [3]time.Time
	require.NoError(t, database(t, sim).QueryRow("SELECT AcquiredAtUtc, RenewedAtUtc, ExpiresAtUtc FROM lease.Leases WHERE LeaseName = @p1", lease.Name).
		Scan(&at[0], &at[1], &at[2]))
	for n, want := range []time.Time{lease.Acquired, lease.Renewed, lease.Expires} {
		_, offset := at[n].Zone()
		assert.Zero(t, offset)
		assert.True(t, at[n].Equal(want), "%v, not %v", at[n], want)
		assert.Equal(t, time.UTC, want.Location())
	}
}

// TestSweep deletes what has expired, and only that.
func TestSweep(t *testing.T) {
	t.Parallel()
	sim := server(t)
	db := database(t, sim)
	open(t, sim)
	st := ready(t, sim)
	for n := range 250 {
		exec(t, db, `INSERT INTO lease.Leases (LeaseName, OwnerInstanceId, AcquiredAtUtc, RenewedAtUtc, ExpiresAtUtc)
			VALUES (@p1, N'x', SYSUTCDATETIME(), SYSUTCDATETIME(), SYSUTCDATETIME());`, fmt.Sprint("old ", n))
	}
	gate := sim.Node.Gate(engine.BeforeStatement, engine.Match{Contains: "DELETE FROM [lease]"})
	defer gate.Open()
	grant(t, st, claim("job", time.Hour))
	<-gate.Arrived() // the sweep has read its names
	revived := store.Claim{Name: "old 1", Owner: store.NewOwner("test"), TTL: time.Hour}
	grant(t, st, revived)
	gate.Open()
	count := func() (n int) {
		require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM lease.Leases WHERE LeaseName <> @p1", "job").Scan(&n))
		return n
	}
	require.Eventually(t, func() bool { return count() <= 51 }, 10*time.Second, time.Millisecond, "200 at a time")
	grant(t, st, claim("another", time.Hour)) // no second sweep so soon
	require.NoError(t, renew(t, st, revived).Err, "the sweep judges again what it deletes")
}
