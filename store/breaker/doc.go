// Package breaker puts a circuit breaker between a lock and its store.
//
// While the store is down, callers who try to acquire are refused at once instead of each waiting for its own time-out, and the
// store meets one probe at a time instead of all of them when it comes back. It never costs a held lock: renewals and
// releases pass, whatever its state.
//
// # What counts
//
// A failure is [store.ErrUnavailable]: the infrastructure. It counts when the store says so, and for a call that does not
// return when the limit of the call is over. Held, lost and contention are answers of a healthy store. Bad input and
// misconfiguration say nothing about it, nor does a caller who left.
//
// The breaker opens after Failures failures without a success between them, if they are spread over Span at least: after a failover each idle
// connection of a pool fails once, all within a moment, and that is no outage.
//
// A renewal that succeeds is no success here, or a client that only holds locks would hide that acquisitions fail.
//
// # Half open
//
// When the open time is over one call is let through, the probe, and its outcome closes or opens the breaker. [Store.Turn]
// hands that place to one waiting acquisition after the other, first come, first served; if none waits, the next
// acquisition or renewal takes it. A probe is reported at the end of its context at the latest, also if its caller left, so
// half-open never wedges.
package breaker
