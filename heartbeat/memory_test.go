package heartbeat_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/heartbeat"
	"github.com/aaravsoft/leasehold/internal/bounded"
	"github.com/aaravsoft/leasehold/internal/clock"
	"github.com/aaravsoft/leasehold/internal/faultstore"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/memory"
)

// onMemory runs a test in fake time, with one lease granted by the reference store.
func onMemory(t *testing.T, ttl time.Duration, test func(t *testing.T, st *faultstore.Store, rows *memory.Store, g *target)) {
	synctest.Test(t, func(t *testing.T) {
		rows := memory.New()
		st := faultstore.Wrap(rows)
		w := &world{t: t, clk: clock.System()}
		w.beat = heartbeat.New(bounded.New(st), w.clk)
		g, sent := w.newTarget("job", ttl), w.clk()
		_, err := st.Acquire(t.Context(), g.claim)
		require.NoError(t, err)
		w.beat.Add(g, ttl/3, sent)
		test(t, st, rows, g)
		st.Free()
		w.close()
	})
}

func TestOnTheReferenceStore(t *testing.T) {
	t.Run("SAF-02 the row is another's", func(t *testing.T) {
		onMemory(t, 30*time.Second, func(t *testing.T, st *faultstore.Store, rows *memory.Store, g *target) {
			time.Sleep(5 * time.Second)
			_, err := rows.Release(t.Context(), []store.Claim{g.claim})
			require.NoError(t, err)
			_, err = rows.Acquire(t.Context(), store.Claim{Name: "job", Owner: "other/x", TTL: time.Minute})
			require.NoError(t, err)
			before, err := rows.Get(t.Context(), "job")
			require.NoError(t, err)
			time.Sleep(6 * time.Second)
			require.Len(t, g.losses(), 1)
			assert.Equal(t, "other/x", g.losses()[0].Lease.Owner)
			time.Sleep(time.Minute - 7*time.Second)
			assert.Equal(t, 1, st.Calls(faultstore.Renew))
			after, err := rows.Get(t.Context(), "job")
			require.NoError(t, err)
			assert.Equal(t, before.Expires, after.Expires)
		})
	})

	t.Run("REN-07 a hundred renewals move the expiry and nothing else", func(t *testing.T) {
		onMemory(t, 3*time.Second, func(t *testing.T, _ *faultstore.Store, rows *memory.Store, g *target) {
			before, err := rows.Get(t.Context(), "job")
			require.NoError(t, err)
			time.Sleep(100 * time.Second)
			after, err := rows.Get(t.Context(), "job")
			require.NoError(t, err)
			assert.InDelta(t, 100, g.renewals(), 10)
			assert.Empty(t, g.failures())
			assert.Equal(t, before.Acquired, after.Acquired)
			assert.Greater(t, after.Expires.Sub(before.Expires), 98*time.Second)
		})
	})

	t.Run("REN-09 a renewal whose answer is lost is repeated", func(t *testing.T) {
		onMemory(t, 3*time.Second, func(t *testing.T, st *faultstore.Store, _ *memory.Store, g *target) {
			st.Add(faultstore.Fault{Ops: faultstore.Renew, Times: 1, Lose: unclear()})
			time.Sleep(10 * time.Second)
			assert.Equal(t, 1, st.Hits())
			assert.Len(t, g.failures(), 1)
			assert.Empty(t, g.losses())
			assert.True(t, g.live())
		})
	})

	t.Run("SAF-01 every call hangs, before or after it is executed", func(t *testing.T) {
		for _, fault := range []faultstore.Fault{{HangBefore: true}, {HangAfter: true}} {
			onMemory(t, 3*time.Second, func(t *testing.T, st *faultstore.Store, rows *memory.Store, g *target) {
				fault.Ops = faultstore.Renew
				st.Add(fault)
				time.Sleep(time.Hour)
				assert.False(t, g.live())
				assert.Equal(t, 4, st.Calls(faultstore.Renew), "one and its replacements")
				st.Clear()
				st.Free()
				synctest.Wait()
				if fault.HangBefore {
					assert.NotEmpty(t, g.losses(), "executed an hour late, it finds no live row")
				}
				row, err := rows.Get(t.Context(), "job")
				assert.True(t, err != nil || row.Left == 0, "and has revived none")
			})
		}
	})
}
