package bounded_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/bounded"
	"github.com/aaravsoft/leasehold/store"
)

// counter counts how often it is told of an end.
type counter struct{ atomic.Int64 }

func (c *counter) Ended() { c.Add(1) }

// The context that a store is given tells a wrapper of its end, as context.AfterFunc would.
func TestTheEndOfACallIsTold(t *testing.T) {
	type ender interface {
		OnEnd(w interface{ Ended() }) bool
	}
	// acquire asks to be told after a while, does as work does, and returns what was told.
	acquire := func(ctx context.Context, after time.Duration, work func(ctx context.Context)) *counter {
		told := &counter{}
		calls := bounded.New(&fake{acquire: func(ctx context.Context, c store.Claim) (store.Lease, error) {
			time.Sleep(after)
			assert.True(t, ctx.(ender).OnEnd(told))
			assert.False(t, ctx.(ender).OnEnd(&counter{}), "there is room for one")
			work(ctx)
			return store.Lease{}, nil
		}})
		_, _ = calls.Acquire(ctx, limit, claim, nil)
		synctest.Wait()
		return told
	}
	hang := func(context.Context) { time.Sleep(time.Hour) }

	for name, test := range map[string]struct {
		leave, after time.Duration
		work         func(context.Context)
		told         int64
	}{
		"at the limit of a store that hangs":        {leave: time.Hour, work: hang, told: 1},
		"when the caller leaves":                    {leave: time.Second, work: hang, told: 1},
		"at once if it has ended before":            {leave: time.Second, after: 2 * time.Second, work: hang, told: 1},
		"not if the answer came first":              {leave: time.Hour, work: func(context.Context) {}, told: 0},
		"to a store that honours its context, once": {leave: time.Second, work: func(ctx context.Context) { <-ctx.Done() }, told: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.leave)
				defer cancel()
				told := acquire(ctx, test.after, test.work)
				time.Sleep(test.after)
				synctest.Wait()
				require.EqualValues(t, test.told, told.Load())
				time.Sleep(2 * time.Hour)
				assert.EqualValues(t, test.told, told.Load(), "not again")
			})
		})
	}
}
