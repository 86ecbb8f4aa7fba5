package mssql_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/mssql"
)

// TestConfirmWithoutGroup is what can be said of replicas that are servers of their own; package mssqlsim's group is the
// subject of the chaos tests.
func TestConfirmWithoutGroup(t *testing.T) {
	primary, other := server(t), server(t)
	require.NoError(t, open(t, other).EnsureSchema(t.Context()))
	s, err := mssql.Open(primary.DSN(), mssql.Config{Replicas: []string{primary.DSN(), other.DSN()}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	require.NoError(t, s.EnsureSchema(t.Context()))
	require.True(t, s.Confirms())
	lease := grant(t, s, claim("job", time.Minute))
	look := func() (time.Time, error) {
		t.Helper()
		confirmed, err := s.Confirm(t.Context(), []store.Lease{lease})
		require.Len(t, confirmed, 1)
		return confirmed[0], err
	}

	t.Run("REP-07 the primary alone, or a database that can be written to, confirms nothing", func(t *testing.T) {
		confirmed, err := look()
		assert.ErrorIs(t, err, store.ErrUnavailable)
		assert.ErrorContains(t, err, "read-only")
		assert.Zero(t, confirmed)
	})

	t.Run("REP-07 a row of the same name and another owner confirms nothing", func(t *testing.T) {
		grant(t, open(t, other), claim("job", time.Hour))
		other.Node.SetState(engine.ReadOnly)
		confirmed, err := look()
		assert.NoError(t, err)
		assert.Zero(t, confirmed)
	})

	t.Run("the earliest expiry counts", func(t *testing.T) {
		other.Node.SetState(engine.Online)
		c := store.Claim{Name: "second", Owner: store.NewOwner("test"), TTL: time.Minute}
		lease = grant(t, s, c)
		c.TTL = time.Second
		replicated := grant(t, open(t, other), c)
		other.Node.SetState(engine.ReadOnly)
		confirmed, err := look()
		assert.NoError(t, err)
		assert.Equal(t, replicated.Expires, confirmed)
	})

	t.Run("REP-07 a replica that does not answer is named", func(t *testing.T) {
		other.Close()
		confirmed, err := look()
		assert.ErrorIs(t, err, store.ErrUnavailable)
		assert.ErrorContains(t, err, "replica 127.0.0.1")
		assert.Zero(t, confirmed)
	})
}
