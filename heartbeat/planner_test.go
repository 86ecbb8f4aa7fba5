package heartbeat

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/clock"
	"github.com/aaravsoft/leasehold/store"
)

// model is a client without goroutines: it does what the plan says, against a store whose answers are drawn, and checks
// at each step that the plan keeps its promises.
type model struct {
	t       *testing.T
	rng     *rand.Rand
	plan    planner
	now     time.Duration
	events  []event
	targets []*lease
	stable  bool // nothing fails and nobody comes or goes

	rounds map[int]int // regular rounds, by group
	reach  map[string]int
}

type event struct {
	at time.Duration
	do func()
}

// lease is a target of the model, and what the model remembers of it.
type lease struct {
	entry    *entry
	deadline time.Duration
	over     bool // removed or lost

	sends    int
	ready    time.Duration // since when it could be sent: the answer or the return that made it idle
	last     time.Duration // last success, by its send
	failures int
	failed   failure
	failedAt time.Duration
	calls    int
	flying   bool
	resting  bool
}

func (*lease) Claim() store.Claim                 { return store.Claim{} }
func (*lease) Deadline() clock.Instant            { return clock.Instant{} }
func (*lease) Renewed(clock.Instant, store.Lease) {}
func (*lease) Failed(error)                       {}
func (*lease) Lost(store.Lease, error)            {}
func (*lease) Leaked() bool                       { return false }

func newModel(t *testing.T, seed uint64) *model {
	rng := rand.New(rand.NewPCG(seed, 1))
	return &model{t: t, rng: rng, plan: planner{random: rng.Float64}, rounds: map[int]int{}, reach: map[string]int{}}
}

func (m *model) check(ok bool, format string, args ...any) {
	if !ok {
		m.t.Helper()
		require.FailNow(m.t, fmt.Sprintf(format, args...), "at %v", m.now)
	}
}

func (m *model) after(d time.Duration, do func()) {
	m.events = append(m.events, event{m.now + d, do})
}

// add takes a lease that was granted some time ago.
func (m *model) add(interval, trust, ago time.Duration) *lease {
	l := &lease{ready: m.now, last: m.now - ago, deadline: m.now - ago + trust}
	l.entry = &entry{target: l, interval: interval, trust: trust}
	m.targets = append(m.targets, l)
	m.plan.add(l.entry, l.last)
	return l
}

func (m *model) remove(l *lease) {
	l.over = true
	m.plan.remove(l.entry)
}

// run goes on until a time, from event to event.
func (m *model) run(until time.Duration) {
	for {
		rounds, wake := m.plan.next(m.now)
		for _, r := range rounds {
			m.round(r)
		}
		m.check(wake > m.now, "the plan wants to be asked again at %v already", wake)
		for _, e := range m.events {
			wake = min(wake, e.at)
		}
		if wake > until {
			m.now = until
			return
		}
		m.now = wake
		var due []event
		m.events = slices.DeleteFunc(m.events, func(e event) bool {
			if e.at <= m.now {
				due = append(due, e)
			}
			return e.at <= m.now
		})
		slices.SortStableFunc(due, func(a, b event) int { return cmp.Compare(a.at, b.at) })
		for _, e := range due {
			e.do()
		}
	}
}

func (m *model) round(r round) {
	group := bits.Len64(uint64(r.entries[0].interval))
	var asks []ask
	repeats := r.entries[0].failures > 0
	for _, e := range r.entries {
		l := e.target.(*lease)
		m.check(bits.Len64(uint64(e.interval)) == group, "a round mixes groups")
		m.check(repeats == (e.failures > 0), "a round mixes what failed with what did not")
		m.taken(l)
		if left := l.deadline - m.now; left > 0 {
			asks = append(asks, ask{e, left})
		} else {
			l.flying, l.calls, l.resting = false, l.calls-1, true
			m.plan.answer(m.now, 0, unsent, []answer{{entry: e}})
			m.reach["rested"]++
		}
	}
	if !repeats {
		m.rounds[group]++
	}
	calls := batches(asks, r.pieces)
	if !repeats {
		m.check(len(calls) == (len(asks)+store.MaxBatch-1)/store.MaxBatch, "%d calls for %d targets", len(calls), len(asks))
	}
	m.check(len(calls) <= max(pieces, (len(asks)+store.MaxBatch-1)/store.MaxBatch), "%d calls for %d targets", len(calls), len(asks))
	n, before := 0, time.Duration(0)
	for _, b := range calls {
		m.check(len(b.entries) <= store.MaxBatch, "a batch of %d", len(b.entries))
		n += len(b.entries)
		for i, e := range b.entries {
			left := e.target.(*lease).deadline - m.now
			m.check(left >= before, "a less urgent target goes first")
			before = left
			if i == 0 {
				m.check(b.limit <= maxAttempt && b.limit <= max(left/3, min(minAttempt, left/2)), "limit %v with %v left", b.limit, left)
				m.check(b.limit <= e.trust/3 || b.limit <= minAttempt, "limit %v with trust of %v in all", b.limit, e.trust)
			}
		}
		m.send(b)
	}
	m.check(n == len(asks), "%d of %d targets sent", n, len(asks))
}

// taken checks rule 15 for one target.
func (m *model) taken(l *lease) {
	const rounding = 2 * time.Nanosecond
	e := l.entry
	m.check(!l.over, "a target is renewed that was removed or lost")
	m.check(!l.flying, "a target is sent that was not answered and not abandoned")
	m.check(l.calls < maxCalls, "too many calls for one target")
	tenth := time.Duration(float64(e.interval) / 10)
	switch {
	case l.resting:
	case l.failures == 0:
		m.check(m.now <= max(l.last+e.interval+tenth+rounding, l.ready), "a target with R %v is sent %v after its last success and %v after it was ready",
			e.interval, m.now-l.last, m.now-l.ready)
	default:
		backoff := min(25*time.Millisecond<<(min(l.failures, 10)-1), time.Second, e.interval)
		half := l.failed.left / 2
		waited := m.now - l.failedAt
		m.check(waited >= min(l.failed.after+backoff/2, half), "repeated after %v already, back-off %v", waited, backoff)
		m.check(waited <= min(l.failed.after+backoff, half)+rounding || m.now == l.ready, "repeated after %v, back-off %v, half of what is left %v", waited, backoff, half)
	}
	l.flying, l.resting = true, false
	l.calls++
	l.sends++
	if l.calls > 1 {
		m.reach["replaced"]++
	}
}

func (m *model) send(b batch) {
	sent := m.now
	latency := time.Duration(m.rng.ExpFloat64() * float64(b.limit) / 4)
	luck := m.rng.Float64()
	if m.stable {
		latency, luck = min(latency, b.limit/2), 1
	}
	answer := func(end ending) func() {
		return func() { m.answer(b, sent, end, luck < 0.2, end == late && m.rng.IntN(3) == 0) }
	}
	if latency < b.limit {
		m.after(latency, answer(returned))
		return
	}
	m.after(b.limit, answer(abandoned))
	if m.rng.IntN(3) > 0 {
		m.after(b.limit+time.Duration(m.rng.ExpFloat64()*float64(b.limit)), answer(late))
	} // else it hangs for ever
}

// answer draws what the store says of each row.
func (m *model) answer(b batch, sent time.Duration, end ending, trouble, whole bool) {
	var answers []answer
	after := time.Duration(m.rng.IntN(2)) * time.Duration(m.rng.Int64N(int64(10*time.Second)))
	for _, e := range b.entries {
		l := e.target.(*lease)
		if end != late {
			l.flying = false
		}
		if end != abandoned {
			if l.calls == maxCalls && !l.flying {
				l.ready = m.now
			}
			l.calls--
		}
		a := answer{entry: e, verdict: renewed}
		switch {
		case l.over:
			continue
		case end == abandoned || end != late && trouble && m.rng.IntN(2) == 0:
			a.verdict = failed
			a.failure = failure{left: l.deadline - m.now, after: after, timedOut: end == abandoned}
		case whole:
			a.verdict = nothing
		case !m.stable && m.rng.IntN(500) == 0:
			m.remove(l)
			m.reach["lost"]++
			continue
		}
		m.learn(l, a, sent, end)
		answers = append(answers, a)
	}
	m.plan.answer(m.now, sent, end, answers)
}

func (m *model) learn(l *lease, a answer, sent time.Duration, end ending) {
	switch {
	case a.verdict == renewed && sent > l.last:
		if m.now < l.deadline {
			l.deadline = max(l.deadline, sent+l.entry.trust)
		}
		if end == late {
			m.reach["saved late"]++
		}
		l.last, l.failures, l.resting = sent, 0, false
		l.ready = m.now
	case a.verdict == failed && a.failure.left < minChance:
		m.reach["given up"]++
		l.failures, l.resting = 0, true
	case a.verdict == failed:
		l.failures++
		l.failed, l.failedAt = a.failure, m.now
	}
}

func logUniform(rng *rand.Rand, low, high time.Duration) time.Duration {
	return time.Duration(float64(low) * math.Pow(float64(high)/float64(low), rng.Float64()))
}

func TestPlanKeepsItsPromisesWhateverHappens(t *testing.T) {
	const seeds = 150
	ran, reached := 0, map[string]int{}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			ran++
			m := newModel(t, seed)
			longest := logUniform(m.rng, 100*time.Millisecond, time.Minute)
			for range 1 + m.rng.IntN(60) {
				interval := logUniform(m.rng, 20*time.Millisecond, longest)
				trust := time.Duration(float64(interval) * (1.7 + 3*m.rng.Float64()))
				m.after(time.Duration(m.rng.Int64N(int64(3*longest))), func() {
					l := m.add(interval, trust, time.Duration(m.rng.Int64N(int64(trust-interval))))
					if m.rng.IntN(3) == 0 {
						m.after(time.Duration(m.rng.Int64N(int64(10*longest))), func() { m.remove(l) })
					}
				})
			}
			m.run(20 * longest)
			for what, n := range m.reach {
				reached[what] += n
			}
			for _, l := range m.targets {
				m.remove(l)
			}
			_, wake := m.plan.next(m.now)
			m.check(wake == never, "without targets the plan wakes at %v", wake)
		})
	}
	if ran < seeds {
		return // -run has chosen some
	}
	for _, what := range []string{"rested", "replaced", "lost", "saved late", "given up"} {
		assert.NotZero(t, reached[what], "the rare case %q was never reached", what)
	}
}

func TestPlanBoundsTheRounds(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			m := newModel(t, seed)
			m.stable = true
			shortest := map[int]time.Duration{}
			for range 1 + m.rng.IntN(1200) {
				interval := logUniform(m.rng, time.Second, 16*time.Second)
				group := bits.Len64(uint64(interval))
				if s, ok := shortest[group]; !ok || interval < s {
					shortest[group] = interval
				}
				m.add(interval, 3*interval, time.Duration(m.rng.Int64N(int64(interval/2))))
			}
			m.run(20 * time.Second) // each has had its first round
			clear(m.rounds)
			before := map[*lease]int{}
			for _, l := range m.targets {
				before[l] = l.sends
			}
			const span = 200 * time.Second
			m.run(m.now + span)
			for group, n := range m.rounds {
				periods := float64(span) / float64(shortest[group])
				assert.InDelta(t, periods, n, 0.1*periods+2, "rounds of the group with R ≥ %v", shortest[group])
			}
			for _, l := range m.targets {
				own := float64(span) / float64(l.entry.interval)
				assert.GreaterOrEqual(t, float64(l.sends-before[l]), own/1.1-1, "R %v", l.entry.interval)
				assert.LessOrEqual(t, float64(l.sends-before[l]), 2*own/0.9+2, "R %v", l.entry.interval)
			}
		})
	}
}

func TestPlanLeavesLongIntervalsAloneBesideAShortOne(t *testing.T) {
	m := newModel(t, 1)
	m.stable = true
	const n = 10_000
	for range n {
		m.add(10*time.Second, 27*time.Second, time.Duration(m.rng.Int64N(int64(time.Second))))
	}
	short := m.add(66*time.Millisecond, 150*time.Millisecond, 0)
	m.run(100 * time.Second)
	for _, l := range m.targets[:n] {
		require.InDelta(t, 10, l.sends, 1.5)
	}
	assert.InDelta(t, 100_000/66, short.sends, 30)
}

func TestPlanOfANewTargetMovesTheRound(t *testing.T) {
	m := newModel(t, 3)
	m.stable = true
	m.add(15*time.Second, 40*time.Second, 0)
	m.run(time.Second)
	late := m.add(9*time.Second, 25*time.Second, 7*time.Second)
	m.run(time.Second + 9*time.Second*11/10 - 7*time.Second + time.Nanosecond)
	assert.Equal(t, 1, late.sends, "sent at last 1.1 R after its acquire")
	assert.Zero(t, m.targets[0].sends, "the other one could wait for the next round")
}

func TestPlanAfterClocksWereSet(t *testing.T) {
	p := planner{random: func() float64 { return 0.5 }}
	e := &entry{interval: 10 * time.Second, trust: 27 * time.Second}
	p.add(e, 0)
	p.hurry(e, time.Second, 26*time.Second)
	_, wake := p.next(time.Second)
	assert.Equal(t, 10*time.Second, wake, "nothing was set")

	p.hurry(e, time.Second, 21*time.Second)
	_, wake = p.next(time.Second)
	assert.Equal(t, 5*time.Second, wake, "the wall clock went forward by 5 s, so trust ends 5 s earlier")

	p.hurry(e, time.Second, 9*time.Second)
	rounds, _ := p.next(time.Second)
	assert.Len(t, rounds, 1, "no time to lose")

	p.answer(2*time.Second, time.Second, returned, []answer{{entry: e, verdict: failed, failure: failure{left: 20 * time.Second, after: 8 * time.Second}}})
	p.hurry(e, 2*time.Second, 2*time.Second)
	_, wake = p.next(2 * time.Second)
	assert.Equal(t, 3*time.Second, wake, "what waits for a repetition waits for half of what is left")
}

func TestWhatFailsInDifferentCallsIsRepeatedTogether(t *testing.T) {
	p := planner{random: func() float64 { return 0.9 }}
	fails := func(at time.Duration) {
		e := &entry{interval: time.Second, trust: 3 * time.Second}
		p.add(e, -100*time.Millisecond)
		p.next(time.Second)
		p.answer(time.Second+at, time.Second, returned, []answer{{entry: e, verdict: failed, failure: failure{left: time.Second}}})
	}
	fails(0)
	fails(10 * time.Millisecond)
	fails(15 * time.Millisecond)
	_, wake := p.next(time.Second + 15*time.Millisecond)
	require.Equal(t, time.Second+23750*time.Microsecond, wake, "when the first is due")
	rounds, _ := p.next(wake)
	require.Len(t, rounds, 1)
	assert.Len(t, rounds[0].entries, 2, "the second is after half of its back-off, the third is not")
}

func TestSuspectsAreRepeatedApart(t *testing.T) {
	p := planner{random: rand.Float64}
	var answers []answer
	for i := range 1000 {
		e := &entry{interval: time.Second, trust: 3 * time.Second}
		p.add(e, 0)
		answers = append(answers, answer{entry: e, verdict: failed, failure: failure{left: time.Second, timedOut: i >= 400}})
	}
	p.next(1100 * time.Millisecond)
	p.answer(1200*time.Millisecond, 1100*time.Millisecond, returned, answers)
	rounds, _ := p.next(1225 * time.Millisecond)
	require.Len(t, rounds, 2)
	sizes := func(r round) (sizes []int) {
		var asks []ask
		for _, e := range r.entries {
			asks = append(asks, ask{e, time.Second})
		}
		for _, b := range batches(asks, r.pieces) {
			sizes = append(sizes, len(b.entries))
		}
		return sizes
	}
	assert.Equal(t, []int{400}, sizes(rounds[0]))
	assert.Equal(t, []int{75, 75, 75, 75, 75, 75, 75, 75}, sizes(rounds[1]))
}

func TestLimit(t *testing.T) {
	for left, want := range map[time.Duration]time.Duration{
		0:                     0,
		8 * time.Millisecond:  4 * time.Millisecond,
		20 * time.Millisecond: 10 * time.Millisecond,
		27 * time.Millisecond: 10 * time.Millisecond,
		90 * time.Millisecond: 30 * time.Millisecond,
		15 * time.Second:      5 * time.Second,
		23 * time.Hour:        10 * time.Second,
	} {
		assert.Equal(t, want, limit(left), "%v left", left)
	}
}
