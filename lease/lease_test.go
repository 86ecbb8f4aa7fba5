package lease

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/faultstore"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/memory"
)

func TestNewNamesAllProblemsTogether(t *testing.T) {
	_, err := New(nil, " job", "", -time.Second, WithMetadata(strings.Repeat("x", 1025)))
	require.ErrorIs(t, err, store.ErrInvalid)
	for _, what := range []string{"store", "name", "instance", "-1s", "metadata"} {
		assert.ErrorContains(t, err, what)
	}
}

func TestNewValidates(t *testing.T) {
	for name, tt := range map[string]struct {
		name, owner string
		ttl         time.Duration
		opts        []Option
		ok          bool
	}{
		"usual":                               {"job", "host:7", 30 * time.Second, nil, true},
		"CFG-01 no TTL":                       {"job", "me", 0, nil, false},
		"CFG-01 negative TTL":                 {"job", "me", -1, nil, false},
		"shortest TTL":                        {"job", "me", 1, nil, true},
		"longest TTL":                         {"job", "me", 24 * time.Hour, nil, true},
		"too long a TTL":                      {"job", "me", 24*time.Hour + 1, nil, false},
		"NAM-01 blank at the end":             {"job ", "me", time.Second, nil, false},
		"NAM-05 longest owner":                {"job", strings.Repeat("x", 111), time.Second, nil, true},
		"NAM-05 no room for the nonce":        {"job", strings.Repeat("x", 112), time.Second, nil, false},
		"NAM-05 longest exact owner":          {"job", strings.Repeat("x", 128), time.Second, []Option{WithExactOwner()}, true},
		"NAM-05 exact owner that is too long": {"job", strings.Repeat("x", 129), time.Second, []Option{WithExactOwner()}, false},
		"NAM-05 longest metadata":             {"job", "me", time.Second, []Option{WithMetadata(strings.Repeat("🔒", 512))}, true},
		"CFG-03 no owner":                     {"job", "", time.Second, nil, false},
		"CFG-03 no name":                      {"", "me", time.Second, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := New(memory.New(), tt.name, tt.owner, tt.ttl, tt.opts...)
			if tt.ok {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, store.ErrInvalid)
			require.Nil(t, l)
		})
	}
}

func TestTimingScalesWithTTL(t *testing.T) {
	for _, tt := range []struct{ ttl, trust, limit time.Duration }{
		{30 * time.Second, 27 * time.Second, 9 * time.Second},
		{3 * time.Second, 2700 * time.Millisecond, 900 * time.Millisecond},
		{2999*time.Millisecond + 1, 2700 * time.Millisecond, 900 * time.Millisecond}, // rounded up
		{200 * time.Millisecond, 150 * time.Millisecond, 50 * time.Millisecond},
		{60 * time.Millisecond, 30 * time.Millisecond, 10 * time.Millisecond},
		{time.Millisecond, 500 * time.Microsecond, 500 * time.Microsecond / 3},
		{24 * time.Hour, 24 * time.Hour * 9 / 10, 10 * time.Second},
	} {
		t.Run(tt.ttl.String(), func(t *testing.T) {
			l, err := New(memory.New(), "job", "me", tt.ttl)
			require.NoError(t, err)
			assert.Equal(t, tt.trust, l.trust())
			assert.Equal(t, tt.limit, l.limit())
		})
	}
}

func TestBeforeTheFirstAcquire(t *testing.T) {
	bubble(t, "nothing is held, and the store is not asked", func(r *rig) {
		l := r.lease()
		assert.Equal(r, "job", l.Name())
		assert.Zero(r, l.Token())
		assert.True(r, l.ExpiresAt().IsZero())
		assert.Zero(r, l.Remaining())
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrLost)
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrLost)
		r.requireCalls(0, 0, 0)
		require.NoError(r, l.TryAcquire(r.Context()))
	})
}

func TestOneCallEach(t *testing.T) {
	bubble(t, "acquire, renew, release", func(r *rig) {
		l := r.lease(WithMetadata("a note"))
		require.NoError(r, l.TryAcquire(r.Context()))
		r.requireCalls(1, 0, 0)
		r.requireRowOf(l)
		row, _ := r.row()
		assert.Equal(r, "a note", row.Metadata)
		assert.Equal(r, row.Expires, l.ExpiresAt())
		assert.Equal(r, trust, l.Remaining())

		r.sleepUntil(time.Second)
		assert.Equal(r, trust-time.Second, l.Remaining())
		require.NoError(r, l.TryRenew(r.Context()))
		r.requireCalls(1, 1, 0)
		row, _ = r.row()
		assert.Equal(r, row.Expires, l.ExpiresAt())
		assert.Equal(r, trust, l.Remaining())

		require.NoError(r, l.TryAcquire(r.Context()), "of a held lease: it renews")
		r.requireCalls(1, 2, 0)

		require.NoError(r, l.TryRelease(r.Context()))
		r.requireCalls(1, 2, 1)
		r.requireNoRow()
		assert.Zero(r, l.Remaining())
	})
	bubble(t, "REL-01 release twice", func(r *rig) {
		l := r.held()
		require.NoError(r, l.TryRelease(r.Context()))
		b := r.other()
		require.NoError(r, b.TryAcquire(r.Context()))
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrLost)
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrLost)
		r.requireCalls(1, 0, 1)
		r.requireRowOf(b)
	})
	bubble(t, "held by somebody else", func(r *rig) {
		b := r.other()
		require.NoError(r, b.TryAcquire(r.Context()))
		r.sleepUntil(time.Second)
		l := r.lease()
		err := l.TryAcquire(r.Context())
		require.ErrorIs(r, err, store.ErrHeld)
		held, ok := errors.AsType[*store.HeldError](err)
		require.True(r, ok)
		assert.Equal(r, b.Owner(), held.Lease.Owner)
		assert.Equal(r, 2*time.Second, held.Lease.Left)
		assert.Zero(r, l.Remaining())
		assert.Zero(r, l.Token())
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrLost)
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrLost)
		r.requireCalls(1, 0, 0)
		r.sleepUntil(ttl)
		require.NoError(r, l.TryAcquire(r.Context()), "the row has expired")
		r.requireCalls(2, 0, 0)
	})
}

func TestOwnersAndTokens(t *testing.T) {
	bubble(t, "SAF-10 tokens grow over tenures, and renewals keep them", func(r *rig) {
		a, b := r.lease(), r.other()
		var token uint64
		owners := map[string]bool{}
		for range 20 {
			for _, l := range []*Lease{a, b} {
				require.NoError(r, l.TryAcquire(r.Context()))
				require.Greater(r, l.Token(), token)
				token = l.Token()
				require.False(r, owners[l.Owner()], "two tenures never share an owner id")
				owners[l.Owner()] = true
				for range 5 {
					require.NoError(r, l.TryRenew(r.Context()))
					require.NoError(r, l.TryAcquire(r.Context()))
				}
				require.Equal(r, token, l.Token())
				require.NoError(r, l.TryRelease(r.Context()))
			}
		}
		assert.Contains(r, a.Owner(), "me/")
	})
	bubble(t, "two leases of the same owner exclude each other", func(r *rig) {
		a, b := r.lease(), r.lease()
		require.NoError(r, a.TryAcquire(r.Context()))
		require.ErrorIs(r, b.TryAcquire(r.Context()), store.ErrHeld)
	})
}

func TestLoss(t *testing.T) {
	bubble(t, "SAF-02 broken by an operator", func(r *rig) {
		l := r.held()
		_, err := r.mem.Break(r.Context(), "job", l.Owner())
		require.NoError(r, err)
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrLost)
		assert.Zero(r, l.Remaining())
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrLost)
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrLost)
		r.requireCalls(1, 1, 0) // one renewal: the answer is final
	})
	bubble(t, "CLK-04 the store's clock jumps", func(r *rig) {
		l, b := r.held(), r.other()
		r.mem.Step(time.Minute)
		require.NoError(r, b.TryAcquire(r.Context()))
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrLost)
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrLost)
		r.requireRowOf(b)
	})
	bubble(t, "REL-02 a late release leaves the next holder alone", func(r *rig) {
		l, b := r.held(), r.other()
		r.sleepUntil(ttl)
		require.NoError(r, b.TryAcquire(r.Context()))
		before, _ := r.row()
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrLost)
		r.requireCalls(1, 0, 1)
		after, _ := r.row()
		assert.Equal(r, before, after)
	})
	bubble(t, "SAF-09 a lost lease can be acquired again", func(r *rig) {
		l, b := r.held(), r.other()
		token, owner := l.Token(), l.Owner()
		r.sleepUntil(ttl)
		require.NoError(r, b.TryAcquire(r.Context()))
		require.ErrorIs(r, l.TryRenew(r.Context()), store.ErrLost)
		require.ErrorIs(r, l.TryAcquire(r.Context()), store.ErrHeld)
		require.NoError(r, b.TryRelease(r.Context()))
		require.NoError(r, l.TryAcquire(r.Context()))
		assert.Greater(r, l.Token(), token)
		assert.NotEqual(r, owner, l.Owner())
	})
}

func TestContexts(t *testing.T) {
	bubble(t, "ACQ-01 ended before", func(r *rig) {
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		l := r.lease()
		err := l.TryAcquire(ctx)
		require.ErrorIs(r, err, context.Canceled)
		require.ErrorIs(r, err, store.ErrUnavailable)
		require.NotErrorIs(r, err, store.ErrUnclear)
		r.requireCalls(0, 0, 0)
		require.NoError(r, l.TryAcquire(r.Context()))
		err = l.TryRenew(ctx)
		require.ErrorIs(r, err, context.Canceled)
		r.requireCalls(1, 0, 0)
		assert.Equal(r, trust, l.Remaining(), "that says nothing about the lease")
	})
	bubble(t, "REL-03 release with a context that has ended", func(r *rig) {
		l := r.held()
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		require.NoError(r, l.TryRelease(ctx))
		r.requireNoRow()
	})
	bubble(t, "REL-04 that release is bounded", func(r *rig) {
		l := r.held()
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		r.faults.Add(faultstore.Fault{Ops: faultstore.Release, HangBefore: true})
		err := l.TryRelease(ctx)
		assert.Equal(r, limit, time.Since(r.start))
		require.ErrorIs(r, err, store.ErrUnclear)
		require.NotErrorIs(r, err, context.Canceled)
	})
	bubble(t, "CON-01 ends while the store hangs", func(r *rig) {
		l := r.held()
		r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, HangBefore: true})
		ctx, cancel := context.WithTimeout(r.Context(), 100*time.Millisecond)
		defer cancel()
		err := l.TryRenew(ctx)
		assert.Equal(r, 125*time.Millisecond, time.Since(r.start))
		require.ErrorIs(r, err, context.DeadlineExceeded)
		require.ErrorIs(r, err, store.ErrUnavailable)
		assert.Equal(r, trust-125*time.Millisecond, l.Remaining())
	})
	bubble(t, "ends while another call of the lease has its turn", func(r *rig) {
		l := r.held()
		r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, HangBefore: true})
		go func() { _ = l.TryRenew(r.Context()) }()
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(r.Context(), 100*time.Millisecond)
		defer cancel()
		err := l.TryRenew(ctx)
		require.ErrorIs(r, err, context.DeadlineExceeded)
		require.ErrorIs(r, err, store.ErrUnavailable)
		require.NotErrorIs(r, err, store.ErrUnclear)
		r.requireCalls(1, 1, 0)
		require.NoError(r, l.TryRelease(r.Context()), "which waits for its turn")
		assert.Equal(r, limit, time.Since(r.start))
		r.requireNoRow()
	})
}

func TestExactOwner(t *testing.T) {
	bubble(t, "the owner is in the row as it is", func(r *rig) {
		l := r.held(WithExactOwner())
		assert.Equal(r, "me", l.Owner())
		r.requireRowOf(l)
		require.NoError(r, l.TryRelease(r.Context()))
		require.NoError(r, l.TryAcquire(r.Context()))
		assert.Equal(r, "me", l.Owner())
	})
	bubble(t, "a restarted process enters its old row", func(r *rig) {
		before, after := r.held(WithExactOwner()), r.lease(WithExactOwner())
		require.NoError(r, after.TryAcquire(r.Context()))
		assert.Greater(r, after.Token(), before.Token())
	})
	bubble(t, "SAF-09 after a loss of trust it enters its own row, in one call", func(r *rig) {
		l := r.held(WithExactOwner())
		r.sleepUntil(trust)
		require.ErrorIs(r, l.TryAcquire(r.Context()), store.ErrLost)
		require.NoError(r, l.TryAcquire(r.Context()))
		r.requireCalls(2, 0, 0)
	})
	bubble(t, "the late grant of an old tenure does not cost the new one its row", func(r *rig) {
		l := r.lease(WithExactOwner())
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, HangBefore: true, Times: 1})
		require.ErrorIs(r, l.TryAcquire(r.Context()), store.ErrUnclear)
		require.ErrorIs(r, l.TryRelease(r.Context()), store.ErrLost)
		require.NoError(r, l.TryAcquire(r.Context()))
		r.faults.Free()
		time.Sleep(time.Second)
		r.requireRowOf(l)
		require.NoError(r, l.TryRenew(r.Context()))
		r.requireCalls(2, 1, 1)
	})
}
