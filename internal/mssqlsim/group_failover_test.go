package mssqlsim_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
)

// unacknowledged commits a row of which its client is never told, and waits until a secondary shows it.
func unacknowledged(t *testing.T, g *mssqlsim.Group, db *sql.DB, name, shown string) {
	t.Helper()
	before := g.Status(shown).Applied
	done := make(chan error, 1)
	go func() { done <- put(context.WithoutCancel(t.Context()), db, name) }()
	t.Cleanup(func() { assert.Error(t, <-done) })
	require.Eventually(t, func() bool { return g.Status(shown).Applied > before }, 5*time.Second, time.Millisecond)
}

func TestGroupFailsOver(t *testing.T) {
	t.Run("planned: the listener follows, nothing is lost, row versions go on, the old primary is a secondary", func(t *testing.T) {
		g, db := group(t, mssqlsim.GroupOptions{})
		direct := connect(t, g.NodeDSN("a"))
		require.NoError(t, put(t.Context(), db, "one"))
		require.NoError(t, g.Failover("b"))
		assert.Equal(t, "b", g.Primary())
		assert.Equal(t, "b", server(t, db))
		assert.Equal(t, 1, count(t, db, "one"))
		require.NoError(t, put(t.Context(), db, "two"))
		assert.Greater(t, version(t, db, "two"), version(t, db, "one"))
		applied(t, g, "a")
		assert.Equal(t, 1, count(t, direct, "two"))
		assert.Equal(t, int32(3906), number(t, put(t.Context(), direct, "three")))
		applied(t, g, "c")
		assert.Equal(t, g.Status("b").Applied, g.Status("c").Applied)
		require.NoError(t, g.WaitSynchronized(within(t), "a"))
		require.NoError(t, g.Failover("a"))
		assert.Equal(t, "a", server(t, db))
	})

	t.Run("planned: a table without a key takes more rows", func(t *testing.T) {
		g, db := group(t, mssqlsim.GroupOptions{})
		run(t, db, `CREATE TABLE Heap (n INT NOT NULL); INSERT INTO Heap (n) VALUES (@p1), (2);`, 1)
		require.NoError(t, g.Failover("b"))
		run(t, db, `INSERT INTO Heap (n) VALUES (@p1);`, 3)
		assert.Equal(t, 3, ask[int](t, db, `SELECT COUNT(*) FROM Heap WHERE n > @p1;`, 0))
	})

	t.Run("planned: an open transaction is gone, whatever it does", func(t *testing.T) {
		g, db := group(t, mssqlsim.GroupOptions{})
		tx, err := db.BeginTx(context.Background(), nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), insert, "job", "x", 30)
		require.NoError(t, err)
		require.NoError(t, g.Failover("b"))
		require.Error(t, tx.Commit())
		assert.Zero(t, count(t, db, "job"))
		require.NoError(t, put(t.Context(), db, "job"))
	})

	t.Run("planned: under load nothing acknowledged is lost", func(t *testing.T) {
		g, db := group(t, mssqlsim.GroupOptions{})
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		acknowledged := make(chan string, 100_000)
		for worker := range 4 {
			wg.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					name := fmt.Sprintf("%d/%d", worker, i)
					if put(context.WithoutCancel(ctx), db, name) == nil {
						acknowledged <- name
					}
				}
			})
		}
		for _, to := range []string{"b", "c", "a"} {
			start := len(acknowledged)
			require.Eventually(t, func() bool { return len(acknowledged) > start+20 }, 5*time.Second, time.Millisecond)
			require.NoError(t, g.WaitSynchronized(within(t), to))
			require.NoError(t, g.Failover(to))
		}
		stop()
		wg.Wait()
		close(acknowledged)
		for name := range acknowledged {
			require.Equal(t, 1, count(t, db, name), name)
		}
	})

	t.Run("983 while nobody serves", func(t *testing.T) {
		g, _ := group(t, mssqlsim.GroupOptions{Resolving: time.Hour})
		done := make(chan error, 1)
		go func() { done <- g.Failover("b") }()
		require.Eventually(t, func() bool { return g.Primary() == "b" }, 5*time.Second, time.Millisecond)
		assert.Contains(t, numbers(t, connect(t, g.DSN()).PingContext(t.Context())), int32(983))
		assert.Contains(t, numbers(t, connect(t, g.NodeDSN("a")).PingContext(t.Context())), int32(983))
		g.Close()
		require.NoError(t, <-done, "it waits no longer")
	})

	t.Run("who serves after that", func(t *testing.T) {
		g, db := group(t, mssqlsim.GroupOptions{Resolving: 20 * time.Millisecond})
		before := time.Now()
		require.NoError(t, g.Failover("b"))
		assert.GreaterOrEqual(t, time.Since(before), 20*time.Millisecond)
		assert.Equal(t, "b", server(t, db))
	})

	t.Run("automatic: the primary is down, and follows when it is back", func(t *testing.T) {
		g, db := group(t, mssqlsim.GroupOptions{})
		require.NoError(t, put(t.Context(), db, "one"))
		g.Down("a")
		for _, dsn := range []string{g.NodeDSN("a"), g.DSN()} {
			err := connect(t, dsn).PingContext(t.Context())
			require.Error(t, err)
			_, answered := errors.AsType[mssql.Error](err)
			assert.False(t, answered, "%v", err)
		}
		require.NoError(t, g.Failover("b"))
		require.NoError(t, put(t.Context(), db, "two"))
		g.Up("a")
		applied(t, g, "a")
		assert.Equal(t, 1, count(t, connect(t, g.NodeDSN("a")), "two"))
	})

	t.Run("automatic: a third node that was ahead loses what the new primary has not", func(t *testing.T) {
		g, db := group(t, mssqlsim.GroupOptions{SessionTimeout: time.Hour})
		g.SetLag("b", frozen)
		unacknowledged(t, g, db, "lost", "c")
		g.Down("a")
		require.NoError(t, g.Failover("b"))
		g.SetLag("b", 0)
		require.NoError(t, put(t.Context(), db, "new"))
		applied(t, g, "c")
		third := connect(t, g.NodeDSN("c"))
		assert.Zero(t, count(t, third, "lost"))
		assert.Equal(t, 1, count(t, third, "new"))
	})

	t.Run("planned: what was not yet acknowledged is handed over", func(t *testing.T) {
		g, db := group(t, mssqlsim.GroupOptions{SessionTimeout: time.Hour})
		g.SetLag("b", frozen)
		unacknowledged(t, g, db, "job", "c")
		require.NoError(t, g.Failover("b"))
		assert.Equal(t, 1, count(t, db, "job"))
	})

	t.Run("a primary that was down goes on", func(t *testing.T) {
		g, db := group(t, mssqlsim.GroupOptions{RowVersionReservation: 1000})
		require.NoError(t, put(t.Context(), db, "one"))
		g.Down("a")
		g.Up("a")
		require.NoError(t, put(t.Context(), db, "two"))
		assert.Equal(t, version(t, db, "one")/1000+1, version(t, db, "two")/1000)
		applied(t, g, "b")
	})

	t.Run("a secondary that was down catches up, and is not waited for meanwhile", func(t *testing.T) {
		g, db := group(t, mssqlsim.GroupOptions{SessionTimeout: time.Minute})
		g.Down("b")
		require.NoError(t, put(within(t), db, "job"))
		assert.Error(t, g.Failover("b"))
		g.SetLag("b", frozen)
		g.Up("b")
		assert.False(t, g.Synchronized("b"))
		assert.Error(t, g.Failover("b"), "it has not caught up")
		g.SetLag("b", 0)
		require.NoError(t, g.WaitSynchronized(within(t), "b"))
		require.NoError(t, g.Failover("b"))
		assert.Equal(t, 1, count(t, db, "job"))
	})
}

func TestGroupIsForced(t *testing.T) {
	t.Run("what was not shipped is lost, and its row versions are drawn again", func(t *testing.T) {
		g, db := group(t, asynchronous())
		require.NoError(t, put(t.Context(), db, "kept"))
		applied(t, g, "b")
		g.SetLag("b", frozen)
		require.NoError(t, put(t.Context(), db, "lost"))
		lost := version(t, db, "lost")
		require.NoError(t, g.ForceFailover("b"))
		assert.Equal(t, "b", server(t, db))
		assert.Equal(t, 1, count(t, db, "kept"))
		assert.Zero(t, count(t, db, "lost"))
		require.NoError(t, put(t.Context(), db, "new"))
		assert.Equal(t, lost, version(t, db, "new"))
		assert.Contains(t, numbers(t, connect(t, g.NodeDSN("a")).PingContext(t.Context())), int32(983))
	})

	t.Run("with a reservation they are not, as long as the reservation was shipped", func(t *testing.T) {
		options := asynchronous()
		options.RowVersionReservation = 4000
		g, db := group(t, options)
		g.SetLag("b", frozen)
		require.NoError(t, put(t.Context(), db, "lost"))
		lost := version(t, db, "lost")
		require.NoError(t, g.ForceFailover("b"))
		require.NoError(t, put(t.Context(), db, "new"))
		assert.Greater(t, version(t, db, "new"), lost)
	})

	t.Run("a split: both take writes by their own clocks, and the old one's are thrown away", func(t *testing.T) {
		g, db := group(t, asynchronous())
		old := connect(t, g.NodeDSN("a"))
		stays, err := db.Conn(t.Context())
		require.NoError(t, err)
		defer stays.Close()
		applied(t, g, "b")
		g.Node("b").Node.Step(time.Hour)
		require.NoError(t, g.SplitFailover("b"))
		require.NoError(t, put(t.Context(), old, "job"))
		fresh := connect(t, g.DSN())
		require.NoError(t, put(t.Context(), fresh, "job"), "the other's is not here")
		require.Error(t, g.Failover("a"))
		require.Error(t, g.ForceFailover("a"))
		require.Error(t, g.Rejoin("a"))
		const expires = `SELECT Expires FROM Leases WHERE Name = @p1;`
		apart := ask[time.Time](t, fresh, expires, "job").Sub(ask[time.Time](t, old, expires, "job"))
		assert.InDelta(t, time.Hour.Seconds(), apart.Seconds(), 5)
		require.NoError(t, put(t.Context(), stays, "stays"), "a connection of before the split")
		assert.Equal(t, 1, count(t, old, "stays"))

		g.EndSplit()
		require.Error(t, put(t.Context(), stays, "cut"))
		assert.Equal(t, "b", server(t, db))
		assert.Contains(t, numbers(t, put(t.Context(), old, "more")), int32(983))
		require.NoError(t, g.Rejoin("a"))
		applied(t, g, "a")
		assert.Equal(t, ask[time.Time](t, fresh, expires, "job"), ask[time.Time](t, old, expires, "job"))
		require.NoError(t, put(t.Context(), fresh, "after"))
		applied(t, g, "a")
		assert.Equal(t, 1, count(t, old, "after"))
	})

	t.Run("an old primary that was down at the split comes back and serves", func(t *testing.T) {
		g, _ := group(t, asynchronous())
		g.Down("a")
		require.NoError(t, g.SplitFailover("b"))
		g.Up("a")
		require.NoError(t, put(t.Context(), connect(t, g.NodeDSN("a")), "job"))
		require.NoError(t, put(t.Context(), connect(t, g.DSN()), "job"))
		g.EndSplit()
		require.NoError(t, g.Rejoin("a"))
		applied(t, g, "a")
	})

	t.Run("who rejoins loses its tail at once and gets the rest with its lag", func(t *testing.T) {
		g, db := group(t, asynchronous())
		require.NoError(t, put(t.Context(), db, "kept"))
		applied(t, g, "b")
		g.SetLag("b", frozen)
		require.NoError(t, put(t.Context(), db, "lost"))
		require.NoError(t, g.ForceFailover("b"))
		require.NoError(t, put(t.Context(), db, "new"))
		g.SetLag("a", frozen)
		require.NoError(t, g.Rejoin("a"))
		old := connect(t, g.NodeDSN("a"))
		assert.Equal(t, 1, count(t, old, "kept"))
		assert.Zero(t, count(t, old, "lost"))
		assert.Zero(t, count(t, old, "new"))
		g.SetLag("a", 0)
		applied(t, g, "a")
		assert.Equal(t, 1, count(t, old, "new"))
	})

	t.Run("a third node that was ahead keeps its tail until it is resumed", func(t *testing.T) {
		options := asynchronous()
		options.Nodes = append(options.Nodes, mssqlsim.NodeOptions{Name: "c", Mode: mssqlsim.Asynchronous})
		g, db := group(t, options)
		g.SetLag("b", frozen)
		require.NoError(t, put(t.Context(), db, "lost"))
		applied(t, g, "c")
		require.NoError(t, g.ForceFailover("b"))
		require.NoError(t, put(t.Context(), db, "new"))
		third := connect(t, g.NodeDSN("c"))
		assert.True(t, g.Status("c").Suspended)
		assert.Equal(t, 1, count(t, third, "lost"))
		g.Resume("c")
		applied(t, g, "c")
		assert.Zero(t, count(t, third, "lost"))
		assert.Equal(t, 1, count(t, third, "new"))
	})

	t.Run("required secondaries stop the old primary of a split", func(t *testing.T) {
		g, _ := group(t, mssqlsim.GroupOptions{})
		old := connect(t, g.NodeDSN("a"))
		g.SetRequiredSecondaries(1)
		require.NoError(t, g.SplitFailover("b"))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, put(ctx, old, "job"), context.DeadlineExceeded)
		g.Resume("c")
		fresh := connect(t, g.DSN())
		for _, name := range []string{"one", "two", "three"} {
			require.NoError(t, put(within(t), fresh, name))
		}
		again, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, put(again, old, "again"), context.DeadlineExceeded, "c has as many records, but other ones")
	})
}
