package check

import (
	"fmt"
	"math"
	"time"

	"github.com/aaravsoft/leasehold/chaos_test/history"
)

// never is the time of an answer that has not come.
const never = time.Duration(math.MaxInt64)

// Statement is one claim that was sent to the store, and its answer.
type Statement struct {
	history.Event // as it was sent

	Answered time.Duration // never: it was not
	Answer   history.Event
}

// done reports a success.
func (s Statement) done() bool { return s.Answered != never && s.Answer.Class == "" }

// unclear reports that nobody knows whether it was applied.
func (s Statement) unclear() bool { return s.Answered == never || s.Answer.Class == "unclear" }

// end is until when it may take effect.
func (s Statement) end(late time.Duration) time.Duration {
	if s.Answered < never-late && s.Answer.Detail == history.Abandoned {
		return s.Answered + late
	}
	return s.Answered
}

// refused reports a definite no.
func (s Statement) refused() bool {
	return s.Answered != never && (s.Answer.Class == "held" || s.Answer.Class == "lost" || s.Answer.Class == "not found")
}

// Statements returns what was sent to the store, in the order of the sends.
func Statements(h history.History) []Statement {
	var all []Statement
	index := map[call]int{}
	for _, e := range h.Events {
		switch e.Kind { //nolint:exhaustive // two of many
		case history.Sent:
			index[call{e.Client, e.ID}] = len(all)
			all = append(all, Statement{Event: e, Answered: never})
		case history.Answered:
			if i, ok := index[call{e.Client, e.ID}]; ok {
				all[i].Answered, all[i].Answer = e.At, e
			}
		}
	}
	return all
}

// OrphanRows finds rows that the store still shows as valid longer than a TTL after the last statement that could have
// written them. Such a row would be somebody's whom nobody renews. It assumes that a statement is executed before its
// answer, or late after it if it was abandoned, and that clocks of the store differ by skew at most.
func OrphanRows(h history.History, late, skew time.Duration) []Violation {
	statements := Statements(h)
	until := map[string]time.Duration{} // by owner: when its row has expired at the latest
	for _, s := range statements {
		if s.Op != history.Acquire && s.Op != history.Renew {
			continue
		}
		end := s.end(late)
		if end > never-s.TTL-skew {
			until[s.Owner] = never
			continue
		}
		until[s.Owner] = max(until[s.Owner], end+s.TTL+skew)
	}
	var found []Violation
	told := map[string]bool{}
	for _, s := range statements {
		row := s.Answer.Row
		if row == nil || row.Left <= 0 || told[row.Owner] {
			continue
		}
		if end, known := until[row.Owner]; known && s.At > end {
			told[row.Owner] = true
			found = append(found, Violation{
				Check: Orphans, At: s.At, Name: s.Name, Clients: []string{s.Client},
				Text: fmt.Sprintf("the row of %s is still valid for %v, though it was last written so long ago that it expired at %v", row.Owner, row.Left, end),
			})
		}
	}
	return sorted(found)
}

// BurntIDs finds owner ids that came back to life: an acquire that was sent with an id, or a guard that was made of one,
// after a release of it had been sent.
func BurntIDs(h history.History) []Violation {
	burnt := map[string]time.Duration{}
	var found []Violation
	for _, e := range h.Events {
		at, isBurnt := burnt[e.Owner]
		switch {
		case e.Kind == history.Sent && e.Op == history.Release:
			if !isBurnt {
				burnt[e.Owner] = e.At
			}
		case isBurnt && (e.Kind == history.Grant || e.Kind == history.Sent && e.Op == history.Acquire && e.Detail != history.Abandoned):
			found = append(found, Violation{
				Check: Burnt, At: e.At, Name: e.Name, Clients: []string{e.Client},
				Text: fmt.Sprintf("%s %s of %s, which was released at %v", e.Kind, e.Op, e.Owner, at),
			})
		}
	}
	return sorted(found)
}

// TrustEnds finds guards whose context lived on when the lock could no longer be trusted: longer than TTL − margin after the
// send of the last acquire or renewal that was known, by then, to have succeeded. It allows late for timers.
func TrustEnds(h history.History, margin func(ttl time.Duration) time.Duration, late time.Duration, pauses ...Pause) []Violation {
	known := map[string][]Statement{}
	for _, s := range Statements(h) {
		if s.done() && s.Op != history.Release {
			known[s.Owner] = append(known[s.Owner], s)
		}
	}
	var found []Violation
	for _, l := range Lives(h) {
		trust := l.TTL - margin(l.TTL)
		end := time.Duration(0)
		for _, s := range known[l.Owner] {
			// An answer counts if it came before the end of trust, and the grant's own in any case.
			if s.Op == history.Acquire && s.Answered <= l.At || s.Answered <= end {
				end = max(end, s.At+trust)
			}
		}
		if end == 0 || l.End <= end+late+paused(pauses, l.Client, "", end, l.End) {
			continue
		}
		found = append(found, Violation{
			Check: Trust, At: end, Until: l.End, Name: l.Name, Clients: []string{l.Client},
			Text: fmt.Sprintf("the context of %v lived for %v after its trust had ended", l, l.End-end),
		})
	}
	return sorted(found)
}
