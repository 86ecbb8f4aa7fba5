// Package guard is the local half of a held lock: the handle that users get, and the trust behind it.
//
// A guard trusts its lock until D: the time just before the last request known to have succeeded was sent, plus the TTL,
// minus the margin. Renewals only raise D. A timer of the guard's own ends its context at D; when it fires it takes the
// guard's mutex, reads D, and re-arms or ends, so a renewal that was in time has nothing to stop or to reset. The mutex
// is never held across a call, a callback or a cancel.
//
// # States
//
//	live ──parent ends, MaxHold, Close──▶ draining ──Unlock──▶ unlocked
//	  │ └──────────────Unlock───────────────┼────────────────▶
//	  └──D passed, definite answer──▶ lost ◀┘
//
// While draining the context has ended, and the lock is still renewed, for Drain at most, so that work stops under protection.
//
// # References
//
// The user's handle is the only thing that nothing else references: the state, the timer, the heartbeat and the hooks hold
// the state. The context given to the user carries the handle, so whoever holds either of them keeps the guard. When both are
// gone without Unlock, a cleanup sets a flag in the state, and the lock is not renewed for ever.
package guard
