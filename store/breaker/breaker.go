package breaker

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/aaravsoft/leasehold/store"
)

// ErrOpen is inside the [*store.UnavailableError] of an acquisition that the breaker refused.
var ErrOpen = errors.New("circuit breaker open")

// Config of a [Store]. The zero value is ready to use.
type Config struct {
	// Failures is how many acquisitions, renewals or releases must fail without an acquisition that succeeds
	// between them. Default 5.
	Failures int

	// Span is how far apart the first and the last of them must be at least. Default 250 ms.
	Span time.Duration

	// OpenFor is how long acquisitions are refused before one is tried; each breaker draws its own from 80 % to 120 % of
	// it. Default 1 s.
	OpenFor time.Duration

	// OnChange is called once for each change, outside of all locks. It must not block.
	OnChange func(State)
}

// Phase is what a breaker does with acquisitions.
type Phase uint8

// The phases.
const (
	Closed   Phase = iota // they pass
	Open                  // they are refused
	HalfOpen              // one is tried
)

func (p Phase) String() string { return [...]string{"closed", "open", "half-open"}[p] }

// State is what a breaker says of itself.
type State struct {
	Phase     Phase
	Failures  int       // without a success since
	NextProbe time.Time // zero while closed
}

// Store is a store behind a breaker.
type Store struct {
	inner   store.Store
	cfg     Config
	openFor time.Duration
	cb      *gobreaker.TwoStepCircuitBreaker[any]

	// Guarded by changes.mu, which is taken under gobreaker's own mutex: nothing is called while it is held.
	changes struct {
		mu      sync.Mutex
		first   time.Time // the first failure of the present row of them
		opened  time.Time
		pending []State
	}

	// Guarded by mu, which may be held while gobreaker is asked, never the other way round.
	mu      sync.Mutex
	turns   list.List   // of chan struct{}: acquisitions that wait, first in first out
	timer   *time.Timer // looks whether the next may go on
	awarded time.Time   // when a turn was last given in half-open
}

var (
	_ store.Store     = (*Store)(nil)
	_ store.Unwrapper = (*Store)(nil)
)

// New puts a breaker around a store. Errors are of class [store.ErrInvalid].
func New(inner store.Store, cfg Config) (*Store, error) {
	if inner == nil {
		return nil, fmt.Errorf("%w breaker: the store is nil", store.ErrInvalid)
	}
	if cfg.Failures < 0 || cfg.Span < 0 || cfg.OpenFor < 0 {
		return nil, fmt.Errorf("%w breaker: Failures %d, Span %v and OpenFor %v must not be negative (zero is the default)",
			store.ErrInvalid, cfg.Failures, cfg.Span, cfg.OpenFor)
	}
	if cfg.Failures == 0 {
		cfg.Failures = 5
	}
	if cfg.Span == 0 {
		cfg.Span = 250 * time.Millisecond
	}
	if cfg.OpenFor == 0 {
		cfg.OpenFor = time.Second
	}
	s := &Store{inner: inner, cfg: cfg}
	s.openFor = time.Duration(float64(cfg.OpenFor) * (0.8 + 0.4*rand.Float64()))
	s.cb = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		MaxRequests:   1,
		Timeout:       s.openFor,
		ReadyToTrip:   s.trips,
		OnStateChange: s.changed,
		IsSuccessful:  func(err error) bool { return err == nil },
		IsExcluded:    func(err error) bool { return errors.Is(err, errNeutral) },
	})
	return s, nil
}

// Unwrap returns the store behind the breaker.
func (s *Store) Unwrap() store.Store { return s.inner }

// State returns the present state. An open breaker whose time is over says half-open.
func (s *Store) State() State {
	phase := s.phase()
	st := State{Phase: phase, Failures: int(s.cb.Counts().ConsecutiveFailures)}
	if phase != Closed {
		s.changes.mu.Lock()
		st.NextProbe = s.changes.opened.Add(s.openFor)
		s.changes.mu.Unlock()
	}
	return st
}

// phase asks gobreaker, which looks at the clock only when it is asked.
func (s *Store) phase() Phase {
	defer s.tell()
	return phaseOf(s.cb.State())
}

func phaseOf(st gobreaker.State) Phase {
	switch st {
	case gobreaker.StateOpen:
		return Open
	case gobreaker.StateHalfOpen:
		return HalfOpen
	case gobreaker.StateClosed:
	}
	return Closed
}

// trips is called by gobreaker, under its mutex, after each failure while closed.
func (s *Store) trips(c gobreaker.Counts) bool {
	now := time.Now()
	s.changes.mu.Lock()
	defer s.changes.mu.Unlock()
	if c.ConsecutiveFailures == 1 {
		s.changes.first = now
	}
	return int(c.ConsecutiveFailures) >= s.cfg.Failures && now.Sub(s.changes.first) >= s.cfg.Span
}

// changed is called by gobreaker, under its mutex: it only takes a note.
func (s *Store) changed(_ string, _, to gobreaker.State) {
	s.changes.mu.Lock()
	defer s.changes.mu.Unlock()
	st := State{Phase: phaseOf(to)}
	if st.Phase == Open {
		s.changes.opened = time.Now()
	}
	if st.Phase != Closed {
		st.NextProbe = s.changes.opened.Add(s.openFor)
	}
	s.changes.pending = append(s.changes.pending, st)
}

// tell reports noted changes, outside of gobreaker's mutex.
func (s *Store) tell() {
	s.changes.mu.Lock()
	pending := s.changes.pending
	s.changes.pending = nil
	s.changes.mu.Unlock()
	if s.cfg.OnChange != nil {
		for _, st := range pending {
			s.cfg.OnChange(st)
		}
	}
}

// refusal is what an acquisition is told that the breaker does not let through.
func (s *Store) refusal() error {
	wait := time.Duration(0)
	if st := s.State(); st.Phase == Open {
		wait = max(time.Until(st.NextProbe), 0)
	}
	return &store.UnavailableError{
		Op: "acquire", RetryAfter: wait,
		Err: fmt.Errorf("%w: the store failed again and again; the next attempt is due in %v", ErrOpen, wait.Round(time.Millisecond)),
	}
}

// Acquire is refused while the breaker is open.
func (s *Store) Acquire(ctx context.Context, c store.Claim) (store.Lease, error) {
	done, err := s.cb.Allow()
	s.tell()
	if err != nil {
		return store.Lease{}, s.refusal()
	}
	r := s.watch(ctx, done, true)
	defer r.report(errNeutral) // a panic says nothing
	lease, err := s.inner.Acquire(ctx, c)
	r.report(verdict(ctx, err))
	return lease, err
}

// Renew always passes.
func (s *Store) Renew(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	return s.pass(ctx, claims, s.inner.Renew)
}

// Release always passes.
func (s *Store) Release(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	return s.pass(ctx, claims, s.inner.Release)
}

func (s *Store) pass(ctx context.Context, claims []store.Claim,
	call func(context.Context, []store.Claim) ([]store.Result, error),
) ([]store.Result, error) {
	r := s.bystander(ctx)
	defer r.report(errNeutral)
	results, err := call(ctx, claims)
	r.report(verdict(ctx, err))
	return results, err
}

// bystander is a call that passes in any case: nobody hears of it while the breaker is open, nor in half-open as long as an
// acquisition waits for the place.
func (s *Store) bystander(ctx context.Context) *reporter {
	phase := s.phase()
	if phase == HalfOpen {
		s.mu.Lock()
		if s.turns.Len() > 0 {
			phase = Open
		}
		s.mu.Unlock()
	}
	if phase == Open {
		return nil
	}
	done, err := s.cb.Allow()
	s.tell()
	if err != nil {
		return nil
	}
	return s.watch(ctx, done, phase == HalfOpen)
}
