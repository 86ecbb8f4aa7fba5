package mssql_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/mssql"
)

func TestEnsureSchema(t *testing.T) {
	t.Parallel()

	t.Run("SQL-07 ACQ-10 no table: a Lock fails at once and says what to do, then it works", func(t *testing.T) {
		st := open(t, server(t))
		locks := client(t, st, steady)
		began := time.Now()
		for _, lock := range []func() (*mutex.Guard, error){
			func() (*mutex.Guard, error) { return locks.Lock(t.Context(), "job") },
			func() (*mutex.Guard, error) { return locks.TryLock(t.Context(), "job") },
		} {
			_, err := lock()
			require.ErrorIs(t, err, mutex.ErrMisconfigured)
			assert.ErrorContains(t, err, "[lease].[Leases]")
			assert.ErrorContains(t, err, "EnsureSchema")
		}
		assert.Less(t, time.Since(began), late, "it does not wait for a table")
		for _, call := range []func() error{
			func() error {
				_, err := st.Renew(t.Context(), []store.Claim{claim("a", time.Hour), claim("b", time.Hour)})
				return err
			},
			func() error { _, err := st.Get(t.Context(), "a"); return err },
		} {
			assert.ErrorIs(t, call(), store.ErrMisconfigured)
		}
		require.NoError(t, st.EnsureSchema(t.Context()))
		g, err := locks.Lock(t.Context(), "job")
		require.NoError(t, err)
		require.NoError(t, g.Unlock())
	})

	t.Run("a table of the .NET package is accepted", func(t *testing.T) {
		sim := server(t)
		exec(t, database(t, sim), dotnetTable)
		assert.NoError(t, open(t, sim).EnsureSchema(t.Context()))
	})

	t.Run("the script and EnsureSchema create the same", func(t *testing.T) {
		one, other := server(t), server(t)
		require.NoError(t, open(t, one).EnsureSchema(t.Context()))
		script, err := mssql.Schema(mssql.Config{})
		require.NoError(t, err)
		db := database(t, other)
		exec(t, db, script)
		exec(t, db, script) // any number of times
		assert.Equal(t, catalog(t, one), catalog(t, other))
		assert.NoError(t, open(t, other).EnsureSchema(t.Context()))
	})

	t.Run("all differences are in one error, and nothing is changed", func(t *testing.T) {
		sim := server(t)
		db := database(t, sim)
		exec(t, db, `EXEC (N'CREATE SCHEMA lease'); CREATE TABLE lease.Leases (LeaseName NVARCHAR(50) NOT NULL, OwnerInstanceId INT NOT NULL,
			RenewedAtUtc DATETIMEOFFSET(3) NOT NULL, ExpiresAtUtc DATETIMEOFFSET(7) NOT NULL, Metadata NVARCHAR(1024) NOT NULL,
			[RowVersion] ROWVERSION NOT NULL, Tenant INT NOT NULL, Note NVARCHAR(10) NULL, CONSTRAINT PK PRIMARY KEY (LeaseName, Tenant));`)
		sim.Node.SetDelayedDurability("FORCED")
		before := catalog(t, sim)
		err := open(t, sim).EnsureSchema(t.Context())
		require.ErrorIs(t, err, store.ErrMisconfigured)
		for _, difference := range []string{"LeaseName holds 50", "OwnerInstanceId is of type int", "AcquiredAtUtc is missing", "RenewedAtUtc has 3",
			"Metadata must allow NULL", `"Tenant" must allow NULL`, "primary key", "DELAYED_DURABILITY"} {
			assert.ErrorContains(t, err, difference)
		}
		assert.NotContains(t, err.Error(), "Note")
		assert.Equal(t, before, catalog(t, sim))
	})
}

// catalog is what a server knows of its table.
func catalog(t *testing.T, sim *mssqlsim.Server) (list []string) {
	t.Helper()
	db := database(t, sim)
	for _, query := range []string{
		`SELECT c.name, y.name, c.max_length, c.scale, c.is_nullable, c.collation_name FROM sys.columns AS c JOIN sys.types AS y
			ON y.user_type_id = c.user_type_id WHERE c.object_id = OBJECT_ID(@p1) ORDER BY c.column_id`,
		`SELECT i.name, i.type_desc, i.is_unique, i.is_primary_key, c.name, k.key_ordinal FROM sys.indexes AS i
			JOIN sys.index_columns AS k ON k.object_id = i.object_id AND k.index_id = i.index_id
			JOIN sys.columns AS c ON c.object_id = k.object_id AND c.column_id = k.column_id
			WHERE i.object_id = OBJECT_ID(@p1) ORDER BY i.index_id, k.key_ordinal`,
	} {
		list = append(list, rowsOf(t, db, query, "lease.Leases")...)
	}
	require.NotEmpty(t, list)
	return list
}

// rowsOf is the answer to a query of six columns, each row as a text.
func rowsOf(t *testing.T, db *sql.DB, query string, args ...any) (list []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query, args...)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var row [6]any
		require.NoError(t, rows.Scan(&row[0], &row[1], &row[2], &row[3], &row[4], &row[5]))
		list = append(list, strings.ToLower(fmt.Sprint(row[:]...)))
	}
	require.NoError(t, rows.Err())
	return list
}

// TestRights is SQL-08: a login that may not do all that is needed.
func TestRights(t *testing.T) {
	t.Parallel()
	const password = "Pass-w0rd"
	for name, test := range map[string]struct {
		grant string
		lock  bool
	}{
		"SQL-08 (a) SELECT only":                  {grant: "SELECT"},
		"SQL-08 (b) no DELETE":                    {grant: "SELECT, INSERT, UPDATE", lock: true},
		"SQL-08 (c) all four, and not to create":  {grant: "SELECT, INSERT, UPDATE, DELETE", lock: true},
		"SQL-08 nothing: the table looks missing": {},
	} {
		t.Run(name, func(t *testing.T) {
			sim := server(t)
			ready(t, sim)
			admin := database(t, sim)
			sim.Node.AddUser("app", password)
			if test.grant != "" {
				sim.Node.AddOwner(mssqlsim.User, mssqlsim.Password)
				exec(t, admin, "GRANT "+test.grant+" ON lease.Leases TO app")
			}
			st, err := mssql.Open(sim.DSNFor("app", password), mssql.Config{})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, st.Close()) })
			err = st.EnsureSchema(t.Context())
			if test.grant == "" {
				require.ErrorIs(t, err, store.ErrMisconfigured)
				return
			}
			require.NoError(t, err, "nothing has to be created")
			locks := client(t, st, brief)
			g, err := locks.Lock(t.Context(), "job")
			if !test.lock {
				require.ErrorIs(t, err, mutex.ErrMisconfigured)
				assert.ErrorContains(t, err, "permission was denied")
				assert.ErrorContains(t, err, "Grants")
				return
			}
			require.NoError(t, err)
			err = g.Unlock()
			if strings.Contains(test.grant, "DELETE") {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, mutex.ErrMisconfigured)
			require.Eventually(t, func() bool {
				row, err := st.Get(t.Context(), "job")
				return err == nil && row.Left == 0
			}, 10*time.Second, 10*time.Millisecond, "it is not renewed any more, and expires")
		})
	}
	t.Run("the script of Grants is enough", func(t *testing.T) {
		sim := server(t)
		ready(t, sim)
		sim.Node.AddUser("the app", password)
		sim.Node.AddOwner(mssqlsim.User, mssqlsim.Password)
		script, err := mssql.Grants(mssql.Config{}, "the app")
		require.NoError(t, err)
		exec(t, database(t, sim), script)
		st, err := mssql.Open(sim.DSNFor("the app", password), mssql.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, st.Close()) })
		require.NoError(t, st.EnsureSchema(t.Context()))
		c, d := claim("job", time.Hour), claim("other", time.Hour)
		grant(t, st, c)
		grant(t, st, d)
		renewAndRelease(t, st, c, d)
	})
}
