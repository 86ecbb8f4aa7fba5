// Package bounded calls a store that may not return.
//
// A driver can ignore its context for seconds, or for ever. Every call here returns on time nevertheless: at its limit
// at the latest, and shortly after its caller's context has ended. If the store has not answered by then the call is
// abandoned. It goes on in its goroutine, and its answer, should there ever be one, is handed to a function that the
// caller gave. At most [Most] abandoned calls are tolerated of each kind; then no new one starts.
//
// All answers come back as one class of error each, whatever the store did: also if it panicked, returned the wrong
// number of results, or an error without a class.
//
// An error satisfies errors.Is for [context.Canceled] or [context.DeadlineExceeded] only if the caller's own context
// ended. What the limits here ended has a [*LimitError] instead: it is a failure of the store, and the caller's leaving
// is not.
package bounded

import (
	"context"
	"fmt"
	"time"

	"github.com/aaravsoft/leasehold/store"
)

// Most is the number of abandoned calls of one kind at which no new ones start.
const Most = 16

// Calls bounds the calls of one client to its store. Acquires are one kind, renewals and releases together another, and the
// releases that clean up after acquires a third, so that acquires that hang, and what comes of them, can never keep a lock
// from being renewed.
type Calls struct {
	store    store.Store
	acquires lane
	upkeep   lane
	cleanups lane
}

// New returns the bounded calls of one client.
func New(st store.Store) *Calls { return &Calls{store: st, cleanups: lane{strict: true}} }

// Acquire calls the store's Acquire, for at most limit. Either it returns the store's answer, or it returns an error
// that is [ErrAbandoned] and the answer goes to late, once, on the call's own goroutine, which may happen before
// Acquire has returned. late may be nil.
func (c *Calls) Acquire(ctx context.Context, limit time.Duration, claim store.Claim,
	late func(store.Lease, error),
) (store.Lease, error) {
	one := call[acquisition, store.Lease]{
		question: acquisition{c.store, claim},
		caller:   ctx, lane: &c.acquires, op: "acquire", limit: LimitError{limit}, late: late,
	}
	return one.do()
}

type acquisition struct {
	store store.Store
	claim store.Claim
}

func (q acquisition) ask(_, ctx context.Context) (store.Lease, error) {
	return q.store.Acquire(ctx, q.claim)
}

// Renew calls the store's Renew as [Calls.Acquire] does its own. There is one result a claim if the error is nil. The
// claims must not be touched again: an abandoned call goes on reading them.
func (c *Calls) Renew(ctx context.Context, limit time.Duration, claims []store.Claim,
	late func([]store.Result, error),
) ([]store.Result, error) {
	return c.batch(ctx, &c.upkeep, "renew", store.Store.Renew, limit, claims, late)
}

// Release calls the store's Release as [Calls.Renew] does Renew.
func (c *Calls) Release(ctx context.Context, limit time.Duration, claims []store.Claim,
	late func([]store.Result, error),
) ([]store.Result, error) {
	return c.batch(ctx, &c.upkeep, "release", store.Store.Release, limit, claims, late)
}

// CleanUp is Release for rows that no guard is for. There are never more than [Most] at once, for their connections are those
// of renewals.
func (c *Calls) CleanUp(ctx context.Context, limit time.Duration, claims []store.Claim) ([]store.Result, error) {
	return c.batch(ctx, &c.cleanups, "release", store.Store.Release, limit, claims, nil)
}

func (c *Calls) batch(ctx context.Context, in *lane, op string, send send,
	limit time.Duration, claims []store.Claim, late func([]store.Result, error),
) ([]store.Result, error) {
	all := call[batch, []store.Result]{
		question: batch{c.store, op, send, claims},
		caller:   ctx, lane: in, op: op, limit: LimitError{limit}, late: late,
	}
	return all.do()
}

// send is a method of a store.
type send func(store.Store, context.Context, []store.Claim) ([]store.Result, error)

type batch struct {
	store  store.Store
	op     string
	send   send
	claims []store.Claim
}

func (q batch) ask(caller, ctx context.Context) ([]store.Result, error) {
	results, err := q.send(q.store, ctx, q.claims)
	if err != nil {
		return nil, err
	}
	if len(results) != len(q.claims) {
		return nil, unclear(q.op, fmt.Errorf("the store gave %d results for %d claims", len(results), len(q.claims)))
	}
	for i := range results {
		results[i].Err = translate(caller, ctx, q.op, results[i].Err)
	}
	return results, nil
}
