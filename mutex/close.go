package mutex

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Close ends the contexts of all guards and the waits of all callers with [ErrClosed], and returns when all guards
// are unlocked or lost, or ctx ends. Until then the locks are renewed, at most for Drain, so that work stops under
// protection; nothing is deleted under running work. Afterwards an Unlock still works, within 100 ms.
//
// The error names every lock that was still held when ctx ended or whose trust ended before its Unlock (its row expires by
// itself), and every release that could not be confirmed. Close may be called again. It does not close the store.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closed = true
	holds := make([]*hold, 0, len(c.holds))
	for h := range c.holds {
		holds = append(holds, h)
	}
	for _, q := range c.names {
		q.cancel(errClosing)
	}
	c.mu.Unlock()

	for _, h := range holds {
		h.ctl.Close()
	}
	err := c.idle(ctx)
	if err == nil {
		err = c.tasks.wait(ctx) // clean-ups, with all the time that they may take
	}
	c.hurryOnce.Do(func() { close(c.hurry) })
	left := c.leftBehind()
	c.confirm.close()
	if e := c.beat.Close(ctx); err == nil {
		err = e
	}
	if err != nil && len(left) == 0 {
		left = append(left, errors.New("the store has not answered yet"))
	}
	if err != nil {
		left = append(left, err)
	}
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("mutex: close: %w", errors.Join(left...))
}

// idle waits until nothing is held and nobody waits.
func (c *Client) idle(ctx context.Context) error {
	for {
		c.mu.Lock()
		busy := len(c.holds) > 0
		for _, q := range c.names {
			busy = busy || !q.empty()
		}
		if !busy {
			c.mu.Unlock()
			return nil
		}
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return contextError(ctx)
		}
	}
}

// leftBehind stops the renewals of what is still held, and says what it is and which releases failed.
func (c *Client) leftBehind() []error {
	c.mu.Lock()
	var held []*hold
	for h := range c.holds {
		held = append(held, h)
	}
	errs := slices.Clone(c.failed)
	c.mu.Unlock()
	slices.SortFunc(held, func(a, b *hold) int { return strings.Compare(a.claim.Name, b.claim.Name) })
	for _, h := range held {
		h.ctl.StopRenewing()
		errs = append(errs, fmt.Errorf("%q is still held; its row expires within %v", h.claim.Name, h.timing.ttl))
	}
	return errs
}
