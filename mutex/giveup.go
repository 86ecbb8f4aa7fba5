package mutex

import (
	"context"
	"errors"
	"fmt"

	"github.com/aaravsoft/leasehold/store"
)

// gaveUp is the answer to a caller whose wait has ended; cut is the error of an attempt that ended with it, if any.
func (w *waiter) gaveUp(cut error) error {
	c := w.client
	c.mu.Lock()
	last := c.standing(w.queue)
	if cut != nil && w.queue.holder == nil && w.queue.last == nil {
		last = cut
	}
	c.mu.Unlock()
	cause := context.Cause(w.ctx)
	if cause == ErrNested { //nolint:errorlint // by identity: a waiter's own context has ended with it
		return ErrNested
	}
	if cause == errClosing { //nolint:errorlint // by identity, see there
		return ErrClosed
	}
	if cause == errWaitOver { //nolint:errorlint // likewise
		if errors.Is(last, context.Canceled) {
			// The attempt was cut short by us: no context of the caller's has ended.
			last = &store.UnavailableError{Op: "acquire", Unclear: errors.Is(last, store.ErrUnclear), Err: errNoAnswer}
		}
		return last
	}
	return fmt.Errorf("%w: %w", contextError(w.ctx), last)
}

// giveUp leaves the line, and cleans up what the attempts may have left behind.
func (w *waiter) giveUp() {
	c := w.client
	c.mu.Lock()
	defer c.mu.Unlock()
	w.burn() // before the next in line gets the turn, so that it waits for the clean-up
	w.queue.leave(w)
	c.forget(w.queue)
}

// renounce burns the present owner id and goes on with a new one.
func (w *waiter) renounce() {
	w.client.mu.Lock()
	w.burn()
	w.client.mu.Unlock()
	w.id = &ownerID{}
	w.claim.Owner = store.NewOwner(w.client.cfg.Instance)
}

// burn gives the present owner id up. Called with Client.mu held.
func (w *waiter) burn() {
	if w.id.on(burn).release {
		w.client.disown(w.id, w.claim, w.timing)
	}
}
