package mssql_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/mssql"
)

// acquisitions are the requests that acquire.
var acquisitions = tds.Match{SQL: "INSERT INTO [lease].[Leases]"}

// steady is a lease that no test sees the end of.
var steady = mutex.Config{TTL: time.Minute}

// gone waits until a name has no row: long before its lease would have ended.
func gone(t *testing.T, st *mssql.Store, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := st.Get(t.Context(), name)
		return errors.Is(err, store.ErrNotFound)
	}, 20*time.Second, 10*time.Millisecond, "the row of %q is left behind", name)
}

// TestUnclear is rule 6: what may have been applied, or may be applied later, never becomes an orphan, and never a guard
// of somebody who has given up.
func TestUnclear(t *testing.T) {
	t.Parallel()
	t.Run("ACQ-02 cancelled in flight, executed later", func(t *testing.T) {
		t.Parallel()
		sim := server(t)
		st := ready(t, sim)
		locks := client(t, st, steady)
		held := sim.Wire.Inject(tds.Fault{Match: acquisitions, Place: tds.AtRequest, Effect: tds.Silence(), Times: 1})
		defer held.Off()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := locks.Lock(ctx, "job")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		inserted(t, sim, held.Release)
		gone(t, st, "job")
	})

	t.Run("ACQ-04 the reply is lost, the retry recognises its own row", func(t *testing.T) {
		t.Parallel()
		sim := server(t)
		st := ready(t, sim)
		lost := sim.Wire.Inject(tds.Fault{Match: acquisitions, Place: tds.AtReply, Effect: tds.Close(tds.RST), Times: 2})
		g, err := client(t, st, steady).Lock(t.Context(), "job")
		require.NoError(t, err)
		assert.Equal(t, 2, lost.Count())
		row, err := st.Get(t.Context(), "job")
		require.NoError(t, err)
		assert.Equal(t, g.Owner(), row.Owner)
		require.NoError(t, g.Unlock())
		gone(t, st, "job")
	})

	t.Run("a first attempt is executed after the Unlock of the second", func(t *testing.T) {
		t.Parallel()
		sim := server(t)
		st := ready(t, sim)
		locks := client(t, st, mutex.Config{TTL: 3 * time.Second}) // an attempt is given up after 0.9 s
		held := sim.Wire.Inject(tds.Fault{Match: acquisitions, Place: tds.AtRequest, Effect: tds.Silence(), Times: 1})
		defer held.Off()
		deaf := sim.Wire.Inject(tds.Fault{Place: tds.AtAttention, Effect: tds.Silence()})
		defer deaf.Off()
		g, err := locks.Lock(t.Context(), "job")
		require.NoError(t, err)
		require.NoError(t, g.Unlock())
		inserted(t, sim, held.Release)
		again, err := client(t, st, steady).Lock(t.Context(), "job")
		require.NoError(t, err, "free again at the latest when the lease of the orphan ends")
		assert.Greater(t, again.Token(), g.Token())
		assert.NoError(t, again.Unlock())
	})

	t.Run("a lost guard's name is not taken back by its own late acquisition", func(t *testing.T) {
		t.Parallel()
		sim := server(t)
		st := ready(t, sim)
		locks := client(t, st, brief)
		g, err := locks.Lock(t.Context(), "job")
		require.NoError(t, err)
		deaf := sim.Wire.Inject(tds.Fault{Place: tds.AtWire, Effect: tds.Silence()})
		<-g.Context().Done()
		deaf.Off()
		other, err := client(t, ready(t, sim), steady).Lock(t.Context(), "job")
		require.NoError(t, err)
		assert.ErrorIs(t, g.Unlock(), mutex.ErrLost)
		row, err := st.Get(t.Context(), "job")
		require.NoError(t, err)
		assert.Equal(t, other.Owner(), row.Owner)
		assert.NoError(t, other.Unlock())
	})
}

// inserted waits until what letGo lets go has inserted a row.
func inserted(t *testing.T, sim *mssqlsim.Server, letGo func()) {
	t.Helper()
	gate := sim.Node.Gate(engine.AfterCommit, engine.Match{Contains: acquisitions.SQL})
	defer gate.Open()
	letGo()
	select {
	case <-gate.Arrived():
	case <-time.After(10 * time.Second):
		require.Fail(t, "nothing was inserted")
	}
}

// TestTokenRace is the race of row versions: one is drawn, its statement is held up, and meanwhile somebody else's grant
// comes and goes. The token of the late one must still be greater. That the number it had drawn first is smaller is shown
// by the engine's own tests.
func TestTokenRace(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"of two insertions": "INSERT INTO [lease].[Leases]",
		"of two takeovers":  "UPDATE [lease].[Leases] SET OwnerInstanceId",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sim := server(t)
			st := ready(t, sim)
			late := open(t, sim)
			_, err := late.Get(t.Context(), "another")
			require.ErrorIs(t, err, store.ErrNotFound)
			sessions := sim.Node.Sessions() // that of late is the last one
			if name == "of two takeovers" {
				exec(t, database(t, sim), `INSERT INTO lease.Leases (LeaseName, OwnerInstanceId, AcquiredAtUtc, RenewedAtUtc, ExpiresAtUtc)
					VALUES (N'job', @p1, SYSUTCDATETIME(), SYSUTCDATETIME(), SYSUTCDATETIME());`, "nobody")
			}
			gate := sim.Node.Gate(engine.RowVersionDrawn, engine.Match{Contains: statement, Session: sessions[len(sessions)-1]})
			defer gate.Open()
			locks := client(t, late, steady)
			answer := make(chan *mutex.Guard, 1)
			go func() {
				defer close(answer)
				if g, err := locks.Lock(context.WithoutCancel(t.Context()), "job"); assert.NoError(t, err) {
					answer <- g
				}
			}()
			<-gate.Arrived() // it has its number, and not the row
			first, err := client(t, st, steady).Lock(t.Context(), "job")
			require.NoError(t, err)
			require.NoError(t, first.Unlock())
			gate.Open()
			second := <-answer
			require.NotNil(t, second)
			assert.Greater(t, second.Token(), first.Token())
			assert.NoError(t, second.Unlock())
		})
	}
}
