package mutex

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/guard"
	"github.com/aaravsoft/leasehold/internal/faultstore"
	"github.com/aaravsoft/leasehold/store"
)

var errDown = errors.New("connection refused")

// TestTrust is about the end of trust: D is the send of the last renewal known to have succeeded + L − M.
func TestTrust(t *testing.T) {
	bubble(t, "SAF-01 the network goes silent", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		g := mustLock(t, c, "job")
		last := r.lastRenewalBefore(1500 * time.Millisecond)
		r.faults.Add(faultstore.Fault{Ops: faultstore.All, HangBefore: true})
		require.Equal(t, last+threeTrust, r.doneAt(g.Context()), "exactly at D")
		var lost *LostError
		require.ErrorAs(t, g.Err(), &lost)
		require.Equal(t, guard.Unconfirmed, lost.Reason)
		require.Equal(t, g.Err(), context.Cause(g.Context()))
		_, err := r.healthy(three()).TryLock(t.Context(), "job")
		require.ErrorIs(t, err, ErrHeld, "the row outlives the trust by the margin")
		h := mustLock(t, r.healthy(three()), "job")
		require.GreaterOrEqual(t, r.at(), last+3*time.Second)
		require.NoError(t, h.Unlock())
		require.Positive(t, r.faults.Hits())
	})

	bubble(t, "SAF-02 a definite answer is no matter for a retry", func(t *testing.T) {
		r := newRig(t)
		var events eventLog
		cfg := three()
		cfg.Hooks = events.hooks()
		a, b := r.client(cfg), r.healthy(three())
		g := mustLock(t, a, "job", WithTTL(30*time.Second))
		r.sleepUntil(5 * time.Second)
		_, err := r.mem.Release(t.Context(), []store.Claim{{Name: "job", Owner: g.Owner()}})
		require.NoError(t, err)
		h := mustLock(t, b, "job")
		at := r.doneAt(g.Context())
		require.LessOrEqual(t, at, 11*time.Second, "at the next renewal, R + 10 %")
		var lost *LostError
		require.ErrorAs(t, g.Err(), &lost)
		require.Equal(t, guard.Taken, lost.Reason)
		renews := r.faults.Calls(faultstore.Renew)
		time.Sleep(time.Minute)
		require.Equal(t, renews, r.faults.Calls(faultstore.Renew), "REN-03: none after the loss")
		require.Equal(t, 1, events.count(evLost))
		require.NoError(t, h.Err())
		require.NoError(t, h.Unlock())
	})

	bubble(t, "SAF-06 an expired lease is not revived", func(t *testing.T) {
		r := newRig(t)
		c := r.client(Config{TTL: 2 * time.Second})
		g := mustLock(t, c, "x")
		before, _ := r.row("x")
		r.outage(errDown)
		r.sleepUntil(2500 * time.Millisecond)
		r.faults.Clear()
		time.Sleep(5 * time.Second)
		require.ErrorIs(t, g.Err(), ErrLost)
		after, _ := r.row("x")
		require.Equal(t, before.Expires, after.Expires)
		h := mustLock(t, c, "x")
		again, _ := r.row("x")
		require.True(t, again.Acquired.After(before.Acquired))
		require.NoError(t, h.Unlock())
	})

	bubble(t, "SAF-07 a success that is processed after D changes nothing", func(t *testing.T) {
		r := newRig(t)
		c := r.client(Config{TTL: 2 * time.Second, Renew: 600 * time.Millisecond})
		g := mustLock(t, c, "job")
		r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, HangAfter: true}) // applied; the answer is held back
		at := r.doneAt(g.Context())
		require.Equal(t, 1800*time.Millisecond, at)
		r.faults.Free()
		renews := r.faults.Calls(faultstore.Renew)
		time.Sleep(10 * time.Millisecond)
		require.ErrorIs(t, g.Err(), ErrLost)
		time.Sleep(time.Minute)
		require.Equal(t, renews, r.faults.Calls(faultstore.Renew), "no further heartbeat")
	})

	bubble(t, "SAF-07 the row of a lost guard goes by its Unlock", func(t *testing.T) {
		r := newRig(t)
		c := r.client(Config{TTL: 2 * time.Second, Renew: 600 * time.Millisecond})
		g := mustLock(t, c, "job")
		r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, HangAfter: true})
		<-g.Context().Done()
		r.faults.Free()
		r.faults.Clear()
		row, _ := r.row("job")
		require.Positive(t, row.Left, "the renewal was applied: the row lives on under work that may still run")
		require.ErrorIs(t, g.Unlock(), ErrLost)
		require.NoError(t, c.tasks.wait(t.Context()))
		_, found := r.row("job")
		require.False(t, found)
	})

	bubble(t, "SAF-08 slow hooks and callbacks delay nobody", func(t *testing.T) {
		r := newRig(t)
		cfg := three()
		cfg.Hooks.Lost = func(Event) { time.Sleep(time.Minute) }
		c := r.client(cfg)
		g := mustLock(t, c, "job")
		context.AfterFunc(g.Context(), func() { time.Sleep(time.Minute) })
		r.outage(errDown)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { assert.Equal(t, threeTrust, r.doneAt(g.Context())) })
		}
		wg.Wait()
		time.Sleep(2 * time.Minute) // until the slow ones are done
	})

	bubble(t, "CLK-06 trust counts from the request, not from the reply", func(t *testing.T) {
		r := newRig(t)
		c := r.client(Config{TTL: 3 * time.Second})
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Delay: 700 * time.Millisecond})
		g := mustLock(t, c, "job")
		require.Equal(t, 700*time.Millisecond, r.at())
		r.faults.Clear()
		r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, HangBefore: true})
		require.Equal(t, threeTrust, r.doneAt(g.Context()))
	})

	bubble(t, "rule 3: a grant that comes too late is given back", func(t *testing.T) {
		r := newRig(t)
		clk := &clocks{}
		c, err := newClient(r.faults, three(), clk.now)
		require.NoError(t, err)
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, After: func() { clk.move(2*time.Second, 0) }}) // suspended while the reply was under way
		_, err = c.TryLock(t.Context(), "job")
		require.ErrorIs(t, err, ErrUnavailable)
		require.NoError(t, c.tasks.wait(t.Context()))
		_, found := r.row("job")
		require.False(t, found)
	})

	bubble(t, "SAF-05 the machine was suspended", func(t *testing.T) {
		r := newRig(t)
		clk := &clocks{}
		c, err := newClient(r.faults, Config{TTL: 30 * time.Second}, clk.now)
		require.NoError(t, err)
		g := mustLock(t, c, "pause")
		clk.move(time.Minute, 0)
		require.Equal(t, 250*time.Millisecond, r.doneAt(g.Context()), "the watcher looks every 250 ms")
		var lost *LostError
		require.ErrorAs(t, g.Err(), &lost)
		require.Equal(t, guard.Suspended, lost.Reason)
		require.ErrorIs(t, g.Unlock(), ErrLost)
		require.NoError(t, c.Close(t.Context()))
	})

	bubble(t, "SAF-05 Err and the context agree before the watcher has looked", func(t *testing.T) {
		r := newRig(t)
		clk := &clocks{}
		c, err := newClient(r.faults, three(), clk.now)
		require.NoError(t, err)
		g := mustLock(t, c, "pause")
		clk.move(time.Minute, 0)
		require.NoError(t, g.Context().Err())
		require.ErrorIs(t, g.Err(), ErrLost)
		require.Zero(t, g.Remaining())
		require.Error(t, g.Context().Err())
		_ = g.Unlock()
		require.NoError(t, c.Close(t.Context()))
	})

	bubble(t, "CLK-05 the wall clock is set back, then forward", func(t *testing.T) {
		r := newRig(t)
		clk := &clocks{}
		c, err := newClient(r.faults, three(), clk.now)
		require.NoError(t, err)
		g := mustLock(t, c, "job")
		r.sleepUntil(1500 * time.Millisecond)
		clk.move(0, -time.Hour)
		renews := r.faults.Calls(faultstore.Renew)
		time.Sleep(10 * time.Second)
		require.NoError(t, g.Err())
		require.InDelta(t, 10, r.faults.Calls(faultstore.Renew)-renews, 2, "the heartbeat keeps its rhythm")
		clk.move(0, time.Hour)
		<-g.Context().Done()
		require.ErrorIs(t, g.Err(), ErrLost, "documented: a forward step may cost a lock")
		_ = g.Unlock()
		require.NoError(t, c.Close(t.Context()))
	})

	bubble(t, "CLK-01 only the store's clock decides", func(t *testing.T) {
		r := newRig(t)
		slow, fast := &clocks{step: -3 * time.Minute}, &clocks{step: 3 * time.Minute}
		a, err := newClient(r.faults, Config{TTL: 30 * time.Second}, slow.now)
		require.NoError(t, err)
		b, err := newClient(r.mem, Config{TTL: 30 * time.Second}, fast.now)
		require.NoError(t, err)
		g := mustLock(t, a, "job")
		_, err = b.Lock(t.Context(), "job", WithWait(5*time.Minute))
		require.ErrorIs(t, err, ErrHeld)
		require.NoError(t, g.Err())
		r.faults.Add(faultstore.Fault{Ops: faultstore.All, HangBefore: true}) // a is as good as dead
		row, _ := r.row("job")
		began := r.at()
		h := mustLock(t, b, "job")
		require.GreaterOrEqual(t, r.at()-began, row.Left)
		require.LessOrEqual(t, r.at()-began, row.Left+50*time.Millisecond)
		require.NoError(t, h.Unlock())
		r.faults.Free()
		r.faults.Clear()
		_ = g.Unlock()
		require.NoError(t, a.Close(t.Context()))
		require.NoError(t, b.Close(t.Context()))
	})

	bubble(t, "CLK-04 the store's clock jumps forward", func(t *testing.T) {
		r := newRig(t)
		a, b := r.client(Config{TTL: 30 * time.Second}), r.healthy(Config{TTL: 30 * time.Second})
		g := mustLock(t, a, "job")
		r.sleepUntil(5 * time.Second)
		r.mem.Step(40 * time.Second)
		h, err := b.TryLock(t.Context(), "job")
		require.NoError(t, err)
		require.LessOrEqual(t, r.doneAt(g.Context()), 11*time.Second, "at the first contact")
		require.ErrorIs(t, g.Err(), ErrLost)
		require.NoError(t, h.Err())
		require.NoError(t, h.Unlock())
	})

	bubble(t, "CLK-07 the row's expiry counts, not the contender's setting", func(t *testing.T) {
		r := newRig(t)
		a, b := r.client(Config{TTL: 30 * time.Second}), r.healthy(Config{TTL: 2 * time.Second})
		_ = mustLock(t, a, "job")
		r.faults.Add(faultstore.Fault{Ops: faultstore.All, HangBefore: true})
		_, err := b.Lock(t.Context(), "job", WithWait(25*time.Second))
		require.ErrorIs(t, err, ErrHeld)
		h := mustLock(t, b, "job")
		require.GreaterOrEqual(t, r.at(), 30*time.Second)
		row, _ := r.row("job")
		require.Equal(t, 2*time.Second, row.Left)
		require.NoError(t, h.Unlock())
	})

	bubble(t, "CLK-08 an expired row is taken in the first round trip", func(t *testing.T) {
		r := newRig(t)
		_, err := r.mem.Acquire(t.Context(), store.Claim{Name: "job", Owner: "dead/x", TTL: time.Second})
		require.NoError(t, err)
		time.Sleep(10 * time.Minute)
		began := r.at()
		c := r.client(Config{TTL: time.Minute})
		g := mustLock(t, c, "job")
		require.Equal(t, began, r.at())
		require.Equal(t, 1, r.faults.Calls(faultstore.Acquire))
		require.NoError(t, g.Unlock())
	})

	bubble(t, "ACQ-09 rule 10: a dead holder's lock is taken at its expiry, not before", func(t *testing.T) {
		for range 50 {
			r := newRig(t)
			a, b := r.client(three()), r.healthy(three())
			_ = mustLock(t, a, "crash")
			r.sleepUntil(1500 * time.Millisecond)
			r.faults.Add(faultstore.Fault{Ops: faultstore.All, HangBefore: true})
			row, _ := r.row("crash")
			expiry := r.at() + row.Left
			h := mustLock(t, b, "crash")
			require.GreaterOrEqual(t, r.at(), expiry)
			require.LessOrEqual(t, r.at(), expiry+50*time.Millisecond)
			require.NoError(t, h.Unlock())
		}
	})
}

func TestRenewals(t *testing.T) {
	bubble(t, "REN-01 one failed renewal is no loss", func(t *testing.T) {
		r := newRig(t)
		var events eventLog
		cfg := three()
		cfg.Hooks = events.hooks()
		c := r.client(cfg)
		g := mustLock(t, c, "job")
		r.sleepUntil(500 * time.Millisecond)
		r.outage(errDown)
		r.sleepUntil(1400 * time.Millisecond)
		r.faults.Clear()
		require.Positive(t, r.faults.Hits())
		r.sleepUntil(10 * time.Second)
		require.NoError(t, g.Err())
		require.Equal(t, 1, events.count(evAtRisk))
		require.Zero(t, events.count(evLost))
		r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, Times: 2, Fail: downError(errDown)})
		r.sleepUntil(20 * time.Second)
		require.Equal(t, 2, events.count(evAtRisk), "once for each trouble")
		require.NoError(t, g.Unlock())
	})

	bubble(t, "REN-02 a store that panics", func(t *testing.T) {
		r := newRig(t)
		c := r.client(Config{TTL: 6 * time.Second, Renew: time.Second})
		g := mustLock(t, c, "job")
		r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, Times: 1, Panic: true})
		r.sleepUntil(4 * time.Second)
		require.NoError(t, g.Err())
		require.Positive(t, r.faults.Hits())
		r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, Panic: true})
		<-g.Context().Done()
		require.ErrorIs(t, g.Err(), ErrLost)
	})

	bubble(t, "REN-04 a renewal in flight does not bring a released lock back", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		for _, hold := range []func(){func() { r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, HangBefore: true}) }, func() { r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, HangAfter: true}) }} {
			g := mustLock(t, c, "job")
			hold()
			time.Sleep(1200 * time.Millisecond) // the renewal is on its way, or applied with its reply on the way
			require.NoError(t, g.Unlock())
			renews := r.faults.Calls(faultstore.Renew)
			r.faults.Free()
			r.faults.Clear()
			time.Sleep(time.Minute)
			_, found := r.row("job")
			require.False(t, found)
			require.Equal(t, renews, r.faults.Calls(faultstore.Renew))
		}
	})

	bubble(t, "REN-05 five hundred guards over a slow store", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		var guards []*Guard
		for n := range 500 {
			guards = append(guards, mustLock(t, c, nth(n)))
		}
		r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, Delay: 50 * time.Millisecond})
		time.Sleep(30 * time.Second)
		for _, g := range guards {
			require.NoError(t, g.Err())
		}
	})

	bubble(t, "REN-06 stuck work is bounded by WithMaxHold", func(t *testing.T) {
		for _, drain := range []time.Duration{0, time.Millisecond} {
			r := newRig(t)
			cfg := three()
			cfg.Drain = drain
			c := r.client(cfg)
			g := mustLock(t, c, "job", WithMaxHold(10*time.Second))
			require.Equal(t, 10*time.Second, r.doneAt(g.Context()))
			require.ErrorIs(t, context.Cause(g.Context()), context.DeadlineExceeded)
			h := mustLock(t, r.healthy(three()), "job")
			bound := 13 * time.Second
			if drain == 0 {
				bound += 3 * time.Second
			}
			require.LessOrEqual(t, r.at(), bound+50*time.Millisecond, "limit + Drain + L")
			var lost *LostError
			require.ErrorAs(t, g.Err(), &lost)
			require.Equal(t, guard.Abandoned, lost.Reason)
			require.NoError(t, h.Unlock())
		}
	})

	bubble(t, "REN-07 a hundred renewals, one release", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		g := mustLock(t, c, "job")
		first, _ := r.row("job")
		time.Sleep(110 * time.Second)
		last, _ := r.row("job")
		require.GreaterOrEqual(t, r.faults.Calls(faultstore.Renew), 100)
		require.Equal(t, first.Acquired, last.Acquired)
		require.True(t, last.Renewed.After(first.Renewed) && last.Expires.After(first.Expires))
		require.NoError(t, g.Unlock())
		_, found := r.row("job")
		require.False(t, found)
	})

	bubble(t, "REN-09 a renewal whose reply is lost is repeated", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		g := mustLock(t, c, "job")
		r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, Times: 1, Lose: unclearError(errDown)})
		time.Sleep(20 * time.Second)
		require.Positive(t, r.faults.Hits())
		require.NoError(t, g.Err())
		require.NoError(t, g.Unlock())
	})
}
