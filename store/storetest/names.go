package storetest

import (
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

const ruleNameExact = "rule S4: names are compared exactly, byte by byte"

// nameCases is rule S4 for names, and what a name may look like.
func nameCases() []testCase {
	return []testCase{
		{name: "NAM-02 upper and lower case", run: nameCase},
		{name: "names that a collation calls equal", needs: exactNames, run: func(s *suite) { s.apart(alike()) }},
		{name: "NAM-08 a name that carries SQL", run: nameSQL},
		{name: "NAM-03 the longest names", run: nameLongest},
		{name: "the longest owner", run: ownerLongest},
	}
}

func nameCase(s *suite) {
	if !s.h.CoarseNames {
		s.apart([]string{"Invoice-Batch", "invoice-batch", "INVOICE-BATCH", "FILE", "file", "fıle", "fİle"})
		return
	}
	first := claim("Invoice-Batch", long)
	l := s.grant(first)
	shown := s.refuse(claim("invoice-batch", long))
	s.sameRow(l, shown, "rule S4: names that the collation calls equal exclude each other, and a refusal shows the stored spelling")
	require.NoError(s, s.release(first).Err, ruleDeletes)
	s.grant(claim("invoice-batch", long))
}

// alike lists names of which each resembles another: for some collation they are equal, in accent, width, kana, sharp s,
// form of normalisation, or by characters without weight.
func alike() []string {
	return []string{
		"job", "jób", "jo\u0301b", "ｊob", "jo\u00adb", "jo\u200bb", "j-ob", "jo'b",
		"strasse", "straße", "straẞe", "Æon", "AEon", "ﬁt", "fit", "Å", "\u212b",
		"はな", "ハナ", "ﾊﾅ", "²", "2", "k", "\u212a",
		"🔒", "🔑", "🔒🔑", "🔒\ufe0f", "a🔒", "a", "日本", "日木",
		"a b", "a  b", "a\u00a0b", "a_b", "a.b", "a/b", `a\b`,
	}
}

// apart checks that all names are held at once, by different owners, and end one by one.
func (s *suite) apart(names []string) {
	s.Helper()
	claims := make([]store.Claim, len(names))
	for i, name := range names {
		claims[i] = claim(name, long)
		l := s.grant(claims[i])
		require.Equal(s, name, l.Name, ruleNameExact)
	}
	for i, r := range s.renewAll(claims) {
		require.NoError(s, r.Err, "%s: %q", ruleNameExact, names[i])
		require.Equal(s, names[i], r.Lease.Name, ruleNameExact)
	}
	for len(claims) > 0 {
		require.NoError(s, s.release(claims[0]).Err, "%s: %q", ruleNameExact, claims[0].Name)
		claims = claims[1:]
		for _, r := range s.renewAll(claims) {
			require.NoError(s, r.Err, ruleNameExact)
		}
	}
}

func nameSQL(s *suite) {
	const rule = "a name is data, never SQL nor a pattern"
	others := make([]store.Claim, 10)
	for i := range others {
		others[i] = claim("job "+string(rune('a'+i)), long)
		s.grant(others[i])
	}
	for _, name := range []string{
		`x'; DELETE FROM lease.Leases;--`, `x"; DROP TABLE leases;--`, `' OR '1'='1`, "%", "_", "[a-z]", "job%", "job _",
		"job [a-j]", `\`, "@n", "?1", "$1", ":name", "]", "NULL", "{{.}}",
	} {
		c := claim(name, long)
		require.Equal(s, name, s.grant(c).Name, rule)
		require.Equal(s, name, s.refuse(claim(name, long)).Name, rule)
		if !s.h.NoInspector {
			require.Equal(s, c.Owner, s.liveRow(name).Owner, rule)
			require.Len(s, s.list(""), len(others)+1, rule)
		}
		s.holds(c, rule)
		require.NoError(s, s.release(c).Err, rule)
	}
	for _, r := range s.renewAll(others) {
		require.NoError(s, r.Err, rule)
	}
}

func nameLongest(s *suite) {
	s.apart([]string{
		strings.Repeat("a", 200), strings.Repeat("a", 199), strings.Repeat("a", 199) + "b", "b" + strings.Repeat("a", 199),
		strings.Repeat("ñ", 200), strings.Repeat("日", 200), strings.Repeat("🔒", 100), strings.Repeat("🔒", 99) + "ab",
	})
}

func ownerLongest(s *suite) {
	for _, owner := range []string{strings.Repeat("o", 128), strings.Repeat("日", 128), strings.Repeat("🔒", 64), `o'; DROP TABLE "leases";--`, "%"} {
		c := store.Claim{Name: "job", Owner: owner, TTL: long}
		require.Equal(s, owner, s.grant(c).Owner, ruleOwnerExact)
		require.Equal(s, owner, s.refuse(claim("job", long)).Owner, ruleOwnerExact)
		s.holds(c, ruleOwnerExact)
		require.NoError(s, s.release(c).Err, ruleOwnerExact)
	}
}
