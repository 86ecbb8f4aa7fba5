package clock

import "golang.org/x/sys/unix"

const (
	awakeClock = unix.CLOCK_MONOTONIC
	bootClock  = unix.CLOCK_BOOTTIME
)
