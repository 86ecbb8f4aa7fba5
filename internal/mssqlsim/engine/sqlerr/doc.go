// Package sqlerr holds the errors that the simulated SQL Server raises, with SQL Server's numbers, severities and
// texts. A text is here because a person reads it in a failing test; nothing may tell errors apart by it.
package sqlerr
