//go:build linux

package procgroup_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/aaravsoft/leasehold/internal/procgroup"
)

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

// stoppedAtTheTerminal runs a script in a terminal until it is stopped because it is not in front.
func stoppedAtTheTerminal(t *testing.T, script string, by unix.Signal) *tool {
	t.Helper()
	tl := startToolInTerminal(t, nil)
	tl.do(order{Do: "terminal"})
	tl.start(time.Minute, time.Minute)
	tl.do(order{Do: "exec", Argv: []string{"sh", "-c", script}})
	assert.Equal(t, by, tl.event(procgroup.Stopped).Signal)
	require.True(t, tl.do(order{Do: "in front"}).Yes)
	return tl
}

// give puts the group in front and continues it.
func (tl *tool) give() {
	tl.t.Helper()
	tl.do(order{Do: "give"})
	tl.do(order{Do: "signal", Signal: unix.SIGCONT})
}

func (tl *tool) typeIn(text string) {
	tl.t.Helper()
	_, err := tl.tty.WriteString(text)
	require.NoError(tl.t, err)
}

// lineWith skips lines, the terminal's echo for one, up to one that has the text.
func (tl *tool) lineWith(text string) {
	tl.t.Helper()
	for !strings.Contains(tl.line(), text) {
	}
}

func TestTerminal(t *testing.T) {
	t.Run("a command that reads is given the terminal", func(t *testing.T) {
		tl := stoppedAtTheTerminal(t, `read x; echo "got <$x>"`, unix.SIGTTIN)
		tl.give()
		assert.False(t, tl.do(order{Do: "in front"}).Yes)
		tl.typeIn("hello\n")
		tl.lineWith("got <hello>")
		assert.Zero(t, tl.event(procgroup.Exited).Code)
		tl.event(procgroup.Gone)

		tl.do(order{Do: "take back"}) // from behind, and from a group that is gone
		assert.True(t, tl.do(order{Do: "in front"}).Yes)
		tl.do(order{Do: "take back"})
	})

	t.Run("a command that sets the terminal is stopped too", func(t *testing.T) {
		tl := stoppedAtTheTerminal(t, "stty -echo && echo done", unix.SIGTTOU)
		tl.give()
		tl.lineWith("done")
		assert.Zero(t, tl.event(procgroup.Exited).Code)
	})

	t.Run("^C reaches the command alone then", func(t *testing.T) {
		tl := stoppedAtTheTerminal(t, `read x; trap 'exit 3' INT; echo ready; read x`, unix.SIGTTIN)
		tl.give()
		tl.typeIn("\n")
		tl.lineWith("ready")
		tl.typeIn(ctrlC)
		assert.Equal(t, 3, tl.event(procgroup.Exited).Code)
		tl.event(procgroup.Gone)
		tl.do(order{Do: "take back"})
	})

	t.Run("the group can be taken from the front while it lives", func(t *testing.T) {
		tl := stoppedAtTheTerminal(t, "read x; echo ready; read x; read x", unix.SIGTTIN)
		tl.give()
		tl.typeIn("\n")
		tl.lineWith("ready")
		tl.do(order{Do: "take back"})
		tl.typeIn("\n") // the second read may be under way, the third is one from behind
		assert.Equal(t, unix.SIGTTIN, tl.event(procgroup.Stopped).Signal)
	})

	t.Run("the tool is killed while the group is in front", func(t *testing.T) {
		tl := stoppedAtTheTerminal(t, "read x; echo ready; read x", unix.SIGTTIN)
		tl.give()
		tl.typeIn("\n")
		tl.lineWith("ready")
		tl.kill(unix.SIGKILL)
		tl.dead()
	})

	t.Run("giving it to a group that is gone", func(t *testing.T) {
		tl := startToolInTerminal(t, nil)
		tl.do(order{Do: "terminal"})
		tl.start(time.Minute, time.Minute)
		tl.do(order{Do: "close"})
		assert.NotEmpty(t, tl.try(order{Do: "give"}).Err)
	})

	t.Run("there is none", func(t *testing.T) {
		tl := startTool(t, func(cmd *exec.Cmd) { cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true} })
		assert.NotEmpty(t, tl.try(order{Do: "terminal"}).Err)
	})
}

// startUnderShell starts the tool as foreground job of a shell that says when the job stops, and continues it when it
// is told to.
func startUnderShell(t *testing.T) *tool {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash")
	}
	tl := startToolInTerminal(t, func(cmd *exec.Cmd) {
		script := cmd.Path + `; echo "job stopped"; read go; fg; echo "shell done"`
		cmd.Path, cmd.Err = exec.LookPath("bash")
		cmd.Args = []string{"bash", "-m", "-c", script}
	})
	tl.do(order{Do: "terminal"})
	tl.below()
	return tl
}

func TestJobControl(t *testing.T) {
	t.Run("^Z at a command in front", func(t *testing.T) {
		tl := startUnderShell(t)
		tl.start(time.Minute, time.Minute)
		tl.do(order{Do: "exec", Argv: []string{"sh", "-c", `read x; echo ready; read x; echo "got <$x>"`}})
		tl.event(procgroup.Stopped)
		tl.give()
		tl.typeIn("\n")
		tl.lineWith("ready")

		tl.typeIn(ctrlZ)
		assert.Equal(t, unix.SIGTSTP, tl.event(procgroup.Stopped).Signal)
		require.NoError(t, tl.orders.Encode(order{Do: "stop job", Signal: unix.SIGTSTP}))
		tl.lineWith("job stopped")
		assert.Empty(t, tl.answers, "returned before it was continued")
		tl.typeIn("go\n")
		require.Empty(t, tl.next(tl.answers, "answer of the continued tool").Err)
		require.True(t, tl.do(order{Do: "in front"}).Yes)
		tl.give()
		tl.typeIn("hello\n")
		tl.lineWith("got <hello>")
		assert.Zero(t, tl.event(procgroup.Exited).Code)
	})

	t.Run("the deadline passes while the tool has stopped itself", func(t *testing.T) {
		tl := startUnderShell(t)
		tl.start(time.Minute, time.Minute)
		tl.do(order{Do: "exec", Argv: []string{"sleep", "1000"}})
		tl.do(order{Do: "hear", Signal: unix.SIGTSTP})
		tl.do(order{Do: "signal", Signal: unix.SIGTSTP})
		assert.Equal(t, unix.SIGTSTP, tl.event(procgroup.Stopped).Signal)
		deadline := tl.do(order{Do: "deadline", In: 300 * time.Millisecond}).At
		require.NoError(t, tl.orders.Encode(order{Do: "stop self", Signal: unix.SIGTSTP}))
		tl.lineWith("job stopped")
		assert.Less(t, tl.dead()-deadline, busy)
		tl.typeIn("go\n")
		require.Empty(t, tl.next(tl.answers, "answer of the continued tool").Err)
		tl.event(procgroup.Exited)
		assert.Equal(t, procgroup.ErrDeadline.Error(), tl.event(procgroup.Gone).Err)
	})

	t.Run("nobody could continue the tool", func(t *testing.T) {
		tl := startToolInTerminal(t, nil) // leads its session: its group is orphaned
		begin := time.Now()
		tl.do(order{Do: "stop self", Signal: unix.SIGTSTP})
		tl.do(order{Do: "stop job", Signal: unix.SIGTTIN})
		assert.Less(t, time.Since(begin), time.Second)
	})
}
