package heartbeat

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/aaravsoft/leasehold/internal/bounded"
	"github.com/aaravsoft/leasehold/internal/clock"
	"github.com/aaravsoft/leasehold/store"
)

// Target is a lease that is to be renewed. It must be comparable, as a pointer is. Its methods are called without any
// lock held, for several targets at once, and must not wait for anything.
type Target interface {
	// Claim is what to renew: constant.
	Claim() store.Claim

	// Deadline is the end of trust, as it is now. Nothing is sent for a target after it.
	Deadline() clock.Instant

	// Renewed tells of a success, however late it is: the clocks were read just before it was sent.
	Renewed(sent clock.Instant, lease store.Lease)

	// Failed tells of an attempt that brought no answer. It is repeated inside what is left of trust.
	Failed(err error)

	// Lost tells, once, that the store said definitely that the lease is over. The target has been removed. The row
	// that has its name now is row, or the zero Lease if there is none.
	Lost(row store.Lease, err error)

	// Leaked reports that nobody has an interest in the lease any more. The target has been removed if it says so.
	Leaked() bool
}

// Scheduler renews targets; a client has one. It has no goroutine between rounds, and no timer without targets.
type Scheduler struct {
	calls *bounded.Calls
	clk   clock.Clock

	ctx     context.Context // of the attempts
	cut     context.CancelFunc
	running sync.WaitGroup // rounds and attempts

	mu      sync.Mutex // never held across a call to the store or to a target
	closed  bool
	entries map[Target]*entry
	plan    planner
	timer   *time.Timer   // nil before the first target
	wake    time.Duration // what the timer is set to; never if it is not
}

// New returns a scheduler without targets.
func New(calls *bounded.Calls, clk clock.Clock) *Scheduler {
	ctx, cut := context.WithCancel(context.Background())
	return &Scheduler{
		calls: calls, clk: clk, ctx: ctx, cut: cut,
		entries: map[Target]*entry{}, plan: planner{random: rand.Float64}, wake: never,
	}
}

// Add begins to renew a target every interval, counted from sent: when its lease was requested. A target that was
// added before, and any target after Close, is left as it is.
func (s *Scheduler) Add(t Target, interval time.Duration, sent clock.Instant) {
	e := &entry{target: t, claim: t.Claim(), interval: max(interval, 1), trust: sent.Until(t.Deadline())}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.entries[t]; known || s.closed {
		return
	}
	s.entries[t] = e
	s.plan.add(e, boot(sent))
	if s.plan.wake() < s.wake {
		s.turn()
	}
}

// Remove ends the renewals of a target: no attempt takes it any more once Remove has returned. One that is on its way
// may still be applied; its answer is dropped, unless the target is already being told. Remove may be called from the
// target's own methods, and more than once.
func (s *Scheduler) Remove(t Target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[t]; e != nil {
		s.drop(e)
	}
}

// Kick looks at all targets again, after the clocks have moved in a way that the timer did not notice: the machine was
// suspended, or the wall clock was set.
func (s *Scheduler) Kick() {
	s.mu.Lock()
	entries := make([]*entry, 0, len(s.entries))
	for _, e := range s.entries {
		entries = append(entries, e)
	}
	s.mu.Unlock()

	asks := s.ask(entries)

	s.mu.Lock()
	defer s.mu.Unlock()
	now := boot(s.clk())
	for _, a := range asks {
		s.plan.hurry(a.entry, now, a.left)
	}
	s.turn()
}

// Close drops all targets and waits for the attempts that are on their way. When ctx ends they are cut off, and Close
// returns ctx's error: then only the store's own calls may still be running.
func (s *Scheduler) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	for _, e := range s.entries {
		s.drop(e)
	}
	s.mu.Unlock()

	joined := make(chan struct{})
	go func() {
		s.running.Wait() // nothing is added to it any more but by what runs already
		close(joined)
	}()
	var err error
	select {
	case <-joined:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	s.cut()
	<-joined // soon: package bounded sees to it
	return err
}

// turn starts the rounds that are due and sets the timer. It is called with mu held after each change of the plan that
// may want it earlier; that it is not needed any more then, the timer finds out by itself.
func (s *Scheduler) turn() {
	if s.closed {
		return
	}
	now := boot(s.clk())
	rounds, wake := s.plan.next(now)
	for _, r := range rounds {
		s.running.Go(func() { s.run(r) })
	}
	s.set(wake, now)
}

func (s *Scheduler) set(wake, now time.Duration) {
	s.wake = wake
	switch {
	case wake == never && s.timer == nil:
	case wake == never:
		s.timer.Stop()
	case s.timer == nil:
		s.timer = time.AfterFunc(wake-now, s.fire)
	default:
		s.timer.Reset(wake - now)
	}
}

// fire is the timer's function. It may come late, or after the timer was stopped or set anew: turn looks for itself.
func (s *Scheduler) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn()
}

// drop takes a target out, and with the last one the timer. Called with mu held.
func (s *Scheduler) drop(e *entry) {
	delete(s.entries, e.target)
	s.plan.remove(e)
	if len(s.entries) == 0 {
		s.wake = never
		s.timer.Stop()
	}
}

// boot is the time that the plan is made in.
func boot(i clock.Instant) time.Duration { return i.Mono + i.Suspended }
