package main

import (
	"context"
	"errors"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// app is one execution of the tool.
type app struct {
	root                  *cobra.Command
	env                   environ
	stdin, stdout, stderr *os.File
	notices               *notices
	server                sqlServerFlags
}

// run is the tool: it returns the exit code. When ctx ends it does what SIGTERM makes it do.
func run(ctx context.Context, args, env []string, stdin, stdout, stderr *os.File) int {
	a := &app{env: env, stdin: stdin, stdout: stdout, stderr: stderr, notices: newNotices(stderr)}
	defer a.notices.flush()
	a.root = a.newRoot()
	a.root.SetArgs(args)
	cmd, err := a.root.ExecuteContextC(ctx)
	code := codeOf(err)
	if err != nil && err.Error() != "" {
		a.notices.fault("%v", err)
		if code == codeUsage {
			a.notices.fault("see %s --help", cmd.CommandPath())
		}
	}
	return code
}

const rootLong = `leasehold runs a job under a lock: of all machines that share a store, one at a
time holds a name. The lock is a row with an expiry that is renewed while the
job runs. If the lock cannot be kept, the job is stopped before anybody else can
get it; if the machine dies, the row expires by itself.

The store is a table in SQL Server or Azure SQL (sqlserver://…, which leasehold
schema creates), or an SQLite file (sqlite:PATH). Without --store or
$LEASEHOLD_STORE it is a file of this user on this machine.

A password is best kept out of the URL: in a file that --password-file or
$LEASEHOLD_PASSWORD_FILE names, else in $LEASEHOLD_PASSWORD. One line end behind
it is not part of it. There must be one password only. Logins of Azure AD work as
the driver has them: sqlserver://HOST?database=NAME&fedauth=…`

const rootExample = `  leasehold run nightly -- /usr/local/bin/nightly-report
  leasehold list
  leasehold show nightly
  leasehold break nightly --owner web1:4711/7h2k9q0rmbtd4x8c`

func (a *app) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "leasehold",
		Short:         "Run a job under a lock that is shared with other machines",
		Long:          rootLong,
		Example:       rootExample,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("say what to do: run, list, show, break or schema")
		},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.Flags().Bool("version", false, "print the version") // without cobra's -v, which is run's
	root.PersistentFlags().String("store", "", storeHelp)
	a.server.add(root)
	root.AddCommand(a.newRun(), a.newList(), a.newShow(), a.newBreak(), a.newSchema(), a.newMan())
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" { // by itself it prints its help, whatever it is given, and succeeds
			cmd.RunE = func(*cobra.Command, []string) error { return usagef("name a shell: bash, zsh, fish or powershell") }
		}
	}
	return root
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
