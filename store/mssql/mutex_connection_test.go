package mssql_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	mssqldb "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/mssql"
)

// numbers are the engine's, of an error.
func numbers(err error) (list []int32) {
	e, _ := errors.AsType[mssqldb.Error](err)
	for _, one := range e.All {
		list = append(list, one.Number)
	}
	return list
}

// TestRoundTrips counts the requests that the server reads.
func TestRoundTrips(t *testing.T) {
	t.Parallel()
	sim := server(t)
	st := ready(t, sim)
	locks := client(t, st, steady)
	requests := func(do func()) int64 {
		before := sim.Wire.Stats().Requests
		do()
		return sim.Wire.Stats().Requests - before
	}
	sweep := sim.Wire.Inject(tds.Fault{Match: tds.Match{SQL: "@expired"}, Place: tds.AtReply})
	first, err := locks.Lock(t.Context(), "first") // sweeps, once in 30 seconds
	require.NoError(t, err)
	require.NoError(t, sweep.Reached(t.Context(), 1))
	require.NoError(t, first.Unlock())

	t.Run("Lock and Unlock are two", func(t *testing.T) {
		assert.EqualValues(t, 2, requests(func() {
			g, err := locks.Lock(t.Context(), "job")
			require.NoError(t, err)
			require.NoError(t, g.Unlock())
		}))
	})
	t.Run("a refused TryLock is one", func(t *testing.T) {
		grant(t, st, claim("taken", time.Hour))
		assert.EqualValues(t, 1, requests(func() {
			_, err := locks.TryLock(t.Context(), "taken")
			require.ErrorIs(t, err, mutex.ErrHeld)
		}))
	})
	t.Run("a thousand renewals are two", func(t *testing.T) {
		var claims []store.Claim
		for n := range 2 * store.MaxBatch {
			claims = append(claims, claim(fmt.Sprint("many ", n), time.Hour))
			grant(t, st, claims[n])
		}
		_, err := st.Renew(t.Context(), claims[:2]) // asks once for the collation
		require.NoError(t, err)
		assert.EqualValues(t, 2, requests(func() {
			for ; len(claims) > 0; claims = claims[store.MaxBatch:] {
				results, err := st.Renew(t.Context(), claims[:store.MaxBatch])
				require.NoError(t, err)
				for _, r := range results {
					require.NoError(t, r.Err)
				}
			}
		}))
	})
}

// TestThousandGuards counts the renewals of a client that holds a thousand locks.
func TestThousandGuards(t *testing.T) {
	t.Parallel()
	sim := server(t)
	locks := client(t, ready(t, sim), mutex.Config{TTL: 6 * time.Second, Renew: 2 * time.Second})
	var held [1000]*mutex.Guard
	var wait sync.WaitGroup
	for n := range 8 {
		wait.Go(func() {
			for i := n; i < len(held); i += 8 {
				g, err := locks.Lock(t.Context(), fmt.Sprint("job ", i))
				if assert.NoError(t, err) {
					held[i] = g
				}
			}
		})
	}
	wait.Wait()
	renewals := sim.Wire.Inject(tds.Fault{Match: tds.Match{SQL: "UPDATE l SET RenewedAtUtc"}, Place: tds.AtRequest})
	defer renewals.Off()
	// The first round may be several small ones, for a lock that was taken in the middle of one is due in the next.
	require.NoError(t, renewals.Reached(t.Context(), 4))
	counted := renewals.Count()
	<-time.After(6 * time.Second)
	counted = renewals.Count() - counted
	assert.Positive(t, counted)
	assert.LessOrEqual(t, counted, 2*4, "three rounds in 6 seconds, or a little more, of two requests each")
	for _, g := range held {
		require.NoError(t, g.Err())
		wait.Go(func() { assert.NoError(t, g.Unlock()) })
	}
	wait.Wait()
}

// TestPools is about pools that the application has made.
func TestPools(t *testing.T) {
	t.Parallel()
	t.Run("CON-03 a pool of one", func(t *testing.T) {
		t.Parallel()
		sim := server(t)
		db := database(t, sim)
		db.SetMaxOpenConns(1)
		st, err := mssql.New(db, mssql.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, st.Close()) })
		require.NoError(t, st.EnsureSchema(t.Context()))
		log := &strings.Builder{}
		cfg := brief
		cfg.Logger = slog.New(slog.NewTextHandler(&locked{to: log}, &slog.HandlerOptions{Level: slog.LevelWarn}))
		locks := client(t, st, cfg)
		assert.Equal(t, 1, strings.Count(log.String(), "the pool has one connection"), "said once")
		g, err := locks.Lock(t.Context(), "job")
		require.NoError(t, err)
		second := make(chan *mutex.Guard, 1)
		go func() {
			defer close(second)
			if g, err := locks.Lock(t.Context(), "job"); assert.NoError(t, err) {
				second <- g
			}
		}()
		others := make([]*mutex.Guard, 20)
		var wait sync.WaitGroup
		for n := range others {
			wait.Go(func() {
				g, err := locks.Lock(t.Context(), fmt.Sprint("other ", n))
				if assert.NoError(t, err) {
					others[n] = g
				}
			})
		}
		wait.Wait()
		<-time.After(1500 * time.Millisecond) // five renewals
		require.NoError(t, g.Err())
		require.NoError(t, st.EnsureSchema(t.Context()))
		require.NoError(t, g.Unlock())
		require.NoError(t, (<-second).Unlock())
		for _, g := range others {
			assert.NoError(t, g.Unlock())
		}
	})

	t.Run("a pool that the application has used up costs the guard at D, not later", func(t *testing.T) {
		t.Parallel()
		sim := server(t)
		db := database(t, sim)
		db.SetMaxOpenConns(2)
		st, err := mssql.New(db, mssql.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, st.Close()) })
		require.NoError(t, st.EnsureSchema(t.Context()))
		locks := client(t, st, brief)
		g, err := locks.Lock(t.Context(), "job")
		require.NoError(t, err)
		left, began := g.Remaining(), time.Now()
		for range 2 {
			conn, err := db.Conn(t.Context())
			require.NoError(t, err)
			defer conn.Close()
		}
		<-g.Context().Done()
		assert.ErrorIs(t, context.Cause(g.Context()), mutex.ErrLost)
		assert.Less(t, time.Since(began), left+brief.Renew+late, "a renewal may just have been answered")
		began = time.Now()
		assert.ErrorIs(t, g.Unlock(), mutex.ErrLost)
		assert.Less(t, time.Since(began), late)
	})

	t.Run("CON-02 many calls cancelled while they wait for a lock", func(t *testing.T) {
		t.Parallel()
		sim := server(t)
		db, blocker := database(t, sim), database(t, sim)
		db.SetMaxOpenConns(1)
		st, err := mssql.New(db, mssql.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, st.Close()) })
		require.NoError(t, st.EnsureSchema(t.Context()))
		c := claim("job", time.Hour)
		grant(t, st, c)
		tx, err := blocker.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), "UPDATE lease.Leases SET Metadata = @p1 WHERE LeaseName = N'job'", "blocked")
		require.NoError(t, err)
		locks := client(t, st, steady)
		for range 50 {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			_, err := locks.Lock(ctx, "job")
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		require.NoError(t, tx.Rollback())
		require.NoError(t, release(t, st, c).Err)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		g, err := locks.Lock(ctx, "job")
		require.NoError(t, err)
		require.NoError(t, g.Unlock())
	})
}

// TestOutages are those that end by themselves.
func TestOutages(t *testing.T) {
	t.Parallel()
	t.Run("CON-04 a server restarts with many idle connections", func(t *testing.T) {
		t.Parallel()
		sim := server(t)
		db := database(t, sim)
		db.SetMaxIdleConns(20)
		st, err := mssql.New(db, mssql.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, st.Close()) })
		require.NoError(t, st.EnsureSchema(t.Context()))
		var idle [20]interface{ Close() error }
		for n := range idle {
			idle[n], err = db.Conn(t.Context())
			require.NoError(t, err)
		}
		for _, conn := range idle {
			require.NoError(t, conn.Close())
		}
		locks := client(t, st, mutex.Config{TTL: 3 * time.Second, Renew: time.Second})
		var held []*mutex.Guard
		for n := range 10 {
			g, err := locks.Lock(t.Context(), fmt.Sprint("job ", n))
			require.NoError(t, err)
			held = append(held, g)
		}
		sim.Wire.Refuse()
		sim.Disconnect(tds.FIN)
		<-time.After(time.Second)
		sim.Wire.Listen()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		g, err := locks.Lock(ctx, "new")
		require.NoError(t, err)
		require.NoError(t, g.Unlock())
		<-time.After(2500 * time.Millisecond) // beyond the lease that was running when the server went away
		for _, g := range held {
			assert.NoError(t, g.Unlock())
		}
	})

	t.Run("CON-05 idle connections are closed", func(t *testing.T) {
		t.Parallel()
		sim := server(t)
		log := &strings.Builder{}
		locks := client(t, ready(t, sim), mutex.Config{TTL: 3 * time.Second, Renew: time.Second,
			Logger: slog.New(slog.NewTextHandler(&locked{to: log}, &slog.HandlerOptions{Level: slog.LevelError}))})
		g, err := locks.Lock(t.Context(), "job")
		require.NoError(t, err)
		for range 4 { // each renewal finds its connection closed
			<-time.After(time.Second)
			sim.Disconnect(tds.FIN)
			require.NoError(t, g.Err())
		}
		require.NoError(t, g.Unlock())
		assert.Empty(t, log.String())
	})

	for _, n := range []int32{40613, 40197, 40501, 10928, 10929, 49918, 4221} {
		t.Run(fmt.Sprintf("CON-06 error %d at each login for a while", n), func(t *testing.T) {
			t.Parallel()
			sim := server(t)
			ready(t, sim)
			waitsOut(t, sim, sim.Wire.Inject(tds.Fault{Place: tds.AtLogin, Effect: tds.Fail(tds.Message{Number: n, Class: 14, Text: "try again"})}).Off)
		})
	}

	t.Run("REP-02 the database is in no role, then not readable, then back", func(t *testing.T) {
		t.Parallel()
		sim := server(t)
		ready(t, sim)
		sim.Node.SetState(engine.Resolving)
		st := open(t, sim)
		locks := client(t, st, steady)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := locks.Lock(ctx, "job")
		require.ErrorIs(t, err, mutex.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, mutex.ErrHeld)
		assert.Contains(t, numbers(err), int32(983))
		time.AfterFunc(300*time.Millisecond, func() { sim.Node.SetState(engine.Unreadable) })
		waitsOut(t, sim, func() { sim.Node.SetState(engine.Online) })
	})

	t.Run("REP-01 the pool's server has become read-only, another one is primary", func(t *testing.T) {
		t.Parallel()
		sim := server(t)
		st := ready(t, sim)
		locks := client(t, st, brief)
		g, err := locks.Lock(t.Context(), "job")
		require.NoError(t, err)
		logins := sim.Wire.Stats().Logins
		// What is connected now gets 3906, what connects later does not.
		newest := tds.ConnID(sim.Wire.Stats().Accepted)
		old := sim.Wire.Inject(tds.Fault{Match: tds.Match{Func: func(s tds.Subject) bool { return s.Conn <= newest }}, Place: tds.AtRequest,
			Effect: tds.Fail(tds.Message{Number: 3906, Class: 16, Text: "Failed to update database because the database is read-only."})})
		defer old.Off()
		<-time.After(brief.TTL)
		require.NoError(t, g.Err(), "renewed on a new connection")
		other, err := locks.Lock(t.Context(), "other")
		require.NoError(t, err)
		require.NoError(t, other.Unlock())
		require.NoError(t, g.Unlock())
		assert.LessOrEqual(t, old.Count(), 2, "no connection is used again that has said so")
		assert.Greater(t, sim.Wire.Stats().Logins, logins)
	})
}

// waitsOut has a Lock wait until an outage ends, which it does after 600 ms.
func waitsOut(t *testing.T, sim *mssqlsim.Server, end func()) {
	t.Helper()
	st := open(t, sim)
	locks := client(t, st, steady)
	time.AfterFunc(600*time.Millisecond, end)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	g, err := locks.Lock(ctx, "job")
	require.NoError(t, err)
	require.NoError(t, g.Unlock())
}

// locked is a writer for several goroutines.
type locked struct {
	mu sync.Mutex
	to *strings.Builder
}

func (l *locked) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(b)
}

// TestShare is rule 14: however many acquisitions hang, renewals and releases have connections.
func TestShare(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		open func(t *testing.T, sim *mssqlsim.Server) *mssql.Store
		most int
	}{
		"an own pool: a third of it": {func(t *testing.T, sim *mssqlsim.Server) *mssql.Store { return ready(t, sim) }, 16},
		"somebody else's pool of three: all but one": {func(t *testing.T, sim *mssqlsim.Server) *mssql.Store {
			db := database(t, sim)
			db.SetMaxOpenConns(3)
			st, err := mssql.New(db, mssql.Config{})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, st.Close()) })
			require.NoError(t, st.EnsureSchema(t.Context()))
			return st
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			sim := server(t)
			st := test.open(t, sim)
			held := claim("held", time.Minute)
			grant(t, st, held)
			hanging := sim.Wire.Inject(tds.Fault{Match: acquisitions, Place: tds.AtRequest, Effect: tds.Silence()})
			ctx, cancel := context.WithCancel(t.Context())
			var wait sync.WaitGroup
			for n := range 40 {
				wait.Go(func() {
					_, err := st.Acquire(ctx, claim(fmt.Sprint("wanted ", n), time.Minute))
					assert.ErrorIs(t, err, context.Canceled)
				})
			}
			require.NoError(t, hanging.Reached(t.Context(), test.most))
			for range 3 {
				began := time.Now()
				require.NoError(t, renew(t, st, held).Err)
				assert.Less(t, time.Since(began), late)
			}
			require.NoError(t, release(t, st, held).Err)
			assert.Equal(t, test.most, hanging.Count())
			cancel()
			hanging.Off()
			wait.Wait()
		})
	}
}
