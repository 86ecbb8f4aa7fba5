package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/sqlite"
)

// The tests of processes read /proc, which tells the living from the dead exactly.

const patience = 20 * time.Second // for what must happen, however slow the machine

// world is a store, and the environment of the tools that use it.
type world struct {
	t    *testing.T
	path string
	st   *sqlite.Store
	env  []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	path := filepath.Join(t.TempDir(), "leases.db")
	st, err := sqlite.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { st.Close() })
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LEASEHOLD_") })
	return &world{t: t, path: path, st: st, env: append(env, storeVar+"=sqlite:"+path)}
}

// row returns the row of a name, and whether there is one that has not expired.
func (w *world) row(name string) (store.Lease, bool) {
	l, err := w.st.Get(w.t.Context(), name)
	if err != nil {
		require.ErrorIs(w.t, err, store.ErrNotFound)
		return l, false
	}
	return l, l.Left > 0
}

// hold takes a name for somebody else, as soon as it is free.
func (w *world) hold(name string, ttl time.Duration) store.Claim {
	w.t.Helper()
	c := store.Claim{Name: name, Owner: store.NewOwner("other"), TTL: ttl}
	eventually(w.t, name+" is free", func() bool {
		_, err := w.st.Acquire(w.t.Context(), c)
		return err == nil
	})
	return c
}

// requireEmpty: nothing was left in the store.
func (w *world) requireEmpty() {
	w.t.Helper()
	for l, err := range w.st.List(w.t.Context(), "") {
		require.NoError(w.t, err)
		require.Fail(w.t, "a row was left", "%+v", l)
	}
}

// tool is a running leasehold.
type tool struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
	errs  *watched
	ended chan struct{}
	at    time.Time // when it ended
	code  int
	group int // of its command, once known
}

// watched is a buffer that tells of each write.
type watched struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	more chan struct{}
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.buf.Write(p)
	close(w.more)
	w.more = make(chan struct{})
	return n, err
}

func (w *watched) look() (string, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String(), w.more
}

func (w *watched) String() string {
	s, _ := w.look()
	return s
}

// expect waits for a text.
func (w *watched) expect(t *testing.T, text string) {
	t.Helper()
	limit := time.After(patience)
	for {
		have, more := w.look()
		if strings.Contains(have, text) {
			return
		}
		select {
		case <-more:
		case <-limit:
			require.Fail(t, "not said", "%q in %q", text, have)
		}
	}
}

// start starts a tool. Its standard output is a pipe that the command inherits.
func (w *world) start(args ...string) *tool {
	w.t.Helper()
	cmd := exec.Command("leasehold", args...)
	cmd.Env = w.env
	cmd.Dir = filepath.Dir(w.path)
	tl := &tool{t: w.t, cmd: cmd, errs: &watched{more: make(chan struct{})}, ended: make(chan struct{})}
	in, err := cmd.StdinPipe()
	require.NoError(w.t, err)
	tl.in = in
	outRead, outWrite, err := os.Pipe()
	require.NoError(w.t, err)
	tl.out = bufio.NewReader(outRead)
	errRead, errWrite, err := os.Pipe()
	require.NoError(w.t, err)
	cmd.Stdout, cmd.Stderr = outWrite, errWrite
	require.NoError(w.t, cmd.Start())
	outWrite.Close()
	errWrite.Close()
	var copying sync.WaitGroup
	copying.Go(func() { _, _ = io.Copy(tl.errs, errRead) })
	go func() {
		_ = cmd.Wait()
		tl.at = time.Now()
		tl.code = cmd.ProcessState.ExitCode()
		close(tl.ended)
	}()
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-tl.ended
		if tl.group != 0 {
			_ = unix.Kill(-tl.group, unix.SIGKILL)
		}
		errRead.Close()
		outRead.Close()
		copying.Wait()
	})
	return tl
}

// line reads a line that the command has written.
func (tl *tool) line() string {
	tl.t.Helper()
	lines := make(chan string, 1)
	go func() {
		s, _ := tl.out.ReadString('\n')
		lines <- strings.TrimSuffix(s, "\n")
	}()
	select {
	case s := <-lines:
		return s
	case <-time.After(patience):
		require.Fail(tl.t, "the command says nothing", "stderr: %s", tl.errs)
		return ""
	}
}

// ready waits until a command that begins with "echo $$" runs, and finds its group.
func (tl *tool) ready() *tool {
	tl.t.Helper()
	pid, err := strconv.Atoi(tl.line())
	require.NoError(tl.t, err, "stderr: %s", tl.errs)
	tl.group, err = unix.Getpgid(pid)
	require.NoError(tl.t, err)
	require.NotEqual(tl.t, unix.Getpgrp(), tl.group)
	return tl
}

func (tl *tool) signal(sig syscall.Signal) {
	tl.t.Helper()
	require.NoError(tl.t, tl.cmd.Process.Signal(sig))
}

// wait returns the exit code.
func (tl *tool) wait() int {
	tl.t.Helper()
	select {
	case <-tl.ended:
		return tl.code
	case <-time.After(patience):
		require.Fail(tl.t, "the tool does not end", "stderr: %s", tl.errs)
		return -1
	}
}

// gone waits until no process of the command's group lives, and says when that was.
func (tl *tool) gone() time.Time {
	tl.t.Helper()
	eventually(tl.t, "the group is gone", func() bool { return len(living(tl.t, tl.group)) == 0 })
	return time.Now()
}

// eventually looks again and again at what happens in other processes.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !done() {
		select {
		case <-tick.C:
		case <-limit:
			require.Fail(t, "waited too long", what)
		}
	}
}

// living returns the processes of a group that are not dead.
func living(t *testing.T, group int) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if pgid, err := unix.Getpgid(pid); err != nil || pgid != group {
			continue
		}
		if state := processState(e.Name()); state != "" && state != "Z" && state != "X" {
			pids = append(pids, pid)
		}
	}
	return pids
}

// processState is a letter, see proc(5), or nothing.
func processState(pid string) string {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return ""
	}
	return strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))[0]
}

// guarded checks, until the tool has ended, that the group never lives without its row. The row is read first: if it is
// not there, nobody may live after that.
func (w *world) guarded(tl *tool, name string) (check func()) {
	samples, bad := 0, 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Millisecond) // not without pause: the tool needs the file too
		defer tick.Stop()
		for running := true; running; samples++ {
			select {
			case <-tl.ended:
				running = false
			case <-tick.C:
			}
			l, err := w.st.Get(w.t.Context(), name)
			if (err != nil || l.Left <= 0) && len(living(w.t, tl.group)) > 0 {
				bad++
			}
		}
	}()
	return func() {
		w.t.Helper()
		<-done
		assert.Zero(w.t, bad, "the command ran without its row")
		w.t.Logf("row and group looked at %d times", samples)
	}
}
