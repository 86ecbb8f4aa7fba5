//go:build linux || darwin

package procgroup

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Terminal is the controlling terminal of this process: it has one process group in front, which reads from it and gets
// its signals.
type Terminal struct{ tty *os.File }

// OpenTerminal returns an error if there is no controlling terminal.
func OpenTerminal() (*Terminal, error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	return &Terminal{tty}, nil
}

// Close gives up the terminal's descriptor, not the terminal.
func (t *Terminal) Close() error { return t.tty.Close() }

// InFront tells whether the process group of this process is in front.
func (t *Terminal) InFront() (bool, error) {
	front, err := t.front()
	return front == unix.Getpgrp(), err
}

// Give puts the group in front. The caller has seen that its own group is; SIGCONT is the caller's to send.
func (t *Terminal) Give(g *Group) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.over {
		return os.ErrProcessDone
	}
	return t.put(g.pid)
}

// TakeBack puts this process's own group in front if the given one is, also after its end.
func (t *Terminal) TakeBack(g *Group) error {
	front, err := t.front()
	if err != nil || front != g.pid {
		return err
	}
	return t.put(unix.Getpgrp())
}

func (t *Terminal) front() (pgid int, err error) {
	return t.control(func(fd int) (int, error) { return unix.IoctlGetInt(fd, unix.TIOCGPGRP) })
}

func (t *Terminal) put(pgid int) error {
	// From behind, this stops a process that gets SIGTTOU.
	return withoutTTOU(func() error {
		_, err := t.control(func(fd int) (int, error) {
			return 0, unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, pgid)
		})
		return err
	})
}

func (t *Terminal) control(f func(fd int) (int, error)) (n int, err error) {
	raw, err := t.tty.SyscallConn()
	if err != nil {
		return 0, err
	}
	if controlErr := raw.Control(func(fd uintptr) { n, err = f(int(fd)) }); controlErr != nil {
		return 0, controlErr
	}
	return n, err
}

// stopLimit is how long a stop may take to come.
const stopLimit = 50 * time.Millisecond

// StopSelf stops this process, for SIGTSTP, SIGTTIN or SIGTTOU, and returns once it goes on. If nobody could continue
// it (its process group is orphaned) it is not stopped, and StopSelf returns soon. Whoever wants to be told of the
// signal has to call [signal.Notify] again afterwards.
//
// [signal.Reset] and kill would not do it: a signal that was subscribed to once never gets its default action back.
func StopSelf(sig syscall.Signal) error { return stop(unix.Getpid(), sig) }

// StopJob is [StopSelf] for the whole process group of this process, as the terminal would do it.
func StopJob(sig syscall.Signal) error { return stop(0, sig) }

// untilContinued calls f, which stops this process, and returns when that is over.
func untilContinued(f func() error) error {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	defer signal.Stop(continued)
	if err := f(); err != nil {
		return err
	}
	// Another thread may take the signal: this one may run on for a moment, and must not return in it.
	select {
	case <-continued:
	case <-time.After(stopLimit):
	}
	return nil
}
