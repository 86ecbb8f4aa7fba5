package guard

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/clock"
	"github.com/aaravsoft/leasehold/store"
)

// TestOrder has one goroutine stand still between its decision to end the guard and the end of the context.
func TestOrder(t *testing.T) {
	stalled := func(t *testing.T) (r *rig, resume func()) {
		t.Helper()
		r = newRig(t, t.Context(), func(p *Params) {
			keeperOf(p).run = func(f func()) { r.wg.Go(f); synctest.Wait() } // f runs as early as it can
		})
		s, gate := (*state)(r.Control), make(chan struct{})
		var second atomic.Bool
		unwatch := s.unwatch
		s.unwatch = func() bool {
			if !second.Swap(true) {
				<-gate
			}
			return unwatch()
		}
		go r.Lose(Taken, nil)
		synctest.Wait()
		require.NoError(t, r.g.Context().Err(), "it is about to end")
		return r, func() { close(gate) }
	}

	bubble(t, "rule 8: nothing is released before the context has ended", func(t *testing.T) {
		r, resume := stalled(t)
		defer resume()
		r.answers = append(r.answers, func() (store.Result, error) {
			stops, _, _ := r.seen()
			assert.Positive(t, stops, "and the heartbeat has let go")
			return store.Result{}, nil
		})
		require.ErrorIs(t, r.g.Unlock(), store.ErrLost)
		require.Error(t, r.g.Context().Err())
		require.Equal(t, 1, r.sent)
		require.ErrorIs(t, r.ctxAtSend, store.ErrLost)
	})

	bubble(t, "the loss is told before the release, and Unlock waits for neither", func(t *testing.T) {
		r, resume := stalled(t)
		require.ErrorIs(t, r.g.Unlock(), store.ErrLost)
		_, losses, released := r.seen()
		require.Equal(t, []int{0, 0}, []int{losses, released})
		resume()
		r.wg.Wait()
		_, losses, released = r.seen()
		require.Equal(t, []int{1, 1}, []int{losses, released})
	})

	bubble(t, "SAF-03 Err ends the context itself", func(t *testing.T) {
		r, resume := stalled(t)
		defer resume()
		require.ErrorIs(t, r.g.Err(), store.ErrLost)
		require.Error(t, r.g.Context().Err())
	})

	bubble(t, "exactly one loss", func(t *testing.T) {
		for range 200 {
			r := newRig(t, t.Context())
			var wg sync.WaitGroup
			for _, f := range []func(){
				r.Check, r.Check, func() { _ = r.g.Err() }, func() { _ = r.g.Err() }, func() { r.Lose(Taken, nil) },
				func() { r.Lose(Gone, nil) }, func() { r.Raise(clock.Instant{}) }, r.StopRenewing,
			} {
				wg.Go(func() {
					time.Sleep(trust) // as the guard's own timer
					f()
				})
			}
			wg.Wait()
			synctest.Wait()
			_, losses, _ := r.seen()
			require.Equal(t, 1, losses)
			require.Same(t, r.losses[0], r.g.Err())
			require.Same(t, r.losses[0], context.Cause(r.g.Context()))
		}
	})

	t.Run("Start beside Close", func(t *testing.T) {
		for range 100 { // for the race detector
			g, ctl := New(params(clock.System()))
			var wg sync.WaitGroup
			wg.Go(ctl.Start)
			wg.Go(ctl.Close)
			wg.Wait()
			require.Equal(t, ErrClosed, g.Err())
			require.NoError(t, g.Unlock())
		}
	})

	bubble(t, "no callback before Start", func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		r := newRig(t, t.Context())
		p := (*state)(r.Control).p
		p.Parent = parent
		g, ctl := New(p)
		cancel()
		time.Sleep(time.Hour)
		stops, losses, _ := r.seen()
		require.Equal(t, []int{1, 1}, []int{stops, losses}, "those of the other guard")
		ctl.Start()
		stops, losses, _ = r.seen()
		require.Equal(t, []int{2, 2}, []int{stops, losses}, "what was due")
		require.ErrorIs(t, g.Unlock(), store.ErrLost)
	})
}
