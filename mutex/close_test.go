package mutex

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/guard"
	"github.com/aaravsoft/leasehold/internal/census"
	"github.com/aaravsoft/leasehold/internal/faultstore"
	"github.com/aaravsoft/leasehold/store"
)

func TestUnlock(t *testing.T) {
	bubble(t, "REL-01 twice", func(t *testing.T) {
		r := newRig(t)
		a, b := r.client(three()), r.healthy(three())
		g := mustLock(t, a, "u2")
		require.NoError(t, g.Unlock())
		h := mustLock(t, b, "u2")
		require.NoError(t, g.Unlock())
		require.NoError(t, g.Unlock())
		require.NoError(t, h.Err())
		row, _ := r.row("u2")
		require.Equal(t, h.Owner(), row.Owner)
		require.NoError(t, h.Unlock())
	})

	bubble(t, "REL-02 late", func(t *testing.T) {
		r := newRig(t)
		a, b := r.client(three()), r.healthy(three())
		g := mustLock(t, a, "job")
		r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, HangBefore: true})
		h := mustLock(t, b, "job")
		before, _ := r.row("job")
		require.ErrorIs(t, g.Unlock(), ErrLost)
		require.NoError(t, a.tasks.wait(t.Context()))
		after, _ := r.row("job")
		require.Equal(t, before.Owner, after.Owner)
		require.Equal(t, before.Expires, after.Expires)
		_, err := r.healthy(three()).TryLock(t.Context(), "job")
		require.ErrorIs(t, err, ErrHeld)
		require.NoError(t, h.Unlock())
	})

	bubble(t, "REL-03 the request's context is over", func(t *testing.T) {
		r := newRig(t)
		c := r.client(Config{TTL: time.Minute})
		ctx, cancel := context.WithCancel(t.Context())
		g, err := c.Lock(ctx, "job")
		require.NoError(t, err)
		cancel()
		err = g.UnlockContext(ctx) // limits only the waiting
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, ErrUnavailable)
		h := mustLock(t, r.healthy(three()), "job")
		require.LessOrEqual(t, r.at(), time.Second)
		require.NoError(t, h.Unlock())
		require.NoError(t, g.Unlock())

		ctx, cancel = context.WithCancel(t.Context())
		g, err = c.Lock(ctx, "job")
		require.NoError(t, err)
		cancel()
		require.NoError(t, g.Unlock())
		_, found := r.row("job")
		require.False(t, found)
	})

	bubble(t, "CFG-03 a nil guard", func(t *testing.T) {
		var g *Guard
		require.NoError(t, g.Unlock())
	})
}

func TestClose(t *testing.T) {
	bubble(t, "REL-07 one failing release does not keep the others", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		var wg sync.WaitGroup
		for n := range 50 {
			g := mustLock(t, c, nth(n))
			wg.Go(func() {
				<-g.Context().Done()
				_ = g.Unlock()
			})
		}
		r.faults.Add(faultstore.Fault{Ops: faultstore.Release, Name: nth(7), Fail: downError(errDown)})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err := c.Close(ctx)
		require.ErrorContains(t, err, nth(7))
		require.ErrorIs(t, err, ErrUnavailable)
		require.NotContains(t, err.Error(), nth(8))
		wg.Wait()
		for n := range 50 {
			_, found := r.row(nth(n))
			require.Equal(t, n == 7, found, nth(n))
		}
		renews := r.faults.Calls(faultstore.Renew)
		time.Sleep(time.Minute)
		require.Equal(t, renews, r.faults.Calls(faultstore.Renew), "no heartbeat left")
		_ = c.Close(t.Context())
	})

	bubble(t, "REL-08 with locks still in use", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		guards := map[string]*Guard{}
		for _, name := range []string{"quick", "slow", "never"} {
			guards[name] = mustLock(t, c, name)
		}
		var wg sync.WaitGroup
		for name, needs := range map[string]time.Duration{"quick": 100 * time.Millisecond, "slow": 2 * time.Second} {
			wg.Go(func() {
				g := guards[name]
				assert.Zero(t, r.doneAt(g.Context()), "all contexts end at once")
				assert.ErrorIs(t, context.Cause(g.Context()), ErrClosed)
				time.Sleep(needs)
				_, found := r.row(name)
				assert.True(t, found, "%s: the row goes by Unlock, never under running work", name)
				assert.NoError(t, g.Unlock())
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		err := c.Close(ctx)
		require.LessOrEqual(t, r.at(), 5*time.Second, "all are unlocked, or past D")
		require.ErrorContains(t, err, `"never"`)
		require.NotContains(t, err.Error(), `"slow"`)
		wg.Wait()
		row, found := r.row("never")
		require.True(t, found)
		require.Positive(t, row.Left)
		h := mustLock(t, r.healthy(three()), "never")
		require.LessOrEqual(t, r.at(), 9*time.Second)
		require.NoError(t, h.Unlock())
		require.ErrorIs(t, guards["never"].Err(), ErrLost)
	})

	bubble(t, "REL-08 the context of Close ends first", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		g := mustLock(t, c, "busy")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := c.Close(ctx)
		require.Equal(t, time.Second, r.at())
		require.ErrorContains(t, err, `"busy"`)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		renews := r.faults.Calls(faultstore.Renew)
		<-time.After(10 * time.Second)
		require.Equal(t, renews, r.faults.Calls(faultstore.Renew), "renewed until Close returned")
		var lost *LostError
		require.ErrorAs(t, g.Unlock(), &lost)
		require.Equal(t, guard.Abandoned, lost.Reason)
	})

	bubble(t, "an Unlock after Close is brief", func(t *testing.T) {
		r := newRig(t)
		c := r.client(Config{TTL: 30 * time.Second})
		g := mustLock(t, c, "job")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, c.Close(ctx))
		r.faults.Add(faultstore.Fault{Ops: faultstore.Release, HangBefore: true})
		at := r.at()
		require.ErrorIs(t, g.Unlock(), ErrUnavailable)
		require.LessOrEqual(t, r.at()-at, 100*time.Millisecond)
	})

	bubble(t, "an idle client has nothing to close", func(t *testing.T) {
		c := newRig(t).client(three())
		require.NoError(t, c.Close(t.Context()))
		require.NoError(t, c.Close(t.Context()))
	})
}

// TestNothingIsLeft counts goroutines: an idle client has none.
func TestNothingIsLeft(t *testing.T) {
	for name, round := range map[string]func(t *testing.T, r *rig, c *Client){
		"lock and unlock": func(t *testing.T, _ *rig, c *Client) {
			require.NoError(t, mustLock(t, c, "job").Unlock())
		},
		"lock and lose": func(t *testing.T, r *rig, c *Client) {
			g := mustLock(t, c, "job")
			_, err := r.mem.Release(t.Context(), []store.Claim{{Name: "job", Owner: g.Owner()}})
			require.NoError(t, err)
			<-g.Context().Done()
			require.ErrorIs(t, g.Unlock(), ErrLost)
		},
		"a cancelled wait": func(t *testing.T, r *rig, c *Client) {
			if r.other == nil {
				r.other = mustLock(t, r.healthy(Config{TTL: 24 * time.Hour}), "job")
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := c.Lock(ctx, "job")
			require.ErrorIs(t, err, ErrHeld)
		},
		"a failed acquire": func(t *testing.T, r *rig, c *Client) {
			r.outage(errDown)
			_, err := c.TryLock(t.Context(), "job")
			require.ErrorIs(t, err, ErrUnavailable)
		},
	} {
		bubble(t, "REL-09 "+name, func(t *testing.T) {
			r := newRig(t)
			c := r.client(three())
			round(t, r, c)
			synctest.Wait()
			before := census.Bubble()
			for range 1000 {
				round(t, r, c)
			}
			require.NoError(t, c.tasks.wait(t.Context()))
			synctest.Wait()
			require.LessOrEqual(t, census.Bubble(), before)
			c.mu.Lock()
			names, holds := len(c.names), len(c.holds)
			c.mu.Unlock()
			require.Zero(t, names+holds)
			if r.other != nil {
				require.NoError(t, r.other.Unlock())
			}
		})
	}
}

// TestManyGuards is rule 15: the load of many held locks on the store.
func TestManyGuards(t *testing.T) {
	bubble(t, "a thousand guards at R = 1 s cost two calls a second", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		var guards []*Guard
		for n := range 1000 {
			guards = append(guards, mustLock(t, c, nth(n)))
		}
		before := census.Bubble()
		time.Sleep(2 * time.Second)
		calls := r.faults.Calls(faultstore.Renew)
		time.Sleep(100 * time.Second)
		require.InDelta(t, 200, r.faults.Calls(faultstore.Renew)-calls, 25)
		synctest.Wait()
		require.LessOrEqual(t, census.Bubble(), before, "no goroutine per guard")
		for _, g := range guards {
			require.NoError(t, g.Err())
			require.NoError(t, g.Unlock())
		}
	})

	bubble(t, "a short lease does not make long ones be renewed more often", func(t *testing.T) {
		r := newRig(t)
		c := r.client(Config{TTL: 30 * time.Second})
		for n := range 10_000 {
			mustKeep(t, mustLock(t, c, nth(n)))
		}
		short := mustLock(t, c, "short", WithTTL(200*time.Millisecond))
		time.Sleep(15 * time.Second)
		renewed := r.faults.Claims(faultstore.Renew, nth(0))
		time.Sleep(100 * time.Second)
		require.InDelta(t, 10, r.faults.Claims(faultstore.Renew, nth(0))-renewed, 2)
		require.NoError(t, short.Err())
		require.NoError(t, short.Unlock())
	})
}
