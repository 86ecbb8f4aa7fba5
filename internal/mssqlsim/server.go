package mssqlsim

import (
	"net/url"
	"strings"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
)

// Options of a server; the zero value is fine.
type Options struct {
	Node engine.Config
	Wire tds.Options
}

// Server is a node behind a port of 127.0.0.1.
type Server struct {
	Node *engine.Node // what executes: clock, gates, faults of statements, states of the database
	Wire *tds.Server  // what carries it: faults of the network, counters
}

// The login of DSN. As long as no other was added to the node, every name and password will do.
const (
	User     = "sa"
	Password = "Sim-ulated1"
)

// New starts a server. It panics if that is impossible, as httptest does.
func New(options Options) *Server { return start(options, func(string) error { return nil }) }

// start starts a server that asks route where to send a client with read intent, unless it is to stay.
func start(options Options, route func(via string) error) *Server {
	s := &Server{Node: engine.New(options.Node)}
	s.Wire = tds.New(&handler{node: s.Node, route: route}, options.Wire)
	return s
}

// DSN is a connection string for the driver, without encryption. Parameters are added to it, as in "app name=test", and
// replace its own of the same name.
func (s *Server) DSN(parameters ...string) string { return s.DSNFor(User, Password, parameters...) }

// DSNFor is DSN for another login.
func (s *Server) DSNFor(user, password string, parameters ...string) string {
	query := url.Values{"database": {s.Node.Database()}, "encrypt": {"disable"}}
	for _, p := range parameters {
		name, value, _ := strings.Cut(p, "=")
		query.Set(name, value)
	}
	return s.Wire.DSN(user, password, query.Encode())
}

// Disconnect ends every session and its connection, as a failover or a restart does: what runs is rolled back.
func (s *Server) Disconnect(how tds.Ending) {
	s.Node.KillAll()
	s.Wire.CloseConns(tds.Match{}, how)
}

// Close ends every connection and waits until every session is closed.
func (s *Server) Close() { s.Wire.Close() }
