package tds

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

// Switch is an injected fault: it counts, holds and lets go.
type Switch struct {
	fault  Fault
	faults *faults

	// Guarded by faults.mu.
	seen    int           // matches so far
	count   int           // times surfaced
	changed chan struct{} // closed and replaced whenever count changes
	gate    chan struct{} // closed to let go what is held
	off     bool
}

// Count is how often the fault has surfaced.
func (s *Switch) Count() int {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	return s.count
}

// Reached waits until the fault has surfaced n times.
func (s *Switch) Reached(ctx context.Context, n int) error {
	for {
		s.faults.mu.Lock()
		count, changed := s.count, s.changed
		s.faults.mu.Unlock()
		if count >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("tds: the fault surfaced %d times of %d: %w", count, n, context.Cause(ctx))
		}
	}
}

// Release lets go what is held at this moment; the fault stays.
func (s *Switch) Release() {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	if !s.off {
		close(s.gate)
		s.gate = make(chan struct{})
	}
}

// Off takes the fault out and lets go what it holds.
func (s *Switch) Off() {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	if s.off {
		return
	}
	s.off = true
	close(s.gate)
	s.faults.remove(s)
}

// surface counts and returns the gate to wait at. A switch taken out since it
// was picked returns an open gate.
func (s *Switch) surface() <-chan struct{} {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.count++
	close(s.changed)
	s.changed = make(chan struct{})
	return s.gate
}

// faults are the switches of a server.
type faults struct {
	wired atomic.Int32 // switches AtWire, so that the common I/O takes no lock

	mu       sync.Mutex
	switches []*Switch // replaced, never changed
}

func (f *faults) inject(fault Fault) *Switch {
	fault.validate()
	s := &Switch{fault: fault, faults: f, changed: make(chan struct{}), gate: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.switches = append(slices.Clone(f.switches), s)
	if fault.Place == AtWire {
		f.wired.Add(1)
	}
	return s
}

// remove is called with the mutex held.
func (f *faults) remove(s *Switch) {
	f.switches = slices.DeleteFunc(slices.Clone(f.switches), func(other *Switch) bool { return other == s })
	if s.fault.Place == AtWire {
		f.wired.Add(-1)
	}
}

// pick returns the faults that strike the subject here, in order of injection,
// and counts them off.
func (f *faults) pick(place Place, subject Subject) []*Switch {
	f.mu.Lock()
	all := f.switches
	f.mu.Unlock()
	var picked []*Switch
	for _, s := range all {
		// Without the mutex: Func is the test's own.
		if s.fault.Place == place && s.fault.Match.agrees(subject) && f.countOff(s) {
			picked = append(picked, s)
		}
	}
	return picked
}

func (f *faults) countOff(s *Switch) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s.off {
		return false
	}
	s.seen++
	n := s.seen - s.fault.Skip
	return n > 0 && (s.fault.Times == 0 || n <= s.fault.Times)
}
