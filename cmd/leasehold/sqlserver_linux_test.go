package main

import (
	"bufio"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/simtest"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/mssql"
)

// onServer is the environment of a tool that uses a simulated server, with its table if that is wanted.
func onServer(t *testing.T, withTable bool) (*mssqlsim.Server, []string) {
	t.Helper()
	sim := simtest.Run(t, mssqlsim.Options{})
	env := []string{"PATH=" + os.Getenv("PATH"), storeVar + "=" + sim.DSNFor("app", secret)}
	if withTable {
		code, out, errs := inProcess(t, env, "schema", "--apply")
		require.Zero(t, code, errs)
		require.Equal(t, "the table is there, and as it must be\n", out)
		require.Empty(t, errs)
	}
	return sim, env
}

// holdX has web1/1 hold "x".
func holdX(t *testing.T, sim *mssqlsim.Server) {
	t.Helper()
	st, err := mssql.Open(sim.DSNFor("app", secret), mssql.Config{})
	require.NoError(t, err)
	defer st.Close()
	_, err = st.Acquire(t.Context(), store.Claim{Name: "x", Owner: "web1/1", TTL: time.Hour})
	require.NoError(t, err)
}

func TestSQLServer(t *testing.T) {
	t.Parallel()

	t.Run("run, list, show and break", func(t *testing.T) {
		t.Parallel()
		sim, env := onServer(t, true)
		code, _, errs := inProcess(t, env, "show", "nightly")
		assert.Equal(t, codeNoMatch, code, errs)
		code, _, errs = inProcess(t, env, "run", "nightly", "--", "true")
		assert.Zero(t, code)
		assert.Empty(t, errs)

		st, err := mssql.Open(sim.DSN(), mssql.Config{})
		require.NoError(t, err)
		defer st.Close()
		other := store.Claim{Name: "nightly", Owner: store.NewOwner("web1"), TTL: time.Hour, Metadata: "by hand"}
		_, err = st.Acquire(t.Context(), other)
		require.NoError(t, err)
		code, _, errs = inProcess(t, env, "run", "nightly", "-n", "--", "true")
		assert.Equal(t, codeHeld, code)
		assert.Contains(t, errs, other.Owner)
		code, out, _ := inProcess(t, env, "list")
		assert.Zero(t, code)
		assert.Contains(t, out, "nightly")
		code, out, _ = inProcess(t, env, "show", "nightly")
		assert.Zero(t, code)
		assert.Contains(t, out, other.Owner)
		code, _, errs = inProcess(t, env, "break", "nightly", "--owner", other.Owner, "--now")
		assert.Zero(t, code, errs)
		_, err = st.Get(t.Context(), "nightly")
		assert.ErrorIs(t, err, store.ErrNotFound)
	})

	t.Run("SQL-07 no table: it says how to create it", func(t *testing.T) {
		t.Parallel()
		_, env := onServer(t, false)
		began := time.Now()
		code, _, errs := inProcess(t, env, "run", "nightly", "--", "true")
		assert.Equal(t, codeMisconfigured, code)
		assert.Contains(t, errs, "leasehold schema --apply")
		assert.Less(t, time.Since(began), 10*time.Second, "it does not wait for a table")
	})

	t.Run("a server that is down is unavailable", func(t *testing.T) {
		t.Parallel()
		sim, env := onServer(t, true)
		sim.Close()
		for _, args := range [][]string{{"run", "nightly", "-n", "--", "true"}, {"list"}, {"show", "nightly"}} {
			code, _, errs := inProcess(t, env, args...)
			assert.Equal(t, codeUnavailable, code, errs)
			assert.NotContains(t, errs, secret)
		}
	})

	t.Run("a login that is refused is misconfigured", func(t *testing.T) {
		t.Parallel()
		sim, env := onServer(t, true)
		sim.Node.AddUser("app", "another password")
		code, _, errs := inProcess(t, env, "run", "nightly", "--", "true")
		assert.Equal(t, codeMisconfigured, code)
		assert.Contains(t, errs, "refused the login")
		assert.NotContains(t, errs, secret)
	})

	t.Run("a certificate that nobody knows is misconfigured", func(t *testing.T) {
		t.Parallel()
		sim := simtest.Run(t, mssqlsim.Options{Wire: tds.Options{Encryption: tds.EncryptionRequired}})
		code, _, errs := inProcess(t, []string{storeVar + "=" + sim.DSN("encrypt=true")}, "list")
		assert.Equal(t, codeMisconfigured, code, errs)
		assert.Contains(t, errs, "certificate")
	})

	t.Run("a login of Azure AD is asked for on the wire", func(t *testing.T) {
		t.Parallel()
		sim := simtest.Run(t, mssqlsim.Options{Wire: tds.Options{Encryption: tds.EncryptionRequired}})
		for _, key := range []string{"fedauth", "FedAuth"} {
			dsn := sim.DSN("encrypt=true", "TrustServerCertificate=true", key+"=ActiveDirectoryMSI")
			code, _, errs := inProcess(t, []string{storeVar + "=" + dsn}, "list")
			assert.Equal(t, codeMisconfigured, code)
			assert.Contains(t, errs, "federated authentication is not supported by the server") // nor by the simulated one
		}
	})

	t.Run("another table", func(t *testing.T) {
		t.Parallel()
		sim, env := onServer(t, true)
		sim.Node.AddOwner("app", secret)
		flags := []string{"--schema", "ops", "--table", "My Locks"}
		code, _, errs := inProcess(t, env, append(flags, "schema", "--apply", "--grant", "app")...)
		require.Zero(t, code, errs)
		code, _, errs = inProcess(t, env, append(flags, "run", "nightly", "--", "true")...)
		assert.Zero(t, code, errs)
		st, err := mssql.Open(sim.DSNFor("app", secret), mssql.Config{Schema: "ops", Table: "My Locks"})
		require.NoError(t, err)
		defer st.Close()
		_, err = st.Acquire(t.Context(), store.Claim{Name: "other", Owner: "web1/1", TTL: time.Hour})
		require.NoError(t, err)
		code, out, errs := inProcess(t, env, append(flags, "show", "other")...)
		assert.Zero(t, code, errs)
		assert.Contains(t, out, "leasehold break other --owner web1/1 --schema ops --table 'My Locks'\n")
		code, _, errs = inProcess(t, env, "--schema", "nowhere", "list")
		assert.Equal(t, codeMisconfigured, code, errs)
	})

	t.Run("the command that breaks it has no password", func(t *testing.T) {
		t.Parallel()
		sim, env := onServer(t, true)
		holdX(t, sim)
		code, out, _ := inProcess(t, env, "show", "x", "--store", sim.DSNFor("app", secret))
		assert.Zero(t, code)
		safe, _ := withoutPassword(sim.DSNFor("app", secret))
		assert.Contains(t, out, "leasehold break x --owner web1/1 --store "+shellQuote(safe)+"\n")
		assert.NotContains(t, out, secret)
	})

	t.Run("watching survives an outage", func(t *testing.T) {
		t.Parallel()
		sim, env := onServer(t, true)
		holdX(t, sim)
		read, write, err := os.Pipe()
		require.NoError(t, err)
		defer read.Close()
		errs := tempFile(t)
		ended := make(chan int, 1)
		go func() { ended <- run(t.Context(), []string{"list", "--watch", "--json"}, env, os.Stdin, write, errs) }()
		lines := json.NewDecoder(read)
		var one row
		require.NoError(t, lines.Decode(&one))
		sim.Node.Fail(engine.BeforeStatement, engine.Match{Contains: "TOP (500)"}, 1, sqlerr.New(40613, "Database is not currently available."))
		require.NoError(t, lines.Decode(&one))
		require.NoError(t, lines.Decode(&one))
		read.Close()
		assert.Equal(t, codeSystem, <-ended)
		assert.Contains(t, contents(t, errs), "Database is not currently available.")
	})

	t.Run("replicas must confirm", func(t *testing.T) {
		t.Parallel()
		sim, env := onServer(t, true)
		replica, err := url.Parse(sim.DSN())
		require.NoError(t, err)
		replica.User = nil // the login is that of the store
		code, _, errs := inProcess(t, env, "run", "nightly", "-n", "--ttl", "2s", "--replica", replica.String(), "--", "true")
		assert.Equal(t, codeUnavailable, code, "the primary alone confirms nothing")
		assert.Contains(t, errs, "read-only")
		code, _, errs = inProcess(t, env, "list", "--replica", "sqlserver://u:"+secret+"@[bad")
		assert.Equal(t, codeMisconfigured, code)
		assert.NotContains(t, errs, secret)
	})

	t.Run("replicas with the login of the store, or its password, confirm", func(t *testing.T) {
		t.Parallel()
		group := simtest.RunGroup(t, mssqlsim.GroupOptions{Nodes: []mssqlsim.NodeOptions{
			{Name: "a"}, {Name: "b", Readable: mssqlsim.ReadableByAll},
		}})
		for _, node := range []string{"a", "b"} {
			group.Node(node).Node.AddOwner("app", secret)
		}
		address := func(dsn string, login *url.Userinfo) string {
			u, err := url.Parse(dsn)
			require.NoError(t, err)
			u.User = login
			return u.String()
		}
		env := []string{storeVar + "=" + address(group.DSN(), url.UserPassword("app", secret))}
		code, _, errs := inProcess(t, env, "schema", "--apply")
		require.Zero(t, code, errs)
		confirmed := func(second *url.Userinfo) (int, string) {
			code, _, errs := inProcess(t, env, "run", "nightly", "-n", "--ttl", "2s",
				"--replica", address(group.NodeDSN("a"), nil), "--replica", address(group.NodeDSN("b"), second), "--", "true")
			assert.NotContains(t, errs, secret)
			return code, errs
		}
		code, errs = confirmed(url.User("app"))
		assert.Zero(t, code, errs)
		assert.Empty(t, errs)
		code, errs = confirmed(url.UserPassword("app", "another"))
		assert.Equal(t, codeUnavailable, code)
		assert.Contains(t, errs, "the password in --replica can be seen")
	})
}

func TestSchemaScript(t *testing.T) {
	t.Parallel()
	code, out, errs := inProcess(t, nil, "schema", "--grant", "the app", "--table", "Locks")
	require.Zero(t, code, errs)
	assert.Contains(t, out, "CREATE TABLE [lease].[Locks]")
	assert.Contains(t, out, "GRANT SELECT, INSERT, UPDATE, DELETE ON [lease].[Locks] TO [the app];")
	path := filepath.Join(t.TempDir(), "x.db")
	defer func() { assert.NoFileExists(t, path) }()
	for _, args := range [][]string{
		{"schema", "--grant", ""},
		{"schema", "--apply"},
		{"schema", "--apply", "--store", "sqlite:" + path},
		{"list", "--table", "x", "--store", "sqlite:" + path},
		{"schema", "more"},
	} {
		code, _, errs := inProcess(t, nil, args...)
		assert.Equal(t, codeUsage, code, "%v: %s", args, errs)
	}
}

func TestPassword(t *testing.T) {
	t.Parallel()
	sim, _ := onServer(t, true)
	sim.Node.AddUser("app", secret)
	sim.Node.AddOwner("sa", mssqlsim.Password)
	target, err := url.Parse(sim.DSN())
	require.NoError(t, err)
	with := func(user *url.Userinfo) string {
		u := *target
		u.User = user
		return u.String()
	}
	user := with(url.User("app"))
	folder := t.TempDir()
	file, empty := filepath.Join(folder, "password"), filepath.Join(folder, "empty")
	require.NoError(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	code, _, errs := inProcess(t, []string{storeVar + "=" + with(url.UserPassword("sa", mssqlsim.Password))}, "schema", "--apply", "--grant", "app")
	require.Zero(t, code, errs)

	for name, test := range map[string]struct {
		env, args []string
		code      int
	}{
		"in the URL":                    {env: []string{storeVar + "=" + with(url.UserPassword("app", secret))}},
		"in the environment":            {env: []string{storeVar + "=" + user, passwordVar + "=" + secret}},
		"in a file":                     {env: []string{storeVar + "=" + user}, args: []string{"--password-file", file}},
		"in a file of the environment":  {env: []string{storeVar + "=" + user, passwordFileVar + "=" + file}},
		"the file comes first":          {env: []string{storeVar + "=" + user, passwordFileVar + "=" + file, passwordVar + "=wrong"}},
		"the flag comes first":          {env: []string{storeVar + "=" + user, passwordFileVar + "=" + empty}, args: []string{"--password-file", file}},
		"none":                          {env: []string{storeVar + "=" + user}, code: codeMisconfigured},
		"two":                           {env: []string{storeVar + "=" + with(url.UserPassword("app", secret)), passwordVar + "=" + secret}, code: codeMisconfigured},
		"no user":                       {env: []string{storeVar + "=" + with(nil), passwordVar + "=" + secret}, code: codeMisconfigured},
		"no file":                       {env: []string{storeVar + "=" + user}, args: []string{"--password-file", file + "x"}, code: codeMisconfigured},
		"an empty file":                 {env: []string{storeVar + "=" + user}, args: []string{"--password-file", empty}, code: codeMisconfigured},
		"a URL without a host":          {env: []string{storeVar + "=sqlserver:app:" + secret}, code: codeMisconfigured},
		"a URL that cannot be parsed":   {env: []string{storeVar + "=sqlserver://u:" + secret + "@[bad].host?database=d"}, code: codeMisconfigured},
		"in a parameter":                {env: []string{storeVar + "=" + with(nil) + "&User+ID=app&Password=" + url.QueryEscape(secret)}},
		"a user in a parameter":         {env: []string{storeVar + "=" + with(nil) + "&User+ID=app", passwordVar + "=" + secret}},
		"two, and one in a parameter":   {env: []string{storeVar + "=" + user + "&password=" + url.QueryEscape(secret), passwordVar + "=" + secret}, code: codeMisconfigured},
		"a login of Azure in capitals":  {env: []string{storeVar + "=" + with(url.UserPassword("app", secret)) + "&FedAuth=nonsense"}, code: codeMisconfigured},
		"a login of Azure without ways": {env: []string{storeVar + "=" + with(url.UserPassword("app", secret)) + "&fedauth=nonsense"}, code: codeMisconfigured},
	} {
		t.Run("CON-07 "+name, func(t *testing.T) {
			t.Parallel()
			code, out, errs := inProcess(t, test.env, append(test.args, "list")...)
			assert.Equal(t, test.code, code, errs)
			assert.NotContains(t, out+errs, secret)
			if test.code != 0 {
				assert.NotEmpty(t, errs)
			}
		})
	}
}

// TestImportersAreSpared: who imports the library does not link what the command needs for Azure.
func TestImportersAreSpared(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "../../store/mssql", "../../mutex", "../../mutex/health").Output()
	require.NoError(t, err)
	assert.Contains(t, string(out), "go-mssqldb")
	assert.NotContains(t, string(out), "azure")
	assert.NotContains(t, string(out), "cobra")
}

// TestProcessesOnServer has four processes of the tool run their commands on one server, one at a time.
func TestProcessesOnServer(t *testing.T) {
	t.Parallel()
	_, env := onServer(t, true)
	log := filepath.Join(t.TempDir(), "log")
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 3 {
				cmd := exec.CommandContext(t.Context(), "leasehold", "run", "nightly", "-q", "--", "sh", "-c",
					`echo in >> "$0"; env | grep -c S3cret >> "$0"; echo out >> "$0"`, log)
				cmd.Env = env
				out, err := cmd.CombinedOutput()
				assert.NoError(t, err, "%s", out)
			}
		})
	}
	wait.Wait()
	f, err := os.Open(log)
	require.NoError(t, err)
	defer f.Close()
	var got []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		got = append(got, lines.Text())
	}
	assert.Equal(t, strings.Repeat("in 0 out ", 12), strings.Join(got, " ")+" ")
}
