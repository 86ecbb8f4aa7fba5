package mutex

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aaravsoft/leasehold/guard"
	"github.com/aaravsoft/leasehold/internal/clock"
	"github.com/aaravsoft/leasehold/store"
)

// ownerID serialises the events in the life of one owner id.
type ownerID struct {
	mu   sync.Mutex
	life life
}

func (id *ownerID) on(e event) actions {
	id.mu.Lock()
	defer id.mu.Unlock()
	var do actions
	id.life, do = id.life.on(e)
	return do
}

func (id *ownerID) unresolved() bool {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.life.unresolved()
}

// hold is a grant of this client: it joins the guard, the heartbeat and the queue, which do not know each other. It
// never references the guard's handle, so that a guard that nobody holds any more can be noticed.
type hold struct {
	client *Client
	queue  *queue
	claim  store.Claim
	timing timing
	id     *ownerID
	lease  store.Lease // as granted
	since  time.Time
	ctl    *guard.Control

	unconfirmed unconfirmed // guarded by confirmation.mu

	risk   atomic.Bool // a renewal has failed since the last success
	leaked atomic.Bool
}

// hold makes the guard of a grant.
func (c *Client) hold(w *waiter, sent clock.Instant, lease store.Lease) (*Guard, error) {
	h := &hold{
		client: c, queue: w.queue, claim: w.claim, timing: w.timing, id: w.id, lease: lease, since: time.Now(),
	}
	parent := w.opts.parent
	if parent == nil {
		parent = w.caller
	}
	g, ctl := guard.New(guard.Params{
		Name: h.claim.Name, Owner: h.claim.Owner, Token: lease.Version,
		Parent: parent, Clock: c.clk, Sent: sent,
		Trust: h.timing.trust(), Drain: h.timing.drain, MaxHold: w.opts.maxHold,
		Keeper: (*keeper)(h),
	})
	h.ctl = ctl

	c.mu.Lock()
	closed := c.closed
	h.queue.last = nil
	h.queue.poll = poll{}
	h.queue.holder = h
	h.queue.leave(w)
	c.holds[h] = struct{}{}
	c.watch(h.timing)
	c.mu.Unlock()

	ctl.Start()
	c.beat.Add(h, h.timing.renew, sent)
	if ctl.Stopped() { // meanwhile: its Stop may have come before Add
		h.stopRenewing()
	}
	ev := h.event()
	ev.Waited = h.since.Sub(w.started)
	c.events.emit(evAcquired, ev)
	if closed {
		_ = g.Unlock()
		return nil, ErrClosed
	}
	return g, nil
}

// keeper is a hold as its guard sees it.
type keeper hold

func (k *keeper) Stop()                                             { (*hold)(k).stopRenewing() }
func (k *keeper) Release(limit time.Duration) (store.Result, error) { return (*hold)(k).release(limit) }
func (k *keeper) ReleaseBound(left time.Duration) time.Duration     { return k.client.releaseBound(left) }
func (k *keeper) Go(f func())                                       { k.client.tasks.start(f) }
func (k *keeper) Lost(err *guard.LostError)                         { (*hold)(k).lost(err) }
func (k *keeper) Released(err error)                                { (*hold)(k).released(err) }

func (h *hold) stopRenewing() {
	h.client.beat.Remove(h)
	h.client.confirm.forget(h)
}

// Claim, Deadline, Renewed, Failed, Lost and Leaked make a hold a target of the heartbeat.

func (h *hold) Claim() store.Claim { return h.claim }

func (h *hold) Deadline() clock.Instant { return h.ctl.Deadline() }

func (h *hold) Renewed(sent clock.Instant, lease store.Lease) {
	if c := h.client.confirm; c != nil {
		c.renewed(h, proof{sent, lease.Expires}) // trust waits for the replicas (rule 9)
		return
	}
	h.trust(sent)
}

// trust counts from the send of a renewal that is known to have succeeded, wherever it has to be known.
func (h *hold) trust(sent clock.Instant) {
	h.ctl.Raise(sent)
	h.client.renewedAt.Store(time.Now().UnixNano())
	h.risk.Store(false)
	h.client.events.emit(evRenewed, h.event())
}

func (h *hold) Failed(err error) {
	h.ctl.Failed(err)
	if h.risk.Swap(true) {
		return
	}
	ev := h.event()
	ev.Err = err
	h.client.events.emit(evAtRisk, ev)
}

func (h *hold) Lost(row store.Lease, err error) {
	reason := guard.Gone
	if row.Owner != "" && row.Owner != h.claim.Owner {
		reason = guard.Taken
	}
	h.ctl.Lose(reason, err)
}

// Leaked reports whether the guard was dropped without Unlock. The row is left to expire: nobody knows whether work
// that it should protect still runs.
func (h *hold) Leaked() bool {
	if !h.ctl.Leaked() {
		return false
	}
	if !h.leaked.Swap(true) {
		ev := h.event()
		ev.Err = fmt.Errorf("taken %s", place(h.ctl.Where()))
		h.client.events.emit(evLeaked, ev)
		h.ctl.StopRenewing()
		h.client.drop(h)
	}
	return true
}

// place is the first frame outside this module's own packages.
func place(pcs []uintptr) string {
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		own := strings.HasPrefix(f.Function, "github.com/aaravsoft/leasehold/mutex.") ||
			strings.HasPrefix(f.Function, "github.com/aaravsoft/leasehold/guard.")
		if f.Function != "" && !own || !more {
			return fmt.Sprintf("in %s (%s:%d)", f.Function, f.File, f.Line)
		}
	}
}

// release is one attempt to delete the row, for the guard.
func (h *hold) release(limit time.Duration) (store.Result, error) {
	h.id.on(burn) // before the Release is sent (rule 6)
	limit = min(limit, h.timing.attempt())
	results, err := h.client.calls.Release(context.Background(), limit, []store.Claim{h.claim}, nil)
	if err != nil {
		return store.Result{}, err
	}
	return results[0], nil
}

// lost is called once by the guard, after its context has ended.
func (h *hold) lost(err *guard.LostError) {
	h.id.on(lose)
	c := h.client
	c.mu.Lock()
	if c.closed {
		c.failed = append(c.failed, err)
	}
	c.dropLocked(h)
	c.mu.Unlock()
	ev := h.event()
	ev.Left, ev.Reason, ev.Err = 0, err.Reason, err
	c.events.emit(evLost, ev)
}

// released is called once by the guard, when Unlock's Release has come to its end.
func (h *hold) released(err error) {
	if errors.Is(err, store.ErrLost) {
		err = nil // the lost event has told it
	}
	c := h.client
	c.mu.Lock()
	if err != nil || h.id.unresolved() {
		c.orphans.add(h.claim, time.Now())
	}
	if err != nil && c.closed {
		c.failed = append(c.failed, fmt.Errorf("%q: the release is not confirmed: %w", h.claim.Name, err))
	}
	if h.queue.holder == h { // not so after a loss: its waiters aim at the expiry, and never pause for fairness
		h.queue.handedOver(time.Now())
	}
	c.dropLocked(h)
	c.mu.Unlock()
	ev := h.event()
	ev.Left, ev.Err = 0, err
	c.events.emit(evReleased, ev)
}

func (h *hold) event() Event {
	return Event{
		Name: h.claim.Name, Owner: h.claim.Owner, Token: h.lease.Version,
		Held: time.Since(h.since), Left: h.left(h.client.clk()),
	}
}

func (h *hold) left(now clock.Instant) time.Duration {
	return max(now.Until(h.ctl.Deadline()), 0)
}

// seen is the lease as another caller of this process is told of it, without asking the store.
func (h *hold) seen(now clock.Instant) store.Lease {
	l := h.lease
	l.Version = 0
	l.Left = h.left(now) + h.timing.margin
	l.Expires = l.Expires.Add(time.Since(h.since) + l.Left - h.timing.ttl) // on the store's clock, as it was at the grant
	return l
}
