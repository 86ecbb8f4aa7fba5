package mssql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	mssqldb "github.com/microsoft/go-mssqldb"

	"github.com/aaravsoft/leasehold/store"
)

// classify gives the class to an error of a call: one function, for all of them. The engine's own error stays reachable.
//
// sent says that the batch was handed to a connection. From then on every outage is unclear, those too that the engine
// reports itself: a batch has several statements, and the last of them may be what failed.
func classify(ctx context.Context, op string, sent bool, t table, err error) error {
	unavailable := &store.UnavailableError{Op: op, Unclear: sent, Err: err}
	if ended := ctx.Err(); ended != nil {
		if !errors.Is(err, ended) {
			unavailable.Err = fmt.Errorf("%w: %w", ended, err)
		}
		return unavailable
	}
	reported := all(err)
	switch {
	case reported.has(databaseAway): // before the login that it has made fail
		return unavailable
	case reported.has(contention):
		unavailable.Err = &contentionError{err}
		return unavailable
	}
	if remedy := reported.remedy(t); remedy != "" {
		return &store.MisconfiguredError{Remedy: remedy, Err: err}
	}
	var refused *brokenOff
	if errors.As(err, &refused) && len(reported) == 0 && !transport(err) { // else it is the server that has refused
		return &store.MisconfiguredError{Err: err, Remedy: "the server was reached, but no connection came about: check its certificate " +
			"(parameters certificate, hostNameInCertificate, TrustServerCertificate), the encryption that both sides ask for (encrypt), " +
			"and that this is the port of a SQL Server"}
	}
	return unavailable
}

// reported are the numbers of all errors of an answer: the one that counts need not be the last.
type reported []int32

func all(err error) (list reported) {
	var answer mssqldb.Error
	if !errors.As(err, &answer) {
		return nil
	}
	list = append(list, answer.Number)
	for _, one := range answer.All {
		list = append(list, one.Number)
	}
	return list
}

func (r reported) has(of set) bool {
	for _, n := range r {
		if _, ok := of[n]; ok {
			return true
		}
	}
	return false
}

// remedy is what to do about an error that will be the same the next time; "" if it is none.
func (r reported) remedy(t table) string {
	switch {
	case r.has(noTable):
		return "the table " + t.String() + " is missing, or this login must not see it, or the database's compatibility level is below 130 " +
			"(OPENJSON): create the table with EnsureSchema, or with the script of Schema (leasehold schema --apply), and grant the rights on it"
	case r.has(noPermission):
		return "this login lacks a right (SELECT, INSERT, UPDATE and DELETE on " + t.String() + "; also CREATE TABLE if EnsureSchema is to " +
			"create it): grant them with the script of Grants (leasehold schema --grant PRINCIPAL)"
	case r.has(noDatabase):
		return "this login must not use the database: create a user for it there, or name another database, or open the firewall"
	case r.has(noSpace):
		return "the database has reached the size that it may have: delete something, or raise its quota"
	case r.has(ofLogin):
		return "the server has refused the login: check user, password, and whether the login is disabled, locked or expired"
	case r.has(notOurTable) || slices.ContainsFunc(r, func(n int32) bool { return n >= ofUsers }):
		return "the table " + t.String() + " is not as the script of Schema creates it, or has constraints or triggers of its own: " +
			"EnsureSchema lists the differences"
	}
	return ""
}

// ofUsers is the first number of an error that somebody's own code throws: a trigger's.
const ofUsers = 50000

// wrongNode says that the connection leads to a node that cannot serve any more: the next one may.
func wrongNode(err error) bool { return all(err).has(wrongRole) }

// transport says that the connection is to blame.
func transport(err error) bool {
	var network net.Error
	var stream mssqldb.StreamError
	var server mssqldb.ServerError
	return errors.As(err, &network) || errors.As(err, &stream) || errors.As(err, &server) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// contentionError marks what is no sign of an outage, for a circuit breaker.
type contentionError struct{ error }

// Contention says that other sessions were in the way.
func (e *contentionError) Contention() bool { return true }

func (e *contentionError) Unwrap() error { return e.error }
