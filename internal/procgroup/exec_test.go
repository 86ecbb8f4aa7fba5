//go:build linux

package procgroup_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/aaravsoft/leasehold/internal/procgroup"
)

func TestExecErrors(t *testing.T) {
	folder := t.TempDir()
	write := func(name, content string, mode os.FileMode) string {
		path := filepath.Join(folder, name)
		require.NoError(t, os.WriteFile(path, []byte(content), mode))
		return path
	}
	plain := write("plain", "hello", 0o644)
	script := write("script", "echo hello\n", 0o755)
	write("nowhere", "#!/no/such/interpreter\n", 0o755)
	require.NoError(t, os.Mkdir(filepath.Join(folder, "sub"), 0o755))

	tl := startTool(t, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "PATH="+folder+":"+os.Getenv("PATH")) })
	tl.start(time.Second, time.Minute)
	for _, test := range []struct {
		name, command, says string
		code                int
	}{
		{"not in PATH", "no-such-command", "no-such-command: not found in PATH", 127},
		{"not there", "/no/such/command", "no such file", 127},
		{"below a file", plain + "/x", "no such file", 127},
		{"empty", "", "no such file", 127},
		{"not executable", plain, "permission denied", 126},
		{"not executable, in PATH", "plain", "permission denied", 126},
		{"a folder", folder, "is a directory", 126},
		{"a folder, in PATH", "sub", "is a directory", 126},
		{"a script without an interpreter", script, "#!", 126},
		{"an interpreter that is not there", "nowhere", "interpreter", 126},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := tl.try(order{Do: "exec", Argv: []string{test.command, "arg"}})
			assert.Equal(t, test.code, r.Code)
			assert.Contains(t, r.Err, test.says)
		})
	}
	t.Run("the group is still good", func(t *testing.T) {
		assert.Equal(t, "hello", tl.sh("echo hello"))
		assert.Zero(t, tl.event(procgroup.Exited).Code)
	})
	t.Run("once only", func(t *testing.T) {
		assert.NotEmpty(t, tl.try(order{Do: "exec", Argv: []string{"true"}}).Err)
	})
}

func TestExecOrder(t *testing.T) {
	t.Run("no deadline", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.do(order{Do: "start"})
		assert.Contains(t, tl.try(order{Do: "exec", Argv: []string{"true"}}).Err, "no deadline")
		tl.do(order{Do: "close"})
	})
	t.Run("after Kill", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Second, time.Minute)
		tl.do(order{Do: "kill"})
		assert.NotEmpty(t, tl.try(order{Do: "exec", Argv: []string{"true"}}).Err)
		assert.Empty(t, tl.event(procgroup.Gone).Err)
	})
}

func TestExitCode(t *testing.T) {
	for _, test := range []struct {
		script string
		code   int
		signal unix.Signal
	}{
		{"exit 0", 0, 0},
		{"exit 3", 3, 0},
		{"exit 255", 255, 0},
		{"kill -SEGV $$", 128 + 11, unix.SIGSEGV},
		{"kill -KILL $$", 128 + 9, unix.SIGKILL},
		{"kill -TERM $$", 128 + 15, unix.SIGTERM},
		{"kill -64 $$", 128 + 64, 64},
	} {
		t.Run(test.script, func(t *testing.T) {
			tl := startTool(t, nil)
			tl.start(time.Second, time.Minute)
			tl.do(order{Do: "exec", Argv: []string{"sh", "-c", test.script}})
			e := tl.event(procgroup.Exited)
			assert.Equal(t, test.code, e.Code)
			assert.Equal(t, test.signal, e.Signal)
			assert.Empty(t, tl.event(procgroup.Gone).Err)
			assert.Empty(t, members(tl.group))
		})
	}
}

func TestWhatTheCommandGets(t *testing.T) {
	t.Run("its arguments, and no shell", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Second, time.Minute)
		assert.Equal(t, "-v|a b|$HOME|*||", tl.run("printf", `%s|%s|%s|%s|%s|\n`, "-v", "a b", "$HOME", "*", ""))
	})

	t.Run("the streams and what the tool had inherited, nothing of the tool's", func(t *testing.T) {
		inherited, err := os.Open(os.DevNull)
		require.NoError(t, err)
		defer inherited.Close()
		tl := startTool(t, func(cmd *exec.Cmd) { cmd.ExtraFiles = append(cmd.ExtraFiles, inherited) }) // fd 5
		tl.start(time.Second, time.Minute)
		command := tl.runSleep()
		want := inheritable(t, tl.pid())
		assert.Contains(t, want, "5")
		assert.NotContains(t, want, "3")
		eventually(t, fmt.Sprint("the command has only ", want), func() bool { // its loader opens libraries
			return slices.Equal(want, descriptors(t, command))
		})
	})

	t.Run("default signal actions, no blocked signals", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Second, time.Minute)
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tl.runSleep()))
		require.NoError(t, err)
		for _, set := range []string{"SigBlk", "SigIgn", "SigCgt"} {
			assert.Contains(t, string(status), set+":\t0000000000000000\n")
		}
	})

	t.Run("its own group, the tool's session", func(t *testing.T) {
		tl := startTool(t, nil)
		tl.start(time.Second, time.Minute)
		tl.sh("echo ready; sleep 1000")
		session, err := unix.Getsid(tl.pid())
		require.NoError(t, err)
		for _, p := range members(tl.group) {
			sid, err := unix.Getsid(p.pid)
			require.NoError(t, err)
			assert.Equal(t, session, sid)
			assert.NotEqual(t, tl.pid(), p.pid)
		}
	})
}

func TestSupervisorHoldsNothing(t *testing.T) {
	inherited, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer inherited.Close()
	tl := startTool(t, func(cmd *exec.Cmd) { cmd.ExtraFiles = append(cmd.ExtraFiles, inherited) })
	tl.start(200*time.Millisecond, time.Minute)
	proc := fmt.Sprintf("/proc/%d/", tl.group)

	t.Run("environment", func(t *testing.T) {
		environment, err := os.ReadFile(proc + "environ")
		require.NoError(t, err)
		assert.Empty(t, environment)
	})
	t.Run("folder", func(t *testing.T) {
		folder, err := os.Readlink(proc + "cwd")
		require.NoError(t, err)
		assert.Equal(t, "/", folder)
	})
	t.Run("name", func(t *testing.T) {
		name, err := os.ReadFile(proc + "comm")
		require.NoError(t, err)
		assert.Equal(t, "lh-supervisor\n", string(name))
	})
	t.Run("descriptors", func(t *testing.T) {
		want := []string{"0", "1", "2", "3"} // what else there is is close-on-exec: Go's own
		eventually(t, "the pipe on which it was ready is closed", func() bool {
			return slices.Equal(want, inheritable(t, tl.group))
		})
		for _, name := range want {
			target, err := os.Readlink(proc + "fd/" + name)
			require.NoError(t, err)
			if name == "3" {
				assert.True(t, strings.HasPrefix(target, "pipe:"), target)
			} else {
				assert.Equal(t, os.DevNull, target)
			}
		}
	})
	t.Run("the command's output ends with the command", func(t *testing.T) {
		tl.do(order{Do: "exec", Argv: []string{"sh", "-c",
			"(trap '' TERM; exec sleep 1000 >/dev/null 2>&1) & echo bye"}})
		tl.do(order{Do: "mute"})
		assert.Equal(t, "bye\n", tl.rest())
		assert.NotEmpty(t, members(tl.group))
		tl.event(procgroup.Exited)
		tl.event(procgroup.Gone)
	})
}

// descriptors lists the open descriptors of a process.
func descriptors(t *testing.T, pid int) []string {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	slices.Sort(names)
	return names
}

// inheritable lists those that are not close-on-exec.
func inheritable(t *testing.T, pid int) []string {
	t.Helper()
	return slices.DeleteFunc(descriptors(t, pid), func(name string) bool {
		info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, name))
		if err != nil {
			return true // closed in the meantime
		}
		_, flags, _ := strings.Cut(string(info), "flags:")
		n, err := strconv.ParseUint(strings.Fields(flags)[0], 8, 64)
		require.NoError(t, err)
		return n&unix.O_CLOEXEC != 0
	})
}
