package engine

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/syntax"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/locks"
)

// Config is what a node is made of. Its zero value is a node that everybody may log in to.
type Config struct {
	Name      string // of the server, default "mssqlsim"
	Database  string // default "app"
	Collation string // of the database, default value.DefaultCollation

	// Offset is the server's time zone, in minutes east of UTC: SYSDATETIMEOFFSET carries it.
	OffsetMinutes int

	// Clock is the machine's clock, time.Now by default.
	Clock func() time.Time

	// Content is what the database begins with, of another node (rows.Database.Copy); nil = nothing.
	Content *rows.Database
}

// State is what a database lets its clients do.
type State uint8

// The states.
const (
	Online     State = iota
	ReadOnly         // a readable secondary, or READ_ONLY: everybody reads, a write is error 3906
	ReadIntent       // a secondary for ApplicationIntent=ReadOnly only: others get 978
	Unreadable       // a secondary that nobody may read: 976
	Resolving        // neither primary nor secondary, as during a failover: 983
	Offline          // 4060, 18456
)

// Node is one server with one database.
type Node struct {
	name      string
	database  string
	collation value.Collation
	zone      *time.Location
	locks     *locks.Manager
	traps     traps
	principals

	statements atomic.Int64 // executed so far
	rcsi       atomic.Bool
	state      atomic.Uint32

	mu       sync.Mutex
	data     *rows.Database
	clock    func() time.Time
	harden   func(context.Context, rows.Record) error
	delayed  string
	level    int // 0: the default
	sessions map[uint64]*Session
	lastID   uint64
	parsed   map[string]*syntax.Batch
	programs programs
}

// New starts a node. A configuration that cannot work panics: it is a mistake of the test.
func New(cfg Config) *Node {
	if cfg.Name == "" {
		cfg.Name = "mssqlsim"
	}
	if cfg.Database == "" {
		cfg.Database = "app"
	}
	if cfg.Collation == "" {
		cfg.Collation = value.DefaultCollation
	}
	collation, ok := value.FindCollation(cfg.Collation)
	if !ok {
		panic("engine: the simulator does not know the collation " + cfg.Collation)
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Content == nil {
		cfg.Content = rows.New()
	}
	return &Node{
		name: cfg.Name, database: cfg.Database, collation: collation, zone: value.Offset(cfg.OffsetMinutes),
		locks: locks.New(), data: cfg.Content, clock: cfg.Clock, sessions: map[uint64]*Session{}, lastID: 50,
		parsed: map[string]*syntax.Batch{},
	}
}

// Name is the name of the server.
func (n *Node) Name() string { return n.name }

// Database is the name of the database.
func (n *Node) Database() string { return n.database }

// Now is the node's clock.
func (n *Node) Now() time.Time {
	n.mu.Lock()
	clock := n.clock
	n.mu.Unlock()
	return value.Tick(clock().In(n.zone))
}

// SetClock replaces the clock.
func (n *Node) SetClock(clock func() time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.clock = clock
}

// Step moves the clock by d from where it is: forward, or back.
func (n *Node) Step(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	old := n.clock
	n.clock = func() time.Time { return old().Add(d) }
}

// SetRCSI switches READ_COMMITTED_SNAPSHOT.
func (n *Node) SetRCSI(on bool) { n.rcsi.Store(on) }

// SetDelayedDurability sets the database's DELAYED_DURABILITY as the catalog shows it: DISABLED (the default), ALLOWED or
// FORCED. Commits are the same to the simulator.
func (n *Node) SetDelayedDurability(setting string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.delayed = setting
}

func (n *Node) delayedDurability() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return cmp.Or(n.delayed, "DISABLED")
}

// SetCompatibilityLevel sets the database's level as the catalog shows it, 160 by default. The simulator is the same at
// every level.
func (n *Node) SetCompatibilityLevel(level int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.level = level
}

func (n *Node) compatibilityLevel() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return int64(cmp.Or(n.level, 160))
}

// SetState changes what the database lets its clients do. Sessions stay, and learn of it with their next statement:
// at a failover a real server disconnects them, which [Node.KillAll] does.
func (n *Node) SetState(s State) { n.state.Store(uint32(s)) }

// State is what SetState set.
func (n *Node) State() State { return State(n.state.Load()) }

// Data is the rows of the node, for tests and for replication.
func (n *Node) Data() *rows.Database {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.data
}

// Restore replaces the rows, and their log, by other ones. Whoever uses the node at that time must be disconnected.
func (n *Node) Restore(data *rows.Database) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.data = data
}

// OnCommit sets a function that every commit of a transaction with changes waits for, after it is in the log of this
// node and before its locks are released and its client is told: what a synchronous secondary does. An error is the
// client's answer, but the commit stands.
func (n *Node) OnCommit(harden func(context.Context, rows.Record) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.harden = harden
}

func (n *Node) onCommit() func(context.Context, rows.Record) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.harden
}

// Statements is the number of statements executed so far, by all sessions.
func (n *Node) Statements() int64 { return n.statements.Load() }

// Locks is the number of locks held, and of requests that wait for one.
func (n *Node) Locks() (held, waiting int) { return n.locks.Count() }

// Sessions returns the open sessions in the order of their logins.
func (n *Node) Sessions() []*Session {
	n.mu.Lock()
	defer n.mu.Unlock()
	open := make([]*Session, 0, len(n.sessions))
	for _, id := range slices.Sorted(maps.Keys(n.sessions)) {
		open = append(open, n.sessions[id])
	}
	return open
}

// KillAll ends all sessions, as KILL does: what runs is rolled back and ends with error 596.
func (n *Node) KillAll() {
	for _, s := range n.Sessions() {
		s.Kill()
	}
}

// parse keeps what it has parsed: a store sends the same few texts again and again.
func (n *Node) parse(text string) (*syntax.Batch, error) {
	n.mu.Lock()
	b, ok := n.parsed[text]
	n.mu.Unlock()
	if ok {
		return b, nil
	}
	b, err := syntax.Parse(text)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.parsed) >= 500 {
		clear(n.parsed)
	}
	n.parsed[text] = b
	return b, nil
}

// usable says whether a session may use the database in its present state.
func (n *Node) usable(readIntent bool) error {
	switch n.State() {
	case ReadIntent:
		if !readIntent {
			return sqlerr.New(978, "The target database ('%s') is in an availability group and is currently accessible for connections when the application intent is set to read only. For more information about application intent, see SQL Server Books Online.", n.database).
				With(14, 1).Ends(sqlerr.EndsBatch)
		}
	case Unreadable:
		return sqlerr.New(976, "The target database, '%s', is participating in an availability group and is currently not accessible for queries. Either data movement is suspended or the availability replica is not enabled for read access. To allow read-only access to this and other databases in the availability group, enable read access to one or more secondary availability replicas in the group. For more information, see the ALTER AVAILABILITY GROUP statement in SQL Server Books Online.", n.database).
			With(14, 1).Ends(sqlerr.EndsBatch)
	case Resolving:
		return sqlerr.New(983, "Unable to access availability database '%s' because the database replica is not in the PRIMARY or SECONDARY role. Connections to an availability database is permitted only when the database replica is in the PRIMARY or SECONDARY role. Try the operation again later.", n.database).
			With(14, 1).Ends(sqlerr.EndsBatch)
	case Offline:
		return sqlerr.New(942, "Database '%s' cannot be opened because it is offline.", n.database).With(14, 4).Ends(sqlerr.EndsBatch)
	default:
	}
	return nil
}

// writable says whether the database can be written.
func (n *Node) writable() error {
	if n.State() != Online {
		return sqlerr.ReadOnly(n.database)
	}
	return nil
}
