//go:build linux

package procgroup_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/aaravsoft/leasehold/internal/procgroup"
)

// behind returns a script that runs the given one in the background and ends when that has closed its output. Its
// descriptor 4 is the tool's output.
func behind(script string) string { return "exec 4>&1; x=$( (" + script + ") & )" }

// stubborn lives until it is killed.
const stubborn = "trap '' TERM; echo ready >&4; exec sleep 1000 >&4 4>&-"

func TestLeftovers(t *testing.T) {
	// soon is far below every grace here that must not pass.
	const soon = time.Second

	// end waits for the command's end and for the group's, and returns the time between them.
	end := func(t *testing.T, tl *tool, code int) time.Duration {
		t.Helper()
		exited := tl.event(procgroup.Exited)
		assert.Equal(t, code, exited.Code)
		gone := tl.event(procgroup.Gone)
		assert.Empty(t, gone.Err)
		assert.Empty(t, members(tl.group))
		return gone.At - exited.At
	}

	t.Run("get TERM, and the code stays the command's", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Minute, time.Minute)
		tl.sh("sleep 1000 & echo ready; exit 7")
		assert.Less(t, end(t, tl, 7), soon)
	})

	t.Run("have time to clean up", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Minute, time.Minute)
		tl.sh(behind("trap 'sleep 0.2; echo clean; exit' TERM; echo ready >&4; sleep 1000 >&4 & exec >&4; wait"))
		end(t, tl, 0)
		assert.Equal(t, "clean", tl.line())
	})

	t.Run("get KILL after the grace", func(t *testing.T) {
		const grace = 300 * time.Millisecond
		tl := startTool(t, nil)
		tl.start(grace, time.Minute)
		begin := procgroup.BootClock()
		tl.sh(behind(stubborn))
		assert.Less(t, end(t, tl, 0), grace+soon)
		assert.Greater(t, procgroup.BootClock(), begin+grace)
	})

	t.Run("do not wait for a stopped process", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Minute, time.Minute)
		tl.sh(`sh -c 'echo ready; kill -STOP $$; sleep 1000' &
			until grep -q '^State:.T' /proc/$!/status; do :; done`)
		assert.Less(t, end(t, tl, 0), soon)
	})

	t.Run("find those that are not the tool's children", func(t *testing.T) {
		// The parent leaves the group, its child stays in it.
		tl := startTool(t, nil)
		tl.start(time.Minute, time.Minute)
		escaped, err := strconv.Atoi(tl.sh(behind(`sleep 1000 >&4 & exec setsid sh -c 'echo $$ >&4; exec sleep 1000 >&4'`)))
		require.NoError(t, err)
		defer unix.Kill(escaped, unix.SIGKILL)
		assert.Less(t, end(t, tl, 0), soon)
		assert.NoError(t, unix.Kill(escaped, 0))
	})

	t.Run("keep the command's output open until they are gone", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(200*time.Millisecond, time.Minute)
		tl.sh(behind(stubborn))
		tl.do(order{Do: "mute"})
		tl.rest()
		tl.event(procgroup.Exited)
		tl.event(procgroup.Gone)
	})

	t.Run("die at the deadline within their grace", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Minute, time.Minute)
		tl.sh(behind(stubborn))
		tl.event(procgroup.Exited)
		tl.do(order{Do: "deadline", In: 200 * time.Millisecond})
		assert.Equal(t, procgroup.ErrDeadline.Error(), tl.event(procgroup.Gone).Err)
	})

	t.Run("die by Kill within their grace", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Minute, time.Minute)
		tl.sh(behind(stubborn))
		tl.event(procgroup.Exited)
		tl.do(order{Do: "kill"})
		assert.Empty(t, tl.event(procgroup.Gone).Err)
	})

	t.Run("die with the tool within their grace", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Minute, time.Minute)
		tl.sh(behind(stubborn))
		tl.event(procgroup.Exited)
		tl.kill(unix.SIGKILL)
		tl.dead()
	})
}

func TestCommandIgnoresTERM(t *testing.T) {
	tl := startTool(t, nil)
	tl.start(time.Minute, time.Minute)
	tl.sh("trap 'echo heard' TERM; echo ready; while :; do sleep 0.02; done")
	tl.do(order{Do: "signal", Signal: unix.SIGTERM})
	for tl.line() != "heard" { // the shell also says that its sleep was terminated
	}
	require.NotEmpty(t, members(tl.group))
	tl.do(order{Do: "kill"})
	assert.Equal(t, 128+9, tl.event(procgroup.Exited).Code)
	assert.Empty(t, tl.event(procgroup.Gone).Err)
	assert.Empty(t, members(tl.group))
}

func TestCloseKills(t *testing.T) {
	tl := startTool(t, nil)
	tl.start(time.Minute, time.Minute)
	tl.sh(pipeline)
	tl.do(order{Do: "close"})
	assert.Empty(t, members(tl.group))
}
