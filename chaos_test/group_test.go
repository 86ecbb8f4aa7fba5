package chaos

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/aaravsoft/leasehold/chaos_test/check"
	"github.com/aaravsoft/leasehold/internal/faultstore"
	"github.com/aaravsoft/leasehold/store"
)

// member is a node of a group.
type member struct {
	table  *flawedTable
	source *member // whose log it follows; nil: nobody's
	seen   int     // how much of that log it has
	lag    time.Duration
	dead   bool // nobody can talk to it
}

// group is an availability group in this process: a primary, and secondaries that follow it late. It can fail over with and without
// loss, and the former primary can go on serving those who do not know. Every node has a clock of its own. It runs in fake time.
type group struct {
	nodes   []*member
	clients []*side
	confirm confirmation
	splits  time.Duration // the longest time for which two nodes serve

	tally tally
	mu    sync.Mutex // before any table's
	first *member    // the primary
}

// side is where one client stands.
type side struct {
	net     *faultstore.Store
	primary *member   // whom it takes for the primary; nil: it finds none
	cut     []*member // whom it cannot reach
}

// confirmation is what makes a grant trusted.
type confirmation uint8

const (
	unconfirmed       confirmation = iota
	byOwner                        // as it should be: every node shows the owner, until when it is trusted
	grantsOnly                     // only grants are looked for; renewals are trusted
	byRowVersion                   // every node has a row of that name which is at least as new
	byOneReplica                   // one of the secondaries is enough
	secondariesAreAll              // a node that can be written to is not asked
)

const members = 3

func newGroup(c confirmation, seed uint64, clients int) *group {
	g := &group{confirm: c, splits: 3 * time.Second}
	rng := rand.New(rand.NewPCG(seed, 4))
	for range members {
		m := &member{table: newFlawedTable("", seed), lag: time.Duration(rng.Int64N(int64(20 * time.Millisecond)))}
		m.table.Step(time.Duration(rng.Int64N(int64(skew)))) // the nodes' clocks are apart by less than skew
		m.table.readOnly = true
		g.nodes = append(g.nodes, m)
	}
	for i := range clients {
		g.clients = append(g.clients, &side{})
		net := &line{inner: &groupStore{g, g.clients[i]}, rng: rand.New(rand.NewPCG(seed, uint64(i)))}
		g.clients[i].net = faultstore.Wrap(net)
	}
	g.promote(g.nodes[0])
	for _, m := range g.nodes[1:] {
		m.source = g.first
	}
	return g
}

// promote makes a node the primary, with what it has.
func (g *group) promote(m *member) {
	m.source, g.first = nil, m
	m.table.become(false)
	for _, c := range g.clients {
		c.primary = m
	}
}

// join makes a node a secondary that has what the primary has.
func (g *group) join(m *member) {
	m.table.become(true)
	m.source, m.dead = g.first, false
	g.first.table.mu.Lock()
	rows, token, length := g.first.table.copied()
	g.first.table.mu.Unlock()
	m.table.mu.Lock()
	m.table.rows, m.table.token, m.seen = rows, token, length
	m.table.mu.Unlock()
}

// follow brings a secondary up to what has reached it; all: to everything that its source has.
func (m *member) follow(lag time.Duration) {
	if m.source == nil {
		return
	}
	m.source.table.mu.Lock()
	log := m.source.table.log[m.seen:]
	m.source.table.mu.Unlock()
	m.table.mu.Lock()
	defer m.table.mu.Unlock()
	for _, c := range log {
		if time.Since(c.at) < lag {
			return
		}
		m.table.apply(c)
		m.seen++
	}
}

// become makes a table a secondary's, or a primary's with a log of its own.
func (t *flawedTable) become(readOnly bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.readOnly = readOnly
	if !readOnly {
		t.log = nil
	}
}

func (t *flawedTable) copied() (rows map[string]store.Lease, token uint64, length int) {
	return maps.Clone(t.rows), t.token, len(t.log)
}

func (g *group) store(i int) store.Store {
	if g.confirm == unconfirmed {
		return g.clients[i].net
	}
	return &confirming{Store: g.clients[i].net, group: g, side: g.clients[i], known: map[string]store.Lease{}, granted: map[string]bool{}}
}

func (g *group) inspector() store.Inspector { return nil }

func (g *group) limits() limits {
	l := limits{clock: check.Clock{Skew: skew}, forks: true}
	if g.confirm == unconfirmed {
		// The split, then what the old holder trusts in.
		l.overlap = g.splits + 4*time.Second
		l.unordered = true
	}
	return l
}

// groupStore is the primary, as a client finds it.
type groupStore struct {
	group *group
	side  *side
}

var errNoPrimary = &store.UnavailableError{Op: "chaos", Err: errors.New("no primary is found")}

func (s *groupStore) primary() (*flawedTable, error) {
	s.group.mu.Lock()
	defer s.group.mu.Unlock()
	if s.side.primary == nil || s.side.primary.dead {
		return nil, errNoPrimary
	}
	return s.side.primary.table, nil
}

func (s *groupStore) Acquire(ctx context.Context, c store.Claim) (store.Lease, error) {
	t, err := s.primary()
	if err != nil {
		return store.Lease{}, err
	}
	return t.Acquire(ctx, c)
}

func (s *groupStore) Renew(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	t, err := s.primary()
	if err != nil {
		return nil, err
	}
	return t.Renew(ctx, claims)
}

func (s *groupStore) Release(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	t, err := s.primary()
	if err != nil {
		return nil, err
	}
	return t.Release(ctx, claims)
}

// confirming is a store that looks at the nodes.
type confirming struct {
	store.Store
	group *group
	side  *side

	mu      sync.Mutex             // for the flaws, by owner:
	known   map[string]store.Lease // what was answered last
	granted map[string]bool        // it was confirmed once
}

func (s *confirming) Unwrap() store.Store { return s.Store }

func (s *confirming) remember(l store.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[l.Owner] = l
}

func (s *confirming) Acquire(ctx context.Context, c store.Claim) (store.Lease, error) {
	l, err := s.Store.Acquire(ctx, c)
	if err == nil {
		s.remember(l)
	}
	return l, err
}

func (s *confirming) Renew(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	results, err := s.Store.Renew(ctx, claims)
	for _, r := range results {
		if r.Err == nil {
			s.remember(r.Lease)
		}
	}
	return results, err
}

// Confirm implements [store.Confirmer].
func (s *confirming) Confirm(_ context.Context, leases []store.Lease) ([]time.Time, error) {
	time.Sleep(time.Millisecond)
	defer time.Sleep(time.Millisecond)
	s.group.mu.Lock()
	defer s.group.mu.Unlock()
	until := make([]time.Time, len(leases))
	for i, l := range leases {
		until[i] = s.confirmed(l)
	}
	return until, nil
}

// confirmed is until when a lease is confirmed. Called with the group's mutex held.
func (s *confirming) confirmed(l store.Lease) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.known[l.Owner]
	if s.granted[l.Owner] && s.group.confirm == grantsOnly {
		return l.Expires
	}
	var least time.Time
	asked, readOnly := 0, false
	for _, m := range s.group.nodes {
		until, isReadOnly := s.side.look(m, l, known, s.group.confirm)
		if s.group.confirm == byOneReplica && (!isReadOnly || until.IsZero()) ||
			s.group.confirm == secondariesAreAll && !isReadOnly {
			continue
		}
		readOnly = readOnly || isReadOnly
		if asked++; asked == 1 || until.Before(least) {
			least = until
		}
	}
	if !readOnly {
		return time.Time{}
	}
	s.granted[l.Owner] = s.granted[l.Owner] || !least.Before(l.Expires)
	return least
}

// look is what one node shows of a lease.
func (c *side) look(m *member, l, known store.Lease, how confirmation) (until time.Time, readOnly bool) {
	if m.dead || slices.Contains(c.cut, m) {
		return time.Time{}, false
	}
	m.follow(m.lag)
	m.table.mu.Lock()
	defer m.table.mu.Unlock()
	row := m.table.rows[l.Name]
	switch {
	case how == byRowVersion && row.Version >= known.Version:
		until = l.Expires
	case row.Owner == l.Owner:
		until = row.Expires
	}
	return until, m.table.readOnly
}
