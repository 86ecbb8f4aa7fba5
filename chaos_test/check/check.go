// Package check judges histories. Every checker is a pure function of a history, states what it assumes, and returns what
// contradicts it; none of them knows how locks are implemented.
package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/aaravsoft/leasehold/chaos_test/history"
)

// Violation is one thing that must not have happened.
type Violation struct {
	Check   string        // which checker says so
	At      time.Duration // when, in the run's time
	Until   time.Duration // zero: a moment
	Name    string        // of the lock
	Clients []string      // whose
	Text    string
}

func (v Violation) String() string {
	return fmt.Sprintf("%s at %.4f s: %q: %s", v.Check, v.At.Seconds(), v.Name, v.Text)
}

// The checkers, as violations name them.
const (
	OneHolder = "one holder"
	Tokens    = "tokens grow"
	Fencing   = "no stale write"
	Linear    = "linearizable"
	Free      = "free again"
	Orphans   = "no orphan"
	Burnt     = "burnt ids"
	Trust     = "own timer"
	Sometimes = "sometimes"
)

// Life is one grant, from the return of Lock to the end of its context.
type Life struct {
	history.Event // of the grant

	End   time.Duration // of the context; the end of the history if it was still live
	Ended bool
}

func (l Life) String() string { return fmt.Sprintf("%s (token %d, %s)", l.Client, l.Token, l.Owner) }

type call struct {
	client string
	id     int
}

// Lives returns the grants of a history, in their order.
func Lives(h history.History) []Life {
	var lives []Life
	index := map[call]int{}
	for _, e := range h.Events {
		switch e.Kind { //nolint:exhaustive // two of many
		case history.Grant:
			index[call{e.Client, e.ID}] = len(lives)
			lives = append(lives, Life{Event: e, End: h.End()})
		case history.End:
			if i, ok := index[call{e.Client, e.ID}]; ok {
				lives[i].End, lives[i].Ended = e.At, true
			}
		}
	}
	return lives
}

func byName(lives []Life) map[string][]Life {
	names := map[string][]Life{}
	for _, l := range lives {
		names[l.Name] = append(names[l.Name], l)
	}
	return names
}

// Pause is a time during which a client ran no code. An empty Client is all.
type Pause struct {
	Client   string
	From, To time.Duration
}

// Stalls are the pauses that the processes have noticed themselves, and a moment after each to catch up.
func Stalls(h history.History) []Pause {
	const moment = 50 * time.Millisecond
	var all []Pause
	for _, e := range h.Events {
		if e.Kind == history.Stall {
			all = append(all, Pause{Client: e.Client, From: e.At - e.TTL, To: e.At + moment})
		}
	}
	return all
}

// Overlaps finds guards of one name that were live together for longer than most: the exception that a topology's
// documentation states. The time for which one of the two clients was paused does not count: a stopped process does no
// work.
func Overlaps(h history.History, most time.Duration, pauses ...Pause) []Violation {
	var found []Violation
	for name, lives := range byName(Lives(h)) {
		for i, a := range lives {
			for _, b := range lives[i+1:] {
				from, to := max(a.At, b.At), min(a.End, b.End)
				if to-from-paused(pauses, a.Client, b.Client, from, to) <= most {
					continue
				}
				found = append(found, Violation{
					Check: OneHolder, At: from, Until: to, Name: name, Clients: []string{a.Client, b.Client},
					Text: fmt.Sprintf("%v and %v were live together for %v, %v is the most that may be", a, b, to-from, most),
				})
			}
		}
	}
	return sorted(found)
}

// paused is how much of a span one of two clients was paused.
func paused(pauses []Pause, a, b string, from, to time.Duration) time.Duration {
	var cuts []Pause
	for _, p := range pauses {
		p.From, p.To = max(p.From, from), min(p.To, to)
		if (p.Client == "" || p.Client == a || p.Client == b) && p.From < p.To {
			cuts = append(cuts, p)
		}
	}
	slices.SortFunc(cuts, func(x, y Pause) int { return int(x.From - y.From) })
	var sum time.Duration
	for _, p := range cuts {
		if p.From = max(p.From, from); p.From < p.To {
			sum += p.To - p.From
			from = p.To
		}
	}
	return sum
}

// TokensGrow finds grants whose token is not greater than that of every earlier grant of the name. It assumes that
// grants return in the order in which they were made; where guards do not overlap, they do.
func TokensGrow(h history.History) []Violation {
	var found []Violation
	for name, lives := range byName(Lives(h)) {
		greatest := lives[0]
		for _, l := range lives[1:] {
			if l.Token <= greatest.Token {
				found = append(found, Violation{
					Check: Tokens, At: l.At, Name: name, Clients: []string{greatest.Client, l.Client},
					Text: fmt.Sprintf("token %d of %s was granted after token %d of %s", l.Token, l.Owner, greatest.Token, greatest.Owner),
				})
				continue
			}
			greatest = l
		}
	}
	return sorted(found)
}

// StaleWrites finds writes that the protected resource accepted although a later grant had already written. It does not
// look at tokens, only at the order of grants.
func StaleWrites(h history.History) []Violation {
	order := map[call]int{}
	for i, l := range Lives(h) {
		order[call{l.Client, l.ID}] = i
	}
	var found []Violation
	latest := map[string]history.Event{}
	for _, e := range h.Events {
		if e.Kind != history.Write || e.Class == history.Stale {
			continue
		}
		last, written := latest[e.Name]
		if written && order[call{e.Client, e.ID}] < order[call{last.Client, last.ID}] {
			found = append(found, Violation{
				Check: Fencing, At: e.At, Name: e.Name, Clients: []string{last.Client, e.Client},
				Text: fmt.Sprintf("a write of %s (token %d) was accepted after one of the later grant %s (token %d)", e.Owner, e.Token, last.Owner, last.Token),
			})
			continue
		}
		latest[e.Name] = e
	}
	return sorted(found)
}

// FreeAgain finds names that were wanted in the run and that the client prober, who asks for each at the end, when all
// faults are healed and every TTL has passed, did not get.
func FreeAgain(h history.History, prober string) []Violation {
	free, last := map[string]bool{}, map[string]history.Event{}
	for _, e := range h.Events {
		switch {
		case e.Kind == history.Grant && e.Client == prober:
			free[e.Name] = true
		case e.Kind == history.Call || e.Kind == history.Refused && e.Client == prober:
			last[e.Name] = e
		}
	}
	var found []Violation
	for name, e := range last {
		if !free[name] {
			found = append(found, Violation{
				Check: Free, At: e.At, Name: name, Clients: []string{e.Client}, Text: "it did not become free: " + e.Detail,
			})
		}
	}
	return sorted(found)
}

func sorted(found []Violation) []Violation {
	slices.SortFunc(found, func(a, b Violation) int { return int(a.At - b.At) })
	return found
}
