package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aaravsoft/leasehold/chaos_test/history"
)

// Branches counts how often a run came to what is rare: what none of many runs ever meets, none of them has tested. It
// returns a count for every branch that it knows, also zero.
func Branches(h history.History) map[string]int {
	n := map[string]int{
		"a lock was waited for and granted":                          0,
		"a wait was given up while the lock was held":                0,
		"a wait was given up while the store was unavailable":        0,
		"a grant after an unclear acquire of the same owner":         0,
		"an acquire was answered after its caller had left":          0,
		"a row was taken over at its expiry":                         0,
		"a guard was at risk and became safe again":                  0,
		"a guard was lost: not confirmed until the end of its trust": 0,
		"a guard was lost: the row was somebody else's":              0,
		"a release was unclear":                                      0,
		"a release was not confirmed to the caller":                  0,
		"a release came too late":                                    0,
		"a lost guard was unlocked":                                  0,
		"a stale write was refused":                                  0,
		"a lock was broken by an operator":                           0,
		"a grant was given back, unconfirmed or too late":            0,
		"a refusal named a row that its own client had given up":     0,
	}
	b := branches{n: n, unclear: map[string]bool{}, granted: map[string]bool{}, burnt: map[string]string{}, last: map[string]string{}, called: map[call]time.Duration{}, lost: map[call]bool{}}
	for _, e := range h.Events {
		b.see(e)
	}
	return n
}

// Missing names the branches, of several runs together, that were never met.
func Missing(runs ...map[string]int) []string {
	sum := map[string]int{}
	for _, r := range runs {
		for name, n := range r {
			sum[name] += n
		}
	}
	maps.DeleteFunc(sum, func(_ string, n int) bool { return n > 0 })
	return slices.Sorted(maps.Keys(sum))
}

type branches struct {
	n       map[string]int
	unclear map[string]bool   // owners with an unclear acquire
	granted map[string]bool   // owners that the store has granted something, and that are no guard yet
	burnt   map[string]string // owners that were released, and by which client
	last    map[string]string // the owner whose row stands, by name, as far as answers tell
	called  map[call]time.Duration
	lost    map[call]bool
}

func (b *branches) see(e history.Event) {
	switch e.Kind { //nolint:exhaustive // those that say something
	case history.Call:
		b.called[call{e.Client, e.ID}] = e.At
	case history.Sent:
		if e.Op == history.Release {
			b.burnt[e.Owner] = e.Client
			if b.granted[e.Owner] {
				b.n["a grant was given back, unconfirmed or too late"]++
				delete(b.granted, e.Owner)
			}
		}
	case history.Answered:
		b.answered(e)
	case history.Grant:
		delete(b.granted, e.Owner)
		if e.At-b.called[call{e.Client, e.ID}] > 100*time.Millisecond {
			b.n["a lock was waited for and granted"]++
		}
		if b.unclear[e.Owner] {
			b.n["a grant after an unclear acquire of the same owner"]++
		}
	case history.Refused:
		switch e.Class {
		case "held":
			b.n["a wait was given up while the lock was held"]++
		case "unavailable", "unclear":
			b.n["a wait was given up while the store was unavailable"]++
		}
	case history.Safe:
		b.n["a guard was at risk and became safe again"]++
	case history.Lost:
		b.lost[call{e.Client, e.ID}] = true
		switch e.Detail {
		case "unconfirmed":
			b.n["a guard was lost: not confirmed until the end of its trust"]++
		case "taken":
			b.n["a guard was lost: the row was somebody else's"]++
		}
	case history.Unlock:
		if b.lost[call{e.Client, e.ID}] {
			b.n["a lost guard was unlocked"]++
		}
	case history.Unlocked:
		if e.Class == "unavailable" || e.Class == "unclear" {
			b.n["a release was not confirmed to the caller"]++
		}
	case history.Write:
		if e.Class == history.Stale {
			b.n["a stale write was refused"]++
		}
	}
}

func (b *branches) answered(e history.Event) {
	switch {
	case e.Op == history.Acquire && e.Class == "":
		b.grant(e)
	case e.Op == history.Acquire && e.Class == "unclear":
		b.unclear[e.Owner] = true
	case e.Op == history.Acquire && e.Row != nil:
		b.last[e.Name] = e.Row.Owner
		if b.burnt[e.Row.Owner] == e.Client {
			b.n["a refusal named a row that its own client had given up"]++
		}
	case e.Op == history.Release && e.Class == "unclear":
		b.n["a release was unclear"]++
	case e.Op == history.Release && e.Class == "lost":
		b.n["a release came too late"]++
	case e.Op == history.Release && e.Class == "" && b.last[e.Name] == e.Owner:
		delete(b.last, e.Name)
	case e.Op == history.Break && e.Class == "":
		b.n["a lock was broken by an operator"]++
	}
	if e.Op == history.Acquire && b.burnt[e.Owner] != "" {
		b.n["an acquire was answered after its caller had left"]++
	}
}

func (b *branches) grant(e history.Event) {
	if before := b.last[e.Name]; before != "" && before != e.Owner && b.burnt[before] == "" {
		b.n["a row was taken over at its expiry"]++
	}
	b.last[e.Name], b.granted[e.Owner] = e.Owner, true
}

// Count is the counts of several runs, for people.
func Count(runs ...map[string]int) string {
	sum := map[string]int{}
	for _, r := range runs {
		for name, n := range r {
			sum[name] += n
		}
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sum)) {
		fmt.Fprintf(&text, "%7d  %s\n", sum[name], name)
	}
	return text.String()
}
