package sqlite

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

// blocked returns a store whose file another connection has, as a process that was stopped in the middle of a write
// would. It has it until the test calls the function.
func blocked(t *testing.T) (s *Store, unblock func()) {
	t.Helper()
	path := newPath(t)
	s, other := openStore(t, path, systemClock()), openStore(t, path, systemClock())
	require.NoError(t, run(other.conn.begin))
	unblock = sync.OnceFunc(func() { assert.NoError(t, run(other.conn.rollback)) })
	t.Cleanup(unblock)
	return s, unblock
}

// operations are all that can be done with a store.
func operations(name, owner string) map[string]func(ctx context.Context, s *Store) error {
	claims := []store.Claim{{Name: name, Owner: owner, TTL: time.Hour}}
	return map[string]func(ctx context.Context, s *Store) error{
		"acquire": func(ctx context.Context, s *Store) error { _, err := s.Acquire(ctx, claims[0]); return err },
		"renew":   func(ctx context.Context, s *Store) error { _, err := s.Renew(ctx, claims); return err },
		"release": func(ctx context.Context, s *Store) error { _, err := s.Release(ctx, claims); return err },
		"get":     func(ctx context.Context, s *Store) error { _, err := s.Get(ctx, name); return err },
		"break":   func(ctx context.Context, s *Store) error { _, err := s.Break(ctx, name, owner); return err },
		"list": func(ctx context.Context, s *Store) error {
			for _, err := range s.List(ctx, "") {
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func TestBusyFile(t *testing.T) {
	for op, call := range operations("job", store.NewOwner("test")) {
		t.Run(op, func(t *testing.T) {
			s, unblock := blocked(t)
			const limit = 250 * time.Millisecond // long enough to meet the other one, also on a busy machine
			began := time.Now()                  // before the limit begins to run
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := call(ctx, s)
			took := time.Since(began)
			if op == "get" || op == "list" {
				assert.NotErrorIs(t, err, store.ErrUnavailable, "readers do not wait for a writer")
				return
			}
			require.ErrorIs(t, err, store.ErrUnavailable)
			assert.NotErrorIs(t, err, store.ErrUnclear, "it waited for its first statement")
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.ErrorContains(t, err, "another program")
			assert.GreaterOrEqual(t, took, limit)
			assert.Less(t, took, 2*time.Second)

			unblock()
			if err := call(t.Context(), s); err != nil {
				assert.ErrorIs(t, err, store.ErrNotFound)
			}
		})
	}
}

func TestEndedContext(t *testing.T) {
	for op, call := range operations("job", store.NewOwner("test")) {
		t.Run(op, func(t *testing.T) {
			s := openStore(t, newPath(t), systemClock())
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			err := call(ctx, s)
			require.ErrorIs(t, err, store.ErrUnavailable)
			assert.NotErrorIs(t, err, store.ErrUnclear)
			assert.ErrorIs(t, err, context.Canceled)
			assert.Empty(t, names(t, s))
		})
	}
}

// TestWaitEndsSoon is about how soon a process notices that the file is free.
func TestWaitEndsSoon(t *testing.T) {
	const rounds = 20
	best := time.Hour
	for range rounds {
		s, unblock := blocked(t)
		done := make(chan time.Time)
		go func() {
			_, err := s.Acquire(t.Context(), claim("job", time.Hour))
			assert.NoError(t, err)
			done <- time.Now()
		}()
		time.Sleep(30 * time.Millisecond) // so long that the pauses have reached their greatest
		free := time.Now()
		unblock()
		best = min(best, (<-done).Sub(free))
	}
	assert.Less(t, best, 10*time.Millisecond, "at least once in %d times, for this machine may be busy", rounds)
}

// TestGiveWay is about the gap in which other processes get at the file. Without it, eight of them that work without a
// pause keep each other waiting for up to two seconds; with it, for some 50 ms.
func TestGiveWay(t *testing.T) {
	s := openStore(t, newPath(t), systemClock())
	s.met = time.Now().Add(time.Hour) // as if it met others all the time
	began := time.Now()
	for range 20 {
		c := claim("job", time.Hour)
		grant(t, s, c)
		require.NoError(t, release(t, s, c).Err)
	}
	assert.GreaterOrEqual(t, time.Since(began), 39*maxPause)
}

// TestWaitersOfOneProcess has a second call wait for the first, which waits for the file.
func TestWaitersOfOneProcess(t *testing.T) {
	s, unblock := blocked(t)
	first := make(chan error)
	go func() {
		_, err := s.Acquire(t.Context(), claim("job", time.Hour))
		first <- err
	}()
	require.Eventually(t, func() bool { return len(s.turn) == 0 }, 10*time.Second, time.Millisecond)

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := s.Get(ctx, "job")
	require.ErrorIs(t, err, store.ErrUnavailable)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	unblock()
	assert.NoError(t, <-first)
}

func TestOpenOfABusyFile(t *testing.T) {
	s, _ := blocked(t)
	third, err := Open(s.path)
	require.NoError(t, err, "nothing is written in a file that has its layout")
	require.NoError(t, third.Close())
}

func TestUseFromManyGoroutines(t *testing.T) {
	s := openStore(t, newPath(t), systemClock())
	var wait sync.WaitGroup
	for i := range 8 {
		for op, call := range operations("job", store.NewOwner("test")) {
			wait.Go(func() {
				for range 5 {
					err := call(t.Context(), s)
					for _, class := range []error{nil, store.ErrHeld, store.ErrNotFound} {
						if errors.Is(err, class) {
							return
						}
					}
					assert.NoError(t, err, "%s %d", op, i)
				}
			})
		}
	}
	wait.Wait()
}
