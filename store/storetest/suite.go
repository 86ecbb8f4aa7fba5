package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

// suite is one running case: its test, its store, and the calls on it that must not fail.
type suite struct {
	*testing.T
	h  Harness
	st store.Store
}

// long is a TTL that no case lives to see the end of.
const long = time.Hour

// claim is one of a new owner.
func claim(name string, ttl time.Duration) store.Claim {
	return store.Claim{Name: name, Owner: store.NewOwner("storetest"), TTL: ttl}
}

// grant acquires a name that is free.
func (s *suite) grant(c store.Claim) store.Lease {
	s.Helper()
	lease, err := s.st.Acquire(s.Context(), c)
	require.NoError(s, err, "rule S1: Acquire grants a claim if the name has no row, or its row has expired, or is the claim's own")
	return lease
}
