package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	driver "modernc.org/sqlite"
)

// conn is one connection to the file, with what was prepared on it. It is used by one call at a time.
//
// No statement is given a context that can end. They take microseconds, apart from a COMMIT that waits for the disk,
// and a statement that is always seen to its end has a known outcome. Only waiting for other users of the file takes
// long, and nothing in here waits: a statement that meets another one fails at once, and is tried again by the Store.
type conn struct {
	db   *sql.DB
	c    *sql.Conn
	path string // symbolic links resolved: SQLite keeps its other files beside this one

	begin, commit, rollback          *sql.Stmt
	find, put, remove, bumpToken     *sql.Stmt
	page, listExpired, removeExpired *sql.Stmt
	prepared                         []*sql.Stmt // all of them

	beside map[string]os.FileInfo // the -wal and -shm that this connection uses
	broken bool                   // an error leaves its state in doubt: to be closed
}

const columns = `name, owner, metadata, token, acquired, renewed, expires, boot_id, boot_expires`

// isExpired says of a row what left(now) <= 0 does; ?1 is the boot id, ?2 the boot clock and ?3 the wall clock.
const isExpired = `CASE WHEN boot_id = ?1 AND ?1 <> '' THEN boot_expires <= ?2 ELSE expires <= ?3 END`

func dial(path string) (*conn, error) {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	connector, err := driver.NewConnector(dsn(path))
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	c, err := db.Conn(context.Background())
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &conn{db: db, c: c, path: path}, nil
}

// dsn is a URI, so that no character of the path means anything to SQLite or to the driver. SQLite may not create the
// file, for it would do so with a mode of its own.
func dsn(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/…
	}
	return "file://" + (&url.URL{Path: path}).EscapedPath() + "?mode=rw&_error_rc=1"
}

// prepare makes the connection ready for use: the file has its layout by now.
func (c *conn) prepare() error {
	for _, s := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&c.begin, `BEGIN IMMEDIATE`},
		{&c.commit, `COMMIT`},
		{&c.rollback, `ROLLBACK`},
		{&c.find, `SELECT ` + columns + ` FROM leases WHERE name = ?`},
		{&c.put, `INSERT OR REPLACE INTO leases (` + columns + `) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`},
		{&c.remove, `DELETE FROM leases WHERE name = ? AND owner = ?`},
		{&c.bumpToken, `UPDATE tokens SET last = last + 1 RETURNING last`},
		{&c.page, `SELECT ` + columns + ` FROM leases WHERE name >= ? ORDER BY name LIMIT ?`},
		{&c.listExpired, `SELECT name FROM leases WHERE ` + isExpired + ` LIMIT ?4`},
		{&c.removeExpired, `DELETE FROM leases WHERE name = ?4 AND ` + isExpired},
	} {
		stmt, err := c.c.PrepareContext(context.Background(), s.text) //nolint:sqlclosecheck // close does
		if err != nil {
			return err
		}
		*s.stmt = stmt
		c.prepared = append(c.prepared, stmt)
	}
	c.beside = make(map[string]os.FileInfo)
	for _, suffix := range []string{"-wal", "-shm"} {
		info, err := os.Stat(c.path + suffix)
		if err != nil {
			return fmt.Errorf("the file that SQLite has just made is gone: %w", err)
		}
		c.beside[c.path+suffix] = info
	}
	return nil
}

// run executes a prepared statement that returns nothing.
func run(stmt *sql.Stmt, args ...any) error {
	_, err := stmt.ExecContext(context.Background(), args...)
	return err
}

func (c *conn) exec(text string) error {
	_, err := c.c.ExecContext(context.Background(), text)
	return err
}

// close gives everything back; an open transaction is rolled back. The statements come first: package database/sql does
// not close those of a sql.Conn with it, and with one of them open SQLite keeps the file.
func (c *conn) close() error {
	var errs []error
	for _, stmt := range c.prepared {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(append(errs, c.c.Close(), c.db.Close())...)
}

// rows reads at most a page of rows to the end, so that nothing stays open.
func rows(stmt *sql.Stmt, args ...any) ([]row, error) {
	found, err := stmt.QueryContext(context.Background(), args...)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	var list []row
	for found.Next() {
		var r row
		if err := found.Scan(&r.name, &r.owner, &r.metadata, &r.token,
			&r.acquired, &r.renewed, &r.expires.wall, &r.expires.bootID, &r.expires.boot); err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, found.Err()
}

// tx is an open write transaction: nobody else writes to the file until it ends.
type tx struct {
	*conn
	now   reading // read once the transaction held the file
	wrote bool    // there is something to commit
}

// row returns the row under a name, or nil.
func (t *tx) row(name string) (*row, error) {
	list, err := rows(t.find, name)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// save writes the row, whether it is new or not.
func (t *tx) save(r *row) error {
	t.wrote = true
	return run(t.put, r.name, r.owner, r.metadata, r.token,
		r.acquired, r.renewed, r.expires.wall, r.expires.bootID, r.expires.boot)
}

func (t *tx) delete(r *row) error {
	t.wrote = true
	return run(t.remove, r.name, r.owner)
}

// token draws the next one. It becomes visible together with the grant that it is for, and with no other.
func (t *tx) token() (int64, error) {
	t.wrote = true
	var token int64
	err := t.bumpToken.QueryRowContext(context.Background()).Scan(&token)
	return token, err
}
