package sqlite

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

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

func TestAccessIsTakenAway(t *testing.T) {
	folder := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(folder), 0o755))
	require.NoError(t, os.Chmod(folder, 0o777))
	path := filepath.Join(folder, "leases.db")
	require.NoError(t, openStore(t, path, systemClock()).Close())
	require.NoError(t, os.Chmod(path, 0o666))
	chmod := func(mode os.FileMode) { // by the owner, which nobody is not
		done := make(chan error)
		go func() { done <- os.Chmod(path, mode) }()
		require.NoError(t, <-done)
	}
	asNobody(func() {
		s, err := Open(path)
		require.NoError(t, err)
		defer s.Close()
		claims := []store.Claim{{Name: "job", Owner: "a/b", TTL: time.Hour}}
		_, err = s.Acquire(t.Context(), claims[0])
		require.NoError(t, err)
		chmod(0o000)
		_, err = s.Renew(t.Context(), claims)
		refused(t, err, store.ErrMisconfigured, "may not be used any more")
		chmod(0o666)
		results, err := s.Renew(t.Context(), claims)
		require.NoError(t, err)
		require.NoError(t, results[0].Err, "and given back in time")
	})
}
