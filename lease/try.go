package lease

import (
	"context"
	"errors"
	"fmt"

	"github.com/aaravsoft/leasehold/internal/bounded"
	"github.com/aaravsoft/leasehold/internal/clock"
	"github.com/aaravsoft/leasehold/store"
)

// TryAcquire asks for the lease once. It returns nil if the lease is held now, and a [*store.HeldError] that says by
// whom if it is somebody else's. A lease that is held already is renewed, exactly as [Lease.TryRenew] does it, its
// ErrLost included: what runs under it must stop before there can be a new tenure.
func (l *Lease) TryAcquire(ctx context.Context) error {
	if err := l.begin(ctx, "acquire"); err != nil {
		return err
	}
	defer l.end()
	l.mu.Lock()
	t := l.tenure
	before, row := t.phase, t.row
	l.mu.Unlock()

	if before == held {
		return l.renew(ctx, t)
	}
	if before != wanted {
		if row && !l.exact { // it would be refused in its own name; an exact owner recognises the row
			if err := l.release(ctx, t); err != nil && !errors.Is(err, store.ErrLost) {
				return err
			}
		}
		t = l.newTenure()
		l.mu.Lock()
		l.tenure = t
		l.mu.Unlock()
	}
	return l.acquire(ctx, t)
}

// TryRenew extends the lease by its TTL from now. It returns nil if the lease is held, and has been without a gap since
// it was acquired. [store.ErrLost] is final: stop the work at once, then call [Lease.TryRelease]. Any other error says
// nothing about the lease: try again while there is time [Lease.Remaining].
func (l *Lease) TryRenew(ctx context.Context) error {
	if err := l.begin(ctx, "renew"); err != nil {
		return err
	}
	defer l.end()
	l.mu.Lock()
	t := l.tenure
	isHeld := t.phase == held
	l.mu.Unlock()
	if !isHeld {
		return l.tell(t, l.notHeld())
	}
	return l.renew(ctx, t)
}

// TryRelease deletes the lease's row, whose owner is this tenure: never anybody else's. It also cleans up after an
// acquire whose outcome was unclear. It returns nil if the row was deleted while it was valid, and [store.ErrLost] if it
// was not, or if there was nothing to release. After any other error the row expires by itself, and another TryRelease
// tries again.
//
// A ctx that has ended already does not keep the release from being sent, for that is how things usually stand in a
// deferred call. Then the limit that holds for every call bounds it.
func (l *Lease) TryRelease(ctx context.Context) error {
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	if err := l.begin(ctx, "release"); err != nil {
		return err
	}
	defer l.end()
	l.mu.Lock()
	t := l.tenure
	row, loss := t.row, t.loss
	l.mu.Unlock()
	if row {
		return l.release(ctx, t)
	}
	if loss != nil {
		return l.tell(t, nil)
	}
	return l.notHeld()
}

// begin waits for the turn of a Try method.
func (l *Lease) begin(ctx context.Context, op string) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return &store.UnavailableError{Op: op, Err: fmt.Errorf("before it was its turn: %w", ctx.Err())}
	}
}

func (l *Lease) end() { <-l.turn }

func (l *Lease) acquire(ctx context.Context, t *tenure) error {
	claim := l.claimOf(t)
	sent := l.clock() // before the send: trust counts from here
	lease, err := l.calls.Acquire(ctx, l.limit(), claim, func(_ store.Lease, err error) { l.lateAcquire(ctx, t, err) })

	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		t.row = true
		if left := l.clock().Until(l.deadline(sent)); left <= 0 {
			// Not held, so the next TryAcquire may send the id again, and extends the row.
			return &store.UnavailableError{Op: "acquire", Unclear: true, Err: fmt.Errorf(
				"the grant came %v after the trust in it had ended", -left)}
		}
		t.phase, t.sent = held, sent
		l.token, l.expires = lease.Version, lease.Expires
	case errors.Is(err, bounded.ErrAbandoned):
		t.abandoned++
		t.row = true
	case errors.Is(err, store.ErrHeld):
		t.phase = burnt
		t.row = t.unresolved()
	case didNothing(err):
	default: // misconfigured, too: what is missing may be the right to read what was written
		t.unclear, t.row = true, true
	}
	return err
}

// didNothing: an Acquire that failed like this has not been applied, and will not be.
func didNothing(err error) bool {
	return errors.Is(err, store.ErrHeld) || errors.Is(err, store.ErrInvalid) ||
		errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnclear)
}

// lateAcquire receives the answer of an abandoned Acquire. It never makes the lease held.
func (l *Lease) lateAcquire(ctx context.Context, t *tenure, err error) {
	l.mu.Lock()
	t.abandoned--
	if didNothing(err) {
		l.mu.Unlock()
		return
	}
	if t.phase != burnt {
		// A retry will recognise the row, or a release delete it. If the lease is held, it is the row that it holds.
		t.row = true
		t.unclear = t.unclear || err != nil && t.phase == wanted
		l.mu.Unlock()
		return
	}
	l.mu.Unlock()
	if l.exact {
		return // the row may by now be that of the next tenure, which has the same owner
	}
	_, _ = l.calls.Release(context.WithoutCancel(ctx), l.limit(), []store.Claim{l.claimOf(t)}, nil)
}

func (l *Lease) renew(ctx context.Context, t *tenure) error {
	sent := l.clock() // before the send, and before the check
	l.mu.Lock()
	l.check(t, sent)
	over := t.loss != nil
	l.mu.Unlock()
	if over {
		return l.tell(t, nil)
	}
	results, err := l.calls.Renew(ctx, l.limit(), []store.Claim{l.claimOf(t)}, func(results []store.Result, err error) {
		_ = l.renewed(t, sent, results, err) // a late answer counts, too, but nobody is told
	})
	return l.tell(t, l.renewed(t, sent, results, err))
}

// renewed processes the answer of a Renew, and returns its error.
func (l *Lease) renewed(t *tenure, sent clock.Instant, results []store.Result, err error) error {
	var row store.Lease
	if err == nil {
		row, err = results[0].Lease, results[0].Err
	}
	now := l.clock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.check(t, now) // a success raises the trust only if there is any left
	switch {
	case t.phase != held:
	case errors.Is(err, store.ErrLost):
		t.gone = true
		t.row = t.unresolved()
		if t.loss == nil {
			t.loss = err
		}
	case err == nil && t.loss == nil:
		if sent.Mono > t.sent.Mono { // a late answer must not lower it
			t.sent = sent
		}
		if row.Expires.After(l.expires) {
			l.expires = row.Expires
		}
	}
	return err
}

// release burns the id, and then deletes its row.
func (l *Lease) release(ctx context.Context, t *tenure) error {
	l.mu.Lock()
	l.check(t, l.clock())
	valid := t.phase == held && t.loss == nil
	t.phase = burnt // before it is sent: no later answer may revive the id
	l.mu.Unlock()
	results, err := l.calls.Release(ctx, l.limit(), []store.Claim{l.claimOf(t)}, nil)

	var row store.Lease
	if err == nil {
		row, err = results[0].Lease, results[0].Err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && !errors.Is(err, store.ErrLost) {
		t.maybeReleased = t.maybeReleased || valid && errors.Is(err, store.ErrUnclear)
		return err
	}
	t.row = false // only an abandoned Acquire can write it now, and its late answer will have it released
	if t.maybeReleased && row.Owner != t.owner {
		err = nil // the earlier attempt has deleted it, in time
	}
	if t.loss != nil {
		return t.loss
	}
	t.loss = err
	if err == nil {
		t.loss = fmt.Errorf("%w: %q: it was released", store.ErrLost, l.claim.Name)
	}
	return err
}
