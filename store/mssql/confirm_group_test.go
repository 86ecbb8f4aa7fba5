package mssql_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/simtest"
	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/mssql"
)

// confirming is an asynchronous group of two with a store that has both confirm.
func confirming(t *testing.T) (*mssqlsim.Group, *mssql.Store) {
	t.Helper()
	g := simtest.RunGroup(t, mssqlsim.GroupOptions{Nodes: []mssqlsim.NodeOptions{
		{Name: "a", Mode: mssqlsim.Asynchronous}, {Name: "b", Mode: mssqlsim.Asynchronous}}})
	st, err := mssql.Open(g.DSN(), mssql.Config{Replicas: []string{g.NodeDSN("a"), g.NodeDSN("b")}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	require.NoError(t, st.EnsureSchema(t.Context()))
	require.NoError(t, g.WaitApplied(t.Context(), "b"))
	return g, st
}

// TestConfirm looks at a group in every state that a secondary can be in.
func TestConfirm(t *testing.T) {
	t.Parallel()
	look := func(t *testing.T, st *mssql.Store, l store.Lease) (time.Time, error) {
		t.Helper()
		confirmed, err := st.Confirm(t.Context(), []store.Lease{l})
		require.Len(t, confirmed, 1)
		return confirmed[0], err
	}

	t.Run("REP-04 a secondary that is suspended, and resumed", func(t *testing.T) {
		g, st := confirming(t)
		g.Suspend("b")
		lease := grant(t, st, claim("job", time.Minute))
		confirmed, err := look(t, st, lease)
		require.NoError(t, err)
		assert.Zero(t, confirmed, "the primary has it, the secondary has not")
		g.Resume("b")
		require.NoError(t, g.WaitApplied(t.Context(), "b"))
		confirmed, err = look(t, st, lease)
		require.NoError(t, err)
		assert.Equal(t, lease.Expires, confirmed)
	})

	t.Run("REP-05 a renewal has come before the look, and one that has not", func(t *testing.T) {
		g, st := confirming(t)
		c := claim("job", time.Minute)
		first := grant(t, st, c)
		g.Node("a").Node.Step(10 * time.Second)
		require.NoError(t, renew(t, st, c).Err)
		require.NoError(t, g.WaitApplied(t.Context(), "b"))
		confirmed, err := look(t, st, first)
		require.NoError(t, err)
		assert.True(t, confirmed.After(first.Expires), "a later expiry counts")
		g.Suspend("b")
		g.Node("a").Node.Step(10 * time.Second)
		newest := renew(t, st, c)
		require.NoError(t, newest.Err)
		again, err := look(t, st, newest.Lease)
		require.NoError(t, err)
		assert.Equal(t, confirmed, again, "only up to what the secondary has")
	})

	t.Run("REP-07 a node that cannot be read, is down, or is not there any more", func(t *testing.T) {
		g, st := confirming(t)
		lease := grant(t, st, claim("job", time.Minute))
		require.NoError(t, g.WaitApplied(t.Context(), "b"))
		g.Down("b")
		confirmed, err := look(t, st, lease)
		require.ErrorIs(t, err, store.ErrUnavailable)
		assert.ErrorContains(t, err, "replica 127.0.0.1")
		assert.Zero(t, confirmed)
		g.Up("b")
		require.Eventually(t, func() bool { confirmed, _ := look(t, st, lease); return confirmed.Equal(lease.Expires) }, 5*time.Second, 10*time.Millisecond)
		g.Node("b").Node.SetState(engine.Unreadable)
		confirmed, err = look(t, st, lease)
		require.ErrorIs(t, err, store.ErrUnavailable)
		assert.Contains(t, numbers(err), int32(976))
		assert.Zero(t, confirmed)
	})

	t.Run("REP-03 after a split nothing of the old primary is confirmed that the new one has not", func(t *testing.T) {
		g, _ := confirming(t)
		old, err := mssql.Open(g.NodeDSN("a"), mssql.Config{Replicas: []string{g.NodeDSN("a"), g.NodeDSN("b")}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, old.Close()) })
		_, err = old.Get(t.Context(), "x") // connected to a, whatever becomes of it
		require.ErrorIs(t, err, store.ErrNotFound)
		require.NoError(t, g.SplitFailover("b"))
		lease := grant(t, old, claim("job", time.Minute))
		confirmed, err := look(t, old, lease)
		assert.Zero(t, confirmed)
		require.ErrorIs(t, err, store.ErrUnavailable, "both can be written to")
		fresh, err := mssql.Open(g.DSN(), mssql.Config{Replicas: []string{g.NodeDSN("a"), g.NodeDSN("b")}})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, fresh.Close()) })
		other := grant(t, fresh, claim("job", time.Minute)) // through the listener, at b; st is still connected to a
		assert.NotEqual(t, lease.Owner, other.Owner)
		confirmed, err = look(t, old, lease)
		require.Error(t, err)
		assert.Zero(t, confirmed)
		g.EndSplit()
		require.NoError(t, g.Rejoin("a"))
		require.NoError(t, g.WaitApplied(t.Context(), "a"))
		confirmed, err = look(t, fresh, lease)
		require.NoError(t, err)
		assert.Zero(t, confirmed, "thrown away")
		confirmed, err = look(t, fresh, other)
		require.NoError(t, err)
		assert.Equal(t, other.Expires, confirmed)
	})

	t.Run("a Lock waits for the secondary, and a failover keeps what it has confirmed", func(t *testing.T) {
		g, st := confirming(t)
		locks := client(t, st, mutex.Config{TTL: 5 * time.Second})
		const lag = 300 * time.Millisecond
		g.SetLag("b", lag)
		began := time.Now()
		guard, err := locks.Lock(t.Context(), "job")
		require.NoError(t, err)
		assert.GreaterOrEqual(t, time.Since(began), lag-50*time.Millisecond)
		require.NoError(t, g.ForceFailover("b"))
		_, err = locks.TryLock(t.Context(), "job")
		for ; errors.Is(err, mutex.ErrUnavailable); _, err = locks.TryLock(t.Context(), "job") {
			<-time.After(20 * time.Millisecond)
		}
		assert.ErrorIs(t, err, mutex.ErrHeld)
		another, err := mssql.Open(g.DSN(), mssql.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, another.Close()) })
		_, err = another.Acquire(t.Context(), claim("job", time.Second))
		assert.ErrorIs(t, err, store.ErrHeld, "the new primary knows it")
		require.NoError(t, g.Rejoin("a"))
		<-time.After(4 * time.Second) // renewed and confirmed on the new primary
		require.NoError(t, guard.Err())
		require.NoError(t, guard.Unlock())
	})

	t.Run("REP-04 a Lock that is not confirmed leaves nothing", func(t *testing.T) {
		g, st := confirming(t)
		locks := client(t, st, mutex.Config{TTL: 5 * time.Second, ConfirmTimeout: 300 * time.Millisecond})
		g.Suspend("b")
		_, err := locks.TryLock(t.Context(), "job")
		require.ErrorIs(t, err, mutex.ErrNotConfirmed)
		require.ErrorIs(t, err, mutex.ErrUnavailable)
		gone(t, st, "job")
	})
}
