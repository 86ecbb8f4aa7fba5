package mssql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	mssqldb "github.com/microsoft/go-mssqldb"
	"github.com/microsoft/go-mssqldb/msdsn"

	"github.com/aaravsoft/leasehold/store"
)

// Store keeps leases in a table. It is a [store.Store], a [store.Inspector] and a [store.Confirmer].
type Store struct {
	pool     *pool
	table    table
	sql      *statements
	replicas []*replica

	sweeping sweeping
	close    sync.Once
	closeErr error
}

var (
	_ store.Store     = (*Store)(nil)
	_ store.Inspector = (*Store)(nil)
	_ store.Confirmer = (*Store)(nil)
)

// The pool of [Open].
const (
	poolSize   = 48 // a third each for acquisitions and the like, for clean-ups after them, and for what is held
	poolIdle   = 2
	idleFor    = time.Minute
	replicaMax = 4 // connections to a replica

	// silence is how long the driver waits for the next byte: longer than any attempt lasts, so that it ends only what
	// nobody waits for any more. The driver would wait for ever.
	silence = 12 * time.Second
)

// Open makes a Store with a pool of its own, from a connection string of the driver, for example
//
//	sqlserver://user:password@host?database=name
//
// As with [sql.Open] nothing is sent: [Store.EnsureSchema] is the eager check.
//
// The string must name a server. The name of the application is "leasehold" if the string has none. Errors are of class [store.ErrInvalid], and never
// show the string.
func Open(dsn string, cfg Config) (*Store, error) {
	_, db, err := open(dsn, poolSize)
	if err != nil {
		return nil, err
	}
	return own(db, cfg)
}

// OpenConnector is Open for a connector of the driver, which can log in in ways that a string cannot say, for example
// with tokens of Azure: see the driver's package azuread. The connector is copied. Give its connection string a
// "connection timeout" of 12: that bounds the driver's waiting for a server that has gone silent.
func OpenConnector(c *mssqldb.Connector, cfg Config) (*Store, error) {
	if c == nil {
		return nil, fmt.Errorf("%w connector: it is nil", store.ErrInvalid)
	}
	return own(connect(c, poolSize), cfg)
}

// New makes a Store on a pool of the caller's, who also closes it. See the package comment for what that costs.
func New(db *sql.DB, cfg Config) (*Store, error) {
	if db == nil {
		return nil, fmt.Errorf("%w database: it is nil", store.ErrInvalid)
	}
	return newStore(&pool{db: db}, cfg)
}

// Advice is what should be known about how the Store was set up; "" if there is nothing. Package mutex logs it, once.
func (s *Store) Advice() string {
	if s.pool.own == nil && s.pool.db.Stats().MaxOpenConnections == 1 {
		return "the pool has one connection: an acquisition, or a sweep, delays renewals by as long as it takes; allow two, or use Open"
	}
	return ""
}

// own is a store of a pool that it closes.
func own(db *pool, cfg Config) (*Store, error) {
	s, err := newStore(db, cfg)
	if err != nil {
		return nil, errors.Join(err, db.close())
	}
	return s, nil
}

func newStore(db *pool, cfg Config) (*Store, error) {
	t, err := cfg.table()
	if err != nil {
		return nil, err
	}
	s := &Store{pool: db, table: t, sql: newStatements(t)}
	s.pool.table = t
	s.pool.limitOthers()
	s.replicas, err = newReplicas(cfg, t)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// open parses a connection string, and makes a pool of it. It also returns the host, for messages.
func open(dsn string, size int) (host string, _ *pool, err error) {
	config, err := msdsn.Parse(dsn)
	if err != nil {
		// What the parser says may quote the string, and the password with it.
		return "", nil, fmt.Errorf("%w connection string (not shown, it may hold a password): the driver cannot parse it; "+
			`expected is sqlserver://USER:PASSWORD@HOST:PORT?database=NAME, with special characters percent-encoded`, store.ErrInvalid)
	}
	if server, _, _ := strings.Cut(config.Parameters[msdsn.Server], `\`); server == "" { // the driver would try this machine
		return "", nil, fmt.Errorf("%w connection string (not shown, it may hold a password): it names no server; "+
			"expected is sqlserver://USER:PASSWORD@HOST:PORT?database=NAME", store.ErrInvalid)
	}
	if config.ChangePassword != "" {
		return "", nil, fmt.Errorf("%w connection string (not shown): with %q every login would change the password", store.ErrInvalid, msdsn.ChangePassword)
	}
	if intent := config.Parameters[msdsn.ApplicationIntent]; strings.EqualFold(intent, "ReadOnly") && !config.ReadOnlyIntent {
		return "", nil, fmt.Errorf("%w ApplicationIntent %q: the driver knows it as ReadOnly, with a database, and ignores others", store.ErrInvalid, intent)
	}
	if config.AppName == "" || config.Parameters[msdsn.AppName] == "" {
		config.AppName = "leasehold"
	}
	if config.ConnTimeout == 0 {
		config.ConnTimeout = silence
	}
	return config.Host, newPool(newConnector(mssqldb.NewConnectorConfig(config), func(ctx context.Context, d mssqldb.Dialer) (driver.Conn, error) {
		// The driver writes to the TLS configuration (encrypt=strict), which logins would share.
		config := config
		if config.TLSConfig != nil {
			config.TLSConfig = config.TLSConfig.Clone()
		}
		c := mssqldb.NewConnectorConfig(config)
		c.Dialer = d
		return c.Connect(ctx)
	}), size), nil
}

// connect makes a pool of a connector that somebody else has made.
func connect(base *mssqldb.Connector, size int) *pool {
	return newPool(newConnector(base, func(ctx context.Context, d mssqldb.Dialer) (driver.Conn, error) {
		c := *base
		c.Dialer = d
		if sockets, ok := d.(*sockets); ok && base.Dialer != nil {
			sockets.dialer = base.Dialer
			if host, ok := base.Dialer.(mssqldb.HostDialer); ok {
				c.Dialer = &hostSockets{sockets, host}
			}
		}
		return c.Connect(ctx)
	}), size)
}

// Close closes the pools that the Store has made; calls that are still running end with their connections. It waits for
// the sweep that may be running, on a pool of somebody else's as long as the driver does, and for logins, which end with their
// sockets: only to look up a host's name may take longer.
func (s *Store) Close() error {
	s.close.Do(func() {
		s.sweeping.stop()
		defer s.sweeping.wait.Wait() // after its connection has gone
		s.closeErr = s.pool.close()
		for _, r := range s.replicas {
			s.closeErr = errors.Join(s.closeErr, r.pool.close())
		}
	})
	return s.closeErr
}
