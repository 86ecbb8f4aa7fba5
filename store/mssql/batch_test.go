package mssql_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/mssql"
)

// fullBatch is a store that holds as many leases as a batch can have claims for, which are renewed for a second: the
// server waits 50 ms for a lock then.
type fullBatch struct {
	*mssql.Store
	sim    *mssqlsim.Server
	claims []store.Claim
}

func newFullBatch(t *testing.T, dotnet bool) *fullBatch {
	t.Helper()
	b := &fullBatch{sim: server(t)}
	stopped := time.Now()
	b.sim.Node.SetClock(func() time.Time { return stopped }) // nothing expires, however slow the machine is
	if dotnet {
		exec(t, database(t, b.sim), dotnetTable)
	}
	b.Store = ready(t, b.sim)
	sweep := b.sim.Wire.Inject(tds.Fault{Match: tds.Match{SQL: "@expired"}, Place: tds.AtReply})
	for n := range store.MaxBatch {
		c := claim(fmt.Sprintf("job %03d", n), time.Second)
		grant(t, b, c)
		b.claims = append(b.claims, c)
	}
	require.NoError(t, sweep.Reached(t.Context(), 1)) // there is no other while this test counts round trips
	_, err := b.Renew(t.Context(), b.claims[:2])      // it knows the collation from here on
	require.NoError(t, err)
	return b
}

// lock has another session lock every third row, so many of them. The locks go with what it returns.
func (b *fullBatch) lock(t *testing.T, rows int) (unlock func()) {
	t.Helper()
	tx, err := database(t, b.sim).BeginTx(t.Context(), nil)
	require.NoError(t, err)
	for n := range rows {
		_, err := tx.ExecContext(t.Context(), "UPDATE lease.Leases SET Metadata = @p1 WHERE LeaseName = @p2", "locked", b.claims[3*n].Name)
		require.NoError(t, err)
	}
	return func() { require.NoError(t, tx.Rollback()) }
}

// trips are the round trips that a call takes.
func (b *fullBatch) trips(call func()) int64 {
	before := b.sim.Wire.Stats().Requests
	call()
	return b.sim.Wire.Stats().Requests - before
}

// TestLockedRows is rule S8: rows that somebody else has locked do not cost the others their answer.
func TestLockedRows(t *testing.T) {
	t.Parallel()
	for table, dotnet := range map[string]bool{"own table": false, "table of the .NET package": true} {
		t.Run(table, func(t *testing.T) {
			b := newFullBatch(t, dotnet)
			for _, test := range []struct{ locked, trips int }{
				{0, 1},
				{1, 1 + 1},           // asked alone
				{16, 1 + 16},         // all of them alone
				{17, 1 + 1 + 17},     // together first; one lock timeout for all; 8 and 9 alone
				{40, 1 + 1 + 2 + 40}, // together, then 20 and 20, then 10 times four
			} {
				t.Run(fmt.Sprintf("%d of %d rows are locked", test.locked, len(b.claims)), func(t *testing.T) {
					unlock := b.lock(t, test.locked)
					assert.EqualValues(t, test.trips, b.trips(func() {
						results, err := b.Renew(t.Context(), b.claims)
						require.NoError(t, err)
						for n, r := range results {
							if n%3 == 0 && n < 3*test.locked {
								oneClass(t, store.ErrUnavailable, r.Err)
								assert.ErrorIs(t, r.Err, store.ErrUnclear)
								assert.True(t, contended(r.Err))
								assert.Contains(t, numbers(r.Err), int32(1222))
								continue
							}
							require.NoError(t, r.Err, "%d", n)
							assert.Equal(t, b.claims[n].Name, r.Lease.Name)
							assert.Equal(t, b.claims[n].Owner, r.Lease.Owner)
						}
					}))
					unlock()
				})
			}

			t.Run("what is missing because it is gone is asked until the row itself says so", func(t *testing.T) {
				const gone = 20
				claims := slices.Clone(b.claims)
				for n := range gone {
					claims[7*n].Owner = store.NewOwner("somebody else")
				}
				assert.EqualValues(t, 1+1+gone, b.trips(func() {
					results, err := b.Renew(t.Context(), claims)
					require.NoError(t, err)
					for n, r := range results {
						if n%7 == 0 && n < 7*gone {
							oneClass(t, store.ErrLost, r.Err)
							assert.Equal(t, b.claims[n].Owner, r.Lease.Owner, "the row that is there")
						} else {
							require.NoError(t, r.Err)
						}
					}
				}))
			})

			t.Run("a limit that ends while locked rows are waited for costs only these", func(t *testing.T) {
				unlock := b.lock(t, 40)
				gate := b.sim.Node.Gate(engine.BeforeStatement, engine.Match{Contains: "UPDATE [lease]"}) // a renewal of one
				defer gate.Open()
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					<-gate.Arrived()
					cancel()
				}()
				results, err := b.Renew(ctx, b.claims)
				require.NoError(t, err)
				for n, r := range results {
					if n%3 == 0 && n < 3*40 {
						oneClass(t, store.ErrUnavailable, r.Err)
					} else {
						require.NoError(t, r.Err)
					}
				}
				gate.Open()
				unlock()
			})

			t.Run("what another session unlocks in time is renewed", func(t *testing.T) {
				unlock := b.lock(t, 1)
				one := b.sim.Node.Gate(engine.BeforeStatement, engine.Match{Contains: "UPDATE [lease]"}) // it was not in the batch's answer
				defer one.Open()
				go func() {
					<-one.Arrived()
					unlock()
					one.Open()
				}()
				results, err := b.Renew(t.Context(), b.claims)
				require.NoError(t, err)
				for _, r := range results {
					require.NoError(t, r.Err)
				}
			})

			t.Run("a release waits for locked rows in the same way", func(t *testing.T) {
				unlock := b.lock(t, 1)
				one := b.sim.Node.Gate(engine.BeforeStatement, engine.Match{Contains: "DELETE FROM [lease]"})
				defer one.Open()
				go func() {
					<-one.Arrived()
					unlock()
					one.Open()
				}()
				results, err := b.Release(t.Context(), b.claims)
				require.NoError(t, err)
				for _, r := range results {
					require.NoError(t, r.Err)
				}
				for row, err := range b.List(t.Context(), "") {
					require.NoError(t, err)
					assert.Fail(t, "a row is left", row.Name)
				}
			})
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
