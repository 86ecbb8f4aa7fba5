// Package sqlite keeps leases in a file, for programs that share a machine. It needs no server, and no cgo.
//
// Every process opens the file for itself; what they share is SQLite's locking of it. An operation is one transaction,
// which has the file to itself from its start and is on the disk when the operation returns. Between two of them a
// process holds nothing, so one that is killed leaves nothing behind but its leases, which expire.
//
// # The clock
//
// The store's clock is that of the machine. On Linux and macOS a lease is measured by the clock that runs since the
// machine was started, also while it sleeps, so setting the time does no harm to any lease. A lease from before the
// last start of the machine, or from another machine, is measured by the wall clock, and on other systems all are:
// there, setting the clock forward ends leases early and setting it back makes them last longer. The times in a
// [store.Lease] are wall times, of the moment when they were written; its Left is measured as said.
//
// # The file
//
// Beside the file SQLite keeps two more, with -wal and -shm behind its name. All three are made for this user only.
// Everything that can write to them can take and break leases.
//
// The file must be on a local disk: SQLite's locks, and the memory that its users share, do not work over a network.
// Do not copy, move or delete it while a program has it open, nor one of the other two. A program that has the old file
// open and one that opens the new one would not see each other's leases; so each operation makes sure that the path
// still leads to the file that was opened, and fails with [store.ErrMisconfigured] otherwise. Until then, which is the
// next renewal at the latest, two may hold the same name. And on Unix do not open the file in the same process by other
// means than this package or its driver, not even for reading: closing it again takes SQLite's locks away.
//
// # Tokens
//
// Fencing tokens come from one counter in the file, so they grow over all names, whatever rows are deleted. The counter
// of a new file starts at the microseconds of the wall clock, which keeps tokens growing if the file is deleted and
// made anew. They do not grow if an old copy of it is put back.
//
// # When it fails
//
//	another process has the file         the operation waits, at most until its context ends: unavailable, not applied
//	a process is stopped while it writes   the same, for everybody, until it goes on or is killed
//	a process is killed while it writes    the next operation undoes what it had not committed
//	the disk is full, or broken            unavailable; unclear if COMMIT itself failed
//	no access, another program's file      misconfigured, with what to do
//
// A context that ends while a transaction runs does not stop it: that takes as long as the disk, and the outcome is
// certain.
package sqlite
