// Package locks is the lock manager of the simulated SQL Server: shared, update and exclusive locks on resources,
// granted first in, first out, with time-outs, cancellation and deadlock detection.
//
// It behaves as SQL Server's does where that can be observed:
//
//   - A request is granted when it is compatible with what other sessions hold and with what other sessions already
//     wait for; so a stream of readers cannot starve a writer.
//   - A session that already holds the resource and wants more (a conversion) goes ahead of those that hold nothing.
//   - Locks that belong to one session never block each other, whatever their lifetime: a lifetime is an [Owner] (one
//     for each transaction, one for what lasts as long as the session).
//
// Deadlocks differ in time only: SQL Server looks for them every few seconds, this manager at every wait, so that a
// test sees the victim at once and always the same one.
package locks
