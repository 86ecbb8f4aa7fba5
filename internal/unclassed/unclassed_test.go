package unclassed_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/unclassed"
	"github.com/aaravsoft/leasehold/store"
)

func TestError(t *testing.T) {
	engine := &net.OpError{Op: "read", Err: io.EOF}
	for _, inner := range []error{
		&store.UnavailableError{Op: "renew", Unclear: true, Err: engine},
		&store.MisconfiguredError{Remedy: "grant it", Err: engine},
		fmt.Errorf("%w: %w", store.ErrLost, engine),
		fmt.Errorf("deep: %w", &store.UnavailableError{Err: engine}),
	} {
		err := unclassed.Error(inner)
		require.Equal(t, inner.Error(), err.Error())
		for _, class := range []error{store.ErrHeld, store.ErrLost, store.ErrUnavailable, store.ErrUnclear, store.ErrInvalid, store.ErrMisconfigured, store.ErrNotFound} {
			require.NotErrorIs(t, err, class)
		}
		require.ErrorIs(t, err, io.EOF)
		var op *net.OpError
		require.ErrorAs(t, err, &op)
		require.Same(t, engine, op)
		var unavailable *store.UnavailableError
		require.False(t, errors.As(err, &unavailable))
		require.Nil(t, unavailable)
	}
	require.NoError(t, unclassed.Error(nil))
	require.Same(t, io.EOF, unclassed.Error(io.EOF))
}

func TestEnded(t *testing.T) {
	signal := errors.New("terminated")
	for name, tc := range map[string]struct {
		err, cause error
		is         []error
	}{
		"no cause":           {context.Canceled, nil, []error{context.Canceled}},
		"itself":             {context.Canceled, context.Canceled, []error{context.Canceled}},
		"a signal":           {context.Canceled, signal, []error{context.Canceled, signal}},
		"wraps it":           {context.DeadlineExceeded, fmt.Errorf("late: %w", context.DeadlineExceeded), []error{context.DeadlineExceeded}},
		"a loss further out": {context.Canceled, &store.UnavailableError{Err: io.EOF}, []error{context.Canceled, io.EOF}},
	} {
		t.Run(name, func(t *testing.T) {
			err := unclassed.Ended(tc.err, tc.cause)
			for _, want := range tc.is {
				require.ErrorIs(t, err, want)
			}
			require.NotErrorIs(t, err, store.ErrUnavailable)
		})
	}
}
