package guard

import "github.com/aaravsoft/leasehold/internal/clock"

// Control is the end of a guard that its client holds, as a cancel function is of a context. It does not keep the handle.
type Control state

// Start begins to watch the clock and the parent context.
func (c *Control) Start() {
	s := (*state)(c)
	s.started.Store(true)
	s.check() // also what was due before
}

// Deadline returns D.
func (c *Control) Deadline() clock.Instant {
	s := (*state)(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deadline()
}

// Raise says that the request sent at sent has succeeded. If D has passed it ends the guard instead.
func (c *Control) Raise(sent clock.Instant) {
	s := (*state)(c)
	_, do := s.enter()
	// Which request was sent later is asked of the clock that nobody sets.
	if later := sent.Mono+sent.Suspended > s.confirmed.Mono+s.confirmed.Suspended; later && !s.phase.over() {
		s.confirmed, s.attempts, s.failure = sent, 0, nil
	}
	s.mu.Unlock()
	s.perform(do)
}

// Failed says that a renewal failed without an answer.
func (c *Control) Failed(err error) {
	s := (*state)(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.attempts++
	s.failure = err
}

// Lose says that the store has denied the lock.
func (c *Control) Lose(why Reason, err error) {
	s := (*state)(c)
	now, do := s.enter()
	if !s.phase.over() {
		do = s.lose(now, why, err)
	}
	s.mu.Unlock()
	s.perform(do)
}

// Check has the guard look at its clocks now.
func (c *Control) Check() { (*state)(c).check() }

// Close ends the context with [ErrClosed] and begins to drain.
func (c *Control) Close() {
	s := (*state)(c)
	now, do := s.enter()
	if s.phase == live {
		s.closed = true
		s.drain(now, ErrClosed)
		do.cause = ErrClosed
	}
	s.mu.Unlock()
	s.perform(do)
}

// StopRenewing takes the guard out of the heartbeat: D stands, and at D the lock is lost as abandoned.
func (c *Control) StopRenewing() {
	s := (*state)(c)
	s.mu.Lock()
	s.stopped = true
	over := s.phase.over()
	s.mu.Unlock()
	if !over {
		s.p.Keeper.Stop()
	}
}

// Ended reports whether the guard is lost or unlocked.
func (c *Control) Ended() bool {
	s := (*state)(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase.over()
}

// Stopped reports whether nothing more is to be renewed: the guard is lost or unlocked, or its drain is over.
func (c *Control) Stopped() bool {
	s := (*state)(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped || s.phase.over()
}

// Leaked reports whether the handle was collected without Unlock.
func (c *Control) Leaked() bool { return (*state)(c).leaked.Load() }

// Where returns the program counters of the calls that led to New.
func (c *Control) Where() []uintptr {
	s := (*state)(c)
	return s.where[:s.places]
}
