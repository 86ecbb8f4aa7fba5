package sqlite

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/aaravsoft/leasehold/store"
)

func TestClosed(t *testing.T) {
	defer goleak.VerifyNone(t)
	path := newPath(t)
	s, err := Open(path)
	require.NoError(t, err)
	c := claim("job", time.Hour)
	grant(t, s, c)
	var wait sync.WaitGroup
	for range 3 {
		wait.Go(func() { assert.NoError(t, s.Close()) })
	}
	wait.Wait()
	assert.Len(t, files(t, filepath.Dir(path)), 1, "the last one that closes tidies up")
	for _, call := range operations(c.Name, c.Owner) {
		refused(t, call(t.Context(), s), store.ErrInvalid, "closed")
	}
	results, err := s.Renew(t.Context(), nil)
	assert.Empty(t, results)
	assert.NoError(t, err, "rule S8: an empty batch is answered without a look at the database")
}

// TestCloseEndsWaiting has calls wait for a file that another process does not let go.
func TestCloseEndsWaiting(t *testing.T) {
	s, _ := blocked(t)
	errs := make(chan error)
	for range 3 { // one waits for the file, the others for that one
		go func() {
			_, err := s.Acquire(context.Background(), claim("job", time.Hour))
			errs <- err
		}()
	}
	require.Eventually(t, func() bool { return len(s.turn) == 0 }, 10*time.Second, time.Millisecond)
	require.NoError(t, s.Close())
	for range 3 {
		refused(t, <-errs, store.ErrInvalid, "closed")
	}
}

// TestCloseWaits closes in the middle of a transaction, which then commits.
func TestCloseWaits(t *testing.T) {
	path := newPath(t)
	clock := newFakeClock("a")
	inside, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	armed := false
	s := openStore(t, path, func() reading {
		if armed {
			once.Do(func() { close(inside); <-goOn })
		}
		return clock.read()
	})
	armed = true
	acquired := make(chan error)
	go func() {
		_, err := s.Acquire(context.Background(), claim("job", time.Hour))
		acquired <- err
	}()
	<-inside
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	<-s.closing
	select {
	case <-closed:
		t.Fatal("Close did not wait for the transaction")
	case <-time.After(20 * time.Millisecond):
	}
	close(goOn)
	assert.NoError(t, <-acquired)
	assert.NoError(t, <-closed)
	assert.Equal(t, []string{"job"}, names(t, openStore(t, path, clock.read)))
}
