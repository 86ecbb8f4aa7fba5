// Package tds is the wire half of the simulated SQL Server, for tests only: a
// TDS 7.4 server on a loopback socket that the real driver
// github.com/microsoft/go-mssqldb logs in to, with or without TLS. It executes
// nothing. Every login and every request goes to a [Handler], and what the
// handler answers is written as a server would write it: typed columns, rows,
// row counts, errors, environment changes, confirmed cancellations. What it
// does not know it refuses; what cannot be TDS ends the connection.
//
// What makes it worth having beside a real server are its faults ([Fault]): at
// an exact place of a chosen request a connection goes silent, is cut, is
// delayed or answers with an error. [Server.Inject] returns a [Switch], which
// counts how often the fault surfaced, waits until it has, and lets go what it
// holds:
//
//	held := server.Inject(tds.Fault{
//		Match:  tds.Match{App: "one", SQL: "INSERT"},
//		Place:  tds.AtRequest,
//		Effect: tds.Silence(),
//		Times:  1,
//	})
//	…                          // start the call
//	err := held.Reached(ctx, 1) // its request has been read
//	…                          // the caller has given up
//	held.Release()             // now it is executed
//
// A connection has two goroutines: one reads, so that a cancellation is seen
// while a request runs, the other logs in and then answers one request after
// the other. [Server.Close] ends and joins them all.
package tds
