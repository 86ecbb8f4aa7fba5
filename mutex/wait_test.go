package mutex

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/faultstore"
	"github.com/aaravsoft/leasehold/store"
)

func TestWaiting(t *testing.T) {
	bubble(t, "LIV-01 ten thousand waiters of one name in one process", func(t *testing.T) {
		r := newRig(t)
		c := r.client(Config{TTL: 5 * time.Second})
		var in inside
		var wg sync.WaitGroup
		for range 10_000 {
			wg.Go(func() {
				g, err := c.Lock(context.Background(), "job")
				if !assert.NoError(t, err) {
					return
				}
				in.enter(g)
				time.Sleep(time.Millisecond)
				in.leave()
				assert.NoError(t, g.Unlock())
			})
		}
		wg.Wait()
		in.check(t)
		require.Equal(t, 10_000, in.total)
		require.Less(t, r.at(), 120*time.Second)
		require.Equal(t, 10_000, r.faults.Calls(faultstore.Acquire), "one each: nobody polls for what this process holds")
	})

	bubble(t, "LIV-01 a foreign holder is asked about once per process", func(t *testing.T) {
		r := newRig(t)
		g := mustLock(t, r.healthy(three()), "job")
		c := r.client(three())
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				_, err := c.Lock(t.Context(), "job", WithWait(time.Minute))
				assert.ErrorIs(t, err, ErrHeld)
			})
		}
		wg.Wait()
		require.Less(t, r.faults.Calls(faultstore.Acquire), 150, "a minute of polling with 0.5 to 1 s between, not by a thousand")
		require.NoError(t, g.Unlock())
	})

	bubble(t, "LIV-03 waiting spins nowhere", func(t *testing.T) {
		r := newRig(t)
		g := mustLock(t, r.healthy(Config{TTL: time.Minute}), "job")
		var wg sync.WaitGroup
		for range 100 {
			c := r.client(three()) // as many processes
			wg.Go(func() { _, _ = c.Lock(t.Context(), "job", WithWait(10*time.Second)) })
		}
		wg.Wait() // a spin would keep fake time from moving
		require.Less(t, r.faults.Calls(faultstore.Acquire), 100*25, "the back-off, then one every 0.5 to 1 s")
		require.NoError(t, g.Unlock())
	})

	bubble(t, "local waiters are served first in, first out", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		g := mustLock(t, c, "job")
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for n := range 100 {
			wg.Go(func() {
				g, err := c.Lock(context.Background(), "job")
				if assert.NoError(t, err) {
					mu.Lock()
					order = append(order, n)
					mu.Unlock()
					assert.NoError(t, g.Unlock())
				}
			})
			synctest.Wait()
		}
		require.NoError(t, g.Unlock())
		wg.Wait()
		require.True(t, slices.IsSorted(order), "%v", order)
	})

	bubble(t, "LIV-04 a waiter in the middle leaves", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		g := mustLock(t, c, "job")
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := c.Lock(ctx, "job")
			left <- err
		}()
		synctest.Wait()
		got := make(chan *Guard, 1)
		go func() { got <- mustLock(t, c, "job") }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-left, context.Canceled)
		at := r.at()
		require.NoError(t, g.Unlock())
		h := <-got
		require.Equal(t, at, r.at())
		require.NoError(t, h.Unlock())
	})

	bubble(t, "LIV-05 the client is closed while others wait", func(t *testing.T) {
		r := newRig(t)
		g := mustLock(t, r.healthy(three()), "job")
		defer g.Unlock()
		c := r.client(three())
		answers := make(chan error, 6)
		for range 5 {
			go func() {
				_, err := c.Lock(context.Background(), "job")
				answers <- err
			}()
		}
		go func() {
			_, err := c.Lock(context.Background(), "silent")
			answers <- err
		}()
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Name: "silent", HangBefore: true})
		time.Sleep(700 * time.Millisecond)
		at := r.at()
		require.NoError(t, c.Close(t.Context()))
		for range 6 {
			require.ErrorIs(t, <-answers, ErrClosed)
		}
		require.LessOrEqual(t, r.at()-at, 200*time.Millisecond)
		_, err := c.Lock(t.Context(), "job")
		require.ErrorIs(t, err, ErrClosed)
		_, err = c.TryLock(t.Context(), "new")
		require.ErrorIs(t, err, ErrClosed)
	})

	bubble(t, "LIV-06 a hand-over does not wait for the lease", func(t *testing.T) {
		r := newRig(t)
		long := Config{TTL: 120 * time.Second}
		a, b := r.client(long), r.healthy(long)
		g := mustLock(t, a, "job")
		got := make(chan *Guard, 1)
		go func() { got <- mustLock(t, b, "job") }()
		time.Sleep(time.Minute)
		at := r.at()
		require.NoError(t, g.Unlock())
		h := <-got
		require.LessOrEqual(t, r.at()-at, time.Second, "a poll interval, to another process")
		go func() { got <- mustLock(t, b, "job") }()
		time.Sleep(time.Minute)
		at = r.at()
		require.NoError(t, h.Unlock())
		h = <-got
		require.Equal(t, at, r.at(), "at once, inside a process")
		require.NoError(t, h.Unlock())
	})

	bubble(t, "LIV-02 clients that started together do not poll together", func(t *testing.T) {
		r := newRig(t)
		g := mustLock(t, r.healthy(Config{TTL: time.Minute}), "job")
		var mu sync.Mutex
		var polls []time.Duration
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Before: func() {
			mu.Lock()
			defer mu.Unlock()
			polls = append(polls, r.at())
		}})
		var wg sync.WaitGroup
		for range 50 {
			c := r.client(three())
			wg.Go(func() { _, _ = c.Lock(t.Context(), "job", WithWait(20*time.Second)) })
		}
		wg.Wait()
		most, slot := 0, map[time.Duration]int{}
		perPeriod := 0
		for _, at := range polls {
			if at > 15*time.Second && at < 16*time.Second {
				perPeriod++
				slot[at/(50*time.Millisecond)]++
				most = max(most, slot[at/(50*time.Millisecond)])
			}
		}
		require.Greater(t, perPeriod, 40)
		require.Less(t, most*100, perPeriod*35, "%d of %d in one window of 50 ms", most, perPeriod)
		require.NoError(t, g.Unlock())
	})

	bubble(t, "rule 17: after a second of local hand-overs others get a chance", func(t *testing.T) {
		r := newRig(t)
		local, other := r.client(three()), r.healthy(three())
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					g := mustLock(t, local, "job")
					time.Sleep(10 * time.Millisecond)
					assert.NoError(t, g.Unlock())
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		began := r.at()
		for range 10 {
			g := mustLock(t, other, "job")
			require.NoError(t, g.Unlock())
		}
		require.Less(t, r.at()-began, 15*time.Second, "about one turn a second")
		close(stop)
		wg.Wait()
	})

	t.Run("rule 17: the pause", func(t *testing.T) {
		now := time.Now()
		q := &queue{}
		q.waiters.PushBack(&waiter{})
		q.handedOver(now)
		require.Equal(t, now, q.poll.next, "a single hand-over is immediate")
		q.handedOver(now.Add(999 * time.Millisecond))
		require.Equal(t, now.Add(999*time.Millisecond), q.poll.next)
		at := now.Add(1200 * time.Millisecond)
		q.handedOver(at)
		require.Equal(t, at.Add(60*time.Millisecond), q.poll.next, "5 % of the run")
		q.handedOver(at.Add(time.Second))
		require.Equal(t, at.Add(time.Second), q.poll.next, "and a new run")
		at = at.Add(time.Hour)
		q.handedOver(at)
		require.Equal(t, at.Add(time.Second), q.poll.next, "at most a second")
	})

	t.Run("the back-off", func(t *testing.T) {
		var p poll
		now := time.Now()
		by := store.Lease{Owner: "a", Left: time.Hour}
		for _, ms := range []int{25, 50, 100, 200, 400, 800, 1000, 1000} {
			most := time.Duration(ms) * time.Millisecond
			p.refused(now, now, by)
			wait := p.next.Sub(now)
			require.GreaterOrEqual(t, wait, most/2)
			require.Less(t, wait, most)
		}
		by.Owner = "b"
		p.refused(now, now, by)
		require.Less(t, p.next.Sub(now), 25*time.Millisecond, "another holder, another wait")
		by.Left = 3 * time.Millisecond
		p.refused(now, now.Add(2*time.Millisecond), by)
		require.GreaterOrEqual(t, p.next.Sub(now), 3*time.Millisecond, "aimed at the expiry, from the send")
		require.Less(t, p.next.Sub(now), 3*time.Millisecond+aimJitter)
		p.failed(now, 10*time.Second)
		require.GreaterOrEqual(t, p.next.Sub(now), 10*time.Second)
	})
}

// TestOrphans is about rows that nobody wants: rules 6 and 11.
func TestOrphans(t *testing.T) {
	bubble(t, "ACQ-02 cancelled in flight, and the server commits", func(t *testing.T) {
		r := newRig(t)
		long := Config{TTL: time.Minute}
		a, b := r.client(long), r.healthy(long)
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, HangAfter: true})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(60*time.Millisecond, cancel)
		_, err := a.Lock(ctx, "job")
		require.ErrorIs(t, err, context.Canceled)
		require.LessOrEqual(t, r.at(), 400*time.Millisecond)
		h := mustLock(t, b, "job")
		require.LessOrEqual(t, r.at(), 3*time.Second)

		r.faults.Free() // the late grant must not harm the new holder
		time.Sleep(time.Second)
		row, _ := r.row("job")
		require.Equal(t, h.Owner(), row.Owner)
		require.NoError(t, h.Unlock())
	})

	bubble(t, "ACQ-02 an acquire that executes after its clean-up is cleaned up when it returns", func(t *testing.T) {
		r := newRig(t)
		long := Config{TTL: time.Minute}
		a := r.client(long)
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, HangBefore: true}) // before it is executed
		_, err := a.Lock(t.Context(), "job", WithWait(time.Second))
		require.ErrorIs(t, err, ErrUnavailable)
		time.Sleep(10 * time.Second)
		_, found := r.row("job")
		require.False(t, found)
		r.faults.Clear()
		r.faults.Free() // now it executes, and writes the row
		synctest.Wait()
		_, found = r.row("job")
		require.False(t, found)
		require.Equal(t, 2, r.faults.Calls(faultstore.Release), "once now, once when the abandoned call returned")
	})

	bubble(t, "ACQ-04 a retry recognises its own row", func(t *testing.T) {
		r := newRig(t)
		c := r.client(Config{TTL: 30 * time.Second})
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Times: 1, Lose: unclearError(errDown)})
		g := mustLock(t, c, "job")
		require.Less(t, r.at(), 2*time.Second)
		sent := r.at()
		r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, HangBefore: true})
		require.Equal(t, sent+27*time.Second, r.doneAt(g.Context()), "trust counts from the request that is known to have succeeded")
	})

	bubble(t, "an acquire that executes after the Unlock of its own id is cleaned up when it returns", func(t *testing.T) {
		r := newRig(t)
		c := r.client(Config{TTL: 6 * time.Second})
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Times: 1, HangBefore: true})
		g := mustLock(t, c, "job") // by a second attempt, with the same id
		require.Equal(t, 2, r.faults.Calls(faultstore.Acquire))
		require.NoError(t, g.Unlock())
		r.faults.Free()
		synctest.Wait()
		_, found := r.row("job")
		require.False(t, found)
		require.Equal(t, 2, r.faults.Calls(faultstore.Release))
	})

	bubble(t, "rule 11: a lost reply, then a refusal, then giving up: the clean-up is owed all the same", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Times: 1, Fail: unclearError(errDown)}) // not applied, but nobody can know
		other := mustLock(t, r.healthy(three()), "job")
		_, err := c.Lock(t.Context(), "job", WithWait(time.Second))
		require.ErrorIs(t, err, ErrHeld)
		require.NoError(t, c.tasks.wait(t.Context()))
		require.Equal(t, 1, r.faults.Calls(faultstore.Release))
		require.NoError(t, other.Unlock())
	})

	bubble(t, "the next waiter does not meet what the one before it left behind", func(t *testing.T) {
		r := newRig(t)
		c := r.client(Config{TTL: 30 * time.Second})
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, HangAfter: true})
		first := make(chan error, 1)
		go func() {
			_, err := c.Lock(t.Context(), "job", WithWait(100*time.Millisecond))
			first <- err
		}()
		synctest.Wait()
		second := make(chan *Guard, 1)
		go func() { second <- mustLock(t, c, "job") }()
		synctest.Wait()
		r.faults.Clear()
		r.faults.Add(faultstore.Fault{Ops: faultstore.Release, Before: func() { time.Sleep(50 * time.Millisecond) }})
		require.ErrorIs(t, <-first, ErrUnavailable)
		g := <-second
		require.Less(t, r.at(), time.Second)
		require.Equal(t, 2, r.faults.Calls(faultstore.Acquire), "no refusal by its own orphan")
		r.faults.Free()
		require.NoError(t, g.Unlock())
	})

	bubble(t, "a refusal that names one of our own orphans repeats the clean-up", func(t *testing.T) {
		r := newRig(t)
		c := r.client(Config{TTL: 30 * time.Second, NoBreaker: true})
		g := mustLock(t, c, "job")
		r.faults.Add(faultstore.Fault{Ops: faultstore.Release, Fail: downError(errDown)})
		require.ErrorIs(t, g.Unlock(), ErrUnavailable)
		r.faults.Clear()
		h, err := c.TryLock(t.Context(), "job")
		require.NoError(t, err, "not only at the expiry")
		require.NoError(t, h.Unlock())
	})

	bubble(t, "a lost guard's row is not released under its work", func(t *testing.T) {
		r := newRig(t)
		clk := &clocks{}
		c, err := newClient(r.faults, Config{TTL: 30 * time.Second}, clk.now)
		require.NoError(t, err)
		g := mustLock(t, c, "job")
		clk.move(time.Minute, 0) // lost by the clocks; the row lives
		c.mu.Lock()
		var ids []*ownerID
		for h := range c.holds {
			ids = append(ids, h.id)
		}
		c.mu.Unlock()
		require.Len(t, ids, 1)
		<-g.Context().Done()
		synctest.Wait() // the context ends first, then the rest learns of it
		ids[0].mu.Lock()
		phase := ids[0].life.phase
		ids[0].mu.Unlock()
		require.Equal(t, lost, phase, "rule 6: loss burns the id")
		_, err = c.Lock(t.Context(), "job", WithWait(5*time.Second))
		require.ErrorIs(t, err, ErrHeld, "the work may still run: rule 8")
		require.ErrorIs(t, g.Unlock(), ErrLost)
		h := mustLock(t, c, "job")
		require.Less(t, r.at(), 10*time.Second)
		require.NoError(t, h.Unlock())
		require.NoError(t, c.Close(t.Context()))
	})
}

// TestHangingStore is a store whose calls all block for ever and ignore their contexts.
func TestHangingStore(t *testing.T) {
	bubble(t, "CON-01 everything returns within its bound", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		g := mustLock(t, c, "job")
		r.faults.Add(faultstore.Fault{Ops: faultstore.All, HangBefore: true})

		began := r.at()
		_, err := c.TryLock(t.Context(), "other")
		require.ErrorIs(t, err, ErrUnavailable)
		require.LessOrEqual(t, r.at()-began, 900*time.Millisecond, "one attempt: (L − M)/3")

		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		began = r.at()
		_, err = c.Lock(ctx, "third")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.LessOrEqual(t, r.at()-began, 550*time.Millisecond)

		began = r.at()
		require.ErrorIs(t, g.Unlock(), ErrUnavailable)
		require.LessOrEqual(t, r.at()-began, 2700*time.Millisecond)

		began = r.at()
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, c.Close(ctx))
		require.LessOrEqual(t, r.at()-began, time.Second)
	})

	bubble(t, "CON-01 stuck calls do not grow with time", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		var guards []*Guard
		for n := range 100 {
			guards = append(guards, mustLock(t, c, nth(n)))
		}
		r.faults.Add(faultstore.Fault{Ops: faultstore.All, HangBefore: true})
		var wg sync.WaitGroup
		for n := range 5 {
			wg.Go(func() { _, _ = c.Lock(t.Context(), nth(1000+n), WithWait(10*time.Minute)) })
		}
		time.Sleep(time.Minute)
		stuck := r.faults.Blocked()
		require.LessOrEqual(t, stuck, 2*16+10)
		time.Sleep(8 * time.Minute)
		require.LessOrEqual(t, r.faults.Blocked(), stuck)
		for _, g := range guards {
			require.ErrorIs(t, g.Err(), ErrLost)
		}
		wg.Wait()
	})

	bubble(t, "REL-04 an Unlock that cannot be confirmed", func(t *testing.T) {
		r := newRig(t)
		c := r.client(Config{TTL: 10 * time.Second})
		g := mustLock(t, c, "job")
		r.faults.Add(faultstore.Fault{Ops: faultstore.All, HangBefore: true})
		done := make(chan error, 1)
		go func() { done <- g.Unlock() }()
		synctest.Wait()
		require.ErrorIs(t, context.Cause(g.Context()), ErrUnlocked, "at the start of Unlock")
		err := <-done
		require.ErrorIs(t, err, ErrUnavailable)
		require.ErrorIs(t, err, ErrUnclear)
		require.LessOrEqual(t, r.at(), 5*time.Second+250*time.Millisecond)
		time.Sleep(time.Minute)
		require.Zero(t, r.faults.Calls(faultstore.Renew), "no heartbeat afterwards")
	})

	bubble(t, "ACQ-10 rule 16: configuration errors do not wait, nor are they remembered", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Fail: &store.MisconfiguredError{Remedy: "create the table with EnsureSchema", Err: errors.New("208")}})
		_, err := c.Lock(t.Context(), "job")
		require.ErrorIs(t, err, ErrMisconfigured)
		require.NotErrorIs(t, err, ErrHeld)
		require.Contains(t, err.Error(), "create the table")
		require.Zero(t, r.at())
		r.faults.Clear()
		g := mustLock(t, c, "job")
		require.NoError(t, g.Unlock())
	})

	bubble(t, "rule 16: an outage is waited out", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		r.outage(errDown)
		time.AfterFunc(20*time.Second, r.faults.Clear)
		g := mustLock(t, c, "job")
		require.LessOrEqual(t, r.at(), 22*time.Second)
		require.NoError(t, g.Unlock())
	})
}
