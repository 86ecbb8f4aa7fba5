//go:build unix

// Windows does not let anybody delete or replace an open file.

package sqlite

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

// TestReplacedFile is about two processes that would each have a file of its own under one path, and both hold a name.
func TestReplacedFile(t *testing.T) {
	for _, test := range []struct {
		name string
		by   func(t *testing.T, path string)
	}{
		{"deleted", func(t *testing.T, path string) { require.NoError(t, os.Remove(path)) }},
		{"all deleted", func(t *testing.T, path string) {
			for _, name := range []string{path, path + "-wal", path + "-shm"} {
				require.NoError(t, os.Remove(name))
			}
		}},
		{"deleted and made anew", func(t *testing.T, path string) {
			for _, name := range []string{path, path + "-wal", path + "-shm"} {
				require.NoError(t, os.Remove(name))
			}
			grant(t, openStore(t, path, systemClock()), claim("job", time.Hour))
		}},
		{"another one moved over it", func(t *testing.T, path string) {
			other := newPath(t)
			require.NoError(t, openStore(t, other, systemClock()).Close())
			require.NoError(t, os.Rename(other, path))
		}},
		{"its log deleted", func(t *testing.T, path string) { require.NoError(t, os.Remove(path+"-wal")) }},
		{"its shared memory deleted", func(t *testing.T, path string) { require.NoError(t, os.Remove(path+"-shm")) }},
		{"its folder moved", func(t *testing.T, path string) {
			away := filepath.Dir(path) + ".away"
			require.NoError(t, os.Rename(filepath.Dir(path), away))
			t.Cleanup(func() { _ = os.RemoveAll(away) })
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := newPath(t)
			s, err := Open(path)
			require.NoError(t, err)
			defer func() { assert.NoError(t, s.Close()) }()
			c := claim("job", time.Hour)
			grant(t, s, c)
			test.by(t, path)
			for op, call := range operations(c.Name, c.Owner) {
				refused(t, call(t.Context(), s), store.ErrMisconfigured, "deleted or replaced")
				refused(t, call(t.Context(), s), store.ErrMisconfigured, "restart")
				assert.False(t, s.conn.broken, op)
			}
		})
	}
}

// TestReplacedFileIsClosed relies on SQLite: the last user of a file deletes what is beside it, by name, but not if the
// file is no longer under its own.
func TestReplacedFileIsClosed(t *testing.T) {
	path := newPath(t)
	old := openStore(t, path, systemClock())
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		require.NoError(t, os.Remove(name))
	}
	fresh := openStore(t, path, systemClock())
	c := claim("job", time.Hour)
	grant(t, fresh, c)
	require.NoError(t, old.Close())
	require.NoError(t, renew(t, fresh, c).Err)
	assert.Positive(t, ask(t, openStore(t, path, systemClock()), "job"))
}

func TestFileThatComesBack(t *testing.T) {
	path := newPath(t)
	s := openStore(t, path, systemClock())
	c := claim("job", time.Hour)
	grant(t, s, c)
	require.NoError(t, os.Rename(path, path+".away"))
	_, err := s.Renew(t.Context(), []store.Claim{c})
	refused(t, err, store.ErrMisconfigured, "deleted or replaced")
	require.NoError(t, os.Rename(path+".away", path))
	assert.NoError(t, renew(t, s, c).Err)
}

// TestReplacedWhileUnconnected is for the connection that an error has cost: the next one is not made to another file.
func TestReplacedWhileUnconnected(t *testing.T) {
	path := newPath(t)
	s := openStore(t, path, systemClock())
	require.NoError(t, s.conn.close())
	s.conn = nil
	require.NoError(t, os.Rename(path, path+".away")) // still there, so that its number is not given to the next one
	require.NoError(t, openStore(t, path, systemClock()).Close())

	_, err := s.Acquire(t.Context(), claim("job", time.Hour))
	refused(t, err, store.ErrMisconfigured, "deleted or replaced")
	require.NoError(t, os.Rename(path+".away", path))
	grant(t, s, claim("job", time.Hour))
}
