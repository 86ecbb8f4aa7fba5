package storetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

const (
	ruleGet     = "Get returns the row under a name, expired or not, or ErrNotFound"
	ruleList    = "List yields the rows whose names start with prefix, in the order of their names' bytes"
	ruleKeeps   = "List reads in pages and keeps nothing open between them"
	ruleDisowns = "Break disowns: it replaces the owner by broken/<nonce> and leaves the expiry"
	ruleNoBreak = "Break returns ErrNotFound if no live row has exactly this name and owner"
)

// inspectorCases is the contract of store.Inspector.
func inspectorCases() []testCase {
	cases := []testCase{
		{name: "get", run: getRow},
		{name: "get an expired row", run: getExpired},
		{name: "list", run: listAll},
		{name: "list an expired row", run: listExpired},
		{name: "NAM-08 a prefix is no pattern", run: listPrefix},
		{name: "list in the order of bytes", run: listOrder},
		{name: "list more than a page", run: listPages},
		{name: "use the store while listing", run: listUse},
		{name: "CLI-10 break disowns", run: breakDisowns},
		{name: "break leaves the expiry", run: breakExpires},
		{name: "break is seen by another client", run: breakSecondClient},
		{name: "nothing to break", run: breakNothing},
		{name: "an expired row cannot be broken", run: breakExpired},
		{name: "a broken row can be released", run: breakRelease},
	}
	for i := range cases {
		cases[i].needs = inspector
	}
	return cases
}

// list collects what List yields.
func (s *suite) list(prefix string) []store.Lease {
	s.Helper()
	var leases []store.Lease
	for l, err := range s.inspector().List(s.Context(), prefix) {
		require.NoError(s, err, ruleList)
		s.plausible(l)
		leases = append(leases, l)
	}
	return leases
}

func names(leases []store.Lease) []string {
	var names []string
	for _, l := range leases {
		names = append(names, l.Name)
	}
	return names
}

func getRow(s *suite) {
	_, err := s.inspector().Get(s.Context(), "job")
	s.class(err, store.ErrNotFound, ruleGet)

	c := claim("job", long)
	c.Metadata = "a note"
	l := s.grant(c)
	row := s.liveRow("job")
	s.sameRow(l, row, ruleGet)
	require.Positive(s, row.Left, ruleLeft)
	require.LessOrEqual(s, row.Left, l.Left, ruleLeft)
	s.sameRow(s.holds(c, ruleGet), s.liveRow("job"), ruleGet)

	_, err = s.inspector().Get(s.Context(), "jo")
	s.class(err, store.ErrNotFound, ruleGet)
}

func getExpired(s *suite) {
	l := s.grant(claim("job", s.h.Short))
	s.expire(l)
	if row, found := s.row("job"); found {
		s.sameRow(l, row, ruleGet)
		require.Zero(s, row.Left, "Left is zero for an expired lease")
	}
}

func listAll(s *suite) {
	require.Empty(s, s.list(""), ruleList)
	rows := map[string]store.Lease{}
	for _, name := range []string{"b", "c", "a", "ab"} {
		c := claim(name, long)
		c.Metadata = "note on " + name
		rows[name] = s.grant(c)
	}
	leases := s.list("")
	require.Equal(s, []string{"a", "ab", "b", "c"}, names(leases), ruleList)
	for _, l := range leases {
		s.sameRow(rows[l.Name], l, ruleList)
		require.Positive(s, l.Left, ruleLeft)
	}
	require.Equal(s, []string{"a", "ab"}, names(s.list("a")), ruleList)
	require.Empty(s, s.list("abc"), ruleList)
	for l, err := range s.inspector().List(s.Context(), "") {
		require.NoError(s, err, ruleList)
		require.Equal(s, "a", l.Name, ruleList)
		break // and nothing more is yielded, which the language checks
	}
}

func listExpired(s *suite) {
	l := s.grant(claim("job", s.h.Short))
	s.expire(l)
	for _, row := range s.list("") { // none if it was swept
		s.sameRow(l, row, ruleList)
		require.Zero(s, row.Left, "Left is zero for an expired lease")
	}
}

func listPrefix(s *suite) {
	all := []string{"%x", "_x", "[a]", "[ab", "a b", "a%", `a\`, "a]", "ab", "b", "Bé", "🔒🔑", "'"}
	prefixes := []string{
		"", "%", "_", "[", "[a]", "[a-b]", "a", "a%", "a ", `\`, `a\`, "^", "!", "🔒", "'", "*", "?", "a*", strings.Repeat("a", 300),
	}
	if !s.h.CoarseNames {
		all = append(all, "B")
		prefixes = append(prefixes, "b", "B", "A")
	}
	for _, name := range all {
		s.grant(claim(name, long))
	}
	slices.Sort(all)
	for _, prefix := range prefixes {
		var want []string
		for _, name := range all {
			if strings.HasPrefix(name, prefix) {
				want = append(want, name)
			}
		}
		require.Equal(s, want, names(s.list(prefix)), "%s: %.40q", ruleList, prefix)
	}
}

// listOrder has names whose UTF-16 units are in another order than their bytes, and names that a collation sorts as
// words.
func listOrder(s *suite) {
	all := []string{"a", "a-b", "a b", "ab", "z", "é", "~", "🔒", "日", "10", "9"}
	if !s.h.CoarseNames {
		all = append(all, "A", "Z", "AB", "\uff5e", "\ue000")
	}
	for _, name := range all {
		s.grant(claim(name, long))
	}
	slices.Sort(all)
	require.Equal(s, all, names(s.list("")), ruleList)
}

func listPages(s *suite) {
	var all []string
	for i := range 2*s.h.PageSize + 5 {
		name := fmt.Sprintf("job %d", i)
		all = append(all, name)
		s.grant(claim(name, long))
	}
	s.grant(claim("another", long))
	s.grant(claim("zero", long))
	slices.Sort(all)
	require.Equal(s, all, names(s.list("job ")), ruleList)
	require.Len(s, s.list(""), len(all)+2, ruleList)
}

// listUse releases each row as it is yielded. A store that counts the rows of earlier pages would skip some now.
func listUse(s *suite) {
	n := 2*s.h.PageSize + 5
	for i := range n {
		s.grant(claim(fmt.Sprintf("job %d", i), long))
	}
	seen := 0
	for l, err := range s.inspector().List(s.Context(), "job ") {
		require.NoError(s, err, ruleKeeps)
		require.NoError(s, s.release(store.Claim{Name: l.Name, Owner: l.Owner}).Err, ruleKeeps)
		s.grant(claim("a"+l.Name, long))
		seen++
	}
	require.Equal(s, n, seen, "%s: each row that was there all the time is yielded once", ruleKeeps)
	require.Empty(s, s.list("job "), ruleKeeps)
}

// disown breaks a live lease and checks the answer.
func (s *suite) disown(l store.Lease) store.Lease {
	s.Helper()
	broken, err := s.inspector().Break(s.Context(), l.Name, l.Owner)
	require.NoError(s, err, ruleDisowns)
	s.plausible(broken)
	require.Regexp(s, `^broken/.+`, broken.Owner, ruleDisowns)
	want := l
	want.Owner = broken.Owner
	s.sameRow(want, broken, ruleDisowns)
	row, _ := s.row(l.Name)
	s.sameRow(want, row, ruleDisowns)
	require.Positive(s, broken.Left, ruleLeft)
	return broken
}

func breakDisowns(s *suite) {
	holder := claim("job", long)
	holder.Metadata = "a note"
	other := claim("other job", long)
	l := s.grant(holder)
	bystander := s.grant(other)
	s.moment()
	broken := s.disown(l)

	s.sameRow(broken, s.lost(s.renew(holder), "after Break the holder's next renewal is a definite loss"), ruleShowsRow)
	s.sameRow(broken, s.refuse(holder), "after Break nobody enters before the old expiry, the old holder neither")
	s.sameRow(broken, s.refuse(claim("job", long)), "after Break nobody enters before the old expiry")
	s.sameRow(broken, s.lost(s.release(holder), ruleScoped), ruleScoped)
	require.Equal(s, broken.Owner, s.liveRow("job").Owner, ruleScoped)

	require.NotEqual(s, broken.Owner, s.disown(bystander).Owner, "a broken row's owner is like no other")
}

func breakExpires(s *suite) {
	c := claim("job", long)
	if s.h.Exact {
		c.TTL = s.h.Short
	}
	broken := s.disown(s.grant(c))
	if s.h.Exact {
		s.expire(broken)
		s.grant(claim("job", long))
		return
	}
	// A real clock takes too long to get there.
	s.refuse(claim("job", long))
}

func breakSecondClient(s *suite) {
	c := claim("job", long)
	l := s.grantBy(s.second(), c)
	broken := s.disown(l)
	s.sameRow(broken, s.refuseBy(s.second(), c), ruleDisowns)
}

func breakNothing(s *suite) {
	c := claim("job", long)
	_, err := s.inspector().Break(s.Context(), c.Name, c.Owner)
	s.class(err, store.ErrNotFound, ruleNoBreak)

	l := s.grant(c)
	for _, owner := range append(almost(c.Owner), "somebody else") {
		_, err = s.inspector().Break(s.Context(), c.Name, owner)
		s.class(err, store.ErrNotFound, ruleNoBreak)
	}
	_, err = s.inspector().Break(s.Context(), "other job", c.Owner)
	s.class(err, store.ErrNotFound, ruleNoBreak)
	s.sameRow(l, s.liveRow("job"), ruleNoBreak)

	s.disown(l)
	_, err = s.inspector().Break(s.Context(), c.Name, c.Owner)
	s.class(err, store.ErrNotFound, ruleNoBreak)
}

func breakExpired(s *suite) {
	c := claim("job", s.h.Short)
	l := s.grant(c)
	s.expire(l)
	_, err := s.inspector().Break(s.Context(), c.Name, c.Owner)
	s.class(err, store.ErrNotFound, ruleNoBreak)
	if row, found := s.row("job"); found {
		s.sameRow(l, row, ruleNoBreak)
	}
}

func breakRelease(s *suite) {
	broken := s.disown(s.grant(claim("job", long)))
	require.NoError(s, s.release(store.Claim{Name: "job", Owner: broken.Owner}).Err, ruleDeletes)
	s.grant(claim("job", long))
}
