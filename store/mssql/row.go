package mssql

import (
	"database/sql"
	"encoding/binary"
	"time"

	"github.com/aaravsoft/leasehold/store"
)

// answer is one row of an answer: a number that the statement gives it, the server's time, and the row of the table.
type answer struct {
	code  int64
	now   time.Time
	lease store.Lease
	found bool
}

// scan reads a row. What comes after the columns of the table is scanned into more.
func (a *answer) scan(rows *sql.Rows, more ...any) error {
	l := &a.lease
	var metadata sql.NullString
	into := [12]any{&a.code, &a.now, &l.Name, &l.Owner, &l.Acquired, &l.Renewed, &l.Expires, &metadata}
	if err := rows.Scan(append(into[:8], more...)...); err != nil {
		return err
	}
	a.found = true
	l.Metadata = metadata.String
	l.Acquired, l.Renewed, l.Expires = l.Acquired.UTC(), l.Renewed.UTC(), l.Expires.UTC()
	l.Left = max(0, l.Expires.Sub(a.now))
	return nil
}

// version is a row version as a number: greater for later ones.
func version(b []byte) uint64 {
	var eight [8]byte
	copy(eight[8-min(8, len(b)):], b)
	return binary.BigEndian.Uint64(eight[:])
}
