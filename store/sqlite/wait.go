package sqlite

import (
	"context"
	"math/rand/v2"
	"time"
)

// The pauses between two tries of a statement while another process has the file. It has it for the time that the disk
// takes for one commit, so they are short, and they stay short: who has waited long must not come to try more rarely
// than who has just come. A try costs some microseconds.
const (
	minPause = 200 * time.Microsecond
	maxPause = time.Millisecond
)

// courtesy is for how long a process that has met another one leaves room behind each of its transactions.
const courtesy = time.Second

// patiently tries a statement until no other connection is in its way. SQLite's own waiting is not used: when it ends
// with a context, the outcome is in doubt, and its pauses grow to 100 ms.
func (s *Store) patiently(ctx context.Context, op string, c *conn, statement func() error) error {
	for most := minPause; ; most = min(2*most, maxPause) {
		err := statement()
		if err == nil {
			return nil
		}
		if !busy(err) {
			c.broken = true
			return s.fault(op, err)
		}
		s.met = time.Now()
		if err := s.pause(ctx, op, most/2+rand.N(most/2), err); err != nil {
			return err
		}
	}
}

// giveWay makes room for others. A process whose transactions follow each other without a gap would otherwise keep
// the rest out for seconds: they have to try just in that gap.
func (s *Store) giveWay(ctx context.Context, op string) error {
	now := time.Now()
	if room := s.left.Add(maxPause).Sub(now); room > 0 && now.Sub(s.met) < courtesy {
		return s.pause(ctx, op, room, nil)
	}
	return nil
}

func (s *Store) pause(ctx context.Context, op string, d time.Duration, waitingFor error) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return gaveUp(ctx, op, waitingFor)
	case <-s.closing:
		return errClosed
	}
}
