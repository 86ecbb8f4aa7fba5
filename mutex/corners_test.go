package mutex

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/faultstore"
)

// TestNestedOverClients has two clients of one process: what the one holds, the other must not wait for on its behalf.
func TestNestedOverClients(t *testing.T) {
	bubble(t, "behind a waiter that has been refused already", func(t *testing.T) {
		r := newRig(t)
		a, b := r.client(three()), r.client(three())
		g := mustLock(t, a, "job")
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := b.Lock(t.Context(), "job", WithWait(20*time.Second))
			assert.ErrorIs(t, err, ErrHeld)
		})
		time.Sleep(2 * time.Second)
		start := time.Now()
		_, err := b.TryLock(g.Context(), "job")
		require.ErrorIs(t, err, ErrNested)
		_, err = b.Lock(g.Context(), "job")
		require.ErrorIs(t, err, ErrNested)
		assert.Zero(t, time.Since(start), "at once")
		wg.Wait()
		require.NoError(t, g.Unlock())
	})

	bubble(t, "behind a waiter that is refused later", func(t *testing.T) {
		r := newRig(t)
		a, b := r.client(three()), r.client(three())
		g := mustLock(t, a, "job")
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Times: 1, Delay: 500 * time.Millisecond})
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := b.Lock(t.Context(), "job", WithWait(20*time.Second))
			assert.ErrorIs(t, err, ErrHeld)
		})
		time.Sleep(100 * time.Millisecond)
		start := time.Now()
		_, err := b.Lock(g.Context(), "job")
		require.ErrorIs(t, err, ErrNested)
		assert.Equal(t, 400*time.Millisecond, time.Since(start), "with the refusal")
		wg.Wait()
		require.NoError(t, g.Unlock())
	})
}

// TestCleanUpsHaveTheirOwnPlaces is rule 14: neither acquisitions nor what they leave behind cost a lock that is held.
func TestCleanUpsHaveTheirOwnPlaces(t *testing.T) {
	bubble(t, "twenty acquisitions hang, and their clean-ups", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		g := mustLock(t, c, "good")
		for i := range 20 {
			r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire | faultstore.Release, Name: fmt.Sprint("x", i), HangBefore: true})
		}
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				_, err := c.Lock(t.Context(), fmt.Sprint("x", i), WithWait(time.Second))
				assert.ErrorIs(t, err, ErrUnavailable)
			})
		}
		wg.Wait()
		time.Sleep(20 * time.Second)
		require.NoError(t, g.Err())
		require.NoError(t, g.Unlock())
	})
}

// TestDeadConnections is rule 12: two that are dead do not cost a lock whose store is well.
func TestDeadConnections(t *testing.T) {
	bubble(t, "REN-01 two renewals hang for ever, later ones are answered", func(t *testing.T) {
		r := newRig(t)
		c := r.client(Config{})
		g := mustLock(t, c, "job")
		r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, Times: 2, HangBefore: true})
		time.Sleep(time.Minute)
		require.NoError(t, g.Err())
		require.NoError(t, g.Unlock())
	})
}

func TestWaitOver(t *testing.T) {
	bubble(t, "the end of WithWait is not the end of the caller's context", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, HangBefore: true})
		_, err := c.Lock(t.Context(), "job", WithWait(300*time.Millisecond))
		require.ErrorIs(t, err, ErrUnavailable)
		assert.NotErrorIs(t, err, context.Canceled)
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
	})

	bubble(t, "the end of WithParent's context ends the wait", func(t *testing.T) {
		r := newRig(t)
		a, b := r.client(three()), r.client(three())
		g := mustLock(t, a, "job")
		parent, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := b.Lock(t.Context(), "job", WithParent(parent))
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, ErrHeld)
		assert.Equal(t, time.Second, r.at())
		require.NoError(t, g.Unlock())
	})
}

func TestDoKeepsWhatTheWorkSays(t *testing.T) {
	lost := func(t *testing.T, work func(ctx context.Context) error) error {
		r := newRig(t)
		c := r.client(three())
		return c.Do(t.Context(), "job", func(ctx context.Context) error {
			r.outage(errors.New("down"))
			<-ctx.Done()
			return work(ctx)
		})
	}
	bubble(t, "joined with the loss", func(t *testing.T) {
		disk := errors.New("half written")
		err := lost(t, func(ctx context.Context) error { return errors.Join(disk, context.Cause(ctx)) })
		require.ErrorIs(t, err, ErrLost)
		require.ErrorIs(t, err, disk)
	})
	bubble(t, "around the loss of another lock", func(t *testing.T) {
		err := lost(t, func(context.Context) error { return fmt.Errorf("row 17 of 30: %w", &LostError{Name: "other"}) })
		require.ErrorIs(t, err, ErrLost)
		require.ErrorContains(t, err, "row 17")
	})
	bubble(t, "not if it is the cause of its own context", func(t *testing.T) {
		err := lost(t, context.Cause)
		own, ok := err.(*LostError) //nolint:errorlint // the loss itself, and nothing around it
		require.True(t, ok, "%v", err)
		assert.Equal(t, "job", own.Name)
	})
}

func TestBreakBeforeUnlock(t *testing.T) {
	bubble(t, "CLI-10 an unclear release of a broken lock is a loss", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		g := mustLock(t, c, "job")
		_, err := r.mem.Break(t.Context(), "job", g.Owner())
		require.NoError(t, err)
		r.faults.Add(faultstore.Fault{Ops: faultstore.Release, Times: 1, Fail: unclearError(errors.New("reset"))})
		require.ErrorIs(t, g.Unlock(), ErrLost)
	})
}

// contentionError is a deadlock's victim, for example.
type contentionError struct{ error }

func (contentionError) Contention() bool { return true }

func TestContentionIsQuiet(t *testing.T) {
	bubble(t, "OBS-02 a renewal that somebody was in the way of", func(t *testing.T) {
		r := newRig(t)
		var log strings.Builder // written by one goroutine at a time
		cfg := three()
		cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))
		c := r.client(cfg)
		g := mustLock(t, c, "job")
		r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, Times: 1, Fail: unclearError(contentionError{errors.New("deadlock victim")})})
		time.Sleep(2 * time.Second)
		require.NoError(t, g.Unlock())
		require.NoError(t, c.Close(t.Context()))
		assert.Empty(t, log.String())
	})
}
