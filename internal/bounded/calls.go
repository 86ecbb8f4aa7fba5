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
	one := call[store.Lease]{
		caller: ctx, lane: &c.acquires, op: "acquire", limit: LimitError{limit}, late: late,
		run: func(_, ctx context.Context) (store.Lease, error) { return c.store.Acquire(ctx, claim) },
	}
	return one.do()
}

// Renew calls the store's Renew as [Calls.Acquire] does its own. There is one result a claim if the error is nil. The
// claims must not be touched again: an abandoned call goes on reading them.
func (c *Calls) Renew(ctx context.Context, limit time.Duration, claims []store.Claim,
	late func([]store.Result, error),
) ([]store.Result, error) {
	return c.batch(ctx, &c.upkeep, "renew", c.store.Renew, limit, claims, late)
}

// Release calls the store's Release as [Calls.Renew] does Renew.
func (c *Calls) Release(ctx context.Context, limit time.Duration, claims []store.Claim,
	late func([]store.Result, error),
) ([]store.Result, error) {
	return c.batch(ctx, &c.upkeep, "release", c.store.Release, limit, claims, late)
}

// CleanUp is Release for rows that no guard is for. There are never more than [Most] at once, for their connections are those
// of renewals.
func (c *Calls) CleanUp(ctx context.Context, limit time.Duration, claims []store.Claim) ([]store.Result, error) {
	return c.batch(ctx, &c.cleanups, "release", c.store.Release, limit, claims, nil)
}

func (c *Calls) batch(ctx context.Context, in *lane, op string,
	ask func(context.Context, []store.Claim) ([]store.Result, error),
	limit time.Duration, claims []store.Claim, late func([]store.Result, error),
) ([]store.Result, error) {
	all := call[[]store.Result]{
		caller: ctx, lane: in, op: op, limit: LimitError{limit}, late: late,
		run: func(caller, ctx context.Context) ([]store.Result, error) {
			results, err := ask(ctx, claims)
			if err != nil {
				return nil, err
			}
			if len(results) != len(claims) {
				return nil, unclear(op, fmt.Errorf("the store gave %d results for %d claims", len(results), len(claims)))
			}
			for i := range results {
				results[i].Err = translate(caller, ctx, op, results[i].Err)
			}
			return results, nil
		},
	}
	return all.do()
}
