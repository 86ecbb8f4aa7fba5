package mssqlsim_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	mssql "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/simtest"
)

const (
	readIntent = "ApplicationIntent=ReadOnly"
	frozen     = time.Hour // a lag that no test lives to see the end of
)

// group starts a group with a table on every node and a connection pool through its listener.
func group(t *testing.T, options mssqlsim.GroupOptions) (*mssqlsim.Group, *sql.DB) {
	t.Helper()
	g := simtest.RunGroup(t, options)
	db := connect(t, g.DSN())
	run(t, db, `CREATE TABLE Leases (Name NVARCHAR(20) COLLATE Latin1_General_100_BIN2 NOT NULL,
		Owner NVARCHAR(20) NOT NULL, Expires DATETIMEOFFSET(7) NOT NULL, Version ROWVERSION NOT NULL, CONSTRAINT PK PRIMARY KEY (Name));`)
	for _, name := range g.Nodes() {
		applied(t, g, name)
	}
	return g, db
}

// asynchronous is two nodes of which the second is never waited for.
func asynchronous() mssqlsim.GroupOptions {
	return mssqlsim.GroupOptions{Nodes: []mssqlsim.NodeOptions{{Name: "a"}, {Name: "b", Mode: mssqlsim.Asynchronous}}}
}

// connect opens a pool that keeps no idle connection: after a failover it has none that is dead.
func connect(t *testing.T, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlserver", dsn)
	require.NoError(t, err)
	db.SetMaxIdleConns(0)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func run(t *testing.T, db *sql.DB, text string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), text, args...)
	require.NoError(t, err)
}

type execer interface {
	ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error)
}

func put(ctx context.Context, db execer, name string) error {
	_, err := db.ExecContext(ctx, insert, name, "x", 30)
	return err
}

func ask[T any](t *testing.T, db *sql.DB, query string, args ...any) T {
	t.Helper()
	var answer T
	require.NoError(t, db.QueryRowContext(t.Context(), query, args...).Scan(&answer))
	return answer
}

// count is the number of rows of a name.
func count(t *testing.T, db *sql.DB, name string) int {
	t.Helper()
	return ask[int](t, db, `SELECT COUNT(*) FROM Leases WHERE Name = @p1;`, name)
}

func server(t *testing.T, db *sql.DB) string {
	t.Helper()
	return ask[string](t, db, `SELECT CAST(SERVERPROPERTY('ServerName') AS NVARCHAR(128)) WHERE 1 = @p1;`, 1)
}

func version(t *testing.T, db *sql.DB, name string) int64 {
	t.Helper()
	return ask[int64](t, db, `SELECT CAST(Version AS BIGINT) FROM Leases WHERE Name = @p1;`, name)
}

// numbers are the numbers of everything that the server said in an error.
func numbers(t *testing.T, err error) []int32 {
	t.Helper()
	e, ok := errors.AsType[mssql.Error](err)
	require.True(t, ok, "%v", err)
	list := []int32{e.Number}
	for _, one := range e.All {
		list = append(list, one.Number)
	}
	return list
}

func applied(t *testing.T, g *mssqlsim.Group, name string) {
	t.Helper()
	require.NoError(t, g.WaitApplied(within(t), name))
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestGroupReplicates(t *testing.T) {
	t.Run("rows arrive byte for byte, and so do tables and deletions", func(t *testing.T) {
		g, db := group(t, mssqlsim.GroupOptions{})
		require.NoError(t, put(t.Context(), db, "one"))
		require.NoError(t, put(t.Context(), db, "two"))
		run(t, db, `UPDATE Leases SET Owner = @p1 WHERE Name = N'one';`, "y")
		run(t, db, `DELETE FROM Leases WHERE Name = @p1;`, "two")
		run(t, db, `CREATE TABLE Other (n INT NOT NULL, v ROWVERSION NOT NULL); INSERT INTO Other (n) VALUES (1);`)
		catalog, _ := g.Node("a").Node.Data().Catalog()
		for _, name := range []string{"b", "c"} {
			applied(t, g, name)
			copied, _ := g.Node(name).Node.Data().Catalog()
			assert.Equal(t, catalog, copied)
			for _, table := range catalog.Tables {
				rows := g.Node("a").Node.Data().Rows(table.ID)
				assert.Len(t, rows, 1)
				assert.Equal(t, rows, g.Node(name).Node.Data().Rows(table.ID), table.Name)
			}
		}
	})

	t.Run("a transaction is seen whole", func(t *testing.T) {
		g, db := group(t, asynchronous())
		g.Suspend("b")
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		for _, name := range []string{"one", "two"} {
			_, err = tx.ExecContext(t.Context(), insert, name, "x", 30)
			require.NoError(t, err)
		}
		require.NoError(t, tx.Commit())
		before := g.Status("b").Applied
		g.Resume("b")
		applied(t, g, "b")
		assert.Equal(t, before+1, g.Status("b").Applied, "one record")
		second := connect(t, g.NodeDSN("b"))
		assert.Equal(t, 2, ask[int](t, second, `SELECT COUNT(*) FROM Leases WHERE 1 = @p1;`, 1))
	})

	t.Run("a lag delays what readers see", func(t *testing.T) {
		g, db := group(t, asynchronous())
		second := connect(t, g.NodeDSN("b"))
		g.SetLag("b", frozen)
		require.NoError(t, put(t.Context(), db, "job"))
		assert.Zero(t, count(t, second, "job"))
		before := time.Now()
		g.SetLag("b", 50*time.Millisecond)
		require.NoError(t, put(t.Context(), db, "late"))
		applied(t, g, "b")
		assert.GreaterOrEqual(t, time.Since(before), 50*time.Millisecond)
		assert.Equal(t, 1, count(t, second, "job"))
		assert.Equal(t, 1, count(t, second, "late"))
	})

	t.Run("a suspended secondary shows what it had", func(t *testing.T) {
		g, db := group(t, mssqlsim.GroupOptions{})
		g.Suspend("b")
		require.NoError(t, put(t.Context(), db, "job"))
		second := connect(t, g.NodeDSN("b"))
		assert.Zero(t, count(t, second, "job"))
		assert.False(t, g.Synchronized("b"))
		g.Resume("b")
		applied(t, g, "b")
		assert.Equal(t, 1, count(t, second, "job"))
		require.NoError(t, g.WaitSynchronized(within(t), "b"))
	})

	t.Run("clocks are apart", func(t *testing.T) {
		g, db := group(t, mssqlsim.GroupOptions{})
		g.Node("b").Node.Step(time.Hour)
		second := connect(t, g.NodeDSN("b"))
		const now = `SELECT SYSDATETIMEOFFSET() WHERE 1 = @p1;`
		apart := ask[time.Time](t, second, now, 1).Sub(ask[time.Time](t, db, now, 1))
		assert.InDelta(t, time.Hour.Seconds(), apart.Seconds(), 5)
	})
}

func TestGroupReaders(t *testing.T) {
	options := mssqlsim.GroupOptions{Nodes: []mssqlsim.NodeOptions{
		{Name: "a"}, {Name: "shut", Readable: mssqlsim.NotReadable}, {Name: "intent", Readable: mssqlsim.ReadableByIntent}, {Name: "all"},
	}}

	t.Run("a secondary says that it is read-only, and refuses writes with 3906", func(t *testing.T) {
		g, db := group(t, options)
		second := connect(t, g.NodeDSN("all"))
		const updateability = `SELECT CAST(DATABASEPROPERTYEX(DB_NAME(), 'Updateability') AS NVARCHAR(20)) WHERE 1 = @p1;`
		assert.Equal(t, "READ_WRITE", ask[string](t, db, updateability, 1))
		assert.Equal(t, "READ_ONLY", ask[string](t, second, updateability, 1))
		for _, text := range []string{
			`INSERT INTO Leases (Name, Owner, Expires) VALUES (@p1, N'x', SYSDATETIMEOFFSET());`, `UPDATE Leases SET Owner = @p1;`,
			`DELETE FROM Leases WHERE Name = @p1;`, `CREATE TABLE More (n INT NOT NULL); SELECT @p1;`,
		} {
			_, err := second.ExecContext(t.Context(), text, "job")
			assert.Equal(t, int32(3906), number(t, err), text)
		}
	})

	t.Run("978 without read intent, 976 where nobody may read", func(t *testing.T) {
		g, _ := group(t, options)
		assert.Contains(t, numbers(t, connect(t, g.NodeDSN("intent")).PingContext(t.Context())), int32(978))
		assert.NoError(t, connect(t, g.NodeDSN("intent", readIntent)).PingContext(t.Context()))
		assert.Contains(t, numbers(t, connect(t, g.NodeDSN("shut")).PingContext(t.Context())), int32(976))
		assert.Contains(t, numbers(t, connect(t, g.NodeDSN("shut", readIntent)).PingContext(t.Context())), int32(976))
	})

	t.Run("the listener routes read intent to a readable secondary that data moves to", func(t *testing.T) {
		g, _ := group(t, options)
		assert.Equal(t, "intent", server(t, connect(t, g.DSN(readIntent))))
		g.Suspend("intent")
		assert.Equal(t, "all", server(t, connect(t, g.DSN(readIntent))))
		g.Down("all")
		assert.Contains(t, numbers(t, connect(t, g.DSN(readIntent)).PingContext(t.Context())), int32(982))
		assert.Equal(t, "a", server(t, connect(t, g.NodeDSN("a", readIntent))), "no routing but by the listener")
	})

	t.Run("readers take no locks, whatever their hints", func(t *testing.T) {
		g, db := group(t, options)
		require.NoError(t, put(t.Context(), db, "job"))
		applied(t, g, "all")
		tx, err := connect(t, g.NodeDSN("all")).BeginTx(t.Context(), nil)
		require.NoError(t, err)
		defer func() { require.NoError(t, tx.Rollback()) }()
		before, _ := g.Node("all").Node.Locks()
		for _, hints := range []string{"UPDLOCK", "XLOCK, ROWLOCK", "READCOMMITTEDLOCK"} {
			var owner string
			require.NoError(t, tx.QueryRowContext(t.Context(), `SELECT Owner FROM Leases WITH (`+hints+`) WHERE Name = @p1;`, "job").Scan(&owner))
			assert.Equal(t, "x", owner)
			held, _ := g.Node("all").Node.Locks()
			assert.Equal(t, before, held, hints)
		}
	})

	t.Run("a statement sees no commit in part", func(t *testing.T) {
		g, db := group(t, options)
		for i := range 20 {
			require.NoError(t, put(t.Context(), db, fmt.Sprint(i)))
		}
		applied(t, g, "all")
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range 100 {
				_, err := db.ExecContext(t.Context(), `UPDATE Leases SET Owner = @p1;`, fmt.Sprint(i))
				assert.NoError(t, err)
			}
		})
		second := connect(t, g.NodeDSN("all"))
		for range 100 {
			var least, most string
			require.NoError(t, second.QueryRowContext(t.Context(), `SELECT MIN(Owner), MAX(Owner) FROM Leases WHERE Name <> @p1;`, "").Scan(&least, &most))
			assert.Equal(t, least, most)
		}
		wg.Wait()
	})
}
