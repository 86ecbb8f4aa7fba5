package sqlite

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/aaravsoft/leasehold/store"
)

// asNobody runs f without root's right to do anything with any file. Only this thread loses it, and SQLite runs on the
// goroutine that calls it.
func asNobody(f func()) {
	if os.Getuid() != 0 {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err := unix.Setfsuid(65534); err != nil {
			panic(err)
		}
		f()
	}()
	<-done
}

func TestOpenWithoutAccess(t *testing.T) {
	for _, test := range []struct {
		name                 string
		exists               bool
		fileMode, folderMode os.FileMode
		says                 string
	}{
		{"no file in a read-only folder", false, 0, 0o555, "create files in its folder"},
		{"file in a read-only folder", true, 0o666, 0o555, "create files in its folder"},
		{"read-only file", true, 0o444, 0o777, "is read-only"},
		{"unreadable file", true, 0o000, 0o777, "write to the file"},
		{"folder that cannot be entered", true, 0o666, 0o000, "write to the file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			folder := t.TempDir()
			require.NoError(t, os.Chmod(filepath.Dir(folder), 0o755))
			path := filepath.Join(folder, "leases.db")
			if test.exists {
				require.NoError(t, openStore(t, path, systemClock()).Close())
				require.NoError(t, os.Chmod(path, test.fileMode))
			}
			require.NoError(t, os.Chmod(folder, test.folderMode))
			t.Cleanup(func() { _ = os.Chmod(folder, 0o700) })
			asNobody(func() {
				_, err := Open(path)
				refused(t, err, store.ErrMisconfigured, test.says)
			})
		})
	}
}
