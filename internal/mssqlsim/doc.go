// Package mssqlsim is a simulated SQL Server, in process, for tests only. The real driver logs in over a real socket,
// and the T-SQL that it sends is executed, by an interpreter of the subset that our own statements are made of, over
// rows with real locks. What it cannot do it refuses; see package engine for what it does, and package tds for what can
// go wrong on the wire.
//
//	sim := simtest.Run(t, mssqlsim.Options{})
//	db, err := sql.Open("sqlserver", sim.DSN())
//	gate := sim.Node.Gate(engine.RowVersionDrawn, engine.Match{Contains: "UPDATE"})
//	drop := sim.Wire.Inject(tds.Fault{Place: tds.AtReply, Effect: tds.Close(tds.RST), Times: 1})
//
// # Availability groups
//
// A [Group] is several such servers of which one is the primary: it ships its log to the others, the secondaries.
//
//	g := simtest.RunGroup(t, mssqlsim.GroupOptions{Nodes: []mssqlsim.NodeOptions{
//		{Name: "a"}, {Name: "b"}, {Name: "c", Mode: mssqlsim.Asynchronous, Readable: mssqlsim.ReadableByIntent},
//	}})
//	db, err := sql.Open("sqlserver", g.DSN())     // the primary of the time
//	replicas := []string{g.NodeDSN("a"), g.NodeDSN("b"), g.NodeDSN("c", "ApplicationIntent=ReadOnly")}
//	g.Node("b").Node.Step(2 * time.Second)        // its clock is ahead
//	g.SetLag("c", time.Second)
//	err = g.SplitFailover("c")                    // the last second is lost; "a" does not know
//	g.EndSplit()
//	err = g.Rejoin("a")
//
// Every node has a port, a clock, gates, faults and logins of its own, by [Group.Node]. The listener gives each
// connection to the node that is primary at that moment, so the faults of that node's Wire meet it too; while the
// primary is down it resets them. A client with read intent that comes by the listener is routed to the first secondary
// in the order of the options that may be read and that data moves to, or gets 982; by its own port a node never routes.
//
// The log. Each commit that changes anything, DDL included, is one record, with the rows as they are, row versions
// included. A secondary has it SetLag after its commit (it is hardened) and shows it SetRedoLag after that (it is
// applied), in the order of the log, each commit at once. These times are real ones and independent of the nodes'
// clocks. Locks, application locks, logins, RCSI, gates and faults are each node's own and not shipped.
//
// Commits. The client of a synchronous primary is told once every synchronous secondary that is synchronized has
// hardened its commit. One that does not within SessionTimeout is silently no longer waited for, until it has hardened
// everything there is ([Group.Synchronized], [Status].Fallbacks). One that is down or suspended is not waited for at all.
// With [Group.SetRequiredSecondaries] a commit waits, with its locks, as long as fewer have it; the client that gives up,
// or is cut off, is told so, and the commit stands. Asynchronous secondaries, and all of an asynchronous primary, are
// never waited for and never synchronized.
//
// Secondaries answer reads only, from a snapshot and without locks, whatever the hints: a write is 3906, and
// DATABASEPROPERTYEX says READ_ONLY. A login that is not wanted there gets 978 or 976, in a node that is resolving 983,
// each followed by 4060 and 18456, as a server does: look at all errors, not at the last. A node that changes its role,
// or throws away what it had, disconnects everybody.
//
// Changes of roles, one at a time; each call returns when its change is complete:
//
//   - [Group.Failover]: to a secondary that is synchronized, or else an error. Nothing acknowledged is lost, and in a
//     planned one nothing committed at all: whatever the lag, the rest of the log is handed over first. If the primary is
//     down it is an automatic failover, in which commits that were never acknowledged may be lost. The old primary
//     becomes a secondary by itself.
//   - [Group.ForceFailover]: to any node that is up; everything that it has not hardened is lost. The old primary is
//     resolving until [Group.Rejoin], all other secondaries are suspended until [Group.Resume]. Those that have some of
//     what is lost go on showing it until then.
//   - [Group.SplitFailover]: the same, but the old primary serves on, writes included, whoever is connected to it,
//     by the listener too, and whoever comes by its NodeDSN; the listener leads to the new one. Its commits wait for
//     nobody, but for ever if secondaries are required. No other failover is possible until [Group.EndSplit].
//   - [Group.Down] and [Group.Up]: a node dies, with its open transactions, and comes back with what it had committed.
//
// For GroupOptions.Resolving of a failover nobody is served, by the listener neither: 983.
//
// Row versions come from one counter for each database. It goes on behind the last record that a new primary has, so
// after a planned failover they grow, and after a forced one those of the lost tail are drawn again, for other rows.
// RowVersionReservation makes that rarer, as in SQL Server, and not impossible.
package mssqlsim
