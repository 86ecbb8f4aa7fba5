package chaos

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/aaravsoft/leasehold/chaos_test/check"
	"github.com/aaravsoft/leasehold/store"
)

// topology is a database as the clients of a run see it, and what can be broken about it.
type topology interface {
	// store returns what client i talks to. Every client has a network of its own.
	store(i int) store.Store
	// inspector is what an operator uses.
	inspector() store.Inspector
	// faults are what the schedule may do. Their order is part of a seed's meaning.
	faults() []fault
	// limits are what its documentation promises, and what the checkers may assume.
	limits() limits
	// settle ends what is still broken or hangs.
	settle()
	close()
}

// fault is one kind of trouble.
type fault struct {
	name string
	// resource is what it needs for itself: "" is the client that it strikes, another name something of everybody's.
	resource string
	longest  time.Duration
	// begin breaks something, until the function that it returns is called. Both may draw from rng.
	begin func(rng *rand.Rand, client int) (heal func())
	// hits tells how often it has struck something.
	hits func() int
}

// network is everybody's, as resource of a fault.
const network = "network"

// limits of a topology.
type limits struct {
	overlap time.Duration // the longest that two guards of one name may be live together
	late    time.Duration // how long an abandoned statement may still be executed
	clock   check.Clock
	timers  time.Duration // how late a timer may be
	// unordered: what is live together may be told of its grant in another order than it was granted in; or what had the greater
	// token was lost.
	unordered bool
	forks     bool // a failover may lose what was answered: there is no one table that explains all answers
}

// tally counts what faults have struck.
type tally struct {
	mu  sync.Mutex
	hit map[string]int
}

func (t *tally) add(fault string, hits int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hit == nil {
		t.hit = map[string]int{}
	}
	t.hit[fault] += hits
}

// of is a fault's hits.
func (t *tally) of(fault string) func() int {
	return func() int {
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.hit[fault]
	}
}

// line is a network that only takes time. Without it, fake time would put what depends on each other into one moment.
type line struct {
	inner store.Store
	mu    sync.Mutex
	rng   *rand.Rand
}

func (l *line) travel() {
	l.mu.Lock()
	d := 200*time.Microsecond + time.Duration(l.rng.ExpFloat64()*float64(2*time.Millisecond))
	l.mu.Unlock()
	time.Sleep(d)
}

func overLine[T any](l *line, call func() (T, error)) (T, error) {
	l.travel()
	answer, err := call()
	l.travel()
	return answer, err
}

func (l *line) Unwrap() store.Store { return l.inner }

func (l *line) Acquire(ctx context.Context, c store.Claim) (store.Lease, error) {
	return overLine(l, func() (store.Lease, error) { return l.inner.Acquire(ctx, c) })
}

func (l *line) Renew(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	return overLine(l, func() ([]store.Result, error) { return l.inner.Renew(ctx, claims) })
}

func (l *line) Release(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	return overLine(l, func() ([]store.Result, error) { return l.inner.Release(ctx, claims) })
}
