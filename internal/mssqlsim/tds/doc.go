// Package tds is the wire half of the simulated SQL Server, for tests only: a
// TDS 7.4 server on a loopback socket that the real driver
// github.com/microsoft/go-mssqldb logs in to. It executes nothing. Every login
// and every request goes to a [Handler], and what the handler answers is
// written as a server would write it: typed columns, rows, row counts, errors,
// environment changes, cancellation.
//
// What makes it worth having beside a real server are its faults: at
// an exact place of a chosen request a connection goes silent, is cut, is
// delayed or answers with an error, and a counter proves that it happened.
package tds
