package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNobodyReads has a standard error that is full.
func TestNobodyReads(t *testing.T) {
	t.Parallel()
	t.Run("CLI-08 a pipe that nobody reads stops nothing", func(t *testing.T) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer r.Close()
		defer w.Close()
		require.NoError(t, w.SetWriteDeadline(time.Now().Add(100*time.Millisecond)))
		for err == nil { // until nothing fits any more
			_, err = w.Write(bytes.Repeat([]byte("x"), 4096))
		}
		require.NoError(t, w.SetWriteDeadline(time.Time{}))
		store := storeVar + "=sqlite:" + filepath.Join(t.TempDir(), "leases.db")
		ended := make(chan int)
		go func() {
			ended <- run(t.Context(), []string{"list", "--store", "sqlite:"}, []string{store}, os.Stdin, tempFile(t), w)
		}()
		select {
		case code := <-ended:
			assert.Equal(t, codeMisconfigured, code)
		case <-time.After(10 * time.Second):
			require.Fail(t, "it waits for a reader")
		}
	})
	t.Run("lines are dropped rather than waited for", func(t *testing.T) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer r.Close()
		n := newNotices(w)
		began := time.Now()
		for range 10_000 {
			n.fault("%s", bytes.Repeat([]byte("x"), 100))
		}
		n.flush()
		assert.Less(t, time.Since(began), flushLimit+5*time.Second)
		require.NoError(t, w.Close())
	})
}
