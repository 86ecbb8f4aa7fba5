package mssql

import (
	"context"
	"database/sql/driver"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	mssqldb "github.com/microsoft/go-mssqldb"
)

const (
	// loginLimit bounds a login from the first packet to the last.
	loginLimit = 15 * time.Second

	// slowAfter is when a login is no longer counted on: it may lead to a node that has died, and the next one to another.
	// Beside those that callers wait for, at most moreLogins such run.
	slowAfter  = 3 * time.Second
	moreLogins = 4

	// parkedFor is how long a connection that nobody waits for any more is kept.
	parkedFor = 30 * time.Second
)

// connector logs in on goroutines of its own. The driver may ignore its context during a login, and a call that waits for
// one may have less time than a slow login takes: so a caller stops waiting when its context ends, while the login goes
// on, and what comes of it is for the next caller.
type connector struct {
	login func(ctx context.Context, dialer mssqldb.Dialer) (driver.Conn, error)
	limit time.Duration    // of a login
	keep  time.Duration    // how long a parked connection is kept
	base  driver.Connector // for its Driver

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wait   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	open    map[*socket]struct{} // all that are in use, for Close
	logins  []time.Time          // when the running ones began; never fewer than callers wait
	waiting []chan<- login
	parked  []*parked
}

// login is what came of one.
type login struct {
	conn driver.Conn
	err  error
}

// parked is a connection that nobody waited for.
type parked struct {
	conn  driver.Conn
	timer *time.Timer
}

var (
	_ driver.Connector = (*connector)(nil)
	_ io.Closer        = (*connector)(nil)
)

func newConnector(base driver.Connector, in func(context.Context, mssqldb.Dialer) (driver.Conn, error)) *connector {
	c := &connector{login: in, limit: loginLimit, keep: parkedFor, base: base, open: map[*socket]struct{}{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Driver implements [driver.Connector].
func (c *connector) Driver() driver.Driver { return c.base.Driver() }

// Connect implements [driver.Connector]. It ends with ctx, whatever the driver does.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	c.mu.Lock()
	if c.closed { // no login begins while Close waits for those that run
		c.mu.Unlock()
		return nil, errClosed
	}
	if n := len(c.parked); n > 0 {
		p := c.parked[n-1]
		c.parked = c.parked[:n-1]
		c.mu.Unlock()
		p.timer.Stop()
		return p.conn, nil
	}
	answer := make(chan login, 1)
	c.waiting = append(c.waiting, answer)
	if now := time.Now(); c.wanted(now) {
		c.logins = append(c.logins, now)
		c.wait.Go(func() { c.run(now) })
	}
	c.mu.Unlock()
	select {
	case l := <-answer:
		return l.conn, l.err
	case <-ctx.Done():
	}
	if c.leave(answer) {
		return nil, fmt.Errorf("%w while logging in to the server", ctx.Err())
	}
	l := <-answer // it was answered in the same moment
	return l.conn, l.err
}

// wanted reports whether another login is to begin. Called with mu held.
func (c *connector) wanted(now time.Time) bool {
	hopeful := 0
	for _, began := range c.logins {
		if now.Sub(began) < slowAfter {
			hopeful++
		}
	}
	return len(c.logins) < len(c.waiting) || hopeful < len(c.waiting) && len(c.logins) < len(c.waiting)+moreLogins
}

// leave takes a caller out of the line. It reports whether the caller was still in it.
func (c *connector) leave(answer chan<- login) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.waiting, answer)
	if i < 0 {
		return false
	}
	c.waiting = slices.Delete(c.waiting, i, i+1)
	return true
}

// run logs in once, and gives the outcome to the caller that has waited longest; a failure only if no other login runs for
// that caller. It is joined by Close.
func (c *connector) run(began time.Time) {
	conn, err := c.dial()
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.logins, began)
	c.logins = slices.Delete(c.logins, i, i+1)
	switch {
	case len(c.waiting) > 0 && (err == nil || len(c.logins) < len(c.waiting)):
		c.waiting[0] <- login{conn, err} // it has room
		c.waiting = c.waiting[1:]
	case err == nil: // Close, which waits for this goroutine, forgets it again
		p := &parked{conn: conn}
		p.timer = time.AfterFunc(c.keep, func() { c.drop(p) })
		c.parked = append(c.parked, p)
	}
}

func (c *connector) dial() (driver.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(c.ctx, c.limit, fmt.Errorf("no login within %v", c.limit))
	defer cancel()
	sockets := &sockets{opened: c.opened}
	// Nothing that the driver does in a login outlives its socket.
	stop := context.AfterFunc(ctx, sockets.close)
	conn, err := c.login(ctx, sockets)
	if !stop() && err == nil {
		_ = conn.Close() // it was ready when its socket was closed
		err = context.Cause(ctx)
	}
	if err != nil {
		sockets.close() // whatever the driver has left open
	}
	switch {
	case err == nil:
		if own, ok := conn.(*mssqldb.Conn); ok {
			conn = &connection{own, sockets}
		}
		return conn, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
	case sockets.sound():
		return nil, &brokenOff{err}
	}
	return nil, err
}

// drop closes a parked connection if it is still parked.
func (c *connector) drop(p *parked) {
	c.mu.Lock()
	i := slices.Index(c.parked, p)
	if i >= 0 {
		c.parked = slices.Delete(c.parked, i, i+1)
	}
	c.mu.Unlock()
	if i >= 0 {
		_ = p.conn.Close()
	}
}

// forget closes the parked connections: they may lead to a server that has lost its role.
func (c *connector) forget() {
	c.mu.Lock()
	all := c.parked
	c.parked = nil
	c.mu.Unlock()
	for _, p := range all {
		p.timer.Stop()
		_ = p.conn.Close()
	}
}

// opened keeps account of a socket. It returns what to call when the socket is closed.
func (c *connector) opened(s *socket) (closed func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[s] = struct{}{}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, s)
	}
}

// Close ends the running logins, and every call that still waits for the server; database/sql calls it when the pool is
// closed.
func (c *connector) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.wait.Wait()
	c.forget()
	c.mu.Lock()
	open := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()
	for _, s := range open {
		_ = s.Close()
	}
	return nil
}
