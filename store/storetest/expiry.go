package storetest

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

const (
	ruleExpired = "rule S2: at Expires <= now a lease is expired for everybody: Renew fails and Acquire wins"
	ruleLate    = "rule S3: the new Expires is now+TTL if that is later; else the old value if it is at most now+2*TTL; else now+TTL"
)

// expiryCases is rules S2 and S3.
func expiryCases() []testCase {
	cases := []testCase{
		{name: "expired for everybody", run: expiredForEverybody},
		{name: "expired at Expires, not before", needs: exact, run: expiredAtExpires},
		{name: "Left counts down", needs: exact, run: leftCountsDown},
		{name: "CLK-04 clock steps over the expiry", needs: steps, run: stepOverExpiry},
		{name: "clock steps back before another's claim", needs: steps, run: stepBackForeign},
	}
	for _, again := range []struct {
		op   string
		send func(s *suite, c store.Claim) store.Lease
	}{
		{"renew", func(s *suite, c store.Claim) store.Lease { return s.holds(c, ruleLate) }},
		{"acquire again", func(s *suite, c store.Claim) store.Lease { return s.grant(c) }},
	} {
		cases = append(cases,
			testCase{name: again.op + " never shortens", run: func(s *suite) { neverShortens(s, again.send) }},
			testCase{name: again.op + " after a step", needs: steps, run: func(s *suite) { extendsAfterStep(s, again.send) }},
		)
	}
	return cases
}

func expiredForEverybody(s *suite) {
	c := claim("job", s.h.Short)
	s.expire(s.grant(c))
	s.lost(s.renew(c), ruleExpired)
	s.grant(claim("job", long))
	s.refuse(c)
}

func expiredAtExpires(s *suite) {
	const ttl = 10 * time.Second
	tick := time.Millisecond + s.h.Granularity
	live, late, taken := claim("live", ttl), claim("late", ttl), claim("taken", ttl)
	s.grant(live)
	s.grant(late)
	s.grant(taken)

	s.elapse(ttl - tick)
	s.holds(live, "rule S2: a lease is valid until Expires")
	shown := s.refuse(claim("taken", ttl))
	require.InDelta(s, tick, shown.Left, float64(s.h.Granularity), ruleLeft)

	s.elapse(tick + s.h.Granularity)
	s.lost(s.renew(late), ruleExpired)
	s.grant(claim("taken", ttl))
}

func leftCountsDown(s *suite) {
	s.grant(claim("job", 10*time.Second))
	s.elapse(3 * time.Second)
	require.InDelta(s, 7*time.Second, s.refuse(claim("job", long)).Left, float64(s.h.Granularity), ruleLeft)
	s.elapse(4 * time.Second)
	require.InDelta(s, 3*time.Second, s.refuse(claim("job", long)).Left, float64(s.h.Granularity), ruleLeft)
}

// neverShortens needs no wait: that the second request comes a little later than the first takes nothing from any line
// of its table.
func neverShortens(s *suite, send func(*suite, store.Claim) store.Lease) {
	for i, line := range []struct {
		first, second time.Duration
		keeps         bool // the old Expires
	}{
		{first: 60 * time.Minute, second: 90 * time.Minute},
		{first: 60 * time.Minute, second: 60 * time.Minute},
		{first: 60 * time.Minute, second: 59 * time.Minute, keeps: true},
		{first: 60 * time.Minute, second: 40 * time.Minute, keeps: true},
		{first: 60 * time.Minute, second: 30 * time.Minute, keeps: true}, // the old value is now+2*TTL, at most
		{first: 60 * time.Minute, second: 29 * time.Minute},              // it is farther away
		{first: 24 * time.Hour, second: time.Minute},
	} {
		c := claim(fmt.Sprintf("line %d", i), line.first)
		old := s.grant(c)
		s.moment()
		c.TTL = line.second
		l := send(s, c)

		rule := fmt.Sprintf("%s: TTL was %v, is %v", ruleLate, line.first, line.second)
		if line.keeps {
			s.sameTime(old.Expires, l.Expires, rule)
		} else {
			s.expiresAfter(line.second, l, rule)
		}
		require.True(s, l.Renewed.After(old.Renewed), "rule S5: Renew changes Renewed")
		s.sameRow(l, s.refuse(claim(c.Name, long)), rule)
	}
}

func extendsAfterStep(s *suite, send func(*suite, store.Claim) store.Lease) {
	const ttl = 30 * time.Minute
	for i, line := range []struct {
		step  time.Duration
		keeps bool // the old Expires
	}{
		{step: 20 * time.Minute},
		{step: time.Minute},
		{step: -10 * time.Minute, keeps: true},
		{step: -30*time.Minute + 30*time.Second, keeps: true},
		{step: -31 * time.Minute},
		{step: -12 * time.Hour},
	} {
		c := claim(fmt.Sprintf("line %d", i), ttl)
		old := s.grant(c)
		s.step(line.step)
		l := send(s, c)
		s.step(-line.step)

		rule := fmt.Sprintf("%s: the clock stepped by %v", ruleLate, line.step)
		if line.keeps {
			s.sameTime(old.Expires, l.Expires, rule)
		} else {
			s.expiresAfter(ttl, l, rule)
		}
		s.sameTime(old.Acquired, l.Acquired, "rule S5: Acquired stays")
	}
}

func stepOverExpiry(s *suite) {
	mine, other := claim("job", 30*time.Minute), claim("job", 30*time.Minute)
	s.grant(mine)
	s.step(40 * time.Minute)
	s.lost(s.renew(mine), ruleExpired)
	l := s.grant(other)
	s.expiresAfter(other.TTL, l, ruleFresh)
	shown := s.lost(s.renew(mine), ruleExpired)
	require.Equal(s, other.Owner, shown.Owner, "a lost renewal shows the row now under that name")
}

func stepBackForeign(s *suite) {
	mine := claim("job", 30*time.Minute)
	old := s.grant(mine)
	s.step(-12 * time.Hour)
	shown := s.refuse(claim("job", 30*time.Minute))
	s.sameRow(old, shown, "rule S2: a lease keeps its Expires when the clock steps")
	require.Greater(s, shown.Left, mine.TTL, ruleLeft)

	l := s.grant(claim("new job", 30*time.Minute))
	s.expiresAfter(30*time.Minute, l, ruleFresh)
}
