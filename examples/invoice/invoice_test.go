package invoice_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/examples/invoice"
	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store/memory"
)

func TestRun(t *testing.T) {
	t.Run("sends everything and gives the lock back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			locks, err := mutex.New(memory.New(), mutex.Config{})
			require.NoError(t, err)
			b := invoice.Batch{Locks: locks, Send: func(context.Context, int) error {
				time.Sleep(time.Minute) // longer than a lease: the heartbeat keeps it
				return nil
			}}
			sent, err := b.Run(t.Context(), "acme", 3)
			require.NoError(t, err)
			require.Equal(t, 3, sent)

			guard, err := locks.TryLock(t.Context(), "invoices/acme")
			require.NoError(t, err)
			require.NoError(t, guard.Unlock())
		})
	})

	t.Run("stops when the lock is lost", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := memory.New()
			locks, err := mutex.New(st, mutex.Config{})
			require.NoError(t, err)
			b := invoice.Batch{Locks: locks, Send: func(ctx context.Context, number int) error {
				if number == 2 {
					st.Step(time.Hour) // the database fails over to a node whose clock is far ahead
					<-ctx.Done()       // the next renewal finds out
				}
				return nil
			}}
			sent, err := b.Run(t.Context(), "acme", 3)
			require.ErrorIs(t, err, mutex.ErrLost)
			require.Equal(t, 2, sent)
		})
	})

	t.Run("says so when somebody else is at it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := memory.New()
			other, err := mutex.New(st, mutex.Config{Instance: "other"})
			require.NoError(t, err)
			guard, err := other.Lock(t.Context(), "invoices/acme")
			require.NoError(t, err)
			defer guard.Unlock()

			locks, err := mutex.New(st, mutex.Config{})
			require.NoError(t, err)
			b := invoice.Batch{Locks: locks}
			_, err = b.Run(t.Context(), "acme", 1)
			require.ErrorIs(t, err, mutex.ErrHeld)
		})
	})
}
