package storetest

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

const (
	ruleRenewOnly  = "rule S5: Renew changes Renewed and Expires, nothing else"
	ruleNoRow      = "rule S5: Renew never creates a row"
	ruleNoRevival  = "rule S5: Renew never revives an expired lease"
	ruleShowsRow   = "a lost renewal shows the row now under that name, or the zero Lease if there is none"
	ruleOwnerExact = "rule S4: owners are compared exactly, byte by byte"
)

// renewCases is rule S5, and S4 for renewals.
func renewCases() []testCase {
	return []testCase{
		{name: "a live lease is extended", run: renewLive},
		{name: "again and again", run: renewOften},
		{name: "no row", run: renewMissing},
		{name: "SAF-06 an expired lease is not revived", run: renewExpired},
		{name: "another owner's row", run: renewForeign},
		{name: "SAF-02 taken over", run: renewTaken},
		{name: "REN-04 released", run: renewReleased},
		{name: "almost the same owner", run: renewAlmostOwner},
	}
}

func renewLive(s *suite) {
	c := claim("job", long)
	c.Metadata = "a note"
	old := s.grant(c)
	s.moment()

	c.TTL += time.Minute
	c.Metadata = "not for renewals"
	l := s.holds(c, "rule S5: Renew extends a live lease of its owner")
	require.True(s, l.Renewed.After(old.Renewed), "rule S5: Renew changes Renewed")
	s.expiresAfter(c.TTL, l, "rule S3: the new Expires is now+TTL if that is later")

	want := old
	want.Renewed, want.Expires = l.Renewed, l.Expires
	s.sameRow(want, l, ruleRenewOnly)
	s.sameRow(want, s.refuse(claim("job", long)), ruleRenewOnly)
}

func renewOften(s *suite) {
	c := claim("job", long)
	last := s.grant(c)
	for range s.h.Rounds {
		s.moment()
		l := s.holds(c, "rule S5: Renew extends a live lease of its owner")
		require.True(s, l.Expires.After(last.Expires), "rule S3: the new Expires is now+TTL if that is later")
		s.refuse(claim("job", long))
		last = l
	}
}

func renewMissing(s *suite) {
	c := claim("job", long)
	require.Equal(s, store.Lease{}, s.lost(s.renew(c), ruleNoRow), ruleShowsRow)
	s.grant(claim("job", long)) // refused if a row was created
}

func renewExpired(s *suite) {
	c := claim("job", s.h.Short)
	c.Metadata = "a note"
	old := s.grant(c)
	s.expire(old)

	c.TTL = long
	for range 2 {
		if shown := s.lost(s.renew(c), ruleNoRevival); shown.Owner != "" { // else it was swept
			s.sameRow(old, shown, ruleNoRevival)
			require.Zero(s, shown.Left, "Left is zero for an expired lease")
		}
		if !s.h.NoInspector {
			if row, found := s.row("job"); found {
				s.sameRow(old, row, ruleNoRevival)
			}
		}
	}
	s.grant(claim("job", long))
}

func renewForeign(s *suite) {
	holder, stranger := claim("job", long), claim("job", 2*long)
	l := s.grant(holder)
	s.sameRow(l, s.lost(s.renew(stranger), ruleScoped), ruleShowsRow)
	s.sameRow(l, s.refuse(stranger), ruleScoped)
}

func renewTaken(s *suite) {
	first, second := claim("job", s.h.Short), claim("job", long)
	s.expire(s.grant(first))
	l := s.grant(second)
	s.sameRow(l, s.lost(s.renew(first), ruleScoped), ruleShowsRow)
	s.sameRow(l, s.refuse(first), ruleScoped)
	s.holds(second, ruleScoped)
}

func renewReleased(s *suite) {
	c := claim("job", long)
	s.grant(c)
	require.NoError(s, s.release(c).Err, "rule S6: Release deletes")
	require.Equal(s, store.Lease{}, s.lost(s.renew(c), ruleNoRow), ruleShowsRow)
	s.grant(claim("job", long))
}

func renewAlmostOwner(s *suite) {
	c := claim("job", long)
	s.grant(c)
	for _, owner := range almost(c.Owner) {
		other := c
		other.Owner = owner
		s.lost(s.renew(other), ruleOwnerExact)
		s.refuse(other)
	}
	s.holds(c, ruleOwnerExact)
}

// almost lists what a lax comparison would call equal to s.
func almost(s string) []string {
	return []string{
		strings.ToUpper(s),
		s[:len(s)-1],
		s + "x",
		s + "\u00ad", // no weight in most collations
		"%",          // a pattern
		strings.Replace(s, "storetest", "_toretest", 1),
		strings.Replace(s, "storetest", "ｓtoretest", 1), // another width
		strings.Replace(s, "storetest", "stóretest", 1), // an accent
	}
}
