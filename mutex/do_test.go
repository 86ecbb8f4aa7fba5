package mutex

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/faultstore"
	"github.com/aaravsoft/leasehold/store"
)

// TestDo is the table "what Do returns" of docs/design.md.
func TestDo(t *testing.T) {
	errBiz := errors.New("business")
	lose := func(r *rig) {
		_, err := r.mem.Release(context.Background(), []store.Claim{{Name: "job", Owner: r.owner("job")}})
		require.NoError(r.t, err)
	}
	breakRelease := func(r *rig) { r.faults.Add(faultstore.Fault{Ops: faultstore.Release, Fail: downError(errDown)}) }

	for _, tc := range []struct {
		name string
		work func(ctx context.Context, r *rig) error
		is   []error
		not  []error
	}{
		{name: "fine", work: func(context.Context, *rig) error { return nil }},
		{name: "fine, release unconfirmed", work: func(_ context.Context, r *rig) error {
			breakRelease(r)
			return nil
		}},
		{name: "fine, but lost before the end", work: func(ctx context.Context, r *rig) error {
			lose(r)
			<-ctx.Done()
			return nil
		}, is: []error{ErrLost}},
		{name: "fine, but the release says not yours", work: func(_ context.Context, r *rig) error {
			lose(r)
			return nil
		}, is: []error{ErrLost}},
		{name: "REL-05 failed", work: func(context.Context, *rig) error { return errBiz }, is: []error{errBiz}, not: []error{ErrUnavailable, ErrLost}},
		{name: "REL-05 failed, and so did the release", work: func(_ context.Context, r *rig) error {
			breakRelease(r)
			return errBiz
		}, is: []error{errBiz, ErrUnavailable}, not: []error{ErrLost}},
		{name: "failed and lost", work: func(ctx context.Context, r *rig) error {
			lose(r)
			<-ctx.Done()
			return errBiz
		}, is: []error{errBiz, ErrLost}},
		{name: "lost, and stopped by it", work: func(ctx context.Context, r *rig) error {
			lose(r)
			<-ctx.Done()
			return fmt.Errorf("query: %w", ctx.Err())
		}, is: []error{ErrLost}, not: []error{context.Canceled}},
	} {
		bubble(t, tc.name, func(t *testing.T) {
			r := newRig(t)
			c := r.client(three())
			err := c.Do(t.Context(), "job", func(ctx context.Context) error { return tc.work(ctx, r) })
			if len(tc.is) == 0 {
				require.NoError(t, err)
			}
			for _, want := range tc.is {
				require.ErrorIs(t, err, want)
			}
			for _, not := range tc.not {
				require.NotErrorIs(t, err, not)
			}
		})
	}

	bubble(t, "the context ended, and the work drained well", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.NoError(t, c.Do(ctx, "job", func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(2 * time.Second) // under protection: Drain is one TTL
			return nil
		}))
	})

	bubble(t, "REL-06 a panic goes on, and the lock is free", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		require.PanicsWithValue(t, "boom", func() {
			_ = c.Do(t.Context(), "boom", func(context.Context) error { panic("boom") })
		})
		_, found := r.row("boom")
		require.False(t, found)
	})

	bubble(t, "REL-06 Goexit releases", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = c.Do(context.Background(), "boom", func(context.Context) error { runtime.Goexit(); return nil })
		}()
		<-done
		_, found := r.row("boom")
		require.False(t, found)
	})

	bubble(t, "the lock is refused", func(t *testing.T) {
		r := newRig(t)
		g := mustLock(t, r.client(three()), "job")
		defer g.Unlock()
		ran := false
		err := r.client(three()).Do(t.Context(), "job", func(context.Context) error { ran = true; return nil }, WithWait(0))
		require.ErrorIs(t, err, ErrHeld)
		require.False(t, ran)
	})

	bubble(t, "CFG-03 no function", func(t *testing.T) {
		require.ErrorIs(t, newRig(t).client(three()).Do(t.Context(), "job", nil), ErrInvalid)
	})
}

func TestDefault(t *testing.T) {
	bubble(t, "without a default client", func(t *testing.T) {
		SetDefault(nil)
		_, err := Lock(t.Context(), "job")
		require.ErrorIs(t, err, ErrNoDefault)
		require.ErrorIs(t, err, ErrMisconfigured)
		_, err = TryLock(t.Context(), "job")
		require.ErrorIs(t, err, ErrNoDefault)
		require.ErrorIs(t, Do(t.Context(), "job", func(context.Context) error { return nil }), ErrNoDefault)
	})
	bubble(t, "with one", func(t *testing.T) {
		r := newRig(t)
		SetDefault(r.client(three()))
		defer SetDefault(nil)
		require.NoError(t, Do(t.Context(), "job", func(ctx context.Context) error {
			g, ok := FromContext(ctx, "job")
			require.True(t, ok)
			require.NoError(t, g.Err())
			_, err := TryLock(t.Context(), "job")
			require.ErrorIs(t, err, ErrHeld)
			return nil
		}))
		g, err := Lock(t.Context(), "job")
		require.NoError(t, err)
		require.NoError(t, g.Unlock())
	})
}
