package guard

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/clock"
	"github.com/aaravsoft/leasehold/store"
)

func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// rig is everything around a guard: L = 3 s, M = 300 ms, so D is 2.7 s after the send.
type rig struct {
	*Control
	t     *testing.T
	g     *Guard
	start time.Time

	mu        sync.Mutex
	suspended time.Duration
	step      time.Duration
	stops     int
	losses    []*LostError
	releases  []error                        // Released was called with
	answers   []func() (store.Result, error) // of the Releases to come; then: deleted
	sent      int                            // Releases
	ctxAtSend error                          // the guard's context when the first Release was sent
	wg        sync.WaitGroup
}

const trust = 2700 * time.Millisecond

// keeper is a Keeper of functions.
type keeper struct {
	stop         func()
	release      func(limit time.Duration) (store.Result, error)
	releaseBound func(left time.Duration) time.Duration
	run          func(func())
	lost         func(*LostError)
	released     func(error)
}

func (k *keeper) Stop()                                             { k.stop() }
func (k *keeper) Release(limit time.Duration) (store.Result, error) { return k.release(limit) }
func (k *keeper) ReleaseBound(left time.Duration) time.Duration     { return k.releaseBound(left) }
func (k *keeper) Go(f func())                                       { k.run(f) }
func (k *keeper) Lost(err *LostError)                               { k.lost(err) }
func (k *keeper) Released(err error)                                { k.released(err) }

// keeperOf is the keeper that a rig's, or params', are made with.
func keeperOf(p *Params) *keeper { return p.Keeper.(*keeper) }

func newRig(t *testing.T, parent context.Context, change ...func(*Params)) *rig {
	r := &rig{t: t, start: time.Now()}
	p := Params{
		Name: "job", Owner: "host:1/abc", Token: 7, Parent: parent, Clock: r.clock, Sent: r.clock(),
		Trust: trust, Drain: 3 * time.Second,
		Keeper: &keeper{
			stop:    func() { r.mu.Lock(); r.stops++; r.mu.Unlock() },
			release: r.release,
			releaseBound: func(left time.Duration) time.Duration {
				return min(max(left, time.Second), 5*time.Second)
			},
			run:      func(f func()) { r.wg.Go(f) },
			lost:     func(e *LostError) { r.mu.Lock(); r.losses = append(r.losses, e); r.mu.Unlock() },
			released: func(err error) { r.mu.Lock(); r.releases = append(r.releases, err); r.mu.Unlock() },
		},
	}
	for _, c := range change {
		c(&p)
	}
	r.g, r.Control = New(p)
	r.Start()
	t.Cleanup(r.wg.Wait)
	t.Cleanup(func() { _ = r.g.Unlock() })
	return r
}

func (r *rig) clock() clock.Instant {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Duration(time.Now().UnixNano())
	return clock.Instant{Mono: now, Suspended: r.suspended, Wall: now + r.suspended + r.step}
}

func (r *rig) move(suspend, step time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.suspended += suspend
	r.step += step
}

func (r *rig) release(time.Duration) (store.Result, error) {
	r.mu.Lock()
	if r.sent++; r.sent == 1 {
		r.ctxAtSend = context.Cause(r.g.Context())
	}
	answer := func() (store.Result, error) { return store.Result{}, nil }
	if len(r.answers) > 0 {
		answer, r.answers = r.answers[0], r.answers[1:]
	}
	r.mu.Unlock()
	return answer()
}

func (r *rig) at() time.Duration { return time.Since(r.start) }

func (r *rig) doneAt() time.Duration {
	<-r.g.Context().Done()
	return r.at()
}

// seen returns how often Stop, Lost and Released were called.
func (r *rig) seen() (stops, losses, released int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stops, len(r.losses), len(r.releases)
}

var errDown = errors.New("connection refused")

func fails(unclear bool) func() (store.Result, error) {
	return func() (store.Result, error) {
		return store.Result{}, &store.UnavailableError{Op: "release", Unclear: unclear, Err: errDown}
	}
}

func says(row store.Lease) func() (store.Result, error) {
	return func() (store.Result, error) { return store.Result{Lease: row, Err: store.ErrLost}, nil }
}

func reasonOf(t *testing.T, err error) Reason {
	t.Helper()
	var lost *LostError
	require.ErrorAs(t, err, &lost)
	return lost.Reason
}

// classesOf returns of how many classes an error is.
func classesOf(err error) (n int) {
	for _, class := range []error{
		store.ErrHeld, store.ErrLost, store.ErrUnavailable, store.ErrInvalid, store.ErrMisconfigured, store.ErrNotFound,
	} {
		if errors.Is(err, class) {
			n++
		}
	}
	return n
}

// nosyError is a cause that asks the guard whose context it ends.
type nosyError struct{ g *Guard }

func (e nosyError) Error() string { return "with " + e.g.Remaining().String() + " left" }
