package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
)

// recorder is a sink that writes down what it gets.
type recorder struct {
	columns [][]engine.Column
	rows    [][]any
	counts  []int64
	errors  []*sqlerr.Error
	changes []engine.TransactionChange
}

func (r *recorder) Columns(columns []engine.Column)    { r.columns = append(r.columns, columns) }
func (r *recorder) Row(values []any)                   { r.rows = append(r.rows, values) }
func (r *recorder) Done(_ engine.Command, count int64) { r.counts = append(r.counts, count) }
func (r *recorder) Error(err *sqlerr.Error)            { r.errors = append(r.errors, err) }
func (r *recorder) Transaction(change engine.TransactionChange) {
	r.changes = append(r.changes, change)
}
func (r *recorder) ReturnStatus(int32) {}

// err is the first error, or nil.
func (r *recorder) err() error {
	if len(r.errors) == 0 {
		return nil
	}
	return r.errors[0]
}

// client is a session as tests use it.
type client struct {
	t *testing.T
	*engine.Session
}

func login(t *testing.T, n *engine.Node) *client {
	t.Helper()
	s, err := n.Login(engine.Login{User: "sa"})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return &client{t, s}
}

// send executes a text and returns everything that came back. Arguments become @p1, @p2, …
func (c *client) send(text string, args ...any) *recorder {
	c.t.Helper()
	return c.sendContext(c.t.Context(), text, args...)
}

func (c *client) sendContext(ctx context.Context, text string, args ...any) *recorder {
	r := &recorder{}
	request := engine.Request{SQL: text, Procedure: len(args) > 0}
	for i, arg := range args {
		p := engine.Param{Name: fmt.Sprintf("@p%d", i+1), Value: arg}
		switch v := arg.(type) {
		case string:
			p.Type = value.NVarCharOf(value.Units(v))
		case int:
			p.Type, p.Value = value.TypeBigInt, int64(v)
		case bool:
			p.Type = value.TypeBit
		case []byte:
			p.Type = value.VarBinaryOf(len(v))
		case time.Time:
			p.Type = value.TypeDateTimeOffset
		case nil:
			p.Type = value.NVarCharOf(1)
		}
		request.Params = append(request.Params, p)
	}
	if err := c.Execute(ctx, request, r); err != nil {
		r.errors = append(r.errors, sqlerr.New(0, "cancelled: %v", err))
	}
	return r
}

// exec is send that must not fail.
func (c *client) exec(text string, args ...any) *recorder {
	c.t.Helper()
	r := c.send(text, args...)
	require.NoError(c.t, r.err(), text)
	return r
}

// value is the one value that a text yields.
func (c *client) value(text string, args ...any) any {
	c.t.Helper()
	r := c.exec(text, args...)
	require.Len(c.t, r.rows, 1, text)
	require.Len(c.t, r.rows[0], 1, text)
	return r.rows[0][0]
}

// fails is send that must end with the error of this number.
func (c *client) fails(number int32, text string, args ...any) *sqlerr.Error {
	c.t.Helper()
	r := c.send(text, args...)
	require.NotEmpty(c.t, r.errors, text)
	require.Equal(c.t, number, r.errors[0].Number, "%s: %v", text, r.errors[0])
	return r.errors[0]
}

const leasesTable = `CREATE TABLE [lease].[Leases] (
	LeaseName NVARCHAR(200) COLLATE Latin1_General_100_BIN2 NOT NULL,
	OwnerInstanceId NVARCHAR(128) COLLATE Latin1_General_100_BIN2 NOT NULL,
	AcquiredAtUtc DATETIMEOFFSET(7) NOT NULL,
	RenewedAtUtc DATETIMEOFFSET(7) NOT NULL,
	ExpiresAtUtc DATETIMEOFFSET(7) NOT NULL,
	Metadata NVARCHAR(1024) NULL,
	[RowVersion] ROWVERSION NOT NULL,
	CONSTRAINT [PK_Leases] PRIMARY KEY CLUSTERED (LeaseName));
CREATE NONCLUSTERED INDEX [IX_Leases_ExpiresAtUtc] ON [lease].[Leases] (ExpiresAtUtc);`

// createLeases makes our table, with the collation of the binary kind replaced by another one if it is given.
func createLeases(c *client, collation ...string) {
	c.t.Helper()
	c.exec(`EXEC(N'CREATE SCHEMA [lease]')`)
	text := leasesTable
	if len(collation) > 0 {
		text = strings.ReplaceAll(text, " COLLATE Latin1_General_100_BIN2", " COLLATE "+collation[0])
	}
	c.exec(text)
}
