package mssql

import (
	"context"
	"database/sql/driver"
	"net"
	"sync"
	"sync/atomic"
	"time"

	mssqldb "github.com/microsoft/go-mssqldb"
)

const keepAlive = 30 * time.Second

var _ driver.ConnPrepareContext = (*connection)(nil)

// sockets are those that one login has opened: several if the host has several addresses, or if it is routed.
type sockets struct {
	dialer mssqldb.Dialer                // nil: the net package's
	opened func(*socket) (closed func()) // is told of each

	mu     sync.Mutex
	open   []*socket
	closed bool
}

// DialContext implements the driver's Dialer.
func (s *sockets) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := s.dialer
	if dialer == nil {
		dialer = &net.Dialer{KeepAlive: keepAlive}
	}
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	one := &socket{Conn: conn}
	one.closed = sync.OnceFunc(s.opened(one))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = one.Close()
		return nil, net.ErrClosed
	}
	s.open = append(s.open, one)
	return one, nil
}

// close ends them all, and whatever the driver reads from them.
func (s *sockets) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, one := range s.open {
		_ = one.Close()
	}
}

// connection closes its sockets itself. The driver's own Close does that too, but first it gives its buffers to the next
// connection, while a reader that was left behind after a cancellation may still use them. Here nobody gets them.
type connection struct {
	*mssqldb.Conn
	sockets *sockets
}

// Close implements [driver.Conn].
func (c *connection) Close() error {
	c.sockets.close()
	return nil
}

// sound reports that the server was reached, and that nothing went wrong on the way there.
func (s *sockets) sound() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.open {
		if one.failed.Load() {
			return false
		}
	}
	return len(s.open) > 0
}

// hostSockets are sockets of a dialer that resolves names itself.
type hostSockets struct {
	*sockets
	host mssqldb.HostDialer
}

// HostName implements the driver's HostDialer.
func (s *hostSockets) HostName() string { return s.host.HostName() }

// socket remembers whether reading or writing has failed.
type socket struct {
	net.Conn
	failed atomic.Bool
	closed func()
}

func (s *socket) Close() error {
	s.closed()
	return s.Conn.Close()
}

func (s *socket) Read(b []byte) (int, error) {
	n, err := s.Conn.Read(b)
	if err != nil {
		s.failed.Store(true)
	}
	return n, err
}

func (s *socket) Write(b []byte) (int, error) {
	n, err := s.Conn.Write(b)
	if err != nil {
		s.failed.Store(true)
	}
	return n, err
}

// brokenOff is a login that this side gave up although the server could be talked to: its certificate was not accepted,
// or they could not agree on encryption, or it is no SQL Server. The driver makes a text of the reason.
type brokenOff struct{ error }

func (e *brokenOff) Unwrap() error { return e.error }
