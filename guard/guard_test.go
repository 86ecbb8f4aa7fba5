package guard

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
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
				if tc.state == "MaxHold over, draining" {
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
		r.move(time.Hour, 0) // D passes unseen by the timer
		r.Raise(sent)
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

	bubble(t, "SAF-08 whoever waits for the end hears of it at once", func(t *testing.T) {
		r := newRig(t, t.Context(), func(p *Params) { p.Lost = func(*LostError) { time.Sleep(time.Minute) } })
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

func TestDrain(t *testing.T) {
	bubble(t, "the lock is renewed for Drain, then left", func(t *testing.T) {
		parent, cancel := context.WithCancel(t.Context())
		r := newRig(t, parent)
		time.Sleep(time.Second)
		cancel()
		synctest.Wait()
		var last time.Duration
		for {
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
		require.Equal(t, trust, r.at(), "what was left of the lease")
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

func TestLostError(t *testing.T) {
	engine := errors.New("tcp: reset")
	for _, inner := range []error{
		&store.UnavailableError{Op: "renew", Unclear: true, Err: engine},
		&store.MisconfiguredError{Remedy: "grant it", Err: engine},
		fmt.Errorf("renewal: %w", &store.UnavailableError{Err: engine}),
	} {
		err := error(&LostError{Name: "job", Reason: Unconfirmed, Attempts: 3, Err: inner})
		require.ErrorIs(t, err, store.ErrLost)
		require.ErrorIs(t, err, engine, "the engine's own error stays reachable")
		for _, class := range []error{store.ErrUnavailable, store.ErrMisconfigured, store.ErrUnclear, store.ErrHeld, store.ErrInvalid} {
			require.NotErrorIs(t, err, class, "exactly one class")
		}
		require.ErrorContains(t, err, "3 attempts")
		require.ErrorContains(t, err, "tcp: reset")
	}
	for r := Unconfirmed; r <= Abandoned; r++ {
		require.NotEqual(t, "unknown", r.String())
	}
	require.Equal(t, "unknown", Reason(0).String())
}

func TestCarried(t *testing.T) {
	bubble(t, "innermost first", func(t *testing.T) {
		outer := newRig(t, t.Context())
		inner := newRig(t, context.WithoutCancel(outer.g.Context()), func(p *Params) { p.Name = "inner" })
		again := newRig(t, inner.g.Context())
		var got []*Guard
		for g := range Carried(again.g.Context()) {
			got = append(got, g)
		}
		require.Equal(t, []*Guard{again.g, inner.g, outer.g}, got)
		g, ok := FromContext(inner.g.Context(), "job")
		require.True(t, ok)
		require.Same(t, outer.g, g)
		_, ok = FromContext(t.Context(), "job")
		require.False(t, ok)
	})
}

// TestLeak runs in real time: cleanups are the runtime's.
func TestLeak(t *testing.T) {
	leak := func(t *testing.T, keep func(*Guard)) *Control {
		t.Helper()
		start := time.Now()
		g, ctl := New(Params{
			Name: "job", Owner: "a/b", Parent: context.Background(), Clock: clock.System(), Sent: clock.System()(), Trust: time.Hour, Drain: time.Hour,
			Stop: func() {}, Lost: func(*LostError) {}, Released: func(error) {}, Go: func(f func()) { f() },
			Release:      func(time.Duration) (store.Result, error) { return store.Result{}, nil },
			ReleaseBound: func(d time.Duration) time.Duration { return d },
		})
		require.Less(t, time.Since(start), time.Minute)
		ctl.Start()
		keep(g)
		return ctl
	}
	collected := func(ctl *Control) bool {
		for range 50 {
			if runtime.GC(); ctl.Leaked() {
				return true
			}
			runtime.Gosched()
		}
		return false
	}

	t.Run("a handle that is gone", func(t *testing.T) {
		ctl := leak(t, func(*Guard) {})
		require.True(t, collected(ctl))
		require.NotEmpty(t, ctl.Where())
	})
	t.Run("the context keeps the guard", func(t *testing.T) {
		var ctx context.Context
		ctl := leak(t, func(g *Guard) { ctx = g.Context() })
		require.False(t, collected(ctl))
		runtime.KeepAlive(ctx)
	})
	t.Run("an unlocked guard is no leak", func(t *testing.T) {
		ctl := leak(t, func(g *Guard) { require.NoError(t, g.Unlock()) })
		require.False(t, collected(ctl))
	})
}

func BenchmarkGuard(b *testing.B) {
	p := Params{
		Name: "job", Owner: "a/b", Parent: context.Background(), Clock: clock.System(), Trust: time.Hour, Drain: time.Hour,
		Stop: func() {}, Lost: func(*LostError) {}, Released: func(error) {}, Go: func(f func()) { f() },
		Release:      func(time.Duration) (store.Result, error) { return store.Result{}, nil },
		ReleaseBound: func(d time.Duration) time.Duration { return d },
	}
	b.ReportAllocs()
	for b.Loop() {
		p.Sent = p.Clock()
		g, ctl := New(p)
		ctl.Start()
		_ = g.Unlock()
	}
}
