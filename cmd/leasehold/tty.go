//go:build linux || darwin

package main

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aaravsoft/leasehold/internal/procgroup"
)

// stopAfter is how long ^Z waits for the command to be stopped, before the tool stops itself all the same.
const stopAfter = 100 * time.Millisecond

// tty is the terminal, if there is one, and who is in front: the tool, until the command has tried to read from the
// terminal or to set it, then the command.
type tty struct {
	group    *procgroup.Group
	terminal *procgroup.Terminal // opened when first needed
	given    bool

	stopping      bool // ^Z was forwarded: when the command is stopped, the tool stops too
	stoppingSince time.Time
}

// open reports whether there is a terminal.
func (t *tty) open() bool {
	if t.terminal == nil {
		t.terminal, _ = procgroup.OpenTerminal()
	}
	return t.terminal != nil
}

// give puts the command in front, if the tool is.
func (t *tty) give() bool {
	t.given = false
	if t.open() {
		front, err := t.terminal.InFront()
		t.given = err == nil && front && t.terminal.Give(t.group) == nil
	}
	return t.given
}

// takeBack puts the tool in front again, if the command is. Else a script around the tool could not read any more.
func (t *tty) takeBack() {
	if t.terminal != nil {
		_ = t.terminal.TakeBack(t.group) // without a terminal there is nothing to take
	}
}

func (t *tty) close() {
	t.takeBack()
	if t.terminal != nil {
		_ = t.terminal.Close()
	}
}

// suspend forwards ^Z.
func (j *job) suspend() {
	_ = j.group.Signal(unix.SIGTSTP)
	if !j.tty.stopping {
		j.tty.stopping, j.tty.stoppingSince = true, time.Now()
	}
}

// stopped says that the command was stopped.
func (j *job) stopped(sig syscall.Signal) {
	switch {
	case j.tty.stopping:
		j.stopSelf()
	case sig == unix.SIGTTIN, sig == unix.SIGTTOU:
		// The command needs the terminal, and its group is not in front.
		if j.tty.give() {
			_ = j.group.Signal(unix.SIGCONT)
			return
		}
		if j.tty.terminal == nil {
			return
		}
		j.stopJob(sig) // a job in the background: until fg
	case sig == unix.SIGTSTP && j.tty.given:
		j.stopJob(sig) // ^Z went to the command alone
	}
	// Who stopped the command in another way will continue it.
}

// stopSelf stops the tool, after ^Z.
func (j *job) stopSelf() {
	j.tty.stopping = false
	j.tty.takeBack()
	_ = procgroup.StopSelf(unix.SIGTSTP)
	j.hearShell()
	j.resume()
}

// stopJob stops the tool and all of its job, as the terminal would have done if the tool were in front.
func (j *job) stopJob(sig syscall.Signal) {
	j.tty.takeBack()
	_ = procgroup.StopJob(sig)
	j.hearShell()
	j.resume()
}

// resume goes on after a stop. The lock may have been lost meanwhile, so that is looked at before the command is
// continued. (The group is dead in that case: its supervisor was not stopped.)
func (j *job) resume() {
	if err := j.guard.Err(); err != nil {
		j.lose(err)
		return
	}
	_ = j.feed()
	if j.tty.given {
		j.tty.give() // not if it goes on in the background
	}
	_ = j.group.Signal(unix.SIGCONT)
}
