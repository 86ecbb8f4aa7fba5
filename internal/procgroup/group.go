//go:build linux || darwin

package procgroup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	startLimit = 10 * time.Second       // for the supervisor to say that it is ready
	feedLimit  = 100 * time.Millisecond // for a deadline to find room in the pipe
)

// noDeadline is later than any.
const noDeadline = int64(never)

// Group is a process group with a supervisor. All methods may be called concurrently.
type Group struct {
	pid    int // the supervisor's, and the group's
	grace  time.Duration
	events chan Event
	wake   chan struct{} // the waiter is to look again
	closed chan struct{} // nobody reads events any more
	done   chan struct{} // the waiter has returned

	deadline atomic.Int64 // the last one, noDeadline before the first

	feedMu sync.Mutex
	feed   *os.File // the supervisor's fd 3 is the other end

	mu      sync.Mutex
	child   int              // the command, 0 before Exec
	forking bool             // Exec is between fork and exec: the child's pid and group are not known yet
	held    []syscall.Signal // sent once it is no longer forking
	killed  bool             // Kill was called: the supervisor's death is no surprise
	dying   bool             // the supervisor is dead
	over    bool             // and waited for: the group's number may belong to a stranger

	closing sync.Once
}

// Start starts a supervisor and returns when it is ready. There is no command yet, and no deadline; the supervisor
// ends with this process. Grace is the time that those who outlive the command have between SIGTERM and SIGKILL.
//
// The caller reads [Group.Events] until Gone, or calls [Group.Close].
func Start(grace time.Duration) (*Group, error) {
	if os.Args[0] == supervisorName {
		return nil, errors.New("start supervisor: main does not call procgroup.Main")
	}
	if err := adoptOrphans(); err != nil {
		return nil, fmt.Errorf("start supervisor: become subreaper: %w", err)
	}
	pid, feed, err := startSupervisor()
	if err != nil {
		return nil, fmt.Errorf("start supervisor: %w", err)
	}
	g := &Group{
		pid:    pid,
		grace:  grace,
		events: make(chan Event),
		wake:   make(chan struct{}, 1),
		closed: make(chan struct{}),
		done:   make(chan struct{}),
		feed:   feed,
	}
	g.deadline.Store(noDeadline)
	go newWaiter(g).run()
	return g, nil
}

// startSupervisor returns the supervisor's pid, and the pipe that feeds it.
func startSupervisor() (pid int, feed *os.File, err error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, nil, err
	}
	defer null.Close()
	feedEnd, feed, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	defer feedEnd.Close()
	ready, readyEnd, err := os.Pipe()
	if err != nil {
		feed.Close()
		return 0, nil, err
	}
	defer ready.Close()

	path, err := executable()
	if err == nil {
		n := null.Fd()
		pid, err = syscall.ForkExec(path, []string{supervisorName}, &syscall.ProcAttr{
			Dir:   "/", // no file system stays busy because of it
			Env:   nil, // empty
			Files: []uintptr{n, n, n, feedFD: feedEnd.Fd(), readyFD: readyEnd.Fd()},
			Sys:   &syscall.SysProcAttr{Setpgid: true},
		})
	}
	readyEnd.Close() // or its end is never seen
	if err != nil {
		feed.Close()
		return 0, nil, err
	}

	if err = ready.SetReadDeadline(time.Now().Add(startLimit)); err == nil {
		_, err = ready.Read(make([]byte, 1))
	}
	if err != nil {
		feed.Close()
		_ = unix.Kill(-pid, unix.SIGKILL)
		_, _, _ = wait(pid, 0)
		return 0, nil, fmt.Errorf("it did not get ready: %w", err)
	}
	return pid, feed, nil
}

// Deadline moves the deadline to a reading of [BootClock]. The last call counts, also if it is the earlier time; the
// supervisor obeys it as soon as it has read it. On an error the supervisor keeps the old one.
func (g *Group) Deadline(at time.Duration) error {
	g.feedMu.Lock()
	defer g.feedMu.Unlock()
	var record [recordSize]byte
	binary.NativeEndian.PutUint64(record[:], uint64(at))
	// As long as nobody knows whether the supervisor has read it, the earlier one explains its death.
	before := g.deadline.Load()
	g.deadline.Store(min(before, int64(at)))
	// A write of this size is atomic. It finds no room only if the supervisor has been stopped for thousands of them.
	err := g.feed.SetWriteDeadline(time.Now().Add(feedLimit))
	if err == nil {
		_, err = g.feed.Write(record[:])
	}
	switch {
	case err == nil:
		g.deadline.Store(int64(at))
		return nil
	case errors.Is(err, unix.EPIPE), errors.Is(err, os.ErrClosed):
		return ErrSupervisorDied
	default:
		g.deadline.Store(before)
		return fmt.Errorf("tell the supervisor its deadline: %w", err)
	}
}

// Signal sends a signal to every process of the group; the supervisor ignores it. SIGSTOP is refused, for nobody can
// ignore it: SIGTSTP stops those who do not mind. After the group's end nothing is sent.
func (g *Group) Signal(sig syscall.Signal) error {
	switch sig {
	case unix.SIGSTOP:
		return errors.New("SIGSTOP would stop the supervisor")
	case unix.SIGKILL:
		g.Kill()
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.forking {
		g.held = append(g.held, sig) // now it could miss the child
		return nil
	}
	return g.send(sig)
}

// Kill kills every process of the group, at once and without a way back. Gone comes when the last one is dead.
func (g *Group) Kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.killed = true
	if g.forking {
		// The child may not be in the group yet, and if the supervisor died now nobody would guard the child. Exec kills
		// in the end.
		g.held = append(g.held, unix.SIGKILL)
		return
	}
	_ = g.send(unix.SIGKILL)
}

// send signals the group. The caller holds mu: the group's number is this group's until over is set.
func (g *Group) send(sig syscall.Signal) error {
	if g.over {
		return os.ErrProcessDone
	}
	return unix.Kill(-g.pid, sig)
}

// Events returns what happens to the group. Nothing is dropped, and a slow reader delays nothing. The channel is closed
// after Gone.
func (g *Group) Events() <-chan Event { return g.events }

// Close kills what is left of the group and returns when it is gone. Events that were not read are dropped.
func (g *Group) Close() {
	g.Kill()
	g.closing.Do(func() { close(g.closed) })
	<-g.done
}

// wait waits for a child, whatever interrupts.
func wait(pid, options int) (int, unix.WaitStatus, error) {
	for {
		var status unix.WaitStatus
		got, err := unix.Wait4(pid, &status, options, nil)
		if err != unix.EINTR {
			return got, status, err
		}
	}
}
