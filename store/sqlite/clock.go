package sqlite

import "time"

// reading is a moment on the machine's clocks. Every process that uses a file reads them for itself, so they are clocks
// that all processes share.
type reading struct {
	wall   int64  // nanoseconds since 1970; people and time servers may step it
	boot   int64  // nanoseconds since the machine started, suspended time included; nobody can step it
	bootID string // another one after each start of the machine; "" if unknown, and then boot means nothing
}

// add is d later on every clock.
func (r reading) add(d time.Duration) reading {
	return reading{wall: r.wall + int64(d), boot: r.boot + int64(d), bootID: r.bootID}
}

// sub is how long it is from earlier to r. Only the boot clock of one boot is beyond doubt: for moments of two boots,
// or of two machines, there is nothing but the wall clock.
func (r reading) sub(earlier reading) time.Duration {
	if r.bootID != "" && r.bootID == earlier.bootID {
		return time.Duration(r.boot - earlier.boot)
	}
	return time.Duration(r.wall - earlier.wall)
}

// clock is the seam for tests.
type clock func() reading

// systemClock reads the real clocks. The boot id cannot change while the process lives.
func systemClock() clock {
	id := bootID()
	return func() reading {
		return reading{wall: time.Now().UnixNano(), boot: sinceBoot(), bootID: id}
	}
}
