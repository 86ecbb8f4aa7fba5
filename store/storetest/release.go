package storetest

import (
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

const (
	ruleDeletes = "rule S6: Release deletes"
	ruleWasLost = "rule S6: Release reports a row that had already expired, or was not there, as lost"
)

// releaseCases is rule S6, and S4 for releases.
func releaseCases() []testCase {
	return []testCase{
		{name: "a live lease", run: releaseLive},
		{name: "REL-01 twice", run: releaseTwice},
		{name: "only name and owner count", run: releaseKeyOnly},
		{name: "an expired lease", run: releaseExpired},
		{name: "another owner's row", run: releaseForeign},
		{name: "REL-02 taken over", run: releaseTaken},
		{name: "almost the same owner", run: releaseAlmostOwner},
	}
}

func releaseLive(s *suite) {
	c := claim("job", long)
	s.grant(c)
	require.NoError(s, s.release(c).Err, ruleDeletes)
	if !s.h.NoInspector {
		_, found := s.row("job")
		require.False(s, found, ruleDeletes)
	}
	s.grant(claim("job", long))
}

func releaseTwice(s *suite) {
	c := claim("job", long)
	require.Equal(s, store.Lease{}, s.lost(s.release(c), ruleWasLost), "there is no row to show")
	s.grant(c)
	require.NoError(s, s.release(c).Err, ruleDeletes)
	require.Equal(s, store.Lease{}, s.lost(s.release(c), ruleWasLost), "there is no row to show")
}

func releaseKeyOnly(s *suite) {
	c := claim("job", long)
	s.grant(c)
	c.TTL = 0
	c.Metadata = strings.Repeat("x", 5000)
	require.NoError(s, s.release(c).Err, "only name and owner of a claim count for Release")
}

func releaseExpired(s *suite) {
	c := claim("job", s.h.Short)
	old := s.grant(c)
	s.expire(old)
	if shown := s.lost(s.release(c), ruleWasLost); shown.Owner != "" { // else it was swept
		s.sameRow(old, shown, "the answer shows the row that was deleted")
		require.Zero(s, shown.Left, "Left is zero for an expired lease")
	}
	if !s.h.NoInspector {
		_, found := s.row("job")
		require.False(s, found, "rule S6: Release deletes, also what has expired")
	}
	require.Equal(s, store.Lease{}, s.lost(s.release(c), ruleWasLost), "there is no row to show")
}

func releaseForeign(s *suite) {
	holder, stranger := claim("job", long), claim("job", long)
	l := s.grant(holder)
	s.sameRow(l, s.lost(s.release(stranger), ruleScoped), "the answer shows the row of the other owner")
	s.sameRow(l, s.refuse(stranger), ruleScoped)
	s.holds(holder, ruleScoped)
}

func releaseTaken(s *suite) {
	first, second := claim("job", s.h.Short), claim("job", long)
	s.expire(s.grant(first))
	l := s.grant(second)
	s.sameRow(l, s.lost(s.release(first), ruleScoped), "the answer shows the row of the other owner")
	s.holds(second, ruleScoped)
}

func releaseAlmostOwner(s *suite) {
	c := claim("job", long)
	s.grant(c)
	for _, owner := range almost(c.Owner) {
		other := c
		other.Owner = owner
		s.lost(s.release(other), ruleOwnerExact)
	}
	s.holds(c, ruleOwnerExact)
}
