package sqlite

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

// TestFaults brings about real errors of SQLite in the middle of an acquire, and looks at what the caller is told and at
// what is in the file afterwards.
func TestFaults(t *testing.T) {
	const failingCommit = `
		PRAGMA foreign_keys = ON;
		CREATE TABLE parent (id INTEGER PRIMARY KEY);
		CREATE TABLE child (id INTEGER REFERENCES parent (id) DEFERRABLE INITIALLY DEFERRED);
		CREATE TRIGGER orphan AFTER INSERT ON leases BEGIN INSERT INTO child VALUES (7); END`
	for _, test := range []struct {
		name    string
		do      string // on the store's own connection
		class   error
		unclear bool
		says    string
		lasts   bool // it does not end with the connection
	}{
		{name: "file cannot grow", do: `PRAGMA max_page_count = 1`, class: store.ErrUnavailable, says: "full"},
		{name: "read-only", do: `PRAGMA query_only = ON`, class: store.ErrMisconfigured, says: "write to the file"},
		{name: "table gone", do: `DROP TABLE tokens`, class: store.ErrMisconfigured, says: "not as they were created", lasts: true},
		{name: "another table of that name", do: `DROP TABLE tokens; CREATE TABLE tokens (first)`, class: store.ErrMisconfigured, says: "not as they were created", lasts: true},
		{name: "a constraint that is not ours", do: `CREATE TRIGGER no BEFORE INSERT ON leases BEGIN SELECT RAISE(ABORT, 'no'); END`, class: store.ErrMisconfigured, says: "not as they were created", lasts: true},
		{name: "commit fails", do: failingCommit, class: store.ErrUnavailable, unclear: true, says: "unclear"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := newPath(t)
			s := openStore(t, path, systemClock())
			watch := openStore(t, path, systemClock())
			require.NoError(t, s.conn.exec(test.do))

			c := claim("job", time.Hour)
			c.Metadata = strings.Repeat("x", 1024)
			_, err := s.Acquire(t.Context(), c)
			for i := 0; err == nil && i < 20; i++ { // until the pages are full
				c = claim(c.Name+"x", time.Hour)
				c.Metadata = strings.Repeat("x", 1024)
				_, err = s.Acquire(t.Context(), c)
			}
			refused(t, err, test.class, test.says)
			assert.Equal(t, test.unclear, errors.Is(err, store.ErrUnclear))
			assert.NotZero(t, code(err), "the engine's own error stays reachable")
			assert.Nil(t, s.conn, "it is not trusted again")
			_, err = watch.Get(t.Context(), c.Name)
			assert.ErrorIs(t, err, store.ErrNotFound)

			_, err = s.Acquire(t.Context(), c)
			if test.lasts {
				refused(t, err, test.class, test.says)
			} else {
				assert.NoError(t, err)
			}
		})
	}
}

// TestPanic has a call go up in smoke in the middle of its transaction.
func TestPanic(t *testing.T) {
	path := newPath(t)
	armed := false
	s := openStore(t, path, func() reading {
		if armed {
			panic("no clock")
		}
		return systemClock()()
	})
	other := openStore(t, path, systemClock())
	armed = true
	assert.PanicsWithValue(t, "no clock", func() { _, _ = s.Acquire(t.Context(), claim("job", time.Hour)) })
	armed = false

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := other.Acquire(ctx, claim("job", time.Hour))
	require.NoError(t, err, "the file is free")
	grant(t, s, claim("another job", time.Hour))
}

func TestDamagedFile(t *testing.T) {
	path := newPath(t)
	s := openStore(t, path, systemClock())
	grant(t, s, claim("job", time.Hour))
	require.NoError(t, s.Close())
	size := mustSize(t, path)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteAt(bytes.Repeat([]byte{0xa5}, int(size-1000)), 1000) // behind the header and the start of the schema
	require.NoError(t, err)
	require.NoError(t, f.Close())

	_, err = Open(path)
	refused(t, err, store.ErrMisconfigured, "damaged")
}

func mustSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.Size()
}
