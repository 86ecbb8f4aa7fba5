package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	lib "modernc.org/sqlite/lib"

	"github.com/aaravsoft/leasehold/store"
)

func TestOpenTakesAnyPath(t *testing.T) {
	odd := []string{
		"with blanks .db", "100%.db", "%41%2F.db", "what?.db", "a?mode=memory&cache=shared", "#1.db", "a&b=c;d.db", "ß日本🔒.db",
		"'quoted' \"twice\".db", ":memory:", "file:x.db", "back\\slash.db", "line\nbreak.db", "+plus+.db", "~", "-rf", "bad\xffutf8.db",
	}
	if runtime.GOOS == "windows" {
		odd = []string{"with blanks .db", "100%.db", "%41%2F.db", "#1.db", "a&b=c;d.db", "ß日本🔒.db", "+plus+.db"}
	}
	for _, name := range odd {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), name) // odd folders, too
			require.NoError(t, os.Mkdir(dir, 0o700))
			path := filepath.Join(dir, name)
			s, err := Open(path)
			require.NoError(t, err)
			grant(t, s, claim("job", time.Hour))
			assert.ElementsMatch(t, []string{name, name + "-shm", name + "-wal"}, files(t, dir))
			require.NoError(t, s.Close())
			assert.Equal(t, []string{name}, files(t, dir))
			assert.Equal(t, []string{"job"}, names(t, openStore(t, path, systemClock())))
		})
	}
}

func files(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestOpenRelativePath(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	s := openStore(t, "./:memory:", systemClock())
	t.Chdir(t.TempDir())
	grant(t, s, claim("job", time.Hour))
	assert.Contains(t, files(t, dir), ":memory:")
}

func TestOpenThroughLink(t *testing.T) {
	target, link := newPath(t), newPath(t)
	require.NoError(t, os.Symlink(target, link))
	_, err := Open(link)
	refused(t, err, store.ErrMisconfigured, "symbolic link")

	direct := openStore(t, target, systemClock())
	linked := openStore(t, link, systemClock())
	c := claim("job", time.Hour)
	grant(t, linked, c)
	assert.Positive(t, ask(t, direct, "job"))
	assert.Len(t, files(t, filepath.Dir(link)), 1, "SQLite's files are beside the target")
}

// refused checks the class of an error, and that it says what to do.
func refused(t *testing.T, err, class error, says string) {
	t.Helper()
	require.ErrorIs(t, err, class)
	assert.ErrorContains(t, err, says)
	for _, other := range []error{store.ErrInvalid, store.ErrMisconfigured, store.ErrUnavailable} {
		assert.Equal(t, other == class, errors.Is(err, other), "%v", err) //nolint:errorlint // two sentinels
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, test := range []struct {
		name  string
		path  func(t *testing.T) string
		class error
		says  string
	}{
		{"empty path", fixed(""), store.ErrInvalid, "must not be empty"},
		{"memory", fixed(":memory:"), store.ErrInvalid, "package memory"},
		{"URI", fixed("file:///var/x.db?mode=ro"), store.ErrInvalid, "plain path"},
		{"NUL", fixed("a\x00b"), store.ErrInvalid, "NUL"},
		{"folder missing", func(t *testing.T) string { return filepath.Join(t.TempDir(), "no", "x.db") }, store.ErrMisconfigured, "create it"},
		{"folder is a file", func(t *testing.T) string { return filepath.Join(fileWith(t, "x"), "x.db") }, store.ErrMisconfigured, "another path"},
		{"path is a folder", func(t *testing.T) string { return t.TempDir() }, store.ErrMisconfigured, "is a folder"},
		{"path is a device", fixed(os.DevNull), store.ErrMisconfigured, "not a regular file"},
		{"name too long", func(t *testing.T) string { return filepath.Join(t.TempDir(), strings.Repeat("x", 300)) }, store.ErrMisconfigured, "another path"},
		{"path too long", longPath, store.ErrMisconfigured, "shorter than"},
		{"no database", func(t *testing.T) string { return fileWith(t, strings.Repeat("a text of some length\n", 100)) }, store.ErrMisconfigured, "another path"},
		{"another program's tables", database(`CREATE TABLE customers (id INTEGER)`), store.ErrMisconfigured, "a file of their own"},
		{"another program's id", database(`PRAGMA application_id = 7`), store.ErrMisconfigured, "a file of their own"},
		{"another program's version", database(`PRAGMA user_version = 7`), store.ErrMisconfigured, "a file of their own"},
		{"newer layout", database(fmt.Sprintf(layout, 1, applicationID, layoutVersion+1)), store.ErrMisconfigured, "layout 2"},
		{"older layout", database(fmt.Sprintf(layout, 1, applicationID, layoutVersion-1)), store.ErrMisconfigured, "layout 0"},
		{"tables missing", database(fmt.Sprintf(`PRAGMA application_id = %d; PRAGMA user_version = %d`, applicationID, layoutVersion)), store.ErrMisconfigured, "not as they were created"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if runtime.GOOS == "windows" && (test.name == "path is a device" || test.name == "folder is a file") {
				t.Skip("Windows has other words for that")
			}
			path := test.path(t)
			before, _ := os.Stat(path)
			_, err := Open(path)
			refused(t, err, test.class, test.says)
			if before != nil && before.Mode().IsRegular() {
				after, err := os.Stat(path)
				require.NoError(t, err)
				assert.Equal(t, before.Size(), after.Size(), "it is not ours to touch")
				assert.Len(t, files(t, filepath.Dir(path)), 1)
			}
		})
	}
}

func fixed(path string) func(*testing.T) string { return func(*testing.T) string { return path } }

func fileWith(t *testing.T, text string) string {
	t.Helper()
	path := newPath(t)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func longPath(t *testing.T) string {
	dir := t.TempDir()
	for len(dir) < 520 {
		dir = filepath.Join(dir, strings.Repeat("x", 100))
	}
	require.NoError(t, os.MkdirAll(dir, 0o700))
	return filepath.Join(dir, "x.db")
}

// database makes a file with the driver alone.
func database(statements string) func(*testing.T) string {
	return func(t *testing.T) string {
		t.Helper()
		path := newPath(t)
		db, err := sql.Open("sqlite", path)
		require.NoError(t, err)
		defer db.Close()
		_, err = db.ExecContext(t.Context(), statements)
		require.NoError(t, err)
		return path
	}
}

func TestOpenFromManyGoroutines(t *testing.T) {
	for range 5 {
		path := newPath(t)
		var wait sync.WaitGroup
		for i := range 8 {
			wait.Go(func() {
				s, err := Open(path)
				if !assert.NoError(t, err) {
					return
				}
				_, err = s.Acquire(t.Context(), claim(fmt.Sprintf("job %d", i), time.Hour))
				assert.NoError(t, err)
				assert.NoError(t, s.Close())
			})
		}
		wait.Wait()
		require.Len(t, names(t, openStore(t, path, systemClock())), 8)
	}
}

// TestOnlyOpenCreates is for a file that is deleted just before SQLite opens it: SQLite would make one that all can read.
func TestOnlyOpenCreates(t *testing.T) {
	path := newPath(t)
	_, err := dial(path)
	assert.Equal(t, lib.SQLITE_CANTOPEN, code(err), "%v", err)
	assert.NoFileExists(t, path)
}

func TestOpenMakesAnEmptyFileItsOwn(t *testing.T) {
	s := openStore(t, fileWith(t, ""), systemClock())
	grant(t, s, claim("job", time.Hour))
}

func TestOpenAgain(t *testing.T) {
	path := newPath(t)
	c := claim("job", time.Hour)
	c.Metadata = "zero\x00inside, 'quotes' and 🔒"
	first := openStore(t, path, systemClock())
	l := grant(t, first, c)
	require.NoError(t, first.Close())

	second := openStore(t, path, systemClock())
	row, err := second.Get(t.Context(), "job")
	require.NoError(t, err)
	assert.Equal(t, c.Owner, row.Owner)
	assert.Equal(t, c.Metadata, row.Metadata)
	assert.Equal(t, l.Expires, row.Expires)
	require.NoError(t, release(t, second, c).Err)
	require.NoError(t, second.Close())

	third := openStore(t, path, systemClock())
	assert.Greater(t, grant(t, third, claim("job", time.Hour)).Version, l.Version, "rule S7: tokens grow, also across deletion of the row")
}

// TestTokensOutliveTheFile is beyond what the store promises, and cheap to have.
func TestTokensOutliveTheFile(t *testing.T) {
	path := newPath(t)
	var last uint64
	for range 3 {
		s := openStore(t, path, systemClock())
		for range 5 {
			c := claim("job", time.Hour)
			token := grant(t, s, c).Version
			require.Greater(t, token, last)
			last = token
			require.NoError(t, release(t, s, c).Err)
		}
		require.NoError(t, s.Close())
		require.NoError(t, os.Remove(path))
	}
}

// TestDurability is for whoever makes the tests faster with a PRAGMA.
func TestDurability(t *testing.T) {
	s := openStore(t, newPath(t), systemClock())
	var mode string
	var synchronous int
	require.NoError(t, s.conn.c.QueryRowContext(t.Context(), `PRAGMA journal_mode`).Scan(&mode))
	require.NoError(t, s.conn.c.QueryRowContext(t.Context(), `PRAGMA synchronous`).Scan(&synchronous))
	assert.Equal(t, "wal", mode)
	assert.Equal(t, 2, synchronous, "FULL: a lease that was answered survives a power cut")
}
