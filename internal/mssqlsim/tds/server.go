package tds

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
)

// Encryption is what a server answers a client that asks for TLS.
type Encryption uint8

// What a server does about TLS.
const (
	// EncryptionOffered encrypts what the client wants encrypted; without a
	// wish the login alone, as SQL Server does.
	EncryptionOffered  Encryption = iota
	EncryptionRequired            // always
	EncryptionMissing             // never
)

// Options of a server; the zero value is fine.
type Options struct {
	Encryption Encryption
}

// Server is a TDS server on a port of 127.0.0.1.
type Server struct {
	handler   Handler
	options   Options
	authority []byte
	tls       *tls.Config
	addr      netip.AddrPort

	running sync.WaitGroup
	faults  faults

	accepted, logins, requests, attentions, resets atomic.Int64
	transactions                                   atomic.Uint64

	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	refusing *port        // nil while they are taken
	conns    map[ConnID]*conn
	closed   bool
}

// New starts a server. It panics if that is impossible, as httptest does.
func New(handler Handler, options Options) *Server {
	s := &Server{handler: handler, options: options, conns: map[ConnID]*conn{}}
	authority, certificate := newCertificate()
	s.authority = authority
	s.tls = &tls.Config{
		Certificates:           []tls.Certificate{certificate},
		MinVersion:             tls.VersionTLS12,
		SessionTicketsDisabled: true, // nothing may be written after the handshake but answers
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(fmt.Sprintf("tds: %v", err))
	}
	s.addr = netip.MustParseAddrPort(listener.Addr().String())
	s.open(listener)
	return s
}

// open takes connections from now on.
func (s *Server) open(listener net.Listener) {
	s.listener = listener
	s.running.Go(func() { s.accept(listener) })
}

// Listen takes connections again, at the same port, after Refuse.
func (s *Server) Listen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refusing == nil {
		return
	}
	listener, err := s.refusing.listen()
	s.refusing = nil
	if err != nil {
		panic(fmt.Sprintf("tds: %v", err))
	}
	s.open(listener)
}

// Refuse makes the port refuse connections. Those that exist live on.
func (s *Server) Refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return
	}
	_ = s.listener.Close()
	s.listener = nil
	var err error
	if s.refusing, err = reserve(s.addr); err != nil {
		panic(fmt.Sprintf("tds: %v", err))
	}
}

func (s *Server) accept(listener net.Listener) {
	for {
		socket, err := listener.Accept()
		if err != nil {
			return // Refuse or Close
		}
		s.serve(socket, "")
	}
}

// Adopt serves a connection that somebody else has accepted; via is what Login.Via is to say of it. While the server
// refuses connections, it is reset.
func (s *Server) Adopt(socket net.Conn, via string) { s.serve(socket, via) }

func (s *Server) serve(socket net.Conn, via string) {
	c := newConn(s, ConnID(s.accepted.Add(1)), socket)
	c.via = via
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil || s.closed { // even if it was accepted before that
		c.kill(RST)
		return
	}
	s.conns[c.id] = c
	s.running.Go(c.run)
}

// Close ends every connection and waits until every session is closed.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true // serve adds no connection to s.conns any more
	if s.listener != nil {
		_ = s.listener.Close()
		s.listener = nil
	}
	if s.refusing != nil {
		s.refusing.release()
		s.refusing = nil
	}
	s.mu.Unlock()
	s.CloseConns(Match{}, FIN)
	s.running.Wait()
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c.id)
}

// Addr is where the server listens.
func (s *Server) Addr() netip.AddrPort { return s.addr }

// Authority is the certificate, in PEM, that signed the server's own. The
// server's is good for 127.0.0.1, ::1 and localhost.
func (s *Server) Authority() []byte { return slices.Clone(s.authority) }

// DSN is a connection string for the driver; parameters as in
// "encrypt=disable&database=locks".
func (s *Server) DSN(user, password, parameters string) string {
	dsn := url.URL{Scheme: "sqlserver", User: url.UserPassword(user, password), Host: s.addr.String(), RawQuery: parameters}
	return dsn.String()
}

// Inject puts a fault in. It panics if the effect makes no sense at the place.
func (s *Server) Inject(f Fault) *Switch { return s.faults.inject(f) }

// CloseConns ends the connections that match, and says how many.
func (s *Server) CloseConns(m Match, how Ending) int { return s.closeConns(m, how, (*conn).isOpen) }

// CloseIdle ends those of them that are logged in and have no request under
// way, as a failover ends the pooled connections of a client.
func (s *Server) CloseIdle(m Match, how Ending) int { return s.closeConns(m, how, (*conn).isIdle) }

func (s *Server) closeConns(m Match, how Ending, eligible func(*conn) bool) int {
	n := 0
	for _, c := range s.list() {
		if eligible(c) && m.agrees(c.subject()) {
			c.kill(how)
			n++
		}
	}
	return n
}

// list is the connections, oldest first.
func (s *Server) list() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	conns := make([]*conn, 0, len(s.conns))
	for _, c := range s.conns {
		conns = append(conns, c)
	}
	slices.SortFunc(conns, func(a, b *conn) int { return cmp.Compare(a.id, b.id) })
	return conns
}

// Conn is a connection as the server sees it.
type Conn struct {
	ID     ConnID
	Login  Login // without the password; zero before the login
	Idle   bool  // logged in, and no request is under way
	HungUp bool  // the client has closed it; what it sent before may still be held or run
}

// Conns lists the open connections, oldest first.
func (s *Server) Conns() []Conn {
	var list []Conn
	for _, c := range s.list() {
		list = append(list, Conn{ID: c.id, Login: c.subject().Login, Idle: c.isIdle(), HungUp: c.ctx.Err() != nil})
	}
	return list
}

// Stats are counters since the start of the server, except Open.
type Stats struct {
	Accepted   int64 // TCP connections
	Open       int64 // connections at this moment
	Logins     int64 // that succeeded
	Requests   int64 // batches, RPCs and transaction requests read: round trips
	Attentions int64
	Resets     int64 // requests with the reset bit
}

// Stats returns the counters. What one Match sees alone is counted by a fault
// AtRequest with the zero Effect.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	open := len(s.conns)
	s.mu.Unlock()
	return Stats{Accepted: s.accepted.Load(), Open: int64(open), Logins: s.logins.Load(), Requests: s.requests.Load(),
		Attentions: s.attentions.Load(), Resets: s.resets.Load()}
}
