package guard

import (
	"context"
	"iter"
	"math"
	"runtime"
	"time"

	"github.com/aaravsoft/leasehold/internal/clock"
	"github.com/aaravsoft/leasehold/store"
)

// Guard is a lock that is held. It is safe for concurrent use, also by the functions that its context's end sets off.
type Guard struct {
	state *state
	ctx   context.Context // carries the guard itself
}

// Params is what a guard is made of. None of its functions is called with the guard's mutex held.
type Params struct {
	Name, Owner string
	Token       uint64

	Parent context.Context // the guard's context derives from it
	Clock  clock.Clock
	Sent   clock.Instant // just before the acquire was sent
	Trust  time.Duration // TTL − margin: D is Sent + Trust

	Drain   time.Duration
	MaxHold time.Duration // from New; zero: none

	// Stop takes the guard out of the heartbeat. It is called before the first Release is sent, at a loss, and when
	// Drain is over; more than once is harmless.
	Stop func()

	// Release is one attempt to delete the row, which may take that long.
	Release func(limit time.Duration) (store.Result, error)

	// ReleaseBound is how long Unlock may take in all, if that much of trust is left.
	ReleaseBound func(left time.Duration) time.Duration

	// Go runs a function on a goroutine that somebody joins.
	Go func(func())

	// Lost is called once, after the context has ended, if the lock is lost.
	Lost func(*LostError)

	// Released is called once, when the Release of Unlock has come to its end: nil, a *LostError, or why it is not
	// confirmed.
	Released func(error)
}

// New returns a live guard, and the other end of it. Its timers run from [Control.Start] on, so that whoever made it can
// put it where the callbacks look for it.
func New(p Params) (*Guard, *Control) {
	s := &state{p: p, confirmed: p.Sent}
	s.ctx, s.cancel = context.WithCancelCause(p.Parent)
	s.places = runtime.Callers(2, s.where[:])
	if p.MaxHold > 0 {
		s.holdEnd = p.Clock().Add(p.MaxHold)
	}
	g := &Guard{state: s}
	g.ctx = context.WithValue(s.ctx, carried{}, g)
	// The cleanup may touch nothing but this flag: it runs on a goroutine of the runtime's, in no bubble.
	s.cleanup = runtime.AddCleanup(g, func(s *state) { s.leaked.Store(true) }, s)

	s.timer = time.AfterFunc(math.MaxInt64, s.check)
	s.unwatch = func() bool { return false }
	return g, (*Control)(s)
}

type carried struct{}

// Carried yields the guards that ctx carries, innermost first.
func Carried(ctx context.Context) iter.Seq[*Guard] {
	return func(yield func(*Guard) bool) {
		for g, ok := ctx.Value(carried{}).(*Guard); ok && yield(g); {
			g, ok = g.state.p.Parent.Value(carried{}).(*Guard)
		}
	}
}

// FromContext returns the innermost guard of that name that ctx carries, held or not.
func FromContext(ctx context.Context, name string) (*Guard, bool) {
	for g := range Carried(ctx) {
		if g.Name() == name {
			return g, true
		}
	}
	return nil, false
}

// Context ends when the lock can no longer be trusted, or the work is asked to stop; context.Cause says why. Pass it to the
// work. It never has the end of trust as its Deadline, for that moves with every renewal.
func (g *Guard) Context() context.Context { return g.ctx }

// Name returns the name that is locked.
func (g *Guard) Name() string { return g.state.p.Name }

// Owner returns the owner id of this grant, as it stands in the row.
func (g *Guard) Owner() string { return g.state.p.Owner }

// Token returns the fencing token: strictly greater for every later grant of the name, the same for the life of this
// one. A resource that remembers the greatest it has seen can refuse a holder that does not know yet that it is none.
func (g *Guard) Token() uint64 { return g.state.p.Token }

// Remaining returns how much longer the lock is trusted if no renewal succeeds any more: never more than TTL − Margin,
// zero when it is over.
func (g *Guard) Remaining() time.Duration {
	s := g.state
	now := s.p.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase.over() {
		return 0
	}
	return max(now.Until(s.deadline()), 0)
}

// Err returns nil while the lock is held and nobody asked to stop. Otherwise it says why: a [*LostError]; [ErrClosed];
// the parent's error and cause while the lock is drained; [ErrUnlocked]. It looks at the clocks itself, and when it
// returns an error the context has ended.
func (g *Guard) Err() error {
	s := g.state
	now := s.p.Clock()
	s.mu.Lock()
	do := s.advance(now)
	err, cause := s.err(), s.cause
	s.mu.Unlock()
	s.perform(do)
	if err != nil {
		s.cancel(cause) // another goroutine may be about to do it: Err and the context never disagree
	}
	return err
}
