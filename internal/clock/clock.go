// Package clock reads time in a way that notices a suspended machine.
//
// Go's monotonic clock stops while the machine is suspended, the lease in the database does not. The wall clock goes
// on, but people and NTP set it. So an [Instant] has both, and the time for which the machine was suspended, and of two
// answers to "how long ago?" the longer one counts: trust in a lease may end early, never late.
package clock

import "time"

// Instant is one reading of the clocks. Mono and Suspended count from arbitrary origins, so only instants of one
// [Clock] can be compared.
type Instant struct {
	Mono      time.Duration // Go's monotonic clock
	Suspended time.Duration // for how long the machine was suspended until then
	Wall      time.Duration // since the Unix epoch
}

// Clock reads the clocks. It is the one seam for time: everything else follows the fake time of a synctest bubble by
// itself, but a bubble cannot make the clocks diverge.
type Clock func() Instant

// Add returns the instant d later, on every clock.
func (i Instant) Add(d time.Duration) Instant {
	i.Mono += d
	i.Wall += d
	return i
}

// Since returns the time that passed after earlier: the most that any clock says. It is negative if every clock says
// that earlier is still to come.
func (i Instant) Since(earlier Instant) time.Duration {
	return max(i.boot()-earlier.boot(), i.Wall-earlier.Wall)
}

// Until returns the time left until deadline: the least that any clock says. It is negative once one of them has
// passed the deadline.
func (i Instant) Until(deadline Instant) time.Duration { return -i.Since(deadline) }

// Time returns the wall clock's reading, in UTC.
func (i Instant) Time() time.Time { return time.Unix(0, int64(i.Wall)).UTC() }

// boot is the clock that also counts suspended time.
func (i Instant) boot() time.Duration { return i.Mono + i.Suspended }

// System returns a clock that reads the machine's clocks. In a synctest bubble it follows the fake time, and
// Suspended does not move.
func System() Clock {
	// In a bubble time.Now has no monotonic reading, and Sub takes the wall readings instead: differences between
	// instants are right in both cases, whatever base is.
	base := time.Now()
	var asleep suspended
	return func() Instant {
		now := time.Now()
		mono := now.Sub(base)
		// Read after the monotonic clock: if the machine is suspended between the two, the sum already shows it.
		return Instant{Mono: mono, Suspended: asleep.at(mono, suspendedBounds), Wall: time.Duration(now.UnixNano())}
	}
}
