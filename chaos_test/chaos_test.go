package chaos

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/chaos_test/check"
	"github.com/aaravsoft/leasehold/chaos_test/history"
	"github.com/aaravsoft/leasehold/chaos_test/timeline"
	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store/memory"
)

var (
	seedFlag     = flag.Uint64("chaos.seed", 1, "the first seed")
	seedsFlag    = flag.Int("chaos.seeds", 10, "how many seeds, from the first")
	htmlFlag     = flag.String("chaos.html", "", "draw the last run into this file; a run that fails is drawn in any case")
	durationFlag = flag.Duration("chaos.duration", 0, "how long a run lasts, in its own time (default 60s of fake time, 5s of real time)")
)

// usual is a service on a bad day.
func usual() profile {
	return profile{
		clients: 4, workers: 2, names: 2,
		ttls:     []time.Duration{600 * time.Millisecond, 1500 * time.Millisecond, 4 * time.Second},
		duration: cmp.Or(*durationFlag, time.Minute), margin: margin, quiet: 700 * time.Millisecond, work: 0.5, breaks: 15 * time.Second,
		open: history.Mutex(mutex.Config{}),
	}
}

// margin is the client's rule: a tenth of the TTL, at least 50 ms.
func margin(ttl time.Duration) time.Duration { return max(ttl/10, 50*time.Millisecond) }

// judge runs all checkers, and insists that they come to a judgement.
func judge(t *testing.T, h history.History, p profile, l limits) []check.Violation {
	all, undecided := violations(h, p, l, 20*time.Second)
	require.Empty(t, undecided, "the histories of these names took too long to check")
	return all
}

func violations(h history.History, p profile, l limits, limit time.Duration) (all []check.Violation, undecided []string) {
	all = append(all, check.Overlaps(h, l.overlap, check.Stalls(h)...)...)
	if !l.unordered {
		all = append(all, check.TokensGrow(h)...)
		all = append(all, check.StaleWrites(h)...)
	}
	all = append(all, check.FreeAgain(h, prober)...)
	all = append(all, check.OrphanRows(h, l.late, 2*l.clock.Skew)...)
	all = append(all, check.BurntIDs(h)...)
	all = append(all, check.TrustEnds(h, p.margin, l.timers, check.Stalls(h)...)...)
	if l.forks {
		return all, nil
	}
	odd, undecided := check.Linearizable(h, l.clock, l.late, limit)
	return append(all, odd...), undecided
}

func TestOneNode(t *testing.T) {
	for _, tables := range []struct {
		name string
		open func(p profile, seed uint64) *oneNode
	}{
		{"memory", func(p profile, seed uint64) *oneNode { return newOneNode(memory.New(), seed, p.clients) }},
		{"rows that are locked", func(p profile, seed uint64) *oneNode { return newLocking("", p, seed) }},
	} {
		t.Run(tables.name, func(t *testing.T) {
			var branches []map[string]int
			for seed := *seedFlag; more(seed, branches); seed++ {
				t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
					p := usual()
					var topo *oneNode
					h, l := inBubble(t, p, seed, func() topology {
						topo = tables.open(p, seed)
						return topo
					})
					branches = append(branches, check.Branches(h), struck(topo))
					report(t, command("TestOneNode/"+tables.name, p, seed), h, judge(t, h, p, l))
				})
			}
			sometimes(t, branches)
		})
	}
}

// TestClockStep is about what is not promised: a clock of the store that is ahead by more than the margin.
func TestClockStep(t *testing.T) {
	var longest time.Duration
	for seed := *seedFlag; seed < *seedFlag+uint64(*seedsFlag); seed++ {
		p := usual()
		p.quiet, p.work = 300*time.Millisecond, 2
		h, l := inBubble(t, p, seed, func() topology {
			n := newOneNode(memory.New(), seed, p.clients)
			n.skew = time.Second
			return n
		})
		for _, v := range check.Overlaps(h, 0) {
			longest = max(longest, v.Until-v.At)
		}
		report(t, command("TestClockStep", p, seed), h, judge(t, h, p, l))
	}
	t.Log("the longest overlap:", longest)
	assert.NotZero(t, longest, "it would be a promise that can be kept")
}

// command runs one seed again.
func command(test string, p profile, seed uint64) string {
	return fmt.Sprintf("go test ./chaos_test -run '%s' -chaos.seed %d -chaos.seeds 1 -chaos.duration %v", test, seed, p.duration)
}

// report fails the test for what was found, and draws it; and what was not, if it is wanted. again is what runs it again.
func report(t *testing.T, again string, h history.History, found []check.Violation) {
	t.Helper()
	for _, v := range found {
		t.Errorf("%v\n%s", v, around(h, v))
	}
	if len(found) > 0 || *htmlFlag != "" {
		draw(t, again, h, found)
	}
}

// around is what was recorded of a lock shortly before and after a violation.
func around(h history.History, v check.Violation) string {
	const near, most = 300 * time.Millisecond, 60
	var lines []string
	for _, e := range h.Events {
		if e.Name == v.Name && e.At > v.At-near && e.At < max(v.At, v.Until)+near/3 {
			lines = append(lines, e.String())
		}
	}
	return strings.Join(lines[:min(len(lines), most)], "\n")
}

// draw writes the page of a run: into the file that was asked for, or into one of its own.
func draw(t *testing.T, title string, h history.History, found []check.Violation) {
	t.Helper()
	file := *htmlFlag
	if file == "" {
		file = filepath.Join(os.TempDir(), "chaos-"+strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())+".html")
	}
	f, err := os.Create(file)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, timeline.Write(f, title, h, found))
	t.Logf("drawn in %s: %s", file, title)
}

// patience is how many times as many seeds may be needed until each rare branch was met.
const patience = 10

// more says whether another seed is to be run: until as many were as are wanted, and until each branch was met.
func more(seed uint64, branches []map[string]int, never ...string) bool {
	n := int(seed - *seedFlag)
	return n < *seedsFlag || *seedsFlag > 1 && n < *seedsFlag*patience && len(missing(branches, never)) > 0
}

// missing are the branches that were not met, without those that a topology never meets.
func missing(branches []map[string]int, never []string) []string {
	return slices.DeleteFunc(check.Missing(branches...), func(b string) bool { return slices.Contains(never, b) })
}

// sometimes insists that several runs together have met every branch.
func sometimes(t *testing.T, branches []map[string]int, never ...string) {
	t.Helper()
	t.Logf("%d runs came to:\n%s", len(branches)/2, check.Count(branches...))
	if *seedsFlag > 1 && !t.Failed() {
		assert.Empty(t, missing(branches, never), "never met: nothing here has tested it")
	}
}

// inBubble drives a run in fake time.
func inBubble(t *testing.T, p profile, seed uint64, open func() topology) (h history.History, l limits) {
	synctest.Test(t, func(t *testing.T) {
		topo := open()
		l = topo.limits()
		var err error
		h, err = drive(p, seed, topo)
		require.NoError(t, err)
	})
	return h, l
}

// struck counts the faults that have struck something.
func struck(topo topology) map[string]int {
	n := map[string]int{}
	for _, f := range topo.faults() {
		n["fault: "+f.name] = f.hits()
	}
	return n
}
