package lease

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/clock"
	"github.com/aaravsoft/leasehold/internal/faultstore"
	"github.com/aaravsoft/leasehold/store"
)

func TestTrust(t *testing.T) {
	bubble(t, "CLK-06 it counts from before the send", func(r *rig) {
		r.faults.Add(faultstore.Fault{Ops: faultstore.All, Delay: 600 * time.Millisecond})
		l := r.held()
		r.sleepUntil(600 * time.Millisecond)
		assert.Equal(r, trust-600*time.Millisecond, l.Remaining())
		require.NoError(r, l.TryRenew(r.Context()))
		assert.Equal(r, trust-600*time.Millisecond, l.Remaining())
	})
	bubble(t, "SAF-03 it ends at D, and status and renewal agree", func(r *rig) {
		l := r.held()
		for range 10_000 {
			left := l.Remaining()
			require.Equal(r, max(0, trust-time.Since(r.start)), left)
			if left == 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		require.Equal(r, trust, time.Since(r.start))
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrLost)
		r.requireCalls(1, 0, 0)
	})
	bubble(t, "the last nanosecond of it", func(r *rig) {
		l := r.held()
		r.sleepUntil(trust - 1)
		require.NoError(r, l.TryRenew(r.Context()))
		assert.Equal(r, trust, l.Remaining())
	})
	bubble(t, "SAF-07 a renewal whose answer comes too late", func(r *rig) {
		l, b := r.held(), r.other()
		r.sleepUntil(2 * time.Second)
		r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, Delay: 750 * time.Millisecond, Times: 1})
		expires := l.ExpiresAt()
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrLost)
		assert.Equal(r, 2750*time.Millisecond, time.Since(r.start))
		assert.Equal(r, expires, l.ExpiresAt())
		assert.Zero(r, l.Remaining())
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrLost)
		r.requireCalls(1, 1, 0) // it is final

		r.requireRowOf(l) // work may still be running under it
		require.ErrorIs(r, b.TryAcquire(r.Context()), store.ErrHeld)
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrLost)
		r.requireCalls(1, 1, 1)
		require.NoError(r, b.TryAcquire(r.Context()), "nobody waits for the rest of the TTL")
	})
	bubble(t, "SAF-06 an expired row is not revived", func(r *rig) {
		l := r.held()
		first, _ := r.row()
		r.sleepUntil(3500 * time.Millisecond)
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrLost)
		row, _ := r.row()
		assert.Equal(r, first.Expires, row.Expires)
		require.NoError(r, l.TryAcquire(r.Context()))
		row, _ = r.row()
		assert.Equal(r, r.start.Add(3500*time.Millisecond).UTC(), row.Acquired)
	})
	bubble(t, "a new tenure first deletes the row of the one that ended without a release", func(r *rig) {
		l := r.held()
		token := l.Token()
		r.sleepUntil(trust)
		require.ErrorIs(r, l.TryAcquire(r.Context()), store.ErrLost, "first it is told: the work must stop")
		r.requireRowOf(l)
		r.requireCalls(1, 0, 0)
		r.faults.Add(faultstore.Fault{Ops: faultstore.Release, Fail: errNotSent, Times: 1})
		require.ErrorIs(r, l.TryAcquire(r.Context()), store.ErrUnavailable)
		r.requireCalls(1, 0, 1)
		require.NoError(r, l.TryAcquire(r.Context()))
		r.requireCalls(2, 0, 2)
		assert.Greater(r, l.Token(), token)
		assert.Equal(r, trust, l.Remaining())
	})
	bubble(t, "REN-01 failed renewals cost nothing while there is trust", func(r *rig) {
		l := r.held()
		r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, Fail: errNotSent, Times: 2})
		for range 2 {
			time.Sleep(time.Second)
			require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrUnavailable)
		}
		assert.Equal(r, 700*time.Millisecond, l.Remaining())
		require.NoError(r, l.TryRenew(r.Context()))
		assert.Equal(r, trust, l.Remaining())
	})
	bubble(t, "REN-09 the answer of a renewal is lost", func(r *rig) {
		l := r.held()
		r.sleepUntil(time.Second)
		r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, Lose: errUnclear, Times: 1})
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrUnclear)
		assert.Equal(r, trust-time.Second, l.Remaining())
		r.sleepUntil(1200 * time.Millisecond)
		require.NoError(r, l.TryRenew(r.Context()))
		assert.Equal(r, trust, l.Remaining())
	})
}

func TestLateAnswersOfRenewals(t *testing.T) {
	late := func(r *rig) *Lease {
		l := r.held()
		r.sleepUntil(time.Second)
		r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, HangAfter: true, Times: 1})
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrUnclear)
		require.Equal(r, 1900*time.Millisecond, time.Since(r.start))
		require.Equal(r, trust-1900*time.Millisecond, l.Remaining())
		return l
	}
	bubble(t, "in time", func(r *rig) {
		l := late(r)
		r.sleepUntil(2600 * time.Millisecond)
		r.faults.Free()
		synctest.Wait()
		assert.Equal(r, time.Second+trust, 2600*time.Millisecond+l.Remaining())
		row, _ := r.row()
		assert.Equal(r, row.Expires, l.ExpiresAt())
	})
	bubble(t, "after the end of trust", func(r *rig) {
		l := late(r)
		r.sleepUntil(trust)
		r.faults.Free()
		synctest.Wait()
		assert.Zero(r, l.Remaining())
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrLost)
	})
	bubble(t, "after a newer one", func(r *rig) {
		l := late(r)
		require.NoError(r, l.TryRenew(r.Context()))
		expires := l.ExpiresAt()
		r.faults.Free()
		synctest.Wait()
		assert.Equal(r, trust, l.Remaining())
		assert.Equal(r, expires, l.ExpiresAt())
	})
	bubble(t, "after the release", func(r *rig) {
		l := late(r)
		require.NoError(r, l.TryRelease(r.Context()))
		r.faults.Free()
		synctest.Wait()
		assert.Zero(r, l.Remaining())
	})
	bubble(t, "SAF-02 not yours", func(r *rig) {
		l := r.held()
		r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, HangBefore: true, Times: 1})
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrUnclear)
		_, err := r.mem.Break(r.Context(), "job", l.Owner())
		require.NoError(r, err)
		assert.Positive(r, l.Remaining())
		r.faults.Free()
		synctest.Wait()
		assert.Zero(r, l.Remaining())
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrLost)
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrLost)
		r.requireCalls(1, 1, 0)
	})
}

// A bubble cannot make the clocks diverge, so these tests turn them by hand.
func TestDivergingClocks(t *testing.T) {
	diverging := func(t *testing.T, name string, f func(r *rig, now *clock.Instant, l *Lease)) {
		bubble(t, name, func(r *rig) {
			now := &clock.Instant{Mono: time.Hour, Suspended: time.Minute, Wall: 20000 * time.Hour}
			l, err := newLease(func() clock.Instant { return *now }, r.faults, "job", "me", ttl)
			require.NoError(r, err)
			require.NoError(r, l.TryAcquire(r.Context()))
			f(r, now, l)
		})
	}
	diverging(t, "SAF-05 the machine was suspended", func(r *rig, now *clock.Instant, l *Lease) {
		now.Suspended += trust - 1
		assert.EqualValues(r, 1, l.Remaining())
		now.Suspended++
		assert.Zero(r, l.Remaining())
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrLost)
		r.requireCalls(1, 0, 0)
	})
	diverging(t, "CLK-05 the wall clock is set back", func(r *rig, now *clock.Instant, l *Lease) {
		now.Mono += time.Second
		now.Wall += time.Second - time.Hour
		assert.Equal(r, trust-time.Second, l.Remaining(), "it stretches nothing")
		require.NoError(r, l.TryRenew(r.Context()))
		assert.Equal(r, trust, l.Remaining(), "and does not keep renewals from counting")
		*now = now.Add(2 * time.Second)
		require.NoError(r, l.TryRenew(r.Context()))
		assert.Equal(r, trust, l.Remaining())
	})
	diverging(t, "CLK-05 the wall clock is set forward", func(r *rig, now *clock.Instant, l *Lease) {
		now.Wall += time.Hour
		assert.Zero(r, l.Remaining())
		now.Wall -= time.Hour
		assert.Zero(r, l.Remaining(), "once zero, it stays zero")
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrLost)
	})
	diverging(t, "suspended while a renewal was under way", func(r *rig, now *clock.Instant, l *Lease) {
		r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, After: func() { now.Suspended += trust }, Times: 1})
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrLost)
	})
	diverging(t, "SAF-07 suspended while an acquire was under way", func(r *rig, now *clock.Instant, l *Lease) {
		require.NoError(r, l.TryRelease(r.Context()))
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, After: func() { now.Suspended += trust }, Times: 1})
		token := l.Token()
		err := l.TryAcquire(r.Context())
		require.ErrorIs(r, err, store.ErrUnavailable)
		require.ErrorIs(r, err, store.ErrUnclear)
		assert.Zero(r, l.Remaining())
		assert.Equal(r, token, l.Token(), "that was no grant")
		owner := l.Owner()
		require.NoError(r, l.TryAcquire(r.Context()), "it recognises its row")
		assert.Equal(r, owner, l.Owner())
		assert.Equal(r, trust, l.Remaining())
	})
}
