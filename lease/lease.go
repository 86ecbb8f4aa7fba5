package lease

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aaravsoft/leasehold/internal/bounded"
	"github.com/aaravsoft/leasehold/internal/clock"
	"github.com/aaravsoft/leasehold/store"
)

// Lease is one owner of one named lease. It is safe for concurrent use: Try methods wait for one another, and the
// others answer at once. It keeps nobody out of the same process who uses the same Lease: that takes a mutex.
type Lease struct {
	calls *bounded.Calls
	clock clock.Clock
	claim store.Claim // Owner is as given to New
	exact bool
	turn  chan struct{} // holds one element while a Try method runs; mu is never held across a call

	mu      sync.Mutex
	tenure  *tenure
	token   uint64
	expires time.Time
}

// Option changes what [New] makes.
type Option func(*Lease)

// WithMetadata puts a note for people into the row, at most 1,024 UTF-16 units.
func WithMetadata(note string) Option { return func(l *Lease) { l.claim.Metadata = note } }

// WithExactOwner writes the owner into the row as it is, up to 128 UTF-16 units, without a nonce. That is how the .NET
// package does it, and a process that restarts under the same id then enters its old row at once.
//
// The risk is that the store cannot tell two users of the same id apart. Two processes, or two Leases in one, refresh
// each other's row, both believe that they hold the lease, and each releases it under the other. An id that is unique
// for host and process is not enough: containers often all have the same of both. And a release whose answer was lost
// may be applied after this Lease has acquired again, and take the new row.
func WithExactOwner() Option { return func(l *Lease) { l.exact = true } }

// New returns a lease that has yet to be acquired; it does not ask the store. The owner says who you are, in at most
// 111 UTF-16 units. The TTL is from 1 ms to 24 h, and rounded up to whole milliseconds; it should be at least six round
// trips to the store plus the margin. Errors are of class [store.ErrInvalid] and name all problems together.
func New(st store.Store, name, owner string, ttl time.Duration, opts ...Option) (*Lease, error) {
	return newLease(clock.System(), st, name, owner, ttl, opts...)
}

func newLease(clk clock.Clock, st store.Store, name, owner string, ttl time.Duration, opts ...Option) (*Lease, error) {
	if part := ttl % time.Millisecond; part > 0 {
		ttl += time.Millisecond - part
	}
	l := &Lease{clock: clk, claim: store.Claim{Name: name, Owner: owner, TTL: ttl}, turn: make(chan struct{}, 1)}
	for _, opt := range opts {
		opt(l)
	}
	err := l.claim.Validate()
	if !l.exact {
		valid := l.claim
		valid.Owner = "checked below"
		err = errors.Join(valid.Validate(), store.ValidateInstance(owner))
	}
	if st == nil {
		err = errors.Join(fmt.Errorf("%w store: it must not be nil", store.ErrInvalid), err)
	}
	if err != nil {
		return nil, err
	}
	l.calls = bounded.New(st)
	l.tenure = l.newTenure()
	return l, nil
}

func (l *Lease) newTenure() *tenure {
	if l.exact {
		return &tenure{owner: l.claim.Owner}
	}
	return &tenure{owner: store.NewOwner(l.claim.Owner)}
}

// Name returns the lease's name.
func (l *Lease) Name() string { return l.claim.Name }

// Owner returns the owner id of the present tenure, as it is in the row. It changes when TryAcquire begins another one.
func (l *Lease) Owner() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tenure.owner
}

// Token returns the fencing token of the latest grant: it is greater than that of every earlier grant of this name, to
// whomever, and renewals do not change it. It is zero before the first grant.
func (l *Lease) Token() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.token
}

// ExpiresAt returns when the row expires, by the store's clock, as of the latest success of TryAcquire or TryRenew. It
// is for people: the local clock may be another. Ask [Lease.Remaining] for how long to go on. It is zero before the
// first grant.
func (l *Lease) ExpiresAt() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.expires
}

// Remaining returns how long the lease can be trusted without asking the store; the package comment says how it counts.
// It is zero if the lease is not held. Once zero, it stays zero until TryAcquire begins a new tenure.
func (l *Lease) Remaining() time.Duration {
	now := l.clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tenure
	l.check(t, now)
	if t.phase != held || t.loss != nil {
		return 0
	}
	return now.Until(l.deadline(t.sent))
}

const (
	minMargin  = 50 * time.Millisecond
	maxAttempt = 10 * time.Second
)

// trust is how long a success is trusted, from just before it was sent.
func (l *Lease) trust() time.Duration {
	ttl := l.claim.TTL
	return ttl - min(max(ttl/10, minMargin), ttl/2)
}

// limit is how long a call to the store may take. It is less than a third of the TTL, so that a statement that was sent
// does not wait on the server for longer than the row lives.
func (l *Lease) limit() time.Duration { return min(l.trust()/3, maxAttempt) }

func (l *Lease) deadline(sent clock.Instant) clock.Instant { return sent.Add(l.trust()) }

// claimOf is what the store is asked for in a tenure.
func (l *Lease) claimOf(t *tenure) store.Claim {
	c := l.claim
	c.Owner = t.owner
	return c
}
