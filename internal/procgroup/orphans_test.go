//go:build linux

package procgroup_test

import (
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/aaravsoft/leasehold/internal/procgroup"
)

func TestProcessesThatLeaveTheGroup(t *testing.T) {
	t.Run("are not covered, and do not hold up the end", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Minute, time.Minute)
		escaped, err := strconv.Atoi(tl.sh(behind(`exec setsid sh -c 'echo $$ >&4; exec sleep 1000 >&4'`)))
		require.NoError(t, err)
		defer unix.Kill(escaped, unix.SIGKILL)
		tl.event(procgroup.Exited)
		tl.event(procgroup.Gone)
		found := find(func(pid int) bool { return pid == escaped })
		require.Len(t, found, 1)
		assert.Equal(t, tl.pid(), found[0].parent, "the tool adopts orphans")
	})

	t.Run("are reaped when they end", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Minute, time.Minute)
		tl.sh(makeOrphans)
		noOrphans(t, tl)
	})

	t.Run("and children of the tool itself are left to it", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Minute, time.Minute)
		tl.sh("echo ready; exec sleep 1000")
		for range 50 {
			tl.do(order{Do: "subprocess", Argv: []string{"/bin/true"}})
		}
	})
}

// makeOrphans leaves processes of other sessions and other groups behind that end, one of them after 100 ms.
const makeOrphans = `for i in 1 2 3; do setsid sh -c 'sh -c "exit 1" & exit' & done
	(set -m; sh -c "exit 1" & exit)
	setsid sh -c 'sleep 0.1 & echo ready' &
	wait; exec sleep 1000`

// noOrphans waits until the supervisor and the command are the tool's only children.
func noOrphans(t *testing.T, tl *tool) {
	t.Helper()
	eventually(t, "orphans are reaped", func() bool {
		children := 0
		for _, p := range processes() {
			if p.parent == tl.pid() {
				children++
			}
		}
		return children == 2
	})
}

func TestProcessOne(t *testing.T) {
	unshare := []string{"unshare", "--pid", "--fork", "--mount-proc", "--kill-child=KILL"}
	if exec.Command(unshare[0], append(unshare[1:], "true")...).Run() != nil {
		unshare = append(unshare, "--map-root-user")
		if err := exec.Command(unshare[0], append(unshare[1:], "true")...).Run(); err != nil {
			t.Skip("no pid namespace to be had: ", err)
		}
	}
	container := func(cmd *exec.Cmd) {
		cmd.Args = append(slices.Clip(unshare), cmd.Path)
		cmd.Path, cmd.Err = exec.LookPath(unshare[0])
	}

	t.Run("reaps orphans", func(t *testing.T) {
		tl := startTool(t, container)
		tl.do(order{Do: "hear", Signal: unix.SIGTERM})
		tl.below()
		tl.start(time.Minute, time.Minute)
		tl.sh(makeOrphans)
		noOrphans(t, tl)
		tl.do(order{Do: "signal", Signal: unix.SIGTERM})
		assert.Equal(t, 128+15, tl.event(procgroup.Exited).Code)
		assert.Empty(t, tl.event(procgroup.Gone).Err)
	})

	t.Run("clears leftovers", func(t *testing.T) {
		tl := startTool(t, container)
		tl.do(order{Do: "hear", Signal: unix.SIGTERM})
		tl.below()
		tl.start(time.Minute, time.Minute)
		tl.sh("sleep 1000 & echo ready; exit 7")
		assert.Equal(t, 7, tl.event(procgroup.Exited).Code)
		assert.Empty(t, tl.event(procgroup.Gone).Err)
		assert.Empty(t, members(tl.group))
	})

	t.Run("without a process table of its own", func(t *testing.T) {
		tl := startTool(t, func(cmd *exec.Cmd) {
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID}
			if unix.Geteuid() != 0 {
				cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUSER
			}
		})
		tl.start(time.Minute, time.Minute)
		tl.sh(behind(stubborn) + "; exit 7")
		assert.Equal(t, 7, tl.event(procgroup.Exited).Code)
		assert.Empty(t, tl.event(procgroup.Gone).Err)
		assert.Empty(t, members(tl.group))
	})
}
