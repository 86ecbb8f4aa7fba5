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
)

// state is a guard without its handle.
type state struct {
	p       Params
	ctx     context.Context
	cancel  context.CancelCauseFunc
	unwatch func() bool // of the parent
	cleanup runtime.Cleanup
	leaked  atomic.Bool
	where   [16]uintptr
	places  int

	mu        sync.Mutex // never held across a call, a callback or a cancel
	phase     phase
	cause     error         // that the context was, or is about to be, cancelled with; nil while it lives
	confirmed clock.Instant // the send of the last request known to have succeeded
	attempts  int           // renewals that failed since
	failure   error         // of the last of them
	holdEnd   clock.Instant // zero: none
	drainEnd  clock.Instant // while draining
	stopped   bool          // renewals have stopped
	timer     *time.Timer   // fires at the next instant of interest, or earlier
	lost      *LostError
	unlocking chan struct{} // closed when Unlock has its answer; nil before the first Unlock
	answer    error
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
		s.p.Stop()
	}
	if do.lost != nil {
		s.p.Lost(do.lost)
	}
}

// deadline is D. Called with mu held.
func (s *state) deadline() clock.Instant { return s.confirmed.Add(s.p.Trust) }

// check is called by the timer, when the context ends, and by whoever saw the clocks move.
func (s *state) check() {
	now := s.p.Clock()
	s.mu.Lock()
	do := s.advance(now)
	if !s.phase.over() {
		s.timer.Reset(s.next(now))
	}
	s.mu.Unlock()
	s.perform(do)
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

// advance makes the transitions that time or the parent's end has brought. Called with mu held.
func (s *state) advance(now clock.Instant) (do effects) {
	if s.phase.over() {
		return do
	}
	if s.phase == live {
		switch {
		case s.ctx.Err() != nil:
			s.drain(now, context.Cause(s.ctx))
		case s.p.MaxHold > 0 && now.Until(s.holdEnd) <= 0:
			do.cause = fmt.Errorf("held for %v, the most that WithMaxHold allows: %w", s.p.MaxHold, context.DeadlineExceeded)
			s.drain(now, do.cause)
		}
	}
	if now.Until(s.deadline()) <= 0 {
		lost := s.lose(now, s.reason(now), s.failure)
		lost.cause = firstOf(do.cause, lost.cause)
		return lost
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

// lose ends a guard that is not over yet. Called with mu held.
func (s *state) lose(now clock.Instant, why Reason, err error) effects {
	s.timer.Stop()
	s.phase = lost
	s.lost = s.loss(now, why, err)
	s.cause = firstOf(s.cause, error(s.lost))
	return effects{cause: s.cause, stop: true, lost: s.lost}
}

func (s *state) loss(now clock.Instant, why Reason, err error) *LostError {
	return &LostError{
		Name: s.p.Name, Owner: s.p.Owner, Reason: why, Since: now.Time(), LastConfirmed: s.confirmed.Time(),
		Attempts: s.attempts, Err: err,
	}
}

// err is what Err returns. Called with mu held.
func (s *state) err() error {
	switch {
	case s.lost != nil:
		return s.lost
	case s.phase == unlocked:
		return ErrUnlocked
	case s.phase == draining:
		return s.drainError()
	}
	return nil
}

func (s *state) drainError() error {
	if errors.Is(s.cause, ErrClosed) {
		return ErrClosed
	}
	ended := s.ctx.Err()
	if ended == nil {
		ended = context.Canceled // the cancel is about to come
	}
	hint := ""
	if errors.Is(ended, context.DeadlineExceeded) {
		hint = " (the deadline of Lock's context scopes the hold too; WithWait bounds the wait alone)"
	}
	if errors.Is(s.cause, ended) {
		return fmt.Errorf("lock %q: its context ended%s: %w", s.p.Name, hint, s.cause)
	}
	return fmt.Errorf("lock %q: its context ended%s: %w: %w", s.p.Name, hint, ended, s.cause)
}
