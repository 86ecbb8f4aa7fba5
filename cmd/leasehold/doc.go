// Command leasehold runs a job under a lock that is shared with other machines, and shows and breaks such locks.
//
// [run] is the whole program: main only hands the process to it. A verb is a file (verb_run.go, list.go, show.go,
// break.go, schema.go, man.go); below them are
//
//	store.go      which store: flags, environment, the default
//	address.go    the URL of a server, and what others may know of it
//	sqlserver.go  stores on SQL Server: passwords, replicas, logins of Azure AD
//	exit.go       exit codes, and which error gets which
//	notices.go    what is said on standard error
//	wait.go       the time until the lock is held
//	job.go        the time while it is held: a select loop over the group's events, signals, the guard and a timer
//	tty.go        the part of job.go that is about terminals
//
// Processes are the business of package internal/procgroup.
package main
