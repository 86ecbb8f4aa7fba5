package mutex

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/faultstore"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/breaker"
	"github.com/aaravsoft/leasehold/store/memory"
)

// trip fails acquisitions until the client's breaker opens.
func (r *rig) trip(c *Client) {
	r.t.Helper()
	for n := 0; c.breaker.State().Phase == breaker.Closed; n++ {
		require.Less(r.t, n, 100, "it never opens")
		_, err := c.TryLock(r.t.Context(), "probe")
		require.ErrorIs(r.t, err, ErrUnavailable)
		time.Sleep(100 * time.Millisecond)
	}
}

func TestBreaker(t *testing.T) {
	bubble(t, "BRK-03 an open breaker starves no heartbeat", func(t *testing.T) {
		r := newRig(t)
		c := r.client(Config{TTL: 15 * time.Second, Breaker: breaker.Config{OpenFor: time.Hour}})
		var guards []*Guard
		for n := range 20 {
			guards = append(guards, mustLock(t, c, nth(n)))
		}
		r.outage(errDown)
		r.trip(c)
		r.sleepUntil(3 * time.Second)
		r.faults.Clear()
		time.Sleep(50 * time.Second)
		require.Equal(t, breaker.Open, c.breaker.State().Phase)
		for _, g := range guards {
			require.NoError(t, g.Err())
			require.NoError(t, g.Unlock())
		}
	})

	bubble(t, "BRK-05 Lock waits on, TryLock does not", func(t *testing.T) {
		r := newRig(t)
		c := r.client(Config{TTL: 15 * time.Second, Breaker: breaker.Config{OpenFor: 5 * time.Second}})
		r.outage(errDown)
		r.trip(c)
		r.faults.Clear()
		began, next := r.at(), time.Until(c.breaker.State().NextProbe)

		_, err := c.TryLock(t.Context(), "job")
		require.ErrorIs(t, err, ErrUnavailable)
		require.NotErrorIs(t, err, ErrHeld)
		require.Equal(t, began, r.at())

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = c.Lock(ctx, "job")
		require.ErrorIs(t, err, ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, r.at()-began)

		ctx, cancel = context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		calls := r.faults.Calls(faultstore.Acquire)
		g, err := c.Lock(ctx, "job")
		require.NoError(t, err)
		require.InDelta(t, next, r.at()-began, float64(10*time.Millisecond), "woken by the breaker, not by its own poll")
		require.Equal(t, 1, r.faults.Calls(faultstore.Acquire)-calls)
		require.NoError(t, g.Unlock())
	})

	bubble(t, "an outage of three TTLs: bounded load, losses exactly at D, quick recovery", func(t *testing.T) {
		const processes, ttl = 200, 3 * time.Second
		r := newRig(t)
		holder := r.client(Config{TTL: ttl})
		held := mustLock(t, holder, "held")
		last := r.lastRenewalBefore(1500 * time.Millisecond)
		r.outage(errDown)
		var wg sync.WaitGroup
		var mu sync.Mutex
		var recovered []time.Duration
		for n := range processes {
			c := r.client(Config{TTL: ttl})
			wg.Go(func() {
				g, err := c.Lock(context.Background(), nth(n)) // each process waits for a name of its own
				if assert.NoError(t, err) {
					mu.Lock()
					recovered = append(recovered, r.at())
					mu.Unlock()
					assert.NoError(t, g.Unlock())
				}
			})
		}
		require.Equal(t, last+2700*time.Millisecond, r.doneAt(held.Context()), "exactly at D")
		r.sleepUntil(1500*time.Millisecond + 3*ttl)
		attempts := r.faults.Calls(faultstore.Acquire)
		t.Logf("%d attempts to acquire in an outage of %v, by %d waiting processes", attempts, 3*ttl, processes)
		// Each: about 6 until its breaker opens, then one every 0.8 to 1.2 s.
		require.Less(t, attempts, processes*(6+12))
		back := r.at()
		r.faults.Clear()
		wg.Wait()
		for _, at := range recovered {
			require.LessOrEqual(t, at-back, 2*time.Second)
		}
		_ = held.Unlock()
	})

	bubble(t, "the store fails acquisitions only: no held lock is lost", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		g := mustLock(t, c, "job")
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Fail: downError(errDown)})
		_, err := c.Lock(t.Context(), "other", WithWait(time.Minute))
		require.ErrorIs(t, err, ErrUnavailable)
		require.NoError(t, g.Err())
		require.NoError(t, g.Unlock())
	})

	bubble(t, "changes are told once, outside of its locks", func(t *testing.T) {
		r := newRig(t)
		var mu sync.Mutex
		var seen []breaker.Phase
		cfg := three()
		var c *Client
		cfg.Hooks.Breaker = func(s breaker.State) {
			_ = c.Health(context.Background()) // a hook may ask
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, s.Phase)
		}
		c = r.client(cfg)
		r.outage(errDown)
		r.trip(c)
		r.faults.Clear()
		require.NoError(t, mustLock(t, c, "job").Unlock())
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, []breaker.Phase{breaker.Open, breaker.HalfOpen, breaker.Closed}, seen)
	})

	t.Run("New wraps the store, once, unless told not to", func(t *testing.T) {
		c, err := New(memory.New(), Config{})
		require.NoError(t, err)
		require.NotNil(t, c.breaker)
		c, err = New(memory.New(), Config{NoBreaker: true})
		require.NoError(t, err)
		require.Nil(t, c.breaker)
		b, err := breaker.New(memory.New(), breaker.Config{})
		require.NoError(t, err)
		c, err = New(faultstore.Wrap(b), Config{})
		require.NoError(t, err)
		require.Same(t, b, c.breaker)
		_, err = New(memory.New(), Config{Breaker: breaker.Config{Failures: -1}})
		require.ErrorIs(t, err, ErrInvalid)
	})

	bubble(t, "health", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		g := mustLock(t, c, "job")
		time.Sleep(1500 * time.Millisecond)
		h := c.Health(t.Context())
		require.NoError(t, h.Store)
		require.Equal(t, 1, h.Held)
		require.Zero(t, h.AtRisk)
		require.WithinDuration(t, time.Now(), h.LastRenewal, 600*time.Millisecond)

		r.faults.Add(faultstore.Fault{Ops: faultstore.All, HangBefore: true})
		began := r.at()
		h = c.Health(t.Context())
		require.ErrorIs(t, h.Store, ErrUnavailable)
		require.Equal(t, 2*time.Second, r.at()-began, "bounded")
		r.faults.Clear()
		r.faults.Free()
		time.Sleep(time.Second)
		_ = g.Unlock()

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, c.Health(ctx).Store, context.Canceled)
		require.NoError(t, c.Close(t.Context()))
		require.ErrorIs(t, c.Health(t.Context()).Store, ErrClosed)
	})
}

var _ store.Store = (*breaker.Store)(nil)
