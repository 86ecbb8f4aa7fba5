package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal with a process in front.
type terminal struct {
	t      *testing.T
	master *os.File
	out    *watched
	cmd    *exec.Cmd
	ended  chan struct{}
	at     time.Time
}

// terminal starts a command as leader of a session with a terminal of its own.
func (w *world) terminal(name string, args ...string) *terminal {
	w.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(slices.Clone(w.env), "PS1=prompt> ", "TERM=dumb", "HISTFILE=/dev/null")
	cmd.Dir = filepath.Dir(w.path)
	master, err := pty.Start(cmd)
	require.NoError(w.t, err)
	tt := &terminal{t: w.t, master: master, out: &watched{more: make(chan struct{})}, cmd: cmd, ended: make(chan struct{})}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		var chunk [4096]byte
		for {
			n, err := master.Read(chunk[:])
			_, _ = tt.out.Write(chunk[:n])
			if err != nil {
				return // EIO: nobody has the other end open any more
			}
		}
	}()
	go func() {
		defer close(tt.ended)
		_ = cmd.Wait()
		tt.at = time.Now()
	}()
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-tt.ended
		master.Close()
		<-copied
	})
	return tt
}

func (tt *terminal) write(keys string) {
	tt.t.Helper()
	_, err := tt.master.WriteString(keys)
	require.NoError(tt.t, err)
}

func (tt *terminal) expect(text string) {
	tt.t.Helper()
	tt.out.expect(tt.t, text)
}

// inFront returns the process group that the terminal's keys reach.
func (tt *terminal) inFront() int {
	tt.t.Helper()
	conn, err := tt.master.SyscallConn() // Fd would make reading from it block, also after Close
	require.NoError(tt.t, err)
	var pgid int
	var failed error
	err = conn.Control(func(fd uintptr) { pgid, failed = unix.IoctlGetInt(int(fd), unix.TIOCGPGRP) })
	require.NoError(tt.t, errors.Join(err, failed))
	return pgid
}

func (tt *terminal) wait() int {
	tt.t.Helper()
	select {
	case <-tt.ended:
		return tt.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		require.Fail(tt.t, "does not end", "%s", tt.out)
		return -1
	}
}

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

func TestTerminal(t *testing.T) {
	t.Parallel()
	t.Run("CLI-06 ^C once", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tt := w.terminal("leasehold", "run", "svc", "--", "sh", "-c",
			"trap 'echo stopping; sleep 0.5; leasehold show svc; exit 130' INT; echo ready; while :; do sleep 0.01; done")
		tt.expect("ready")
		tt.write(ctrlC)
		assert.Equal(t, 130, tt.wait())
		tt.expect("stopping")
		tt.expect("To break") // the lock was kept meanwhile
		w.requireEmpty()
		assert.NoError(t, w.command("run", "svc", "--try", "--", "true").Run())
	})

	t.Run("CLI-06 ^C twice", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tt := w.terminal("leasehold", "run", "svc", "--", "sh", "-c",
			"trap 'echo stopping; sleep 1000' INT; echo ready; while :; do sleep 0.01; done")
		tt.expect("ready")
		tt.write(ctrlC)
		tt.expect("stopping")
		again := time.Now()
		tt.write(ctrlC)
		assert.Equal(t, 130, tt.wait())
		t.Logf("ended %v after the second", tt.at.Sub(again))
		assert.Less(t, tt.at.Sub(again), 5*time.Second)
		w.requireEmpty()
		assert.NoError(t, w.command("run", "svc", "--try", "--", "true").Run())
	})

	t.Run("CLI-06 ^C while waiting", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.hold("svc", time.Hour)
		tt := w.terminal("leasehold", "run", "svc", "--", "touch", "started")
		tt.expect("waiting")
		tt.write(ctrlC)
		assert.Equal(t, 130, tt.wait())
		assert.NoFileExists(t, filepath.Join(filepath.Dir(w.path), "started"))
	})

	t.Run("CLI-08 the command keeps the terminal", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tt := w.terminal("leasehold", "run", "svc", "--", "sh", "-c",
			"test -t 0 && test -t 1 && test -t 2 && echo all three; stty -echo; echo name?; read name; stty echo; echo hello $name")
		tt.expect("all three")
		tt.expect("name?")
		tt.write("anna\n")
		tt.expect("hello anna")
		assert.Zero(t, tt.wait())
		assert.NotContains(t, tt.out.String(), "anna\r\nhello", "stty -echo had its effect")
	})

	t.Run("a command that reads has ^C to itself", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tt := w.terminal("sh", "-c", `leasehold run svc --grace 0s -- sh -c 'trap "echo interrupted" INT; echo ready; read line; read line; echo got $line'
			echo code $?; read line; echo then $line`)
		tt.expect("ready")
		eventually(t, "the command is in front", func() bool { return tt.inFront() != tt.cmd.Process.Pid })
		tt.write(ctrlC)
		tt.expect("interrupted")
		tt.write("one\n")
		tt.write("two\n")
		tt.expect("got ")
		tt.expect("code 0") // it lived on after ^C, with no grace: the tool has not seen it
		// The script around the tool can read again.
		tt.write("three\n")
		tt.expect("then ")
		assert.Zero(t, tt.wait())
	})

	t.Run("^Z and fg", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tt := w.shell()
		tt.write("mkfifo go; leasehold run svc -- sh -c 'echo rea''dy $$; read line <go; echo do''ne; exit 5'\n")
		group := tt.group()
		tt.write(ctrlZ)
		tt.expect("Stopped")
		eventually(t, "all are stopped", func() bool { return w.allStopped(group) })
		tt.write("echo >go & fg %leasehold\n")
		tt.expect("done")
		tt.write("echo code=$?\n")
		tt.expect("code=5")
		w.requireEmpty()
	})

	t.Run("^Z for longer than the lock lasts, and fg", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tt := w.shell()
		tt.write("leasehold run svc --ttl 1s -- sh -c 'echo rea''dy $$; exec sleep 1000'\n")
		group := tt.group()
		tt.write(ctrlZ)
		tt.expect("Stopped")
		eventually(t, "the group is dead", func() bool { return len(living(t, group)) == 0 })
		next := w.hold("svc", time.Hour)
		tt.write("fg\n")
		tt.expect("lost")
		tt.write("echo code=$?\n")
		tt.expect("code=79")
		row, held := w.row("svc")
		assert.True(t, held)
		assert.Equal(t, next.Owner, row.Owner)
	})

	t.Run("^Z of a command that reads, and fg", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tt := w.shell()
		tt.write("leasehold run svc -- sh -c 'echo rea''dy $$; read line; echo got=$line'\n")
		group := tt.group()
		eventually(t, "the command is in front", func() bool { return tt.inFront() == group })
		tt.write(ctrlZ)
		tt.expect("Stopped")
		tt.write("fg\n")
		eventually(t, "the command is in front again", func() bool { return tt.inFront() == group })
		tt.write("word\n")
		tt.expect("got=word")
		tt.write("echo code=$?\n")
		tt.expect("code=0")
	})

	t.Run("a job in the background that reads stops until fg", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tt := w.shell()
		tt.write("leasehold run svc -- sh -c 'echo rea''dy $$; read line; echo got=$line' &\n")
		group := tt.group()
		eventually(t, "the tool is stopped, and the command", func() bool { return w.allStopped(group) })
		tt.write("while jobs -r | grep -q .; do :; done; fg\n") // not before the shell knows it too
		eventually(t, "the command is in front", func() bool { return tt.inFront() == group })
		tt.write("word\n")
		tt.expect("got=word")
	})
}

// shell starts an interactive shell with job control.
func (w *world) shell() *terminal {
	w.t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		w.t.Skip("no bash")
	}
	tt := w.terminal(bash, "--norc", "--noprofile", "-i")
	tt.expect("prompt>")
	return tt
}

// group reads "ready PID" and returns the process group of the command.
func (tt *terminal) group() int {
	tt.t.Helper()
	var pid int
	eventually(tt.t, "ready", func() bool {
		_, rest, found := strings.Cut(tt.out.String(), "ready ")
		number, _, whole := strings.Cut(rest, "\r\n")
		if !found || !whole {
			return false
		}
		var err error
		pid, err = strconv.Atoi(number)
		return err == nil
	})
	group, err := unix.Getpgid(pid)
	require.NoError(tt.t, err)
	return group
}

// allStopped tells whether the group is, its supervisor apart, and the tool.
func (w *world) allStopped(group int) bool {
	n := 0
	for _, pid := range living(w.t, group) {
		if pid == group {
			pid = parent(w.t, group)
		}
		if processState(strconv.Itoa(pid)) != "T" {
			return false
		}
		n++
	}
	return n > 1
}

// parent returns the parent of a process.
func parent(t *testing.T, pid int) int {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	require.NoError(t, err)
	ppid, err := strconv.Atoi(strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[1])
	require.NoError(t, err)
	return ppid
}
