package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

const ruleOwnTrouble = "rule S8: one claim's trouble never costs another its answer"

// batchCases is rule S8.
func batchCases() []testCase {
	return []testCase{
		{name: "empty", run: batchEmpty},
		{name: "full and mixed", run: batchMixed},
		{name: "one name, several owners", run: batchOneName},
		{name: "nothing but invalid claims", run: batchInvalid},
		{name: "too large", run: batchTooLarge},
	}
}

func batchEmpty(s *suite) {
	c := claim("job", long)
	s.grant(c)
	for _, none := range [][]store.Claim{nil, {}} {
		s.renewAll(none)
		s.releaseAll(none)
	}
	s.holds(c, "rule S8: an empty batch concerns no row")
}

// fate is what a claim of a mixed batch meets.
type fate int

const (
	live fate = iota
	expired
	foreign
	missing
	invalid
)

// batchMixed sends MaxBatch claims, each of another fate than its neighbours and none in the order of their names.
func batchMixed(s *suite) {
	claims := make([]store.Claim, store.MaxBatch)
	rows := make([]store.Lease, len(claims))
	holders := make([]store.Claim, len(claims)) // of the foreign rows
	var short []store.Lease
	for i := range claims {
		name := fmt.Sprintf("job %03d", (i*7)%len(claims))
		claims[i] = claim(name, long+time.Duration(i)*time.Millisecond)
		switch fateOf(i) {
		case live:
			rows[i] = s.grant(claims[i])
		case expired:
			claims[i].TTL = s.h.Short
			rows[i] = s.grant(claims[i])
			short = append(short, rows[i])
		case foreign:
			holders[i] = claim(name, long)
			rows[i] = s.grant(holders[i])
		case missing, invalid: // no row
		}
	}
	s.expire(short...)
	for i := range claims {
		switch fateOf(i) {
		case live, foreign, missing:
		case expired:
			claims[i].TTL = long
		case invalid:
			claims[i] = [3]store.Claim{
				{Name: claims[i].Name + " ", Owner: claims[i].Owner, TTL: long},
				{Name: claims[i].Name, Owner: "", TTL: long},
				{Name: "", Owner: claims[i].Owner, TTL: long},
			}[i%3]
		}
	}

	for i, r := range s.renewAll(claims) {
		rule := fmt.Sprintf("%s: renewal %d", ruleOwnTrouble, i)
		if fateOf(i) == live {
			require.NoError(s, r.Err, rule)
			require.Equal(s, claims[i].Name, r.Lease.Name, ruleAnswers)
			require.Equal(s, claims[i].Owner, r.Lease.Owner, ruleAnswers)
			s.expiresAfter(claims[i].TTL, r.Lease, "rule S8: each claim of a batch has its own TTL")
			continue
		}
		s.fated(fateOf(i), rows[i], r, rule)
	}
	for i, r := range s.releaseAll(claims) {
		rule := fmt.Sprintf("%s: release %d", ruleOwnTrouble, i)
		if fateOf(i) == live {
			require.NoError(s, r.Err, rule)
			continue
		}
		s.fated(fateOf(i), rows[i], r, rule)
	}

	var untouched []store.Claim
	for i := range claims {
		if fateOf(i) == foreign {
			untouched = append(untouched, holders[i])
		}
	}
	for _, r := range s.releaseAll(untouched) {
		require.NoError(s, r.Err, ruleScoped)
	}
}

func fateOf(i int) fate { return fate(i) % (invalid + 1) }

// fated checks the answer to a claim without a live lease.
func (s *suite) fated(f fate, row store.Lease, r store.Result, rule string) {
	s.Helper()
	switch f {
	case live: // the caller's business
	case expired:
		if shown := s.lost(r, rule); shown.Owner != "" { // else it was swept
			s.sameRow(row, shown, rule)
		}
	case foreign:
		s.sameRow(row, s.lost(r, rule), rule)
	case missing:
		require.Equal(s, store.Lease{}, s.lost(r, rule), rule)
	case invalid:
		s.class(r.Err, store.ErrInvalid, rule)
		require.Equal(s, store.Lease{}, r.Lease, rule)
	}
}

func batchOneName(s *suite) {
	one, two, three := claim("job", long), claim("job", long), claim("job", long)
	l := s.grant(two)
	claims := []store.Claim{one, two, three}
	for _, answer := range []func([]store.Claim) []store.Result{s.renewAll, s.renewAll} {
		results := answer(claims)
		s.lost(results[0], ruleAnswers)
		require.NoError(s, results[1].Err, ruleAnswers)
		s.lost(results[2], ruleAnswers)
		for _, r := range results {
			require.Equal(s, l.Owner, r.Lease.Owner, ruleShowsRow)
		}
		slices.Reverse(claims)
	}
	results := s.releaseAll(claims)
	s.lost(results[0], ruleAnswers)
	require.NoError(s, results[1].Err, ruleAnswers)
	s.lost(results[2], ruleAnswers)
}

func batchInvalid(s *suite) {
	claims := []store.Claim{{}, {Name: "job", TTL: long}, {Owner: "somebody", TTL: long}}
	for _, r := range append(s.renewAll(claims), s.releaseAll(claims)...) {
		s.class(r.Err, store.ErrInvalid, ruleOwnTrouble)
	}
}

func batchTooLarge(s *suite) {
	const rule = "rule S8: a batch has at most MaxBatch claims"
	held := claim("job", long)
	old := s.grant(held)
	claims := []store.Claim{held}
	for len(claims) <= store.MaxBatch {
		claims = append(claims, claim("another job", long))
	}
	s.moment()
	_, err := s.st.Renew(s.Context(), claims)
	s.class(err, store.ErrInvalid, rule)
	_, err = s.st.Release(s.Context(), claims)
	s.class(err, store.ErrInvalid, rule)
	s.sameRow(old, s.refuse(claim("job", long)), rule)
}
