package storetest

import (
	"time"

	"github.com/stretchr/testify/require"
)

const ruleFresh = "rule S2: a grant expires TTL after the store's now"

// acquireCases is rules S1 and S5, as far as one claim after the other shows them.
func acquireCases() []testCase {
	return []testCase{
		{name: "a free name is granted", run: acquireFree},
		{name: "a held name is refused", run: acquireHeld},
		{name: "a released name is free at once", run: acquireReleased},
		{name: "an expired row is taken over", run: acquireExpired},
		{name: "own live row keeps Acquired", run: acquireOwnLive},
		{name: "SAF-06 own expired row is a new acquisition", run: acquireOwnExpired},
		{name: "names are independent", run: acquireOtherName},
		{name: "another client sees the row", run: acquireSecondClient},
	}
}

func acquireFree(s *suite) {
	c := claim("job", long)
	c.Metadata = "a note"
	l := s.grant(c)

	require.Equal(s, c.Name, l.Name, "the lease of a grant is the row that was written")
	require.Equal(s, c.Metadata, l.Metadata, "rule S13: metadata is returned as it was given")
	s.sameTime(l.Renewed, l.Acquired, "a new grant was acquired and renewed at the same time")
	s.expiresAfter(c.TTL, l, ruleFresh)
	require.LessOrEqual(s, l.Left, c.TTL+s.h.Granularity, ruleLeft)
	require.Positive(s, l.Left, ruleLeft)
	if s.h.Exact {
		require.InDelta(s, c.TTL, l.Left, float64(s.h.Granularity), ruleLeft)
	}
}

func acquireHeld(s *suite) {
	first := claim("job", long)
	first.Metadata = "a note"
	l := s.grant(first)

	for range 3 {
		second := claim("job", 2*long)
		second.Metadata = "another note"
		shown := s.refuse(second)
		s.sameRow(l, shown, "a refusal shows the holder's row, which it did not touch")
		require.LessOrEqual(s, shown.Left, l.Left, ruleLeft)
	}
	s.holds(first, "rule S1: a refused claim changes nothing")
}

func acquireReleased(s *suite) {
	first, second := claim("job", long), claim("job", long)
	first.Metadata = "a note"
	s.grant(first)
	require.NoError(s, s.release(first).Err, "rule S6: Release deletes")
	l := s.grant(second)
	require.Empty(s, l.Metadata, "a grant has the metadata of its own claim")
}

func acquireExpired(s *suite) {
	first, second := claim("job", s.h.Short), claim("job", long)
	first.Metadata = "a note"
	old := s.grant(first)
	s.expire(old)

	l := s.grant(second)
	require.Empty(s, l.Metadata, "a grant has the metadata of its own claim")
	require.True(s, l.Acquired.After(old.Acquired), "a takeover is a new acquisition: %v, before %v", l.Acquired, old.Acquired)
	s.expiresAfter(second.TTL, l, ruleFresh)
	s.refuse(first)
}

func acquireOwnLive(s *suite) {
	const rule = "rule S5: an Acquire that finds its own live row keeps Acquired, takes the claim's metadata, and extends like Renew"
	c := claim("job", long)
	c.Metadata = "a note"
	first := s.grant(c)
	s.moment()

	for _, note := range []string{"a better note", ""} {
		c.Metadata = note
		c.TTL += time.Minute
		l := s.grant(c)
		s.sameTime(first.Acquired, l.Acquired, rule)
		require.True(s, l.Renewed.After(first.Renewed), rule)
		require.Equal(s, note, l.Metadata, rule)
		s.expiresAfter(c.TTL, l, rule)
		s.sameRow(l, s.refuse(claim("job", long)), rule)
	}
}

func acquireOwnExpired(s *suite) {
	c := claim("job", s.h.Short)
	old := s.grant(c)
	s.expire(old)

	c.TTL = long
	l := s.grant(c)
	require.True(s, l.Acquired.After(old.Acquired), "rule S5: an expired lease is not revived, not even by its owner's Acquire: Acquired is still %v", l.Acquired)
	s.sameTime(l.Renewed, l.Acquired, "a new grant was acquired and renewed at the same time")
	s.expiresAfter(c.TTL, l, ruleFresh)
	require.Greater(s, l.Version, old.Version, ruleTokens)
}

func acquireOtherName(s *suite) {
	one := claim("job 1", long)
	two := one // one owner may hold many names
	two.Name = "job 2"
	s.grant(one)
	s.grant(two)
	require.NoError(s, s.release(one).Err, "rule S6: Release deletes")
	s.refuse(claim("job 2", long))
	s.grant(claim("job 1", long))
}

func acquireSecondClient(s *suite) {
	c := claim("job", long)
	other := s.second()
	l := s.grant(c)
	s.sameRow(l, s.refuseBy(other, claim("job", long)), ruleShowsHolder)
	require.NoError(s, s.release(c).Err, "rule S6: Release deletes")

	c = claim("job", long)
	s.grantBy(other, c)
	s.refuse(claim("job", long))
	s.holds(c, "a lease belongs to its owner id, not to the client that acquired it")
}
