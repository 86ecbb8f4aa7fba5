// Package mssql keeps leases in a table of SQL Server or Azure SQL.
//
// The table is that of the .NET package Aaravsoft.Distributed.Lease 1.0, with the same meaning, so services of both kinds
// exclude each other on one table. [Store.EnsureSchema] creates it, [Schema] is the script that does.
//
// # Calls
//
// Every operation is one round trip: one batch in autocommit, on a connection of its own and never in a transaction of
// the caller's. What fails before the batch is handed to a connection was not applied; what fails later is unclear.
// Times are the server's: a client sends durations.
//
// # Connections
//
// [Open] has a pool of its own and is what a service should use. The driver can ignore a context, for ever when a server
// accepts a connection and then says nothing; so the connector of that pool logs in on a goroutine of its own, for at
// most 15 seconds, and closes the socket at their end. A login that outlives the call which wanted it is not thrown
// away: the next call takes the connection. The pool has at most 48 connections, two thirds of which only renewals and
// releases may use; it keeps two idle ones for a minute, and forgets them at the first sign of a failover.
//
// [New] works on a pool of the caller's, of which it changes nothing: it cannot guard logins or forget idle connections,
// and acquisitions leave one connection of the pool to renewals and releases if there are at least two. With a pool of
// one an acquisition can delay a renewal by as long as it takes. Give lock traffic a pool of its own if you can.
//
// # Names
//
// New tables compare names byte by byte. A table that was made by the .NET package compares them by the collation of the
// database: names that it calls equal, such as "Job" and "job", exclude each other, and a refusal shows the stored
// spelling. Owners are always compared byte by byte.
package mssql
