package tds_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
)

// background runs f and hands over what it returns.
func background(f func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- f() }()
	return result
}

func query(ctx context.Context, db *sql.DB, text string, args ...any) func() error {
	return func() error {
		rows, err := db.QueryContext(ctx, text, args...)
		if err != nil {
			return err
		}
		_, err = drain(rows)
		return err
	}
}

func TestRefuse(t *testing.T) {
	s, _ := start(t, tds.Options{})
	db := open(t, s, "")
	db.SetMaxIdleConns(0)
	require.NoError(t, db.PingContext(t.Context()))
	held, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer held.Close()
	s.Refuse()
	require.ErrorIs(t, db.PingContext(t.Context()), syscall.ECONNREFUSED)
	require.NoError(t, held.PingContext(t.Context()), "an existing connection lives on")
	s.Listen()
	require.NoError(t, db.PingContext(t.Context()))
}

func TestFail(t *testing.T) {
	s, d := start(t, tds.Options{})
	db := open(t, s, "app name=app")
	other := open(t, s, "app name=other")

	t.Run("once, for the second that matches", func(t *testing.T) {
		sw := s.Inject(tds.Fault{Match: tds.Match{App: "app", SQL: "ONE", Op: tds.OpRPC}, Place: tds.AtRequest,
			Effect: tds.Fail(deadlock), Skip: 1, Times: 1})
		defer sw.Off()
		one := query(t.Context(), db, "one --", 1)
		require.NoError(t, query(t.Context(), other, "one --", 1)())
		require.NoError(t, query(t.Context(), db, "seven --", 1)())
		require.NoError(t, query(t.Context(), db, "one --")(), "a batch, not an RPC")
		require.NoError(t, one())
		assert.Zero(t, sw.Count())
		executed := len(d.noted())
		assert.Equal(t, int32(1205), number(t, one()))
		assert.Len(t, d.noted(), executed+1, "the reset; it is not executed")
		require.NoError(t, one())
		assert.Equal(t, 1, sw.Count())
	})
	t.Run("always", func(t *testing.T) {
		sw := s.Inject(tds.Fault{Match: tds.Match{User: "sa"}, Place: tds.AtRequest, Effect: tds.Fail(deadlock)})
		for range 3 {
			assert.Equal(t, int32(1205), number(t, db.PingContext(t.Context())))
		}
		assert.Equal(t, 3, sw.Count())
		sw.Off()
		require.NoError(t, db.PingContext(t.Context()))
	})
	t.Run("after a row", func(t *testing.T) {
		defer s.Inject(tds.Fault{Place: tds.AtRow, Effect: tds.Fail(deadlock)}).Off()
		rows, err := db.QueryContext(t.Context(), "seven --", 1)
		require.NoError(t, err)
		n, err := drain(rows)
		assert.Equal(t, 1, n)
		assert.Equal(t, int32(1205), number(t, err))
	})
	t.Run("after the execution", func(t *testing.T) {
		defer s.Inject(tds.Fault{Place: tds.AtReply, Effect: tds.Fail(deadlock)}).Off()
		executed := len(d.noted())
		assert.Equal(t, int32(1205), number(t, query(t.Context(), db, "seven --", 1)()))
		assert.Len(t, d.noted(), executed+2)
	})
	t.Run("login", func(t *testing.T) {
		sw := s.Inject(tds.Fault{Match: tds.Match{App: "third"}, Place: tds.AtLogin,
			Effect: tds.Fail(tds.Message{Number: 40613, Class: 17, Text: "not available"}), Times: 1})
		third := open(t, s, "app name=third")
		assert.Equal(t, int32(40613), number(t, third.PingContext(t.Context())))
		require.NoError(t, third.PingContext(t.Context()))
		assert.Equal(t, 1, sw.Count())
	})
	t.Run("a fatal one", func(t *testing.T) {
		defer s.Inject(tds.Fault{Place: tds.AtRequest, Effect: tds.Fail(tds.Message{Number: 596, Class: 21, Text: "killed"})}).Off()
		var e mssql.ServerError
		require.ErrorAs(t, db.PingContext(t.Context()), &e)
		assert.Equal(t, int32(596), number(t, e.Unwrap()))
	})
}

// TestEarlyRow: QueryRow goes home with the first row, cancels the rest and
// loses the error that was to come; reading to the end does not.
func TestEarlyRow(t *testing.T) {
	s, _ := start(t, tds.Options{})
	db := open(t, s, "")
	sw := s.Inject(tds.Fault{Place: tds.AtRow, Effect: tds.Delay(20 * time.Millisecond)})
	var n int
	require.NoError(t, db.QueryRowContext(t.Context(), "row, then fail", 1).Scan(&n))
	assert.Equal(t, int64(1), s.Stats().Attentions)
	assert.Equal(t, int32(1205), number(t, query(t.Context(), db, "row, then fail", 1)()))
	assert.Equal(t, int64(1), s.Stats().Attentions)
	assert.Equal(t, 2, sw.Count())
}

// TestClose: whether a request was executed does not show in the error.
func TestClose(t *testing.T) {
	s, d := start(t, tds.Options{})
	for _, test := range []struct {
		name     string
		place    tds.Place
		ending   tds.Ending
		executed bool
	}{
		{"not executed, FIN", tds.AtRequest, tds.FIN, false},
		{"not executed, RST", tds.AtRequest, tds.RST, false},
		{"executed, FIN", tds.AtReply, tds.FIN, true},
		{"executed, RST", tds.AtReply, tds.RST, true},
		{"after a row, FIN", tds.AtRow, tds.FIN, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			db := open(t, s, "")
			require.NoError(t, db.PingContext(t.Context()))
			sw := s.Inject(tds.Fault{Place: test.place, Effect: tds.Close(test.ending), Times: 1})
			text := "one -- " + test.name
			err := query(t.Context(), db, text, 1)()
			if test.ending == tds.RST {
				require.ErrorIs(t, err, syscall.ECONNRESET)
			} else {
				require.ErrorContains(t, err, "EOF")
			}
			assert.Equal(t, 1, sw.Count())
			if test.executed {
				assert.Contains(t, d.noted(), "execute "+text+"sp_executesql")
			} else {
				assert.NotContains(t, d.noted(), "execute "+text+"sp_executesql")
			}
		})
	}
}

func TestCut(t *testing.T) {
	s, _ := start(t, tds.Options{})
	db := open(t, s, "")
	whole := 0
	for bytes := 1; whole == 0; bytes += 7 {
		sw := s.Inject(tds.Fault{Place: tds.AtReply, Effect: tds.Cut(bytes, tds.FIN)})
		err := query(t.Context(), db, "seven --", 1)()
		if sw.Count() == 0 {
			require.NoError(t, err)
			whole = bytes
		} else {
			require.Error(t, err, "%d bytes", bytes)
		}
		sw.Off()
	}
	assert.Greater(t, whole, 100)
	require.NoError(t, db.PingContext(t.Context()))
}

// TestIdleConnections is sqlserver.md A5: a FIN costs one error for each idle
// connection, a RST none.
func TestIdleConnections(t *testing.T) {
	s, _ := start(t, tds.Options{})
	for _, test := range []struct {
		name     string
		ending   tds.Ending
		failures int
	}{{"FIN", tds.FIN, 3}, {"RST", tds.RST, 0}} {
		t.Run(test.name, func(t *testing.T) {
			db := open(t, s, "app name="+test.name)
			db.SetMaxIdleConns(3)
			var held []*sql.Conn
			for range 3 {
				c, err := db.Conn(t.Context())
				require.NoError(t, err)
				held = append(held, c)
			}
			match := tds.Match{App: test.name}
			for _, c := range held {
				require.NoError(t, c.Close())
			}
			assert.Equal(t, 3, s.CloseIdle(match, test.ending))
			failures := 0
			for range 6 {
				if err := query(t.Context(), db, "one --", 1)(); err != nil {
					require.ErrorIs(t, err, io.EOF)
					failures++
				}
			}
			assert.Equal(t, test.failures, failures)
		})
	}
	t.Run("a busy one is not idle", func(t *testing.T) {
		db := open(t, s, "app name=busy")
		sw := s.Inject(tds.Fault{Match: tds.Match{App: "busy"}, Place: tds.AtReply, Effect: tds.Silence()})
		defer sw.Off()
		result := background(query(t.Context(), db, "one --", 1))
		reached(t, sw, 1)
		assert.Zero(t, s.CloseIdle(tds.Match{App: "busy"}, tds.FIN))
		assert.Equal(t, 1, s.CloseConns(tds.Match{App: "busy"}, tds.FIN))
		require.Error(t, <-result)
	})
}

// TestHeldRequest: a request held before its execution is executed when it is
// let go, although its client has long gone; and a server that closes drops it.
func TestHeldRequest(t *testing.T) {
	s, d := start(t, tds.Options{})
	executed := make(chan error, 1)
	d.answers = func(ctx context.Context, req tds.Request, w tds.ResponseWriter) {
		executed <- context.Cause(ctx)
		scripted(ctx, req, w)
	}
	db := open(t, s, "connection timeout=1")
	sw := s.Inject(tds.Fault{Place: tds.AtRequest, Effect: tds.Silence()})
	err := query(t.Context(), db, "one --", 1)()
	var timedOut net.Error
	require.ErrorAs(t, err, &timedOut)
	require.True(t, timedOut.Timeout())
	assert.Empty(t, executed)
	eventually(t, "the hang-up is seen", func() bool { return s.Conns()[0].HungUp })
	assert.NotContains(t, d.noted(), "close")
	sw.Release()
	require.NoError(t, <-executed, "nothing has cancelled it")
	eventually(t, "then the connection ends", func() bool { return s.Stats().Open == 0 })
	assert.Equal(t, []string{"reset", "execute one --sp_executesql", "close"}, d.noted())

	before := s.Stats().Attentions
	ctx, cancel := cancellable(t)
	result := background(query(ctx, db, "one --", 1))
	reached(t, sw, 2)
	cancel()
	eventually(t, "the attention has come", func() bool { return s.Stats().Attentions == before+1 })
	sw.Release()
	require.NoError(t, <-executed, "nothing has cancelled it")
	require.ErrorIs(t, <-result, context.Canceled)

	result = background(query(t.Context(), db, "one --", 1))
	reached(t, sw, 3)
	s.Close()
	require.Error(t, <-result)
	assert.Empty(t, executed)
}

// TestBlackHole: nothing passes in either direction, for connections that
// exist and for new ones; when it opens, what it held arrives.
func TestBlackHole(t *testing.T) {
	s, _ := start(t, tds.Options{})
	db := open(t, s, "app name=lost")
	other := open(t, s, "app name=other")
	require.NoError(t, db.PingContext(t.Context()))
	sw := s.Inject(tds.Fault{Match: tds.Match{App: "lost"}, Place: tds.AtWire, Effect: tds.Silence()})
	before := s.Stats().Requests
	held := background(query(t.Context(), db, "one --", 1))
	reached(t, sw, 1)
	require.NoError(t, other.PingContext(t.Context()))
	assert.Equal(t, before+1, s.Stats().Requests, "only the other one's")
	assert.Empty(t, held)
	sw.Off()
	require.NoError(t, <-held)

	sw = s.Inject(tds.Fault{Place: tds.AtWire, Effect: tds.Silence()})
	existing, fresh := background(query(t.Context(), db, "one --", 1)), background(query(t.Context(), open(t, s, ""), "one --", 1))
	reached(t, sw, 2)
	assert.Empty(t, existing)
	assert.Empty(t, fresh)
	sw.Off()
	require.NoError(t, <-existing)
	require.NoError(t, <-fresh)
}

func TestDelay(t *testing.T) {
	s, _ := start(t, tds.Options{})
	db := open(t, s, "")
	require.NoError(t, db.PingContext(t.Context()))
	for _, place := range []tds.Place{tds.AtRequest, tds.AtRow, tds.AtReply, tds.AtWire} {
		const delay = 30 * time.Millisecond
		sw := s.Inject(tds.Fault{Place: place, Effect: tds.Delay(delay)})
		began := time.Now()
		require.NoError(t, query(t.Context(), db, "one --", 1)())
		assert.GreaterOrEqual(t, time.Since(began), delay, "place %d", place)
		sw.Off()
	}
}

// TestSwitches: many clients meet faults while switches come and go.
func TestSwitches(t *testing.T) {
	s, _ := start(t, tds.Options{})
	db := open(t, s, "")
	db.SetMaxOpenConns(4)
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for range 50 {
				err := query(t.Context(), db, "one --", 1)()
				var e mssql.Error
				if err != nil && !errors.As(err, &e) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
					assert.NoError(t, err)
				}
			}
		})
	}
	for range 20 {
		fails := s.Inject(tds.Fault{Place: tds.AtRequest, Effect: tds.Fail(deadlock), Times: 2})
		holds := s.Inject(tds.Fault{Place: tds.AtReply, Effect: tds.Silence(), Times: 1})
		resets := s.Inject(tds.Fault{Place: tds.AtReply, Effect: tds.Close(tds.RST), Times: 1})
		holds.Release()
		resets.Off()
		holds.Off()
		holds.Off()
		fails.Off()
	}
	clients.Wait()
	assert.Panics(t, func() { s.Inject(tds.Fault{Place: tds.AtAccept, Effect: tds.Fail(deadlock)}) })
	assert.Panics(t, func() { s.Inject(tds.Fault{Place: tds.AtWire, Effect: tds.Silence(), Times: 1}) })
	assert.Panics(t, func() { s.Inject(tds.Fault{}) })
}
