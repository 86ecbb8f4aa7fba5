package mutex

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/faultstore"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/memory"
)

// requireSpaced: looks at one replica for one lock are at least 50 ms apart.
func requireSpaced(t *testing.T, looks []seenLook) {
	t.Helper()
	for i := 1; i < len(looks); i++ {
		require.GreaterOrEqual(t, looks[i].at-looks[i-1].at, 50*time.Millisecond)
	}
}

// TestConfirmedGrants is about acquisitions on a store with replicas.
func TestConfirmedGrants(t *testing.T) {
	bubble(t, "REP-03 a failover loses the acquired row, without confirmation", func(t *testing.T) {
		r := newPairRig(t)
		r.set(func() { r.lag = time.Minute })
		a := r.on(unconfirming{r.pair}, Config{})
		g := mustLock(t, a, "job")
		r.sleepUntil(time.Second)
		r.promote()
		h := mustLock(t, r.on(r.mem, Config{}), "job")
		end := r.doneAt(g.Context())
		require.LessOrEqual(t, end, 11*time.Second, "the overlap is what the documentation says: at most 1.1 R")
		require.ErrorIs(t, g.Err(), ErrLost)
		require.NoError(t, h.Err())
		require.Equal(t, h.Owner(), r.owner("job"), "the renewal did not bring the old row back")
		require.NoError(t, h.Unlock())
	})
	bubble(t, "REP-03 a failover loses the acquired row, with confirmation", func(t *testing.T) {
		r := newPairRig(t)
		r.set(func() { r.lag = time.Minute })
		a := r.client(Config{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		got := make(chan error, 1)
		go func() {
			_, err := a.Lock(ctx, "job")
			got <- err
		}()
		r.sleepUntil(time.Second)
		require.Empty(t, got)
		require.Contains(t, r.owner("job"), "/")
		r.promote()
		h := mustLock(t, r.on(r.mem, Config{}), "job")
		err := <-got
		require.ErrorIs(t, err, context.DeadlineExceeded, "A never got a guard")
		require.ErrorIs(t, err, ErrHeld)
		require.NoError(t, h.Unlock())
	})
	bubble(t, "REP-04 the replica never confirms: TryLock", func(t *testing.T) {
		r := newPairRig(t)
		r.set(r.freeze)
		a := r.client(Config{ConfirmTimeout: 2 * time.Second})
		_, err := a.TryLock(t.Context(), "job")
		assert.InDelta(t, 2*time.Second, r.at(), float64(100*time.Millisecond))
		require.ErrorIs(t, err, ErrNotConfirmed)
		require.ErrorIs(t, err, ErrUnavailable)
		require.NotErrorIs(t, err, ErrHeld)
		require.NotErrorIs(t, err, ErrUnclear)
		synctest.Wait()
		_, found := r.row("job")
		require.False(t, found, "the row is gone")
		looks := r.looked()
		requireSpaced(t, looks)
		assert.Greater(t, len(looks), 8)
		assert.LessOrEqual(t, len(looks), 40)
		require.NoError(t, mustLock(t, r.healthy(Config{}), "job").Unlock(), "another client can have it at once")
		time.Sleep(time.Minute)
		require.Zero(t, r.faults.Calls(faultstore.Renew), "no heartbeat was left")
		require.Len(t, r.looked(), len(looks))
	})
	bubble(t, "REP-04 the replica never confirms: Lock", func(t *testing.T) {
		r := newPairRig(t)
		r.set(r.freeze)
		a := r.client(Config{ConfirmTimeout: 2 * time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := a.Lock(ctx, "job")
		assert.InDelta(t, 10*time.Second, r.at(), float64(100*time.Millisecond))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, ErrNotConfirmed)
		require.Greater(t, r.faults.Claims(faultstore.Acquire, "job"), 3, "Lock tries again")
		synctest.Wait()
		_, found := r.row("job")
		require.False(t, found)
		requireSpaced(t, r.looked())
	})
	bubble(t, "REP-04 the replica comes back while Lock waits", func(t *testing.T) {
		r := newPairRig(t)
		r.set(r.freeze)
		a := r.client(Config{ConfirmTimeout: 2 * time.Second})
		time.AfterFunc(3*time.Second, func() { r.set(r.follow) })
		g := mustLock(t, a, "job")
		require.Less(t, r.at(), 3500*time.Millisecond)
		require.NoError(t, g.Unlock())
	})
	bubble(t, "REP-05 the replica shows a later expiry", func(t *testing.T) {
		r := newPairRig(t)
		r.set(r.freeze)
		a := r.client(Config{})
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Times: 1, After: func() {
			r.set(func() {
				row, _ := r.mem.Get(t.Context(), "job")
				row.Expires = row.Expires.Add(10 * time.Second)
				r.foreign["job"] = row
			})
		}})
		g := mustLock(t, a, "job", WithWait(time.Minute))
		require.Equal(t, 1, r.faults.Hits())
		require.Len(t, r.looked(), 1)
		require.Equal(t, 27*time.Second, g.Remaining(), "trust counts from the request, not from what is shown")
		require.NoError(t, g.Unlock())
	})
	bubble(t, "REP-05 an older expiry of the same owner is none", func(t *testing.T) {
		r := newPairRig(t)
		a := r.client(Config{})
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Times: 1, After: func() {
			r.set(func() {
				row, _ := r.mem.Get(t.Context(), "job")
				row.Expires = row.Expires.Add(-100 * time.Nanosecond)
				r.foreign["job"] = row
			})
		}})
		_, err := a.TryLock(t.Context(), "job")
		require.ErrorIs(t, err, ErrNotConfirmed)
	})
	bubble(t, "REP-06 cancelled while looking", func(t *testing.T) {
		for _, hang := range []bool{false, true} {
			r := newPairRig(t)
			r.set(func() {
				r.freeze()
				if hang {
					r.hang()
				}
			})
			a := r.client(Config{TTL: time.Minute, ConfirmTimeout: 30 * time.Second})
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			_, err := a.Lock(ctx, "job")
			cancel()
			require.LessOrEqual(t, r.at(), 300*time.Millisecond)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, ErrNotConfirmed)
			synctest.Wait()
			_, found := r.row("job")
			require.False(t, found, "deleted, though the context has ended")
		}
	})
	bubble(t, "REP-06 the wait, the parent or the client ends while looking", func(t *testing.T) {
		r := newPairRig(t)
		r.set(r.freeze)
		a := r.client(Config{})
		_, err := a.Lock(t.Context(), "job", WithWait(200*time.Millisecond))
		require.ErrorIs(t, err, ErrNotConfirmed)
		require.NotErrorIs(t, err, context.Canceled)
		require.Equal(t, 200*time.Millisecond, r.at())
		parent, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err = a.Lock(t.Context(), "job", WithParent(parent))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.LessOrEqual(t, r.at(), 500*time.Millisecond)
		time.AfterFunc(200*time.Millisecond, func() { assert.NoError(t, a.Close(t.Context())) })
		_, err = a.Lock(t.Context(), "job")
		require.ErrorIs(t, err, ErrClosed)
		require.LessOrEqual(t, r.at(), 800*time.Millisecond)
		synctest.Wait()
		_, found := r.row("job")
		require.False(t, found)
	})
	for name, wrong := range map[string]func(r *pairRig){
		"refuses":      func(r *pairRig) { r.refuse = downError(errors.New("replica two: connection refused")) },
		"has no table": func(r *pairRig) { r.refuse = &store.MisconfiguredError{Remedy: "replica two: create the table"} },
		"hangs":        func(r *pairRig) { r.hang() },
		"has a row of somebody else's": func(r *pairRig) {
			r.foreign["job"] = store.Lease{Name: "job", Owner: "other/1", Expires: time.Now().Add(time.Hour)}
		},
	} {
		bubble(t, "REP-07 the replica "+name, func(t *testing.T) {
			r := newPairRig(t)
			r.set(func() { wrong(r) })
			var events eventLog
			a := r.client(Config{Hooks: events.hooks()})
			_, err := a.TryLock(t.Context(), "job")
			require.ErrorIs(t, err, ErrNotConfirmed)
			require.ErrorIs(t, err, ErrUnavailable)
			require.NotErrorIs(t, err, ErrMisconfigured)
			require.NotErrorIs(t, err, ErrHeld)
			if r.refuse != nil {
				require.ErrorContains(t, err, "replica two")
			}
			require.LessOrEqual(t, r.at(), 15300*time.Millisecond)
			synctest.Wait()
			_, found := r.row("job")
			require.False(t, found)
			require.Zero(t, events.count(evAcquired))
			require.Equal(t, 1, events.count(evRefused))
			require.Zero(t, a.Health(t.Context()).Breaker.Failures, "the primary has not failed")
		})
	}
	bubble(t, "a grant that comes later than ConfirmTimeout is given back", func(t *testing.T) {
		r := newPairRig(t)
		a := r.client(Config{ConfirmTimeout: time.Second})
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Times: 1, Delay: 1200 * time.Millisecond})
		_, err := a.TryLock(t.Context(), "job")
		require.ErrorIs(t, err, ErrNotConfirmed)
		require.Empty(t, r.looked())
		g := mustLock(t, a, "job")
		require.Len(t, r.looked(), 1)
		require.NoError(t, g.Unlock())
	})
	bubble(t, "SAF-05 the machine is suspended while looking", func(t *testing.T) {
		for _, slept := range []time.Duration{2 * time.Second, 18 * time.Second, time.Hour} {
			r := newPairRig(t)
			var ck clocks
			r.set(func() { r.slow = 100 * time.Millisecond })
			a, err := newClient(r.faults, Config{NoBreaker: true}, ck.now)
			require.NoError(t, err)
			time.AfterFunc(50*time.Millisecond, func() { ck.move(slept, 0) })
			g, err := a.TryLock(t.Context(), "job")
			if slept < 10*time.Second {
				require.NoError(t, err)
				require.Equal(t, 27*time.Second-slept-100*time.Millisecond, g.Remaining())
				require.NoError(t, g.Unlock())
			} else {
				require.ErrorIs(t, err, ErrUnavailable, "nobody renewed meanwhile, and R of trust is not left")
			}
			require.NoError(t, a.Close(t.Context()))
			_, found := r.row("job")
			require.False(t, found)
		}
	})
	bubble(t, "a ConfirmTimeout of next to nothing is enough for replicas that never are behind", func(t *testing.T) {
		r := newPairRig(t)
		g, err := r.client(Config{ConfirmTimeout: time.Millisecond}).TryLock(t.Context(), "job")
		require.NoError(t, err)
		require.NoError(t, g.Unlock())
	})
	bubble(t, "D counts from the request, however long the replicas take", func(t *testing.T) {
		r := newPairRig(t)
		r.set(func() { r.lag = 1200 * time.Millisecond })
		g := mustLock(t, r.client(three()), "job")
		require.InDelta(t, 1200*time.Millisecond, r.at(), float64(160*time.Millisecond))
		require.Equal(t, threeTrust-r.at(), g.Remaining())
		require.NoError(t, g.Unlock())
	})
}

// unconfirming hides what else a store can do.
type unconfirming struct{ store.Store }

func TestConfirmTimeout(t *testing.T) {
	t.Run("the default is the most, for each TTL", func(t *testing.T) {
		cfg, err := Config{}.withDefaults()
		require.NoError(t, err)
		require.Equal(t, 15300*time.Millisecond, cfg.timing(cfg.TTL).confirm)
		require.Equal(t, 510*time.Millisecond, cfg.timing(time.Second).confirm.Round(time.Millisecond))
		cfg.ConfirmTimeout = 2 * time.Second
		require.Equal(t, 2*time.Second, cfg.timing(cfg.TTL).confirm)
		require.Equal(t, 2*time.Second, cfg.timing(time.Minute).confirm)
		require.Equal(t, 510*time.Millisecond, cfg.timing(time.Second).confirm.Round(time.Millisecond))
	})
	t.Run("CFG-02 more is refused, with the numbers", func(t *testing.T) {
		_, err := New(memory.New(), Config{ConfirmTimeout: 15300 * time.Millisecond})
		require.NoError(t, err)
		_, err = New(memory.New(), Config{ConfirmTimeout: 15301 * time.Millisecond})
		require.ErrorIs(t, err, ErrInvalid)
		for _, number := range []string{"15.301s", "15.3s", "30s", "3s", "10s"} {
			require.ErrorContains(t, err, number)
		}
		_, err = New(memory.New(), Config{ConfirmTimeout: -1})
		require.ErrorIs(t, err, ErrInvalid)
	})
}

// mute is a confirmer that says whether it has replicas.
type mute struct {
	*pair
	has bool
}

func (m mute) Confirms() bool { return m.has }

func TestWhoConfirms(t *testing.T) {
	p := &pair{}
	for name, c := range map[string]struct {
		st   store.Store
		want bool
	}{
		"a store that cannot":             {memory.New(), false},
		"a store that can":                {p, true},
		"a wrapped one":                   {faultstore.Wrap(p), true},
		"one without replicas":            {faultstore.Wrap(mute{p, false}), false},
		"one with replicas":               {faultstore.Wrap(mute{p, true}), true},
		"a confirming wrapper round none": {outer{mute{p, false}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, confirmer(c.st) != nil)
		})
	}
}

// outer confirms by itself, whatever is inside.
type outer struct{ inner store.Store }

func (o outer) Unwrap() store.Store { return o.inner }

func (o outer) Acquire(ctx context.Context, c store.Claim) (store.Lease, error) {
	return o.inner.Acquire(ctx, c)
}

func (o outer) Renew(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	return o.inner.Renew(ctx, claims)
}

func (o outer) Release(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	return o.inner.Release(ctx, claims)
}

func (o outer) Confirm(_ context.Context, leases []store.Lease) ([]time.Time, error) {
	return make([]time.Time, len(leases)), nil
}
