package mssql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/aaravsoft/leasehold/store"
)

// pool is the database as the operations see it.
type pool struct {
	db    *sql.DB
	own   *connector    // nil: the pool is somebody else's, of which nothing is changed
	table table         // for error messages
	share chan struct{} // what may run beside renewals and releases

	// doubtful is how many connections of somebody else's pool are tried before they are used: after one has turned out to
	// be dead, as many as there were.
	doubtful atomic.Int64

	batches atomic.Pointer[batches] // nil until the collation of the names is known
	closed  atomic.Bool
}

func newPool(c *connector, size int) *pool {
	p := &pool{db: sql.OpenDB(c), own: c}
	p.db.SetMaxOpenConns(size)
	p.db.SetMaxIdleConns(poolIdle)
	p.db.SetConnMaxIdleTime(idleFor)
	return p
}

// limitOthers keeps connections free for renewals and releases, which must never wait for acquisitions: two thirds of
// an own pool, one of somebody else's.
func (p *pool) limitOthers() {
	most := poolSize / 3
	if open := p.db.Stats().MaxOpenConnections; p.own == nil && open > 0 {
		most = min(most, max(1, open-1))
	}
	p.share = make(chan struct{}, most)
}

// call is one round trip.
type call struct {
	op    string
	other bool // neither renewal nor release: it waits for its share
	sql   string
	args  []any
}

// errNoAnswer is a batch that ended without the rows that it always ends with.
var errNoAnswer = errors.New("the server's answer is incomplete")

// query sends a batch and gives each row of its last result to scan. It reads the answer to its end: an error may come
// after the rows. Rows of earlier results are those of a trigger.
//
// Its errors have their class.
func (p *pool) query(ctx context.Context, c call, begin func(), scan func(*sql.Rows) error) error {
	if p.closed.Load() {
		return errClosed
	}
	if c.other {
		select {
		case p.share <- struct{}{}:
			defer func() { <-p.share }()
		case <-ctx.Done():
			return p.fault(ctx, c.op, false, fmt.Errorf("%w while other calls used the connections", ctx.Err()))
		}
	}
	sent := false
	err := p.send(ctx, c, &sent, begin, scan)
	if err == nil {
		return nil
	}
	if sent || ctx.Err() == nil { // else the caller has had no time for it, which says nothing about a connection
		p.distrust(err)
	}
	if all(err).has(collations) {
		p.batches.Store(nil) // that of the names was changed
	}
	return p.fault(ctx, c.op, sent, err)
}

// send takes a connection and uses it. A connection that turns out to be broken before anything was sent is replaced,
// once: [sql.Conn], unlike [sql.DB], does not do that.
func (p *pool) send(ctx context.Context, c call, sent *bool, begin func(), scan func(*sql.Rows) error) error {
	for again := false; ; again = true {
		conn, err := p.take(ctx)
		if err != nil {
			return err
		}
		rows, err := conn.QueryContext(ctx, c.sql, c.args...)
		if errors.Is(err, driver.ErrBadConn) {
			// The driver says so only if the server cannot have got all of the request.
			_ = conn.Close()
			if again {
				return err
			}
			p.distrust(err)
			continue
		}
		*sent = true
		if err == nil {
			err = drain(rows, begin, scan)
		}
		if err != nil && (wrongNode(err) || transport(err)) {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // this connection must not be used again
		}
		_ = conn.Close()
		return err
	}
}

// take takes a connection: of an own pool any, for its dead ones are forgotten at once; of somebody else's one that is
// alive, if there is reason for doubt. A dead one costs a call otherwise, whose outcome would be unclear.
func (p *pool) take(ctx context.Context) (*sql.Conn, error) {
	for {
		conn, err := p.db.Conn(ctx)
		if err != nil || p.doubtful.Load() <= 0 {
			return conn, err
		}
		err = conn.PingContext(ctx)
		left := p.doubtful.Add(-1)
		if err == nil {
			return conn, nil
		}
		_ = conn.Close()
		if left < 0 || ctx.Err() != nil || !transport(err) {
			return nil, err
		}
	}
}

// drain reads all results, to the end.
func drain(rows *sql.Rows, begin func(), scan func(*sql.Rows) error) error {
	defer rows.Close()
	var failed error
	results := 0
	for more := true; more; more = rows.NextResultSet() {
		if names, err := rows.Columns(); err == nil && len(names) > 0 {
			results++
			failed = nil
			begin()
		}
		for rows.Next() {
			if failed == nil {
				failed = scan(rows)
			}
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	if failed == nil && results == 0 {
		return errNoAnswer
	}
	return failed
}

// distrust forgets the idle connections after an error that they may share, or has them tried if they are not ours to
// forget: one that was closed while it was idle costs a call, and one that leads to a former primary costs many.
func (p *pool) distrust(err error) {
	switch {
	case !transport(err) && !wrongNode(err):
		return
	case p.own == nil:
		p.doubtful.Store(int64(p.db.Stats().OpenConnections))
		return
	}
	p.own.forget()
	p.db.SetMaxIdleConns(-1)
	p.db.SetMaxIdleConns(poolIdle)
}

// errClosed is what a call on a closed Store returns.
var errClosed = fmt.Errorf("%w call: the store is closed", store.ErrInvalid)

// fault gives an error its class.
func (p *pool) fault(ctx context.Context, op string, sent bool, err error) error {
	if p.closed.Load() && !sent {
		return errClosed
	}
	return classify(ctx, op, sent, p.table, err)
}

// close ends an own pool.
func (p *pool) close() error {
	p.closed.Store(true)
	if p.own == nil {
		return nil
	}
	return p.db.Close()
}
