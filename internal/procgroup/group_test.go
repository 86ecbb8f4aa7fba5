//go:build linux || darwin

package procgroup

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The instant between fork and exec is too short to be hit from outside at will.
func TestWhileForking(t *testing.T) {
	forking := func(t *testing.T) *Group {
		t.Helper()
		g, err := Start(time.Second)
		require.NoError(t, err)
		t.Cleanup(g.Close)
		require.NoError(t, g.Deadline(BootClock()+time.Minute))
		require.NoError(t, g.beginExec())
		return g
	}

	t.Run("the supervisor survives Kill until the child is in the group", func(t *testing.T) {
		g := forking(t)
		g.Kill()
		select {
		case e := <-g.Events():
			t.Fatalf("%+v", e)
		case <-time.After(50 * time.Millisecond): // nothing tells when nothing happens
		}
		require.False(t, ended(g.pid))
		g.endExec(0)
		assert.Equal(t, Event{Kind: Gone}, <-g.Events())
	})

	t.Run("signals wait for the child", func(t *testing.T) {
		g := forking(t)
		require.NoError(t, g.Signal(unix.SIGUSR1))
		require.NoError(t, g.Signal(unix.SIGTERM))
		assert.Equal(t, []unix.Signal{unix.SIGUSR1, unix.SIGTERM}, g.held)
		g.endExec(0)
		assert.Empty(t, g.held)
	})

	t.Run("a dead supervisor keeps the group's number", func(t *testing.T) {
		g := forking(t)
		require.NoError(t, unix.Kill(g.pid, unix.SIGKILL))
		for !ended(g.pid) {
			g.wake <- struct{}{} // the waiter looks, and must not take it
		}
		assert.NoError(t, unix.Kill(-g.pid, 0))
		g.endExec(0)
		assert.Equal(t, Event{Kind: Gone, Err: ErrSupervisorDied}, <-g.Events())
		_, open := <-g.Events()
		assert.False(t, open)
	})
}

func TestLookUp(t *testing.T) {
	t.Run("no PATH", func(t *testing.T) {
		path, err := lookUp("sh", nil)
		require.NoError(t, err)
		assert.Contains(t, path, "bin/sh")
	})
	t.Run("a name with a slash is not looked up", func(t *testing.T) {
		path, err := lookUp("./group_test.go", []string{"PATH=/bin"})
		assert.Error(t, err)
		assert.Equal(t, "./group_test.go", path)
	})
}

func TestReadDeadline(t *testing.T) {
	ends := make([]int, 2)
	require.NoError(t, unix.Pipe(ends))
	defer unix.Close(ends[0])
	require.NoError(t, unix.SetNonblock(ends[0], true))
	read := func(deadline time.Duration) (time.Duration, bool) { return readDeadline(ends[0], deadline) }
	write := func(n int) {
		for i := range n {
			_, err := unix.Write(ends[1], binary.NativeEndian.AppendUint64(nil, uint64(1000+i)))
			require.NoError(t, err)
		}
	}

	last, open := read(5)
	assert.Equal(t, time.Duration(5), last, "nothing was sent")
	assert.True(t, open)
	for _, n := range []int{1, 2, 63, 64, 65, 200} {
		write(n)
		last, open = read(5)
		assert.Equal(t, time.Duration(1000+n-1), last, "the last of %d", n)
		assert.True(t, open)
	}
	write(2)
	require.NoError(t, unix.Close(ends[1]))
	_, open = read(5)
	assert.False(t, open)
}
