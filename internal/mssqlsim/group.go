package mssqlsim

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
)

// Mode is when a primary tells its client that a transaction is committed.
type Mode uint8

// The modes.
const (
	Synchronous  Mode = iota // when the secondary has it too, as long as the secondary keeps up
	Asynchronous             // at once
)

// Readable is who may log in to a node while it is a secondary.
type Readable uint8

// The settings; who may not gets 978, or 976.
const (
	ReadableByAll Readable = iota
	ReadableByIntent
	NotReadable
)

// NodeOptions is one node of a group.
type NodeOptions struct {
	Name     string
	Mode     Mode // counts if the primary of the time is synchronous too
	Readable Readable
}

// GroupOptions of an availability group; the zero value is fine.
type GroupOptions struct {
	Nodes []NodeOptions // default: a, b and c, synchronous and readable; the first is the primary

	// Server is what every node is made of, its name apart. Content, if any, is copied to each of them.
	Server Options

	// SessionTimeout is how long a commit waits for a synchronous secondary before it goes on without, default 300 ms.
	SessionTimeout time.Duration

	// Resolving is how long nobody serves the database during a failover.
	Resolving time.Duration

	// RowVersionReservation is the number of row versions that a primary reserves in the log at a time: a new primary,
	// or one that was down, goes on at the next multiple, SQL Server's being some 4000. 0 = right behind the last
	// record that it has.
	RowVersionReservation uint64
}

// Group is an availability group with its listener. Its methods can be called from any goroutine. A name that no node
// has makes them panic.
type Group struct {
	options GroupOptions
	content *rows.Database // what every node began with
	members []*member

	listener net.Listener
	running  sync.WaitGroup
	done     chan struct{}
	closing  sync.Once

	changing sync.Mutex // held by a change of roles as long as it lasts, before mu

	mu       sync.Mutex
	primary  *member // whom the secondaries follow and the listener leads to
	split    *member // a former primary that does not know it yet, nil = none
	term     uint64
	required int
	changed  chan struct{} // closed and replaced whenever somebody may have waited for it
}

// member is a node of a group.
type member struct {
	NodeOptions
	server *Server
	wake   chan struct{} // there may be something to do for its shipping goroutine

	// Guarded by Group.mu.
	role         Role
	down         bool
	suspended    bool
	lag, redoLag time.Duration
	hardened     int64         // number of the last record that it has
	received     []rows.Record // those of them that are not redone
	aligned      bool          // what it has is the beginning of the primary's log
	synchronized bool
	fallbacks    int
}

func (m *member) data() *rows.Database { return m.server.Node.Data() }

// Role is what a node takes itself for.
type Role uint8

// The roles.
const (
	RolePrimary Role = iota
	RoleSecondary
	RoleResolving // neither: a former primary after a forced failover, until Rejoin
)

// NewGroup starts a group. It panics if that is impossible, as httptest does.
func NewGroup(options GroupOptions) *Group {
	if len(options.Nodes) == 0 {
		options.Nodes = []NodeOptions{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	}
	options.SessionTimeout = cmp.Or(options.SessionTimeout, 300*time.Millisecond)
	g := &Group{options: options, content: options.Server.Node.Content, done: make(chan struct{}), changed: make(chan struct{})}
	if g.content == nil {
		g.content = rows.New()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, one := range options.Nodes {
		g.members = append(g.members, g.newMember(one))
	}
	g.primary = g.members[0]
	g.promote(g.primary)
	g.serve(g.primary)
	for _, m := range g.members[1:] {
		m.role, m.synchronized = RoleSecondary, g.synchronous(m)
		g.serve(m)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(fmt.Sprintf("mssqlsim: %v", err))
	}
	g.listener = listener
	g.running.Go(g.listen)
	for _, m := range g.members {
		g.running.Go(func() { g.ship(m) })
	}
	return g
}

func (g *Group) newMember(options NodeOptions) *member {
	m := &member{NodeOptions: options, wake: make(chan struct{}, 1), role: RoleResolving}
	server := g.options.Server
	server.Node.Name = options.Name
	server.Node.Content = g.copyOfContent()
	m.hardened = server.Node.Content.Sequence()
	m.server = start(server, func(via string) error { return g.route(m, via) })
	m.server.Node.OnCommit(func(ctx context.Context, record rows.Record) error { return g.harden(ctx, m, record) })
	return m
}

func (g *Group) copyOfContent() *rows.Database {
	data := g.content.Copy()
	data.KeepLog()
	data.Demote()
	return data
}

// Close ends every connection and waits until nothing of the group runs any more.
func (g *Group) Close() {
	g.closing.Do(func() {
		close(g.done)
		_ = g.listener.Close()
		for _, m := range g.members {
			m.server.Close()
		}
		g.running.Wait()
	})
}

// Nodes is the names of the nodes in the order of the options.
func (g *Group) Nodes() []string {
	names := make([]string, len(g.members))
	for i, m := range g.members {
		names[i] = m.Name
	}
	return names
}

// Node is a node: its clock, gates, faults, connections. Its state and its OnCommit belong to the group.
func (g *Group) Node(name string) *Server { return g.member(name).server }

func (g *Group) member(name string) *member {
	for _, m := range g.members {
		if m.Name == name {
			return m
		}
	}
	panic("mssqlsim: the group has no node " + name)
}

// Primary is the name of the node that the group takes for its primary; during a split, the new one.
func (g *Group) Primary() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.primary.Name
}

// Status is a node as the group knows it. Positions are numbers of records of the log, one for each commit; nodes that
// were primary at the same time may have different records of one number.
type Status struct {
	Role         Role
	Down         bool
	Suspended    bool
	Synchronized bool  // it is waited for
	Hardened     int64 // what a failover to it keeps; of a primary, everything committed
	Applied      int64 // what its readers see
	Fallbacks    int   // how often a primary has gone on without it
}

// Status tells how a node is.
func (g *Group) Status(name string) Status {
	m := g.member(name)
	g.mu.Lock()
	defer g.mu.Unlock()
	s := Status{Role: m.role, Down: m.down, Suspended: m.suspended, Hardened: m.hardened, Applied: m.data().Sequence(),
		Synchronized: m.role == RoleSecondary && m.synchronized, Fallbacks: m.fallbacks}
	if m.role != RoleSecondary {
		s.Hardened = s.Applied
	}
	return s
}

// Synchronized reports whether a secondary has everything that was acknowledged, and commits wait for it.
func (g *Group) Synchronized(name string) bool { return g.Status(name).Synchronized }

// serve lets clients in as the role of a node has it.
func (g *Group) serve(m *member) {
	if m.down {
		return
	}
	state := engine.Resolving
	switch {
	case m.role == RolePrimary:
		state = engine.Online
	case m.role != RoleSecondary:
	case m.Readable == ReadableByAll:
		state = engine.ReadOnly
	case m.Readable == ReadableByIntent:
		state = engine.ReadIntent
	default:
		state = engine.Unreadable
	}
	m.server.Node.SetState(state)
}

// broadcast wakes whoever waits for a change of what mu guards.
func (g *Group) broadcast() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// await waits until a condition, which is judged under mu, holds.
func (g *Group) await(ctx context.Context, condition func() bool) error {
	for {
		g.mu.Lock()
		holds, changed := condition(), g.changed
		g.mu.Unlock()
		if holds {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
