package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/aaravsoft/leasehold/store"
)

// checkPath refuses what SQLite would take for something else than a file.
func checkPath(path string) error {
	switch {
	case path == "":
		return fmt.Errorf("%w path: it must not be empty", store.ErrInvalid)
	case path == ":memory:":
		return fmt.Errorf("%w path %q: leases are shared through a file; for tests take package memory", store.ErrInvalid, path)
	case strings.HasPrefix(path, "file:"):
		return fmt.Errorf("%w path %q: give a plain path, not a URI (and begin it with ./ if the file is really called so)",
			store.ErrInvalid, path)
	case strings.ContainsRune(path, 0):
		return fmt.Errorf("%w path %q: it must not contain a NUL", store.ErrInvalid, path)
	}
	return nil
}

// creating is held while a file that this process has just created is closed again. POSIX drops all locks that a
// process has on a file as soon as the process closes any descriptor of it: without the mutex, a second Open could
// already have the file open in SQLite and lose its locks. For the same reason nothing in this package opens a file
// that exists.
var creating sync.Mutex

// createFile makes sure that there is a regular file, and says which. A new one is private from its first instant,
// whatever the umask, and so are -wal and -shm: SQLite gives them the mode of the file.
func createFile(path string) (os.FileInfo, error) {
	creating.Lock()
	defer creating.Unlock()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	switch {
	case err == nil:
		if err := f.Close(); err != nil {
			return nil, fileError(path, err)
		}
	case !errors.Is(err, fs.ErrExist):
		return nil, fileError(path, err)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &store.MisconfiguredError{Remedy: path + " is a symbolic link to a file that does not exist: create that, or remove the link", Err: err}
	case err != nil:
		return nil, fileError(path, err)
	case info.IsDir():
		return nil, &store.MisconfiguredError{Remedy: path + " is a folder: name a file in it"}
	case !info.Mode().IsRegular():
		return nil, &store.MisconfiguredError{Remedy: path + " is not a regular file: name another path"}
	}
	return info, nil
}

// fileError explains why a file could not be created.
func fileError(path string, err error) error {
	for _, transient := range []error{syscall.ENOSPC, syscall.EIO, syscall.EMFILE, syscall.ENFILE, syscall.EDQUOT, syscall.EINTR} {
		if errors.Is(err, transient) {
			return &store.UnavailableError{Op: "open", Err: err}
		}
	}
	folder := filepath.Dir(path)
	remedy := "cannot create " + path + ": name another path"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		remedy = "the folder " + folder + " does not exist: create it"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		remedy = "cannot create " + path + ": " + needsAccess
	}
	return &store.MisconfiguredError{Remedy: remedy, Err: err}
}

// sameFiles finds out that somebody has deleted or replaced the file, or one of those that SQLite keeps beside it. This
// process would go on in files that no other process can find, and both would give away the same leases.
func (s *Store) sameFiles(c *conn) error {
	if err := sameFile(s.path, s.file); err != nil {
		return err
	}
	if err := accessible(s.path); err != nil {
		// Whoever took the right away wants this process to stop using the file; its open descriptors would not notice.
		return &store.MisconfiguredError{Remedy: "the file " + s.path + " may not be used any more: " + needsAccess, Err: err}
	}
	for path, opened := range c.beside {
		if err := sameFile(path, opened); err != nil {
			return err
		}
	}
	return nil
}

func sameFile(path string, opened os.FileInfo) error {
	now, err := os.Stat(path)
	if err == nil && os.SameFile(now, opened) {
		return nil
	}
	return &store.MisconfiguredError{Remedy: "the file " + path +
		" was deleted or replaced while it was in use, so leases may have been given away twice: restart every program that uses it", Err: err}
}
