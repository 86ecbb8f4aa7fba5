//go:build linux

package procgroup_test

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/aaravsoft/leasehold/internal/procgroup"
)

// busy bounds what should take a few milliseconds, on a machine that has other things to do. Where the time itself is
// the point, the best of five shows what the supervisor takes, the rest is the scheduler's.
const busy = 500 * time.Millisecond

const pipeline = "echo ready; sleep 1000 | sleep 1000"

func TestToolDies(t *testing.T) {
	t.Run("killed while a pipeline runs", func(t *testing.T) {
		best := time.Duration(math.MaxInt64)
		for range 5 {
			tl := startTool(t, nil)
			tl.start(time.Second, time.Minute)
			require.Equal(t, "ready", tl.sh(pipeline))
			eventually(t, "pipeline runs", func() bool { return len(members(tl.group)) == 4 })

			killed := procgroup.BootClock()
			tl.kill(unix.SIGKILL)
			took := tl.dead() - killed
			t.Logf("group gone after %v", took)
			assert.Less(t, took, busy)
			best = min(best, took)
		}
		assert.Less(t, best, 50*time.Millisecond)
	})

	t.Run("killed while everybody ignores every signal", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Second, time.Minute)
		tl.sh("trap '' HUP INT QUIT TERM TSTP TTIN TTOU USR1 USR2 PIPE; echo ready; sleep 1000 & sleep 1000")
		killed := procgroup.BootClock()
		tl.kill(unix.SIGKILL)
		assert.Less(t, tl.dead()-killed, busy)
	})

	t.Run("ends without a command", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Second, time.Minute)
		killed := procgroup.BootClock()
		tl.kill(unix.SIGKILL)
		assert.Less(t, tl.dead()-killed, busy)
	})

	t.Run("killed before the first deadline", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.do(order{Do: "start"})
		pid := tl.pid()
		var supervisor int
		for _, p := range processes() {
			if p.parent == pid {
				supervisor = p.pid
			}
		}
		tl.group = supervisor
		tl.kill(unix.SIGKILL)
		tl.dead()
	})

	t.Run("killed in the very moment of the start", func(t *testing.T) {
		// Wherever the kill falls, between the fork of the command and its exec too, nothing may live on.
		for i := range 25 {
			tl := startTool(t, nil)
			tl.start(time.Second, time.Minute)
			require.NoError(t, tl.orders.Encode(order{Do: "exec", Argv: []string{"sleep", "1000"}}))
			spin(time.Duration(i) * 40 * time.Microsecond)
			tl.kill(unix.SIGKILL)
			tl.dead()
		}
	})
}

// spin passes times too short for timers.
func spin(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
	}
}

func TestToolStopped(t *testing.T) {
	t.Run("CLI-02 the group dies at the deadline", func(t *testing.T) {
		best := time.Duration(math.MaxInt64)
		for range 5 {
			tl := startTool(t, nil)
			tl.start(time.Second, time.Minute)
			tl.sh(pipeline)
			deadline := tl.do(order{Do: "deadline", In: 150 * time.Millisecond}).At
			tl.kill(unix.SIGSTOP)

			late := tl.dead() - deadline
			t.Logf("dead %v after the deadline", late)
			assert.GreaterOrEqual(t, late, time.Duration(0))
			assert.Less(t, late, busy)
			best = min(best, late)

			tl.kill(unix.SIGCONT)
			assert.Equal(t, 128+9, tl.event(procgroup.Exited).Code)
			assert.Equal(t, procgroup.ErrDeadline.Error(), tl.event(procgroup.Gone).Err)
		}
		assert.Less(t, best, 50*time.Millisecond)
	})

	t.Run("the group lives until then", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Second, time.Minute)
		tl.sh(pipeline)
		deadline := tl.do(order{Do: "deadline", In: 300 * time.Millisecond}).At
		tl.kill(unix.SIGSTOP)
		for procgroup.BootClock() < deadline-20*time.Millisecond {
			n := len(members(tl.group))
			if procgroup.BootClock() < deadline { // else the count is worth nothing
				require.NotZero(t, n)
			}
		}
		tl.dead()
	})
}

func TestDeadlineMoves(t *testing.T) {
	t.Run("later", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Second, time.Minute)
		tl.sh(pipeline)
		tl.do(order{Do: "deadline", In: 500 * time.Millisecond})
		last := tl.do(order{Do: "deadline", In: 800 * time.Millisecond}).At
		tl.kill(unix.SIGSTOP)
		gone := tl.dead()
		assert.Greater(t, gone, last)
		assert.Less(t, gone, last+busy)
	})

	t.Run("earlier", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Second, time.Minute)
		tl.sh(pipeline)
		last := tl.do(order{Do: "deadline", In: 100 * time.Millisecond}).At
		assert.Less(t, tl.dead()-last, busy)
	})

	t.Run("many times", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Second, time.Minute)
		tl.sh(pipeline)
		for i := range 500 {
			tl.do(order{Do: "deadline", In: time.Minute - time.Duration(i)})
		}
		require.Len(t, members(tl.group), 4)
		last := tl.do(order{Do: "deadline", In: 100 * time.Millisecond}).At
		assert.Less(t, tl.dead()-last, busy)
	})

	t.Run("into the past", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Second, time.Minute)
		tl.sh(pipeline)
		tl.do(order{Do: "deadline", In: -time.Hour * 1e5})
		tl.dead()
		tl.event(procgroup.Exited)
		assert.Equal(t, procgroup.ErrDeadline.Error(), tl.event(procgroup.Gone).Err)
	})
}

func TestSupervisorDies(t *testing.T) {
	t.Run("the tool kills the group and says why", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Second, time.Minute)
		tl.sh(pipeline)
		killed := procgroup.BootClock()
		require.NoError(t, unix.Kill(tl.group, unix.SIGKILL))
		took := tl.dead() - killed
		t.Logf("group gone after %v", took)
		assert.Less(t, took, busy)
		assert.Equal(t, 128+9, tl.event(procgroup.Exited).Code)
		assert.Equal(t, procgroup.ErrSupervisorDied.Error(), tl.event(procgroup.Gone).Err)
		assert.NotEmpty(t, tl.try(order{Do: "deadline", In: time.Minute}).Err)
	})

	t.Run("before the command starts", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Second, time.Minute)
		require.NoError(t, unix.Kill(tl.group, unix.SIGKILL))
		assert.Equal(t, procgroup.ErrSupervisorDied.Error(), tl.event(procgroup.Gone).Err)
		assert.Equal(t, procgroup.ErrSupervisorDied.Error(), tl.try(order{Do: "exec", Argv: []string{"true"}}).Err)
	})

	t.Run("in the very moment of the start", func(t *testing.T) {
		for i := range 25 {
			tl := startTool(t, nil)
			tl.start(time.Second, time.Minute)
			require.NoError(t, tl.orders.Encode(order{Do: "exec", Argv: []string{"sleep", "1000"}}))
			spin(time.Duration(i) * 40 * time.Microsecond)
			require.NoError(t, unix.Kill(tl.group, unix.SIGKILL))
			for tl.next(tl.events, "event").Event != procgroup.Gone {
			}
			require.Empty(t, members(tl.group))
		}
	})

	t.Run("stopped with the whole group: goes on", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Second, time.Minute)
		tl.sh(pipeline)
		require.NoError(t, unix.Kill(-tl.group, unix.SIGSTOP))
		assert.Equal(t, unix.SIGSTOP, tl.event(procgroup.Stopped).Signal)
		deadline := tl.do(order{Do: "deadline", In: 100 * time.Millisecond}).At
		assert.Less(t, tl.dead()-deadline, busy)
	})
}

func TestSignals(t *testing.T) {
	t.Run("the supervisor ignores what can be ignored", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Second, time.Minute)
		for sig := unix.Signal(1); sig <= 64; sig++ {
			if sig != unix.SIGKILL && sig != unix.SIGSTOP {
				tl.do(order{Do: "signal", Signal: sig})
			}
		}
		require.Len(t, members(tl.group), 1)
		assert.Equal(t, "ready", tl.sh("echo ready"))
		assert.Zero(t, tl.event(procgroup.Exited).Code)
		assert.Empty(t, tl.event(procgroup.Gone).Err)
	})

	t.Run("reach every member", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Second, time.Minute)
		tl.sh(`trap 'wait; exit 5' USR1
			(trap 'echo heard; exit' USR1; sleep 1000 & echo ready; wait) &
			wait`)
		tl.do(order{Do: "signal", Signal: unix.SIGUSR1})
		assert.Equal(t, "heard", tl.line())
		assert.Equal(t, 5, tl.event(procgroup.Exited).Code)
	})

	t.Run("STOP is refused", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Second, time.Minute)
		assert.NotEmpty(t, tl.try(order{Do: "signal", Signal: unix.SIGSTOP}).Err)
	})

	t.Run("after the end", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Second, time.Minute)
		tl.do(order{Do: "exec", Argv: []string{"true"}})
		tl.event(procgroup.Exited)
		tl.event(procgroup.Gone)
		assert.Equal(t, os.ErrProcessDone.Error(), tl.try(order{Do: "signal", Signal: unix.SIGTERM}).Err)
		tl.do(order{Do: "kill"})
		tl.do(order{Do: "close"})
		tl.do(order{Do: "close"})
	})

	t.Run("in the very moment of the start", func(t *testing.T) {
		tl := startTool(t, nil)
		for range 20 {
			tl.start(time.Second, time.Minute)
			tl.do(order{Do: "exec", Argv: []string{"sleep", "1000"}})
			tl.do(order{Do: "signal", Signal: unix.SIGTERM})
			require.Equal(t, 128+15, tl.event(procgroup.Exited).Code)
			tl.event(procgroup.Gone)
		}
	})
}
