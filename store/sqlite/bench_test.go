package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

func benchStore(b *testing.B) *Store {
	b.Helper()
	s, err := Open(filepath.Join(b.TempDir(), "leases.db"))
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	return s
}

// BenchmarkAcquireRelease runs on a RAM disk where there is one (see useMemory): what is measured is all but the disk.
func BenchmarkAcquireRelease(b *testing.B) {
	s := benchStore(b)
	claims := []store.Claim{claim("job", time.Minute)}
	for b.Loop() {
		_, err := s.Acquire(b.Context(), claims[0])
		require.NoError(b, err)
		_, err = s.Release(b.Context(), claims)
		require.NoError(b, err)
	}
}

func BenchmarkRefused(b *testing.B) {
	s := benchStore(b)
	_, err := s.Acquire(b.Context(), claim("job", time.Hour))
	require.NoError(b, err)
	c := claim("job", time.Minute)
	for b.Loop() {
		_, err := s.Acquire(b.Context(), c)
		require.ErrorIs(b, err, store.ErrHeld)
	}
}

func BenchmarkRenewBatch(b *testing.B) {
	s := benchStore(b)
	var claims []store.Claim
	for range store.MaxBatch {
		c := claim(store.NewOwner("job"), time.Hour)
		_, err := s.Acquire(b.Context(), c)
		require.NoError(b, err)
		claims = append(claims, c)
	}
	for b.Loop() {
		_, err := s.Renew(b.Context(), claims)
		require.NoError(b, err)
	}
}

func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "leases.db")
	for b.Loop() {
		s, err := Open(path)
		require.NoError(b, err)
		require.NoError(b, s.Close())
	}
}
