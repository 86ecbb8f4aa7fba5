package tds_test

import (
	"context"
	"database/sql"
	"net"
	"testing"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/microsoft/go-mssqldb/msdsn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
)

const (
	brief    = 150 * time.Millisecond // a caller's limit
	patience = 5 * time.Second        // how long the driver waits for a confirmation
)

// hangs fails the test if the call comes back long after its limit.
func hangs(t *testing.T, result <-chan error) {
	t.Helper()
	select {
	case err := <-result:
		t.Fatalf("it returned: %v", err)
	case <-time.After(4 * brief):
	}
}

// single is a pool of one connection, already logged in.
func single(t *testing.T, s *tds.Server) *sql.DB {
	db := open(t, s, "")
	db.SetMaxOpenConns(1)
	require.NoError(t, db.PingContext(t.Context()))
	return db
}

// impatient is a pool of one whose connections wait for a reply no longer than
// a limit (msdsn.Config.ConnTimeout).
func impatient(t *testing.T, s *tds.Server, limit time.Duration) *sql.DB {
	config, err := msdsn.Parse(s.DSN("sa", "x", "encrypt=disable"))
	require.NoError(t, err)
	config.ConnTimeout = limit
	db := sql.OpenDB(mssql.NewConnectorConfig(config))
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func requireTimeout(t *testing.T, err error) {
	t.Helper()
	var timedOut net.Error
	require.ErrorAs(t, err, &timedOut)
	require.True(t, timedOut.Timeout(), "%v", err)
}

// The tests below are the table of what go-mssqldb v1.11.2 does when a context
// ends, row by row: these are the reasons why the store bounds its own calls. A
// new version of the driver that behaves better fails here.

// TestHangReading: a silent peer, while the driver waits for a confirmation or for rows.
func TestHangReading(t *testing.T) {
	t.Parallel()
	t.Run("deadline while reading rows, not confirmed: 10 s", func(t *testing.T) {
		t.Parallel()
		s, _ := start(t, tds.Options{})
		db := single(t, s)
		s.Inject(tds.Fault{Place: tds.AtRow, Effect: tds.Silence()})
		began := time.Now()
		rows, err := db.QueryContext(timeout(t, brief), "seven --", 1)
		require.NoError(t, err)
		require.True(t, rows.Next())
		require.False(t, rows.Next())
		var e mssql.StreamError
		require.ErrorAs(t, rows.Err(), &e)
		require.NoError(t, rows.Close()) //nolint:sqlclosecheck // how long it takes is the point
		assert.GreaterOrEqual(t, time.Since(began), 2*patience)
	})
	t.Run("deadline, not confirmed, a query or a commit: 5 s, and no context error", func(t *testing.T) {
		t.Parallel()
		s, d := start(t, tds.Options{})
		db := single(t, s)
		cause := make(chan error, 1)
		d.answers = func(ctx context.Context, req tds.Request, w tds.ResponseWriter) {
			scripted(ctx, req, w)
			cause <- context.Cause(ctx)
		}
		sw := s.Inject(tds.Fault{Place: tds.AtAttention, Effect: tds.Silence()})
		began := time.Now()
		commit := background(silentCommit(t))
		err := query(timeout(t, brief), db, "wait --", 1)()
		assert.GreaterOrEqual(t, time.Since(began), patience)
		var e mssql.StreamError
		require.ErrorAs(t, err, &e)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 1, sw.Count())
		require.ErrorAs(t, <-commit, &e)
		assert.GreaterOrEqual(t, time.Since(began), patience)
		require.ErrorIs(t, <-cause, tds.ErrDisconnected, "it ran until the driver hung up")
		d.answers = scripted
		require.NoError(t, db.PingContext(t.Context()))
		assert.Equal(t, int64(2), s.Stats().Logins)
	})
	t.Run("commit, confirmed as cancelled: at once, the outcome unknown", func(t *testing.T) {
		t.Parallel()
		s, d := start(t, tds.Options{})
		db := single(t, s)
		d.commit = func(ctx context.Context) { <-ctx.Done() }
		tx, err := db.BeginTx(timeout(t, 2*brief), nil)
		require.NoError(t, err)
		require.ErrorIs(t, tx.Commit(), context.DeadlineExceeded)
		assert.Contains(t, d.noted(), "commit")
		require.NoError(t, db.PingContext(t.Context()))
		assert.Equal(t, int64(2), s.Stats().Logins)
	})
}

// TestHangPoisonedPool: a connection that goes back to the pool with its reader stuck.
func TestHangPoisonedPool(t *testing.T) {
	t.Parallel()
	t.Run("QueryRow, the rest never comes: 5 s, then the pooled connection hangs", func(t *testing.T) {
		t.Parallel()
		s, _ := start(t, tds.Options{})
		db := single(t, s)
		sw := s.Inject(tds.Fault{Place: tds.AtRow, Effect: tds.Silence()})
		var n int
		began := time.Now()
		var e mssql.StreamError
		require.ErrorAs(t, db.QueryRowContext(t.Context(), "seven --", 1).Scan(&n), &e)
		assert.GreaterOrEqual(t, time.Since(began), patience)
		result := background(query(timeout(t, brief), db, "one --", 1))
		hangs(t, result)
		assert.Equal(t, 1, sw.Count())
		s.CloseConns(tds.Match{}, tds.FIN)
		require.Error(t, <-result)
	})
	t.Run("QueryRow, the rest never comes: with a read limit one call fails", func(t *testing.T) {
		t.Parallel()
		s, _ := start(t, tds.Options{})
		db := impatient(t, s, 3*brief)
		s.Inject(tds.Fault{Place: tds.AtRow, Effect: tds.Silence(), Times: 1})
		var n int
		require.Error(t, db.QueryRowContext(t.Context(), "seven --", 1).Scan(&n))
		require.Error(t, query(t.Context(), db, "one --", 1)())
		require.NoError(t, query(t.Context(), db, "one --", 1)())
	})
	t.Run("a batch fails first and goes on: the pooled connection hangs", func(t *testing.T) {
		t.Parallel()
		s, _ := start(t, tds.Options{})
		db := single(t, s)
		_, err := db.QueryContext(t.Context(), "fail, then seven") //nolint:rowserrcheck,sqlclosecheck // there are no rows
		assert.Equal(t, int32(1205), number(t, err))
		hangs(t, background(query(timeout(t, brief), db, "one --", 1)))
	})
}

// TestHangLogin: a server that stops answering before the login is done.
func TestHangLogin(t *testing.T) {
	t.Parallel()
	t.Run("PRELOGIN is never answered: the context is ignored", func(t *testing.T) {
		t.Parallel()
		s, _ := start(t, tds.Options{})
		sw := s.Inject(tds.Fault{Place: tds.AtAccept, Effect: tds.Silence()})
		result := background(query(timeout(t, brief), open(t, s, "dial timeout=1"), "one --", 1))
		reached(t, sw, 1)
		hangs(t, result)
		sw.Off()
		require.ErrorIs(t, <-result, context.DeadlineExceeded)
		eventually(t, "the socket is closed", func() bool { return s.Stats().Open == 0 })
	})
	t.Run("PRELOGIN is never answered: a read limit helps", func(t *testing.T) {
		t.Parallel()
		s, _ := start(t, tds.Options{})
		sw := s.Inject(tds.Fault{Place: tds.AtAccept, Effect: tds.Silence()})
		requireTimeout(t, impatient(t, s, brief).PingContext(t.Context()))
		assert.Equal(t, 1, sw.Count())
		eventually(t, "the socket is closed", func() bool { return s.Stats().Open == 0 })
	})
	t.Run("the TLS handshake is never answered: the context is ignored", func(t *testing.T) {
		t.Parallel()
		s, _ := start(t, tds.Options{})
		sw := s.Inject(tds.Fault{Place: tds.AtPrelogin, Effect: tds.Silence()})
		result := background(query(timeout(t, brief), open(t, s, "encrypt=true&trustservercertificate=true"), "one --", 1))
		reached(t, sw, 1)
		hangs(t, result)
		s.CloseConns(tds.Match{}, tds.FIN)
		require.Error(t, <-result)
	})
	t.Run("LOGIN7 is never answered: the context is honoured", func(t *testing.T) {
		t.Parallel()
		s, d := start(t, tds.Options{})
		sw := s.Inject(tds.Fault{Place: tds.AtLogin, Effect: tds.Silence()})
		require.ErrorIs(t, query(timeout(t, brief), open(t, s, ""), "one --", 1)(), context.DeadlineExceeded)
		assert.Equal(t, 1, sw.Count())
		eventually(t, "the socket is closed", func() bool { return s.Stats().Open == 0 })
		assert.Empty(t, d.noted())
	})
}

// TestCancellation: a server that confirms.
func TestCancellation(t *testing.T) {
	t.Parallel()
	t.Run("deadline, confirmed: at once, the connection is dropped", func(t *testing.T) {
		t.Parallel()
		s, _ := start(t, tds.Options{})
		db := single(t, s)
		require.ErrorIs(t, query(timeout(t, brief), db, "wait --", 1)(), context.DeadlineExceeded)
		require.NoError(t, db.PingContext(t.Context()))
		assert.Equal(t, int64(2), s.Stats().Logins)
		assert.Equal(t, int64(1), s.Stats().Attentions)
	})
	t.Run("cancelled, confirmed: at once, the connection is kept", func(t *testing.T) {
		t.Parallel()
		s, d := start(t, tds.Options{})
		cause := make(chan error, 1)
		d.answers = func(ctx context.Context, req tds.Request, w tds.ResponseWriter) {
			scripted(ctx, req, w)
			cause <- context.Cause(ctx)
		}
		db := single(t, s)
		require.NoError(t, <-cause)
		for _, args := range [][]any{nil, {1}} {
			ctx, cancel := cancellable(t)
			running := s.Inject(tds.Fault{Place: tds.AtRequest})
			result := background(query(ctx, db, "wait --", args...))
			reached(t, running, 1)
			running.Off()
			cancel()
			require.ErrorIs(t, <-result, context.Canceled)
			require.ErrorIs(t, <-cause, tds.ErrAttention)
		}
		require.NoError(t, db.PingContext(t.Context()))
		assert.Equal(t, int64(1), s.Stats().Logins)
		assert.Equal(t, int64(2), s.Stats().Attentions)
	})
	t.Run("cancelled when the answer is on the wire: executed all the same", testAnsweredThenCancelled)
	t.Run("rollback by a cancelled context: no attention, at once", func(t *testing.T) {
		t.Parallel()
		s, d := start(t, tds.Options{})
		db := single(t, s)
		sw := s.Inject(tds.Fault{Match: tds.Match{Op: tds.OpRollback}, Place: tds.AtReply, Effect: tds.Silence()})
		ctx, cancel := cancellable(t)
		tx, err := db.BeginTx(ctx, nil)
		require.NoError(t, err)
		cancel()
		reached(t, sw, 1)
		require.ErrorIs(t, tx.Rollback(), sql.ErrTxDone)
		sw.Off()
		// The driver may not have read the end of the transaction yet when it
		// sends the next request, which then still names it.
		if err := db.PingContext(t.Context()); err != nil {
			assert.Equal(t, int32(3971), number(t, err))
		}
		assert.Contains(t, d.noted(), "rollback")
		assert.Zero(t, s.Stats().Attentions)
		assert.Equal(t, int64(1), s.Stats().Logins)
	})
}

// silentCommit is a commit that is executed and never answered.
func silentCommit(t *testing.T) func() error {
	s, _ := start(t, tds.Options{})
	s.Inject(tds.Fault{Match: tds.Match{Op: tds.OpCommit}, Place: tds.AtReply, Effect: tds.Silence()})
	tx, err := single(t, s).BeginTx(timeout(t, 2*brief), nil)
	require.NoError(t, err)
	return tx.Commit
}

// testAnsweredThenCancelled drives both ways in which a cancellation can be
// confirmed: in the answer, and behind it.
func testAnsweredThenCancelled(t *testing.T) {
	t.Parallel()
	s, d := start(t, tds.Options{})
	db := single(t, s)
	executed := func(text string) {
		t.Helper()
		assert.Contains(t, d.noted(), "execute "+text+"sp_executesql")
		require.NoError(t, query(t.Context(), db, "seven --", 1)())
		assert.Equal(t, int64(1), s.Stats().Logins, "the connection is kept")
	}

	ctx, cancel := cancellable(t)
	replies := s.Inject(tds.Fault{Match: tds.Match{SQL: "one --"}, Place: tds.AtReply, Effect: tds.Silence()})
	result := background(query(ctx, db, "one -- confirmed in the answer", 1))
	reached(t, replies, 1)
	cancel()
	eventually(t, "the attention has come", func() bool { return s.Stats().Attentions == 1 })
	replies.Release()
	require.ErrorIs(t, <-result, context.Canceled)
	executed("one -- confirmed in the answer")

	ctx, cancel = cancellable(t)
	result = background(query(ctx, db, "one -- confirmed behind it", 1))
	reached(t, replies, 2)
	hole := s.Inject(tds.Fault{Place: tds.AtWire, Effect: tds.Silence()})
	replies.Off()
	reached(t, hole, 1) // the answer, complete, waits to go
	cancel()
	reached(t, hole, 2) // the attention waits to come
	hole.Off()
	require.ErrorIs(t, <-result, context.Canceled)
	executed("one -- confirmed behind it")
	assert.Equal(t, int64(2), s.Stats().Attentions)
}
