package heartbeat

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/aaravsoft/leasehold/store"
)

// planner decides who is renewed when. It is pure: it has no clock, no goroutine and no lock, is told what happened, and
// says what to do. Times are readings of the boot clock, which goes on while the machine is suspended.
type planner struct {
	groups [64]*group     // by ⌊log2 R⌋; nil if it never had members
	random func() float64 // from [0, 1)
}

// group is the targets that are renewed together.
type group struct {
	members []*entry
	round   time.Duration // when the next round begins
	retry   time.Duration // when the first of those that failed is to be repeated; never if none
}

// entry is what the planner knows of a target.
type entry struct {
	target   Target
	claim    store.Claim
	interval time.Duration // R
	trust    time.Duration // L − M
	gone     atomic.Bool   // removed; written with the scheduler's mutex held, and read by those who do not hold it

	group *group // nil once removed
	index int    // in group.members

	renewed time.Duration // send time of the newest success
	due     time.Duration // when it should be sent next, if nothing has failed since

	failures int           // in a row
	opens    time.Duration // with failures: it may be repeated from here on, together with others
	retry    time.Duration // with failures: it is to be repeated then
	timedOut bool          // with failures: the last one was a whole call that ran into its limit

	flying bool // taken by a round and not yet answered or abandoned
	calls  int  // calls that have not returned: the one that is flying, and abandoned ones
}

const (
	never    = time.Duration(math.MaxInt64)
	maxCalls = 4 // outstanding per target: some that hang, and a replacement

	jitter     = 0.1 // of an interval, in either direction
	minBackoff = 25 * time.Millisecond
	maxBackoff = time.Second
	// minChance is the least trust with which another attempt is still begun: it bounds the number of attempts, each
	// of which leaves a part of what was left.
	minChance = 10 * time.Millisecond
)

// round is what is to be sent now: targets of one group, all of them simply due, or all to be repeated.
type round struct {
	entries []*entry
	pieces  int // the least number of calls to make of it, if it has as many targets
}

// pieces is how many calls are made of one that ran into its limit. Not more, for it may as well be the database that
// has too much to do.
const pieces = 8

// add takes in a target whose lease was requested at sent.
func (p *planner) add(e *entry, sent time.Duration) {
	slot := &p.groups[bits.Len64(uint64(e.interval))-1]
	if *slot == nil {
		*slot = &group{round: never, retry: never}
	}
	g := *slot
	e.group, e.index = g, len(g.members)
	g.members = append(g.members, e)
	e.renewed, e.due = sent, sent+e.interval
	p.fit(e)
}

func (p *planner) remove(e *entry) {
	g := e.group
	if g == nil {
		return
	}
	last := len(g.members) - 1
	g.members[e.index] = g.members[last]
	g.members[e.index].index = e.index
	g.members[last] = nil
	g.members = g.members[:last]
	e.group = nil
	e.gone.Store(true)
	if last == 0 {
		g.round, g.retry = never, never
	}
}

// next takes what is to be sent now, and says when to ask again.
func (p *planner) next(now time.Duration) (rounds []round, wake time.Duration) {
	for _, g := range p.groups {
		if g == nil {
			continue
		}
		if g.round <= now {
			if due := p.begin(g, now); len(due) > 0 {
				rounds = append(rounds, round{due, 1})
			}
		}
		if g.retry <= now {
			failed, suspects := g.repeat(now)
			if len(failed) > 0 {
				rounds = append(rounds, round{failed, 1})
			}
			if len(suspects) > 0 {
				rounds = append(rounds, round{suspects, pieces})
			}
		}
	}
	return rounds, p.wake()
}

// wake is when something may be due.
func (p *planner) wake() time.Duration {
	wake := never
	for _, g := range p.groups {
		if g != nil {
			wake = min(wake, g.round, g.retry)
		}
	}
	return wake
}

// begin draws the time of the next round, and takes everybody who cannot wait for it.
func (p *planner) begin(g *group, now time.Duration) []*entry {
	shortest := never
	for _, e := range g.members {
		shortest = min(shortest, e.interval)
	}
	g.round = now + shortest + p.drawJitter(shortest)
	due := make([]*entry, 0, len(g.members))
	for _, e := range g.members {
		if e.idle() && e.failures == 0 && e.due <= g.round {
			due = append(due, e.take())
		}
	}
	return due
}

// repeat takes those that failed and may be repeated, also if their own time has not quite come: that way they become
// one batch. One of the suspects may be the reason why a call that had all of them ran into its limit.
func (g *group) repeat(now time.Duration) (failed, suspects []*entry) {
	g.retry = never
	for _, e := range g.members {
		switch {
		case !e.idle() || e.failures == 0:
		case e.opens > now:
			g.retry = min(g.retry, e.retry)
		case e.timedOut:
			suspects = append(suspects, e.take())
		default:
			failed = append(failed, e.take())
		}
	}
	return failed, suspects
}

func (e *entry) idle() bool { return !e.flying && e.calls < maxCalls }

func (e *entry) take() *entry {
	e.flying = true
	e.calls++
	return e
}

// fit makes sure that its group's timer does not miss the target. It is called whenever a target may have become idle,
// or its time may have changed.
func (p *planner) fit(e *entry) {
	g := e.group
	switch {
	case g == nil || !e.idle():
	case e.failures > 0:
		g.retry = min(g.retry, e.retry)
	case g.round > e.due+time.Duration(jitter*float64(e.interval)):
		g.round = e.due + p.drawJitter(e.interval)
	}
}

// ending says in which way a call came to an end, or did not.
type ending int

const (
	returned  ending = iota
	abandoned        // it goes on behind
	late             // it was abandoned, and has returned now
	unsent           // it was not begun after all: nothing is left of the target's trust, or too little
)

// answer is what a call means for one target.
type answer struct {
	entry   *entry
	verdict verdict
	failure failure
}

type verdict int

const (
	nothing verdict = iota // no news
	renewed
	failed
	lost // the target is removed
)

// failure is what matters of one for the next attempt.
type failure struct {
	left     time.Duration // trust left
	after    time.Duration // what the store asked for: not before this long from now
	timedOut bool          // the whole call ran into its limit
}

// answer takes in what became of a call that was sent at sent.
func (p *planner) answer(now, sent time.Duration, end ending, answers []answer) {
	random := p.random() // the same for all, so that they stay together
	for _, a := range answers {
		e := a.entry
		if e.group == nil {
			continue // removed meanwhile
		}
		if end != late {
			e.flying = false
		}
		if end != abandoned {
			e.calls--
		}
		switch {
		case end == unsent:
			e.rest(now)
		case a.verdict == renewed && sent > e.renewed: // an older one changes nothing
			e.renewed, e.due = sent, sent+e.interval
			e.failures, e.timedOut = 0, false
		case a.verdict == failed:
			e.fail(now, a.failure, random)
		}
		p.fit(e)
	}
}

// fail plans the repetition.
func (e *entry) fail(now time.Duration, f failure, random float64) {
	if f.left < minChance {
		e.rest(now)
		return
	}
	backoff := min(minBackoff<<min(e.failures, 10), maxBackoff, e.interval)
	e.failures++
	e.timedOut = f.timedOut
	// However long the store asks us to wait: another attempt must fit well before the end of trust.
	last := now + f.left/2
	e.opens = min(now+f.after+backoff/2, last)
	e.retry = min(now+f.after+backoff/2+time.Duration(random*float64(backoff/2)), last)
}

// rest leaves a target alone that can hardly be saved: it is looked at again an interval later, unless it is removed
// before or the late answer of an abandoned call saves it after all.
func (e *entry) rest(now time.Duration) {
	e.failures, e.timedOut = 0, false
	e.due = now + e.interval
}

// hurry moves a target's times after clocks were set: from due to the end of trust, which is left away, it is as far as
// it would be had they not been.
func (p *planner) hurry(e *entry, now, left time.Duration) {
	e.due = min(e.due, now+left-(e.trust-e.interval))
	e.opens, e.retry = min(e.opens, now+left/2), min(e.retry, now+left/2)
	p.fit(e)
}

// drawJitter returns up to ± 10 % of an interval.
func (p *planner) drawJitter(interval time.Duration) time.Duration {
	return time.Duration(jitter * (2*p.random() - 1) * float64(interval))
}
