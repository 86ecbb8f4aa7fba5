package sqlite

import (
	"context"
	"fmt"

	"github.com/aaravsoft/leasehold/store"
)

// The file says whose it is and in which layout, in the two header fields that SQLite keeps for that.
const (
	applicationID = 0x4c656173 // "Leas"
	layoutVersion = 1
)

// The counter of tokens starts at the microseconds of the wall clock: should somebody delete the file, the tokens of
// the next one are still greater than those of the last, unless that granted more than a million leases a second.
const layout = `
CREATE TABLE leases (
  name         TEXT    NOT NULL PRIMARY KEY,
  owner        TEXT    NOT NULL,
  metadata     TEXT,             -- NULL: none
  token        INTEGER NOT NULL,
  acquired     INTEGER NOT NULL, -- nanoseconds since 1970
  renewed      INTEGER NOT NULL, -- nanoseconds since 1970
  expires      INTEGER NOT NULL, -- nanoseconds since 1970
  boot_id      TEXT    NOT NULL, -- the boot under which the expiry was written, '' if unknown
  boot_expires INTEGER NOT NULL  -- nanoseconds since that boot
) STRICT, WITHOUT ROWID;
CREATE TABLE tokens (last INTEGER NOT NULL) STRICT;
INSERT INTO tokens VALUES (%d);
PRAGMA application_id = %d;
PRAGMA user_version = %d;
`

// setUp finds out what the file is, before anything in it is touched, and makes it ours if it is empty.
func (s *Store) setUp(ctx context.Context, op string, c *conn) error {
	if err := c.writable(s.path); err != nil {
		return err
	}
	var empty bool
	inspect := func() (err error) {
		empty, err = c.inspect(s.path)
		return err
	}
	for _, step := range []func() error{
		inspect,
		func() error { return c.useWAL(s.path) },
		func() error { return c.exec(`PRAGMA synchronous = FULL`) },
	} {
		if err := s.patiently(ctx, op, c, step); err != nil {
			return err
		}
	}
	if !empty {
		return nil
	}
	if err := s.patiently(ctx, op, c, func() error { return c.exec(`BEGIN IMMEDIATE`) }); err != nil {
		return err
	}
	// Of several processes that found the file empty, the first one creates everything in this transaction, and the
	// others find it here.
	if err := inspect(); err != nil {
		return err
	}
	if !empty {
		return c.exec(`ROLLBACK`)
	}
	if err := c.exec(fmt.Sprintf(layout, s.clock().wall/1000, applicationID, layoutVersion)); err != nil {
		return err
	}
	return c.exec(`COMMIT`)
}

// writable finds a file that SQLite could open for reading only: it does not mind until somebody writes.
func (c *conn) writable(path string) error {
	return c.c.Raw(func(raw any) error {
		readOnly, err := raw.(interface {
			IsReadOnly(schema string) (bool, error)
		}).IsReadOnly("main")
		if err == nil && readOnly {
			err = &store.MisconfiguredError{Remedy: "the file " + path + " is read-only: " + needsAccess}
		}
		return err
	})
}

// inspect says whether the file is empty. If it is not, it must be a file of this package, in this layout.
func (c *conn) inspect(path string) (empty bool, err error) {
	var application, version, objects int64
	err = c.c.QueryRowContext(context.Background(), `
		SELECT a.application_id, v.user_version, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_application_id a, pragma_user_version v`).Scan(&application, &version, &objects)
	switch {
	case err != nil:
		return false, err
	case application == 0 && version == 0 && objects == 0:
		return true, nil
	case application != applicationID:
		return false, &store.MisconfiguredError{
			Remedy: "the SQLite database " + path + " belongs to another program: give the leases a file of their own"}
	case version != layoutVersion:
		return false, &store.MisconfiguredError{Remedy: fmt.Sprintf(
			"the file %s has layout %d, and this version of leasehold works with layout %d: use the same version "+
				"everywhere, or, when no lease is held, move the file away", path, version, layoutVersion)}
	}
	return false, nil
}

// useWAL turns on write-ahead logging. The file remembers it.
func (c *conn) useWAL(path string) error {
	var mode string
	if err := c.c.QueryRowContext(context.Background(), `PRAGMA journal_mode = WAL`).Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return &store.MisconfiguredError{Remedy: "the file system of " + path +
			" cannot share memory between processes: put the file on a local disk"}
	}
	return nil
}
