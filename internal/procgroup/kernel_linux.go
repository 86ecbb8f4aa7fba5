package procgroup

import (
	"bytes"
	"errors"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const bootClockID = unix.CLOCK_BOOTTIME

// executable is this program's own file, also after an upgrade has replaced it: another version need not understand
// what is sent through the pipe.
func executable() (string, error) { return "/proc/self/exe", nil }

// adoptOrphans makes the orphans among this process's descendants its children.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// sigchldInfo is the part of siginfo_t that x/sys leaves opaque.
type sigchldInfo struct {
	_   [3]int32
	_   [0]uintptr // the kernel aligns the union that follows
	pid int32
}

// peek returns a child with news without taking them, 0 if there is none.
func peek(idType, id, options int) int {
	for {
		var info unix.Siginfo
		err := unix.Waitid(idType, id, &info, options|unix.WNOHANG|unix.WNOWAIT, nil)
		switch {
		case err == unix.EINTR:
		case err != nil || info.Signo == 0: // ECHILD, or children without news
			return 0
		default:
			return int((*sigchldInfo)(unsafe.Pointer(&info)).pid)
		}
	}
}

// news returns a child in the group that has ended or stopped, 0 if there is none. The news are still to be taken.
func news(pgid, _ int) int { return peek(unix.P_PGID, pgid, unix.WEXITED|unix.WSTOPPED) }

// ended tells whether a child is a zombie.
func ended(pid int) bool { return peek(unix.P_PID, pid, unix.WEXITED) != 0 }

// takeStop takes the news that a child was stopped, if there are.
func takeStop(pid int) {
	var info unix.Siginfo
	_ = unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG, nil)
}

// waitMember waits for a child in the group that has ended, whichever; pid is 0 if none has, and err is ECHILD if there
// are none.
func waitMember(pgid, _ int) (pid int, status unix.WaitStatus, err error) {
	return wait(-pgid, unix.WNOHANG)
}

// reapOrphans reaps adopted processes that had left the group. Children in our own process group were not adopted, they
// are somebody else's to wait for. The kernel shows one child at a time, so one that must stay hides those behind it
// until it is waited for.
func reapOrphans(pgid int) {
	for {
		pid := peek(unix.P_ALL, 0, unix.WEXITED)
		if pid == 0 {
			return
		}
		group, err := unix.Getpgid(pid)
		if err != nil || group == pgid || group == unix.Getpgrp() {
			return
		}
		_, _, _ = wait(pid, unix.WNOHANG)
	}
}

// living counts the processes of the group that are alive, the supervisor apart.
func living(pgid int) (int, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return 0, err
	}
	defer proc.Close()
	if self, err := os.Readlink("/proc/self"); err != nil || self != strconv.Itoa(unix.Getpid()) {
		return 0, errors.New("/proc shows another pid namespace")
	}
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == pgid {
			continue
		}
		if group, err := unix.Getpgid(pid); err == nil && group == pgid && alive(name) {
			n++
		}
	}
	return n, nil
}

// alive tells a living process from a zombie.
func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false // ended in the meantime
	}
	// The name in parentheses may contain anything. State is the first field after it, the number of threads the 18th: a
	// process whose first thread has ended looks like a zombie while others run.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 18 {
		return true
	}
	ended := fields[0][0] == 'Z' || fields[0][0] == 'X'
	return !ended || string(fields[17]) > "1"
}

const signals = 64

// sigaction is the kernel's; handler is 0 for the default and 1 to ignore.
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     [signals / 8]byte
}

func setAction(sig syscall.Signal, action, old *sigaction) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(action)),
		uintptr(unsafe.Pointer(old)), unsafe.Sizeof(action.mask), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// ignoreSignals ignores what can be ignored: also what Go's runtime keeps for itself, real-time signals and those of
// faults. A fault still kills.
func ignoreSignals() {
	signal.Ignore()
	for sig := syscall.Signal(1); sig <= signals; sig++ {
		_ = setAction(sig, &sigaction{handler: 1}, nil) // fails for KILL and STOP
	}
}

// stop gives the signal its default action while it is sent. The kernel discards it if nobody could continue us.
func stop(target int, sig syscall.Signal) error {
	var before sigaction
	if err := setAction(sig, &sigaction{}, &before); err != nil {
		return err
	}
	defer func() { _ = setAction(sig, &before, nil) }()
	return untilContinued(func() error { return unix.Kill(target, sig) })
}

// bootTimer is a timerfd on the boot clock: a sleep in poll would last longer by the time of a suspend.
type bootTimer struct{ fd int32 }

func newBootTimer() bootTimer {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return bootTimer{-1}
	}
	return bootTimer{int32(fd)}
}

// set returns false if there is no such timer.
func (t bootTimer) set(at time.Duration) bool {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(1, int64(at)))} // 0 would disarm it
	return t.fd >= 0 && unix.TimerfdSettime(int(t.fd), unix.TFD_TIMER_ABSTIME, &spec, nil) == nil
}

// withoutTTOU calls f while this thread does not get SIGTTOU. Ignoring the signal would reach children.
func withoutTTOU(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var block, before unix.Sigset_t
	bits := 8 * int(unsafe.Sizeof(block.Val[0]))
	n := int(unix.SIGTTOU) - 1
	block.Val[n/bits] |= 1 << (n % bits)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &block, &before); err != nil {
		return err
	}
	defer func() { _ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }()
	return f()
}
