package breaker_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/bounded"
	"github.com/aaravsoft/leasehold/internal/faultstore"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/breaker"
	"github.com/aaravsoft/leasehold/store/memory"
)

func bubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

type rig struct {
	t      *testing.T
	mem    *memory.Store
	faults *faultstore.Store
	b      *breaker.Store
	mu     sync.Mutex
	seen   []breaker.Phase
}

func newRig(t *testing.T, cfg breaker.Config, wrap ...func(store.Store) store.Store) *rig {
	mem := memory.New()
	r := &rig{t: t, mem: mem, faults: faultstore.Wrap(mem)}
	cfg.OnChange = func(s breaker.State) {
		r.mu.Lock()
		defer r.mu.Unlock()
		_ = r.b.State() // hooks may look at the breaker
		r.seen = append(r.seen, s.Phase)
	}
	var st store.Store = r.faults
	for _, w := range wrap {
		st = w(st)
	}
	b, err := breaker.New(st, cfg)
	require.NoError(t, err)
	r.b = b
	return r
}

// curious is a wrapper that wants to be told of a call's end, too.
type curious struct{ store.Store }

func (s curious) Acquire(ctx context.Context, c store.Claim) (store.Lease, error) {
	if e, ok := ctx.(interface {
		OnEnd(w interface{ Ended() }) bool
	}); ok {
		e.OnEnd(s)
	}
	return s.Store.Acquire(ctx, c)
}

func (curious) Ended() {}

func claim(owner string) store.Claim {
	return store.Claim{Name: "job", Owner: owner, TTL: 30 * time.Second}
}

var down = &store.UnavailableError{Op: "test", Err: errors.New("connection refused")}

// fail makes acquisitions fail until the breaker opens.
func (r *rig) fail() {
	r.t.Helper()
	for n := 0; r.b.State().Phase == breaker.Closed; n++ {
		require.Less(r.t, n, 100, "it never opens")
		_, err := r.b.Acquire(r.t.Context(), claim("a/b"))
		require.ErrorIs(r.t, err, store.ErrUnavailable)
		time.Sleep(100 * time.Millisecond)
	}
}

func TestBreaker(t *testing.T) {
	bubble(t, "opens, refuses at once, probes, closes", func(t *testing.T) {
		r := newRig(t, breaker.Config{})
		r.faults.Add(faultstore.Fault{Ops: faultstore.All, Fail: down})
		r.fail()
		require.Equal(t, breaker.Open, r.b.State().Phase)
		calls := r.faults.Calls(faultstore.Acquire)
		_, err := r.b.Acquire(t.Context(), claim("a/b"))
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.ErrorIs(t, err, breaker.ErrOpen)
		require.NotErrorIs(t, err, store.ErrHeld)
		require.NotErrorIs(t, err, store.ErrUnclear)
		var unavailable *store.UnavailableError
		require.ErrorAs(t, err, &unavailable)
		require.Equal(t, time.Until(r.b.State().NextProbe), unavailable.RetryAfter)
		require.Equal(t, calls, r.faults.Calls(faultstore.Acquire))

		wait := unavailable.RetryAfter
		require.LessOrEqual(t, wait, 1200*time.Millisecond)
		time.Sleep(wait + time.Millisecond)
		require.Equal(t, breaker.HalfOpen, r.b.State().Phase)
		_, err = r.b.Acquire(t.Context(), claim("a/b")) // the probe fails
		require.ErrorIs(t, err, down.Err)
		require.Equal(t, breaker.Open, r.b.State().Phase)

		r.faults.Clear()
		time.Sleep(1201 * time.Millisecond)
		_, err = r.b.Acquire(t.Context(), claim("a/b"))
		require.NoError(t, err)
		require.Equal(t, breaker.Closed, r.b.State().Phase)
		require.Zero(t, r.b.State().NextProbe)
		r.mu.Lock()
		defer r.mu.Unlock()
		require.Equal(t, []breaker.Phase{breaker.Open, breaker.HalfOpen, breaker.Open, breaker.HalfOpen, breaker.Closed}, r.seen, "once per change")
	})

	bubble(t, "BRK-01 held is an answer", func(t *testing.T) {
		r := newRig(t, breaker.Config{})
		_, err := r.mem.Acquire(t.Context(), claim("somebody/else"))
		require.NoError(t, err)
		for range 1000 {
			_, err := r.b.Acquire(t.Context(), claim("a/b"))
			require.ErrorIs(t, err, store.ErrHeld)
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, breaker.Closed, r.b.State().Phase)
		require.Equal(t, 1000, r.faults.Calls(faultstore.Acquire))
	})

	bubble(t, "rule 13: contention, bad input and misconfiguration are no failures", func(t *testing.T) {
		for _, err := range []error{
			store.ErrLost, store.ErrInvalid, &store.MisconfiguredError{Remedy: "create it"},
			&store.UnavailableError{Err: contention{errors.New("1205")}},
		} {
			r := newRig(t, breaker.Config{})
			r.faults.Add(faultstore.Fault{Ops: faultstore.All, Fail: err})
			for range 100 {
				_, got := r.b.Acquire(t.Context(), claim("a/b"))
				require.ErrorIs(t, got, err)
				time.Sleep(10 * time.Millisecond)
			}
			require.Equal(t, breaker.Closed, r.b.State().Phase, err)
		}
	})

	bubble(t, "BRK-02 a caller who leaves says nothing, a limit that is not kept does", func(t *testing.T) {
		r := newRig(t, breaker.Config{})
		calls := bounded.New(r.b)
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Delay: 50 * time.Millisecond})
		for n := range 200 {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			if n%2 == 0 {
				ctx, cancel = context.WithCancel(t.Context())
				time.AfterFunc(10*time.Millisecond, cancel)
			}
			_, err := calls.Acquire(ctx, time.Second, claim("a/b"), nil)
			require.ErrorIs(t, err, store.ErrUnavailable)
			cancel()
		}
		require.Equal(t, breaker.Closed, r.b.State().Phase)
		r.faults.Clear()
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, HangBefore: true})
		for range 5 {
			_, err := calls.Acquire(t.Context(), 100*time.Millisecond, claim("a/b"), nil)
			require.ErrorIs(t, err, store.ErrUnavailable)
		}
		require.Equal(t, breaker.Open, r.b.State().Phase, "each counted at its limit, though none has returned")
		r.faults.Free()
	})

	bubble(t, "a stale pool after a failover is no outage", func(t *testing.T) {
		r := newRig(t, breaker.Config{})
		r.faults.Add(faultstore.Fault{Ops: faultstore.All, Times: 20, Fail: down})
		for range 20 {
			_, err := r.b.Acquire(t.Context(), claim("a/b"))
			require.ErrorIs(t, err, store.ErrUnavailable)
			time.Sleep(5 * time.Millisecond)
		}
		_, err := r.b.Acquire(t.Context(), claim("a/b"))
		require.NoError(t, err)
		require.Equal(t, breaker.Closed, r.b.State().Phase)
	})

	bubble(t, "BRK-03 renewals and releases pass, and are not reported while it is open", func(t *testing.T) {
		r := newRig(t, breaker.Config{OpenFor: time.Hour})
		_, err := r.mem.Acquire(t.Context(), claim("a/b"))
		require.NoError(t, err)
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Fail: down})
		r.fail()
		for range 10 {
			results, err := r.b.Renew(t.Context(), []store.Claim{claim("a/b")})
			require.NoError(t, err)
			require.NoError(t, results[0].Err)
			time.Sleep(time.Second)
		}
		require.Equal(t, breaker.Open, r.b.State().Phase, "a renewal's success hides nothing")
		results, err := r.b.Release(t.Context(), []store.Claim{claim("a/b")})
		require.NoError(t, err)
		require.NoError(t, results[0].Err)
	})

	bubble(t, "a renewal's success does not hide that acquisitions fail", func(t *testing.T) {
		r := newRig(t, breaker.Config{})
		_, err := r.mem.Acquire(t.Context(), claim("a/b"))
		require.NoError(t, err)
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Fail: down})
		for range 5 {
			_, err := r.b.Acquire(t.Context(), claim("a/b"))
			require.Error(t, err)
			_, err = r.b.Renew(t.Context(), []store.Claim{claim("a/b")})
			require.NoError(t, err)
			time.Sleep(100 * time.Millisecond)
		}
		require.Equal(t, breaker.Open, r.b.State().Phase)
	})

	bubble(t, "a client that only holds is probed by its renewals", func(t *testing.T) {
		r := newRig(t, breaker.Config{})
		_, err := r.mem.Acquire(t.Context(), claim("a/b"))
		require.NoError(t, err)
		r.faults.Add(faultstore.Fault{Ops: faultstore.All, Fail: down})
		for range 6 {
			_, err = r.b.Renew(t.Context(), []store.Claim{claim("a/b")})
			require.ErrorIs(t, err, store.ErrUnavailable)
			time.Sleep(100 * time.Millisecond)
		}
		require.Equal(t, breaker.Open, r.b.State().Phase)
		r.faults.Clear()
		time.Sleep(1201 * time.Millisecond)
		_, err = r.b.Renew(t.Context(), []store.Claim{claim("a/b")})
		require.NoError(t, err)
		require.Equal(t, breaker.Closed, r.b.State().Phase)
	})

	t.Run("CFG-01 configuration", func(t *testing.T) {
		for _, cfg := range []breaker.Config{{Failures: -1}, {Span: -1}, {OpenFor: -1}} {
			_, err := breaker.New(memory.New(), cfg)
			require.ErrorIs(t, err, store.ErrInvalid)
		}
		_, err := breaker.New(nil, breaker.Config{})
		require.ErrorIs(t, err, store.ErrInvalid)
	})
}

type contention struct{ error }

func (contention) Contention() bool { return true }

func TestHalfOpen(t *testing.T) {
	bubble(t, "BRK-04 one probe: the others wait or are told at once", func(t *testing.T) {
		r := newRig(t, breaker.Config{})
		r.faults.Add(faultstore.Fault{Ops: faultstore.All, Fail: down})
		r.fail()
		r.faults.Clear()
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Times: 1, Delay: time.Second})
		calls := r.faults.Calls(faultstore.Acquire)
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { // waits
				assert.NoError(t, r.b.Turn(t.Context()))
				_, err := r.b.Acquire(t.Context(), store.Claim{Name: "job", Owner: store.NewOwner("w"), TTL: time.Second})
				if err != nil {
					assert.ErrorIs(t, err, store.ErrHeld)
				}
			})
		}
		time.Sleep(time.Until(r.b.State().NextProbe) + 10*time.Millisecond)
		synctest.Wait()
		require.Equal(t, 1, r.faults.Calls(faultstore.Acquire)-calls, "one probe in flight")
		for range 50 {
			_, err := r.b.Acquire(t.Context(), claim("a/b"))
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.NotErrorIs(t, err, store.ErrHeld)
		}
		wg.Wait()
		require.Equal(t, 50, r.faults.Calls(faultstore.Acquire)-calls, "the others after it succeeded")
	})

	bubble(t, "BRK-05 a waiter's limit is its own", func(t *testing.T) {
		r := newRig(t, breaker.Config{OpenFor: time.Minute})
		r.faults.Add(faultstore.Fault{Ops: faultstore.All, Fail: down})
		r.fail()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		require.ErrorIs(t, r.b.Turn(ctx), context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(begin))
	})

	bubble(t, "BRK-06 hanging probes do not pile up, and do not wedge it", func(t *testing.T) {
		r := newRig(t, breaker.Config{})
		calls := bounded.New(r.b)
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, HangBefore: true})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				for ctx.Err() == nil {
					if r.b.Turn(ctx) == nil {
						_, _ = calls.Acquire(ctx, 200*time.Millisecond, store.Claim{Name: "job", Owner: store.NewOwner("w"), TTL: time.Second}, nil)
					}
					time.Sleep(500 * time.Millisecond)
				}
			})
		}
		time.Sleep(5 * time.Second)
		stuck := r.faults.Blocked()
		time.Sleep(time.Minute)
		require.LessOrEqual(t, r.faults.Blocked()-stuck, 16, "bounded, whatever the breaker")
		r.faults.Clear()
		r.faults.Free()
		time.Sleep(2 * time.Second)
		require.Equal(t, breaker.Closed, r.b.State().Phase, "it has recovered")
		cancel()
		wg.Wait()
	})

	bubble(t, "a turn that is not used goes to the next", func(t *testing.T) {
		r := newRig(t, breaker.Config{})
		r.faults.Add(faultstore.Fault{Ops: faultstore.All, Fail: down})
		r.fail()
		var mu sync.Mutex
		var at []time.Time
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				assert.NoError(t, r.b.Turn(t.Context()))
				mu.Lock()
				defer mu.Unlock()
				at = append(at, time.Now())
			})
			synctest.Wait()
		}
		wg.Wait()
		require.Equal(t, 100*time.Millisecond, at[1].Sub(at[0]))
		require.Equal(t, 100*time.Millisecond, at[2].Sub(at[1]))
	})

	leaves := func(t *testing.T, acquire func(r *rig, ctx context.Context), wrap ...func(store.Store) store.Store) {
		r := newRig(t, breaker.Config{}, wrap...)
		r.faults.Add(faultstore.Fault{Ops: faultstore.All, Fail: down})
		r.fail()
		r.faults.Clear()
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Times: 1, HangBefore: true})
		time.Sleep(1201 * time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			acquire(r, ctx)
		}()
		synctest.Wait()
		_, err := r.b.Acquire(t.Context(), claim("a/b"))
		require.ErrorIs(t, err, breaker.ErrOpen)
		cancel()
		synctest.Wait()
		_, err = r.b.Acquire(t.Context(), claim("a/b"))
		require.NoError(t, err)
		require.Equal(t, breaker.Closed, r.b.State().Phase)
		r.faults.Free()
		<-done
	}
	bubble(t, "a probe whose caller left gives its place back", func(t *testing.T) {
		leaves(t, func(r *rig, ctx context.Context) { _, _ = r.b.Acquire(ctx, claim("gone/x")) })
	})
	bubble(t, "so does one that is made by package bounded, whose contexts tell by themselves", func(t *testing.T) {
		leaves(t, func(r *rig, ctx context.Context) {
			_, _ = bounded.New(r.b).Acquire(ctx, time.Minute, claim("gone/x"), nil)
		})
	})

	bubble(t, "also if another wrapper wants to be told", func(t *testing.T) {
		leaves(t, func(r *rig, ctx context.Context) {
			_, _ = bounded.New(r.b).Acquire(ctx, time.Minute, claim("gone/x"), nil)
		}, func(st store.Store) store.Store { return curious{st} })
	})

	bubble(t, "BRK-06 calls that hang open it when their limit is over", func(t *testing.T) {
		r := newRig(t, breaker.Config{})
		calls := bounded.New(r.b)
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, HangBefore: true})
		for range 5 {
			_, err := calls.Acquire(t.Context(), time.Second, claim("a/b"), nil)
			require.ErrorIs(t, err, bounded.ErrAbandoned)
		}
		require.Equal(t, breaker.Open, r.b.State().Phase)
		r.faults.Free()
		synctest.Wait()
	})
}
