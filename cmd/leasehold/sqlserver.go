package main

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/microsoft/go-mssqldb/azuread"
	"github.com/spf13/cobra"

	"github.com/aaravsoft/leasehold/store/mssql"
)

const (
	passwordVar     = "LEASEHOLD_PASSWORD"
	passwordFileVar = "LEASEHOLD_PASSWORD_FILE"
)

// sqlServerFlags are those of SQL Server alone.
type sqlServerFlags struct {
	schema, table, passwordFile string
	replicas                    []string
}

func (f *sqlServerFlags) add(root *cobra.Command) {
	flags := root.PersistentFlags()
	flags.StringVar(&f.schema, "schema", "", "SQL Server: schema of the table (default lease)")
	flags.StringVar(&f.table, "table", "", "SQL Server: the table (default Leases)")
	flags.StringVar(&f.passwordFile, "password-file", "", "SQL Server: file with the password (default $"+passwordFileVar+", else the password in $"+passwordVar+")")
	flags.StringArrayVar(&f.replicas, "replica", nil, "SQL Server: URL of a node that may become primary, the present one included; all of them must confirm a lock (repeat it for each)")
}

// refuse reports flags that mean nothing to another kind of store.
func (f *sqlServerFlags) refuse(root *cobra.Command) error {
	for _, name := range []string{"schema", "table", "password-file", "replica"} {
		if root.PersistentFlags().Changed(name) {
			return usagef("--%s is for sqlserver:// stores", name)
		}
	}
	return nil
}

// server is a store on SQL Server with what it does not close itself.
type server struct {
	*mssql.Store
	dsn      connection
	replicas []*sql.DB
}

func (s *server) Close() error {
	err := s.Store.Close()
	for _, db := range s.replicas {
		err = errors.Join(err, db.Close())
	}
	return err
}

func openSQLServer(a *app, rest string) (leases, error) {
	dsn, err := a.connection("the store's URL", "sqlserver:"+rest)
	if err != nil {
		return nil, err
	}
	cfg := mssql.Config{Schema: a.server.schema, Table: a.server.table}
	s := &server{dsn: dsn}
	for i, replica := range a.server.replicas {
		other, err := a.replica(fmt.Sprintf("the URL of replica %d", i+1), replica, dsn)
		if err == nil && other.azure() {
			var db *sql.DB
			db, err = sql.Open(azuread.DriverName, other.String())
			s.replicas = append(s.replicas, db)
			cfg.ReplicaDBs = append(cfg.ReplicaDBs, db)
		} else if err == nil {
			cfg.Replicas = append(cfg.Replicas, other.String())
		}
		if err != nil {
			return nil, err
		}
	}
	if s.Store, err = dsn.open(cfg); err != nil {
		return nil, err
	}
	return s, nil
}

// connection is a parsed URL of a server, with its password.
type connection struct{ *url.URL }

// azure says that the login is one of Azure AD.
func (c connection) azure() bool { return c.Query().Has("fedauth") }

func (c connection) open(cfg mssql.Config) (*mssql.Store, error) {
	if !c.azure() {
		return mssql.Open(c.String(), cfg)
	}
	connector, err := azuread.NewConnector(c.String())
	if err != nil { // it may quote the URL
		return nil, misconfiguredf("the driver cannot use the login of the store's URL (not shown, it may hold a password): check fedauth and what it needs")
	}
	return mssql.OpenConnector(connector, cfg)
}

// silence is how long the driver waits for a server that says nothing, unless the URL says otherwise, in seconds.
const silence = "12"

// connection parses a URL, and puts the password in that is kept elsewhere. what names the URL, which is never shown.
func (a *app) connection(what, target string) (connection, error) {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "sqlserver" || u.Host == "" {
		return connection{}, misconfiguredf("%s (not shown, it may hold a password) is none: expected is sqlserver://USER@HOST:PORT?database=NAME, "+
			"with special characters percent-encoded", what)
	}
	query := u.Query()
	if query.Has("fedauth") && !query.Has("connection timeout") {
		query.Set("connection timeout", silence)
		u.RawQuery = query.Encode()
	}
	password, source, err := a.password()
	if err != nil || source == "" {
		return connection{u}, err
	}
	switch _, has := u.User.Password(); {
	case has:
		return connection{}, misconfiguredf("there is a password in %s and another one in %s: leave one out", what, source)
	case u.User.Username() == "":
		return connection{}, misconfiguredf("there is a password in %s, but %s names no user: sqlserver://USER@HOST", source, what)
	}
	u.User = url.UserPassword(u.User.Username(), password)
	return connection{u}, nil
}

// replica is the connection to a replica: with the login of the store if it has none of its own.
func (a *app) replica(what, target string, of connection) (connection, error) {
	u, err := url.Parse(target)
	if err == nil && u.User == nil && u.Scheme == "sqlserver" && u.Host != "" {
		u.User = of.User
		return connection{u}, nil
	}
	return a.connection(what, target)
}

// password is the one that is kept outside of the URL, and where that is.
func (a *app) password() (password, source string, err error) {
	file, source := a.server.passwordFile, "--password-file"
	if file == "" {
		file, _ = a.env.lookup(passwordFileVar)
		source = "$" + passwordFileVar
	}
	if file == "" {
		password, _ = a.env.lookup(passwordVar)
		if password == "" {
			return "", "", nil
		}
		return password, "$" + passwordVar, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", "", misconfiguredf("cannot read the password file that %s names: %w", source, err)
	}
	password = strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	if password == "" {
		return "", "", misconfiguredf("the password file that %s names is empty", source)
	}
	return password, source, nil
}

// withoutPassword is the URL of a store as the command may know it.
func withoutPassword(target string) string {
	if !hasPassword(target) {
		return target
	}
	u, err := url.Parse(target)
	if err != nil {
		return ""
	}
	u.User = url.User(u.User.Username())
	return u.String()
}
