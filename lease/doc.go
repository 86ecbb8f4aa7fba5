// Package lease is the caller-driven form of a lock: nothing happens unless you call it. There are no timers, no
// renewals behind your back and no goroutines that outlive a call, unless the driver hangs; each method makes one call to
// the store and says what it said. It is for code that brings its own loop, and for code that comes from the .NET package
// Aaravsoft.Distributed.Lease, whose table it shares. Everybody else is better served by package mutex, whose guard renews
// itself and ends a context in time.
//
// # Return values
//
// A method returns nil where the .NET package returns true, and an error of exactly one class (package store) where it
// returns false or throws:
//
//	method       nil (true)                      false                            throws
//	TryAcquire   the lease is yours              ErrHeld (*store.HeldError:       ErrUnavailable, ErrMisconfigured
//	                                             who, since when, how long)
//	TryRenew     it is still yours, and has      ErrLost: stop                    ErrUnavailable: not a loss, try again;
//	             been without a gap                                               ErrMisconfigured
//	TryRelease   the row was deleted while it    ErrLost: it was not yours any    ErrUnavailable: it expires by itself,
//	             was valid                       more, or you held nothing        or call again; ErrMisconfigured
//
// If a call ended with its context, errors.Is finds the context's error in ErrUnavailable.
//
// # Trust
//
// The store's clock alone decides when the row expires, and the holder cannot read that clock while it works. So it
// trusts in its lease only until D: the local time just before it sent the last request that is known to have
// succeeded, plus the TTL, minus a margin. [Lease.Remaining] is the time left until D. The margin is a tenth of the TTL,
// and at least 50 ms (but at most half the TTL); it pays for clocks that run at different rates, and for the time that
// your code needs to stop. Suspends of the machine count, and so do forward steps of the wall clock, which may cost a
// lease.
//
// The end of trust is final. If a renewal comes, or its answer, when D has passed, TryRenew returns ErrLost although the
// row may be valid still: another goroutine may have looked at Remaining meanwhile, and stopped or reported the loss,
// and the two must not disagree. In this the package is stricter than the .NET package, in the last tenth of the TTL.
// Renew every third of the TTL and you will not meet it.
//
// A tenure that ended like this keeps its row, because the work under it may still be running. TryRelease says that it
// is not, and deletes the row. If you go straight to TryAcquire, that deletes it first: the one case in which a method
// makes two calls. No call is made if the answer is known without it.
//
// # Owner ids
//
// The owner in the row is "<owner>/<nonce>", with a new nonce for each tenure, so that no two tenures are ever taken for
// each other. [WithExactOwner] leaves the nonce out, as the .NET package does; its comment says what that costs.
//
// An acquire whose answer was lost (ErrUnavailable that is also ErrUnclear) may have been applied, or may be applied
// later. Calling TryAcquire again uses the same owner id, and recognises the row that it wrote itself. If you do not
// try again, call TryRelease, or the row may keep everybody out for one TTL. A refusal, a loss and TryRelease end the
// use of an id. Should an acquire that had been given up succeed after that, its row is released at once.
//
// # Bounds
//
// A call returns within a third of TTL − margin, at most 10 s, even if the database driver does not, and within 25 ms
// of the end of its context. What the driver is still busy with then goes on in its goroutine; there are at most 16 of
// these for acquires, and as many for renewals and releases.
//
// # What is not promised
//
// Nobody interrupts work that does not look at Remaining. Work that goes on past D may overlap with that of the next
// holder, and a pause of the process can hide D from code that has just looked. Where that must do no harm, give
// [Lease.Token] to the resource and let it refuse smaller tokens. Replicas are not asked: if the database fails over to
// a node that has not seen the row, two holders are possible until D.
package lease
