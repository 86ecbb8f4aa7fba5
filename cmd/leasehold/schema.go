package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	mssqldb "github.com/microsoft/go-mssqldb"
	"github.com/spf13/cobra"

	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/mssql"
)

func (a *app) newSchema() *cobra.Command {
	var principal string
	var apply bool
	cmd := &cobra.Command{
		Use:   "schema",
		Short: "Print the script that creates the table on SQL Server, or run it",
		Long: `Print the script that creates the table of the locks on SQL Server. It may be run
any number of times: it creates what is missing and changes nothing that exists.

With --grant PRINCIPAL, also the script that gives a user or a role of the
database the rights that leasehold needs, and no others.

With --apply both are executed on the store, with a login that may create the
table; a table that exists is checked, and all that is wrong with it is said.`,
		Example: `  leasehold schema --grant app > leases.sql
  leasehold schema --apply --store 'sqlserver://admin@host?database=app' --password-file admin.password`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			granting := cmd.Flags().Changed("grant")
			script, err := a.script(principal, granting)
			if err != nil {
				return err
			}
			if !apply {
				_, err = fmt.Fprint(a.stdout, strings.Join(script, "\n"))
				return output(err)
			}
			return a.applySchema(cmd.Context(), script[1:], principal)
		},
	}
	cmd.Flags().StringVar(&principal, "grant", "", "also grant this user or role of the database what leasehold needs")
	cmd.Flags().BoolVar(&apply, "apply", false, "run it on the store instead of printing it")
	return cmd
}

// script is what creates the table and, if asked for, what grants the rights.
func (a *app) script(principal string, granting bool) ([]string, error) {
	cfg := mssql.Config{Schema: a.server.schema, Table: a.server.table}
	create, err := mssql.Schema(cfg)
	if err != nil || !granting {
		return []string{create}, err
	}
	grant, err := mssql.Grants(cfg, principal)
	return []string{create, grant}, err
}

func (a *app) applySchema(ctx context.Context, grants []string, principal string) error {
	// Asked before it is opened: to open another kind of store may create a file.
	if target, source := a.target(); source == "" || isSQLite(target) {
		return usagef("schema --apply is for a sqlserver:// store, in --store or $%s: others need nothing to be created", storeVar)
	}
	st, err := a.open()
	if err != nil {
		return err
	}
	defer st.Close()
	s := st.(*server) // there is no third kind
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	if err := s.EnsureSchema(ctx); err != nil {
		return err
	}
	done := []string{"the table is there, and as it must be"}
	for _, grant := range grants {
		if err := s.at.exec(ctx, grant); err != nil {
			return err
		}
		done = append(done, plain(principal)+" has its rights")
	}
	_, err = fmt.Fprintln(a.stdout, strings.Join(done, "; "))
	return output(err)
}

// exec runs a script on a connection of its own.
func (a address) exec(ctx context.Context, script string) error {
	connector, err := a.connector()
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	_, err = db.ExecContext(ctx, script)
	if refused, ok := errors.AsType[mssqldb.Error](err); ok {
		return misconfiguredf("the rights could not be granted: %w", refused)
	}
	if err != nil {
		return &store.UnavailableError{Op: "grant", Unclear: true, Err: err}
	}
	return nil
}
