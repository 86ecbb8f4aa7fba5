// Package mssqlsim is a simulated SQL Server, in process, for tests only. The real driver logs in over a real socket,
// and the T-SQL that it sends is executed, by an interpreter of the subset that our own statements are made of, over
// rows with real locks. What it cannot do it refuses; see package engine for what it does, and package tds for what can
// go wrong on the wire.
//
//	sim := simtest.Run(t, mssqlsim.Options{})
//	db, err := sql.Open("sqlserver", sim.DSN())
//	gate := sim.Node.Gate(engine.RowVersionDrawn, engine.Match{Contains: "UPDATE"})
//	drop := sim.Wire.Inject(tds.Fault{Place: tds.AtReply, Effect: tds.Close(tds.RST), Times: 1})
package mssqlsim
