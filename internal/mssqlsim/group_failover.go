package mssqlsim

import (
	"fmt"
	"time"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
)

// Failover makes a synchronized secondary the primary, without loss of anything acknowledged: planned, or, when the
// primary is down, as the automatic failover of a real group. The old primary becomes a secondary.
func (g *Group) Failover(to string) error {
	next := g.member(to)
	g.changing.Lock()
	defer g.changing.Unlock()
	g.mu.Lock()
	old := g.primary
	switch {
	case g.split != nil:
		g.mu.Unlock()
		return fmt.Errorf("mssqlsim: failover to %s while %s is split off", to, g.split.Name)
	case next == old || next.role != RoleSecondary || next.down || !next.synchronized:
		g.mu.Unlock()
		return fmt.Errorf("mssqlsim: failover to %s, which is not a synchronized secondary", to)
	}
	g.demote(old)
	if !old.down {
		// Nothing more can come into this log, and nobody was told of what the secondary has not got yet; what is
		// here survives nevertheless.
		g.align(next)
		for _, record := range old.data().Log(next.hardened) {
			next.received, next.hardened = append(next.received, record), record.Sequence
		}
	}
	g.takeOver(next)
	g.mu.Unlock()
	g.resolve(next, old)
	return nil
}

// ForceFailover makes a node the primary as it is: what it has not received is lost. The old primary loses its clients
// and is resolving until Rejoin. Data movement to all others is suspended until Resume.
func (g *Group) ForceFailover(to string) error { return g.force(to, g.demote) }

// SplitFailover is ForceFailover of which the old primary does not learn: it goes on serving the clients that it has
// and those that come to it by NodeDSN, and takes their writes, until EndSplit.
func (g *Group) SplitFailover(to string) error {
	return g.force(to, func(old *member) { g.split = old })
}

func (g *Group) force(to string, part func(old *member)) error {
	next := g.member(to)
	g.changing.Lock()
	defer g.changing.Unlock()
	g.mu.Lock()
	old := g.primary
	var err error
	switch {
	case g.split != nil:
		err = fmt.Errorf("mssqlsim: forced failover to %s while %s is split off", to, g.split.Name)
	case next == old || next.down:
		err = fmt.Errorf("mssqlsim: forced failover to %s, which is the primary or down", to)
	}
	if err != nil {
		g.mu.Unlock()
		return err
	}
	part(old)
	for _, m := range g.members {
		if m != next && m != old {
			m.suspended = true
		}
	}
	g.takeOver(next)
	g.mu.Unlock()
	g.resolve(next)
	return nil
}

// EndSplit lets the old primary learn that it is none any more: it loses its clients, and is resolving until Rejoin.
func (g *Group) EndSplit() {
	g.changing.Lock()
	defer g.changing.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.split != nil {
		g.demote(g.split)
		g.split = nil
		g.broadcast()
	}
}

// Rejoin makes a former primary that is resolving a secondary of the present one. What it committed and the present one
// has not is thrown away before Rejoin returns.
func (g *Group) Rejoin(name string) error {
	m := g.member(name)
	g.changing.Lock()
	defer g.changing.Unlock()
	g.mu.Lock()
	refused := m.role != RoleResolving || m.down || g.primary.down
	if !refused {
		m.role, m.suspended, m.aligned, m.synchronized = RoleSecondary, false, false, false
		g.align(m)
		g.serve(m)
		g.advance(m)
		g.broadcast()
	}
	g.mu.Unlock()
	if refused {
		return fmt.Errorf("mssqlsim: %s cannot rejoin: it is not resolving, or it or the primary is down", name)
	}
	g.wakeAll()
	return nil
}

// Down kills a node: its connections are reset, its port refuses, no data moves from it or to it. What it has
// committed it keeps. If it is the primary, the group waits for it, or for a failover.
func (g *Group) Down(name string) {
	m := g.member(name)
	g.changing.Lock()
	defer g.changing.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	m.down = true
	if m != g.primary {
		m.synchronized = false
	}
	m.data().Demote()
	m.server.Wire.Refuse()
	g.cutBy(m, tds.RST)
	g.broadcast()
}

// Up brings a node back that was down: a primary as primary, a secondary as secondary, a primary from which the group
// has failed over meanwhile as secondary or, after a forced failover, resolving.
func (g *Group) Up(name string) {
	m := g.member(name)
	g.changing.Lock()
	defer g.changing.Unlock()
	g.change(func() {
		if !m.down {
			return
		}
		m.down = false
		m.server.Wire.Listen()
		if m.role == RolePrimary {
			g.open(m)
		}
		if m == g.primary {
			g.followAnew()
		}
		m.aligned = false
		g.align(m)
		g.serve(m)
	})
}

// demote ends a node's life as a primary.
func (g *Group) demote(m *member) {
	m.role = RoleResolving
	g.cut(m)
	m.data().Demote()
}

// cut ends every connection of a node, and lets nobody in until serve. Who is logged in already is among the
// connections, and who is not will find the state.
func (g *Group) cut(m *member) { g.cutBy(m, tds.FIN) }

func (g *Group) cutBy(m *member, how tds.Ending) {
	m.server.Node.SetState(engine.Resolving)
	m.server.Disconnect(how)
}

// takeOver makes a node that is cut off from its primary the primary of the group, not yet serving.
func (g *Group) takeOver(next *member) {
	g.cut(next)
	for _, record := range next.received {
		next.data().Redo(record)
	}
	next.received = nil
	g.primary = next
	g.promote(next)
	g.followAnew()
}

// promote makes a node take commits, in a term of its own.
func (g *Group) promote(m *member) {
	m.role, m.suspended, m.synchronized = RolePrimary, false, false
	g.open(m)
}

func (g *Group) open(m *member) {
	g.term++
	m.data().Promote(g.term, g.options.RowVersionReservation)
}

// followAnew makes every secondary compare what it has with what the primary of the group has now.
func (g *Group) followAnew() {
	for _, m := range g.members {
		m.aligned, m.synchronized = false, false
	}
	for _, m := range g.members {
		g.advance(m)
	}
	g.broadcast()
}

// resolve lets the time pass in which nobody serves, and then the new primary serve and the old one follow.
func (g *Group) resolve(next *member, old ...*member) {
	if g.options.Resolving > 0 {
		timer := time.NewTimer(g.options.Resolving)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-g.done:
			return
		}
	}
	g.change(func() {
		g.serve(next)
		for _, m := range old {
			m.role, m.aligned = RoleSecondary, false
			g.align(m)
			g.serve(m)
			g.advance(m)
		}
	})
}
