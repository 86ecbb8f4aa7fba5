package main

import (
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"

	mssqldb "github.com/microsoft/go-mssqldb"
	"github.com/microsoft/go-mssqldb/azuread"
	"github.com/spf13/cobra"

	"github.com/aaravsoft/leasehold/store/mssql"
)

const (
	passwordVar     = "LEASEHOLD_PASSWORD"
	passwordFileVar = "LEASEHOLD_PASSWORD_FILE"

	silence            = "12" // seconds that the driver waits for a server that says nothing, unless the URL says otherwise
	replicaConnections = 4    // to one replica
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
	at       address
	replicas []*sql.DB
}

func (s *server) Close() error { return errors.Join(s.Store.Close(), s.closeReplicas()) }

func (s *server) closeReplicas() (err error) {
	for _, db := range s.replicas {
		err = errors.Join(err, db.Close())
	}
	return err
}

func openSQLServer(a *app, rest string) (leases, error) {
	at, err := a.address("the store's URL", "sqlserver:"+rest)
	if err != nil {
		return nil, err
	}
	cfg := mssql.Config{Schema: a.server.schema, Table: a.server.table}
	s := &server{at: at}
	for i, replica := range a.server.replicas {
		if err = a.addReplica(s, &cfg, fmt.Sprintf("the URL of replica %d", i+1), replica); err != nil {
			break
		}
	}
	if err == nil {
		s.Store, err = at.open(cfg)
	}
	if err != nil {
		return nil, errors.Join(err, s.closeReplicas())
	}
	return s, nil
}

// addReplica makes a replica one of those that must confirm. Without a login, or a password, it has the store's.
func (a *app) addReplica(s *server, cfg *mssql.Config, what, target string) error {
	if hasPassword(target) {
		a.notices.fault("the password in --replica can be seen in the list of processes: a replica without one has the store's")
	}
	at, ok := parseAddress(target)
	if !ok {
		return notAnAddress(what)
	}
	if at.login == nil {
		at.login = s.at.login
	} else if _, has := at.password(); !has {
		if password, has := s.at.password(); has {
			at = at.withPassword(password)
		}
	}
	if !at.azure() {
		cfg.Replicas = append(cfg.Replicas, at.String())
		return nil
	}
	connector, err := at.connector()
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(replicaConnections)
	s.replicas = append(s.replicas, db)
	cfg.ReplicaDBs = append(cfg.ReplicaDBs, db)
	return nil
}

func (a address) open(cfg mssql.Config) (*mssql.Store, error) {
	if !a.azure() {
		return mssql.Open(a.String(), cfg)
	}
	connector, err := a.connector()
	if err != nil {
		return nil, err
	}
	return mssql.OpenConnector(connector, cfg)
}

// connector logs in by Azure AD, if the parameters say so. It is given what [mssql.Open] gives to others.
func (a address) connector() (*mssqldb.Connector, error) {
	query := maps.Clone(a.query)
	for key, value := range map[string]string{"app name": "leasehold", "connection timeout": silence} {
		if !query.Has(key) {
			query.Set(key, value)
		}
	}
	a.query = query
	connector, err := azuread.NewConnector(a.String())
	if err != nil { // it may quote the URL
		return nil, misconfiguredf("the driver cannot use the URL of a server (not shown, it may hold a password): check fedauth, if there is any, and what it needs")
	}
	return connector, nil
}

func notAnAddress(what string) error {
	return misconfiguredf("%s (not shown, it may hold a password) cannot be used: expected is sqlserver://USER@HOST:PORT?database=NAME, "+
		"with special characters percent-encoded, nothing said twice, and no change of the password", what)
}

// address parses the URL of the store, and puts the password in that is kept elsewhere. what names the URL.
func (a *app) address(what, target string) (address, error) {
	at, ok := parseAddress(target)
	if !ok {
		return address{}, notAnAddress(what)
	}
	password, source, err := a.password()
	if err != nil || source == "" {
		return at, err
	}
	switch _, has := at.password(); {
	case has:
		return address{}, misconfiguredf("there is a password in %s and another one in %s: leave one out", what, source)
	case at.login.Username() == "" && !at.azure():
		return address{}, misconfiguredf("there is a password in %s, but %s names no user: sqlserver://USER@HOST", source, what)
	}
	return at.withPassword(password), nil
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
