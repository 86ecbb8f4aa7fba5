package mutex

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/aaravsoft/leasehold/store/breaker"
)

// Hooks are called for what happens to a client's locks, one at a time and in order, on a goroutine of the client:
// a slow hook delays later events and Close, never a lock; it must not call Close. Nil hooks are skipped. Lost and Released
// are never dropped; of the others, those that come while 1,024 events wait are.
type Hooks struct {
	Waiting  func(Event) // a Lock begins to wait; Err says who holds the name
	Acquired func(Event)
	Refused  func(Event) // one attempt was refused (*HeldError) or failed
	Renewed  func(Event) // trust has grown: where replicas confirm, that is when they do
	AtRisk   func(Event) // a renewal failed, or the replicas do not confirm it; it is tried again until Left is over. Once until the next success
	Lost     func(Event) // Err is the *LostError
	Released func(Event) // Err is nil, or says why the release is not confirmed

	Breaker func(breaker.State) // the circuit breaker around the store has changed; never dropped
}

// Event is what a hook is told. Fields that do not apply are zero.
type Event struct {
	Name   string
	Owner  string // of the grant, or of the attempt
	Token  uint64
	Waited time.Duration // from the call of Lock
	Held   time.Duration // since the grant
	Left   time.Duration // of trust
	Reason Reason        // of a loss
	Err    error

	// Dropped counts the events that this client had to drop before this one, in all.
	Dropped uint64
}

type kind uint8

const (
	evWaiting kind = iota
	evAcquired
	evRefused
	evRenewed
	evAtRisk
	evLost
	evReleased
	evLeaked // log only
	evBreaker
)

// maxQueued is how many events may wait for the hooks.
const maxQueued = 1024

// events is the client's FIFO to hooks and logger. Its goroutine exists only while it is not empty.
type events struct {
	hooks Hooks
	log   *slog.Logger
	tasks *tasks

	mu      sync.Mutex
	queue   []record
	running bool
	dropped uint64
}

type record struct {
	kind    kind
	ev      Event
	breaker breaker.State
}

// emit never blocks and calls nothing of the user's: it may be used from anywhere but under a lock.
func (e *events) emit(k kind, ev Event) {
	if e.hook(k) == nil && !e.log.Enabled(context.Background(), k.level(ev)) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) >= maxQueued && k != evLost && k != evReleased {
		e.dropped++
		return
	}
	ev.Dropped = e.dropped
	e.push(record{kind: k, ev: ev})
}

// breakerChanged is called once a change.
func (e *events) breakerChanged(s breaker.State) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.push(record{kind: evBreaker, breaker: s})
}

// push is called with mu held.
func (e *events) push(r record) {
	e.queue = append(e.queue, r)
	if !e.running {
		e.running = true
		e.tasks.start(e.deliver)
	}
}

func (e *events) deliver() {
	for {
		e.mu.Lock()
		if e.running = len(e.queue) > 0; !e.running {
			e.queue = nil
			e.mu.Unlock()
			return
		}
		r := e.queue[0]
		e.queue = e.queue[1:]
		e.mu.Unlock()
		e.write(r)
		e.call(r)
	}
}

func (e *events) call(r record) {
	hook := e.hook(r.kind)
	if r.kind == evBreaker && e.hooks.Breaker != nil {
		hook = func(Event) { e.hooks.Breaker(r.breaker) }
	}
	if hook == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			e.log.Error("leasehold: a hook panicked", "hook", r.kind.String(), "name", r.ev.Name, "err", fmt.Sprint(v), "stack", string(debug.Stack()))
		}
	}()
	hook(r.ev)
}

func (e *events) hook(k kind) func(Event) {
	switch k {
	case evWaiting:
		return e.hooks.Waiting
	case evAcquired:
		return e.hooks.Acquired
	case evRefused:
		return e.hooks.Refused
	case evRenewed:
		return e.hooks.Renewed
	case evAtRisk:
		return e.hooks.AtRisk
	case evLost:
		return e.hooks.Lost
	case evReleased:
		return e.hooks.Released
	case evLeaked, evBreaker: // for the log alone; of another type
	}
	return nil
}

func (e *events) write(r record) {
	if r.kind == evBreaker {
		e.writeBreaker(r.breaker)
		return
	}
	level := r.kind.level(r.ev)
	if !e.log.Enabled(context.Background(), level) {
		return
	}
	ev := r.ev
	attrs := []slog.Attr{slog.String("name", ev.Name), slog.String("owner", ev.Owner)}
	for _, a := range []slog.Attr{
		slog.Uint64("token", ev.Token), slog.Duration("waited", ev.Waited),
		slog.Duration("held", ev.Held), slog.Duration("left", ev.Left),
	} {
		if !a.Value.Equal(slog.Uint64Value(0)) && !a.Value.Equal(slog.DurationValue(0)) {
			attrs = append(attrs, a)
		}
	}
	if r.kind == evLost {
		attrs = append(attrs, slog.String("reason", ev.Reason.String()))
	}
	if ev.Err != nil {
		attrs = append(attrs, slog.String("err", ev.Err.Error()))
	}
	e.log.LogAttrs(context.Background(), level, "leasehold: "+r.kind.String(), attrs...)
}

func (e *events) writeBreaker(s breaker.State) {
	level := slog.LevelInfo
	if s.Phase == breaker.Open {
		level = slog.LevelWarn
	}
	e.log.LogAttrs(context.Background(), level, "leasehold: the circuit breaker around the store is "+s.Phase.String())
}

// level: ordinary life and contention are nobody's business above debug; what needs a person is.
func (k kind) level(ev Event) slog.Level {
	switch k {
	case evLost:
		return slog.LevelError
	case evAtRisk:
		var contention interface{ Contention() bool }
		if errors.As(ev.Err, &contention) && contention.Contention() {
			return slog.LevelDebug // others were in the way: it is repeated
		}
		return slog.LevelWarn
	case evLeaked:
		return slog.LevelWarn
	case evReleased:
		if ev.Err != nil {
			return slog.LevelWarn
		}
	default:
	}
	return slog.LevelDebug
}

func (k kind) String() string {
	return [...]string{
		"waiting", "acquired", "refused", "renewed", "at risk", "lost", "released", "guard was dropped without Unlock", "circuit breaker",
	}[k]
}
