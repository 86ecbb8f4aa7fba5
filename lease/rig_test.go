package lease

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/faultstore"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/memory"
)

// The timing of most tests: M = 300 ms, trust for 2.7 s after the send, and calls of at most 900 ms.
const (
	ttl   = 3 * time.Second
	trust = 2700 * time.Millisecond
	limit = 900 * time.Millisecond
)

var (
	errReset   = errors.New("connection reset")
	errUnclear = &store.UnavailableError{Unclear: true, Err: errReset}
	errNotSent = &store.UnavailableError{Err: errReset}
)

// rig is a store with faults, in fake time.
type rig struct {
	*testing.T
	mem    *memory.Store
	faults *faultstore.Store
	start  time.Time
}

// bubble runs f as a subtest in fake time. What hangs is let go at the end.
func bubble(t *testing.T, name string, f func(r *rig)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			mem := memory.New()
			r := &rig{T: t, mem: mem, faults: faultstore.Wrap(mem), start: time.Now()}
			defer synctest.Wait()
			defer r.faults.Free()
			f(r)
		})
	})
}

// lease returns a lease on the rig's name, which meets its faults.
func (r *rig) lease(opts ...Option) *Lease { return r.on(r.faults, "me", opts...) }

// other returns somebody else's, which meets none.
func (r *rig) other() *Lease { return r.on(r.mem, "somebody else") }

func (r *rig) on(st store.Store, owner string, opts ...Option) *Lease {
	r.Helper()
	l, err := New(st, "job", owner, ttl, opts...)
	require.NoError(r, err)
	return l
}

// held returns a lease that was acquired just now.
func (r *rig) held(opts ...Option) *Lease {
	r.Helper()
	l := r.lease(opts...)
	require.NoError(r, l.TryAcquire(r.Context()))
	return l
}

// sleepUntil moves fake time to a moment of the scenario.
func (r *rig) sleepUntil(d time.Duration) {
	r.Helper()
	require.LessOrEqual(r, time.Since(r.start), d, "the scenario is late")
	time.Sleep(d - time.Since(r.start))
}

// row returns the row as it is in the store, live or not.
func (r *rig) row() (store.Lease, bool) {
	row, err := r.mem.Get(r.Context(), "job")
	return row, err == nil
}

func (r *rig) requireNoRow() {
	r.Helper()
	row, found := r.row()
	require.False(r, found, "%+v", row)
}

func (r *rig) requireRowOf(l *Lease) {
	r.Helper()
	row, found := r.row()
	require.True(r, found)
	require.Equal(r, l.Owner(), row.Owner)
	require.Positive(r, row.Left)
}

func (r *rig) requireCalls(acquires, renews, releases int) {
	r.Helper()
	require.Equal(r, []int{acquires, renews, releases}, []int{
		r.faults.Calls(faultstore.Acquire), r.faults.Calls(faultstore.Renew), r.faults.Calls(faultstore.Release),
	}, "acquires, renews and releases so far")
}
