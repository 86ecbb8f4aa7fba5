package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

func TestLostError(t *testing.T) {
	engine := error(&net.OpError{Op: "read", Net: "tcp", Err: errors.New("reset")})
	for _, inner := range []error{
		&store.UnavailableError{Op: "renew", Unclear: true, Err: engine},
		&store.MisconfiguredError{Remedy: "grant it", Err: engine},
		fmt.Errorf("renewal: %w", &store.UnavailableError{Err: engine}),
		&store.UnavailableError{Err: &store.UnavailableError{Unclear: true, Err: engine}},
		&store.UnavailableError{Err: &store.MisconfiguredError{Err: engine}},
		errors.Join(&store.UnavailableError{Err: errors.New("eof")}, engine),
		fmt.Errorf("%w: %w", store.ErrLost, engine),
		fmt.Errorf("%w: %w", store.ErrInvalid, engine),
		engine,
	} {
		err := error(&LostError{Name: "job", Reason: Unconfirmed, Attempts: 3, Err: inner})
		require.ErrorIs(t, err, store.ErrLost)
		require.ErrorIs(t, err, engine, "the engine's own error stays reachable")
		for _, class := range []error{store.ErrUnavailable, store.ErrMisconfigured, store.ErrUnclear, store.ErrHeld, store.ErrInvalid} {
			require.NotErrorIs(t, err, class, "exactly one class")
		}
		require.Equal(t, 1, classesOf(err))
		_, ok := errors.AsType[*store.UnavailableError](err)
		require.False(t, ok, "nor what makes one")
		require.ErrorContains(t, err, "failed attempts since: 3")
		require.ErrorContains(t, err, "read tcp: reset")
		op, ok := errors.AsType[*net.OpError](err)
		require.True(t, ok)
		require.Same(t, engine, op)
	}
	require.NotErrorIs(t, &LostError{Name: "job", Reason: Gone}, context.Canceled)
	for r := Unconfirmed; r <= Abandoned; r++ {
		require.NotEqual(t, "unknown", r.String())
	}
	require.Equal(t, "unknown", Reason(0).String())
}

func TestCarried(t *testing.T) {
	bubble(t, "innermost first", func(t *testing.T) {
		outer := newRig(t, t.Context())
		inner := newRig(t, context.WithoutCancel(outer.g.Context()), func(p *Params) { p.Name = "inner" })
		again := newRig(t, inner.g.Context())
		var got []*Guard
		for g := range Carried(again.g.Context()) {
			got = append(got, g)
		}
		require.Equal(t, []*Guard{again.g, inner.g, outer.g}, got)
		g, ok := FromContext(inner.g.Context(), "job")
		require.True(t, ok)
		require.Same(t, outer.g, g)
		_, ok = FromContext(t.Context(), "job")
		require.False(t, ok)
	})
}
