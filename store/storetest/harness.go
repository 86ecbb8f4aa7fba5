package storetest

import (
	"cmp"
	"testing"
	"time"

	"github.com/aaravsoft/leasehold/store"
)

// Harness says how to get at the store under test, and what it can do. Only Open is required.
type Harness struct {
	// Open returns an empty store. Each case opens its own; what must be closed is closed in t.Cleanup.
	Open func(t *testing.T) store.Store

	// Exec runs one case; nil calls f(t). A store that can live in a bubble passes synctest.Test.
	Exec func(t *testing.T, f func(t *testing.T))

	// Second opens another client of first's data, as another process would, and closes it in t.Cleanup. Nil: the
	// cases with two clients use one store for both.
	Second func(t *testing.T, first store.Store) store.Store

	// Elapse lets at least d pass on the store's clock. Nil: time.Sleep(d), which is right inside a bubble and for a
	// store with a real clock. A store whose clock can be set moves it instead.
	Elapse func(t *testing.T, st store.Store, d time.Duration)

	// StepClock moves the store's clock by d, forward or back, while no time passes. Nil: it cannot be done, and the
	// cases about steps are skipped.
	StepClock func(t *testing.T, st store.Store, d time.Duration)

	// Exact: the store's clock stands still except for Elapse and StepClock, so that times can be compared exactly
	// and a lease can be looked at in the instant of its expiry.
	Exact bool

	// Granularity is the resolution of the times in a Lease. Zero: they are exact.
	Granularity time.Duration

	// Short is the TTL of leases that a case lets expire. No case relies on such a lease to be valid at some point, so
	// it only has to be worth waiting for: it is waited out some 100 times in all. Zero: 20 ms.
	Short time.Duration

	// Slack is added to each wait for an expiry, for clocks that do not run alike. Zero: 2 ms. Not used if Exact.
	Slack time.Duration

	// Racers is the number of goroutines that compete for a name. Zero: 16.
	Racers int

	// Rounds is how often a case of chance is repeated. Zero: 20.
	Rounds int

	// PageSize is the number of rows that List reads at a time, or a bit more. The suite lists more than two such
	// pages. Zero: 100.
	PageSize int

	// CoarseNames: the collation of the name column does not tell upper from lower case.
	CoarseNames bool

	// NoInspector: the store has no [store.Inspector], nor a store that it wraps.
	NoInspector bool
}

func (h Harness) withDefaults() Harness {
	h.Short = cmp.Or(h.Short, 20*time.Millisecond)
	h.Slack = cmp.Or(h.Slack, 2*time.Millisecond)
	h.Racers = cmp.Or(h.Racers, 16)
	h.Rounds = cmp.Or(h.Rounds, 20)
	h.PageSize = cmp.Or(h.PageSize, 100)
	if h.Exec == nil {
		h.Exec = func(t *testing.T, f func(t *testing.T)) { f(t) }
	}
	if h.Elapse == nil {
		h.Elapse = func(_ *testing.T, _ store.Store, d time.Duration) { time.Sleep(d) }
	}
	if h.Second == nil {
		h.Second = func(_ *testing.T, first store.Store) store.Store { return first }
	}
	return h
}

// Run checks the store of h. It is the one entry point of this package.
func Run(t *testing.T, h Harness) {
	h = h.withDefaults()
	for _, family := range []struct {
		name  string
		cases []testCase
	}{
		{"acquire", acquireCases()},
		{"expiry", expiryCases()},
		{"renew", renewCases()},
		{"release", releaseCases()},
		{"tokens", tokenCases()},
		{"batches", batchCases()},
		{"validation", validationCases()},
		{"names", nameCases()},
		{"metadata", metadataCases()},
		{"inspector", inspectorCases()},
		{"concurrency", concurrencyCases()},
	} {
		t.Run(family.name, func(t *testing.T) {
			for _, c := range family.cases {
				t.Run(c.name, func(t *testing.T) { c.runIn(t, h) })
			}
		})
	}
}

// needs is what a case cannot do without.
type needs uint8

const (
	inspector needs = 1 << iota
	steps
	exact
	exactNames
)

type testCase struct {
	name  string
	needs needs
	run   func(s *suite)
}

func (c testCase) runIn(t *testing.T, h Harness) {
	switch {
	case c.needs&inspector != 0 && h.NoInspector:
		t.Skip("Harness.NoInspector")
	case c.needs&steps != 0 && h.StepClock == nil:
		t.Skip("no Harness.StepClock")
	case c.needs&exact != 0 && !h.Exact:
		t.Skip("not Harness.Exact")
	case c.needs&exactNames != 0 && h.CoarseNames:
		t.Skip("Harness.CoarseNames")
	}
	h.Exec(t, func(t *testing.T) {
		c.run(&suite{T: t, h: h, st: h.Open(t)})
	})
}
