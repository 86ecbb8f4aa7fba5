package tds_test

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
)

// TestMain looks for leaks, but for those of the driver that the hangs provoke
// and nothing can end.
func TestMain(m *testing.M) {
	const reader = "github.com/microsoft/go-mssqldb.(*tdsSession).startResponseReader"
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(reader), goleak.IgnoreAnyFunction(reader+".func1"))
}

// answers say what the fake database does with a text.
type answers func(ctx context.Context, req tds.Request, w tds.ResponseWriter)

// database is a handler whose sessions answer from a function and keep notes.
type database struct {
	answers answers
	login   func(tds.Login) error
	commit  func(context.Context)

	mu    sync.Mutex
	notes []string
	saw   tds.Login
}

func (d *database) note(s string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.notes = append(d.notes, s)
}

func (d *database) noted() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.notes...)
}

func (d *database) Login(_ context.Context, login tds.Login) (tds.Session, error) {
	d.mu.Lock()
	d.saw = login
	d.mu.Unlock()
	if d.login != nil {
		if err := d.login(login); err != nil {
			return nil, err
		}
	}
	return &session{database: d}, nil
}

type session struct{ database *database }

func (s *session) Execute(ctx context.Context, req tds.Request, w tds.ResponseWriter) {
	s.database.note("execute " + req.SQL + req.Procedure)
	s.database.answers(ctx, req, w)
}

func (s *session) Begin(_ context.Context, isolation tds.Isolation) error {
	s.database.note("begin " + string(rune('0'+isolation)))
	if isolation == tds.IsolationSnapshot {
		return tds.Message{Number: 3952, State: 1, Class: 16, Text: "Snapshot isolation is not allowed."}
	}
	return nil
}

func (s *session) Commit(ctx context.Context) error {
	s.database.note("commit")
	if s.database.commit != nil {
		s.database.commit(ctx)
	}
	return nil
}

func (s *session) Rollback(context.Context) error { s.database.note("rollback"); return nil }
func (s *session) Reset()                         { s.database.note("reset") }
func (s *session) Close()                         { s.database.note("close") }

// scripted answers the texts that the tests use.
func scripted(ctx context.Context, req tds.Request, w tds.ResponseWriter) {
	sevenRows := func() {
		w.Columns(tds.Column{Name: "n", Type: tds.TypeBigInt})
		for n := range int64(7) {
			w.Row(n)
		}
		w.Done(tds.CommandSelect, 7)
	}
	switch text, _, _ := strings.Cut(req.SQL, " --"); text {
	case "echo":
		echo(req, w)
	case "one", "select 1;": // the latter is Ping
		w.Columns(tds.Column{Name: "n", Type: tds.TypeInt})
		w.Row(int64(1))
		w.Done(tds.CommandSelect, 1)
	case "seven":
		sevenRows()
	case "update": // three rows, then two, and one under NOCOUNT
		w.Done(tds.CommandUpdate, 3)
		w.Done(tds.CommandDelete, 2)
		w.Done(tds.CommandUpdate, tds.NoCount)
	case "update nocount":
		w.Done(tds.CommandUpdate, tds.NoCount)
	case "fail":
		w.Error(deadlock)
	case "row, then fail":
		w.Columns(tds.Column{Name: "n", Type: tds.TypeInt})
		w.Row(int64(1))
		w.Error(deadlock)
		w.Done(tds.CommandSelect, 1)
	case "fail, then seven":
		w.Error(deadlock)
		w.Done(tds.CommandUpdate, tds.NoCount)
		sevenRows()
	case "die":
		w.Error(tds.Message{Number: 9001, State: 1, Class: 21, Text: "The log is not available."})
	case "wait":
		<-ctx.Done()
	default:
		w.Error(tds.Message{Number: 40000, State: 1, Class: 16, Text: "not in the script: " + req.SQL + req.Procedure})
	}
}

var deadlock = tds.Message{Number: 1205, State: 13, Class: 13, Text: "You have been chosen as the deadlock victim.", Line: 3}

// echo answers with its parameters as a row.
func echo(req tds.Request, w tds.ResponseWriter) {
	columns, values := make([]tds.Column, len(req.Params)), make([]any, len(req.Params))
	for i, p := range req.Params {
		columns[i], values[i] = tds.Column{Name: p.Declared, Type: p.Type}, p.Value
		if p.Type.Kind == tds.Null {
			columns[i].Type = tds.TypeNVarChar(1)
		}
	}
	w.Columns(columns...)
	w.Row(values...)
	w.Done(tds.CommandSelect, 1)
}

func start(t *testing.T, options tds.Options) (*tds.Server, *database) {
	d := &database{answers: scripted}
	s := tds.New(d, options)
	t.Cleanup(s.Close)
	return s, d
}

// open is a pool for the server; the parameters come on top of sensible ones.
func open(t *testing.T, s *tds.Server, parameters string) *sql.DB {
	values, err := url.ParseQuery(parameters)
	require.NoError(t, err)
	if !values.Has("encrypt") {
		values.Set("encrypt", "disable")
	}
	db, err := sql.Open("sqlserver", s.DSN("sa", "p w:é@/", values.Encode()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func number(t *testing.T, err error) int32 {
	var e mssql.Error
	require.ErrorAs(t, err, &e)
	return e.Number
}

func timeout(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func cancellable(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, cancel
}

// drain reads every row of every result set.
func drain(rows *sql.Rows) (n int, err error) {
	for {
		for rows.Next() {
			n++
		}
		if !rows.NextResultSet() {
			return n, errors.Join(rows.Err(), rows.Close())
		}
	}
}

// reached fails the test if the fault does not surface.
func reached(t *testing.T, s *tds.Switch, n int) {
	t.Helper()
	require.NoError(t, s.Reached(timeout(t, 10*time.Second), n))
}

// eventually waits for something that no event announces: a socket's end.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 10*time.Second, time.Millisecond, what)
}
