package guard

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

func TestUnlock(t *testing.T) {
	bubble(t, "the context ends, and the heartbeat lets go, before the Release is sent", func(t *testing.T) {
		r := newRig(t, t.Context())
		r.answers = append(r.answers, func() (store.Result, error) {
			stops, _, _ := r.seen()
			assert.Positive(t, stops)
			return store.Result{}, nil
		})
		require.NoError(t, r.g.Unlock())
		require.ErrorIs(t, r.ctxAtSend, ErrUnlocked)
	})

	bubble(t, "REL-01 concurrent calls wait for the first and repeat it", func(t *testing.T) {
		r := newRig(t, t.Context())
		r.answers = append(r.answers, func() (store.Result, error) {
			time.Sleep(time.Second)
			return store.Result{}, nil
		})
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				assert.NoError(t, r.g.Unlock())
				assert.Equal(t, time.Second, r.at())
			})
		}
		wg.Wait()
		require.Equal(t, 1, r.sent)
	})

	bubble(t, "REL-03 UnlockContext limits only the waiting", func(t *testing.T) {
		r := newRig(t, t.Context())
		r.answers = append(r.answers, func() (store.Result, error) {
			time.Sleep(2 * time.Second)
			return store.Result{}, nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := r.g.UnlockContext(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.Equal(t, time.Second, r.at())
		require.NoError(t, r.g.Unlock())
		require.Equal(t, 2*time.Second, r.at())
		require.Equal(t, 1, r.sent)
	})

	bubble(t, "REL-03 with a context that has ended", func(t *testing.T) {
		parent, cancel := context.WithCancelCause(t.Context())
		r := newRig(t, parent)
		r.answers = append(r.answers, func() (store.Result, error) {
			time.Sleep(time.Second)
			return store.Result{}, nil
		})
		cancel(&LostError{Name: "around", Reason: Gone})
		err := r.g.UnlockContext(r.g.Context())
		require.Zero(t, r.at())
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, store.ErrUnclear)
		require.Equal(t, 1, classesOf(err), "the cause lends it none: %v", err)
		require.ErrorContains(t, err, `lock "around" lost`)
		require.NoError(t, r.g.Unlock(), "the release was sent")
		require.Equal(t, 1, r.sent)
	})

	bubble(t, "UnlockContext of what is over already answers, whatever its context", func(t *testing.T) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		r := newRig(t, t.Context())
		require.NoError(t, r.g.Unlock())
		require.NoError(t, r.g.UnlockContext(ended))

		r = newRig(t, t.Context())
		r.Lose(Gone, nil)
		require.ErrorIs(t, r.g.UnlockContext(ended), store.ErrLost)
	})

	bubble(t, "REL-04 a store that hangs", func(t *testing.T) {
		r := newRig(t, t.Context(), func(p *Params) {
			keeperOf(p).release = func(limit time.Duration) (store.Result, error) {
				time.Sleep(min(limit, 800*time.Millisecond))
				return fails(true)()
			}
		})
		go func() {
			time.Sleep(time.Nanosecond)
			assert.Equal(t, ErrUnlocked, context.Cause(r.g.Context()), "at once")
		}()
		err := r.g.Unlock()
		require.ErrorIs(t, err, store.ErrUnclear)
		require.LessOrEqual(t, r.at(), trust)
		require.Greater(t, r.at(), trust-maxPause)
		stops, _, _ := r.seen()
		require.Positive(t, stops)
	})

	bubble(t, "not before the store wants it", func(t *testing.T) {
		busy := func(d time.Duration) func() (store.Result, error) {
			return func() (store.Result, error) {
				return store.Result{}, &store.UnavailableError{Op: "release", RetryAfter: d, Err: errDown}
			}
		}
		r := newRig(t, t.Context())
		r.answers = append(r.answers, busy(time.Second))
		require.NoError(t, r.g.Unlock())
		require.Equal(t, time.Second, r.at())
		require.Equal(t, 2, r.sent)

		r = newRig(t, t.Context())
		r.answers = append(r.answers, busy(10*time.Second))
		require.ErrorIs(t, r.g.Unlock(), store.ErrUnavailable)
		require.Zero(t, r.at(), "it would be too late")
		require.Equal(t, 1, r.sent)
	})

	bubble(t, "REL-04 retries inside its bound", func(t *testing.T) {
		r := newRig(t, t.Context())
		for range 3 {
			r.answers = append(r.answers, fails(false))
		}
		require.NoError(t, r.g.Unlock())
		require.Equal(t, 4, r.sent)
		require.Less(t, r.at(), time.Second)

		r = newRig(t, t.Context())
		r.answers = append(r.answers, fails(true))
		for range 100 {
			r.answers = append(r.answers, fails(false))
		}
		err := r.g.Unlock()
		require.ErrorIs(t, err, store.ErrUnclear, "one attempt of them was")
		require.ErrorIs(t, err, errDown)
		require.LessOrEqual(t, r.at(), trust, "what was left of trust")
		require.Greater(t, r.at(), trust-maxPause, "used up")
	})

	bubble(t, "rule 11: not found after an unclear attempt is success", func(t *testing.T) {
		r := newRig(t, t.Context())
		r.answers = append(r.answers, fails(true), says(store.Lease{}))
		require.NoError(t, r.g.Unlock())

		r = newRig(t, t.Context())
		r.answers = append(r.answers, fails(true), says(store.Lease{Owner: "next/one"}))
		require.NoError(t, r.g.Unlock(), "somebody has it already")

		r = newRig(t, t.Context())
		r.answers = append(r.answers, fails(true), says(store.Lease{Owner: "host:1/abc"}))
		require.ErrorIs(t, r.g.Unlock(), store.ErrLost, "it was there, expired")

		r = newRig(t, t.Context())
		r.answers = append(r.answers, fails(false), says(store.Lease{}))
		require.ErrorIs(t, r.g.Unlock(), store.ErrLost, "the first was not applied")
	})

	bubble(t, "rule 11: not so if D had passed when the first was sent", func(t *testing.T) {
		r := newRig(t, t.Context())
		r.answers = append(r.answers, fails(true), says(store.Lease{}))
		time.Sleep(trust)
		require.ErrorIs(t, r.g.Unlock(), store.ErrLost)
		r.wg.Wait()
		require.Equal(t, 2, r.sent)
		require.ErrorIs(t, r.releases[0], store.ErrLost)
		require.Len(t, r.losses, 1, "it was told already")
	})

	bubble(t, "of a lost guard: at once, the Release goes on behind", func(t *testing.T) {
		r := newRig(t, t.Context())
		r.answers = append(r.answers, func() (store.Result, error) {
			time.Sleep(time.Second)
			return says(store.Lease{Owner: "somebody/else"})()
		})
		r.Lose(Taken, nil)
		require.ErrorIs(t, r.g.Unlock(), store.ErrLost)
		require.Zero(t, r.at())
		r.wg.Wait()
		require.Equal(t, 1, r.sent)
	})

	bubble(t, "REN-04 nothing raises an unlocked guard", func(t *testing.T) {
		r := newRig(t, t.Context())
		require.NoError(t, r.g.Unlock())
		before := r.Deadline()
		time.Sleep(time.Second)
		r.Raise(r.clock())
		r.Lose(Gone, nil)
		r.Close()
		r.Check()
		require.Equal(t, before, r.Deadline())
		require.ErrorIs(t, r.g.Err(), ErrUnlocked)
		time.Sleep(time.Minute)
		_, losses, _ := r.seen()
		require.Zero(t, losses)
	})

	t.Run("CFG-03 a nil guard", func(t *testing.T) {
		var g *Guard
		require.NoError(t, g.Unlock())
		require.NoError(t, g.UnlockContext(t.Context()))
	})
}
