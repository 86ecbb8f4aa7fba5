//go:build linux || darwin

package clock

import (
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// suspendedBounds reads the clock that counts suspended time between two readings of the one that does not.
func suspendedBounds() (low, high time.Duration) {
	before, err1 := read(awakeClock)
	boot, err2 := read(bootClock)
	after, err3 := read(awakeClock)
	if err1 != nil || err2 != nil || err3 != nil {
		return math.MinInt64 / 2, math.MaxInt64 / 2 // no information: it confirms whatever was known
	}
	return boot - after, boot - before
}

func read(id int32) (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		return 0, err
	}
	return time.Duration(ts.Nano()), nil
}
