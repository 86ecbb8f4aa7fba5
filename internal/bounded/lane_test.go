package bounded_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/bounded"
	"github.com/aaravsoft/leasehold/store"
)

// fill abandons as many calls of a kind as are tolerated.
func fill(t *testing.T, calls *bounded.Calls, kind string) {
	t.Helper()
	for range bounded.Most {
		require.ErrorIs(t, kinds[kind](calls, t.Context(), limit, func(error) {}), bounded.ErrAbandoned)
	}
}

func TestNoNewCallsWhileTooManyAreAbandoned(t *testing.T) {
	t.Run("BRK-06 it waits, and says that it was not sent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			free := make(chan struct{})
			defer close(free)
			var started atomic.Int64
			calls := bounded.New(deaf(free, &started))
			fill(t, calls, "acquire")
			start := time.Now()
			err := kinds["acquire"](calls, t.Context(), limit, func(error) { t.Error("late") })
			assert.LessOrEqual(t, time.Since(start), limit)
			assert.GreaterOrEqual(t, time.Since(start), limit*9/10)
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.NotErrorIs(t, err, store.ErrUnclear)
			require.NotErrorIs(t, err, bounded.ErrAbandoned)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			_, limited := errors.AsType[*bounded.LimitError](err)
			assert.True(t, limited)
			assert.EqualValues(t, bounded.Most, started.Load())

			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start = time.Now()
			err = kinds["acquire"](calls, ctx, limit, func(error) { t.Error("late") })
			assert.Equal(t, time.Second, time.Since(start))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NotErrorIs(t, err, store.ErrUnclear)
		})
	})
	t.Run("BRK-03 the kinds do not take each other's places", func(t *testing.T) {
		for _, full := range []string{"acquire", "release"} {
			synctest.Test(t, func(t *testing.T) {
				free := make(chan struct{})
				defer close(free)
				var started atomic.Int64
				st := deaf(free, &started)
				calls := bounded.New(st)
				fill(t, calls, full)
				other := "renew"
				if full == "acquire" {
					st.renew = func(_ context.Context, cs []store.Claim) ([]store.Result, error) {
						return make([]store.Result, len(cs)), nil
					}
				} else {
					other = "acquire"
					st.acquire = func(context.Context, store.Claim) (store.Lease, error) { return store.Lease{}, nil }
				}
				start := time.Now()
				require.NoError(t, kinds[other](calls, t.Context(), limit, nil))
				assert.Zero(t, time.Since(start))
			})
		}
	})
}

func TestAFreePlaceGoesToTheFirstWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{}, 1)
		var started atomic.Int64
		calls := bounded.New(deaf(free, &started))
		fill(t, calls, "acquire")
		began := make(chan int, 100)
		for i := range 40 {
			go func() {
				_, err := calls.Acquire(t.Context(), limit, claim, nil)
				if !errors.Is(err, bounded.ErrAbandoned) {
					assert.NotErrorIs(t, err, store.ErrUnclear)
					return
				}
				began <- i
			}()
			synctest.Wait()
		}
		for n := range 3 {
			free <- struct{}{} // one abandoned call returns
			synctest.Wait()
			assert.EqualValues(t, bounded.Most+n+1, started.Load(), "one place, one call")
		}
		time.Sleep(2 * limit)
		synctest.Wait()
		require.Len(t, began, 3)
		assert.ElementsMatch(t, []int{0, 1, 2}, []int{<-began, <-began, <-began})
		close(free)
	})
}

// A store that falls silent under a burst may get more than Most calls abandoned, once. After that the number only
// falls, however many callers wait.
func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		var started atomic.Int64
		calls := bounded.New(deaf(free, &started))
		burst := func() {
			for range 100 {
				go func() { _, _ = calls.Acquire(t.Context(), limit, claim, nil) }()
			}
			synctest.Wait()
		}
		burst()
		assert.EqualValues(t, 100, started.Load(), "a store that answers is not held up")
		time.Sleep(2 * limit)
		for range 20 {
			burst()
			free <- struct{}{}
			time.Sleep(2 * limit)
		}
		synctest.Wait()
		assert.EqualValues(t, 100, started.Load(), "80 are abandoned still, so none starts")
		for range 100 - bounded.Most - 20 + 1 {
			free <- struct{}{}
		}
		burst()
		assert.EqualValues(t, 101, started.Load(), "15 abandoned and one in flight: the others wait")
		close(free)
		synctest.Wait()
	})
}
