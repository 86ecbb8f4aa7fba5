package mutex

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aaravsoft/leasehold/internal/bounded"
	"github.com/aaravsoft/leasehold/internal/clock"
	"github.com/aaravsoft/leasehold/internal/unclassed"
	"github.com/aaravsoft/leasehold/store"
)

// A store that confirms keeps trust from outrunning a failover (rule 9): whoever becomes primary has the rows that
// anybody trusts in. This file is about acquisitions, looks.go about renewals. They differ in what waiting means: a
// caller of Lock waits for the replicas, and nobody waits for them while a lock is held.

// confirming is implemented by a [store.Confirmer] that may have nothing to look at, as store/mssql without replicas.
type confirming interface{ Confirms() bool }

// confirmer returns what confirms the leases of a store, or nil. Only the one that will be asked may say that there is
// nothing to ask: a store further inside knows nothing of what a wrapper looks at.
func confirmer(st store.Store) store.Confirmer {
	c, ok := store.As[store.Confirmer](st)
	if !ok {
		return nil
	}
	if may, ok := c.(confirming); ok && !may.Confirms() {
		return nil
	}
	return c
}

const (
	minLookPause = 50 * time.Millisecond // from the end of a look to the next one about the same leases
	maxLookPause = time.Second
	pauseShare   = 8 // the longer a lease is not confirmed, the rarer it is looked at: an eighth of that time apart
	minLook      = 10 * time.Millisecond
)

// lookPause is how long to wait for the next look, if the replicas did not show a request for so long.
func lookPause(unconfirmed time.Duration) time.Duration {
	return min(max(unconfirmed/pauseShare, minLookPause), maxLookPause)
}

// covers reports whether a replica that shows a lease up to shown has the write that returned expires. Later will do: it has
// that write and a newer one.
func covers(shown, expires time.Time) bool {
	return !shown.IsZero() && !expires.IsZero() && !shown.Before(expires)
}

var errBehind = errors.New("they do not show it yet")

// notConfirmed is of class ErrUnavailable alone, whatever the replicas said: they never say anything about the lease itself,
// and one without a table may only be behind.
func notConfirmed(after time.Duration, why error) error {
	return &store.UnavailableError{Op: "confirm", Err: fmt.Errorf("%w within %v of the request: %w",
		ErrNotConfirmed, after.Round(time.Millisecond), unclassed.Error(why))}
}

// confirmed waits until the replicas show a grant that was asked for at sent. Without that nobody is told of the grant: its
// row would be missing after a failover, and somebody else could have the lock too.
func (w *waiter) confirmed(sent clock.Instant, lease store.Lease) error {
	c := w.client
	if c.confirm == nil {
		return nil
	}
	if parent := w.opts.parent; parent != nil {
		defer context.AfterFunc(parent, func() { w.cancel(contextError(parent)) })()
	}
	limit, why := w.timing.confirm, errBehind
	for {
		since := c.clk().Since(sent)
		if limit-since < min(minLook, limit/2) {
			return notConfirmed(limit, why)
		}
		w.looking(notConfirmed(since, why))
		// Half of the time, so that a look that hangs is followed by another one.
		shown, err := c.confirm.grants.Confirm(w.ctx, min(limit-since, limit/2, w.timing.attempt()),
			[]store.Lease{{Name: w.claim.Name, Owner: w.claim.Owner, Expires: lease.Expires}})
		if covers(shown[0], lease.Expires) {
			return nil
		}
		if w.ctx.Err() != nil {
			return &store.UnavailableError{Op: "confirm", Err: contextError(w.ctx)}
		}
		if _, cut := errors.AsType[*bounded.LimitError](err); err != nil && (!cut || errors.Is(why, errBehind)) {
			why = err // a limit says less than an earlier answer
		}
		since = c.clk().Since(sent)
		if pause := min(lookPause(since), limit-since); pause > 0 {
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-w.ctx.Done():
				timer.Stop()
			}
		}
	}
}

// looking keeps what those are told whose wait ends meanwhile: who held the name before does not any more.
func (w *waiter) looking(err error) {
	w.client.mu.Lock()
	defer w.client.mu.Unlock()
	w.queue.last = err
}
