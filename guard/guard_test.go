package guard

import (
	"context"
	"errors"
	"strings"
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

// TestStates is the table "state, Err, Cause, Unlock" of docs/design.md.
func TestStates(t *testing.T) {
	errSignal := errors.New("terminated")
	for _, tc := range []struct {
		state  string
		reach  func(r *rig, cancel context.CancelCauseFunc)
		err    []error // Err is all of these; none: nil
		cause  error   // of the context; nil: it lives
		unlock []error
		notErr error
	}{
		{state: "live", reach: func(*rig, context.CancelCauseFunc) {}},
		{
			state: "parent ended, draining",
			reach: func(_ *rig, cancel context.CancelCauseFunc) { cancel(errSignal) },
			err:   []error{context.Canceled, errSignal}, cause: errSignal, notErr: store.ErrLost,
		},
		{
			state: "MaxHold over, draining",
			reach: func(r *rig, _ context.CancelCauseFunc) {
				for range 5 {
					time.Sleep(time.Second)
					r.Raise(r.clock())
				}
			},
			err: []error{context.DeadlineExceeded}, cause: context.DeadlineExceeded, notErr: store.ErrLost,
		},
		{
			state: "lost while draining",
			reach: func(r *rig, cancel context.CancelCauseFunc) {
				cancel(errSignal)
				synctest.Wait()
				r.Lose(Taken, store.ErrLost)
			},
			err: []error{store.ErrLost}, cause: errSignal, unlock: []error{store.ErrLost},
		},
		{
			state: "lost while draining after MaxHold",
			reach: func(r *rig, _ context.CancelCauseFunc) {
				for range 5 {
					time.Sleep(time.Second)
					r.Raise(r.clock())
				}
				time.Sleep(trust)
			},
			err: []error{store.ErrLost}, cause: context.DeadlineExceeded, unlock: []error{store.ErrLost},
		},
		{
			state: "lost and MaxHold over, found out together",
			reach: func(r *rig, _ context.CancelCauseFunc) { r.move(time.Minute, 0) },
			err:   []error{store.ErrLost}, cause: context.DeadlineExceeded, unlock: []error{store.ErrLost},
		},
		{
			state: "lost after the client was closed",
			reach: func(r *rig, _ context.CancelCauseFunc) {
				r.Close()
				time.Sleep(trust)
			},
			err: []error{store.ErrLost}, cause: ErrClosed, unlock: []error{store.ErrLost},
		},
		{
			state: "closed and unlocked",
			reach: func(r *rig, _ context.CancelCauseFunc) {
				r.Close()
				_ = r.g.Unlock()
			},
			err: []error{ErrUnlocked}, cause: ErrClosed, notErr: store.ErrLost,
		},
		{
			state: "closed, and the delete says expired",
			reach: func(r *rig, _ context.CancelCauseFunc) {
				r.Close()
				r.answers = append(r.answers, says(store.Lease{Owner: "host:1/abc"}))
				_ = r.g.Unlock()
			},
			err: []error{store.ErrLost}, cause: ErrClosed, unlock: []error{store.ErrLost},
		},
		{
			state:  "lost",
			reach:  func(r *rig, _ context.CancelCauseFunc) { r.Lose(Gone, store.ErrLost) },
			err:    []error{store.ErrLost},
			cause:  store.ErrLost,
			unlock: []error{store.ErrLost},
		},
		{
			state: "client closed",
			reach: func(r *rig, _ context.CancelCauseFunc) { r.Close() },
			err:   []error{ErrClosed}, cause: ErrClosed, notErr: store.ErrLost,
		},
		{
			state: "unlocked",
			reach: func(r *rig, _ context.CancelCauseFunc) { _ = r.g.Unlock() },
			err:   []error{ErrUnlocked}, cause: ErrUnlocked, notErr: store.ErrLost,
		},
		{
			state: "the delete says not yours",
			reach: func(r *rig, _ context.CancelCauseFunc) {
				r.answers = append(r.answers, says(store.Lease{Owner: "somebody/else"}))
				_ = r.g.Unlock()
			},
			err: []error{store.ErrLost}, cause: ErrUnlocked, unlock: []error{store.ErrLost},
		},
		{
			state: "the delete says expired",
			reach: func(r *rig, _ context.CancelCauseFunc) {
				r.answers = append(r.answers, says(store.Lease{Owner: "host:1/abc"}))
				_ = r.g.Unlock()
			},
			err: []error{store.ErrLost}, cause: ErrUnlocked, unlock: []error{store.ErrLost},
		},
		{
			state: "release not confirmed",
			reach: func(r *rig, _ context.CancelCauseFunc) {
				for range 100 {
					r.answers = append(r.answers, fails(true))
				}
				_ = r.g.Unlock()
			},
			err: []error{ErrUnlocked}, cause: ErrUnlocked, unlock: []error{store.ErrUnavailable, store.ErrUnclear}, notErr: store.ErrLost,
		},
		{
			state: "release refused by the configuration",
			reach: func(r *rig, _ context.CancelCauseFunc) {
				r.answers = append(r.answers, func() (store.Result, error) {
					return store.Result{}, &store.MisconfiguredError{Remedy: "grant DELETE"}
				})
				_ = r.g.Unlock()
				require.Equal(r.t, 1, r.sent, "trying again would not help")
			},
			err: []error{ErrUnlocked}, cause: ErrUnlocked, unlock: []error{store.ErrMisconfigured}, notErr: store.ErrLost,
		},
	} {
		bubble(t, tc.state, func(t *testing.T) {
			parent, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			r := newRig(t, parent, func(p *Params) {
				if strings.Contains(tc.state, "MaxHold") {
					p.MaxHold = 4500 * time.Millisecond
				}
			})
			tc.reach(r, cancel)
			err := r.g.Err()
			if len(tc.err) == 0 {
				require.NoError(t, err)
				require.NoError(t, r.g.Context().Err())
			}
			for _, want := range tc.err {
				require.ErrorIs(t, err, want)
			}
			if tc.notErr != nil {
				require.NotErrorIs(t, err, tc.notErr)
			}
			require.LessOrEqual(t, classesOf(err), 1)
			if tc.cause != nil {
				require.Error(t, r.g.Context().Err())
				require.ErrorIs(t, context.Cause(r.g.Context()), tc.cause)
			}
			for range 2 { // the first, and its repetition
				answer := r.g.Unlock()
				if len(tc.unlock) == 0 {
					require.NoError(t, answer)
				}
				for _, want := range tc.unlock {
					require.ErrorIs(t, answer, want)
				}
				require.LessOrEqual(t, classesOf(answer), 1)
			}
			r.wg.Wait()
			require.Zero(t, r.g.Remaining())
			require.True(t, r.Ended())
			stops, losses, released := r.seen()
			require.Positive(t, stops)
			require.Equal(t, 1, released)
			if len(tc.unlock) > 0 && errors.Is(tc.unlock[0], store.ErrLost) {
				require.Equal(t, 1, losses)
			} else {
				require.Zero(t, losses)
			}
		})
	}
}

func TestTrust(t *testing.T) {
	bubble(t, "SAF-01 the context ends exactly at D", func(t *testing.T) {
		r := newRig(t, t.Context())
		require.Equal(t, trust, r.doneAt())
		require.Equal(t, Unconfirmed, reasonOf(t, r.g.Err()))
		require.Equal(t, r.g.Err(), context.Cause(r.g.Context()))
		_, ok := r.g.Context().Deadline()
		require.False(t, ok, "D moves, so it is no Deadline")
	})

	bubble(t, "CLK-06 trust counts from the request, not from the reply", func(t *testing.T) {
		var sent clock.Instant
		r := newRig(t, t.Context(), func(p *Params) {
			sent = p.Sent
			time.Sleep(800 * time.Millisecond) // until the reply
		})
		require.Equal(t, sent.Add(trust), r.Deadline())
		require.Equal(t, trust, r.doneAt())
	})

	bubble(t, "a success raises D, and never lowers it", func(t *testing.T) {
		r := newRig(t, t.Context())
		first := r.clock()
		time.Sleep(time.Second)
		second := r.clock()
		time.Sleep(time.Second)
		r.Raise(second)
		r.Raise(first)
		require.Equal(t, second.Add(trust), r.Deadline())
		require.Equal(t, 1700*time.Millisecond, r.g.Remaining())
		require.Equal(t, time.Second+trust, r.doneAt())
	})

	bubble(t, "SAF-07 a success that is processed after D changes nothing", func(t *testing.T) {
		r := newRig(t, t.Context())
		time.Sleep(time.Second)
		sent := r.clock()
		r.move(2*time.Second, 0) // D passes unseen by the timer
		require.Positive(t, r.clock().Until(sent.Add(trust)), "it would have been enough")
		r.Raise(sent)
		require.True(t, r.Ended())
		require.ErrorIs(t, r.g.Err(), store.ErrLost)
		require.Error(t, r.g.Context().Err())
	})

	bubble(t, "SAF-03 Err, Remaining and the context never disagree", func(t *testing.T) {
		r := newRig(t, t.Context())
		for range 10_000 {
			ended, err, left := r.g.Context().Err(), r.g.Err(), r.g.Remaining()
			if ended != nil {
				require.Error(t, err)
			}
			require.Equal(t, err != nil, r.g.Context().Err() != nil)
			require.Equal(t, err != nil, left == 0)
			time.Sleep(time.Millisecond)
		}
	})

	bubble(t, "SAF-05 suspension and clock steps", func(t *testing.T) {
		for name, tc := range map[string]struct {
			suspend, step time.Duration
			lost          bool
		}{
			"suspended":           {time.Minute, 0, true},
			"CLK-05 wall forward": {0, time.Hour, true},
			"CLK-05 wall back":    {0, -time.Hour, false},
		} {
			r := newRig(t, t.Context())
			r.move(tc.suspend, tc.step)
			r.Check()
			require.Equal(t, tc.lost, r.g.Err() != nil, name)
			if tc.lost {
				require.Equal(t, Suspended, reasonOf(t, r.g.Err()), name)
				require.Zero(t, r.at(), name)
			} else {
				require.Equal(t, trust, r.doneAt(), "%s: by the clock that nobody sets", name)
			}
		}
	})

	bubble(t, "SAF-05 stopped while the timer is set", func(t *testing.T) {
		var stop atomic.Bool
		r := newRig(t, t.Context(), func(p *Params) {
			read := p.Clock
			p.Clock = func() clock.Instant {
				now := read()
				if stop.Swap(false) {
					time.Sleep(time.Second) // after the reading, before the timer is set by it
				}
				return now
			}
		})
		time.Sleep(time.Second)
		stop.Store(true)
		r.Check()
		require.Equal(t, trust, r.doneAt(), "not a second later")
	})

	bubble(t, "Since is the end of trust, however late it is noticed", func(t *testing.T) {
		r := newRig(t, t.Context())
		d := r.Deadline().Time()
		r.move(time.Minute, 0)
		var lost *LostError
		require.ErrorAs(t, r.g.Err(), &lost)
		require.Equal(t, d, lost.Since)
		require.Equal(t, d.Add(-trust), lost.LastConfirmed)

		r = newRig(t, t.Context())
		time.Sleep(time.Second)
		r.Lose(Gone, nil)
		require.ErrorAs(t, r.g.Err(), &lost)
		require.Equal(t, r.clock().Time(), lost.Since, "when the store said so")
	})

	bubble(t, "SAF-08 whoever waits for the end hears of it at once", func(t *testing.T) {
		r := newRig(t, t.Context(), func(p *Params) { keeperOf(p).lost = func(*LostError) { time.Sleep(time.Minute) } })
		context.AfterFunc(r.g.Context(), func() { time.Sleep(time.Minute) })
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { assert.Equal(t, trust, r.doneAt()) })
		}
		wg.Wait()
		time.Sleep(2 * time.Minute) // until the slow ones are done
	})

	bubble(t, "SAF-04 Unlock inside the end of the context", func(t *testing.T) {
		r := newRig(t, t.Context())
		answer := make(chan error, 1)
		context.AfterFunc(r.g.Context(), func() { answer <- r.g.Unlock() })
		for range 1000 {
			_ = r.g.Context()
		}
		require.ErrorIs(t, <-answer, store.ErrLost)
		require.Equal(t, trust, r.at())
	})

	bubble(t, "one loss, whatever races", func(t *testing.T) {
		for range 200 {
			r := newRig(t, t.Context())
			time.Sleep(trust - time.Nanosecond)
			var wg sync.WaitGroup
			for _, f := range []func(){
				r.Check, r.Check, func() { _ = r.g.Err() }, func() { r.Lose(Taken, nil) }, func() { r.Raise(clock.Instant{}) },
				func() { _ = r.g.Unlock() }, func() { _ = r.g.Unlock() }, r.Close, func() { r.g.Remaining() }, r.StopRenewing,
			} {
				wg.Go(func() {
					time.Sleep(time.Nanosecond)
					f()
				})
			}
			wg.Wait()
			r.wg.Wait()
			_, losses, released := r.seen()
			require.LessOrEqual(t, losses, 1)
			require.Equal(t, 1, released)
			require.Error(t, r.g.Err())
			require.Error(t, r.g.Context().Err())
		}
	})
}
