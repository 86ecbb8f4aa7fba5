package chaos

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/chaos_test/check"
	"github.com/aaravsoft/leasehold/chaos_test/history"
)

// variants are mistakes made on purpose, and the checkers that must see each.
var variants = []struct {
	flaw   flaw
	work   float64 // as profile.work: what brings the mistake out
	caught []string
}{
	{noMargin, 2, []string{check.OneHolder, check.Trust}},
	{trustFromReply, 2, []string{check.OneHolder, check.Trust}},
	{endsWithCall, 2, []string{check.OneHolder, check.Trust}},
	{unlockLate, 0.5, []string{check.OneHolder}},
	{burntAgain, 0.5, []string{check.OneHolder, check.Burnt}},
	{renewAnyOwner, 2, []string{check.OneHolder, check.Linear}},
	{renewRevives, 2, []string{check.Linear}},
	{renewShortens, 2, []string{check.OneHolder, check.Linear}},
	{releaseAnyOwner, 0.5, []string{check.OneHolder, check.Linear}},
	{sweepBlindly, 0.5, []string{check.OneHolder, check.Linear}},
	{tokenResets, 0.5, []string{check.Tokens, check.Fencing, check.Linear}},
	{tokenEarly, 0.1, []string{check.Tokens, check.Linear}},
	{breakDeletes, 0.5, []string{check.OneHolder, check.Linear}},
}

// flawedRun drives a flawed client on a flawed table; one of them is right.
func flawedRun(t *testing.T, f flaw, work float64, seed uint64) (history.History, profile, limits) {
	p := usual()
	p.breaks, p.quiet, p.work = 5*time.Second, 300*time.Millisecond, work
	p.open = openFlawed(f)
	h, l := inBubble(t, p, seed, func() topology { return newLocking(f, p, seed) })
	return h, p, l
}

const (
	right = 6   // seeds of the control, in which nothing is wrong
	most  = 150 // seeds that a variant may need; the hardest needs ten on the average
)

func TestVariants(t *testing.T) {
	t.Run("none", func(t *testing.T) {
		for seed := range uint64(right) {
			h, p, l := flawedRun(t, "", 0.1+float64(seed%3), seed)
			report(t, "go test ./chaos_test -run TestVariants/none", h, judge(t, h, p, l))
		}
	})
	for _, v := range variants {
		t.Run(string(v.flaw), func(t *testing.T) {
			huntFor(t, v.flaw, v.caught, func(seed uint64) (history.History, profile, limits) { return flawedRun(t, v.flaw, v.work, seed) })
		})
	}
}

// huntFor runs seeds until all the checkers have seen a flaw.
func huntFor(t *testing.T, f flaw, checkers []string, run func(seed uint64) (history.History, profile, limits)) {
	caught := map[string]int{}
	for seed := range uint64(most) {
		h, p, l := run(seed)
		l.forks = l.forks || caught[check.Linear] > 0 // an illegal history can take long to convict: once is enough
		found, _ := violations(h, p, l, time.Second)
		for _, v := range found {
			caught[v.Check]++
		}
		if !slices.ContainsFunc(checkers, func(c string) bool { return caught[c] == 0 }) {
			t.Log(seed+1, "seeds:", caught)
			if *htmlFlag != "" {
				draw(t, string(f), h, found)
			}
			return
		}
	}
	for _, c := range checkers {
		assert.NotZero(t, caught[c], "%s does not see it: %v", c, caught)
	}
}

// TestReadme holds the table of the README against the one that is tested.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	for _, v := range variants {
		assert.Contains(t, string(text), fmt.Sprintf("| %s | %s |", v.flaw, strings.Join(v.caught, ", ")))
	}
	for _, v := range confirmations {
		assert.Contains(t, string(text), fmt.Sprintf("| %s | %s |", v.flaw, strings.Join(v.caught, ", ")))
	}
}
