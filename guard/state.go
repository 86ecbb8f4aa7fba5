package guard

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aaravsoft/leasehold/internal/clock"
	"github.com/aaravsoft/leasehold/internal/unclassed"
)

// state is a guard without its handle.
type state struct {
	p       Params
	ctx     context.Context
	cancel  context.CancelCauseFunc
	unwatch func() bool // of the context's end
	timer   *time.Timer // fires at the next instant of interest, or earlier
	cleanup runtime.Cleanup
	started atomic.Bool
	leaked  atomic.Bool
	where   [10]uintptr // enough to leave package mutex
	places  int

	mu sync.Mutex // never held across a call, a callback or a cancel; the clocks are read with it held
	standing
	confirmed clock.Instant // the send of the last request known to have succeeded
	attempts  int           // renewals that failed since
	failure   error         // of the last of them
	holdEnd   clock.Instant // zero: none
	drainEnd  clock.Instant // while draining
	stopped   bool          // renewals have stopped
	told      chan struct{} // closed when Lost has returned; nil if the guard is not lost
	unlocking chan struct{} // closed when Unlock has its answer; nil before the first Unlock
	answer    error
}

// standing is what there is to say about a guard.
type standing struct {
	phase  phase
	closed bool       // draining, or over, because the client was closed
	cause  error      // that the context was, or is about to be, cancelled with; nil while it lives
	lost   *LostError // also of an unlocked guard, if its Release told
}

type phase uint8

const (
	live phase = iota
	draining
	lost
	unlocked
)

// over reports whether nothing more can happen but Unlock's Release.
func (p phase) over() bool { return p == lost || p == unlocked }

// effects are what a transition asks for, once the mutex is free.
type effects struct {
	cause error // end the context
	stop  bool  // leave the heartbeat
	lost  *LostError
}

// perform carries effects out: the context first, for everything else is courtesy.
func (s *state) perform(do effects) {
	if do.cause != nil {
		s.unwatch()
		s.cancel(do.cause)
	}
	if do.stop {
		s.p.Keeper.Stop()
	}
	if do.lost != nil {
		s.p.Keeper.Lost(do.lost)
		close(s.told) // made when the loss was noticed, which is once
	}
}

// deadline is D. Called with mu held.
func (s *state) deadline() clock.Instant { return s.confirmed.Add(s.p.Trust) }

// enter takes the mutex and makes the transitions that are due. The clocks are read after it is taken: a reading that had
// to wait for it would find D ahead that has passed, and set the timer too late.
func (s *state) enter() (now clock.Instant, do effects) {
	s.mu.Lock()
	now = s.p.Clock()
	return now, s.advance(now)
}

// check is called by the timer, when the context ends, and by whoever saw the clocks move.
func (s *state) check() {
	if !s.started.Load() {
		return // Start will look
	}
	now, do := s.enter()
	if !s.phase.over() {
		s.arm(now)
	}
	s.mu.Unlock()
	s.perform(do)
}

// slack is how late a timer may be set without being set again. The margin, at least 50 ms, covers it.
const slack = time.Millisecond

// arm sets the timer. If the process was stopped after the reading, the timer is set again: it would be late by as much
// as that, and a late timer means running work without a lock. Called with mu held.
func (s *state) arm(now clock.Instant) {
	for {
		next, read := s.next(now), now
		s.timer.Reset(next)
		if now = s.p.Clock(); next <= 0 || now.Since(read) < slack {
			return
		}
	}
}

// next is how long nothing can happen by itself. Called with mu held.
func (s *state) next(now clock.Instant) time.Duration {
	next := now.Until(s.deadline())
	if s.phase == live && s.p.MaxHold > 0 {
		next = min(next, now.Until(s.holdEnd))
	}
	if s.phase == draining && !s.stopped {
		next = min(next, now.Until(s.drainEnd))
	}
	return next
}

// look has the guard judge itself, and says how it stands. If its context is to end, it has ended when look returns.
func (s *state) look() standing {
	_, do := s.enter()
	is := s.standing
	s.mu.Unlock()
	s.perform(do)
	if is.cause != nil {
		s.cancel(is.cause) // another goroutine may be about to do it: Err and the context never disagree
	}
	return is
}

// left is what is left of trust in the row, held or not. Called with mu held.
func (s *state) left() time.Duration { return max(s.p.Clock().Until(s.deadline()), 0) }

// advance makes the transitions that time or the parent's end has brought. Called with mu held.
func (s *state) advance(now clock.Instant) (do effects) {
	if s.phase.over() {
		return do
	}
	if s.phase == live {
		switch {
		case s.ctx.Err() != nil: // not the parent's: that may be code of somebody else's, and the mutex is held
			s.drain(now, context.Cause(s.ctx))
		case s.p.MaxHold > 0 && now.Until(s.holdEnd) <= 0:
			do.cause = fmt.Errorf("held for %v, the most that WithMaxHold allows: %w", s.p.MaxHold, context.DeadlineExceeded)
			s.drain(now, do.cause)
		}
	}
	if now.Until(s.deadline()) <= 0 {
		return s.lose(now, s.reason(now), s.failure)
	}
	if s.phase == draining && !s.stopped && now.Until(s.drainEnd) <= 0 {
		s.stopped = true // D stands; at D the lock is lost
		do.stop = true
	}
	return do
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// drain begins when the context has ended, or is about to, by something else than a loss. Called with mu held.
func (s *state) drain(now clock.Instant, cause error) {
	s.phase, s.cause = draining, cause
	s.drainEnd = now.Add(s.p.Drain)
	if s.started.Load() {
		s.arm(now) // Drain may end before D
	}
}

// reason is why trust has ended by itself. Called with mu held.
func (s *state) reason(now clock.Instant) Reason {
	switch {
	case s.stopped:
		return Abandoned
	case now.Mono-s.confirmed.Mono < s.p.Trust:
		return Suspended // by the clock that stands still meanwhile there would be time left
	}
	return Unconfirmed
}

// lose ends a guard that is not over yet. The cause of a context that has ended, or is about to, stays. Called with mu held.
func (s *state) lose(now clock.Instant, why Reason, err error) effects {
	s.timer.Stop()
	s.phase, s.told = lost, make(chan struct{})
	s.lost = s.loss(now, why, err)
	s.cause = firstOf(s.cause, error(s.lost))
	return effects{cause: s.cause, stop: true, lost: s.lost}
}

func (s *state) loss(now clock.Instant, why Reason, err error) *LostError {
	since := now
	if d := s.deadline(); d.Wall < now.Wall {
		since = d // it is noticed late
	}
	return &LostError{
		Name: s.p.Name, Owner: s.p.Owner, Reason: why, Since: since.Time(), LastConfirmed: s.confirmed.Time(),
		Attempts: s.attempts, Err: err,
	}
}

// err is what Err returns. Called without the mutex: a cause is the user's, and so is its text.
func (s *state) err(is standing) error {
	switch {
	case is.lost != nil:
		return is.lost
	case is.phase == unlocked:
		return ErrUnlocked
	case is.phase == draining && is.closed:
		return ErrClosed
	case is.phase == draining:
		return s.drainError(is.cause)
	}
	return nil
}

func (s *state) drainError(cause error) error {
	ended, hint := s.ctx.Err(), ""
	if errors.Is(ended, context.DeadlineExceeded) {
		hint = " (the deadline of Lock's context scopes the hold too; WithWait bounds the wait alone)"
	}
	return fmt.Errorf("lock %q: its context ended%s: %w", s.p.Name, hint, unclassed.Ended(ended, cause))
}
