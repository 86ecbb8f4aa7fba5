package clock

import (
	"sync/atomic"
	"time"
)

// suspended is the last known length of all suspends. It is sticky. The operating system tells it only as the
// difference of two clocks, which cannot be read at the same moment; passing that noise on would make fake time
// inexact, and every reading look like a tiny suspend.
type suspended struct {
	last   atomic.Int64 // time.Duration
	readAt atomic.Int64 // when, on the monotonic clock; zero: never
}

const (
	// noise is the difference up to which a reading confirms the last value. Real suspends are far longer, and what
	// stays unseen is covered by the margin, which is never less than 50 ms.
	noise = time.Millisecond
	// fresh is how long a reading is good for. It takes three system calls, and a lock and its release look at the
	// clock ten times. A suspend is seen that much later, after the machine has run for that long again; the wall
	// clock, which is read each time, shows it at once.
	fresh = 2 * time.Millisecond
	// tries is how often a reading is repeated that shows a change but was itself interrupted.
	tries = 5
)

// at returns a reading that is fresh at an instant of the monotonic clock.
func (s *suspended) at(mono time.Duration, bounds func() (low, high time.Duration)) time.Duration {
	if last := time.Duration(s.readAt.Load()); last != 0 && mono >= last && mono-last < fresh {
		return time.Duration(s.last.Load())
	}
	value := s.read(bounds)
	s.readAt.Store(int64(max(mono, 1)))
	return value
}

// read takes a reading from bounds, which returns the least and the most that the value can be.
func (s *suspended) read(bounds func() (low, high time.Duration)) time.Duration {
	last := s.last.Load() // before the reading: an outdated one must not overwrite what came after it
	var low, high time.Duration
	for range tries {
		low, high = bounds()
		if d := time.Duration(last); low-noise <= d && d <= high+noise {
			return d
		}
		if high-low < noise {
			break
		}
	}
	value := low + (high-low)/2
	if s.last.CompareAndSwap(last, int64(value)) {
		return value
	}
	return time.Duration(s.last.Load())
}
