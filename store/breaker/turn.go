package breaker

import (
	"container/list"
	"context"
	"time"
)

// probeGrace is how long a turn in half-open is kept for the one who got it.
const probeGrace = 100 * time.Millisecond

// Turn waits until an acquisition is worth trying: at once while the breaker is closed; while it is open until its time is over,
// then one after the other. It returns nil, or the context's cause.
func (s *Store) Turn(ctx context.Context) error {
	if s.phase() == Closed {
		return nil
	}
	turn := make(chan struct{})
	s.mu.Lock()
	place := s.turns.PushBack(turn)
	s.lookLocked()
	s.mu.Unlock()
	s.tell()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-turn: // given in this very moment: to the next one
		s.awarded = time.Time{}
		s.lookLocked()
	default:
		s.turns.Remove(place)
	}
	return context.Cause(ctx)
}

// look lets go on who may: after a report, and when a time is over.
func (s *Store) look() {
	s.mu.Lock()
	s.lookLocked()
	s.mu.Unlock()
	s.tell()
}

func (s *Store) lookLocked() {
	if s.turns.Len() == 0 {
		return
	}
	next := probeGrace
	switch phaseOf(s.cb.State()) {
	case Closed:
		for s.turns.Len() > 0 {
			s.wake(s.turns.Front())
		}
		return
	case Open:
		s.changes.mu.Lock()
		next = time.Until(s.changes.opened.Add(s.openFor))
		s.changes.mu.Unlock()
	case HalfOpen:
		c := s.cb.Counts()
		if probing := c.Requests > c.TotalExclusions; !probing && time.Since(s.awarded) >= probeGrace {
			s.awarded = time.Now()
			s.wake(s.turns.Front())
		}
	}
	// gobreaker has no event for the end of its open time, and nobody tells if who got the turn does not use it.
	next = max(next, time.Millisecond)
	if s.timer == nil {
		s.timer = time.AfterFunc(next, s.look)
	} else {
		s.timer.Reset(next)
	}
}

func (s *Store) wake(place *list.Element) {
	close(s.turns.Remove(place).(chan struct{}))
}
