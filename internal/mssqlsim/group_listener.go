package mssqlsim

import (
	"net/url"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
)

// viaListener is what logins by the listener say of it.
const viaListener = "listener"

// DSN is a connection string that leads to the listener, and so to the primary of the time or, with the parameter
// "ApplicationIntent=ReadOnly", to a readable secondary. Parameters are as for [Server.DSN].
func (g *Group) DSN(parameters ...string) string {
	u, err := url.Parse(g.members[0].server.DSN(parameters...))
	if err != nil {
		panic(err)
	}
	u.Host = g.listener.Addr().String()
	return u.String()
}

// NodeDSN is a connection string that leads to one node, whatever its role.
func (g *Group) NodeDSN(name string, parameters ...string) string {
	return g.member(name).server.DSN(parameters...)
}

// listen gives what the listener accepts to the primary of that moment.
func (g *Group) listen() {
	for {
		socket, err := g.listener.Accept()
		if err != nil {
			return // Close
		}
		g.mu.Lock()
		primary := g.primary
		g.mu.Unlock()
		primary.server.Wire.Adopt(socket, viaListener)
	}
}

// route sends a client with read intent that came by the listener to the first secondary that can be read.
func (g *Group) route(m *member, via string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if via != viaListener || m != g.primary {
		return nil
	}
	for _, other := range g.members {
		if g.follows(other) && other.Readable != NotReadable {
			addr := other.server.Wire.Addr()
			return &tds.Redirect{Host: addr.Addr().String(), Port: addr.Port()}
		}
	}
	return message(sqlerr.NoReadableSecondary(m.server.Node.Database()))
}
