package mutex

import (
	"container/list"
	"context"
	"math/rand/v2"
	"time"

	"github.com/aaravsoft/leasehold/guard"
	"github.com/aaravsoft/leasehold/store"
)

// queue is what a client knows of one name while it holds it or waits for it: local waiters stand in line, and only
// the head asks the store. All fields are guarded by Client.mu.
type queue struct {
	name    string
	holder  *hold     // this client's own live or draining guard
	head    *waiter   // whose turn it is; nil while holder is set or nobody waits
	waiters list.List // of *waiter, in order of arrival, behind the head

	poll    poll            // when the head asks next; it outlives the head, so that leaving costs the store nothing
	last    error           // what the last attempt was told, if it was told something
	cleanup <-chan struct{} // closed when what an earlier head left behind is cleaned up; nil if there is nothing

	handovers time.Time // when the present run of local hand-overs began; zero: there is none
}

// waiter is one call of Lock that has not got its answer.
type waiter struct {
	client *Client
	queue  *queue
	place  *list.Element // behind the head; nil: it is the head, or was
	wake   chan struct{} // of one element: first, that the waiter is head; later, to ask at once: the row seems to be ours already

	caller context.Context // as given to Lock
	ctx    context.Context // bounds the wait; its cause may be errWaitOver, errClosing or ErrNested
	cancel context.CancelCauseFunc

	opts    options
	timing  timing
	claim   store.Claim
	id      *ownerID
	started time.Time
	told    bool           // the waiting event was emitted
	carried []*guard.Guard // by the caller's contexts
}

// join puts a waiter in line. Called with Client.mu held.
func (q *queue) join(w *waiter) {
	if q.head == nil && q.holder == nil {
		q.lead(w)
		return
	}
	w.place = q.waiters.PushBack(w)
}

// lead gives a waiter the turn. Called with Client.mu held.
func (q *queue) lead(w *waiter) {
	q.head, w.place = w, nil
	w.wake <- struct{}{} // at once: nobody wakes a waiter before
}

// empty reports whether nobody waits. Called with Client.mu held.
func (q *queue) empty() bool { return q.head == nil && q.waiters.Len() == 0 }

// cancel ends all waits. Called with Client.mu held.
func (q *queue) cancel(cause error) {
	if q.head != nil {
		q.head.cancel(cause)
	}
	for e := q.waiters.Front(); e != nil; e = e.Next() {
		e.Value.(*waiter).cancel(cause)
	}
}

// promote gives the turn to the first in line, if nobody has it. Called with Client.mu held.
func (q *queue) promote() {
	if q.head != nil || q.holder != nil {
		return
	}
	if first := q.waiters.Front(); first != nil {
		q.lead(q.waiters.Remove(first).(*waiter))
	}
}

// leave takes a waiter out of line, wherever it stands, if it stands there still. Called with Client.mu held.
func (q *queue) leave(w *waiter) {
	if q.head == w {
		q.head = nil
	} else if w.place != nil {
		q.waiters.Remove(w.place)
	}
	if q.empty() {
		q.last, q.poll = nil, poll{} // nobody's schedule; the queue may stay for a clean-up
	}
	q.promote()
}

const (
	minBackoff = 25 * time.Millisecond
	maxBackoff = time.Second
	aimJitter  = 20 * time.Millisecond // behind a holder's expiry; within the 50 ms that Config promises

	fairRun      = time.Second // this much unbroken local hand-over …
	fairShare    = 20          // … is followed by a pause of one part in 20 of it
	minFairPause = 50 * time.Millisecond
	maxFairPause = time.Second
)

// poll decides when the head asks the store next.
type poll struct {
	next    time.Time
	backoff time.Duration // the last wait was drawn from [backoff/2, backoff]; zero: start at the minimum
	owner   string        // who refused last
}

// refused plans the next attempt after a refusal that was asked for at sent and answered at now.
func (p *poll) refused(sent, now time.Time, by store.Lease) {
	if by.Owner != p.owner {
		p.owner, p.backoff = by.Owner, 0 // the lock moves: a new holder, a new wait
	}
	wait := p.wait()
	// The time left was measured after sent, so the row is expired at sent+Left or up to a round trip later, in which
	// case the next refusal says so with a very short Left.
	expiry := sent.Add(by.Left + rand.N(aimJitter)).Sub(now)
	p.next = now.Add(min(wait, max(expiry, time.Millisecond)))
}

// failed plans the next attempt after one that could not be answered.
func (p *poll) failed(now time.Time, retryAfter time.Duration) {
	p.owner = ""
	p.next = now.Add(max(p.wait(), retryAfter))
}

// wait grows the back-off and draws from its upper half, so that clients that started together drift apart.
func (p *poll) wait() time.Duration {
	p.backoff = min(max(2*p.backoff, minBackoff), maxBackoff)
	return p.backoff/2 + rand.N(p.backoff/2)
}

// handedOver plans the next local attempt after an Unlock: at once, unless this process has been passing the lock around
// for so long that others deserve a chance. Called with Client.mu held.
func (q *queue) handedOver(now time.Time) {
	if q.waiters.Len() == 0 {
		q.handovers = time.Time{}
		return
	}
	q.poll = poll{next: now}
	if q.handovers.IsZero() {
		q.handovers = now
		return
	}
	if run := now.Sub(q.handovers); run >= fairRun {
		q.poll.next = now.Add(min(max(run/fairShare, minFairPause), maxFairPause))
		q.handovers = time.Time{}
	}
}
