package sqlite

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

// ask is what a stranger is told about a name: how much is left of its lease, zero if it was granted.
func ask(t *testing.T, s *Store, name string) time.Duration {
	t.Helper()
	c := claim(name, time.Second)
	_, err := s.Acquire(t.Context(), c)
	if err == nil {
		release(t, s, c)
		return 0
	}
	held, ok := errors.AsType[*store.HeldError](err)
	require.True(t, ok, "%v", err)
	return held.Lease.Left
}

func release(t *testing.T, s *Store, c store.Claim) store.Result {
	t.Helper()
	results, err := s.Release(t.Context(), []store.Claim{c})
	require.NoError(t, err)
	return results[0]
}

func renew(t *testing.T, s *Store, c store.Claim) store.Result {
	t.Helper()
	results, err := s.Renew(t.Context(), []store.Claim{c})
	require.NoError(t, err)
	return results[0]
}

func TestWhichClockDecides(t *testing.T) {
	const ttl = 10 * time.Second
	for _, test := range []struct {
		name string
		boot string
		then func(c *fakeClock)
		left time.Duration
	}{
		{"CLK-05 step forward on one boot", "a", func(c *fakeClock) { c.step(time.Hour) }, ttl},
		{"CLK-05 step back on one boot", "a", func(c *fakeClock) { c.step(-time.Hour) }, ttl},
		{"steps do not hide the time", "a", func(c *fakeClock) { c.step(-time.Hour); c.pass(3 * time.Second) }, 7 * time.Second},
		{"expired on one boot, wall clock set back", "a", func(c *fakeClock) { c.step(-time.Hour); c.pass(ttl) }, 0},
		{"another boot: the wall clock", "a", func(c *fakeClock) { c.reboot("b"); c.pass(4 * time.Second) }, 6 * time.Second},
		{"another boot: expired", "a", func(c *fakeClock) { c.reboot("b"); c.pass(ttl) }, 0},
		{"no boot id: the wall clock", "", func(c *fakeClock) { c.reboot(""); c.pass(4 * time.Second) }, 6 * time.Second},
		{"a boot id is not known any more", "a", func(c *fakeClock) { c.reboot(""); c.step(5 * time.Second) }, 5 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			clock := newFakeClock(test.boot)
			path := newPath(t)
			s := openStore(t, path, clock.read)
			c := claim("job", ttl)
			grant(t, s, c)
			test.then(clock)

			other := openStore(t, path, clock.read)
			assert.Equal(t, test.left, ask(t, other, "job"))
			if row, err := other.Get(t.Context(), "job"); test.left > 0 {
				require.NoError(t, err)
				assert.Equal(t, test.left, row.Left)
				assert.NoError(t, renew(t, s, c).Err)
				assert.Equal(t, ttl, ask(t, other, "job"))
				assert.NoError(t, release(t, s, c).Err)
			} else {
				assert.ErrorIs(t, err, store.ErrNotFound, "the stranger had it, and released it")
				assert.ErrorIs(t, renew(t, s, c).Err, store.ErrLost)
			}
		})
	}
}

// TestExtendOverBoots is rule S3 for a row whose expiry is on another boot's clock.
func TestExtendOverBoots(t *testing.T) {
	clock := newFakeClock("a")
	s := openStore(t, newPath(t), clock.read)
	c := claim("job", 30*time.Second)
	expires := grant(t, s, c).Expires
	clock.reboot("b")
	clock.pass(time.Second)

	c.TTL = 20 * time.Second // shorter than what is left
	kept := renew(t, s, c)
	require.NoError(t, kept.Err)
	assert.Equal(t, expires, kept.Lease.Expires)
	assert.Equal(t, 29*time.Second, kept.Lease.Left)

	clock.step(5 * time.Second)
	assert.Equal(t, 24*time.Second, ask(t, s, "job"), "the row is still on the wall clock")
	c.TTL = 25 * time.Second
	require.NoError(t, renew(t, s, c).Err)
	clock.step(5 * time.Second)
	assert.Equal(t, 25*time.Second, ask(t, s, "job"), "and now it is on this boot's")
}

func TestSystemClock(t *testing.T) {
	clock := systemClock()
	first := clock()
	time.Sleep(2 * time.Millisecond) // the subject is the real clock
	second := clock()
	assert.WithinDuration(t, time.Now(), time.Unix(0, second.wall), time.Minute)
	assert.Equal(t, first.bootID, second.bootID)
	assert.Equal(t, first.bootID, systemClock()().bootID)
	if first.bootID != "" {
		assert.GreaterOrEqual(t, second.boot-first.boot, int64(2*time.Millisecond))
		assert.Positive(t, first.boot)
	}
	assert.GreaterOrEqual(t, second.sub(first), 2*time.Millisecond)
}
