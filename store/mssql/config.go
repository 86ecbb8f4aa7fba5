package mssql

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/aaravsoft/leasehold/store"
)

// Config names the table, and the nodes that must confirm. The zero value is fine.
type Config struct {
	Schema string // "lease" if empty
	Table  string // "Leases" if empty

	// Replicas are the connection strings of every node that may become primary, the present one included; ReplicaDBs
	// are pools for the same, of which nothing is changed. With any of them, trust in a lease grows only as far as all
	// of them show it; two that lead to one node show no more than one. See [Store.Confirm].
	Replicas   []string
	ReplicaDBs []*sql.DB
}

// table is a validated pair of names.
type table struct{ schema, name string }

func (c Config) table() (table, error) {
	t := table{schema: cmp.Or(c.Schema, "lease"), name: cmp.Or(c.Table, "Leases")}
	return t, errors.Join(checkIdentifier("schema", t.schema), checkIdentifier("table", t.name))
}

// checkIdentifier accepts what a quoted identifier of SQL Server can be.
func checkIdentifier(what, s string) error {
	const most = 128 // UTF-16 units, of sysname
	var problem string
	switch {
	case !utf8.ValidString(s):
		problem = "must be valid UTF-8"
	case len(utf16.Encode([]rune(s))) > most:
		problem = fmt.Sprintf("must have at most %d UTF-16 units", most)
	case strings.TrimSpace(s) != s:
		problem = "must not begin or end with white space"
	case strings.IndexFunc(s, unicode.IsControl) >= 0:
		problem = "must not contain control characters"
	default:
		return nil
	}
	return fmt.Errorf("%w name of a %s, %q: it %s", store.ErrInvalid, what, s, problem)
}

// String is the table as a statement names it.
func (t table) String() string { return quote(t.schema) + "." + quote(t.name) }

// quote makes one identifier of any text.
func quote(identifier string) string { return "[" + strings.ReplaceAll(identifier, "]", "]]") + "]" }

// literal makes one string literal of any text.
func literal(s string) string { return "N'" + strings.ReplaceAll(s, "'", "''") + "'" }
