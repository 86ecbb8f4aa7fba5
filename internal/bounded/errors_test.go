package bounded_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/bounded"
	"github.com/aaravsoft/leasehold/store"
)

var errEngine = &net.AddrError{Err: "the engine's own"}

func classes(err error) (found []error) {
	for _, class := range []error{
		store.ErrHeld, store.ErrLost, store.ErrUnavailable, store.ErrInvalid, store.ErrMisconfigured, store.ErrNotFound,
	} {
		if errors.Is(err, class) {
			found = append(found, class)
		}
	}
	return found
}

func TestStoreThatBreaksTheContract(t *testing.T) {
	none := func(context.Context, []store.Claim) ([]store.Result, error) { return nil, nil }
	fails := func(err error) *fake {
		return &fake{acquire: func(context.Context, store.Claim) (store.Lease, error) { return store.Lease{}, err }}
	}
	for name, tt := range map[string]struct {
		st   *fake
		kind string
	}{
		"REN-02 panic":            {&fake{renew: func(context.Context, []store.Claim) ([]store.Result, error) { panic("at the disco") }}, "renew"},
		"REN-02 panic of acquire": {&fake{acquire: func(context.Context, store.Claim) (store.Lease, error) { panic(io.EOF) }}, "acquire"},
		"Goexit":                  {&fake{acquire: func(context.Context, store.Claim) (store.Lease, error) { runtime.Goexit(); panic(0) }}, "acquire"},
		"no results":              {&fake{renew: none}, "renew"},
		"no results of a release": {&fake{release: none}, "release"},
		"too many results": {&fake{renew: func(context.Context, []store.Claim) ([]store.Result, error) {
			return make([]store.Result, 2), nil
		}}, "renew"},
		"no class":                      {fails(errEngine), "acquire"},
		"a context's error, unprovoked": {fails(context.Canceled), "acquire"},
		"two classes":                   {fails(&store.UnavailableError{Unclear: true, Err: &store.HeldError{}}), "acquire"},
	} {
		t.Run(name, func(t *testing.T) {
			err := kinds[tt.kind](bounded.New(tt.st), t.Context(), limit, func(error) { t.Error("late") })
			assert.Equal(t, []error{store.ErrUnavailable}, classes(err))
			require.ErrorIs(t, err, store.ErrUnclear)
			require.NotErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, bounded.ErrAbandoned)
		})
	}
	t.Run("the panic is told", func(t *testing.T) {
		err := kinds["acquire"](bounded.New(&fake{}), t.Context(), limit, nil)
		p, ok := errors.AsType[*bounded.PanicError](err)
		require.True(t, ok)
		assert.ErrorContains(t, p.Value.(error), "nil pointer")
		assert.Contains(t, string(p.Stack), "bounded_test.(*fake).Acquire")
	})
	t.Run("what has no class stays reachable", func(t *testing.T) {
		err := kinds["acquire"](bounded.New(fails(fmt.Errorf("x: %w", errEngine))), t.Context(), limit, nil)
		require.ErrorIs(t, err, errEngine)
		addr, ok := errors.AsType[*net.AddrError](err)
		require.True(t, ok)
		assert.Same(t, errEngine, addr)
	})
	t.Run("an error of one claim", func(t *testing.T) {
		st := &fake{renew: func(context.Context, []store.Claim) ([]store.Result, error) {
			return []store.Result{{Err: errEngine}, {}, {Err: store.ErrLost}}, nil
		}}
		results, err := bounded.New(st).Renew(t.Context(), limit, make([]store.Claim, 3), nil)
		require.NoError(t, err)
		assert.Equal(t, []error{store.ErrUnavailable}, classes(results[0].Err))
		require.ErrorIs(t, results[0].Err, errEngine)
		require.NoError(t, results[1].Err)
		assert.Equal(t, store.ErrLost, results[2].Err)
	})
}

// Errors with one class, and without a context's error, are none of our business.
func TestErrorsThatPassUntouched(t *testing.T) {
	for _, want := range []error{
		&store.HeldError{Lease: store.Lease{Name: "job"}},
		fmt.Errorf("%w: gone", store.ErrLost),
		fmt.Errorf("%w name", store.ErrInvalid),
		&store.MisconfiguredError{Remedy: "create the table"},
		&store.UnavailableError{Op: "acquire", Err: errEngine},
		&store.UnavailableError{Op: "acquire", Unclear: true, Err: errEngine},
	} {
		t.Run(want.Error(), func(t *testing.T) {
			st := &fake{acquire: func(context.Context, store.Claim) (store.Lease, error) { return store.Lease{}, want }}
			_, err := bounded.New(st).Acquire(t.Context(), limit, claim, nil)
			assert.Same(t, want, err)
		})
	}
}
