package lease

import (
	"fmt"

	"github.com/aaravsoft/leasehold/internal/clock"
	"github.com/aaravsoft/leasehold/store"
)

// tenure is the life of one owner id: wanted, then held, then burnt; or wanted, then burnt. A burnt id is never sent in
// an Acquire again, and no answer for it, however late, makes the lease held. It is guarded by the lease's mu.
type tenure struct {
	owner string
	phase phase
	sent  clock.Instant // when the last request that is known to have succeeded was about to be sent
	loss  error         // why it is over; set before anybody has been told, that is while the phase is still held

	row           bool // the store has, may have, or may come to have, a row of this id
	unclear       bool // an Acquire was answered, but not clearly: it may be applied later still
	abandoned     int  // Acquires whose answer may come late; -1 while an answer overtakes the news that it is late
	gone          bool // the loss is the store's word: there is no row that work is running under
	maybeReleased bool // a Release that was sent while the lease was valid may have deleted the row
}

type phase uint8

const (
	wanted phase = iota // Acquires with this id may be sent
	held                // an Acquire was granted in time
	lost                // burnt, and its caller was told; the work under it may be running still, so its row stays
	burnt               // burnt, and nothing runs under it
)

// unresolved: an Acquire may be applied later, whatever other ones were answered.
func (t *tenure) unresolved() bool { return t.unclear || t.abandoned > 0 }

// check ends the trust if its deadline has passed. Called with mu held.
func (l *Lease) check(t *tenure, now clock.Instant) {
	if t.phase != held || t.loss != nil {
		return
	}
	if left := now.Until(l.deadline(t.sent)); left <= 0 {
		t.loss = fmt.Errorf("%w: %q: it was not renewed for %v, and trust in it ended %v ago",
			store.ErrLost, l.claim.Name, l.trust()-left, -left)
	}
}

// tell returns what a method tells its caller: that the tenure is over, if it is, or else err.
func (l *Lease) tell(t *tenure, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.loss == nil {
		return err
	}
	if t.phase == held {
		t.phase = lost
		if t.gone {
			t.phase = burnt
		}
	}
	return t.loss
}

func (l *Lease) notHeld() error {
	return fmt.Errorf("%w: %q is not held by this lease", store.ErrLost, l.claim.Name)
}
