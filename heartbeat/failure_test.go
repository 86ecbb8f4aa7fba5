package heartbeat_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/bounded"
	"github.com/aaravsoft/leasehold/store"
)

func TestFailures(t *testing.T) {
	t.Run("REN-01 one failed renewal is repeated", func(t *testing.T) {
		st := &fakeStore{}
		bubble(t, st, func(w *world) {
			var broken time.Time
			st.answer = func(context.Context, int, []store.Claim) error {
				if broken.IsZero() {
					broken = time.Now()
				}
				if time.Since(broken) < 200*ms {
					return unclear()
				}
				return nil
			}
			g := w.add("job", 3*time.Second, time.Second)
			time.Sleep(10 * time.Second)
			assert.True(w.t, g.live())
			failures := g.failures()
			assert.InDelta(w.t, 4.5, len(failures), 0.5)
			require.ErrorIs(w.t, failures[0], errNetwork)
			calls := st.seen("job")
			for i, most := range []time.Duration{25 * ms, 50 * ms, 100 * ms} {
				wait := calls[i+1].at.Sub(calls[i].at)
				assert.LessOrEqual(w.t, wait, most)
				assert.GreaterOrEqual(w.t, wait, most/2)
			}
			assert.LessOrEqual(w.t, calls[len(failures)].at.Sub(broken), 400*ms, "well before the next regular round")
		})
	})

	t.Run("REN-02 a store that panics, then fails in its own way, then works", func(t *testing.T) {
		st := &fakeStore{answer: func(_ context.Context, n int, _ []store.Claim) error {
			switch n {
			case 0:
				panic("out of luck")
			case 1:
				return errors.New("no class")
			}
			return nil
		}}
		bubble(t, st, func(w *world) {
			g := w.add("job", 6*time.Second, time.Second)
			time.Sleep(3 * time.Second)
			assert.True(w.t, g.live())
			failures := g.failures()
			require.Len(w.t, failures, 2)
			_, ok := errors.AsType[*bounded.PanicError](failures[0])
			assert.True(w.t, ok)
			assert.ErrorIs(w.t, failures[1], store.ErrUnavailable)
			assert.Positive(w.t, g.renewals())
		})
	})

	t.Run("SAF-02 REN-03 a definite loss is told once and ends the renewals", func(t *testing.T) {
		st := &fakeStore{row: func(n int, c store.Claim) store.Result {
			if c.Name == "taken" {
				return store.Result{Lease: store.Lease{Name: c.Name, Owner: "other/x"}, Err: fmt.Errorf("%w: taken", store.ErrLost)}
			}
			return store.Result{}
		}}
		bubble(t, st, func(w *world) {
			g, kept := w.newTarget("taken", 30*time.Second), w.add("kept", 30*time.Second, 10*time.Second)
			g.onLost = func() { w.beat.Remove(g) } // as a guard does
			w.beat.Add(g, 10*time.Second, w.clk())
			time.Sleep(70 * time.Second)
			require.Len(w.t, st.seen("taken"), 1)
			require.Len(w.t, g.losses(), 1)
			assert.ErrorIs(w.t, g.losses()[0].Err, store.ErrLost)
			assert.Equal(w.t, "other/x", g.losses()[0].Lease.Owner)
			assert.Empty(w.t, g.failures())
			assert.True(w.t, kept.live())
		})
	})

	t.Run("one row that fails delays no other", func(t *testing.T) {
		st := &fakeStore{row: func(_ int, c store.Claim) store.Result {
			switch c.Name {
			case "n-00007":
				return store.Result{Err: unclear()}
			case "n-00008":
				return store.Result{Err: &store.MisconfiguredError{Remedy: "grant something"}}
			}
			return store.Result{}
		}}
		bubble(t, st, func(w *world) {
			targets := w.addMany(100, 3*time.Second, time.Second)
			time.Sleep(20 * time.Second)
			for i, g := range targets {
				if i == 7 || i == 8 {
					assert.False(w.t, g.live())
					continue
				}
				require.True(w.t, g.live())
				require.Empty(w.t, g.failures())
				require.InDelta(w.t, 20, g.renewals(), 3)
			}
			assert.ErrorIs(w.t, targets[7].failures()[0], store.ErrUnavailable)
			assert.ErrorIs(w.t, targets[8].failures()[0], store.ErrMisconfigured)
			for _, c := range st.seen("n-00007")[1:] {
				require.LessOrEqual(w.t, len(c.claims), 2, "repeated without those that have not failed")
			}
			assert.Less(w.t, len(st.seen("n-00007")), 20, "none after the end of trust")
		})
	})

	t.Run("a batch that fails is repeated together", func(t *testing.T) {
		st := &fakeStore{answer: func(_ context.Context, n int, _ []store.Claim) error {
			if n < 4 {
				return unclear()
			}
			return nil
		}}
		bubble(t, st, func(w *world) {
			w.addMany(900, 3*time.Second, time.Second)
			time.Sleep(1800 * ms)
			calls := st.seen("")
			require.Len(w.t, calls, 6)
			for _, pair := range [][]renewal{calls[:2], calls[2:4], calls[4:]} {
				assert.Equal(w.t, 900, len(pair[0].claims)+len(pair[1].claims))
			}
		})
	})

	t.Run("RetryAfter is respected as far as another attempt fits", func(t *testing.T) {
		for _, tt := range []struct{ asked, low, high time.Duration }{
			{asked: 3 * time.Second, low: 3 * time.Second, high: 3*time.Second + 25*ms},
			{asked: time.Hour, low: 8 * time.Second, high: 9 * time.Second}, // half of 27 s − (9…11 s)
		} {
			st := &fakeStore{answer: func(_ context.Context, n int, _ []store.Claim) error {
				if n == 0 {
					return &store.UnavailableError{RetryAfter: tt.asked}
				}
				return nil
			}}
			bubble(t, st, func(w *world) {
				g := w.add("job", 30*time.Second, 10*time.Second)
				time.Sleep(time.Minute)
				assert.True(w.t, g.live())
				calls := st.seen("")
				wait := calls[1].at.Sub(calls[0].at)
				assert.GreaterOrEqual(w.t, wait, tt.low)
				assert.LessOrEqual(w.t, wait, tt.high)
			})
		}
	})

	t.Run("a store that never answers in time costs few attempts, all inside trust", func(t *testing.T) {
		st := &fakeStore{answer: func(ctx context.Context, _ int, _ []store.Claim) error { <-ctx.Done(); return ctx.Err() }}
		bubble(t, st, func(w *world) {
			g := w.add("job", 3*time.Second, time.Second)
			began := time.Now()
			time.Sleep(time.Minute)
			assert.False(w.t, g.live())
			calls := st.seen("")
			assert.Len(w.t, g.failures(), len(calls))
			assert.InDelta(w.t, 8, len(calls), 4)
			for i, c := range calls {
				left := began.Add(g.trust).Sub(c.at)
				require.Positive(w.t, left, "call %d", i)
				require.LessOrEqual(w.t, c.limit, left/2, "call %d", i)
			}
		})
	})
}

func TestHungCalls(t *testing.T) {
	t.Run("one hung call is replaced once and the lock lives on", func(t *testing.T) {
		st := &fakeStore{}
		bubble(t, st, func(w *world) {
			free := make(chan struct{})
			st.answer = func(_ context.Context, n int, _ []store.Claim) error {
				if n == 0 {
					<-free
				}
				return nil
			}
			g := w.add("job", 30*time.Second, 10*time.Second)
			time.Sleep(10 * time.Minute)
			assert.True(w.t, g.live())
			require.Len(w.t, g.failures(), 1)
			assert.ErrorIs(w.t, g.failures()[0], bounded.ErrAbandoned)
			renewed := g.renewals()
			close(free)
			synctest.Wait()
			assert.Equal(w.t, renewed+1, g.renewals(), "its answer is told, however late")
			assert.True(w.t, g.live())
			assert.Len(w.t, g.failures(), 1)
		})
	})

	t.Run("what a hung call says when it returns counts", func(t *testing.T) {
		for name, row := range map[string]store.Result{"renewed": {}, "lost": {Err: store.ErrLost}, "failed": {Err: unclear()}} {
			st := &fakeStore{}
			bubble(t, st, func(w *world) {
				var late atomic.Bool
				free := make(chan struct{})
				st.answer = func(context.Context, int, []store.Claim) error {
					if !late.Load() {
						<-free
					}
					return nil
				}
				st.row = func(n int, _ store.Claim) store.Result {
					if n < 4 {
						return row
					}
					return store.Result{}
				}
				g := w.add("job", 30*time.Second, 10*time.Second)
				time.Sleep(25 * time.Second)
				require.Len(w.t, st.seen(""), 4, "not a fifth one, though there is time")
				require.True(w.t, g.live())
				late.Store(true)
				close(free)
				time.Sleep(5 * time.Second)
				switch name {
				case "renewed", "failed":
					assert.True(w.t, g.live(), name)
				case "lost":
					assert.Len(w.t, g.losses(), 1)
				}
				time.Sleep(time.Minute)
				assert.Equal(w.t, name != "lost", g.live(), name)
				assert.Equal(w.t, name == "lost", len(st.seen("")) == 4)
				assert.Len(w.t, g.failures(), 4, "a late failure is no news")
			})
		}
	})

	t.Run("CON-01 a store that hangs for ever is not asked for ever", func(t *testing.T) {
		st := &fakeStore{}
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, st)
			free := make(chan struct{})
			st.answer = func(context.Context, int, []store.Claim) error { <-free; return nil }
			for i := range 20 {
				w.add(fmt.Sprintf("guard-%d", i), time.Duration(2+i)*time.Second, time.Duration(2+i)*time.Second/3)
			}
			time.Sleep(time.Hour)
			assert.LessOrEqual(t, st.mostOutstanding(), bounded.Most)
			calls := len(st.seen(""))
			for _, c := range st.seen("") {
				require.NotEmpty(t, c.claims)
			}
			// New guards come all the time, as a service would try.
			for i := range 100 {
				w.add(fmt.Sprintf("later-%d", i), 3*time.Second, time.Second)
				time.Sleep(10 * time.Second)
			}
			assert.LessOrEqual(t, st.mostOutstanding(), bounded.Most)
			assert.LessOrEqual(t, len(st.seen("")), max(calls, bounded.Most))
			close(free)
			w.close()
		})
	})

	t.Run("Close returns while the store hangs", func(t *testing.T) {
		st := &fakeStore{}
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, st)
			free := make(chan struct{})
			st.answer = func(context.Context, int, []store.Claim) error { <-free; return nil }
			w.addMany(2000, 30*time.Second, 10*time.Second)
			time.Sleep(11 * time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
			defer cancel()
			began := time.Now()
			require.Error(t, w.beat.Close(ctx))
			assert.LessOrEqual(t, time.Since(began), 125*ms)
			close(free)
		})
	})

	t.Run("one row that makes its call hang takes few with it, and none for long", func(t *testing.T) {
		for _, honours := range []string{"its context", "nothing"} {
			st := &fakeStore{}
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, st)
				free := make(chan struct{})
				st.answer = func(ctx context.Context, _ int, claims []store.Claim) error {
					if !slices.ContainsFunc(claims, func(c store.Claim) bool { return c.Name == "n-00003" }) {
						return nil
					}
					if honours == "nothing" {
						<-free
						return nil
					}
					<-ctx.Done()
					return &store.UnavailableError{Unclear: true, Err: ctx.Err()}
				}
				targets := w.addMany(8, 30*time.Second, 10*time.Second)
				time.Sleep(5 * time.Minute)
				for i, g := range targets {
					assert.Equal(t, i != 3, g.live(), "guard %d", i)
				}
				close(free)
				w.close()
			})
		}
	})

	t.Run("one hung batch does not delay the others", func(t *testing.T) {
		st := &fakeStore{}
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, st)
			free := make(chan struct{})
			st.answer = func(_ context.Context, n int, _ []store.Claim) error {
				if n == 0 {
					<-free
				}
				return nil
			}
			targets := w.addMany(1500, 30*time.Second, 10*time.Second)
			time.Sleep(11 * time.Second)
			renewed := 0
			for _, g := range targets {
				renewed += g.renewals()
			}
			assert.Equal(t, 1000, renewed)
			time.Sleep(time.Minute)
			for _, g := range targets {
				require.True(t, g.live())
			}
			close(free)
			w.close()
		})
	})
}
