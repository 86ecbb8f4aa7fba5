package tds

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// conn is one connection. Its goroutine runs the login and then the requests;
// a second one reads, so that a cancellation is seen while a request runs.
type conn struct {
	server *Server
	id     ConnID
	via    string
	socket net.Conn
	wire   *wire

	// life ends when this side ends the connection; ctx, its child, also when
	// the client is seen to have hung up.
	life       context.Context
	end        context.CancelCauseFunc
	ctx        context.Context
	disconnect context.CancelCauseFunc
	killed     sync.Once

	login atomic.Pointer[Login] // without the password; nil before the login

	// Only of the connection's own goroutine.
	transport net.Conn // wire, or TLS over it
	packets   packetWriter
	session   Session
	open      uint64 // descriptor of the open transaction, or 0

	inbox chan item

	mu          sync.Mutex
	ready       bool                    // logged in
	outstanding int                     // requests read and not yet answered: one, unless a client gave up on the last
	attended    bool                    // the first of them has been cancelled by an attention
	cancel      context.CancelCauseFunc // ends its context, once it has one
}

// item is what the reading goroutine hands over: a request, or the
// confirmation owed for an attention that came too late.
type item struct {
	message
	confirm bool
}

func newConn(s *Server, id ConnID, socket net.Conn) *conn {
	c := &conn{server: s, id: id, socket: socket, inbox: make(chan item, 16)}
	c.wire = &wire{Conn: socket, conn: c}
	c.transport = c.wire
	c.life, c.end = context.WithCancelCause(context.Background())
	c.ctx, c.disconnect = context.WithCancelCause(c.life)
	c.packets = packetWriter{w: c.transport, size: defaultPacketSize, spid: uint16(50 + id)}
	return c
}

func (c *conn) run() {
	defer c.server.forget(c)
	defer c.kill(FIN)
	accepted := c.logIn()
	if c.session != nil {
		defer c.session.Close()
	}
	if !accepted {
		return
	}
	var reading sync.WaitGroup
	reading.Go(c.read)
	defer reading.Wait()
	defer c.kill(FIN) // ends read
	for it := range c.inbox {
		if c.life.Err() != nil || !c.serve(it) {
			return
		}
	}
}

// kill ends the connection from this side.
func (c *conn) kill(how Ending) {
	c.killed.Do(func() {
		c.end(ErrDisconnected)
		if tcp, ok := c.socket.(*net.TCPConn); ok && how == RST {
			_ = tcp.SetLinger(0)
		}
		_ = c.socket.Close()
	})
}

// read hands over requests and acts on attentions, until the connection ends.
func (c *conn) read() {
	defer close(c.inbox)
	defer c.disconnect(ErrDisconnected)
	for {
		m, err := readMessage(c.transport, maxMessageBytes)
		if err != nil {
			return
		}
		it, ok := item{message: m}, true
		if m.kind == packetAttention {
			it, ok = c.attend()
		} else {
			c.mu.Lock()
			c.outstanding++
			c.mu.Unlock()
		}
		if !ok {
			continue
		}
		select {
		case c.inbox <- it:
		case <-c.life.Done():
			return
		}
	}
}

// attend cancels the running request. If there is none, its answer is already
// on its way, and the confirmation is a message of its own, after it: there is
// exactly one confirmation, because answer and attend decide under the mutex.
func (c *conn) attend() (confirmation item, owed bool) {
	c.server.attentions.Add(1)
	switches := c.server.faults.pick(AtAttention, c.subject())
	for _, s := range switches {
		s.surface()
		switch s.fault.Effect.kind {
		case effectSilence:
			return item{}, false
		case effectClose:
			c.kill(s.fault.Effect.ending)
			return item{}, false
		default: // counted
		}
	}
	c.mu.Lock()
	if c.outstanding == 0 {
		c.mu.Unlock()
		return item{confirm: true}, true
	}
	c.attended = true
	cancel := c.cancel
	c.mu.Unlock()
	if cancel != nil {
		cancel(ErrAttention)
	}
	return item{}, false
}

func (c *conn) subject() Subject {
	s := Subject{Conn: c.id}
	if login := c.login.Load(); login != nil {
		s.Login = *login
	}
	return s
}

func (c *conn) isOpen() bool { return c.life.Err() == nil }

func (c *conn) isIdle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ready && c.outstanding == 0 && c.life.Err() == nil
}

// inTransaction is the status bit of DONE tokens.
func (c *conn) inTransaction() uint16 {
	if c.open != 0 {
		return doneInXact
	}
	return 0
}

// changeTransaction keeps the descriptor and returns the one that began or ended.
func (c *conn) changeTransaction(change TransactionChange) uint64 {
	if change == TransactionBegun {
		c.open = c.server.transactions.Add(1)
		return c.open
	}
	ended := c.open
	c.open = 0
	return ended
}

// crossWire suffers the faults of the wire that have this effect.
func (c *conn) crossWire(kind effectKind) {
	if c.server.faults.wired.Load() == 0 {
		return
	}
	for _, s := range c.server.faults.pick(AtWire, c.subject()) {
		if s.fault.Effect.kind == kind {
			c.suffer(c.life, s)
		}
	}
}

// suffer does what a fault does to time and to the connection. It returns
// false when there is no going on: the fault ended the connection, or it was
// waiting and ctx ended.
func (c *conn) suffer(ctx context.Context, s *Switch) bool {
	gate := s.surface()
	switch e := s.fault.Effect; e.kind {
	case effectSilence:
		select {
		case <-gate:
		case <-ctx.Done():
			return false
		}
	case effectDelay:
		timer := time.NewTimer(e.delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
	case effectClose:
		c.kill(e.ending)
		return false
	default: // the caller's business
	}
	return true
}
