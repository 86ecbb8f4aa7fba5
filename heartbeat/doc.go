// Package heartbeat renews the leases of one client.
//
// Users of locks need nothing of it. A [Scheduler] renews what was added to it, a [Target] each, in rounds; what the
// answers mean for a lock is the target's business.
//
// # Rounds
//
// Targets are grouped by ⌊log2 R⌋, R being the target's interval. A group has one next round. When it begins, the time
// of the round after it is drawn first: the smallest R in the group ± 10 %. Then the round takes every target whose own
// due time, its last success plus R, is not after that time: it would be late otherwise. So
//
//   - a target is sent again at most 1.1 R after its last send, or when that one is answered, if this is later;
//   - N targets cost ⌈N/500⌉ calls a round, and a target at most about twice the rounds that its own R asks for;
//   - targets of another group, whatever their R, change nothing about this;
//   - clients that began in step are soon out of step.
//
// A target that a group's next round would renew too late, because it is new or its last answer was slow, makes the
// round come earlier.
//
// Within a round those with the least trust left go first, each batch is a call of its own, and none waits for another.
// The limit of a call is a third of the least trust left in its batch, at most 10 s, so that two more attempts fit.
//
// # Failures
//
// A renewal that failed is repeated: after 25 ms, and twice as long each time up to the smaller of 1 s and R, each wait
// drawn from its upper half, and never longer than half the trust left. Repetitions are batched with each other, and
// never with what has not failed, which would have to live with their short limit. If a whole call ran into its limit,
// one row in it may be the reason: its targets are repeated in up to eight pieces.
//
// A call that ignores its limit is abandoned (package internal/bounded) and replaced, as long as no more than four are out
// for a target; whatever it says when it returns after all counts, with its own send time. Nothing is sent for a target
// whose trust is over.
//
//	the store says             the target                    what follows
//	renewed                    Renewed(sent, lease)          due again R after the send
//	ErrLost                    Lost(row, err)                nothing: it is dropped
//	anything else, or nothing  Failed(err)                   repeated inside what is left of trust
//	abandoned, answers later   Renewed or Lost as above      a place for another call is free again
package heartbeat
