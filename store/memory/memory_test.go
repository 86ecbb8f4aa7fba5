package memory_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/memory"
)

func claim(name string, ttl time.Duration) store.Claim {
	return store.Claim{Name: name, Owner: store.NewOwner("test"), TTL: ttl}
}

func acquire(t *testing.T, st *memory.Store, c store.Claim) store.Lease {
	t.Helper()
	l, err := st.Acquire(t.Context(), c)
	require.NoError(t, err)
	return l
}

// rows counts what is there, expired or not.
func rows(t *testing.T, st *memory.Store) int {
	t.Helper()
	n := 0
	for _, err := range st.List(t.Context(), "") {
		require.NoError(t, err)
		n++
	}
	return n
}

func TestZeroValue(t *testing.T) {
	var st memory.Store
	require.Zero(t, rows(t, &st))
	acquire(t, &st, claim("job", time.Minute))
	require.Equal(t, 1, rows(t, &st))
}

// What the suite leaves open, for other stores sweep when they like: an expired row stays in sight until the sweep.
func TestSweep(t *testing.T) {
	t.Run("every 30 s, with an acquire", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := memory.New()
			acquire(t, st, claim("holds", time.Hour))
			acquire(t, st, claim("expires", time.Second))
			time.Sleep(29 * time.Second)
			acquire(t, st, claim("early", time.Hour))
			l, err := st.Get(t.Context(), "expires")
			require.NoError(t, err)
			require.Zero(t, l.Left)
			require.Equal(t, 3, rows(t, st))

			time.Sleep(time.Second)
			_, err = st.Renew(t.Context(), []store.Claim{claim("holds", time.Hour)})
			require.NoError(t, err)
			require.Equal(t, 3, rows(t, st), "nothing but an acquire sweeps")
			acquire(t, st, claim("in time", time.Hour))
			_, err = st.Get(t.Context(), "expires")
			require.ErrorIs(t, err, store.ErrNotFound)
			require.Equal(t, 3, rows(t, st), "live rows stay")
		})
	})

	t.Run("200 rows at a time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := memory.New()
			for i := range 450 {
				acquire(t, st, claim(fmt.Sprintf("job %d", i), time.Second))
			}
			holder := claim("holder", time.Hour)
			for _, left := range []int{250, 50, 0, 0} {
				time.Sleep(30 * time.Second)
				acquire(t, st, holder)
				require.Equal(t, left+1, rows(t, st))
			}
		})
	})

	t.Run("tokens grow over it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := memory.New()
			first := acquire(t, st, claim("job", time.Second))
			time.Sleep(time.Minute)
			acquire(t, st, claim("other", time.Second))
			require.Equal(t, 1, rows(t, st))
			require.Greater(t, acquire(t, st, claim("job", time.Second)).Version, first.Version)
		})
	})

	t.Run("no sooner for a step of the clock, nor later", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			st := memory.New()
			acquire(t, st, claim("job", time.Second))
			st.Step(time.Hour)
			acquire(t, st, claim("other", time.Hour))
			require.Equal(t, 2, rows(t, st))
			st.Step(-30 * time.Minute)
			time.Sleep(30 * time.Second)
			acquire(t, st, claim("third", time.Hour))
			require.Equal(t, 2, rows(t, st))
		})
	})
}

func TestStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		mine := claim("job", 30*time.Second)
		l := acquire(t, st, mine)
		require.Equal(t, time.Now().UTC(), l.Acquired)

		st.Step(10 * time.Second)
		st.Step(-time.Second)
		row, err := st.Get(t.Context(), "job")
		require.NoError(t, err)
		require.Equal(t, l.Expires, row.Expires)
		require.Equal(t, 21*time.Second, row.Left)

		st.Step(21 * time.Second)
		results, err := st.Renew(t.Context(), []store.Claim{mine})
		require.NoError(t, err)
		require.ErrorIs(t, results[0].Err, store.ErrLost)
		require.Equal(t, time.Now().UTC().Add(30*time.Second), acquire(t, st, claim("job", time.Second)).Acquired)
	})
}

// A loss says why, for the logs.
func TestLostSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New()
		mine, other := claim("mine", time.Second), claim("other", time.Hour)
		acquire(t, st, mine)
		acquire(t, st, other)
		time.Sleep(time.Second)
		results, err := st.Renew(t.Context(), []store.Claim{mine, claim("other", time.Second), claim("free", time.Second)})
		require.NoError(t, err)
		require.EqualError(t, results[0].Err, `lease lost: "mine" expired at 2000-01-01T00:00:01Z`)
		require.EqualError(t, results[1].Err, `lease lost: "other" belongs to `+other.Owner)
		require.EqualError(t, results[2].Err, `lease lost: nobody holds "free"`)
	})
}

// A context that ends while List is between two pages ends it there.
func TestListEndsWithItsContext(t *testing.T) {
	st := memory.New()
	for i := range 150 {
		acquire(t, st, claim(fmt.Sprintf("job %d", i), time.Hour))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for _, err := range st.List(ctx, "") {
		cancel()
		if err != nil {
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.ErrorIs(t, err, context.Canceled)
			break
		}
		n++
	}
	require.Equal(t, 100, n)
}
