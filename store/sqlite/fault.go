package sqlite

import (
	"context"
	"errors"
	"fmt"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/aaravsoft/leasehold/store"
)

const needsAccess = "this user must be able to write to the file, and to create files in its folder"

// errClosed is what every call on a closed Store returns.
var errClosed = fmt.Errorf("%w call: the store is closed", store.ErrInvalid)

// code returns SQLite's primary result code.
func code(err error) int {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return e.Code() & 0xff
	}
	return lib.SQLITE_OK
}

// busy says that another connection was in the way. The statement had no effect.
func busy(err error) bool {
	switch code(err) {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_PROTOCOL:
		return true
	}
	return false
}

// fault gives the class to an error that came before a COMMIT: nothing of the operation was applied, or ever will be.
func (s *Store) fault(op string, err error) error {
	for _, class := range []error{nil, store.ErrMisconfigured, store.ErrInvalid, store.ErrUnavailable} {
		if errors.Is(err, class) {
			return err
		}
	}
	switch code(err) {
	case lib.SQLITE_CANTOPEN:
		return &store.MisconfiguredError{Remedy: "cannot open " + s.path + ", or a file beside it: " + needsAccess +
			", and the path must be shorter than 500 bytes", Err: err}
	case lib.SQLITE_READONLY, lib.SQLITE_PERM, lib.SQLITE_AUTH:
		return &store.MisconfiguredError{Remedy: "cannot write to " + s.path + ": " + needsAccess, Err: err}
	case lib.SQLITE_NOTADB:
		return &store.MisconfiguredError{Remedy: s.path + " is not an SQLite database: name another path", Err: err}
	case lib.SQLITE_CORRUPT, lib.SQLITE_FORMAT:
		return &store.MisconfiguredError{Remedy: s.path + " is damaged: stop every program that uses it, and move it away", Err: err}
	case lib.SQLITE_ERROR, lib.SQLITE_SCHEMA, lib.SQLITE_CONSTRAINT, lib.SQLITE_MISMATCH:
		return &store.MisconfiguredError{Remedy: "the tables in " + s.path +
			" are not as they were created: stop every program that uses it, and move it away", Err: err}
	}
	return &store.UnavailableError{Op: op, Err: err}
}

// commitFault is for an error of COMMIT. Only "busy" proves that nothing was written: after any other error the frames
// may be in the log, complete, and be found by the recovery after a crash.
func (s *Store) commitFault(op string, err error) error {
	if err == nil || busy(err) {
		return s.fault(op, err)
	}
	return &store.UnavailableError{Op: op, Unclear: true, Err: err}
}

// gaveUp is the error of a call whose context ended while it waited, perhaps for whom.
func gaveUp(ctx context.Context, op string, waitedFor error) error {
	err := ctx.Err()
	if waitedFor != nil {
		err = fmt.Errorf("%w while another program used the file: %w", err, waitedFor)
	}
	return &store.UnavailableError{Op: op, Err: err}
}
