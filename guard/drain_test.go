package guard

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

func TestDrain(t *testing.T) {
	bubble(t, "it is timed also if the clocks jump over MaxHold", func(t *testing.T) {
		r := newRig(t, t.Context(), func(p *Params) { p.Trust, p.MaxHold = time.Hour, 30*time.Minute })
		r.move(31*time.Minute, 0)
		require.ErrorContains(t, r.g.Err(), "WithMaxHold")
		time.Sleep(3*time.Second - 1)
		synctest.Wait()
		stops, _, _ := r.seen()
		require.Zero(t, stops)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		stops, _, _ = r.seen()
		require.Equal(t, 1, stops, "Drain is over")
	})

	bubble(t, "the cause is the user's: its text may ask the guard", func(t *testing.T) {
		parent, cancel := context.WithCancelCause(t.Context())
		r := newRig(t, parent)
		cancel(nosyError{r.g})
		require.ErrorContains(t, r.g.Err(), "with 2.7s left")
	})

	bubble(t, "a lock around this one lends its class to nobody", func(t *testing.T) {
		outer := newRig(t, t.Context())
		inner := newRig(t, outer.g.Context())
		outer.Lose(Taken, nil)
		err := inner.g.Err()
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, store.ErrLost, "this one is held")
		_, ok := errors.AsType[*LostError](err)
		require.False(t, ok)
		require.ErrorContains(t, err, "somebody else holds it")
		require.ErrorIs(t, context.Cause(inner.g.Context()), store.ErrLost)
		require.NoError(t, inner.g.Unlock())

		parent, cancel := context.WithCancelCause(t.Context())
		inner = newRig(t, parent)
		cancel(&store.UnavailableError{Op: "acquire", Err: context.Canceled})
		require.ErrorIs(t, inner.g.Err(), context.Canceled)
		require.Zero(t, classesOf(inner.g.Err()))

		outer = newRig(t, t.Context())
		inner = newRig(t, outer.g.Context())
		outer.Close()
		require.Equal(t, ErrClosed, outer.g.Err())
		require.ErrorIs(t, inner.g.Err(), context.Canceled, "its client is not closed")
		require.ErrorIs(t, inner.g.Err(), ErrClosed)
	})

	bubble(t, "the lock is renewed for Drain, then left", func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		r := newRig(t, parent)
		time.Sleep(time.Second)
		cancel()
		synctest.Wait()
		var last time.Duration
		for r.at() < time.Minute {
			synctest.Wait() // a timer of this very moment fires first
			if stops, _, _ := r.seen(); stops > 0 {
				break
			}
			r.Raise(r.clock())
			last = r.at()
			time.Sleep(500 * time.Millisecond)
		}
		require.Equal(t, 4*time.Second, r.at(), "the parent's end + Drain")
		require.NotErrorIs(t, r.g.Err(), store.ErrLost)
		time.Sleep(last + trust - r.at())
		require.Equal(t, Abandoned, reasonOf(t, r.g.Err()))
		require.ErrorIs(t, context.Cause(r.g.Context()), context.Canceled)
	})

	bubble(t, "Err says how to bound the wait alone", func(t *testing.T) {
		parent, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		r := newRig(t, parent)
		require.Equal(t, time.Second, r.doneAt())
		require.ErrorContains(t, r.g.Err(), "WithWait")
		require.ErrorIs(t, r.g.Err(), context.DeadlineExceeded)
	})

	bubble(t, "REN-06 MaxHold", func(t *testing.T) {
		r := newRig(t, t.Context(), func(p *Params) { p.MaxHold = time.Second })
		require.Equal(t, time.Second, r.doneAt())
		require.ErrorContains(t, r.g.Err(), "WithMaxHold")
	})

	bubble(t, "StopRenewing leaves D", func(t *testing.T) {
		r := newRig(t, t.Context())
		r.StopRenewing()
		require.NoError(t, r.g.Err())
		require.Equal(t, trust, r.doneAt())
		require.Equal(t, Abandoned, reasonOf(t, r.g.Err()))
	})
}
