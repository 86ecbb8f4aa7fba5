package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/aaravsoft/leasehold/internal/faultstore"
	"github.com/aaravsoft/leasehold/store"
)

// role is which node is the primary, as resource of a fault.
const role = "role"

func (g *group) faults() []fault {
	refused := &store.UnavailableError{Op: "chaos", Err: errNetwork}
	unclear := &store.UnavailableError{Op: "chaos", Err: errNetwork, Unclear: true}
	return []fault{
		g.network("connection refused", faultstore.Fault{Fail: refused}),
		g.network("answer lost", faultstore.Fault{Lose: unclear}),
		g.network("request held up", faultstore.Fault{HangBefore: true}),
		g.network("answer held up", faultstore.Fault{HangAfter: true}),
		{name: "planned failover", resource: role, longest: 500 * time.Millisecond, begin: g.planned, hits: g.tally.of("planned failover")},
		{name: "forced failover", resource: role, longest: 4 * time.Second, begin: g.forced, hits: g.tally.of("forced failover")},
		{name: "forced failover, split", resource: role, longest: g.splits, begin: g.split, hits: g.tally.of("forced failover, split")},
		g.lags(0), g.lags(1), g.lags(2),
		{name: "a node is out of reach for looks", longest: 5 * time.Second, begin: g.unreachable, hits: g.tally.of("out of reach")},
	}
}

func (g *group) network(name string, f faultstore.Fault) fault {
	return fault{
		name: name, longest: 3 * time.Second,
		begin: func(rng *rand.Rand, client int) func() {
			net := g.clients[client].net
			before := net.Hits()
			f := f
			f.Ops = ops[rng.IntN(len(ops))]
			net.Add(f)
			return func() {
				g.tally.add(name, net.Hits()-before)
				net.Clear()
				net.Free()
			}
		},
		hits: g.tally.of(name),
	}
}

// secondary draws one.
func (g *group) secondary(rng *rand.Rand) *member {
	for {
		if m := g.nodes[rng.IntN(len(g.nodes))]; m != g.first {
			return m
		}
	}
}

// planned fails over without loss. The clients find the new primary when it heals.
func (g *group) planned(rng *rand.Rand, _ int) func() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tally.add("planned failover", 1)
	old, next := g.first, g.secondary(rng)
	old.table.become(true) // from here on nothing changes
	for _, m := range g.nodes {
		m.follow(0)
	}
	g.promote(next)
	for _, m := range g.nodes {
		if m != next {
			g.join(m)
		}
	}
	for _, c := range g.clients {
		c.primary = nil
	}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, c := range g.clients {
			c.primary = g.first
		}
	}
}

// forced fails over to a secondary that may lack what the primary had granted: the old primary is dead. Until it heals the
// third node stays on the old fork, or is dead too.
func (g *group) forced(rng *rand.Rand, _ int) func() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tally.add("forced failover", 1)
	old, next := g.first, g.secondary(rng)
	next.follow(next.lag)
	old.dead = true
	old.table.become(true)
	g.leave(next, rng)
	g.promote(next)
	return g.rejoin
}

// leave keeps whoever follows the old primary where it is.
func (g *group) leave(next *member, rng *rand.Rand) {
	for _, m := range g.nodes {
		if m.source != nil && m != next {
			m.follow(m.lag)
			m.source = nil
			m.dead = rng.IntN(3) == 0
		}
	}
}

// split fails over while the old primary goes on serving some of the clients. The third node follows the one or the other, or nobody.
// A client may be cut off from the other side, or only not know that there is one.
func (g *group) split(rng *rand.Rand, _ int) func() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tally.add("forced failover, split", 1)
	old, next := g.first, g.secondary(rng)
	next.follow(next.lag)
	third := rng.IntN(3)
	if third != 0 {
		g.leave(next, rng)
	}
	g.promote(next)
	for _, m := range g.nodes {
		if m != old && m != next && third == 1 {
			g.join(m)
		}
	}
	for _, c := range g.clients {
		if rng.IntN(2) == 0 {
			c.primary = old
			if rng.IntN(2) == 0 {
				c.cut = []*member{next}
			}
		}
	}
	return g.rejoin
}

// rejoin ends a failover: everybody follows the new primary.
func (g *group) rejoin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.nodes {
		if m != g.first {
			g.join(m)
		}
	}
	for _, c := range g.clients {
		c.primary, c.cut = g.first, nil
	}
}

// lags is a node that falls behind, if it is a secondary.
func (g *group) lags(node int) fault {
	name := fmt.Sprintf("node %d lags", node)
	return fault{
		name: name, resource: name, longest: 6 * time.Second, hits: g.tally.of(name),
		begin: func(rng *rand.Rand, _ int) func() {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.tally.add(name, 1)
			m := g.nodes[node]
			was := m.lag
			m.lag = time.Duration(rng.Int64N(int64(4 * time.Second)))
			return func() {
				g.mu.Lock()
				defer g.mu.Unlock()
				m.lag = was
			}
		},
	}
}

// unreachable keeps a client from looking at a node.
func (g *group) unreachable(rng *rand.Rand, client int) func() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.tally.add("out of reach", 1)
	g.clients[client].cut = []*member{g.nodes[rng.IntN(len(g.nodes))]}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.clients[client].cut = nil
	}
}

func (g *group) settle() {
	for _, c := range g.clients {
		c.net.Clear()
	}
	time.Sleep(time.Second)
	for _, c := range g.clients {
		c.net.Free()
	}
}

func (g *group) close() { time.Sleep(time.Minute) }
