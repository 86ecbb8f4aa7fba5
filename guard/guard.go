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
	ctx   handle
}

// handle is a guard's context: it ends with the state's, and carries the guard.
type handle struct {
	context.Context
	guard *Guard
}

func (h *handle) Value(key any) any {
	if key == (carried{}) {
		return h.guard
	}
	return h.Context.Value(key)
}

// Params is what a guard is made of.
type Params struct {
	Name, Owner string
	Token       uint64

	Parent context.Context // the guard's context derives from it
	Clock  clock.Clock
	Sent   clock.Instant // just before the acquire was sent
	Trust  time.Duration // TTL − margin: D is Sent + Trust

	Drain   time.Duration
	MaxHold time.Duration // from New; zero: none

	Keeper Keeper
}

// Keeper is what a guard needs of whoever made it. None of its methods is called with the guard's mutex held.
type Keeper interface {
	// Stop takes the guard out of the heartbeat. It is called before the first Release is sent, at a loss, and when
	// Drain is over: possibly more than once, and at once by several.
	Stop()

	// Release is one attempt to delete the row, which must return within limit. The row of a Result of class
	// [store.ErrLost] tells a success that was not confirmed from a loss.
	Release(limit time.Duration) (store.Result, error)

	// ReleaseBound is how long Unlock may take in all, if that much of trust is left.
	ReleaseBound(left time.Duration) time.Duration

	// Go runs a function on a goroutine that somebody joins.
	Go(f func())

	// Lost is called exactly once if the lock is lost, whoever notices, after the context has ended.
	Lost(err *LostError)

	// Released is called exactly once, after Lost if that is called, when the Release of Unlock has come to its end: nil, a
	// *LostError, or why it is not confirmed. Unlock returns after it, so neither it nor Lost may call Unlock.
	Released(err error)
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
	g.ctx = handle{s.ctx, g}
	// The cleanup may touch nothing but this flag: it runs on a goroutine of the runtime's, in no bubble.
	s.cleanup = runtime.AddCleanup(g, func(s *state) { s.leaked.Store(true) }, s)

	check := s.check
	s.timer = time.AfterFunc(math.MaxInt64, check)
	s.unwatch = context.AfterFunc(s.ctx, check)
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
// work, and stop soon after its end: when it ends for lack of trust, the row lives for Margin longer (a tenth of the TTL unless
// configured), and after that somebody else may hold the lock. It never has the end of trust as its Deadline, for that moves
// with every renewal.
//
// A context that derives from it, and has a cancel function that nobody called, keeps the guard from being noticed as leaked.
func (g *Guard) Context() context.Context { return &g.ctx }

// Name returns the name that is locked.
func (g *Guard) Name() string { return g.state.p.Name }

// Owner returns the owner id of this grant, as it stands in the row.
func (g *Guard) Owner() string { return g.state.p.Owner }

// Token returns the fencing token: strictly greater for every later grant of the name, the same for the life of this
// one. A resource that remembers the greatest it has seen can refuse a holder that does not know yet that it is none.
func (g *Guard) Token() uint64 { return g.state.p.Token }

// Remaining returns how much longer the lock is trusted if no renewal succeeds any more, by the clock that went farthest: never
// more than TTL − Margin, zero when the lock is lost or unlocked.
func (g *Guard) Remaining() time.Duration {
	s := g.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase.over() {
		return 0
	}
	return s.left()
}

// Err returns nil while the lock is held and nobody asked to stop. Otherwise the context has ended when it returns, and it
// says why:
//   - a [*LostError], of class [store.ErrLost], if this lock was lost;
//   - [ErrClosed] if its client was closed, [ErrUnlocked] after Unlock;
//   - else, while the lock is drained, an error without a class that wraps the context's error and its cause. That a lock
//     around this one was lost is found in its text and in the cause itself, not by errors.Is: this one is intact.
//
// It looks at the clocks itself, so it is never behind them, as the context can be by a moment after the machine was suspended.
func (g *Guard) Err() error {
	return g.state.err(g.state.look())
}
