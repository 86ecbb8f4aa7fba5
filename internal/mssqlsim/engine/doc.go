// Package engine is the simulated SQL Server without its wire, for tests only: a [Node] with one database, its own
// settable clock, and sessions that execute the T-SQL they are given.
//
// What it executes is the subset that our own statements are made of; everything else is refused with error 59001
// before anything of the batch has run. What it does execute behaves as SQL Server 2022 does under READ COMMITTED, as
// far as a client can tell:
//
//   - Row locks: UPDATE and DELETE lock a candidate row (U), judge it as it is then, and keep it locked (X) until the
//     transaction ends; SELECT takes a shared lock on each row for as long as it reads it, or, with [Node.SetRCSI] on,
//     none, and reads what was committed when its statement began. READPAST skips rows that would have to be waited
//     for. Waiting ends by LOCK_TIMEOUT (1222), as a deadlock's victim (1205) or by cancellation.
//   - "now" is one value for each statement, taken when it begins, before it waits for anything.
//   - A row version is drawn before the row is locked, so it can be smaller than one that was stored meanwhile.
//   - Errors end the statement, the batch or the transaction as they do there, with and without XACT_ABORT and TRY.
//
// Plans are simple, and so is what they lock: a table is read by its primary key where the conditions give a value for
// every column of it, else row by row in the order of the key. In a join of base tables and others (table variables,
// OPENJSON), the others come first. There is no lock escalation, no page lock, no lock on a secondary index and no
// key-range lock; HOLDLOCK and the isolation levels that need one are refused.
//
// Tests drive it with [Node.SetClock], [Node.Gate] (hold a statement at an exact point) and [Node.Fail] (make a
// statement fail, before or after it took effect).
package engine
