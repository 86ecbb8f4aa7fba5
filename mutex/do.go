package mutex

import (
	"context"
	"errors"
	"fmt"

	"github.com/aaravsoft/leasehold/store"
)

// Do runs fn under the lock and releases it afterwards, also when fn panics or calls runtime.Goexit. fn must stop when its
// context ends.
//
// Do returns nil if fn did, and the lock was intact until then, even if the release could not be confirmed: the
// work is done, the row expires. If the lock was lost the error is a [*LostError], joined with fn's error unless
// that is only its own context's Canceled. Otherwise it is fn's error, joined with that of a failed release. What
// Lock returns, Do returns.
func (c *Client) Do(ctx context.Context, name string, fn func(context.Context) error, opts ...Option) error {
	if fn == nil {
		return fmt.Errorf("mutex: do %q: %w: the function is nil", name, store.ErrInvalid)
	}
	g, err := c.Lock(ctx, name, opts...)
	if err != nil {
		return err
	}
	returned := false
	defer func() {
		if !returned { // a panic or Goexit goes on unwinding, with its own stack
			_ = g.Unlock()
		}
	}()
	err = fn(g.Context())
	returned = true
	return settle(g, err)
}

// settle unlocks and joins what the work and the lock have to say.
func settle(g *Guard, work error) error {
	lost := g.Err() // before Unlock: did the work end under the lock?
	unlock := g.Unlock()
	if !errors.Is(lost, store.ErrLost) {
		lost = unlock
	}
	own, _ := errors.AsType[*LostError](lost)
	switch {
	case errors.Is(lost, store.ErrLost) && (work == nil || onlyCanceled(work, own)):
		return lost
	case errors.Is(lost, store.ErrLost):
		return errors.Join(lost, work)
	case work == nil:
		return nil // the row is deleted, or expires
	case unlock == nil:
		return work
	}
	return errors.Join(work, unlock)
}

// onlyCanceled reports whether an error says nothing but that a context was cancelled, or this guard's own loss, with which
// its context was.
func onlyCanceled(err error, own *LostError) bool {
	for err != nil {
		lost, _ := err.(*LostError)                                //nolint:errorlint // this link of the chain, not what it wraps
		if err == context.Canceled || lost != nil && lost == own { //nolint:errorlint // likewise
			return true
		}
		err = errors.Unwrap(err) // a joined error says more
	}
	return false
}
