//go:build unix

package sqlite

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFilesArePrivate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "leases.db")
	old := syscall.Umask(0)
	t.Cleanup(func() { syscall.Umask(old) })

	info, err := createFile(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode(), "before SQLite touches it")

	s := openStore(t, path, systemClock())
	grant(t, s, claim("job", time.Hour))
	for _, name := range files(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode(), name)
	}
	assert.Len(t, files(t, dir), 3)
}
