package chaos

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/chaos_test/check"
	"github.com/aaravsoft/leasehold/chaos_test/history"
	"github.com/aaravsoft/leasehold/internal/mssqlsim"
)

// onSQL are the topologies of real time.
var onSQL = []struct {
	name string
	open func(t *testing.T, p profile, seed uint64) topology
}{
	{"one server", func(t *testing.T, p profile, _ uint64) topology { return newSQLServer(t, p.clients) }},
	{"REP-03 synchronous group, confirmed", sqlGroupOf(mssqlsim.Synchronous, byOwner)},
	{"REP-03 asynchronous group, confirmed", sqlGroupOf(mssqlsim.Asynchronous, byOwner)},
	{"REP-03 asynchronous group, not confirmed", sqlGroupOf(mssqlsim.Asynchronous, unconfirmed)},
}

func sqlGroupOf(mode mssqlsim.Mode, confirmed confirmation) func(t *testing.T, p profile, seed uint64) topology {
	return func(t *testing.T, p profile, seed uint64) topology {
		return newSQLGroup(t, groupOf{mode, confirmed}, seed, p.clients)
	}
}

// sqlRun is one run in real time.
type sqlRun struct {
	topology topology
	seed     uint64
	history  history.History
	err      error
}

// TestSQL drives its runs beside each other, because they mostly wait; and judges them afterwards, because that takes processors
// away from timers.
func TestSQL(t *testing.T) {
	t.Parallel() // with the processes, which wait as well
	p, seeds := inRealTime(), *seedsFlag
	if *durationFlag == 0 {
		seeds = min(seeds, 2) // the short run
	}
	const together = 8
	places := make(chan struct{}, together)
	runs := make([][]sqlRun, len(onSQL))
	var all sync.WaitGroup
	for i := range runs {
		runs[i] = make([]sqlRun, seeds)
		for n := range runs[i] {
			places <- struct{}{}
			r := &runs[i][n]
			r.seed = *seedFlag + uint64(n)
			r.topology = onSQL[i].open(t, p, r.seed)
			all.Go(func() {
				defer func() { <-places }()
				r.history, r.err = drive(p, r.seed, r.topology)
			})
		}
	}
	all.Wait()
	for i, topo := range onSQL {
		t.Run(topo.name, func(t *testing.T) { judgeAll(t, p, runs[i]) })
	}
}

func judgeAll(t *testing.T, p profile, runs []sqlRun) {
	var branches []map[string]int
	var overlap time.Duration
	for _, r := range runs {
		t.Run(fmt.Sprintf("seed %d", r.seed), func(t *testing.T) {
			require.NoError(t, r.err)
			branches = append(branches, check.Branches(r.history), struck(r.topology))
			for _, v := range check.Overlaps(r.history, 0) {
				overlap = max(overlap, v.Until-v.At)
			}
			report(t, command("TestSQL", p, r.seed), r.history, judge(t, r.history, p, r.topology.limits()))
		})
	}
	t.Logf("the longest overlap: %v; %d runs came to:\n%s", overlap, len(runs), check.Count(branches...))
}
