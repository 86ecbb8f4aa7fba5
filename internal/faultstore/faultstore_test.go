package faultstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/faultstore"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/memory"
)

func TestFaults(t *testing.T) {
	claim := store.Claim{Name: "job", Owner: "a/1", TTL: time.Second}
	down := &store.UnavailableError{Op: "test", Unclear: true, Err: errors.New("down")}
	for _, tc := range []struct {
		name    string
		fault   faultstore.Fault
		fails   bool
		applied bool
	}{
		{"none", faultstore.Fault{}, false, true},
		{"before", faultstore.Fault{Ops: faultstore.Acquire, Fail: down}, true, false},
		{"after", faultstore.Fault{Ops: faultstore.All, Lose: down}, true, true},
		{"another operation", faultstore.Fault{Ops: faultstore.Renew, Fail: down}, false, true},
		{"another name", faultstore.Fault{Ops: faultstore.All, Name: "other", Fail: down}, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mem := memory.New()
			st := faultstore.Wrap(mem)
			st.Add(tc.fault)
			_, err := st.Acquire(t.Context(), claim)
			require.Equal(t, tc.fails, err != nil)
			_, err = mem.Get(t.Context(), "job")
			require.Equal(t, tc.applied, err == nil)
			if tc.fails {
				require.Equal(t, 1, st.Hits())
			} else {
				require.Zero(t, st.Hits())
			}
			require.Equal(t, 1, st.Calls(faultstore.All))
			require.Equal(t, 1, st.Claims(faultstore.Acquire, "job"))
		})
	}

	t.Run("a number of times", func(t *testing.T) {
		st := faultstore.Wrap(memory.New())
		st.Add(faultstore.Fault{Ops: faultstore.All, Times: 2, Fail: down})
		for n := range 4 {
			_, err := st.Acquire(t.Context(), claim)
			require.Equal(t, n < 2, err != nil)
		}
		require.Equal(t, 2, st.Hits())
	})

	t.Run("hangs until it is freed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			mem := memory.New()
			st := faultstore.Wrap(mem)
			st.Add(faultstore.Fault{Ops: faultstore.All, HangAfter: true})
			done := make(chan error, 1)
			go func() {
				_, err := st.Acquire(t.Context(), claim)
				done <- err
			}()
			synctest.Wait()
			require.Equal(t, 1, st.Blocked())
			_, err := mem.Get(t.Context(), "job")
			require.NoError(t, err, "executed")
			st.Free()
			require.NoError(t, <-done)
			require.Zero(t, st.Blocked())
		})
	})

	t.Run("executes late, though its context has ended", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			mem := memory.New()
			st := faultstore.Wrap(mem)
			st.Add(faultstore.Fault{Ops: faultstore.Acquire, HangBefore: true, Lose: down})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := st.Acquire(ctx, claim)
				done <- err
			}()
			synctest.Wait()
			cancel()
			synctest.Wait()
			require.Equal(t, 1, st.Blocked(), "it ignores its context")
			_, err := mem.Get(t.Context(), "job")
			require.ErrorIs(t, err, store.ErrNotFound, "not executed yet")
			st.Free()
			require.ErrorIs(t, <-done, store.ErrUnclear)
			_, err = mem.Get(t.Context(), "job")
			require.NoError(t, err, "executed")
		})
	})

	t.Run("a batch is struck for one of its names, after its delay", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := faultstore.Wrap(memory.New())
			st.Add(faultstore.Fault{Ops: faultstore.Renew | faultstore.Release, Name: "job", Delay: time.Minute})
			other := store.Claim{Name: "other", Owner: "a/1", TTL: time.Second}
			start := time.Now()
			_, err := st.Renew(t.Context(), []store.Claim{other})
			require.NoError(t, err)
			require.Zero(t, time.Since(start))
			_, err = st.Release(t.Context(), []store.Claim{other, claim})
			require.NoError(t, err)
			require.Equal(t, time.Minute, time.Since(start))
			require.Equal(t, 1, st.Hits())
			require.Equal(t, 1, st.Calls(faultstore.Renew))
			require.Equal(t, 2, st.Calls(faultstore.Renew|faultstore.Release))
		})
	})

	t.Run("panics, until it is cleared", func(t *testing.T) {
		st := faultstore.Wrap(memory.New())
		st.Add(faultstore.Fault{Ops: faultstore.All, Panic: true})
		require.Panics(t, func() { _, _ = st.Acquire(t.Context(), claim) })
		st.Clear()
		_, err := st.Acquire(t.Context(), claim)
		require.NoError(t, err)
	})

	t.Run("lets the store inside be found", func(t *testing.T) {
		mem := memory.New()
		found, ok := store.As[store.Inspector](faultstore.Wrap(mem))
		require.True(t, ok)
		require.Same(t, mem, found)
	})
}
