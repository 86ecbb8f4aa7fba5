package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/aaravsoft/leasehold/chaos_test/check"
	"github.com/aaravsoft/leasehold/chaos_test/history"
)

// failovers is a service whose database fails over all the time.
func failovers() profile {
	p := usual()
	p.work, p.quiet, p.breaks = 1.5, 400*time.Millisecond, 0
	return p
}

func TestGroup(t *testing.T) {
	t.Run("REP-03 confirmed", func(t *testing.T) {
		never := []string{
			"a lock was broken by an operator",              // there is none
			"a guard was lost: the row was somebody else's", // until its trust ends, all nodes have the row
		}
		var branches []map[string]int
		for seed := *seedFlag; more(seed, branches, never...); seed++ {
			t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
				p := failovers()
				var topo *group
				h, l := inBubble(t, p, seed, func() topology {
					topo = newGroup(byOwner, seed, p.clients)
					return topo
				})
				branches = append(branches, check.Branches(h), struck(topo))
				report(t, command("TestGroup", p, seed), h, judge(t, h, p, l))
			})
		}
		sometimes(t, branches, never...)
	})
	t.Run("REP-03 not confirmed: as long as the split, and then as long as the old holder trusts", func(t *testing.T) {
		var longest time.Duration
		for seed := *seedFlag; seed < *seedFlag+uint64(*seedsFlag); seed++ {
			p := failovers()
			h, l := inBubble(t, p, seed, func() topology { return newGroup(unconfirmed, seed, p.clients) })
			for _, v := range check.Overlaps(h, 0) {
				longest = max(longest, v.Until-v.At)
			}
			report(t, command("TestGroup", p, seed), h, judge(t, h, p, l))
		}
		t.Log("the longest overlap:", longest)
		assert.NotZero(t, longest, "that is what confirmation is for")
	})
}

// confirmations are ways to confirm that look right.
var confirmations = []struct {
	flaw   flaw
	how    confirmation
	caught []string
}{
	{"no confirmation under a failover that loses changes", unconfirmed, []string{check.OneHolder, check.Tokens}},
	{"confirmation of acquisitions only", grantsOnly, []string{check.OneHolder}},
	{"confirmation by row version", byRowVersion, []string{check.OneHolder}},
	{"confirmation by one replica of two", byOneReplica, []string{check.OneHolder}},
	{"confirmation by secondaries only", secondariesAreAll, []string{check.OneHolder}},
}

func TestConfirmations(t *testing.T) {
	for _, v := range confirmations {
		t.Run(string(v.flaw), func(t *testing.T) {
			huntFor(t, v.flaw, v.caught, func(seed uint64) (history.History, profile, limits) {
				p := failovers()
				h, l := inBubble(t, p, seed, func() topology { return newGroup(v.how, seed, p.clients) })
				l.overlap, l.unordered = 0, false
				return h, p, l
			})
		})
	}
}
