package mssqlsim_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/simtest"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
)

const insert = `INSERT INTO Leases (Name, Owner, Expires) VALUES (@p1, @p2, DATEADD(second, @p3, SYSDATETIMEOFFSET()));`

func start(t *testing.T) (*mssqlsim.Server, *sql.DB) {
	t.Helper()
	sim := simtest.Run(t, mssqlsim.Options{})
	db, err := sql.Open("sqlserver", sim.DSN("app name=test"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	_, err = db.ExecContext(t.Context(), `CREATE TABLE Leases (Name NVARCHAR(20) COLLATE Latin1_General_100_BIN2 NOT NULL,
		Owner NVARCHAR(20) NOT NULL, Expires DATETIMEOFFSET(7) NOT NULL, Version ROWVERSION NOT NULL, CONSTRAINT PK PRIMARY KEY (Name));`)
	require.NoError(t, err)
	return sim, db
}

func number(t *testing.T, err error) int32 {
	t.Helper()
	e, ok := errors.AsType[mssql.Error](err)
	require.True(t, ok, "%v", err)
	return e.Number
}

// TestDriver is the whole way: the real driver, the wire, the engine, its clock and its locks.
func TestDriver(t *testing.T) {
	t.Run("types and values pass both ways", func(t *testing.T) {
		sim, db := start(t)
		sim.Node.SetClock(func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6789100, time.UTC) })
		_, err := db.ExecContext(t.Context(), insert, "job 🔒", "a'b", 30)
		require.NoError(t, err)
		rows, err := db.QueryContext(t.Context(), `SELECT Owner, Expires, Version FROM Leases WHERE Name = @p1;`, "job 🔒")
		require.NoError(t, err)
		defer rows.Close()
		require.True(t, rows.Next())
		var owner string
		var expires time.Time
		var version []byte
		require.NoError(t, rows.Scan(&owner, &expires, &version))
		require.False(t, rows.Next())
		require.NoError(t, rows.Err())
		assert.Equal(t, "a'b", owner)
		assert.True(t, expires.Equal(time.Date(2026, 1, 2, 3, 4, 35, 6789100, time.UTC)), expires)
		assert.Len(t, version, 8)
	})

	t.Run("errors carry the engine's numbers", func(t *testing.T) {
		_, db := start(t)
		_, err := db.ExecContext(t.Context(), insert, "job", "a", 30)
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), insert, "job", "b", 30)
		assert.Equal(t, int32(2627), number(t, err))
		_, err = db.ExecContext(t.Context(), `UPDATE Nothing SET a = @p1;`, 1)
		assert.Equal(t, int32(208), number(t, err))
		_, err = db.ExecContext(t.Context(), `WAITFOR DELAY '00:00:01'; SELECT @p1;`, 1)
		assert.ErrorContains(t, err, "not supported by the simulator")
	})

	t.Run("of many that insert one key, one does", func(t *testing.T) {
		_, db := start(t)
		var won, lost atomic.Int32
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if _, err := db.ExecContext(t.Context(), insert, "job", "x", 30); err == nil {
					won.Add(1)
				} else if assert.Equal(t, int32(2627), number(t, err)) {
					lost.Add(1)
				}
			})
		}
		wg.Wait()
		assert.Equal(t, int32(1), won.Load())
		assert.Equal(t, int32(15), lost.Load())
	})

	t.Run("a row that another session has changed is waited for, for LOCK_TIMEOUT", func(t *testing.T) {
		_, db := start(t)
		_, err := db.ExecContext(t.Context(), insert, "job", "a", 30)
		require.NoError(t, err)
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), `UPDATE Leases SET Owner = @p1 WHERE Name = N'job';`, "b")
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), `SET LOCK_TIMEOUT 20; UPDATE Leases SET Owner = @p1 WHERE Name = N'job';`, "c")
		assert.Equal(t, int32(1222), number(t, err))
		require.NoError(t, tx.Rollback())
		_, err = db.ExecContext(t.Context(), `SET LOCK_TIMEOUT 20; UPDATE Leases SET Owner = @p1 WHERE Name = N'job';`, "c")
		require.NoError(t, err)
	})

	t.Run("executed, and the reply lost", func(t *testing.T) {
		sim, db := start(t)
		drop := sim.Wire.Inject(tds.Fault{Match: tds.Match{SQL: "INSERT"}, Place: tds.AtReply, Effect: tds.Close(tds.RST), Times: 1})
		_, err := db.ExecContext(t.Context(), insert, "job", "a", 30)
		require.Error(t, err)
		require.EqualValues(t, 1, drop.Count())
		_, err = db.ExecContext(t.Context(), insert, "job", "a", 30)
		assert.Equal(t, int32(2627), number(t, err), "it was applied")
	})

	t.Run("a disconnected session's transaction is rolled back", func(t *testing.T) {
		sim, db := start(t)
		tx, err := db.BeginTx(context.Background(), nil)
		require.NoError(t, err)
		_, err = tx.ExecContext(t.Context(), insert, "job", "a", 30)
		require.NoError(t, err)
		sim.Disconnect(tds.FIN)
		require.Error(t, tx.Commit())
		require.Eventually(t, func() bool { held, _ := sim.Node.Locks(); return held == 0 }, 5*time.Second, time.Millisecond)
	})
}
