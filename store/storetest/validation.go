package storetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

const (
	ruleValidated = "rule S9: input is validated before anything is sent"
	ruleEnded     = "rule S10: a context that has ended is ErrUnavailable too, and errors.Is finds its error"
)

// validationCases is rules S9 and S10.
func validationCases() []testCase {
	var cases []testCase
	for _, bad := range []struct {
		what  string
		names []string
	}{
		{"NAM-01 white space around a name", []string{" job", "job ", "job\t", "job\u00a0", "\u3000job", "job\u2028", "job\n", " "}},
		{"NAM-03 a name that is too long", []string{strings.Repeat("a", 201), strings.Repeat("🔒", 101), strings.Repeat("a", 5000)}},
		{"a name with control characters", []string{"jo\x00b", "jo\nb", "jo\tb", "jo\x7fb", "jo\u0085b"}},
		{"a name that is not UTF-8", []string{"jo\xffb", "job\xc3", "\xed\xa0\x80"}},
		{"no name", []string{""}},
	} {
		cases = append(cases, testCase{name: bad.what, run: func(s *suite) {
			for _, name := range bad.names {
				s.invalidKey(store.Claim{Name: name, Owner: "somebody", TTL: long})
			}
			s.empty()
		}})
	}
	return append(cases,
		testCase{name: "NAM-05 an owner that does not fit", run: badOwners},
		testCase{name: "a TTL that does not fit", run: badTTLs},
		testCase{name: "NAM-05 metadata that does not fit", run: badMetadata},
		testCase{name: "a prefix that is not UTF-8", needs: inspector, run: badPrefix},
		testCase{name: "ACQ-01 a context that has ended", run: endedContext},
		testCase{name: "inspect with a context that has ended", needs: inspector, run: endedContextInspect},
	)
}

// invalidKey offers a bad name or owner to everything that takes them.
func (s *suite) invalidKey(c store.Claim) {
	s.Helper()
	rule := fmt.Sprintf("%s: %.40q of %.40q", ruleValidated, c.Name, c.Owner)
	_, err := s.st.Acquire(s.Context(), c)
	s.class(err, store.ErrInvalid, rule)
	s.class(s.renew(c).Err, store.ErrInvalid, rule)
	s.class(s.release(c).Err, store.ErrInvalid, rule)
	if s.h.NoInspector {
		return
	}
	_, err = s.inspector().Break(s.Context(), c.Name, c.Owner)
	s.class(err, store.ErrInvalid, rule)
	if store.ValidateName(c.Name) != nil {
		_, err = s.inspector().Get(s.Context(), c.Name)
		s.class(err, store.ErrInvalid, rule)
	}
}

// empty checks that nothing was written, if it can.
func (s *suite) empty() {
	s.Helper()
	if !s.h.NoInspector {
		require.Empty(s, s.list(""), ruleValidated)
	}
}

func badOwners(s *suite) {
	for _, owner := range []string{
		"", " somebody", "somebody ", "some\nbody", "some\xffbody", strings.Repeat("a", 129), strings.Repeat("🔒", 65),
	} {
		s.invalidKey(store.Claim{Name: "job", Owner: owner, TTL: long})
	}
	s.empty()
}

func badTTLs(s *suite) {
	held := claim("held", long)
	old := s.grant(held)
	for _, ttl := range []time.Duration{
		0, -time.Second, time.Microsecond, 1500 * time.Microsecond, 24*time.Hour + time.Millisecond, 1<<63 - 1, -1 << 63,
	} {
		rule := fmt.Sprintf("%s: TTL %v", ruleValidated, ttl)
		_, err := s.st.Acquire(s.Context(), claim("job", ttl))
		s.class(err, store.ErrInvalid, rule)
		held.TTL = ttl
		s.class(s.renew(held).Err, store.ErrInvalid, rule)
	}
	s.sameRow(old, s.refuse(claim("held", long)), ruleValidated)
	require.NoError(s, s.release(held).Err, "only name and owner of a claim count for Release")
	s.empty()

	c := claim("longest", 24*time.Hour)
	s.expiresAfter(c.TTL, s.grant(c), ruleFresh)
	c = claim("shortest", time.Millisecond)
	s.expiresAfter(c.TTL, s.grant(c), ruleFresh)
}

func badMetadata(s *suite) {
	held := claim("held", long)
	s.grant(held)
	for _, note := range []string{strings.Repeat("a", 1025), strings.Repeat("🔒", 512) + "a", "not \xff UTF-8"} {
		rule := fmt.Sprintf("%s: metadata %.40q", ruleValidated, note)
		c := claim("job", long)
		c.Metadata = note
		_, err := s.st.Acquire(s.Context(), c)
		s.class(err, store.ErrInvalid, rule)
		held.Metadata = note
		s.class(s.renew(held).Err, store.ErrInvalid, rule)
	}
	s.grant(claim("job", long)) // refused if a row was created
}

func badPrefix(s *suite) {
	s.grant(claim("job", long))
	n := 0
	for _, err := range s.inspector().List(s.Context(), "jo\xff") {
		n++
		s.class(err, store.ErrInvalid, ruleValidated)
	}
	require.Equal(s, 1, n, "an error ends the sequence")
}

// endings returns contexts that were over before they are used.
func (s *suite) endings() []context.Context {
	cancelled, cancel := context.WithCancel(s.Context())
	cancel()
	late, cancel := context.WithDeadline(s.Context(), time.Now().Add(-time.Second))
	s.Cleanup(cancel)
	return []context.Context{cancelled, late}
}

// ended checks an error that comes from a context. That it was over before the call proves that nothing was sent.
func (s *suite) ended(ctx context.Context, err error) {
	s.Helper()
	s.class(err, store.ErrUnavailable, ruleEnded)
	require.ErrorIs(s, err, ctx.Err(), ruleEnded)
	require.NotErrorIs(s, err, store.ErrUnclear, "rule S10: what fails before the statement is sent proves that it was not applied")
}

func endedContext(s *suite) {
	held := claim("held", long)
	old := s.grant(held)
	s.moment()
	for _, ctx := range s.endings() {
		_, err := s.st.Acquire(ctx, claim("job", long))
		s.ended(ctx, err)
		_, err = s.st.Acquire(ctx, claim("held", long))
		s.ended(ctx, err)
		_, err = s.st.Renew(ctx, []store.Claim{held})
		s.ended(ctx, err)
		_, err = s.st.Release(ctx, []store.Claim{held})
		s.ended(ctx, err)
	}
	s.sameRow(old, s.refuse(claim("held", long)), ruleEnded)
	s.grant(claim("job", long)) // refused if a row was created
}

func endedContextInspect(s *suite) {
	held := claim("held", long)
	s.grant(held)
	for _, ctx := range s.endings() {
		_, err := s.inspector().Get(ctx, "held")
		s.ended(ctx, err)
		_, err = s.inspector().Break(ctx, held.Name, held.Owner)
		s.ended(ctx, err)
		n := 0
		for _, err := range s.inspector().List(ctx, "") {
			n++
			s.ended(ctx, err)
		}
		require.Equal(s, 1, n, "an error ends the sequence")
	}
	s.holds(held, ruleEnded)
}
