package sqlite

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// names lists what is in the file.
func names(t *testing.T, s *Store) []string {
	t.Helper()
	var all []string
	for l, err := range s.List(t.Context(), "") {
		require.NoError(t, err)
		all = append(all, l.Name)
	}
	return all
}

// fill adds dead rows without an Acquire for each.
func fill(t *testing.T, s *Store, from, to int, expires reading) {
	t.Helper()
	require.NoError(t, s.write(t.Context(), "fill", func(tx *tx) error {
		for i := from; i < to; i++ {
			if err := tx.save(&row{name: fmt.Sprintf("dead %04d", i), owner: "x", expires: expires}); err != nil {
				return err
			}
		}
		return nil
	}))
}

func TestSweep(t *testing.T) {
	for _, boot := range []string{"", "a"} {
		t.Run("boot id "+boot, func(t *testing.T) {
			clock := newFakeClock(boot)
			s := openStore(t, newPath(t), clock.read)
			fill(t, s, 0, 3, clock.read())
			fill(t, s, 3, 5, reading{wall: clock.read().wall - 1, bootID: "earlier", boot: 1 << 60})
			fill(t, s, 9000, 9001, clock.read().add(time.Hour))

			grant(t, s, claim("one", time.Hour))
			assert.Equal(t, []string{"dead 9000", "one"}, names(t, s), "the first acquire sweeps; what is live stays")

			fill(t, s, 0, 2*sweepMost+1, clock.read())
			clock.pass(sweepEvery - 1)
			grant(t, s, claim("two", time.Hour))
			assert.Len(t, names(t, s), 2*sweepMost+4, "not before its time")
			clock.pass(1)
			grant(t, s, claim("three", time.Hour))
			assert.Len(t, names(t, s), sweepMost+5, "not more than its share")
			clock.pass(sweepEvery)
			_, err := s.Acquire(t.Context(), claim("three", time.Hour))
			assert.Error(t, err, "a refused acquire sweeps, too")
			assert.Len(t, names(t, s), 5)
		})
	}
}

// TestSweepLooksAgain has the clock go back between the two looks at a row, which is what a renewal in between does to
// it.
func TestSweepLooksAgain(t *testing.T) {
	clock := newFakeClock("")
	var steps []time.Duration // before each reading
	s := openStore(t, newPath(t), func() reading {
		if len(steps) > 0 {
			clock.step(steps[0])
			steps = steps[1:]
		}
		return clock.read()
	})
	fill(t, s, 0, 1, clock.read().add(time.Minute))
	steps = []time.Duration{0, time.Hour, -time.Hour} // the acquire; the sweep's list; its transaction
	grant(t, s, claim("job", time.Hour))
	require.Empty(t, steps)
	assert.Equal(t, []string{"dead 0000", "job"}, names(t, s))
}

// TestSweepThatFails has another process take the file just before the sweep wants it.
func TestSweepThatFails(t *testing.T) {
	clock := newFakeClock("a")
	path := newPath(t)
	var readings int
	var blocker *conn
	s := openStore(t, path, func() reading {
		if readings++; readings == 2 && blocker != nil {
			assert.NoError(t, run(blocker.begin))
		}
		return clock.read()
	})
	other := openStore(t, path, clock.read)
	fill(t, s, 0, 1, clock.read())
	readings, blocker = 0, other.conn

	grant(t, s, claim("job", time.Hour))
	require.NoError(t, run(blocker.rollback), "the sweep met the other process")
	assert.False(t, s.conn.broken)
	all := names(t, s)
	slices.Sort(all)
	assert.Equal(t, []string{"dead 0000", "job"}, all)
}
