package heartbeat_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/aaravsoft/leasehold/heartbeat"
	"github.com/aaravsoft/leasehold/internal/bounded"
	"github.com/aaravsoft/leasehold/internal/clock"
	"github.com/aaravsoft/leasehold/store"
)

const ms = time.Millisecond

func TestRounds(t *testing.T) {
	t.Run("REN-05 500 guards and calls of 50 ms", func(t *testing.T) {
		st := &fakeStore{answer: func(context.Context, int, []store.Claim) error { time.Sleep(50 * ms); return nil }}
		bubble(t, st, func(w *world) {
			targets := w.addMany(500, 3*time.Second, time.Second)
			time.Sleep(30 * time.Second)
			for _, g := range targets {
				require.True(w.t, g.live())
			}
			assert.LessOrEqual(w.t, len(st.seen("")), 34, "one call a round")
			assert.Equal(w.t, 1, st.mostOutstanding())
		})
	})

	t.Run("REN-08 no renewal is skipped in 10,000 cycles", func(t *testing.T) {
		rng := rand.New(rand.NewPCG(8, 8))
		st := &fakeStore{answer: func(context.Context, int, []store.Claim) error {
			time.Sleep(time.Duration(rng.Int64N(int64(2 * time.Second))))
			return nil
		}}
		bubble(t, st, func(w *world) {
			g := w.add("job", 30*time.Second, 10*time.Second)
			time.Sleep(10_000 * 10 * time.Second)
			calls := st.seen("job")
			require.InDelta(w.t, 10_000, len(calls), 500)
			for i := 1; i < len(calls); i++ {
				gap := calls[i].at.Sub(calls[i-1].at)
				require.LessOrEqual(w.t, gap, 11*time.Second)
				require.GreaterOrEqual(w.t, gap, 9*time.Second)
			}
			assert.True(w.t, g.live())
			assert.GreaterOrEqual(w.t, g.least+3*time.Second, 10*time.Second, "the row never had less than L/3")
		})
	})

	t.Run("LIV-02 clients that began in step get out of step", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := &fakeStore{}
			var worlds []*world
			for range 50 {
				w := newWorld(t, st)
				worlds = append(worlds, w)
				w.addMany(10, 15*time.Second, 5*time.Second)
			}
			time.Sleep(10 * 5 * time.Second)
			st.forget()
			time.Sleep(10 * 5 * time.Second)
			calls := st.seen("")
			require.InDelta(t, 50*10, len(calls), 50, "10 rounds of each client")
			most := 0
			for first, last := 0, 0; last < len(calls); last++ {
				for calls[last].at.Sub(calls[first].at) >= 50*ms {
					first++
				}
				most = max(most, last-first+1)
			}
			assert.LessOrEqual(t, most, 50*35/100, "rounds of 50 clients in one window of 50 ms")
			for _, w := range worlds {
				w.close()
			}
		})
	})

	t.Run("1,000 guards with R = 1 s cost 2 calls a second", func(t *testing.T) {
		st := &fakeStore{}
		bubble(t, st, func(w *world) {
			targets := w.addMany(1000, 3*time.Second, time.Second)
			time.Sleep(100 * time.Second)
			for _, g := range targets {
				require.True(w.t, g.live())
			}
			assert.InDelta(w.t, 200, len(st.seen("")), 20)
		})
	})

	t.Run("10,000 guards with R = 10 s beside one with a TTL of 200 ms", func(t *testing.T) {
		st := &fakeStore{}
		bubble(t, st, func(w *world) {
			long := w.addMany(10_000, 30*time.Second, 10*time.Second)
			short := w.add("short", 200*ms, 200*ms/3)
			time.Sleep(100 * time.Second)
			for _, g := range append(long, short) {
				require.True(w.t, g.live())
			}
			shorts := len(st.seen("short"))
			assert.InDelta(w.t, 1500, shorts, 75)
			assert.InDelta(w.t, 200, len(st.seen(""))-shorts, 21)
			for _, g := range long {
				require.InDelta(w.t, 10, g.renewals(), 1.5)
			}
		})
	})

	t.Run("the most urgent go first and a short one has a call of its own", func(t *testing.T) {
		st := &fakeStore{}
		bubble(t, st, func(w *world) {
			for i := range 700 {
				w.add(fmt.Sprint(i), time.Duration(6000-i)*ms, time.Second)
			}
			time.Sleep(1500 * ms)
			calls := st.seen("")
			require.Len(w.t, calls, 2)
			if len(calls[0].claims) != store.MaxBatch {
				calls[0], calls[1] = calls[1], calls[0]
			}
			for i, c := range append(calls[0].claims, calls[1].claims...) {
				require.Equal(w.t, fmt.Sprint(699-i), c.Name)
			}
			assert.Less(w.t, calls[0].limit, 1600*ms, "a third of what the first has left")
			assert.Greater(w.t, calls[1].limit, calls[0].limit)
		})
	})
}

func TestComingAndGoing(t *testing.T) {
	t.Run("without targets there is no timer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := &fakeStore{}
			w := newWorld(t, st)
			reads := 0 // the scheduler cannot do anything without looking at the clock
			counting := func() clock.Instant { reads++; return w.clk() }
			w.beat = heartbeat.New(bounded.New(st), counting)
			time.Sleep(time.Hour)
			require.Zero(t, reads)
			targets := w.addMany(3, 3*time.Second, time.Second)
			time.Sleep(10 * time.Second)
			synctest.Wait()
			for _, g := range targets {
				w.beat.Remove(g)
				w.beat.Remove(g)
			}
			st.forget()
			reads = 0
			time.Sleep(time.Hour)
			assert.Zero(t, reads)
			assert.Empty(t, st.seen(""))
			w.close()
		})
	})

	t.Run("REN-04 an answer that comes after Remove is dropped", func(t *testing.T) {
		gate := make(chan struct{})
		st := &fakeStore{}
		bubble(t, st, func(w *world) {
			gate = make(chan struct{})
			st.answer = func(context.Context, int, []store.Claim) error { <-gate; return nil }
			g := w.add("job", 30*time.Second, 10*time.Second)
			time.Sleep(11 * time.Second)
			require.Len(w.t, st.seen(""), 1)
			w.beat.Remove(g)
			close(gate)
			time.Sleep(time.Hour)
			assert.Zero(w.t, g.renewals())
			assert.Len(w.t, st.seen(""), 1)
		})
	})

	t.Run("a leaked target is dropped at the next round", func(t *testing.T) {
		st := &fakeStore{}
		bubble(t, st, func(w *world) {
			leaked, kept := w.add("leaked", 3*time.Second, time.Second), w.add("kept", 3*time.Second, time.Second)
			time.Sleep(5 * time.Second)
			leaked.mu.Lock()
			leaked.leaked = true
			leaked.mu.Unlock()
			st.forget()
			time.Sleep(10 * time.Second)
			assert.Empty(w.t, st.seen("leaked"))
			assert.True(w.t, kept.live())
		})
	})

	t.Run("a target added late moves the timer", func(t *testing.T) {
		st := &fakeStore{}
		bubble(t, st, func(w *world) {
			w.add("slow", 45*time.Second, 15*time.Second)
			time.Sleep(ms)
			w.add("quick", 27*time.Second, 9*time.Second)
			time.Sleep(9900 * ms)
			assert.NotEmpty(w.t, st.seen("quick"))
		})
	})

	t.Run("nothing is sent for a target whose trust is over", func(t *testing.T) {
		st := &fakeStore{}
		bubble(t, st, func(w *world) {
			g := w.newTarget("dead", 3*time.Second)
			g.deadline = w.clk().Add(500 * ms)
			w.beat.Add(g, time.Second, w.clk())
			time.Sleep(time.Minute)
			assert.Empty(w.t, st.seen(""))
		})
	})

	t.Run("churn leaves nothing behind", func(t *testing.T) {
		defer goleak.VerifyNone(t)
		st := &fakeStore{}
		w := newWorld(t, st)
		var clients sync.WaitGroup
		for c := range 8 {
			clients.Go(func() {
				for i := range 500 {
					g := w.add(fmt.Sprint(c, "-", i), 200*ms, ms)
					if i%50 == 0 {
						w.beat.Kick()
					}
					if i%7 > 0 {
						w.beat.Remove(g)
					}
				}
			})
		}
		clients.Wait()
		w.close()
	})

	t.Run("a closed scheduler takes nothing in", func(t *testing.T) {
		st := &fakeStore{}
		bubble(t, st, func(w *world) {
			w.beat.Kick()
			w.close()
			g := w.add("after close", 200*ms, ms)
			w.beat.Kick()
			time.Sleep(time.Hour)
			w.beat.Remove(g)
			assert.Empty(w.t, st.seen(""))
		})
	})

	t.Run("Close waits for what is on its way, and cuts it off when its context ends", func(t *testing.T) {
		st := &fakeStore{answer: func(context.Context, int, []store.Claim) error { time.Sleep(2 * time.Second); return nil }}
		bubble(t, st, func(w *world) {
			g := w.add("job", 30*time.Second, 10*time.Second)
			time.Sleep(11 * time.Second)
			require.Len(w.t, st.seen(""), 1)
			began := time.Now()
			require.NoError(w.t, w.beat.Close(w.t.Context()))
			assert.LessOrEqual(w.t, time.Since(began), 2*time.Second)
			assert.Zero(w.t, g.renewals(), "dropped")
		})
		bubble(t, st, func(w *world) {
			st.forget()
			w.add("job", 30*time.Second, 10*time.Second)
			for len(st.seen("")) == 0 {
				time.Sleep(100 * ms)
			}
			began := time.Now()
			ctx, cancel := context.WithTimeout(w.t.Context(), 300*ms)
			defer cancel()
			require.ErrorIs(w.t, w.beat.Close(ctx), context.DeadlineExceeded)
			assert.LessOrEqual(w.t, time.Since(began), 325*ms)
			time.Sleep(3 * time.Second)
		})
	})
}

func TestClocks(t *testing.T) {
	// jump adds a step to the real clocks.
	type jump struct {
		mu   sync.Mutex
		step clock.Instant
	}
	for name, tt := range map[string]struct {
		step clock.Instant
		want bool
	}{
		"a suspend":                         {clock.Instant{Suspended: 15 * time.Second, Wall: 15 * time.Second}, true},
		"the wall clock is set forward":     {clock.Instant{Wall: 20 * time.Second}, true},
		"CLK-05 the wall clock is set back": {clock.Instant{Wall: -20 * time.Second}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &fakeStore{}
				w := newWorld(t, st)
				var j jump
				straight := w.clk
				w.clk = func() clock.Instant {
					now := straight()
					j.mu.Lock()
					defer j.mu.Unlock()
					now.Suspended += j.step.Suspended
					now.Wall += j.step.Wall
					return now
				}
				w.beat = heartbeat.New(bounded.New(st), w.clk)
				g := w.add("job", 30*time.Second, 10*time.Second)
				time.Sleep(2 * time.Second)
				j.mu.Lock()
				j.step = tt.step
				j.mu.Unlock()
				w.beat.Kick()
				synctest.Wait()
				assert.Equal(t, tt.want, len(st.seen("")) == 1, "sent at once")
				time.Sleep(time.Minute)
				assert.True(t, g.live())
				w.close()
			})
		})
	}
}
