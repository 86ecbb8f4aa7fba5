package mssql_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/mssql"
)

// tableColumns are the columns of a table as it must be, in its order.
var tableColumns = []string{
	"LeaseName NVARCHAR(200) NOT NULL", "OwnerInstanceId NVARCHAR(128) NOT NULL", "AcquiredAtUtc DATETIMEOFFSET(7) NOT NULL",
	"RenewedAtUtc DATETIMEOFFSET(7) NOT NULL", "ExpiresAtUtc DATETIMEOFFSET(7) NOT NULL", "Metadata NVARCHAR(1024) NULL", "[RowVersion] ROWVERSION NOT NULL",
}

const tableKey = "CONSTRAINT PK_Leases PRIMARY KEY (LeaseName)"

// variant is a server with a table of which some columns are others, or missing (""), and some are added.
func variant(t *testing.T, key string, columns map[string]string, more ...string) *mssqlsim.Server {
	t.Helper()
	var list []string
	for _, column := range tableColumns {
		name := strings.Trim(strings.Fields(column)[0], "[]")
		if other, ok := columns[name]; ok {
			column = other
		}
		if column != "" {
			list = append(list, column)
		}
	}
	list = append(list, more...)
	if key != "" {
		list = append(list, key)
	}
	sim := server(t)
	exec(t, database(t, sim), "EXEC (N'CREATE SCHEMA lease'); EXEC (N'CREATE TABLE lease.Leases ("+strings.Join(list, ", ")+")');")
	return sim
}

// TestDifferences: each difference alone is reported, and nothing beside it.
func TestDifferences(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		key     string
		columns map[string]string
		more    string
		said    string
	}{
		"a column is missing":         {columns: map[string]string{"Metadata": ""}, said: "column Metadata is missing"},
		"the row version is missing":  {columns: map[string]string{"RowVersion": ""}, said: "column RowVersion is missing"},
		"another type":                {columns: map[string]string{"OwnerInstanceId": "OwnerInstanceId UNIQUEIDENTIFIER NOT NULL"}, said: "OwnerInstanceId is of type uniqueidentifier, not nvarchar"},
		"varchar":                     {columns: map[string]string{"Metadata": "Metadata VARCHAR(1024) NULL"}, said: "Metadata is of type varchar, not nvarchar"},
		"a time without an offset":    {columns: map[string]string{"ExpiresAtUtc": "ExpiresAtUtc DATETIME2(7) NOT NULL"}, said: "ExpiresAtUtc is of type datetime2, not datetimeoffset"},
		"a coarse time":               {columns: map[string]string{"RenewedAtUtc": "RenewedAtUtc DATETIMEOFFSET(0) NOT NULL"}, said: "RenewedAtUtc has 0 fractional digits, not 7"},
		"a bigint as the row version": {columns: map[string]string{"RowVersion": "[RowVersion] BIGINT NULL"}, said: "RowVersion is of type bigint, not timestamp"},
		"a short owner":               {columns: map[string]string{"OwnerInstanceId": "OwnerInstanceId NVARCHAR(127) NOT NULL"}, said: "OwnerInstanceId holds 127 characters, not 128"},
		"a short name":                {columns: map[string]string{"LeaseName": "LeaseName NVARCHAR(199) NOT NULL"}, said: "LeaseName holds 199 characters, not 200"},
		"notes are obligatory":        {columns: map[string]string{"Metadata": "Metadata NVARCHAR(1024) NOT NULL"}, said: "Metadata must allow NULL"},
		"a further obligatory column": {more: "Tenant INT NOT NULL", said: `further column "Tenant" must allow NULL or have a default`},
		"no key":                      {key: "-", said: "LeaseName alone must be the primary key"},
		"a key of something else":     {key: "CONSTRAINT PK_Leases PRIMARY KEY (OwnerInstanceId)", said: "LeaseName alone must be the primary key"},
		"a key of name and something": {key: "CONSTRAINT PK_Leases PRIMARY KEY (LeaseName, OwnerInstanceId)", said: "LeaseName alone must be the primary key"},
	} {
		t.Run(name, func(t *testing.T) {
			key := map[string]string{"": tableKey, "-": ""}
			use, ok := key[test.key]
			if !ok {
				use = test.key
			}
			var more []string
			if test.more != "" {
				more = append(more, test.more)
			}
			sim := variant(t, use, test.columns, more...)
			onlyThis(t, sim, test.said)
		})
	}

	t.Run("a trigger that replaces a statement", func(t *testing.T) {
		sim := server(t)
		ready(t, sim)
		exec(t, database(t, sim), "EXEC (N'CREATE TRIGGER lease.Keep ON lease.Leases INSTEAD OF DELETE AS BEGIN SELECT 1; END');")
		onlyThis(t, sim, `trigger "Keep" replaces a statement`)
	})
	t.Run("a compatibility level without OPENJSON, of a table that is there and of one that is not", func(t *testing.T) {
		sim := server(t)
		sim.Node.SetCompatibilityLevel(120)
		st := open(t, sim)
		err := st.EnsureSchema(t.Context())
		oneClass(t, store.ErrMisconfigured, err)
		assert.ErrorContains(t, err, "level of the database is 120")
		_, err = st.Get(t.Context(), "job")
		assert.Contains(t, numbers(err), int32(208), "and it has not created the table")
		sim.Node.SetCompatibilityLevel(130)
		require.NoError(t, st.EnsureSchema(t.Context()))
		sim.Node.SetCompatibilityLevel(110)
		onlyThis(t, sim, "level of the database is 110")
	})
	t.Run("durability that is not", func(t *testing.T) {
		sim := server(t)
		ready(t, sim)
		for _, fine := range []string{"DISABLED", "ALLOWED"} {
			sim.Node.SetDelayedDurability(fine)
			require.NoError(t, open(t, sim).EnsureSchema(t.Context()), fine)
		}
		sim.Node.SetDelayedDurability("FORCED")
		onlyThis(t, sim, "DELAYED_DURABILITY = FORCED")
	})
}

// onlyThis is that EnsureSchema reports one difference, and changes nothing.
func onlyThis(t *testing.T, sim *mssqlsim.Server, difference string) {
	t.Helper()
	before := catalog(t, sim)
	err := open(t, sim).EnsureSchema(t.Context())
	oneClass(t, store.ErrMisconfigured, err)
	require.ErrorContains(t, err, difference)
	_, list, found := strings.Cut(err.Error(), "cannot keep leases: ")
	require.True(t, found)
	list, _, found = strings.Cut(list, "; the script of Schema")
	require.True(t, found)
	assert.NotContains(t, list, "; ", "there is one difference")
	assert.Equal(t, before, catalog(t, sim))
}

// TestNoDifference: what makes no difference to us is no reason to refuse, and works.
func TestNoDifference(t *testing.T) {
	t.Parallel()
	for name, columns := range map[string]map[string]string{
		"as the .NET package creates it": {},
		"longer columns":                 {"LeaseName": "LeaseName NVARCHAR(400) NOT NULL", "OwnerInstanceId": "OwnerInstanceId NVARCHAR(256) NOT NULL"},
		"notes of any length":            {"Metadata": "Metadata NVARCHAR(MAX) NULL"},
		"another spelling":               {"LeaseName": "leasename NVARCHAR(200) NOT NULL", "ExpiresAtUtc": "EXPIRESATUTC DATETIMEOFFSET(7) NOT NULL"},
		"a binary collation":             {"LeaseName": "LeaseName NVARCHAR(200) COLLATE Latin1_General_100_BIN2 NOT NULL"},
	} {
		t.Run(name, func(t *testing.T) {
			sim := variant(t, tableKey, columns, "Note NVARCHAR(10) NULL")
			db := database(t, sim)
			exec(t, db, "CREATE INDEX IX_Owner ON lease.Leases (OwnerInstanceId)")
			exec(t, db, "CREATE TABLE dbo.Audit (N INT NOT NULL)")
			exec(t, db, "EXEC (N'CREATE TRIGGER lease.Audit ON lease.Leases AFTER DELETE AS BEGIN INSERT INTO dbo.Audit (N) VALUES (1); END');")
			before := catalog(t, sim)
			st := open(t, sim)
			require.NoError(t, st.EnsureSchema(t.Context()))
			assert.Equal(t, before, catalog(t, sim))
			c, d := claim("job", time.Hour), claim("other", time.Hour)
			c.Metadata = "a note"
			assert.Equal(t, "a note", grant(t, st, c).Metadata)
			grant(t, st, d)
			renewAndRelease(t, st, c, d)
		})
	}
}

// TestCreation is about who may create the table, and when.
func TestCreation(t *testing.T) {
	t.Parallel()
	t.Run("SQL-09 ten at once, and the table is dropped between the rounds", func(t *testing.T) {
		sim := server(t)
		db := database(t, sim)
		var stores []*mssql.Store
		for range 10 {
			stores = append(stores, open(t, sim))
		}
		for round := range 20 {
			var wait sync.WaitGroup
			for _, st := range stores {
				wait.Go(func() { assert.NoError(t, st.EnsureSchema(t.Context()), "round %d", round) })
			}
			wait.Wait()
			assert.Len(t, catalog(t, sim), 7+2, "seven columns, and an index of one column for the key and one for the expiries")
			exec(t, db, "DROP TABLE lease.Leases")
		}
	})
	t.Run("SQL-08 the table is missing, and the login must not create it", func(t *testing.T) {
		const password = "Pass-w0rd"
		sim := server(t)
		sim.Node.AddOwner(mssqlsim.User, mssqlsim.Password)
		sim.Node.AddUser("app", password)
		st, err := mssql.Open(sim.DSNFor("app", password), mssql.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, st.Close()) })
		err = st.EnsureSchema(t.Context())
		oneClass(t, store.ErrMisconfigured, err)
		assert.ErrorContains(t, err, "CREATE TABLE")
		assert.Contains(t, fmt.Sprint(numbers(err)), "262", "or 2760: the engine's reason")
		require.NoError(t, open(t, sim).EnsureSchema(t.Context()))
		script, err := mssql.Grants(mssql.Config{}, "app")
		require.NoError(t, err)
		exec(t, database(t, sim), script)
		require.NoError(t, st.EnsureSchema(t.Context()), "who is granted the rights need not create anything")
	})
	t.Run("one that has been creating it for long", func(t *testing.T) {
		sim := server(t)
		conn, err := database(t, sim).Conn(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.ExecContext(t.Context(), `DECLARE @r INT, @unused INT = @p1; EXEC @r = sp_getapplock @Resource = N'leasehold schema', @LockMode = N'Exclusive',
			@LockOwner = N'Session', @LockTimeout = 0;`, 0)
		require.NoError(t, err)
		gate := make(chan error, 1)
		st := open(t, sim)
		go func() { gate <- st.EnsureSchema(t.Context()) }()
		require.Eventually(t, func() bool { _, waiting := sim.Node.Locks(); return waiting == 1 }, 5*time.Second, time.Millisecond)
		_, err = conn.ExecContext(t.Context(), "EXEC sp_releaseapplock @Resource = N'leasehold schema', @LockOwner = N'Session'; SELECT @p1;", 0)
		require.NoError(t, err)
		require.NoError(t, <-gate, "it waits its turn")
	})
}
