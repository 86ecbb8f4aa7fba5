package mssql_test

import (
	"context"
	"errors"
	"testing"
	"time"

	mssqldb "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/mssql"
)

// contended reports whether an error is marked as one of contention.
func contended(err error) bool {
	marked, ok := errors.AsType[interface {
		error
		Contention() bool
	}](err)
	return ok && marked.Contention()
}

// oneClass is that an error has a class, and no other.
func oneClass(t *testing.T, want, err error) {
	t.Helper()
	for _, class := range []error{store.ErrHeld, store.ErrLost, store.ErrUnavailable, store.ErrInvalid, store.ErrMisconfigured, store.ErrNotFound} {
		assert.Equal(t, errors.Is(want, class), errors.Is(err, class), "%v: %v", class, err)
	}
}

// TestRefusedLogins are numbers that a login can meet, as the driver reports them.
func TestRefusedLogins(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		messages []int32
		class    error
		remedy   string
	}{
		"the password is wrong":                   {messages: []int32{18456}, class: store.ErrMisconfigured, remedy: "password"},
		"the login is locked":                     {messages: []int32{18486}, class: store.ErrMisconfigured, remedy: "locked"},
		"no user in the database":                 {messages: []int32{916}, class: store.ErrMisconfigured, remedy: "create a user"},
		"the database is away, so no login":       {messages: []int32{4060, 18456}, class: store.ErrUnavailable},
		"in no role, so no database and no login": {messages: []int32{983, 4060, 18456}, class: store.ErrUnavailable},
		"CON-06 the database is moving":           {messages: []int32{40613}, class: store.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			sim := server(t)
			st := open(t, sim)
			var messages []tds.Message
			for _, n := range test.messages {
				messages = append(messages, tds.Message{Number: n, Class: 14, State: 1, Text: "refused"})
			}
			refused := sim.Wire.Inject(tds.Fault{Place: tds.AtLogin, Effect: tds.Fail(messages...)})
			_, err := st.Acquire(t.Context(), claim("job", time.Minute))
			require.Positive(t, refused.Count())
			oneClass(t, test.class, err)
			assert.ErrorContains(t, err, test.remedy)
			assert.NotErrorIs(t, err, store.ErrUnclear, "nothing was sent")
			assert.Equal(t, test.messages, numbers(err))
			refused.Off()
			require.NoError(t, st.EnsureSchema(t.Context()), "the next call logs in")
		})
	}

	t.Run("the simulator's own: a wrong password, a database that is not there", func(t *testing.T) {
		sim := server(t)
		sim.Node.AddUser("app", "Right-1")
		st, err := mssql.Open(sim.DSNFor("app", "Wrong-1"), mssql.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, st.Close()) })
		_, err = st.Get(t.Context(), "job")
		oneClass(t, store.ErrMisconfigured, err)
		assert.ErrorContains(t, err, "password")
		assert.Equal(t, []int32{18456}, numbers(err))
		_, err = open(t, server(t), "database=missing").Get(t.Context(), "job")
		oneClass(t, store.ErrUnavailable, err)
		assert.Contains(t, numbers(err), int32(4060))
	})
}

// TestFailedStatements are numbers that a statement can meet.
func TestFailedStatements(t *testing.T) {
	t.Parallel()
	message := func(number int32, severity uint8) *sqlerr.Error {
		return sqlerr.New(number, "it failed").With(severity, 1).Ends(sqlerr.EndsBatch)
	}
	for name, test := range map[string]struct {
		fail      *sqlerr.Error
		class     error
		unclear   bool
		contended bool
	}{
		"a victim of a deadlock":          {fail: message(1205, 13), class: store.ErrUnavailable, unclear: true, contended: true},
		"a lock timeout":                  {fail: message(1222, 16), class: store.ErrUnavailable, unclear: true, contended: true},
		"out of memory":                   {fail: message(701, 17), class: store.ErrUnavailable, unclear: true},
		"moving in the middle":            {fail: message(40197, 17), class: store.ErrUnavailable, unclear: true},
		"no right":                        {fail: message(229, 14), class: store.ErrMisconfigured},
		"a trigger's own":                 {fail: message(50001, 16), class: store.ErrMisconfigured},
		"severe, and the connection ends": {fail: message(9001, 21).Ends(sqlerr.EndsSession), class: store.ErrUnavailable, unclear: true},
	} {
		for _, point := range []engine.Point{engine.BeforeStatement, engine.AfterCommit} {
			t.Run(name, func(t *testing.T) {
				sim := server(t)
				st := ready(t, sim)
				fault := sim.Node.Fail(point, engine.Match{Contains: "INSERT INTO [lease]"}, 1, test.fail)
				c := claim("job", time.Minute)
				_, err := st.Acquire(t.Context(), c)
				require.Equal(t, 1, fault.Hits())
				oneClass(t, test.class, err)
				assert.Equal(t, test.unclear, errors.Is(err, store.ErrUnclear))
				assert.Equal(t, test.contended, contended(err))
				engine, ok := errors.AsType[mssqldb.Error](err)
				if assert.True(t, ok, "%v", err) {
					assert.Equal(t, test.fail.Number, engine.Number)
				}
				grant(t, st, c) // the same claim recognises what it may have left
				require.NoError(t, release(t, st, c).Err)
			})
		}
	}

	t.Run("the connection that met a read-only database is not used again", func(t *testing.T) {
		sim := server(t)
		st := ready(t, sim)
		sim.Node.SetState(engine.ReadOnly)
		logins := sim.Wire.Stats().Logins
		_, err := st.Acquire(t.Context(), claim("job", time.Minute))
		oneClass(t, store.ErrUnavailable, err)
		assert.Contains(t, numbers(err), int32(3906))
		sim.Node.SetState(engine.Online)
		grant(t, st, claim("job", time.Minute))
		assert.Equal(t, logins+1, sim.Wire.Stats().Logins, "a new one")
	})
}

// TestEndedContexts: whatever the driver makes of it, a context that has ended is found in the error.
func TestEndedContexts(t *testing.T) {
	t.Parallel()
	for name, point := range map[string]engine.Point{"before it has done anything": engine.BeforeStatement, "when it is done": engine.AfterCommit} {
		t.Run(name, func(t *testing.T) {
			sim := server(t)
			st := ready(t, sim)
			gate := sim.Node.Gate(point, engine.Match{Contains: "INSERT INTO [lease]"})
			defer gate.Open()
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-gate.Arrived()
				cancel()
			}()
			_, err := st.Acquire(ctx, claim("job", time.Minute))
			oneClass(t, store.ErrUnavailable, err)
			require.ErrorIs(t, err, context.Canceled)
			assert.ErrorIs(t, err, store.ErrUnclear)
			assert.False(t, contended(err))
		})
	}
	t.Run("in the login", func(t *testing.T) {
		sim := server(t)
		st := open(t, sim)
		silent := sim.Wire.Inject(tds.Fault{Place: tds.AtLogin, Effect: tds.Silence()})
		defer silent.Off()
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_ = silent.Reached(t.Context(), 1)
			cancel()
		}()
		_, err := st.Acquire(ctx, claim("job", time.Minute))
		oneClass(t, store.ErrUnavailable, err)
		require.ErrorIs(t, err, context.Canceled)
		assert.NotErrorIs(t, err, store.ErrUnclear)
	})
	t.Run("in the line for a connection", func(t *testing.T) {
		sim := server(t)
		db := database(t, sim)
		db.SetMaxOpenConns(1)
		st, err := mssql.New(db, mssql.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, st.Close()) })
		busy, err := db.Conn(t.Context())
		require.NoError(t, err)
		defer busy.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err = st.Acquire(ctx, claim("job", time.Minute))
		oneClass(t, store.ErrUnavailable, err)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.NotErrorIs(t, err, store.ErrUnclear)
	})
}
