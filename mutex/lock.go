package mutex

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aaravsoft/leasehold/guard"
	"github.com/aaravsoft/leasehold/internal/bounded"
	"github.com/aaravsoft/leasehold/internal/clock"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/breaker"
)

// Lock waits until it holds the name, and returns the guard. Call Unlock when the work is done; pass the guard's
// Context to the work, which must stop when it ends.
//
// ctx bounds the wait and scopes the hold: when it ends, the guard's context ends too, while the lock itself goes on
// being renewed for Drain or until Unlock. See [WithWait] and [WithParent] for other wishes.
//
// A name is 1 to 200 UTF-16 units of valid UTF-8, without control characters and without white space at its ends.
//
// Lock waits while somebody else holds the name, and through outages of the store. Its error is of class [ErrInvalid] or
// [ErrMisconfigured] at once; [ErrHeld] or [ErrUnavailable] when the wait was over, joined with the context's error if
// that ended it; [ErrNested]; or [ErrClosed]. A failed Lock leaves no row behind.
func (c *Client) Lock(ctx context.Context, name string, opts ...Option) (*Guard, error) {
	return c.lock(ctx, name, opts)
}

// TryLock is Lock with one attempt. It does not overtake waiters of this process, and if this process holds the name
// it is refused without asking the store.
func (c *Client) TryLock(ctx context.Context, name string, opts ...Option) (*Guard, error) {
	return c.lock(ctx, name, append(slices.Clip(opts), WithWait(0)))
}

func (c *Client) lock(ctx context.Context, name string, opts []Option) (*Guard, error) {
	g, err := c.acquire(ctx, name, opts)
	switch {
	case err == nil:
		return g, nil
	case store.ValidateName(name) != nil: // then err shows as much of it as makes sense
		return nil, fmt.Errorf("mutex: lock: %w", err)
	}
	return nil, fmt.Errorf("mutex: lock %q: %w", name, err)
}

func (c *Client) acquire(ctx context.Context, name string, opts []Option) (*Guard, error) {
	w := &waiter{client: c, caller: ctx, wake: make(chan struct{}, 1), id: &ownerID{}, started: time.Now()}
	o := &w.opts
	var err error
	w.timing, err = o.resolve(c.cfg, opts)
	w.claim = store.Claim{
		Name: name, Owner: store.NewOwner(c.cfg.Instance), TTL: w.timing.ttl, Metadata: o.metadata,
	}
	if ctx == nil {
		err = errors.Join(err, fmt.Errorf("%w context: it is nil", store.ErrInvalid))
	}
	if err == nil { // with a bad TTL the claim's own complaint would say it twice
		err = w.claim.Validate()
	}
	if err != nil {
		return nil, err
	}
	for _, scope := range []context.Context{ctx, o.parent} {
		if scope != nil && scope.Err() != nil {
			return nil, contextError(scope)
		}
	}
	w.carried = carried(ctx, o.parent)
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	defer w.cancel(nil)
	if err := c.enter(w); err != nil {
		return nil, err
	}
	if o.wait > 0 {
		defer time.AfterFunc(o.wait, func() { w.cancel(errWaitOver) }).Stop()
	}
	if o.parent != nil { // its end would end the guard: there is nothing to wait for any more
		defer context.AfterFunc(o.parent, func() { w.cancel(contextError(o.parent)) })()
	}
	g, err := w.compete()
	if err != nil {
		w.giveUp()
	}
	return g, err
}

// enter puts the waiter in line.
func (c *Client) enter(w *waiter) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	q := c.queue(w.claim.Name)
	if q.holder != nil && w.carries(q.holder.claim.Owner) || w.carriesRefuser(q.last) {
		return ErrNested
	}
	if w.opts.wait == 0 && (q.holder != nil || q.head != nil) {
		return c.standing(q)
	}
	w.queue = q
	q.join(w)
	return nil
}

// carried are the guards that a caller's contexts carry. It runs code of theirs, and so without any mutex.
func carried(contexts ...context.Context) (list []*guard.Guard) {
	for _, ctx := range contexts {
		if ctx != nil {
			list = slices.AppendSeq(list, guard.Carried(ctx))
		}
	}
	return list
}

// carries reports whether the caller's context carries the guard with this owner: whoever waits for it waits for
// itself.
func (w *waiter) carries(owner string) bool {
	return slices.ContainsFunc(w.carried, func(g *guard.Guard) bool { return g.Owner() == owner })
}

// carriesRefuser reports whether what the store said last in this queue is that the caller itself holds the name, by another
// client. It may have been said a while ago, so the guard must still be held.
func (w *waiter) carriesRefuser(last error) bool {
	held, ok := errors.AsType[*store.HeldError](last)
	return ok && slices.ContainsFunc(w.carried, func(g *guard.Guard) bool { return g.Owner() == held.Lease.Owner && g.Remaining() > 0 })
}

// standing is why a waiter in this queue has not got the lock yet. Called with Client.mu held.
func (c *Client) standing(q *queue) error {
	if q.holder != nil {
		return &store.HeldError{Lease: q.holder.seen(c.clk())}
	}
	if q.last != nil {
		return q.last
	}
	return &store.UnavailableError{Op: "acquire", Err: errNoAnswer}
}

var errNoAnswer = errors.New("no answer yet")

// compete waits for its turn, then asks the store until it has the lock or has to give up.
func (w *waiter) compete() (*Guard, error) {
	select {
	case <-w.wake:
	default:
		w.tell()
		select {
		case <-w.wake:
		case <-w.ctx.Done():
			return nil, w.gaveUp(nil)
		}
	}
	for {
		if !w.pause() {
			return nil, w.gaveUp(nil)
		}
		g, err := w.attempt()
		if err == nil {
			return g, nil
		}
		if w.ctx.Err() != nil {
			return nil, w.gaveUp(err)
		}
		if errors.Is(err, errCleaned) {
			continue
		}
		if w.opts.wait == 0 || !worthWaiting(err) {
			return nil, err
		}
		w.tell()
	}
}

func worthWaiting(err error) bool {
	return errors.Is(err, store.ErrHeld) || errors.Is(err, store.ErrUnavailable)
}

// pause waits until it is time for the next attempt, and reports whether there is to be one.
func (w *waiter) pause() bool {
	c, q := w.client, w.queue
	for w.ctx.Err() == nil {
		c.mu.Lock()
		cleanup, wait := q.cleanup, time.Until(q.poll.next)
		c.mu.Unlock()
		if cleanup != nil {
			// What an earlier waiter may have written is deleted first: it would refuse us.
			select {
			case <-cleanup:
			case <-w.ctx.Done():
			}
			continue
		}
		if wait <= 0 || w.opts.wait == 0 {
			return w.opts.wait == 0 || w.takeTurn()
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-w.wake:
			timer.Stop()
			return w.takeTurn()
		case <-w.ctx.Done():
			timer.Stop()
		}
	}
	return false
}

// takeTurn waits while the circuit breaker is open: it wakes one waiter when the store is to be tried again, and all when it
// has answered.
func (w *waiter) takeTurn() bool {
	if b := w.client.breaker; b != nil {
		return b.Turn(w.ctx) == nil
	}
	return w.ctx.Err() == nil
}

// attempt asks the store once.
func (w *waiter) attempt() (*Guard, error) {
	c, id, claim := w.client, w.id, w.claim
	sentAt, sentClock := time.Now(), c.clk() // before the send: trust counts from here (rule 3)
	id.on(sent)
	lease, err := c.calls.Acquire(w.ctx, w.timing.attempt(), claim, func(_ store.Lease, err error) {
		w.late(id, claim, err)
	})
	if id.on(outcome(err)).guard {
		return w.granted(sentClock, lease)
	}
	return nil, w.refused(sentAt, err)
}

// outcome is what an Acquire's answer means for the life of its owner id.
func outcome(err error) event {
	switch {
	case err == nil:
		return granted
	case errors.Is(err, bounded.ErrAbandoned):
		return abandoned
	case errors.Is(err, store.ErrHeld), errors.Is(err, store.ErrInvalid),
		errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrUnclear):
		return refused
	}
	return unclear // misconfigured too: what is missing may be the right to read what was just written
}

// late receives the answer of an abandoned Acquire.
func (w *waiter) late(id *ownerID, claim store.Claim, err error) {
	e := map[event]event{granted: lateGranted, refused: lateRefused, unclear: lateUnclear}[outcome(err)]
	if id.on(e).release {
		w.client.mu.Lock()
		w.client.disown(id, claim, w.timing)
		w.client.mu.Unlock()
		return
	}
	if e == lateGranted {
		select {
		case w.wake <- struct{}{}: // the next attempt will recognise its own row
		default:
		}
	}
}

// granted makes a guard of a grant, or gives it back.
func (w *waiter) granted(sent clock.Instant, lease store.Lease) (*Guard, error) {
	if err := w.confirmed(sent, lease); err != nil {
		if w.ctx.Err() == nil { // else giving up releases the row
			w.renounce()
			w.failed(0)
		}
		return nil, w.keep(err)
	}
	left := w.client.clk().Until(sent.Add(w.timing.trust()))
	if left < w.timing.renew {
		w.renounce()
		w.failed(0)
		return nil, w.keep(&store.UnavailableError{Op: "acquire", Err: fmt.Errorf(
			"the grant came so late that only %v of trust was left, less than the renewal interval %v", max(left, 0), w.timing.renew)})
	}
	if w.ctx.Err() != nil || w.opts.parent != nil && w.opts.parent.Err() != nil {
		// The caller has left. Giving up releases the row.
		if w.ctx.Err() == nil {
			w.cancel(contextError(w.opts.parent))
		}
		return nil, &store.UnavailableError{Op: "acquire", Err: contextError(w.ctx)}
	}
	return w.client.hold(w, sent, lease)
}

// refused plans the next attempt after an answer that is no grant, and returns what to tell the caller.
func (w *waiter) refused(sentAt time.Time, err error) error {
	held, isHeld := errors.AsType[*store.HeldError](err)
	if !isHeld {
		if errors.Is(err, breaker.ErrOpen) {
			return w.keep(err) // no attempt was made, so none is planned: the breaker says when
		}
		var retryAfter time.Duration
		if unavailable, ok := errors.AsType[*store.UnavailableError](err); ok {
			retryAfter = unavailable.RetryAfter
		}
		w.failed(retryAfter)
		return w.keep(w.explain(err))
	}
	if w.carries(held.Lease.Owner) {
		return ErrNested
	}
	c, q, now := w.client, w.queue, time.Now()
	c.mu.Lock()
	q.poll.refused(sentAt, now, held.Lease)
	q.handovers = time.Time{}
	for e := q.waiters.Front(); e != nil; e = e.Next() {
		if other, ok := e.Value.(*waiter); ok && other.carries(held.Lease.Owner) {
			other.cancel(ErrNested) // it would wait for itself
		}
	}
	orphan := c.orphans.find(held.Lease.Owner, now)
	c.mu.Unlock()
	if orphan != nil && w.ctx.Err() == nil {
		// The row is one that this client gave up and could not delete, or that was written after the clean-up.
		results, err := c.calls.CleanUp(w.ctx, w.timing.attempt(), []store.Claim{*orphan})
		if err == nil && (results[0].Err == nil || errors.Is(results[0].Err, store.ErrLost)) {
			c.mu.Lock()
			q.poll = poll{}
			c.mu.Unlock()
			return errCleaned
		}
	}
	return w.keep(held)
}

// errCleaned asks for another attempt: what was in the way was our own, and is gone.
var errCleaned = errors.New("an orphan was cleaned up")

// explain adds what to do about an attempt that ended at its own limit.
func (w *waiter) explain(err error) error {
	if _, ok := errors.AsType[*bounded.LimitError](err); !ok {
		return err
	}
	t := w.timing
	return fmt.Errorf("%w: an attempt may take (TTL %v − margin %v)/3; for a store this slow the TTL must be more than %v",
		err, t.ttl, t.margin, 6*t.attempt()+t.margin)
}

// failed plans the next attempt after one without an answer.
func (w *waiter) failed(retryAfter time.Duration) {
	w.client.mu.Lock()
	defer w.client.mu.Unlock()
	w.queue.poll.failed(time.Now(), retryAfter)
	w.queue.handovers = time.Time{}
}

// keep remembers what the store said, for those whose wait ends before they are told something themselves. An attempt
// that was cut short by the end of the wait says nothing.
func (w *waiter) keep(err error) error {
	if w.ctx.Err() == nil && worthWaiting(err) { // what is wrong with the configuration is asked anew each time
		w.client.mu.Lock()
		w.queue.last = err
		w.client.mu.Unlock()
	}
	w.client.events.emit(evRefused, Event{Name: w.claim.Name, Owner: w.claim.Owner, Waited: time.Since(w.started), Err: err})
	return err
}

// tell emits the waiting event, once.
func (w *waiter) tell() {
	if w.told {
		return
	}
	w.told = true
	w.client.mu.Lock()
	err := w.client.standing(w.queue)
	w.client.mu.Unlock()
	w.client.events.emit(evWaiting, Event{Name: w.claim.Name, Owner: w.claim.Owner, Waited: time.Since(w.started), Err: err})
}
