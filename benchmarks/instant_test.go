package benchmarks

import (
	"context"
	"database/sql/driver"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"time"

	mssqldb "github.com/microsoft/go-mssqldb"
)

// instant is a driver whose server is infinitely fast: every statement is answered by the row of an acquisition that was
// granted, or of a release that deleted.
type instant struct{}

func (instant) Connect(context.Context) (driver.Conn, error) { return &instantConn{}, nil }
func (instant) Driver() driver.Driver                        { return nil }

type instantConn struct{}

func (*instantConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("not used") }
func (*instantConn) Begin() (driver.Tx, error)           { return nil, errors.New("not used") }
func (*instantConn) Close() error                        { return nil }

func (*instantConn) CheckNamedValue(*driver.NamedValue) error { return nil }

var stamps atomic.Uint64

func (*instantConn) QueryContext(_ context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	if len(args) < 2 { // a sweep
		return &instantRows{row: []driver.Value{int64(0)}}, nil
	}
	now := time.Now()
	row := []driver.Value{int64(1), now, "lock", string(args[1].Value.(mssqldb.NVarCharMax)), now, now, now.Add(30 * time.Second), nil}
	if strings.Contains(text, "[RowVersion]") {
		n := stamps.Add(1)
		row = append(row, []byte{0, 0, byte(n >> 40), byte(n >> 32), byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
	}
	return &instantRows{row: row}, nil
}

type instantRows struct {
	row  []driver.Value
	read bool
}

var names = strings.Fields("code now name owner acquired renewed expires metadata version")

func (r *instantRows) Columns() []string { return names[:len(r.row)] }
func (*instantRows) Close() error        { return nil }

func (r *instantRows) Next(into []driver.Value) error {
	if r.read {
		return io.EOF
	}
	r.read = true
	copy(into, r.row)
	return nil
}
