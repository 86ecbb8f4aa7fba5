//go:build linux || darwin

package procgroup

import (
	"encoding/binary"
	"errors"
	"math"
	"os"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// supervisorName is the argv[0] that makes a process the supervisor. The tool's name is not in it, so that killing all
// processes of that name does not kill both.
const supervisorName = "lh-supervisor"

const (
	feedFD     = 3 // deadlines come here; its end is the tool's
	readyFD    = 4 // one byte goes there
	recordSize = 8 // a deadline: nanoseconds of the boot clock
	never      = time.Duration(math.MaxInt64)
	step       = 25 * time.Millisecond // between looks at the clock where no timer follows it
)

// Main turns a process that was started as supervisor into one, and does not return then. A main function calls it
// before anything else, and so does the TestMain of a package whose tests call [Start].
func Main() {
	if len(os.Args) != 1 || os.Args[0] != supervisorName {
		return
	}
	ignoreSignals()
	closeInherited()
	_ = os.WriteFile("/proc/self/comm", []byte(supervisorName), 0) // else it is "exe"; there is no such file on darwin
	_, _ = unix.Write(readyFD, []byte{1})
	unix.Close(readyFD)

	guard(feedFD)
	_ = unix.Kill(-unix.Getpid(), unix.SIGKILL) // not 0: started by hand, it would be in a group that is not its own
	os.Exit(1)
}

// closeInherited closes what the tool had inherited and passes on to its children: a pipe in which this process was
// left would have no end. What the runtime opened is close-on-exec, what came through exec no longer is.
func closeInherited() {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return
	}
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil || fd <= readyFD {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.Close(fd)
		}
	}
}

// guard returns at the deadline, or when the tool is gone, or when it can no longer tell.
func guard(feed int) {
	if unix.SetNonblock(feed, true) != nil {
		return
	}
	// Where it may, this thread goes before the group's work: on a busy machine it is the one that must not be late.
	runtime.LockOSThread()
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -20)
	timer := newBootTimer()
	deadline := never
	for open := true; open; {
		if err := await(feed, timer, deadline); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		// First the news, then the clock: a deadline that the tool sent is good, even if this process is late to read it.
		deadline, open = readDeadline(feed, deadline)
		if BootClock() >= deadline {
			return
		}
	}
}

// await returns when there is something to read or the deadline may have passed.
func await(feed int, timer bootTimer, deadline time.Duration) error {
	fds := []unix.PollFd{{Fd: int32(feed), Events: unix.POLLIN}}
	timeoutMillis := -1
	if deadline != never {
		if timer.set(deadline) {
			fds = append(fds, unix.PollFd{Fd: timer.fd, Events: unix.POLLIN})
		} else {
			left := min(step, max(0, deadline-BootClock()))
			timeoutMillis = int((left + time.Millisecond - 1) / time.Millisecond)
		}
	}
	_, err := unix.Poll(fds, timeoutMillis)
	return err
}

// readDeadline returns the last deadline in the pipe, or the given one if there is none; open is false at its end.
func readDeadline(feed int, deadline time.Duration) (last time.Duration, open bool) {
	var records [64 * recordSize]byte
	for {
		n, err := unix.Read(feed, records[:])
		switch {
		case err == unix.EAGAIN:
			return deadline, true
		case err == unix.EINTR:
		case err != nil, n < recordSize:
			return deadline, false
		default: // records are written whole, and the buffer holds whole ones
			deadline = time.Duration(binary.NativeEndian.Uint64(records[n-recordSize : n]))
		}
	}
}

// BootClock reads the clock on which deadlines are: it also counts the time for which the machine is suspended.
func BootClock() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(bootClockID, &now); err != nil {
		panic("procgroup: no boot clock: " + err.Error())
	}
	return time.Duration(now.Nano())
}
