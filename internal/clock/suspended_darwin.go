package clock

import "golang.org/x/sys/unix"

// On this system CLOCK_MONOTONIC goes on during sleep. It is slewed with the wall clock, CLOCK_UPTIME_RAW is not, so
// their difference creeps, in either direction, by as much as the clock is wrong.
const (
	awakeClock = unix.CLOCK_UPTIME_RAW
	bootClock  = unix.CLOCK_MONOTONIC
)
