//go:build linux

package procgroup_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aaravsoft/leasehold/internal/procgroup"
)

// toolEnv makes the test binary a tool: a process that owns a Group and does what it reads from its fd 3, a JSON object
// a line, and answers on fd 4. The tests kill it, stop it and look at what it leaves behind.
const toolEnv = "PROCGROUP_TEST_TOOL"

func TestMain(m *testing.M) {
	procgroup.Main()
	if os.Getenv(toolEnv) != "" {
		os.Exit(newToolSide().serve())
	}
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(sig) { // under nohup, or behind a shell's &: every process of the tests would inherit that
			signal.Notify(make(chan os.Signal, 1), sig) // a handler, unlike its absence, is not inherited
		}
	}
	os.Exit(m.Run())
}

type order struct {
	Do     string         `json:"do"`
	Argv   []string       `json:"argv,omitempty"`
	In     time.Duration  `json:"in,omitempty"` // grace, or time to the deadline
	Signal syscall.Signal `json:"signal,omitempty"`
	Count  int            `json:"count,omitempty"`
}

type report struct {
	Event  procgroup.Kind `json:"event,omitempty"` // 0: the answer to an order
	Code   int            `json:"code,omitempty"`
	Signal syscall.Signal `json:"signal,omitempty"`
	Err    string         `json:"err,omitempty"`
	At     time.Duration  `json:"at,omitempty"` // boot clock
	Yes    bool           `json:"yes,omitempty"`
	Counts [3]int         `json:"counts,omitzero"` // children, descriptors, goroutines
}

type toolSide struct {
	orders  *bufio.Scanner
	mu      sync.Mutex
	reports *json.Encoder
	group   *procgroup.Group
	tty     *procgroup.Terminal
}

func newToolSide() *toolSide {
	unix.CloseOnExec(3)
	unix.CloseOnExec(4)
	return &toolSide{
		orders:  bufio.NewScanner(os.NewFile(3, "orders")),
		reports: json.NewEncoder(os.NewFile(4, "reports")),
	}
}

func (s *toolSide) serve() int {
	for s.orders.Scan() {
		var o order
		if err := json.Unmarshal(s.orders.Bytes(), &o); err != nil {
			return 1
		}
		s.report(s.obey(o))
	}
	return 0
}

func (s *toolSide) report(r report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reports.Encode(r)
}

func (s *toolSide) obey(o order) (r report) {
	var err error
	switch o.Do {
	case "start":
		if s.group, err = procgroup.Start(o.In); err == nil {
			go s.forward(s.group)
		}
	case "deadline":
		r.At = procgroup.BootClock() + o.In
		err = s.group.Deadline(r.At)
	case "exec":
		err = s.group.Exec(o.Argv, os.Environ(), nil)
	case "signal":
		err = s.group.Signal(o.Signal)
	case "kill":
		s.group.Kill()
	case "close":
		s.group.Close()
	case "terminal":
		s.tty, err = procgroup.OpenTerminal()
	case "in front":
		r.Yes, err = s.tty.InFront()
	case "give":
		err = s.tty.Give(s.group)
	case "take back":
		err = s.tty.TakeBack(s.group)
	case "hear":
		signal.Notify(make(chan os.Signal, 1), o.Signal)
	case "stop self":
		err = procgroup.StopSelf(o.Signal)
	case "stop job":
		err = procgroup.StopJob(o.Signal)
	case "mute":
		err = mute()
	case "subprocess":
		err = spawn(o.Argv)
	case "cycles":
		err = s.cycles(o)
	case "count":
		r.Counts = counts()
	default:
		err = fmt.Errorf("unknown order %q", o.Do)
	}
	if err != nil {
		r.Err = err.Error()
	}
	if err, ok := errors.AsType[*procgroup.ExecError](err); ok {
		r.Code = err.Code
	}
	return r
}

func (s *toolSide) forward(g *procgroup.Group) {
	for e := range g.Events() {
		r := report{Event: e.Kind, Code: e.Code, Signal: e.Signal, At: procgroup.BootClock()}
		if e.Err != nil {
			r.Err = e.Err.Error()
		}
		s.report(r)
	}
}

// mute lets go of the tool's own output, so that its end is the command's.
func mute() error {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	return cmp.Or(unix.Dup3(int(null.Fd()), 1, 0), unix.Dup3(int(null.Fd()), 2, 0))
}

// spawn runs a child of the tool that is not in the group.
func spawn(argv []string) error {
	child, err := os.StartProcess(argv[0], argv, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return err
	}
	state, err := child.Wait()
	if err == nil && !state.Success() {
		err = errors.New(state.String())
	}
	return err
}

// cycles runs a command many times, each in a group of its own.
func (s *toolSide) cycles(o order) error {
	for i := range o.Count {
		g, err := procgroup.Start(time.Second)
		if err != nil {
			return err
		}
		err = cmp.Or(g.Deadline(procgroup.BootClock()+time.Minute), g.Exec(o.Argv, os.Environ(), nil))
		if err != nil {
			return err
		}
		code := -1
		for e := range g.Events() {
			if e.Kind == procgroup.Exited {
				code = e.Code
			}
		}
		g.Close()
		if code != 0 {
			return fmt.Errorf("run %d: code %d", i, code)
		}
	}
	return nil
}

func counts() [3]int {
	children := 0
	for _, p := range processes() {
		if p.parent == os.Getpid() {
			children++
		}
	}
	descriptors, _ := os.ReadDir("/proc/self/fd")
	return [3]int{children, len(descriptors), runtime.NumGoroutine()}
}
