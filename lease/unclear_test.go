package lease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/faultstore"
	"github.com/aaravsoft/leasehold/store"
)

func TestUnclearAcquire(t *testing.T) {
	lostAnswer := faultstore.Fault{Ops: faultstore.Acquire, Lose: errUnclear, Times: 1}

	bubble(t, "ACQ-04 a retry recognises its own row", func(r *rig) {
		r.faults.Add(lostAnswer)
		l := r.lease()
		require.ErrorIs(r, l.TryAcquire(r.Context()), store.ErrUnclear)
		assert.Zero(r, l.Remaining())
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrLost, "only an acquire can say that it is held")
		r.requireRowOf(l)
		owner := l.Owner()
		require.NoError(r, l.TryAcquire(r.Context()))
		assert.Equal(r, owner, l.Owner())
		r.requireCalls(2, 0, 0)
	})
	bubble(t, "a release cleans up", func(r *rig) {
		r.faults.Add(lostAnswer)
		l := r.lease()
		require.ErrorIs(r, l.TryAcquire(r.Context()), store.ErrUnclear)
		require.NoError(r, l.TryRelease(r.Context()))
		r.requireNoRow()
		owner := l.Owner()
		require.NoError(r, l.TryAcquire(r.Context()))
		assert.NotEqual(r, owner, l.Owner(), "a burnt id is not sent again")
	})
	bubble(t, "a release finds nothing to clean up", func(r *rig) {
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Fail: errUnclear, Times: 1})
		l := r.lease()
		require.ErrorIs(r, l.TryAcquire(r.Context()), store.ErrUnclear)
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrLost)
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrLost)
		r.requireCalls(1, 0, 1)
	})
	bubble(t, "what was certainly not sent leaves nothing to clean up", func(r *rig) {
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Fail: errNotSent, Times: 1})
		l := r.lease()
		owner := l.Owner()
		require.ErrorIs(r, l.TryAcquire(r.Context()), store.ErrUnavailable)
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrLost)
		r.requireCalls(1, 0, 0)
		require.NoError(r, l.TryAcquire(r.Context()))
		assert.Equal(r, owner, l.Owner())
	})
	bubble(t, "it is owed a release, whatever a later attempt said", func(r *rig) {
		b := r.other()
		require.NoError(r, b.TryAcquire(r.Context()))
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Fail: errUnclear, Times: 1}) // on its way, still
		l := r.lease()
		require.ErrorIs(r, l.TryAcquire(r.Context()), store.ErrUnclear)
		require.ErrorIs(r, l.TryAcquire(r.Context()), store.ErrHeld)
		stale := l.claimOf(l.tenure)
		require.NoError(r, b.TryRelease(r.Context()))
		_, err := r.mem.Acquire(r.Context(), stale) // now it arrives
		require.NoError(r, err)
		require.NoError(r, l.TryAcquire(r.Context()))
		r.requireCalls(3, 0, 1)
		assert.NotEqual(r, stale.Owner, l.Owner())
	})
	bubble(t, "a misconfigured store may have applied it", func(r *rig) {
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Lose: &store.MisconfiguredError{Remedy: "grant SELECT"}, Times: 1})
		l := r.lease()
		require.ErrorIs(r, l.TryAcquire(r.Context()), store.ErrMisconfigured)
		require.NoError(r, l.TryRelease(r.Context()))
		r.requireNoRow()
	})
}

func TestAbandonedAcquire(t *testing.T) {
	abandon := func(r *rig) *Lease {
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, HangBefore: true, Times: 1})
		l := r.lease()
		require.ErrorIs(r, l.TryAcquire(r.Context()), store.ErrUnclear)
		require.Equal(r, limit, time.Since(r.start))
		return l
	}
	bubble(t, "ACQ-02 granted after the release: the row goes at once", func(r *rig) {
		l := abandon(r)
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrLost)
		r.faults.Free()
		synctest.Wait()
		r.requireNoRow()
		r.requireCalls(1, 0, 2)
		assert.Zero(r, l.Remaining())
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrLost)
	})
	bubble(t, "ACQ-02 also if its caller has left", func(r *rig) {
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, HangBefore: true, Times: 1})
		l := r.lease()
		ctx, cancel := context.WithTimeout(r.Context(), 60*time.Millisecond)
		defer cancel()
		require.ErrorIs(r, l.TryAcquire(ctx), context.DeadlineExceeded)
		require.ErrorIs(r, l.TryRelease(ctx), store.ErrLost)
		r.faults.Free()
		synctest.Wait()
		r.requireNoRow()
		r.requireCalls(1, 0, 2)
	})
	bubble(t, "it is owed a release before it comes back, whatever a later attempt said", func(r *rig) {
		l, b := abandon(r), r.other()
		require.NoError(r, b.TryAcquire(r.Context()))
		require.ErrorIs(r, l.TryAcquire(r.Context()), store.ErrHeld)
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrLost)
		r.requireCalls(2, 0, 1)
		r.requireRowOf(b)
	})
	bubble(t, "granted after a later attempt was refused: the row goes at once", func(r *rig) {
		l, b := abandon(r), r.other()
		require.NoError(r, b.TryAcquire(r.Context()))
		require.ErrorIs(r, l.TryAcquire(r.Context()), store.ErrHeld)
		require.NoError(r, b.TryRelease(r.Context()))
		r.faults.Free()
		synctest.Wait()
		r.requireNoRow()
		require.NoError(r, b.TryAcquire(r.Context()))
	})
	bubble(t, "granted after a later attempt has lost the lease again: the row goes at once", func(r *rig) {
		l := abandon(r)
		require.NoError(r, l.TryAcquire(r.Context()))
		_, err := r.mem.Release(r.Context(), []store.Claim{l.claimOf(l.tenure)}) // by hand
		require.NoError(r, err)
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrLost)
		r.faults.Free()
		synctest.Wait()
		r.requireNoRow()
	})
	bubble(t, "granted while it is wanted: a retry recognises the row", func(r *rig) {
		l := abandon(r)
		r.faults.Free()
		synctest.Wait()
		r.requireRowOf(l)
		assert.Zero(r, l.Remaining(), "a late answer makes nobody a holder")
		require.NoError(r, l.TryAcquire(r.Context()))
		r.requireRowOf(l)
		r.requireCalls(2, 0, 0)
	})
	bubble(t, "granted while it is held: the row stays", func(r *rig) {
		l := abandon(r)
		require.NoError(r, l.TryAcquire(r.Context()))
		r.faults.Free()
		synctest.Wait()
		r.requireRowOf(l)
		require.NoError(r, l.TryRelease(r.Context()))
		r.requireNoRow()
		r.requireCalls(2, 0, 1)
	})
	bubble(t, "granted after the trust has ended: the row stays under running work", func(r *rig) {
		l := abandon(r)
		require.NoError(r, l.TryAcquire(r.Context()))
		r.sleepUntil(limit + trust)
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrLost)
		r.faults.Free()
		synctest.Wait()
		r.requireRowOf(l)
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrLost)
		r.requireNoRow()
	})
	bubble(t, "refused at last: nothing is owed", func(r *rig) {
		l, b := abandon(r), r.other()
		require.NoError(r, b.TryAcquire(r.Context()))
		r.faults.Free()
		synctest.Wait()
		require.ErrorIs(r, l.TryAcquire(r.Context()), store.ErrHeld)
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrLost)
		r.requireCalls(2, 0, 0)
	})
	bubble(t, "ACQ-02 its caller has left, and its clean-up does not mind", func(r *rig) {
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, HangAfter: true, Times: 1})
		l := r.lease()
		ctx, cancel := context.WithTimeout(r.Context(), 60*time.Millisecond)
		defer cancel()
		require.ErrorIs(r, l.TryAcquire(ctx), context.DeadlineExceeded)
		require.NoError(r, l.TryRelease(ctx))
		require.NoError(r, r.other().TryAcquire(r.Context()))
		assert.Equal(r, 85*time.Millisecond, time.Since(r.start))
	})
}

func TestUnclearRelease(t *testing.T) {
	lostAnswer := faultstore.Fault{Ops: faultstore.Release, Lose: errUnclear, Times: 1}
	notApplied := faultstore.Fault{Ops: faultstore.Release, Fail: errUnclear, Times: 1}

	bubble(t, "the second attempt finds nothing: success", func(r *rig) {
		r.faults.Add(lostAnswer)
		l := r.held()
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrUnclear)
		assert.Zero(r, l.Remaining())
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrLost, "a burnt id is not renewed")
		require.NoError(r, l.TryRelease(r.Context()))
		r.requireCalls(1, 0, 2)
	})
	bubble(t, "a late renewal finds nothing in between: success", func(r *rig) {
		r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, HangBefore: true, Times: 1})
		r.faults.Add(lostAnswer)
		l := r.held()
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrUnclear)
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrUnclear)
		r.faults.Free()
		synctest.Wait()
		require.NoError(r, l.TryRelease(r.Context()))
	})
	bubble(t, "the second attempt finds the next holder: success", func(r *rig) {
		r.faults.Add(lostAnswer)
		l, b := r.held(), r.other()
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrUnclear)
		require.NoError(r, b.TryAcquire(r.Context()))
		require.NoError(r, l.TryRelease(r.Context()))
		r.requireRowOf(b)
	})
	bubble(t, "the second attempt deletes the row after it had expired: lost", func(r *rig) {
		r.faults.Add(notApplied)
		l := r.held()
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrUnclear)
		time.Sleep(ttl)
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrLost)
	})
	bubble(t, "the first was sent after the end of trust: lost", func(r *rig) {
		r.faults.Add(lostAnswer)
		l := r.held()
		r.sleepUntil(trust)
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrUnclear)
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrLost)
		r.requireCalls(1, 0, 2)
	})
	bubble(t, "of a lease that was never held: lost", func(r *rig) {
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Lose: errUnclear, Times: 1})
		r.faults.Add(lostAnswer)
		l := r.lease()
		require.ErrorIs(r, l.TryAcquire(r.Context()), store.ErrUnclear)
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrUnclear)
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrLost)
		r.requireCalls(1, 0, 2)
	})
	bubble(t, "the next acquire deletes the row first", func(r *rig) {
		r.faults.Add(notApplied)
		l := r.held()
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrUnclear)
		require.NoError(r, l.TryAcquire(r.Context()), "it is not refused in its own name")
		r.requireCalls(2, 0, 2)
		r.requireRowOf(l)
	})
}
