package bounded_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/bounded"
	"github.com/aaravsoft/leasehold/internal/census"
	"github.com/aaravsoft/leasehold/store"
)

// fake is a store made of functions. Only those that a test uses are set.
type fake struct {
	acquire func(context.Context, store.Claim) (store.Lease, error)
	renew   func(context.Context, []store.Claim) ([]store.Result, error)
	release func(context.Context, []store.Claim) ([]store.Result, error)
}

func (f *fake) Acquire(ctx context.Context, c store.Claim) (store.Lease, error) {
	return f.acquire(ctx, c)
}

func (f *fake) Renew(ctx context.Context, cs []store.Claim) ([]store.Result, error) {
	return f.renew(ctx, cs)
}

func (f *fake) Release(ctx context.Context, cs []store.Claim) ([]store.Result, error) {
	return f.release(ctx, cs)
}

// deaf returns a store whose calls ignore their context until free is closed, and then succeed.
func deaf(free <-chan struct{}, started *atomic.Int64) *fake {
	batch := func(_ context.Context, cs []store.Claim) ([]store.Result, error) {
		started.Add(1)
		<-free
		return make([]store.Result, len(cs)), nil
	}
	return &fake{
		acquire: func(_ context.Context, c store.Claim) (store.Lease, error) {
			started.Add(1)
			<-free
			return store.Lease{Name: c.Name, Owner: c.Owner, Version: 7}, nil
		},
		renew: batch, release: batch,
	}
}

const limit = 3 * time.Second

var claim = store.Claim{Name: "job", Owner: "me/1", TTL: 10 * time.Second}

// kinds are the three calls in one shape, for tests that concern all of them.
var kinds = map[string]func(c *bounded.Calls, ctx context.Context, limit time.Duration, late func(error)) error{
	"acquire": func(c *bounded.Calls, ctx context.Context, limit time.Duration, late func(error)) error {
		_, err := c.Acquire(ctx, limit, claim, func(_ store.Lease, err error) { late(err) })
		return err
	},
	"renew": func(c *bounded.Calls, ctx context.Context, limit time.Duration, late func(error)) error {
		_, err := c.Renew(ctx, limit, []store.Claim{claim}, func(_ []store.Result, err error) { late(err) })
		return err
	},
	"release": func(c *bounded.Calls, ctx context.Context, limit time.Duration, late func(error)) error {
		_, err := c.Release(ctx, limit, []store.Claim{claim}, func(_ []store.Result, err error) { late(err) })
		return err
	},
}

func TestTheAnswerIsReturned(t *testing.T) {
	want := store.Lease{Name: "job", Owner: "me/1", Version: 3}
	lost := errors.New("who")
	st := &fake{
		acquire: func(_ context.Context, c store.Claim) (store.Lease, error) {
			assert.Equal(t, claim, c)
			return want, nil
		},
		renew: func(_ context.Context, cs []store.Claim) ([]store.Result, error) {
			return []store.Result{{Lease: want}, {Err: errors.Join(store.ErrLost, lost)}}, nil
		},
	}
	calls := bounded.New(st)
	lease, err := calls.Acquire(t.Context(), limit, claim, nil)
	require.NoError(t, err)
	assert.Equal(t, want, lease)
	results, err := calls.Renew(t.Context(), limit, []store.Claim{claim, claim}, nil)
	require.NoError(t, err)
	assert.Equal(t, want, results[0].Lease)
	require.NoError(t, results[0].Err)
	require.ErrorIs(t, results[1].Err, store.ErrLost)
	assert.ErrorIs(t, results[1].Err, lost)
}

func TestCallReturnsAtItsLimit(t *testing.T) {
	for kind, call := range kinds {
		t.Run("CON-01 "+kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				free := make(chan struct{})
				var started, late atomic.Int64
				calls := bounded.New(deaf(free, &started))
				start := time.Now()
				err := call(calls, t.Context(), limit, func(err error) {
					assert.NoError(t, err)
					late.Add(1)
				})
				assert.Equal(t, limit, time.Since(start))
				require.ErrorIs(t, err, store.ErrUnavailable)
				require.ErrorIs(t, err, store.ErrUnclear)
				require.ErrorIs(t, err, bounded.ErrAbandoned)
				limited, ok := errors.AsType[*bounded.LimitError](err)
				require.True(t, ok)
				assert.Equal(t, limit, limited.Limit)
				require.NotErrorIs(t, err, context.DeadlineExceeded, "nobody but the limit ended it")

				time.Sleep(time.Hour)
				assert.Zero(t, late.Load())
				close(free)
				synctest.Wait()
				assert.EqualValues(t, 1, late.Load(), "the late answer is delivered once")
				assert.EqualValues(t, 1, started.Load())
			})
		})
	}
}

func TestLateGrantCarriesTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		var started atomic.Int64
		var got store.Lease
		_, err := bounded.New(deaf(free, &started)).Acquire(t.Context(), limit, claim, func(l store.Lease, _ error) { got = l })
		require.ErrorIs(t, err, bounded.ErrAbandoned)
		close(free)
		synctest.Wait()
		assert.Equal(t, store.Lease{Name: "job", Owner: "me/1", Version: 7}, got)
	})
}

// An obedient store gets the chance to say itself what became of the statement.
func TestStoreAnswersBeforeTheLimit(t *testing.T) {
	for name, unclear := range map[string]bool{"sent": true, "not sent": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := &fake{acquire: func(ctx context.Context, _ store.Claim) (store.Lease, error) {
					deadline, ok := ctx.Deadline()
					assert.True(t, ok)
					<-ctx.Done()
					assert.Equal(t, deadline, time.Now())
					_, ok = errors.AsType[*bounded.LimitError](context.Cause(ctx))
					assert.True(t, ok, "the cause tells a wrapper of the store whose limit it was")
					return store.Lease{}, &store.UnavailableError{
						Op: "acquire", Unclear: unclear, RetryAfter: time.Second, Err: errors.Join(errEngine, ctx.Err()),
					}
				}}
				start := time.Now()
				_, err := bounded.New(st).Acquire(t.Context(), limit, claim, func(store.Lease, error) { t.Error("late") })
				assert.Equal(t, limit*9/10, time.Since(start))
				u, ok := errors.AsType[*store.UnavailableError](err)
				require.True(t, ok)
				assert.Equal(t, unclear, u.Unclear)
				assert.Equal(t, time.Second, u.RetryAfter)
				_, ok = errors.AsType[*bounded.LimitError](err)
				assert.True(t, ok)
				require.NotErrorIs(t, err, bounded.ErrAbandoned)
				require.NotErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, errEngine, "the engine's own error stays reachable")
			})
		})
	}
}

func TestCallerLeaves(t *testing.T) {
	for name, tt := range map[string]struct {
		limit, after, returns time.Duration
		deadline              bool
	}{
		"cancelled":                              {limit: limit, after: time.Second, returns: time.Second + 25*time.Millisecond},
		"its deadline passes":                    {limit: limit, after: time.Second, returns: time.Second + 25*time.Millisecond, deadline: true},
		"short limit":                            {limit: 100 * time.Millisecond, after: 50 * time.Millisecond, returns: 60 * time.Millisecond},
		"shortly before the store's time is up":  {limit: limit, after: 2699 * time.Millisecond, returns: 2724 * time.Millisecond},
		"after the store's time is up":           {limit: limit, after: 2800 * time.Millisecond, returns: 2825 * time.Millisecond},
		"so late that the limit comes first":     {limit: limit, after: 2990 * time.Millisecond, returns: 3000 * time.Millisecond},
		"with its deadline at that of the store": {limit: limit, after: 2700 * time.Millisecond, returns: 2725 * time.Millisecond, deadline: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				free := make(chan struct{})
				defer close(free)
				var started atomic.Int64
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				want := context.Canceled
				if tt.deadline {
					ctx, cancel = context.WithTimeout(ctx, tt.after)
					defer cancel()
					want = context.DeadlineExceeded
				} else {
					time.AfterFunc(tt.after, cancel)
				}
				start := time.Now()
				_, err := bounded.New(deaf(free, &started)).Acquire(ctx, tt.limit, claim, nil)
				assert.Equal(t, tt.returns, time.Since(start))
				require.ErrorIs(t, err, bounded.ErrAbandoned)
				require.ErrorIs(t, err, store.ErrUnclear)
				require.ErrorIs(t, err, want)
				_, limited := errors.AsType[*bounded.LimitError](err)
				assert.False(t, limited, "it was the caller")
			})
		})
	}
}

func TestStoreHearsThatTheCallerLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(&store.HeldError{Lease: store.Lease{Name: "another lock"}}) })
		st := &fake{acquire: func(ctx context.Context, _ store.Claim) (store.Lease, error) {
			<-ctx.Done()
			return store.Lease{}, &store.UnavailableError{Unclear: true, Err: context.Cause(ctx)}
		}}
		start := time.Now()
		_, err := bounded.New(st).Acquire(ctx, limit, claim, nil)
		assert.Equal(t, time.Second, time.Since(start))
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, store.ErrUnclear)
		assert.ErrorContains(t, err, "another lock", "the cause is told")
		require.NotErrorIs(t, err, store.ErrHeld, "but is not the class: this name may have been granted")
		_, held := errors.AsType[*store.HeldError](err)
		assert.False(t, held)
	})
}

func TestContextThatHasEnded(t *testing.T) {
	for kind, call := range kinds {
		t.Run("ACQ-01 "+kind, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			err := call(bounded.New(&fake{}), ctx, limit, func(error) { t.Error("late") }) // a call would panic
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, store.ErrUnavailable)
			assert.NotErrorIs(t, err, store.ErrUnclear)
		})
	}
	t.Run("no time at all", func(t *testing.T) {
		var started atomic.Int64
		free := make(chan struct{})
		close(free)
		_, err := bounded.New(deaf(free, &started)).Acquire(t.Context(), 0, claim, nil)
		if err != nil { // an answer that comes at once is legal
			require.ErrorIs(t, err, store.ErrUnavailable)
		}
	})
}

// Whatever the moment of the answer, exactly one of return value and late has it.
func TestEveryAnswerArrivesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		t.Log("seed", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		moments := []time.Duration{0, limit / 2, limit * 9 / 10, limit*9/10 + 25*time.Millisecond, limit, 2 * limit}
		var abandoned, returned int
		for range 3000 {
			answer, leave := moments[random.IntN(len(moments))], moments[random.IntN(len(moments))]
			st := &fake{acquire: func(context.Context, store.Claim) (store.Lease, error) {
				time.Sleep(answer)
				return store.Lease{Version: 9}, nil
			}}
			ctx, cancel := context.WithTimeout(t.Context(), leave+time.Nanosecond)
			var late atomic.Int64
			lease, err := bounded.New(st).Acquire(ctx, limit, claim, func(l store.Lease, err error) {
				assert.NoError(t, err)
				assert.EqualValues(t, 9, l.Version)
				late.Add(1)
			})
			cancel()
			time.Sleep(2 * limit)
			synctest.Wait()
			if err == nil {
				returned++
				assert.EqualValues(t, 9, lease.Version)
				require.Zero(t, late.Load())
				continue
			}
			abandoned++
			require.ErrorIs(t, err, bounded.ErrAbandoned)
			require.EqualValues(t, 1, late.Load())
		}
		assert.Positive(t, abandoned)
		assert.Positive(t, returned)
	})
}

func TestGoroutinesDoNotGrowWithTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		var started atomic.Int64
		calls := bounded.New(deaf(free, &started))
		before := census.Bubble()
		for range 500 {
			for _, call := range kinds {
				assert.ErrorIs(t, call(calls, t.Context(), limit, func(error) {}), store.ErrUnavailable)
			}
		}
		synctest.Wait()
		assert.Equal(t, 2*bounded.Most, census.Bubble()-before)
		assert.EqualValues(t, 2*bounded.Most, started.Load())
		close(free)
		synctest.Wait()
		assert.Equal(t, before, census.Bubble())
	})
}

// A store that answers at once shows the price of the bound: 9 allocations, 5 of them for the store's context, and a
// goroutine.
func BenchmarkAcquire(b *testing.B) {
	st := &fake{acquire: func(context.Context, store.Claim) (store.Lease, error) { return store.Lease{}, nil }}
	calls := bounded.New(st)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		_, _ = calls.Acquire(ctx, limit, claim, nil)
	}
}
