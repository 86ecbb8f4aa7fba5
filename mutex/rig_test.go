package mutex

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/clock"
	"github.com/aaravsoft/leasehold/internal/faultstore"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/memory"
)

// bubble runs f as a subtest in fake time.
func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// rig is a store with switches, and clients on it.
type rig struct {
	t      *testing.T
	mem    *memory.Store
	faults *faultstore.Store
	start  time.Time
	other  *Guard // of somebody else, for as long as the test runs
}

func newRig(t *testing.T) *rig {
	mem := memory.New()
	r := &rig{t: t, mem: mem, faults: faultstore.Wrap(mem), start: time.Now()}
	return r
}

// three is the timing of most scenarios: L = 3 s, R = 1 s, and so M = 300 ms and D = 2.7 s after the send.
func three() Config { return Config{TTL: 3 * time.Second, Renew: time.Second} }

const threeTrust = 2700 * time.Millisecond

// client returns a client on the rig's store with faults; it is closed at the end of the test.
func (r *rig) client(cfg Config) *Client { return r.on(r.faults, cfg) }

// healthy returns a client on the same rows that meets no faults.
func (r *rig) healthy(cfg Config) *Client { return r.on(r.mem, cfg) }

func (r *rig) on(st store.Store, cfg Config) *Client {
	c, err := New(st, cfg)
	require.NoError(r.t, err)
	r.t.Cleanup(func() {
		r.faults.Clear()
		synctest.Wait() // a call that has met a fault already is about to hang
		r.faults.Free()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c
}

func (r *rig) at() time.Duration { return time.Since(r.start) }

// sleepUntil moves fake time to a moment of the scenario.
func (r *rig) sleepUntil(d time.Duration) {
	r.t.Helper()
	require.LessOrEqual(r.t, r.at(), d, "the scenario is late")
	time.Sleep(d - r.at())
}

func (r *rig) row(name string) (store.Lease, bool) {
	l, err := r.mem.Get(context.Background(), name)
	return l, err == nil
}

func mustLock(t *testing.T, c *Client, name string, opts ...Option) *Guard {
	t.Helper()
	g, err := c.Lock(context.Background(), name, opts...)
	require.NoError(t, err)
	return g
}

// doneAt returns when a context ended, in the rig's time.
func (r *rig) doneAt(ctx context.Context) time.Duration {
	r.t.Helper()
	select {
	case <-ctx.Done():
	case <-time.After(time.Hour):
		require.FailNow(r.t, "the context does not end")
	}
	return r.at()
}

// inside counts how many hold a lock, from outside of it.
type inside struct {
	mu        sync.Mutex
	now, most int
	total     int
	tokens    []uint64
}

func (i *inside) enter(g *Guard) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.now++
	i.total++
	i.most = max(i.most, i.now)
	i.tokens = append(i.tokens, g.Token())
}

func (i *inside) leave() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.now--
}

func (i *inside) check(t *testing.T) {
	i.mu.Lock()
	defer i.mu.Unlock()
	assert.Equal(t, 1, i.most, "more than one inside")
	for n := 1; n < len(i.tokens); n++ {
		require.Greater(t, i.tokens[n], i.tokens[n-1], "tokens grow in the order of the grants")
	}
}

// clocks is a clock whose parts a test sets apart from the bubble's time.
type clocks struct {
	mu              sync.Mutex
	suspended, step time.Duration
}

func (c *clocks) now() clock.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Duration(time.Now().UnixNano())
	return clock.Instant{Mono: now, Suspended: c.suspended, Wall: now + c.suspended + c.step}
}

func (c *clocks) move(suspend, step time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.suspended += suspend
	c.step += step
}

func downError(err error) error { return &store.UnavailableError{Op: "test", Err: err} }

func unclearError(err error) error {
	return &store.UnavailableError{Op: "test", Unclear: true, Err: err}
}

// outage makes every call fail without being applied.
func (r *rig) outage(err error) {
	r.faults.Add(faultstore.Fault{Ops: faultstore.All, Fail: downError(err)})
}

func (r *rig) owner(name string) string {
	row, found := r.row(name)
	require.True(r.t, found)
	return row.Owner
}

// lastRenewalBefore moves to a moment of the scenario, and returns when the last renewal before it was sent.
func (r *rig) lastRenewalBefore(d time.Duration) time.Duration {
	r.t.Helper()
	var last atomic.Int64
	r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, Before: func() { last.Store(int64(r.at())) }})
	r.sleepUntil(d)
	r.faults.Clear()
	require.Positive(r.t, last.Load(), "no renewal yet")
	return time.Duration(last.Load())
}
