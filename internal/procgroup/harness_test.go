//go:build linux

package procgroup_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/aaravsoft/leasehold/internal/procgroup"
)

// limit bounds every wait for something that must happen soon.
const limit = 10 * time.Second

// tool is a tool process as its test sees it.
type tool struct {
	t       *testing.T
	cmd     *exec.Cmd
	process int // the tool's pid, if cmd is not it but its parent
	orders  *json.Encoder
	answers chan report
	events  chan report
	out     *bufio.Reader // what the tool and its command print; the terminal if there is one
	tty     *os.File
	group   int // once started
}

// startTool starts a tool with a pipe as output and /dev/null as input. Change adjusts the process, it may be nil.
func startTool(t *testing.T, change func(*exec.Cmd)) *tool {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { read.Close() })
	cmd := toolCommand(t)
	cmd.Stdout, cmd.Stderr = write, write
	if change != nil {
		change(cmd)
	}
	tl := connect(t, cmd)
	require.NoError(t, cmd.Start())
	require.NoError(t, write.Close())
	tl.out = bufio.NewReader(read)
	return tl
}

// startToolInTerminal starts a tool as leader of a session with a terminal of its own. Change may be nil.
func startToolInTerminal(t *testing.T, change func(*exec.Cmd)) *tool {
	t.Helper()
	cmd := toolCommand(t)
	if change != nil {
		change(cmd)
	}
	tl := connect(t, cmd)
	tty, err := pty.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() { tty.Close() })
	tl.tty, tl.out = tty, bufio.NewReader(tty)
	return tl
}

func toolCommand(t *testing.T) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), toolEnv+"=1")
	return cmd
}

func connect(t *testing.T, cmd *exec.Cmd) *tool {
	t.Helper()
	orderEnd, orders, err := os.Pipe()
	require.NoError(t, err)
	reports, reportEnd, err := os.Pipe()
	require.NoError(t, err)
	cmd.ExtraFiles = append([]*os.File{orderEnd, reportEnd}, cmd.ExtraFiles...)
	tl := &tool{
		t:       t,
		cmd:     cmd,
		orders:  json.NewEncoder(orders),
		answers: make(chan report, 100),
		events:  make(chan report, 100),
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		defer close(tl.answers)
		defer close(tl.events)
		lines := json.NewDecoder(reports)
		for {
			var r report
			if lines.Decode(&r) != nil {
				return
			}
			if r.Event == 0 {
				tl.answers <- r
			} else {
				tl.events <- r
			}
		}
	}()
	t.Cleanup(func() {
		orders.Close()
		cmd.Process.Kill()
		cmd.Wait()
		if tl.group != 0 {
			unix.Kill(-tl.group, unix.SIGKILL)
		}
		orderEnd.Close()
		reportEnd.Close()
		<-finished
		reports.Close()
	})
	return tl
}

// try gives an order and returns the answer.
func (tl *tool) try(o order) report {
	tl.t.Helper()
	require.NoError(tl.t, tl.orders.Encode(o))
	return tl.next(tl.answers, "answer to "+o.Do)
}

// do gives an order that must succeed.
func (tl *tool) do(o order) report {
	tl.t.Helper()
	r := tl.try(o)
	require.Empty(tl.t, r.Err, "%s", o.Do)
	return r
}

// start starts a group with a deadline and remembers its number.
func (tl *tool) start(grace, deadline time.Duration) (deadlineAt time.Duration) {
	tl.t.Helper()
	tl.do(order{Do: "start", In: grace})
	for _, p := range processes() {
		if p.parent == tl.pid() && p.args == "lh-supervisor" {
			tl.group = p.pid
		}
	}
	require.NotZero(tl.t, tl.group, "no supervisor")
	return tl.do(order{Do: "deadline", In: deadline}).At
}

// run executes a command in the group and waits until it has printed a line.
func (tl *tool) run(argv ...string) string {
	tl.t.Helper()
	tl.do(order{Do: "exec", Argv: argv})
	return tl.line()
}

func (tl *tool) sh(script string) string {
	tl.t.Helper()
	return tl.run("sh", "-c", script)
}

// runSleep executes a command that lives until it is killed, and returns its pid.
func (tl *tool) runSleep() int {
	tl.t.Helper()
	pid, err := strconv.Atoi(tl.sh("echo $$; exec sleep 1000"))
	require.NoError(tl.t, err)
	eventually(tl.t, "sleep runs", func() bool {
		comm, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
		return string(comm) == "sleep\n"
	})
	return pid
}

func (tl *tool) line() string {
	tl.t.Helper()
	return bounded(tl.t, "a line of output", func() string {
		line, _ := tl.out.ReadString('\n')
		return strings.TrimSpace(line)
	})
}

// rest returns the output up to its end.
func (tl *tool) rest() string {
	tl.t.Helper()
	return bounded(tl.t, "the end of the output", func() string {
		rest, _ := io.ReadAll(tl.out)
		return string(rest)
	})
}

func (tl *tool) event(kind procgroup.Kind) report {
	tl.t.Helper()
	r := tl.next(tl.events, "event")
	require.Equal(tl.t, kind, r.Event, "%+v", r)
	return r
}

func (tl *tool) next(from chan report, what string) report {
	tl.t.Helper()
	select {
	case r, ok := <-from:
		require.True(tl.t, ok, "the tool ended: no %s", what)
		return r
	case <-time.After(limit):
		require.FailNow(tl.t, "no "+what)
		return report{}
	}
}

func (tl *tool) pid() int { return cmp.Or(tl.process, tl.cmd.Process.Pid) }

// below makes the process that cmd has started the tool's parent: a shell, say.
func (tl *tool) below() {
	tl.t.Helper()
	eventually(tl.t, "the tool runs", func() bool {
		for _, p := range processes() {
			if p.parent == tl.cmd.Process.Pid {
				tl.process = p.pid
			}
		}
		return tl.process != 0
	})
}

func (tl *tool) kill(sig syscall.Signal) {
	tl.t.Helper()
	require.NoError(tl.t, unix.Kill(tl.pid(), sig))
}

// dead waits until no process of the group lives and returns when that was.
func (tl *tool) dead() time.Duration {
	tl.t.Helper()
	eventually(tl.t, "the group is dead", func() bool { return len(members(tl.group)) == 0 })
	return procgroup.BootClock()
}

func bounded[T any](t *testing.T, what string, f func() T) T {
	t.Helper()
	result := make(chan T, 1)
	go func() { result <- f() }()
	select {
	case r := <-result:
		return r
	case <-time.After(limit):
		require.FailNow(t, "no "+what)
		panic("unreachable")
	}
}

// eventually polls the state of processes, which tell nobody when it changes.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(limit); !is(); <-ticker.C {
		require.True(t, time.Now().Before(end), "not in time: %s", what)
	}
}

type process struct {
	pid, parent, group int
	state              byte
	args               string
}

// processes reads the process table.
func processes() []process { return find(func(int) bool { return true }) }

// members returns the living processes of a group.
func members(group int) []process {
	found := find(func(pid int) bool {
		of, err := unix.Getpgid(pid)
		return err == nil && of == group
	})
	return slices.DeleteFunc(found, func(p process) bool { return p.state == 'Z' || p.state == 'X' })
}

// find reads the entries of the process table whose pid is wanted.
func find(wanted func(pid int) bool) []process {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer proc.Close()
	names, _ := proc.Readdirnames(-1)
	var found []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || !wanted(pid) {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		p := process{pid: pid, state: fields[0][0]}
		p.parent, _ = strconv.Atoi(fields[1])
		p.group, _ = strconv.Atoi(fields[2])
		args, _ := os.ReadFile("/proc/" + name + "/cmdline")
		p.args = strings.TrimSpace(strings.ReplaceAll(string(args), "\x00", " "))
		found = append(found, p)
	}
	return found
}
