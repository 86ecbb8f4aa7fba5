package mssql_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/simtest"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/mssql"
)

// TestIdentifiers is NAM-06: each name is refused, or is exactly one identifier.
func TestIdentifiers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"lease", "Order", "a b", "x]; DROP TABLE dbo.Canary;--", "le'ase", "lease.Leases", "[lease]", "日本", "{table}", "{mine}", "a]]b", "''",
		strings.Repeat("x", 128), strings.Repeat("🔒", 64),
	} {
		for what, cfg := range map[string]mssql.Config{"schema": {Schema: name}, "table": {Table: name}} {
			t.Run("NAM-06 "+what+" "+name, func(t *testing.T) {
				sim := server(t)
				db := database(t, sim)
				exec(t, db, "CREATE TABLE dbo.Canary (Sings INT NOT NULL)")
				st, err := mssql.Open(sim.DSN(), cfg)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, st.Close()) })
				require.NoError(t, st.EnsureSchema(t.Context()))
				require.NoError(t, st.EnsureSchema(t.Context()))
				c, d := claim("job", time.Hour), claim("other", time.Hour)
				grant(t, st, c)
				grant(t, st, d)
				for _, call := range []func() ([]store.Result, error){
					func() ([]store.Result, error) { return st.Renew(t.Context(), []store.Claim{c}) },
					func() ([]store.Result, error) { return st.Renew(t.Context(), []store.Claim{c, d}) },
					func() ([]store.Result, error) { return st.Release(t.Context(), []store.Claim{c, d}) },
				} {
					results, err := call()
					require.NoError(t, err)
					for _, r := range results {
						require.NoError(t, r.Err)
					}
				}
				exec(t, db, "INSERT INTO dbo.Canary (Sings) VALUES (@p1)", 1)
				var tables int
				require.NoError(t, db.QueryRow("SELECT COUNT(*) FROM sys.tables WHERE name <> @p1", "Canary").Scan(&tables))
				assert.Equal(t, 1, tables)
			})
		}
	}
	for name, cfg := range map[string]mssql.Config{
		"too long":                {Schema: strings.Repeat("x", 129)},
		"too long in UTF-16":      {Table: strings.Repeat("🔒", 65)},
		"no UTF-8":                {Table: "a\xff"},
		"a blank at the end":      {Schema: "a "},
		"control characters":      {Table: "a\x00b"},
		"a line break":            {Schema: "a\nb"},
		"both, and both are said": {Schema: " ", Table: "\t"},
	} {
		t.Run("NAM-06 refused: "+name, func(t *testing.T) {
			_, err := mssql.Open("sqlserver://host", cfg)
			assert.ErrorIs(t, err, store.ErrInvalid)
			_, err = mssql.Schema(cfg)
			assert.ErrorIs(t, err, store.ErrInvalid)
			_, err = mssql.Grants(cfg, "x")
			assert.ErrorIs(t, err, store.ErrInvalid)
		})
	}
	t.Run("NAM-06 a principal is one identifier", func(t *testing.T) {
		script, err := mssql.Grants(mssql.Config{}, "x] TO public; --")
		require.NoError(t, err)
		assert.Contains(t, script, "TO [x]] TO public; --];")
		for _, bad := range []string{"", " x", strings.Repeat("x", 129)} {
			_, err := mssql.Grants(mssql.Config{}, bad)
			assert.ErrorIs(t, err, store.ErrInvalid)
		}
	})
}

// TestSpelling is about names that differ in case or in blanks.
func TestSpelling(t *testing.T) {
	t.Parallel()
	t.Run("NAM-02 a table of the .NET package: equal names exclude each other, and the stored spelling is shown", func(t *testing.T) {
		sim := server(t)
		exec(t, database(t, sim), dotnetTable)
		st := ready(t, sim)
		c := claim("Job", time.Hour)
		grant(t, st, c)
		_, err := st.Acquire(t.Context(), claim("JOB", time.Hour))
		held, ok := errors.AsType[*store.HeldError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, "Job", held.Lease.Name)

		// An owner that differs in case is another one, whatever the collation.
		other := c
		other.Owner = strings.ToUpper(c.Owner)
		assert.ErrorIs(t, renew(t, st, other).Err, store.ErrLost)
		assert.ErrorIs(t, release(t, st, other).Err, store.ErrLost)
		results, err := st.Renew(t.Context(), []store.Claim{other, c})
		require.NoError(t, err)
		assert.ErrorIs(t, results[0].Err, store.ErrLost)
		assert.NoError(t, results[1].Err)

		// The holder can use either spelling.
		c.Name = "jOB"
		require.NoError(t, renew(t, st, c).Err)
		require.NoError(t, release(t, st, c).Err)
	})

	t.Run("NAM-02 our own table tells names apart in a database of any collation", func(t *testing.T) {
		for _, collation := range []string{"SQL_Latin1_General_CP1_CI_AS", "Latin1_General_100_CI_AS", "Latin1_General_100_BIN2"} {
			st := ready(t, simtest.Run(t, mssqlsim.Options{Node: engine.Config{Collation: collation}}))
			apart(t, st, "Invoice-Batch", "invoice-batch", "FILE", "file", "fıle", "straße", "strasse", "job", "job😼", "ｊｏｂ", "か", "カ")
		}
	})

	t.Run("NAM-02 a table of the .NET package in a database that tells names apart", func(t *testing.T) {
		sim := simtest.Run(t, mssqlsim.Options{Node: engine.Config{Collation: "Latin1_General_100_BIN2"}})
		exec(t, database(t, sim), dotnetTable)
		apart(t, ready(t, sim), "Job", "job", "JOB", "job😼")
	})

	t.Run("NAM-02 NAM-01 what such a table calls equal excludes each other, and nothing waits for a name that nobody holds", func(t *testing.T) {
		sim := server(t)
		exec(t, database(t, sim), dotnetTable)
		st := ready(t, sim)
		for first, others := range map[string][]string{"Job": {"job", "JOB", "ｊｏｂ", "Job😼"}, "straße": {"strasse", "STRASSE"}, "カ": {"か"}} {
			c := claim(first, time.Hour)
			grant(t, st, c)
			for _, name := range others {
				_, err := st.Acquire(t.Context(), claim(name, time.Hour))
				held, ok := errors.AsType[*store.HeldError](err)
				require.True(t, ok, "%s: %v", name, err)
				assert.Equal(t, first, held.Lease.Name, "who asks for %s sees the stored spelling", name)
				_, err = st.Break(t.Context(), name, claim(name, 0).Owner)
				assert.ErrorIs(t, err, store.ErrNotFound, "of another owner")
				row, err := st.Get(t.Context(), name)
				require.NoError(t, err)
				assert.Equal(t, c.Owner, row.Owner)
			}
			require.NoError(t, release(t, st, c).Err)
		}
	})

	t.Run("NAM-01 blanks around a name are refused before the server is asked, on both tables", func(t *testing.T) {
		for _, dotnet := range []bool{false, true} {
			sim := server(t)
			if dotnet {
				exec(t, database(t, sim), dotnetTable)
			}
			st := ready(t, sim)
			held := claim("job", time.Hour)
			grant(t, st, held)
			before := sim.Wire.Stats().Requests
			for _, name := range []string{"job ", " job", "job\t", "job\u00a0"} {
				c := claim(name, time.Hour)
				_, err := st.Acquire(t.Context(), c)
				oneClass(t, store.ErrInvalid, err)
				_, err = st.Get(t.Context(), name)
				oneClass(t, store.ErrInvalid, err)
				for _, r := range []store.Result{renew(t, st, c), release(t, st, c)} {
					oneClass(t, store.ErrInvalid, r.Err)
				}
			}
			assert.Equal(t, before, sim.Wire.Stats().Requests)
			require.NoError(t, release(t, st, held).Err)
		}
	})

	t.Run("NAM-01 rows of other programs with blanks at the end of name or owner", func(t *testing.T) {
		sim := server(t)
		st := ready(t, sim)
		exec(t, database(t, sim), `INSERT INTO lease.Leases (LeaseName, OwnerInstanceId, AcquiredAtUtc, RenewedAtUtc, ExpiresAtUtc)
			VALUES (N'job  ', N'owner ', SYSUTCDATETIME(), SYSUTCDATETIME(), DATEADD(hour, 1, SYSUTCDATETIME()));`)
		_, err := st.Acquire(t.Context(), claim("job", time.Hour))
		require.ErrorIs(t, err, store.ErrHeld)
		assert.ErrorIs(t, release(t, st, store.Claim{Name: "job", Owner: "owner"}).Err, store.ErrLost, "that is another owner")
		_, err = st.Break(t.Context(), "job", "owner")
		assert.ErrorIs(t, err, store.ErrNotFound)
	})
}

// apart has each of the names locked at the same time, alone and in one batch, and released without harm to the others.
func apart(t *testing.T, st *mssql.Store, names ...string) {
	t.Helper()
	var claims []store.Claim
	for _, name := range names {
		c := claim(name, time.Hour)
		assert.Equal(t, name, grant(t, st, c).Name)
		claims = append(claims, c)
	}
	results, err := st.Renew(t.Context(), claims)
	require.NoError(t, err)
	for n, r := range results {
		require.NoError(t, r.Err, names[n])
		assert.Equal(t, names[n], r.Lease.Name)
	}
	for n, c := range claims {
		require.NoError(t, release(t, st, c).Err)
		for _, other := range claims[n+1:] {
			require.NoError(t, renew(t, st, other).Err, "%s was released, not %s", c.Name, other.Name)
		}
	}
}

// TestConnectionStrings is CON-07: nothing of them is shown.
func TestConnectionStrings(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{
		"sqlserver://u:S3cret!@[bad].host?database=d", "sqlserver://u:S3cret!%zz@host", "sqlserver://u:S3cret!@host:port",
		"server=x;user id=u;password=S3cret!;pwd=S3cret!;port=x", "server=x;password=S3cret!;connection timeout=S3cret!",
		"sqlserver://u:S3cret!@host?dial+timeout=S3cret!", "odbc:server={S3cret!",
	} {
		_, err := mssql.Open(dsn, mssql.Config{})
		require.ErrorIs(t, err, store.ErrInvalid, dsn)
		assert.NotContains(t, err.Error(), "S3cret")
		_, err = mssql.Open("sqlserver://host", mssql.Config{Replicas: []string{dsn}})
		require.ErrorIs(t, err, store.ErrInvalid, dsn)
		assert.NotContains(t, err.Error(), "S3cret")
	}
	t.Run("CON-07 no server: the driver would try this machine", func(t *testing.T) {
		for _, dsn := range []string{
			"", "S3cret!", "prod.example.com", "sqlserver://", "sqlserver://:1433?database=d", "sqlserver:///instance", "sqlserver:host",
			"sqlsever://u:S3cret!@prod?database=x", "postgres://a:S3cret!@h/x", "user id=u;password=S3cret!",
		} {
			_, err := mssql.Open(dsn, mssql.Config{})
			require.ErrorIs(t, err, store.ErrInvalid, dsn)
			assert.NotContains(t, err.Error(), "S3cret")
		}
		for _, dsn := range []string{
			"server=prod", "data source=prod;database=x", "address=tcp:prod,1433", "sqlserver://prod/instance", `server=prod\instance`,
			"odbc:server=prod", "server=.", "server=(local)", "sqlserver://[::1]:1433",
		} {
			st, err := mssql.Open(dsn, mssql.Config{})
			require.NoError(t, err, dsn)
			require.NoError(t, st.Close())
		}
	})
	t.Run("CON-07 a login that changes the password", func(t *testing.T) {
		for _, dsn := range []string{"sqlserver://u:p@host?change+password=S3cret!", "server=x;user id=u;password=p;Change Password=S3cret!"} {
			_, err := mssql.Open(dsn, mssql.Config{})
			require.ErrorIs(t, err, store.ErrInvalid)
			assert.ErrorContains(t, err, "change password")
			assert.NotContains(t, err.Error(), "S3cret")
		}
	})
	t.Run("an intent that the driver would ignore", func(t *testing.T) {
		for _, intent := range []string{"readonly", "READONLY"} {
			_, err := mssql.Open("sqlserver://host?database=d&ApplicationIntent="+intent, mssql.Config{})
			require.ErrorIs(t, err, store.ErrInvalid)
			assert.ErrorContains(t, err, "ReadOnly")
		}
		st, err := mssql.Open("sqlserver://host?database=d&ApplicationIntent=ReadOnly", mssql.Config{})
		require.NoError(t, err)
		require.NoError(t, st.Close())
	})
	t.Run("CON-07 a login that is refused, a host that is none, a closed store", func(t *testing.T) {
		sim := server(t)
		sim.Node.AddUser("u", "another")
		for _, dsn := range []string{sim.DSNFor("u", "S3cret!"), "sqlserver://u:S3cret!@127.0.0.1:1?database=d"} {
			st, err := mssql.Open(dsn, mssql.Config{})
			require.NoError(t, err)
			_, err = st.Get(t.Context(), "job")
			require.Error(t, err)
			assert.NotContains(t, err.Error(), "S3cret")
			require.NoError(t, st.Close())
			require.NoError(t, st.Close())
			_, err = st.Get(t.Context(), "job")
			require.ErrorIs(t, err, store.ErrInvalid)
			assert.ErrorContains(t, err, "closed")
		}
	})
}
