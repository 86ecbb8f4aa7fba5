package check_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/chaos_test/check"
	"github.com/aaravsoft/leasehold/chaos_test/history"
)

const (
	ms  = time.Millisecond
	ttl = time.Second
)

// story builds a history of the lock "x".
type story struct {
	start  time.Time
	events []history.Event
}

func newStory() *story { return &story{start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (s *story) history() history.History { return history.History{Start: s.start, Events: s.events} }

func (s *story) add(at time.Duration, e history.Event) *story {
	e.At, e.Name, e.TTL = at, "x", ttl
	s.events = append(s.events, e)
	return s
}

// of is an event of a client's one call of Lock.
func (s *story) of(at time.Duration, k history.Kind, client string, token uint64) *story {
	return s.add(at, history.Event{Kind: k, Client: client, ID: 1, Owner: client + "/1", Token: token})
}

// asks is a statement, sent at a moment and answered 2 ms later with the row as it is then.
func (s *story) asks(at time.Duration, op, owner, class string, row *history.Row) *story {
	e := history.Event{Kind: history.Sent, Client: owner, ID: len(s.events) + 100, Op: op, Owner: owner}
	s.add(at, e)
	e.Kind, e.Class, e.Row = history.Answered, class, row
	return s.add(at+2*ms, e)
}

// row is one that was shown at a moment.
func (s *story) row(owner string, at, expires time.Duration, version uint64) *history.Row {
	return &history.Row{Owner: owner, Expires: s.start.Add(expires), Left: max(0, expires-at), Version: version}
}

func TestOverlaps(t *testing.T) {
	s := newStory().of(0, history.Grant, "a", 1).of(100*ms, history.Grant, "b", 2).of(150*ms, history.End, "a", 1).of(200*ms, history.End, "b", 2)
	found := check.Overlaps(s.history(), 0)
	require.Len(t, found, 1)
	assert.Equal(t, 100*ms, found[0].At)
	assert.Equal(t, 150*ms, found[0].Until)
	assert.Empty(t, check.Overlaps(s.history(), 50*ms), "as long as is allowed")
	assert.Empty(t, check.Overlaps(s.history(), 0, check.Pause{Client: "a", From: 90 * ms, To: 160 * ms}), "a did nothing meanwhile")
	assert.Empty(t, check.Overlaps(s.history(), 20*ms, check.Pause{Client: "a", From: 90 * ms, To: 115 * ms}, check.Pause{From: 110 * ms, To: 130 * ms}),
		"pauses that overlap count once")
	assert.Len(t, check.Overlaps(s.history(), 19*ms, check.Pause{Client: "a", From: 90 * ms, To: 115 * ms}, check.Pause{From: 110 * ms, To: 130 * ms}), 1)

	never := newStory().of(0, history.Grant, "a", 1).of(100*ms, history.Grant, "b", 2).of(200*ms, history.End, "b", 2)
	assert.Len(t, check.Overlaps(never.history(), 0), 1, "a context that never ended lives until the end")
}

func TestTokensAndWrites(t *testing.T) {
	s := newStory().of(0, history.Grant, "a", 5).of(1*ms, history.End, "a", 5).of(2*ms, history.Grant, "b", 5)
	assert.Len(t, check.TokensGrow(s.history()), 1)
	assert.Empty(t, check.StaleWrites(s.of(3*ms, history.Write, "b", 5).history()))
	assert.Len(t, check.StaleWrites(s.of(4*ms, history.Write, "a", 5).history()), 1)
	refused := newStory().of(0, history.Grant, "a", 1).of(2*ms, history.Grant, "b", 2).of(3*ms, history.Write, "b", 2).
		add(4*ms, history.Event{Kind: history.Write, Client: "a", ID: 1, Class: history.Stale})
	assert.Empty(t, check.StaleWrites(refused.history()))
}

func TestFreeAgain(t *testing.T) {
	s := newStory().of(0, history.Call, "a", 0).of(1*ms, history.Call, "end", 0).of(2*ms, history.Refused, "end", 0)
	assert.Len(t, check.FreeAgain(s.history(), "end"), 1)
	assert.Empty(t, check.FreeAgain(s.of(3*ms, history.Grant, "end", 9).history(), "end"))
}

func TestOwnersAndTrust(t *testing.T) {
	s := newStory()
	s.asks(0, history.Acquire, "a/1", "", s.row("a/1", 1*ms, 1001*ms, 1)).of(2*ms, history.Grant, "a", 1)
	margin := func(time.Duration) time.Duration { return 100 * ms }
	assert.Empty(t, check.TrustEnds(newStoryWith(s).of(900*ms, history.End, "a", 1).history(), margin, 0))
	assert.Len(t, check.TrustEnds(newStoryWith(s).of(901*ms, history.End, "a", 1).history(), margin, 0), 1)
	renewed := newStoryWith(s).asks(500*ms, history.Renew, "a/1", "", s.row("a/1", 501*ms, 1501*ms, 0)).of(1400*ms, history.End, "a", 1)
	assert.Empty(t, check.TrustEnds(renewed.history(), margin, 0))

	seen := newStoryWith(s).asks(1100*ms, history.Acquire, "b/1", "held", s.row("a/1", 1101*ms, 1300*ms, 0))
	assert.Len(t, check.OrphanRows(seen.history(), 0, 0), 1, "somebody has extended it")
	assert.Empty(t, check.OrphanRows(seen.history(), 0, 200*ms))

	burnt := newStoryWith(s).asks(10*ms, history.Release, "a/1", "", s.row("a/1", 11*ms, 1001*ms, 0))
	assert.Empty(t, check.BurntIDs(burnt.history()))
	assert.Len(t, check.BurntIDs(burnt.asks(20*ms, history.Acquire, "a/1", "unclear", nil).history()), 1)
}

// newStoryWith is a copy that can go on in another way.
func newStoryWith(s *story) *story {
	return &story{start: s.start, events: append([]history.Event(nil), s.events...)}
}

func TestLinearizable(t *testing.T) {
	judge := func(s *story, late time.Duration) int {
		found, undecided := check.Linearizable(s.history(), check.Clock{}, late, time.Minute)
		require.Empty(t, undecided)
		return len(found)
	}
	first := newStory()
	first.asks(0, history.Acquire, "a", "", first.row("a", 1*ms, 1001*ms, 1))
	held := func(s *story, at time.Duration, by string, expires time.Duration) *story {
		return s.asks(at, history.Acquire, "c", "held", s.row(by, at+ms, expires, 0))
	}
	for name, c := range map[string]struct {
		story *story
		odd   int
	}{
		"a live row refuses":     {held(newStoryWith(first), 10*ms, "a", 1001*ms), 0},
		"with another expiry":    {held(newStoryWith(first), 10*ms, "a", 1002*ms), 1},
		"taken while it is live": {newStoryWith(first).asks(10*ms, history.Acquire, "b", "", first.row("b", 11*ms, 1011*ms, 2)), 1},
		"taken at its expiry":    {newStoryWith(first).asks(1000*ms, history.Acquire, "b", "", first.row("b", 1001*ms, 2001*ms, 2)), 0},
		"a token again":          {newStoryWith(first).asks(1000*ms, history.Acquire, "b", "", first.row("b", 1001*ms, 2001*ms, 1)), 1},
		"renewed":                {held(newStoryWith(first).asks(10*ms, history.Renew, "a", "", first.row("a", 11*ms, 1011*ms, 0)), 20*ms, "a", 1011*ms), 0},
		"shortened":              {newStoryWith(first).asks(10*ms, history.Renew, "a", "", first.row("a", 11*ms, 1000*ms, 0)), 1},
		"renewed when expired":   {newStoryWith(first).asks(1010*ms, history.Renew, "a", "", first.row("a", 1011*ms, 2011*ms, 0)), 1},
		"renewed by another":     {newStoryWith(first).asks(10*ms, history.Renew, "b", "", first.row("b", 11*ms, 1011*ms, 0)), 1},
		"lost though it is live": {newStoryWith(first).asks(10*ms, history.Renew, "a", "lost", nil), 1},
		"released by another":    {newStoryWith(first).asks(10*ms, history.Release, "b", "", first.row("a", 11*ms, 1001*ms, 0)), 1},
		"an unclear release, done": {
			newStoryWith(first).asks(10*ms, history.Release, "a", "unclear", nil).asks(20*ms, history.Acquire, "b", "", first.row("b", 21*ms, 1021*ms, 2)), 0,
		},
		"an unclear release, not done":             {held(newStoryWith(first).asks(10*ms, history.Release, "a", "unclear", nil), 20*ms, "a", 1001*ms), 0},
		"an unclear acquire of a row that is live": {held(newStoryWith(first).asks(10*ms, history.Acquire, "b", "unclear", nil), 20*ms, "b", 1011*ms), 1},
		"broken":  {held(newStoryWith(first).asks(10*ms, history.Break, "a", "", first.row("broken/1", 11*ms, 1001*ms, 0)), 20*ms, "broken/1", 1001*ms), 0},
		"deleted": {newStoryWith(first).asks(10*ms, history.Break, "a", "", first.row("broken/1", 11*ms, 1001*ms, 0)).asks(20*ms, history.Acquire, "b", "", first.row("b", 21*ms, 1021*ms, 2)), 1},
	} {
		t.Run(name, func(t *testing.T) { assert.Equal(t, c.odd, judge(c.story, 0)) })
	}

	t.Run("abandoned, and executed late", func(t *testing.T) {
		s := newStory().asks(0, history.Acquire, "a", "unclear", nil)
		s.events[1].Detail = history.Abandoned
		held(s, 100*ms, "a", 1050*ms)
		assert.Zero(t, judge(s, 100*ms))
		free := newStoryWith(s).asks(50*ms, history.Acquire, "b", "", s.row("b", 51*ms, 1051*ms, 1))
		assert.Equal(t, 1, judge(free, 100*ms), "a cannot have it when b has")
	})
}
