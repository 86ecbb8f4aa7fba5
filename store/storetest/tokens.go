package storetest

import (
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

const ruleTokens = "rule S7: the Version of a grant is greater than that of every earlier grant of the same name"

// tokenCases is rule S7.
func tokenCases() []testCase {
	return []testCase{
		{name: "SAF-10 over delete, expiry and takeover", run: tokensGrow},
		{name: "over renewals and repeated claims", run: tokensOfOneGrant},
		{name: "over two clients", run: tokensOfTwoClients},
		{name: "contended row", run: tokensContended},
		{name: "contended takeover", run: tokensContendedTakeover},
	}
}

// tokensGrow makes 100 grants of one name; each ends in another way than the one before it.
func tokensGrow(s *suite) {
	var last store.Lease
	var lastClaim store.Claim
	for i := range 100 {
		c := claim("fence", long)
		way := i % 4
		if way == 1 || way == 2 {
			c.TTL = s.h.Short
		}
		if way == 3 {
			c.Owner = lastClaim.Owner // of an expired row
		}
		l := s.grant(c)
		if i > 0 {
			require.Greater(s, l.Version, last.Version, "%s: grant %d", ruleTokens, i)
		}
		last, lastClaim = l, c

		switch way {
		case 1: // expires, and its row goes
			s.expire(l)
			s.lost(s.release(c), ruleWasLost)
		case 2: // expires, and its owner acquires again
			s.expire(l)
		default: // released
			s.refuse(claim("fence", long))
			s.holds(c, "rule S5: Renew extends a live lease of its owner")
			require.NoError(s, s.release(c).Err, ruleDeletes)
		}
	}

	c := claim("fence", s.h.Short)
	l := s.grant(c)
	require.Greater(s, l.Version, last.Version, ruleTokens)
	s.expire(l)
	require.Greater(s, s.grant(claim("fence", long)).Version, l.Version, "%s: a takeover", ruleTokens)
}

func tokensOfOneGrant(s *suite) {
	c := claim("fence", long)
	most := s.grant(c).Version
	for range s.h.Rounds {
		s.holds(c, "rule S5: Renew extends a live lease of its owner")
		again := s.grant(c).Version // of the same grant: it may be the same token, but not an older one
		require.GreaterOrEqual(s, again, most, ruleTokens)
		most = again
	}
	require.NoError(s, s.release(c).Err, ruleDeletes)
	require.Greater(s, s.grant(claim("fence", long)).Version, most, ruleTokens)
}

func tokensOfTwoClients(s *suite) {
	clients := s.clients()
	var last uint64
	for i := range 2 * s.h.Rounds {
		c := claim("fence", long)
		l := s.grantBy(clients[i%2], c)
		if i > 0 {
			require.Greater(s, l.Version, last, ruleTokens)
		}
		last = l.Version
		require.NoError(s, s.release(c).Err, ruleDeletes)
	}
}

// tokensContended fails for a store that draws the token before the row is this grant's: then a claim that waits for
// the row gets a smaller one than the grant it waits for.
func tokensContended(s *suite) {
	grants := s.turns("fence", 10*s.h.Rounds)
	for i := range grants[1:] {
		require.Greater(s, grants[i+1].Version, grants[i].Version, "%s, also if the row was contended: grant %d", ruleTokens, i+1)
	}
}

func tokensContendedTakeover(s *suite) {
	var last uint64
	for i := range s.h.Rounds {
		old := s.grant(claim("fence", s.h.Short))
		if i > 0 {
			require.Greater(s, old.Version, last, ruleTokens)
		}
		s.expire(old)
		winner := s.race("fence")
		require.Greater(s, winner.Version, old.Version, "%s: a contended takeover", ruleTokens)
		last = winner.Version
		require.NoError(s, s.release(store.Claim{Name: "fence", Owner: winner.Owner}).Err, ruleDeletes)
	}
}
