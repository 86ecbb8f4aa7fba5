package sqlite

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

// fakeClock is a machine whose clocks stand still unless a test moves them.
type fakeClock struct {
	mu  sync.Mutex
	now reading
}

func newFakeClock(bootID string) *fakeClock {
	return &fakeClock{now: reading{wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano(), boot: int64(time.Hour), bootID: bootID}}
}

func (c *fakeClock) read() reading {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// pass lets time pass.
func (c *fakeClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.add(d)
}

// step is somebody setting the wall clock.
func (c *fakeClock) step(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.wall += int64(d)
}

// reboot starts the boot clock again.
func (c *fakeClock) reboot(bootID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.boot, c.now.bootID = int64(time.Second), bootID
}

func newPath(t *testing.T) string { return filepath.Join(t.TempDir(), "leases.db") }

func openStore(t *testing.T, path string, clock clock) *Store {
	t.Helper()
	s, err := open(path, clock)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func claim(name string, ttl time.Duration) store.Claim {
	return store.Claim{Name: name, Owner: store.NewOwner("test"), TTL: ttl}
}

func grant(t *testing.T, s *Store, c store.Claim) store.Lease {
	t.Helper()
	l, err := s.Acquire(t.Context(), c)
	require.NoError(t, err)
	return l
}
