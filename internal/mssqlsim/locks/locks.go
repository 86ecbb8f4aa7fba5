package locks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Mode is the strength of a lock.
type Mode uint8

// The modes. Shared goes with Shared and Update; everything else excludes.
const (
	Shared Mode = iota + 1
	Update
	Exclusive
)

func (m Mode) String() string {
	switch m {
	case Shared:
		return "S"
	case Update:
		return "U"
	case Exclusive:
		return "X"
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

func compatible(a, b Mode) bool {
	return a != Exclusive && b != Exclusive && (a == Shared || b == Shared)
}

// Resource is what is locked. Two resources are the same if they compare equal.
type Resource struct {
	Space string // a table, or a kind of thing
	Key   string // a row's key within it
}

// Forever as a time-out means to wait without limit.
const Forever time.Duration = -1

// How a request for a lock can fail, besides the end of its context.
var (
	ErrTimeout  = errors.New("locks: the time-out passed before the lock was granted")
	ErrDeadlock = errors.New("locks: chosen as the victim of a deadlock")
)

// Manager holds all locks of one server.
type Manager struct {
	mu     sync.Mutex
	queues map[Resource]*queue
}

// New returns a manager without locks.
func New() *Manager { return &Manager{queues: make(map[Resource]*queue)} }

// Session is one party to conflicts. It waits for at most one lock at a time.
type Session struct {
	manager *Manager

	// guarded by manager.mu
	waiting *request
	weight  int
}

// Session returns a new party.
func (m *Manager) Session() *Session { return &Session{manager: m} }

// SetWeight says what rolling this session back would cost. The lightest session of a deadlock is its victim; of
// several equally light ones it is the one whose request closed the circle.
func (s *Session) SetWeight(weight int) {
	s.manager.mu.Lock()
	defer s.manager.mu.Unlock()
	s.weight = weight
}

// Owner is a lifetime of locks within a session: they are given back together.
type Owner struct {
	session *Session
	holds   map[Resource]*hold // guarded by session.manager.mu
}

// Owner returns a new lifetime that holds nothing.
func (s *Session) Owner() *Owner { return &Owner{session: s, holds: make(map[Resource]*hold)} }

// hold is what one owner holds of one resource: how often, in each mode.
type hold struct {
	owner  *Owner
	counts [Exclusive + 1]int
}

func (h *hold) mode() Mode {
	for mode := Exclusive; mode > 0; mode-- {
		if h.counts[mode] > 0 {
			return mode
		}
	}
	return 0
}

// request is a wait. It is settled exactly once, by whoever takes it out of its queue, with one value in answer.
type request struct {
	owner    *Owner
	resource Resource
	mode     Mode
	answer   chan error
}

// Lock takes the resource in the given mode, or waits for it at most for timeout ([Forever] or 0 included). It
// returns nil, [ErrTimeout], [ErrDeadlock] or the cause of the context's end. Each success needs one [Owner.Unlock]
// with the same mode, or an [Owner.UnlockAll].
func (o *Owner) Lock(ctx context.Context, resource Resource, mode Mode, timeout time.Duration) error {
	m := o.session.manager
	m.mu.Lock()
	q := m.queue(resource)
	r := &request{owner: o, resource: resource, mode: mode, answer: make(chan error, 1)}
	if q.grantable(r, q.waits) {
		q.grant(r)
		m.mu.Unlock()
		return nil
	}
	if timeout == 0 {
		m.mu.Unlock()
		return ErrTimeout
	}
	if o.session.waiting != nil {
		panic("locks: a session waits for one lock at a time")
	}
	q.enqueue(r)
	o.session.waiting = r
	m.breakDeadlocks(o.session)
	m.mu.Unlock()

	return m.await(ctx, r, timeout)
}

func (m *Manager) await(ctx context.Context, r *request, timeout time.Duration) error {
	var expired <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		expired = timer.C
	}
	var why error
	select {
	case err := <-r.answer:
		return err
	case <-expired:
		why = ErrTimeout
	case <-ctx.Done():
		why = context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.owner.session.waiting != r {
		// Settled between the select and the mutex: that answer stands, or a lock would be held by nobody.
		return <-r.answer
	}
	m.withdraw(r)
	return why
}

// Unlock gives back one success of Lock. What is not held is a defect of the caller and panics.
func (o *Owner) Unlock(resource Resource, mode Mode) {
	m := o.session.manager
	m.mu.Lock()
	defer m.mu.Unlock()
	h := o.holds[resource]
	if h == nil || h.counts[mode] == 0 {
		panic(fmt.Sprintf("locks: %v on %v is not held", mode, resource))
	}
	h.counts[mode]--
	if h.mode() == 0 {
		m.drop(resource, h)
	}
	m.settle(resource)
}

// UnlockAll gives everything back.
func (o *Owner) UnlockAll() {
	m := o.session.manager
	m.mu.Lock()
	defer m.mu.Unlock()
	for resource, h := range o.holds {
		m.drop(resource, h)
		m.settle(resource)
	}
}

// Holds returns the strongest mode in which the owner holds the resource, 0 if it does not.
func (o *Owner) Holds(resource Resource) Mode {
	m := o.session.manager
	m.mu.Lock()
	defer m.mu.Unlock()
	if h := o.holds[resource]; h != nil {
		return h.mode()
	}
	return 0
}

func (m *Manager) drop(resource Resource, h *hold) {
	delete(h.owner.holds, resource)
	m.queues[resource].remove(h)
}

// Count is the number of holds and of waiting requests: both 0 when every session has finished.
func (m *Manager) Count() (holds, waits int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range m.queues {
		holds += len(q.holds)
		waits += len(q.waits)
	}
	return holds, waits
}

// Waiting is the number of requests that wait for the resource.
func (m *Manager) Waiting(resource Resource) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if q := m.queues[resource]; q != nil {
		return len(q.waits)
	}
	return 0
}
