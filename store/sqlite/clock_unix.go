//go:build linux || darwin

package sqlite

import "golang.org/x/sys/unix"

func clockGettime(id int32) int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic("sqlite: clock_gettime: " + err.Error()) // both systems have had these clocks for longer than Go runs on them
	}
	return ts.Nano()
}
