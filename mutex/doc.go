// Package mutex is a distributed mutex: of all processes that share a store, one at a time holds a name.
//
//	guard, err := locks.Lock(ctx, "invoice-batch")
//	if err != nil {
//		return err
//	}
//	defer guard.Unlock()
//	return work(guard.Context())
//
// The lock is a row with an expiry, a lease. A heartbeat renews it while it is held; a crashed holder's row
// expires by itself. The guard's context is the promise: it ends, by a timer of its own, before anybody else can
// hold the name, whatever the database, the network or a driver's call is doing. Work that stops when its context
// ends is therefore alone.
//
// # What is promised
//
// At any instant at most one guard of a name has a live context, as long as (clock rate error over one TTL) + (clock
// skew between the database's nodes) + (lateness of a timer) stays below [Config].Margin.
//
// # What is not
//
//   - A process that is stopped, swapped out or starved cannot notice that its context has ended before it runs again.
//     What it does then, in the moment before it looks, is not excluded. A store that checks the [Guard]'s Token refuses it.
//   - Work that goes on after its context has ended is not stopped by anybody.
//   - A step of the database's clock, by hand or by a failover to a node whose clock is ahead by more than the
//     margin, ends leases early. The holder learns of it at its next renewal.
//   - A failover that loses acknowledged writes loses the rows that tell who holds what. The holder's renewal does not
//     bring them back: it finds the loss, at most 1.1 × Renew later. Until then a second holder is possible; if the old primary goes on serving
//     its clients, for as long as it does and TTL − Margin longer. Not so on a store that confirms what it wrote at all
//     nodes that may become primary (see [Config].ConfirmTimeout), if all who use the table do.
//   - Waiting is fair enough, not fair: local callers are served first in, first out; between processes whoever asks
//     first after a release wins.
//   - Locks are not reentrant, and there are no shared or counted ones.
//
// # Errors
//
// Every error but [ErrClosed], and that of a context which had ended before the call, is of exactly one class, by
// errors.Is: [ErrHeld] somebody else has it; [ErrUnavailable] the store could not be asked; [ErrLost] this grant is over;
// [ErrInvalid] and [ErrMisconfigured] do not pass by waiting. When the caller's context ended the wait, its error is there
// too.
package mutex
