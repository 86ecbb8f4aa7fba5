package mutex

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/faultstore"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/memory"
)

// pair is a primary and the view that a replica has of it: the same rows, later. It is a store and a confirmer.
type pair struct {
	mu      sync.Mutex // the primary does not block, so it is asked with mu held
	primary *memory.Store
	rows    map[string][]version // in order

	lag     time.Duration
	frozen  time.Time              // the replica shows what it showed then; zero: it follows
	foreign map[string]store.Lease // rows of its own that hide what it would show
	refuse  error                  // it cannot be reached
	slow    time.Duration          // how long a look takes
	gate    chan struct{}          // looks hang until it is closed, whatever their context says; nil: they do not
	stuck   string                 // only looks for this name hang; "" is any
	hanging atomic.Int64
	flying  int // looks, now
	most    int // and ever
	looks   []seenLook
}

type version struct {
	at  time.Time
	row store.Lease // zero: deleted
}

// seenLook is a look as the replica sees it.
type seenLook struct {
	at     time.Duration
	leases int
}

var _ store.Confirmer = (*pair)(nil)

// pairRig is a rig whose store has a replica.
type pairRig struct {
	*rig
	*pair
}

func newPairRig(t *testing.T) *pairRig {
	r := newRig(t)
	p := &pair{primary: r.mem, rows: map[string][]version{}, foreign: map[string]store.Lease{}}
	r.faults = faultstore.Wrap(p)
	t.Cleanup(func() { p.set(func() { p.refuse = errDown; p.free() }) })
	return &pairRig{rig: r, pair: p}
}

// set changes what is wrong with the replica.
func (p *pair) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// freeze and follow, hang and free are to be called in set.
func (p *pair) freeze() { p.frozen = time.Now().Add(-1) }
func (p *pair) follow() { p.frozen = time.Time{} }
func (p *pair) hang()   { p.gate = make(chan struct{}) }

func (p *pair) free() {
	if p.gate != nil {
		close(p.gate)
		p.gate = nil
	}
}

func (p *pair) Acquire(ctx context.Context, c store.Claim) (store.Lease, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.record([]store.Claim{c})
	return p.primary.Acquire(ctx, c)
}

func (p *pair) Renew(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.record(claims)
	return p.primary.Renew(ctx, claims)
}

func (p *pair) Release(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.record(claims)
	return p.primary.Release(ctx, claims)
}

func (p *pair) record(claims []store.Claim) {
	for _, c := range claims {
		row, _ := p.primary.Get(context.Background(), c.Name)
		p.rows[c.Name] = append(p.rows[c.Name], version{time.Now(), row})
	}
}

// shows is the row of a name on the replica. Called with mu held.
func (p *pair) shows(name string) store.Lease {
	if row, ok := p.foreign[name]; ok {
		return row
	}
	horizon := time.Now().Add(-p.lag)
	if !p.frozen.IsZero() {
		horizon = p.frozen.Add(-p.lag)
	}
	var row store.Lease
	for _, v := range p.rows[name] {
		if !v.at.After(horizon) {
			row = v.row
		}
	}
	return row
}

// Confirm implements [store.Confirmer].
func (p *pair) Confirm(ctx context.Context, leases []store.Lease) ([]time.Time, error) {
	p.mu.Lock()
	p.looks = append(p.looks, seenLook{time.Duration(time.Now().UnixNano()), len(leases)})
	p.flying++
	p.most = max(p.most, p.flying)
	defer p.set(func() { p.flying-- })
	gate, slow := p.gate, p.slow
	hangs := gate != nil && (p.stuck == "" || slices.ContainsFunc(leases, func(l store.Lease) bool { return l.Name == p.stuck }))
	p.mu.Unlock()
	if hangs {
		p.hanging.Add(1)
		<-gate
		p.hanging.Add(-1)
	}
	if slow > 0 { // a channel of a timer without a wait can crash the race detector's runtime in a bubble
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return nil, &store.UnavailableError{Op: "confirm", Err: ctx.Err()}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	shown := make([]time.Time, len(leases))
	if p.refuse != nil {
		return shown, p.refuse
	}
	for i, l := range leases {
		if row := p.shows(l.Name); row.Owner == l.Owner {
			shown[i] = row.Expires
		}
	}
	return shown, nil
}

// promote makes the replica the primary, with the rows that it has; the old one is gone, and confirms nothing any more.
func (r *pairRig) promote() {
	r.set(func() {
		next := memory.New()
		for name := range r.rows {
			row := r.shows(name)
			if left := time.Until(row.Expires).Truncate(time.Millisecond); row.Owner != "" && left > 0 {
				_, err := next.Acquire(context.Background(), store.Claim{Name: name, Owner: row.Owner, TTL: left})
				require.NoError(r.t, err)
			}
		}
		r.primary, r.mem = next, next
		r.refuse = downError(errDown)
	})
}

// looking counts the goroutines that look at a replica.
func looking() int {
	buf := make([]byte, 1<<20)
	stacks := string(buf[:runtime.Stack(buf, true)])
	return strings.Count(stacks, "mutex.(*pair).Confirm(") + strings.Count(stacks, "mutex.(*confirmation).fire(")
}

// looked returns when the replica was looked at since the rig began, and for how many leases.
func (r *pairRig) looked() []seenLook {
	r.mu.Lock()
	defer r.mu.Unlock()
	looks := make([]seenLook, len(r.looks))
	for i, l := range r.looks {
		looks[i] = seenLook{l.at - time.Duration(r.start.UnixNano()), l.leases}
	}
	return looks
}
