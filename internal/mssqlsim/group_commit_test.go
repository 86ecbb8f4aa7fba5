package mssqlsim_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
)

func TestGroupCommits(t *testing.T) {
	t.Run("a synchronous secondary has what was acknowledged", func(t *testing.T) {
		g, db := group(t, mssqlsim.GroupOptions{SessionTimeout: 5 * time.Second})
		g.SetLag("b", 30*time.Millisecond)
		before := time.Now()
		require.NoError(t, put(t.Context(), db, "job"))
		assert.GreaterOrEqual(t, time.Since(before), 30*time.Millisecond)
		assert.Equal(t, g.Status("a").Hardened, g.Status("b").Hardened)
		assert.True(t, g.Synchronized("b"))
	})

	t.Run("hardened is not yet seen, and not lost", func(t *testing.T) {
		g, db := group(t, mssqlsim.GroupOptions{})
		g.SetRedoLag("b", frozen)
		second := connect(t, g.NodeDSN("b"))
		require.NoError(t, put(t.Context(), db, "job"))
		assert.Equal(t, g.Status("a").Hardened, g.Status("b").Hardened)
		assert.Zero(t, count(t, second, "job"))
		require.NoError(t, g.ForceFailover("b"))
		assert.Equal(t, 1, count(t, connect(t, g.DSN()), "job"))
	})

	t.Run("a secondary that is late is silently not waited for, until it has caught up", func(t *testing.T) {
		g, db := group(t, mssqlsim.GroupOptions{SessionTimeout: 40 * time.Millisecond})
		g.SetLag("b", frozen)
		before := time.Now()
		require.NoError(t, put(t.Context(), db, "one"))
		assert.GreaterOrEqual(t, time.Since(before), 40*time.Millisecond)
		assert.False(t, g.Synchronized("b"))
		assert.True(t, g.Synchronized("c"))
		assert.Equal(t, 1, g.Status("b").Fallbacks)
		require.NoError(t, put(t.Context(), db, "two"))
		assert.Equal(t, 1, g.Status("b").Fallbacks, "it was not waited for any more")
		assert.Error(t, g.Failover("b"))
		g.SetLag("b", 0)
		require.NoError(t, g.WaitSynchronized(within(t), "b"))
		require.NoError(t, g.Failover("b"))
	})

	t.Run("an asynchronous one is never waited for, nor is anybody by an asynchronous primary", func(t *testing.T) {
		options := asynchronous()
		options.SessionTimeout = time.Minute
		options.Nodes = append(options.Nodes, mssqlsim.NodeOptions{Name: "c"})
		g, db := group(t, options)
		g.SetLag("b", frozen)
		require.NoError(t, put(within(t), db, "one"))
		assert.False(t, g.Synchronized("b"))
		assert.Error(t, g.Failover("b"))
		require.NoError(t, g.ForceFailover("b"))
		g.Resume("c")
		applied(t, g, "c")
		assert.False(t, g.Synchronized("c"))
		g.SetLag("c", frozen)
		require.NoError(t, put(within(t), connect(t, g.DSN()), "two"))
	})

	t.Run("required secondaries are waited for until the client gives up, and it is committed all the same", func(t *testing.T) {
		g, db := group(t, mssqlsim.GroupOptions{SessionTimeout: 20 * time.Millisecond})
		g.SetRequiredSecondaries(1)
		g.SetLag("b", frozen)
		require.NoError(t, put(t.Context(), db, "one"), "c is enough")
		g.SetLag("c", frozen)
		ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, put(ctx, db, "two"), context.DeadlineExceeded)
		assert.Equal(t, 1, count(t, db, "two"))
		_, waiting := g.Node("a").Node.Locks()
		assert.Zero(t, waiting)

		done := make(chan error, 1)
		go func() { done <- put(t.Context(), db, "three") }()
		require.Eventually(t, func() bool { return g.Status("a").Applied == g.Status("b").Applied+3 }, 5*time.Second, time.Millisecond)
		g.SetLag("c", 0)
		require.NoError(t, <-done)
	})
}
