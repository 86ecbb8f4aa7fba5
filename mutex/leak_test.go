package mutex_test

import (
	"bytes"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store/memory"
)

// lockedBuffer is a log that may be read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestLeakedGuard runs in real time: what is collected is the runtime's business.
func TestLeakedGuard(t *testing.T) {
	st := memory.New()
	var out lockedBuffer
	c, err := mutex.New(st, mutex.Config{TTL: 200 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&out, nil))})
	require.NoError(t, err)
	forget := func() {
		_, err := c.Lock(t.Context(), "forgotten")
		require.NoError(t, err)
	}
	forget()
	kept, err := c.Lock(t.Context(), "kept")
	require.NoError(t, err)

	// The row is free when the renewals stop, which they do when the guard is collected. Lock waits for it.
	collecting := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-collecting:
				return
			default:
				runtime.GC()
			}
		}
	})
	other, err := mutex.New(st, mutex.Config{TTL: 200 * time.Millisecond})
	require.NoError(t, err)
	g, err := other.Lock(t.Context(), "forgotten", mutex.WithWait(30*time.Second))
	close(collecting)
	wg.Wait()
	require.NoError(t, err)
	require.NoError(t, g.Unlock())
	require.NoError(t, kept.Err(), "what is used is kept")
	require.NoError(t, kept.Unlock())
	_ = c.Close(t.Context())
	require.NoError(t, other.Close(t.Context()))

	log := out.String()
	require.Equal(t, 1, strings.Count(log, "dropped without Unlock"), log)
	require.Contains(t, log, "leak_test.go", "it says where the lock was taken")
	require.Contains(t, log, "name=forgotten")
}
