package tds_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
)

func TestRoundTrip(t *testing.T) {
	s, _ := start(t, tds.Options{})
	db := open(t, s, "")
	moment := time.Date(2026, 2, 28, 23, 59, 59, 999_999_900, time.FixedZone("", -5*3600-1800))
	long := strings.Repeat("ab😼ñ", 1200)        // 6000 units
	huge := strings.Repeat("0123456789", 30000) // many packets both ways
	ordinary := strings.Repeat("ñ", 4000)

	tests := []struct {
		name, declared string
		in, out        any
	}{
		{"string", "nvarchar(5)", "hello", "hello"},
		{"blanks", "nvarchar(4)", " a  ", " a  "},
		{"emoji", "nvarchar(4)", "x😼y", "x😼y"},
		{"empty string", "nvarchar(max)", "", ""},
		{"longest that is not max", "nvarchar(4000)", ordinary, ordinary},
		{"max", "nvarchar(max)", long, long},
		{"many packets", "nvarchar(max)", huge, huge},
		{"forced max", "nvarchar(max)", mssql.NVarCharMax("a"), "a"},
		{"NULL string", "nvarchar(4000)", sql.NullString{}, nil},
		{"untyped NULL", "nvarchar(1)", nil, nil},
		{"bigint", "bigint", int64(-1 << 63), int64(-1 << 63)},
		{"int", "int", int32(-7), int64(-7)},
		{"smallint", "smallint", int16(-8), int64(-8)},
		{"tinyint", "tinyint", uint8(200), int64(200)},
		{"NULL bigint", "bigint", sql.NullInt64{}, nil},
		{"true", "bit", true, true},
		{"false", "bit", false, false},
		{"float", "float", 1.5, 1.5},
		{"binary", "varbinary(3)", []byte{0, 1, 255}, []byte{0, 1, 255}},
		{"empty binary", "varbinary(max)", []byte{}, []byte{}},
		{"NULL binary", "varbinary(max)", []byte(nil), nil},
		{"big binary", "varbinary(max)", []byte(huge), []byte(huge)},
		{"moment with offset", "datetimeoffset(7)", moment, moment},
		{"first day", "datetimeoffset(7)", time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)},
		{"before 1970", "datetimeoffset(7)", time.Date(1969, 12, 31, 23, 59, 59, 100, time.UTC), time.Date(1969, 12, 31, 23, 59, 59, 100, time.UTC)},
		{"NULL moment", "datetimeoffset(7)", sql.NullTime{}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			rows, err := db.QueryContext(t.Context(), "echo --", test.in)
			require.NoError(t, err)
			defer rows.Close()
			columns, err := rows.Columns()
			require.NoError(t, err)
			assert.Equal(t, []string{test.declared}, columns)
			require.True(t, rows.Next())
			var got any
			require.NoError(t, rows.Scan(&got))
			if want, ok := test.out.(time.Time); ok {
				require.IsType(t, want, got)
				assert.True(t, want.Equal(got.(time.Time)), "%v != %v", want, got)
				_, wantOffset := want.Zone()
				_, gotOffset := got.(time.Time).Zone()
				assert.Equal(t, wantOffset, gotOffset)
			} else {
				assert.Equal(t, test.out, got)
			}
			require.False(t, rows.Next())
			require.NoError(t, rows.Err())
		})
	}

	t.Run("all at once, NULLs between", func(t *testing.T) {
		args, want := make([]any, len(tests)), 0
		for i, test := range tests {
			args[i] = test.in
			if test.out == nil {
				want++
			}
		}
		rows, err := db.QueryContext(t.Context(), "echo --", args...)
		require.NoError(t, err)
		require.True(t, rows.Next())
		got := make([]any, len(tests))
		targets := make([]any, len(tests))
		for i := range got {
			targets[i] = &got[i]
		}
		require.NoError(t, rows.Scan(targets...))
		nulls := 0
		for _, value := range got {
			if value == nil {
				nulls++
			}
		}
		assert.Equal(t, want, nulls)
		n, err := drain(rows)
		require.NoError(t, err)
		assert.Zero(t, n)
	})
}

// TestColumns are the types that no parameter has.
func TestColumns(t *testing.T) {
	s, d := start(t, tds.Options{})
	moment := time.Date(2026, 2, 28, 13, 14, 15, 123_456_700, time.UTC)
	cells := []struct {
		typ     tds.Type
		in, out any
	}{
		{tds.TypeRowVersion, []byte{0, 0, 0, 0, 0, 0, 7, 209}, []byte{0, 0, 0, 0, 0, 0, 7, 209}},
		{tds.TypeDateTime2, moment, moment},
		{tds.TypeDateTime2, moment.In(time.FixedZone("", 3600)), moment.Add(time.Hour)}, // the wall clock, without its zone
		{tds.Type{Kind: tds.DateTime2, Scale: 0}, moment, moment.Truncate(time.Second)},
		{tds.Type{Kind: tds.DateTimeOffset, Scale: 3}, moment, moment.Truncate(time.Millisecond)},
		{tds.Type{Kind: tds.Date}, moment, moment.Truncate(24 * time.Hour)},
		{tds.Type{Kind: tds.UniqueIdentifier}, []byte("0123456789abcdef"), []byte("0123456789abcdef")},
		{tds.Type{Kind: tds.Binary, Size: 3}, []byte("abc"), []byte("abc")},
		{tds.TypeSysname, "dbo", "dbo"},
		{tds.TypeRowVersion, nil, nil},
		{tds.TypeDateTime2, nil, nil},
	}
	d.answers = func(_ context.Context, _ tds.Request, w tds.ResponseWriter) {
		var columns []tds.Column
		var values []any
		for _, cell := range cells {
			columns = append(columns, tds.Column{Name: "c", Type: cell.typ})
			values = append(values, cell.in)
		}
		w.Columns(columns...)
		w.Row(values...)
		w.Done(tds.CommandSelect, 1)
	}
	rows, err := open(t, s, "").QueryContext(t.Context(), "x --", 1)
	require.NoError(t, err)
	types, err := rows.ColumnTypes()
	require.NoError(t, err)
	assert.Equal(t, "DATETIME2", types[1].DatabaseTypeName())
	require.True(t, rows.Next())
	got, targets := make([]any, len(cells)), make([]any, len(cells))
	for i := range got {
		targets[i] = &got[i]
	}
	require.NoError(t, rows.Scan(targets...))
	for i, cell := range cells {
		if want, ok := cell.out.(time.Time); ok {
			assert.True(t, want.Equal(got[i].(time.Time)), "%v: %v != %v", cell.typ, want, got[i])
		} else {
			assert.Equal(t, cell.out, got[i], cell.typ.String())
		}
	}
	_, err = drain(rows)
	require.NoError(t, err)
}

func TestRowCounts(t *testing.T) {
	s, _ := start(t, tds.Options{})
	db := open(t, s, "")
	for name, args := range map[string][]any{"batch": nil, "parameters": {1}} {
		t.Run(name, func(t *testing.T) {
			result, err := db.ExecContext(t.Context(), "update -- counted", args...)
			require.NoError(t, err)
			n, err := result.RowsAffected()
			require.NoError(t, err)
			assert.Equal(t, int64(5), n)

			result, err = db.ExecContext(t.Context(), "update nocount --", args...)
			require.NoError(t, err)
			n, err = result.RowsAffected()
			require.NoError(t, err)
			assert.Zero(t, n)

			rows, err := db.QueryContext(t.Context(), "seven --", args...)
			require.NoError(t, err)
			count, err := drain(rows)
			require.NoError(t, err)
			assert.Equal(t, 7, count)
		})
	}
}

func TestErrors(t *testing.T) {
	s, _ := start(t, tds.Options{})
	db := open(t, s, "")
	db.SetMaxOpenConns(1)

	t.Run("number, state, class, line and server", func(t *testing.T) {
		for _, args := range [][]any{nil, {1}} {
			_, err := db.ExecContext(t.Context(), "fail --", args...)
			var e mssql.Error
			require.ErrorAs(t, err, &e)
			e.All = nil
			assert.Equal(t, mssql.Error{Number: 1205, State: 13, Class: 13, Message: deadlock.Text, ServerName: "mssqlsim", LineNo: 3}, e)
		}
	})
	t.Run("after a row", func(t *testing.T) {
		rows, err := db.QueryContext(t.Context(), "row, then fail", 1)
		require.NoError(t, err)
		n, err := drain(rows)
		assert.Equal(t, 1, n)
		assert.Equal(t, int32(1205), number(t, err))
	})
	t.Run("before a result set", func(t *testing.T) {
		rows, err := db.QueryContext(t.Context(), "fail, then seven", 1)
		require.NoError(t, err, "with parameters errors come at the end")
		n, err := drain(rows)
		assert.Equal(t, 7, n)
		assert.Equal(t, int32(1205), number(t, err))
	})
	t.Run("procedure by name", func(t *testing.T) {
		_, err := db.ExecContext(t.Context(), "sp_nobody_knows", 1)
		require.ErrorContains(t, err, "sp_nobody_knows")
	})
	t.Run("the connection lives on", func(t *testing.T) {
		require.NoError(t, db.PingContext(t.Context()))
		assert.Equal(t, int64(1), s.Stats().Logins)
	})
	t.Run("severity 20 ends it", func(t *testing.T) {
		_, err := db.ExecContext(t.Context(), "die --", 1)
		var e mssql.ServerError
		require.ErrorAs(t, err, &e)
		assert.Equal(t, int32(9001), number(t, e.Unwrap()))
		require.NoError(t, db.PingContext(t.Context()))
		assert.Equal(t, int64(2), s.Stats().Logins)
	})
	t.Run("what is not supported is refused", func(t *testing.T) {
		var out string
		_, err := db.ExecContext(t.Context(), "echo --", sql.Named("x", sql.Out{Dest: &out}))
		assert.Equal(t, int32(8009), number(t, err))
		_, err = db.ExecContext(t.Context(), "echo --", mssql.VarChar("x"))
		assert.Equal(t, int32(8009), number(t, err))
		require.NoError(t, db.PingContext(t.Context()))
	})
}

func TestTransactions(t *testing.T) {
	s, d := start(t, tds.Options{})
	db := open(t, s, "")
	db.SetMaxOpenConns(1)

	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelSerializable})
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "one --", 1)
	require.NoError(t, err)
	require.NoError(t, tx.Commit())

	tx, err = db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, tx.Rollback())

	_, err = db.BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelSnapshot})
	require.Error(t, err)

	assert.Equal(t, []string{"reset", "begin 4", "execute one --sp_executesql", "commit", "reset", "begin 0", "rollback",
		"reset", "begin 5"}, d.noted())
	assert.Equal(t, int64(6), s.Stats().Requests)
	assert.Equal(t, int64(3), s.Stats().Resets)
}

// TestServerEndsTransaction: a deadlock victim's transaction is gone, and the
// driver is told so.
func TestServerEndsTransaction(t *testing.T) {
	s, d := start(t, tds.Options{})
	d.answers = func(_ context.Context, req tds.Request, w tds.ResponseWriter) {
		if !req.InTransaction {
			w.Error(tds.Message{Number: 50000, Class: 16, Text: "no transaction"})
			return
		}
		w.Transaction(tds.TransactionRolledBack)
		w.Error(deadlock)
	}
	db := open(t, s, "")
	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = tx.ExecContext(t.Context(), "x --", 1)
	assert.Equal(t, int32(1205), number(t, err))
	_, err = tx.ExecContext(t.Context(), "x --", 1)
	require.ErrorContains(t, err, "does not have an active transaction")
	require.NoError(t, tx.Rollback())
	assert.NotContains(t, d.noted(), "rollback", "the driver has nothing to roll back")
}

func TestPacketSizes(t *testing.T) {
	s, d := start(t, tds.Options{})
	text := strings.Repeat("x😼", 20000)
	for parameter, size := range map[string]int{"": 4096, "packet size=512": 512, "packet size=32767": 32767} {
		t.Run(parameter, func(t *testing.T) {
			db := open(t, s, parameter)
			var got string
			require.NoError(t, db.QueryRowContext(t.Context(), "echo --", text).Scan(&got))
			assert.Equal(t, text, got)
			assert.Equal(t, size, d.saw.PacketSize)
		})
	}
}
