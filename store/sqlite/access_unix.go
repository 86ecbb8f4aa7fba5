//go:build unix

package sqlite

import "golang.org/x/sys/unix"

// accessible reports why the file could not be opened now, if it could not. A file that is open can be read and written
// whatever becomes of its mode.
func accessible(path string) error {
	return unix.Faccessat(unix.AT_FDCWD, path, unix.R_OK|unix.W_OK, unix.AT_EACCESS)
}
