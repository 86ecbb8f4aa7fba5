package bounded_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/bounded"
	"github.com/aaravsoft/leasehold/store"
)

// replicas is a Confirmer made of a function.
type replicas func(context.Context, []store.Lease) ([]time.Time, error)

func (r replicas) Confirm(ctx context.Context, leases []store.Lease) ([]time.Time, error) {
	return r(ctx, leases)
}

// silent replicas ignore their context until free is closed.
func silent(free <-chan struct{}, started *atomic.Int64) replicas {
	return func(_ context.Context, leases []store.Lease) ([]time.Time, error) {
		started.Add(1)
		<-free
		return make([]time.Time, len(leases)), nil
	}
}

func TestLooks(t *testing.T) {
	two := []store.Lease{{Name: "a"}, {Name: "b"}}
	some := []time.Time{time.Unix(7, 0), {}}
	refused := errors.New("connection refused")

	t.Run("what one replica says is valid next to another one's error", func(t *testing.T) {
		shown, err := bounded.NewLooks(replicas(func(context.Context, []store.Lease) ([]time.Time, error) {
			return some, refused
		})).Confirm(t.Context(), limit, two)
		assert.Equal(t, some, shown)
		require.ErrorIs(t, err, store.ErrUnavailable)
		require.ErrorIs(t, err, refused)
	})
	for name, broken := range map[string]replicas{
		"too few times": func(context.Context, []store.Lease) ([]time.Time, error) { return some[:1], nil },
		"a panic":       func(context.Context, []store.Lease) ([]time.Time, error) { panic("bug") },
		"no goroutine": func(context.Context, []store.Lease) ([]time.Time, error) {
			runtime.Goexit()
			return nil, nil
		},
		"an error alone": func(context.Context, []store.Lease) ([]time.Time, error) { return nil, refused },
	} {
		t.Run(name+" confirms nothing", func(t *testing.T) {
			shown, err := bounded.NewLooks(broken).Confirm(t.Context(), limit, two)
			assert.Equal(t, make([]time.Time, 2), shown)
			require.ErrorIs(t, err, store.ErrUnavailable)
		})
	}
	t.Run("CON-01 it returns at its limit, at the latest after 10 s", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			free := make(chan struct{})
			defer close(free)
			looks := bounded.NewLooks(silent(free, &atomic.Int64{}))
			for _, limit := range []time.Duration{time.Second, time.Minute} {
				start := time.Now()
				shown, err := looks.Confirm(t.Context(), limit, two)
				assert.Equal(t, min(limit, bounded.MaxLook), time.Since(start))
				assert.Len(t, shown, 2)
				require.ErrorIs(t, err, bounded.ErrAbandoned)
				require.ErrorIs(t, err, store.ErrUnavailable)
			}
		})
	})
	t.Run("REP-06 it returns when its caller leaves", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			free := make(chan struct{})
			defer close(free)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			start := time.Now()
			_, err := bounded.NewLooks(silent(free, &atomic.Int64{})).Confirm(ctx, limit, two)
			assert.LessOrEqual(t, time.Since(start), 250*time.Millisecond)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
	})
	t.Run("CON-01 stuck looks do not grow", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			free := make(chan struct{})
			defer close(free)
			var started atomic.Int64
			looks := bounded.NewLooks(silent(free, &started))
			for range 2 * bounded.Most {
				_, err := looks.Confirm(t.Context(), limit, two)
				require.ErrorIs(t, err, store.ErrUnavailable)
			}
			assert.EqualValues(t, bounded.Most, started.Load())
		})
	})
}
