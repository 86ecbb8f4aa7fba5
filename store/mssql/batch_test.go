package mssql_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

// TestLockedRows is rule S8: rows that somebody else has locked do not cost the others their answer.
func TestLockedRows(t *testing.T) {
	t.Parallel()
	for _, locked := range []int{1, 10, 40} {
		t.Run(fmt.Sprintf("%d of 120 rows are locked", locked), func(t *testing.T) {
			t.Parallel()
			sim := server(t)
			st := ready(t, sim)
			claims := make([]store.Claim, 120)
			for n := range claims {
				claims[n] = claim(fmt.Sprintf("job %03d", n), time.Second) // a lock timeout of 50 ms
				claims[n].TTL = time.Hour
				grant(t, st, claims[n])
				claims[n].TTL = time.Second
			}
			tx, err := database(t, sim).BeginTx(t.Context(), nil)
			require.NoError(t, err)
			for n := range locked {
				_, err := tx.ExecContext(t.Context(), "UPDATE lease.Leases SET Metadata = @p1 WHERE LeaseName = @p2", "locked", claims[3*n].Name)
				require.NoError(t, err)
			}
			check := func(results []store.Result, err error) {
				t.Helper()
				require.NoError(t, err)
				for n, r := range results {
					if n%3 == 0 && n < 3*locked {
						assert.ErrorIs(t, r.Err, store.ErrUnavailable, "%d", n)
						assert.Contains(t, numbers(r.Err), int32(1222))
					} else {
						assert.NoError(t, r.Err, "%d", n)
						assert.Equal(t, claims[n].Owner, r.Lease.Owner)
					}
				}
			}
			before := sim.Wire.Stats().Requests
			results, err := st.Renew(t.Context(), claims)
			check(results, err)
			t.Logf("%d round trips", sim.Wire.Stats().Requests-before)
			require.NoError(t, tx.Rollback())
			results, err = st.Release(t.Context(), claims)
			require.NoError(t, err)
			for _, r := range results {
				require.NoError(t, r.Err)
			}
		})
	}
}

// TestCollationChanges has the table replaced by one with another collation while a store uses it.
func TestCollationChanges(t *testing.T) {
	t.Parallel()
	sim := server(t)
	st := ready(t, sim)
	db := database(t, sim)
	both := func() error {
		c, d := claim("job", time.Hour), claim("other", time.Hour)
		grant(t, st, c)
		grant(t, st, d)
		results, err := st.Renew(t.Context(), []store.Claim{c, d})
		for _, r := range results {
			assert.NoError(t, r.Err)
		}
		_, _ = st.Release(t.Context(), []store.Claim{c})
		_, _ = st.Release(t.Context(), []store.Claim{d})
		return err
	}
	require.NoError(t, both())
	exec(t, db, "DROP TABLE lease.Leases")
	exec(t, db, dotnetTable)
	assert.ErrorIs(t, both(), store.ErrMisconfigured, "once")
	assert.NoError(t, both(), "then it knows")
}
