package sqlite

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/aaravsoft/leasehold/store"
)

// Store keeps leases in a file. It is a [store.Store] and a [store.Inspector].
type Store struct {
	path  string      // absolute
	file  os.FileInfo // which file that was when the Store was opened
	clock clock

	// turn holds one token. Who has taken it owns the fields below; who waits for it is served in order.
	turn   chan struct{}
	others chan struct{} // held by the one call that is neither renewal nor release and waits for its turn, or has it
	conn   *conn         // nil at first, and after an error
	swept  reading       // when expired rows were last looked for

	met, left time.Time // when another process was last in the way; when this one last left the file

	closing  chan struct{} // closed by Close
	close    sync.Once
	closeErr error
}

var (
	_ store.Store     = (*Store)(nil)
	_ store.Inspector = (*Store)(nil)
)

// openLimit bounds the wait in Open for a file that another program does not let go.
const openLimit = 5 * time.Second

// Open opens the file at path. If there is none it creates it, for this user only; the folder must exist.
//
// Its errors are of class [store.ErrInvalid] for what is no path of a file, [store.ErrMisconfigured] for a file or a
// folder that cannot be used, and [store.ErrUnavailable] for what may pass: a full disk, or another program that has
// kept the file for 5 seconds.
func Open(path string) (*Store, error) { return open(path, systemClock()) }

func open(path string, clock clock) (*Store, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(path) // the process may change its folder later
	if err != nil {
		return nil, fileError(path, err)
	}
	// The file is identified before SQLite opens it: if somebody replaces it in between, the first call notices.
	file, err := createFile(path)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, file: file, clock: clock, turn: make(chan struct{}, 1), others: make(chan struct{}, 1), closing: make(chan struct{})}
	s.turn <- struct{}{}
	ctx, cancel := context.WithTimeout(context.Background(), openLimit)
	defer cancel()
	if err := s.use(ctx, "open", func(*conn) error { return nil }); err != nil {
		return nil, err
	}
	return s, nil
}

// Close waits for the running calls, ends those that are still waiting for the file, and gives the file back. Every
// call after it returns an error of class [store.ErrInvalid].
func (s *Store) Close() error {
	s.close.Do(func() {
		close(s.closing)
		<-s.turn // for ever
		if s.conn != nil {
			s.closeErr = s.conn.close()
		}
	})
	return s.closeErr
}

// The operations that a held lock needs.
const (
	opRenew   = "renew"
	opRelease = "release"
)

// use gives fn the connection, to itself.
func (s *Store) use(ctx context.Context, op string, fn func(*conn) error) error {
	if ctx.Err() != nil {
		return gaveUp(ctx, op, nil)
	}
	if op != opRenew && op != opRelease {
		// At most one of them stands in the way of a renewal, however many there are.
		select {
		case s.others <- struct{}{}:
			defer func() { <-s.others }()
		case <-ctx.Done():
			return gaveUp(ctx, op, nil)
		case <-s.closing:
			return errClosed
		}
	}
	select {
	case <-s.turn:
		defer func() { s.turn <- struct{}{} }()
	case <-ctx.Done():
		return gaveUp(ctx, op, nil)
	case <-s.closing:
		return errClosed
	}
	if s.conn == nil {
		c, err := s.connect(ctx, op)
		if err != nil {
			return s.fault(op, err)
		}
		s.conn = c
	}
	defer func() {
		if s.conn.broken {
			_ = s.conn.close() // what matters is the error that broke it
			s.conn = nil
		}
	}()
	return fn(s.conn)
}

func (s *Store) connect(ctx context.Context, op string) (*conn, error) {
	if err := sameFile(s.path, s.file); err != nil {
		return nil, err
	}
	c, err := dial(s.path)
	if err != nil {
		return nil, err
	}
	if err = s.setUp(ctx, op, c); err == nil {
		err = s.patiently(ctx, op, c, c.prepare)
	}
	if err != nil {
		_ = c.close()
		return nil, err
	}
	return c, nil
}

// write runs fn in a transaction that has the file to itself from its start, and commits what fn wrote. An error of fn
// is an error of the database, and undoes everything.
func (s *Store) write(ctx context.Context, op string, fn func(*tx) error) error {
	return s.use(ctx, op, func(c *conn) error { return s.transact(ctx, op, c, fn) })
}

func (s *Store) transact(ctx context.Context, op string, c *conn, fn func(*tx) error) error {
	if err := s.giveWay(ctx, op); err != nil {
		return err
	}
	if err := s.patiently(ctx, op, c, func() error { return run(c.begin) }); err != nil {
		return err
	}
	defer func() { s.left = time.Now() }()
	return s.finish(op, c, fn)
}

// finish goes on after BEGIN. From here on nothing ends with the caller's context, so that the outcome is certain
// unless COMMIT fails.
func (s *Store) finish(op string, c *conn, fn func(*tx) error) error {
	c.broken = true // until the transaction has ended: if something panics, the file must not stay locked
	ofFiles := s.sameFiles(c)
	t := &tx{conn: c, now: s.clock()} // not earlier: the wait for the file may have been long
	var ofDatabase error
	if ofFiles == nil {
		ofDatabase = fn(t)
	}
	if err := cmp.Or(ofFiles, ofDatabase); err != nil || !t.wrote {
		undone := run(c.rollback)
		c.broken = ofDatabase != nil || undone != nil
		return s.fault(op, err)
	}
	err := run(c.commit)
	c.broken = err != nil
	return s.commitFault(op, err)
}

// read returns the rows that a query finds, and when it had found them.
func (s *Store) read(ctx context.Context, op string, query func(*conn) ([]row, error)) (list []row, now reading, err error) {
	err = s.use(ctx, op, func(c *conn) error {
		if err := s.sameFiles(c); err != nil {
			return err
		}
		err := s.patiently(ctx, op, c, func() (err error) {
			list, err = query(c)
			return err
		})
		now = s.clock()
		return err
	})
	return list, now, err
}
