package chaos

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/chaos_test/check"
	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/mssql"
)

// sqlGroup is a simulated availability group, which the real driver talks to. It runs in real time.
type sqlGroup struct {
	wires
	group   *mssqlsim.Group
	stores  []*mssql.Store
	confirm bool
}

// split is the longest time for which two nodes serve.
const split = 1200 * time.Millisecond

// groupOf describes a group.
type groupOf struct {
	mode      mssqlsim.Mode
	confirmed confirmation // byOwner, or unconfirmed
}

func newSQLGroup(t *testing.T, of groupOf, seed uint64, clients int) *sqlGroup {
	rng := rand.New(rand.NewPCG(seed, 5))
	g := &sqlGroup{confirm: of.confirmed == byOwner}
	g.group = mssqlsim.NewGroup(mssqlsim.GroupOptions{
		Nodes:                 []mssqlsim.NodeOptions{{Name: "a", Mode: of.mode}, {Name: "b", Mode: of.mode}, {Name: "c", Mode: of.mode}},
		Server:                mssqlsim.Options{},
		SessionTimeout:        100 * time.Millisecond,
		Resolving:             time.Duration(rng.Int64N(int64(100 * time.Millisecond))),
		RowVersionReservation: []uint64{0, 4000}[rng.IntN(2)],
	})
	if of.mode == mssqlsim.Synchronous {
		g.group.SetRequiredSecondaries(rng.IntN(2))
	}
	for _, name := range g.group.Nodes() {
		server := g.group.Node(name)
		server.Node.Step(time.Duration(rng.Int64N(int64(skew))))
		g.servers = append(g.servers, server)
	}
	for i := range clients {
		var cfg mssql.Config
		if g.confirm {
			for _, name := range g.group.Nodes() {
				cfg.Replicas = append(cfg.Replicas, g.group.NodeDSN(name, "app name="+app(i)))
			}
		}
		st, err := mssql.Open(g.group.DSN("app name="+app(i)), cfg)
		require.NoError(t, err)
		require.NoError(t, st.EnsureSchema(t.Context()))
		g.stores = append(g.stores, st)
	}
	for _, name := range g.group.Nodes() {
		require.NoError(t, g.group.WaitApplied(t.Context(), name), "the table is everywhere")
	}
	return g
}

func (g *sqlGroup) store(i int) store.Store { return g.stores[i] }

func (g *sqlGroup) inspector() store.Inspector { return g.stores[0] }

func (g *sqlGroup) limits() limits {
	l := limits{
		late: 2 * longest, timers: time.Second, forks: true,
		clock: check.Clock{Skew: skew + 20*time.Millisecond, Grain: 2 * time.Millisecond},
	}
	if !g.confirm {
		l.unordered = true
		l.overlap = split + 1500*time.Millisecond // the split, then what the old holder trusts in
	}
	return l
}

func (g *sqlGroup) faults() []fault {
	return append(g.wires.faults(),
		fault{name: "planned failover", resource: role, longest: 50 * time.Millisecond, begin: g.planned, hits: g.tally.of("planned failover")},
		g.forced("forced failover", g.group.ForceFailover, func() {}),
		g.forced("forced failover, split", g.group.SplitFailover, g.group.EndSplit),
		fault{name: "a node is down", resource: role, longest: split, begin: g.down, hits: g.tally.of("a node is down")},
		g.node("a secondary lags", func(name string, rng *rand.Rand) func() {
			g.group.SetLag(name, time.Duration(rng.Int64N(int64(time.Second))))
			return func() { g.group.SetLag(name, 0) }
		}),
		g.node("the readers of a secondary lag", func(name string, rng *rand.Rand) func() {
			g.group.SetRedoLag(name, time.Duration(rng.Int64N(int64(time.Second))))
			return func() { g.group.SetRedoLag(name, 0) }
		}),
	)
}

// secondary draws one, or none.
func (g *sqlGroup) secondary(rng *rand.Rand) string {
	var names []string
	for _, name := range g.group.Nodes() {
		if g.group.Status(name).Role == mssqlsim.RoleSecondary {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return g.group.Primary()
	}
	return names[rng.IntN(len(names))]
}

func (g *sqlGroup) planned(rng *rand.Rand, _ int) func() {
	if g.group.Failover(g.secondary(rng)) == nil { // it is refused if the secondary is not synchronized
		g.tally.add("planned failover", 1)
	}
	return func() {}
}

// down takes a node away, and brings it back. If it is the primary, the group fails over if it can do so without loss.
func (g *sqlGroup) down(rng *rand.Rand, _ int) func() {
	nodes := g.group.Nodes()
	name := nodes[rng.IntN(len(nodes))]
	primary := g.group.Primary() == name
	g.group.Down(name)
	g.tally.add("a node is down", 1)
	if primary && rng.IntN(2) == 0 {
		_ = g.group.Failover(g.secondary(rng))
	}
	return func() {
		g.group.Up(name)
		g.mend()
	}
}

// mend lets every node follow the primary.
func (g *sqlGroup) mend() {
	for _, node := range g.group.Nodes() {
		if g.group.Status(node).Role == mssqlsim.RoleResolving {
			_ = g.group.Rejoin(node)
		}
		g.group.Resume(node)
	}
}

// forced is a failover to a node as it is, until everybody follows it.
func (g *sqlGroup) forced(name string, failover func(to string) error, end func()) fault {
	return fault{
		name: name, resource: role, longest: split, hits: g.tally.of(name),
		begin: func(rng *rand.Rand, _ int) func() {
			if failover(g.secondary(rng)) == nil {
				g.tally.add(name, 1)
			}
			return func() {
				end()
				g.mend()
			}
		},
	}
}

// node is a fault of one node, whatever its role.
func (g *sqlGroup) node(name string, begin func(node string, rng *rand.Rand) func()) fault {
	return fault{
		name: name, resource: name, longest: 2 * time.Second, hits: g.tally.of(name),
		begin: func(rng *rand.Rand, _ int) func() {
			g.tally.add(name, 1)
			nodes := g.group.Nodes()
			return begin(nodes[rng.IntN(len(nodes))], rng)
		},
	}
}

func (g *sqlGroup) settle() {}

func (g *sqlGroup) close() {
	for _, st := range g.stores {
		_ = st.Close()
	}
	g.group.Close()
}
