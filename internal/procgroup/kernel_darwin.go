package procgroup

import (
	"cmp"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const bootClockID = unix.CLOCK_MONOTONIC // on darwin it goes on while the machine sleeps

// States of a process, from sys/proc.h.
const (
	stateStopped = 4
	stateZombie  = 5
)

func executable() (string, error) { return os.Executable() }

// adoptOrphans does nothing: darwin gives orphans to launchd.
func adoptOrphans() error { return nil }

// state returns 0 if there is no such process.
func state(pid int) int8 {
	process, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0
	}
	return process.Proc.P_stat
}

// news returns the process that may have ended or stopped, 0 if there is none. There are two children only, and the
// supervisor must not be waited for here.
func news(pgid, child int) int {
	switch state(pgid) {
	case stateZombie, stateStopped:
		return pgid
	}
	return child
}

// ended tells whether a child is a zombie.
func ended(pid int) bool { return state(pid) == stateZombie }

// takeStop has nothing to take: news looks at the state itself.
func takeStop(int) {}

// waitMember waits for the command, the only child that is left; err is ECHILD if it was waited for.
func waitMember(_, child int) (pid int, status unix.WaitStatus, err error) {
	if child == 0 {
		return 0, 0, unix.ECHILD
	}
	return wait(child, unix.WNOHANG)
}

func reapOrphans(int) {}

// living counts the processes of the group that are alive, the supervisor apart.
func living(pgid int) (int, error) {
	members, err := unix.SysctlKinfoProcSlice("kern.proc.pgrp", pgid)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, member := range members {
		if int(member.Proc.P_pid) != pgid && member.Proc.P_stat != stateZombie {
			n++
		}
	}
	return n, nil
}

// ignoreSignals ignores what Go lets one ignore.
func ignoreSignals() { signal.Ignore() }

// stop sends the signal to the others and SIGSTOP to this process, which cannot set an action. That is never discarded,
// so it must see itself whether somebody could continue it: its parent, as shells do.
func stop(target int, sig syscall.Signal) error {
	if target == 0 {
		signal.Ignore(sig)
		defer signal.Reset(sig)
		if err := unix.Kill(0, sig); err != nil {
			return err
		}
	}
	group, err := unix.Getpgid(unix.Getppid())
	if err != nil || group == unix.Getpgrp() {
		return err
	}
	session, err := unix.Getsid(unix.Getppid())
	if own, ownErr := unix.Getsid(0); err != nil || ownErr != nil || session != own {
		return cmp.Or(err, ownErr)
	}
	return untilContinued(func() error { return unix.Kill(unix.Getpid(), unix.SIGSTOP) })
}

// bootTimer: darwin has no timer that poll can wait for, the supervisor looks at the clock in short steps.
type bootTimer struct{ fd int32 }

func newBootTimer() bootTimer { return bootTimer{-1} }

func (bootTimer) set(time.Duration) bool { return false }

// withoutTTOU calls f while this process ignores SIGTTOU.
func withoutTTOU(f func() error) error {
	signal.Ignore(unix.SIGTTOU)
	defer signal.Reset(unix.SIGTTOU)
	return f()
}
