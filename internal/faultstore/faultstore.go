// Package faultstore wraps a store with switches that make it fail as databases and networks do, for the tests of this
// module. A fault strikes before a call is executed, after it, or instead of an answer; counters show that it did.
package faultstore

import (
	"context"
	"sync"
	"time"

	"github.com/aaravsoft/leasehold/store"
)

// Op is a set of operations.
type Op uint8

// The operations.
const (
	Acquire Op = 1 << iota
	Renew
	Release

	All = Acquire | Renew | Release
)

// Fault is one kind of trouble. A call meets the first fault that matches it.
type Fault struct {
	Ops   Op
	Name  string // only calls with a claim of this name; "" is any
	Times int    // how many calls it strikes; zero: all, until Clear

	// Before the call is executed, in this order:
	Before     func()
	HangBefore bool  // block until Free, then execute, whatever the context says
	Fail       error // the call is not executed, and this is its error
	Panic      bool

	// After it was executed:
	After     func()
	Delay     time.Duration
	HangAfter bool
	Lose      error // the answer is lost, and this is the error instead
}

// Store is a store with faults. Without any it passes everything on.
type Store struct {
	inner store.Store

	mu      sync.Mutex
	faults  []*Fault
	gate    chan struct{} // closed by Free; nil while nothing hangs
	calls   map[Op]int
	claims  map[Op]map[string]int
	hits    int
	blocked int
}

var _ store.Unwrapper = (*Store)(nil)

// Wrap returns a store with switches around inner.
func Wrap(inner store.Store) *Store {
	return &Store{inner: inner, calls: map[Op]int{}, claims: map[Op]map[string]int{}}
}

// Unwrap returns the store inside.
func (s *Store) Unwrap() store.Store { return s.inner }

// Add switches a fault on, behind those that are on already.
func (s *Store) Add(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// Clear switches all faults off. Calls that hang go on hanging.
func (s *Store) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// Free lets go on what hangs.
func (s *Store) Free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gate != nil {
		close(s.gate)
		s.gate = nil
	}
}

// Calls returns how many calls of these operations have come in.
func (s *Store) Calls(ops Op) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for op, calls := range s.calls {
		if op&ops != 0 {
			n += calls
		}
	}
	return n
}

// Claims returns how many claims of a name have come in with an operation.
func (s *Store) Claims(op Op, name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claims[op][name]
}

// Hits returns how many calls a fault has struck.
func (s *Store) Hits() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hits
}

// Blocked returns how many calls hang now.
func (s *Store) Blocked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.blocked
}

// Acquire implements [store.Store].
func (s *Store) Acquire(ctx context.Context, c store.Claim) (store.Lease, error) {
	return run(ctx, s, Acquire, []store.Claim{c}, func(ctx context.Context) (store.Lease, error) { return s.inner.Acquire(ctx, c) })
}

// Renew implements [store.Store].
func (s *Store) Renew(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	return run(ctx, s, Renew, claims, func(ctx context.Context) ([]store.Result, error) { return s.inner.Renew(ctx, claims) })
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	return run(ctx, s, Release, claims, func(ctx context.Context) ([]store.Result, error) { return s.inner.Release(ctx, claims) })
}

func run[T any](ctx context.Context, s *Store, op Op, claims []store.Claim, call func(context.Context) (T, error)) (T, error) {
	f := s.meet(op, claims)
	var none T
	if f.Before != nil {
		f.Before()
	}
	if f.HangBefore {
		s.hang()
		ctx = context.WithoutCancel(ctx) // as a statement that was already on the wire
	}
	if f.Panic {
		panic("faultstore: the store has a bug")
	}
	if f.Fail != nil {
		return none, f.Fail
	}
	answer, err := call(ctx)
	if f.After != nil {
		f.After()
	}
	time.Sleep(f.Delay)
	if f.HangAfter {
		s.hang()
	}
	if f.Lose != nil {
		return none, f.Lose
	}
	return answer, err
}

// meet counts a call, and returns the fault that strikes it, or none.
func (s *Store) meet(op Op, claims []store.Claim) Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[op]++
	if s.claims[op] == nil {
		s.claims[op] = map[string]int{}
	}
	for _, c := range claims {
		s.claims[op][c.Name]++
	}
	for i, f := range s.faults {
		if !f.matches(op, claims) {
			continue
		}
		s.hits++
		met := *f
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				s.faults = append(s.faults[:i:i], s.faults[i+1:]...)
			}
		}
		return met
	}
	return Fault{}
}

func (f *Fault) matches(op Op, claims []store.Claim) bool {
	if f.Ops&op == 0 {
		return false
	}
	if f.Name == "" {
		return true
	}
	for _, c := range claims {
		if c.Name == f.Name {
			return true
		}
	}
	return false
}

func (s *Store) hang() {
	s.mu.Lock()
	if s.gate == nil {
		s.gate = make(chan struct{})
	}
	gate := s.gate
	s.blocked++
	s.mu.Unlock()
	<-gate
	s.mu.Lock()
	s.blocked--
	s.mu.Unlock()
}
