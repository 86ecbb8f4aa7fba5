package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/aaravsoft/leasehold/store"
)

// order is what run is asked to do.
type order struct {
	name     string
	command  []string
	try      bool
	wait     time.Duration // negative: as long as it takes
	heldCode int
	ttl      time.Duration
	grace    time.Duration
	metadata string
	instance string
}

const runLong = `Run COMMAND while holding the lock NAME. The lock is taken first, renewed while the
command runs, and given back when the command and all processes of its process
group are gone. There is no shell in between: COMMAND gets its arguments as they
are, and standard input, output and error untouched.

If somebody else holds the lock, run waits, and says for whom; --try and --wait
limit that. One attempt may take 3/10 of the TTL, at most 10 s, if the store does
not answer.

If the lock cannot be renewed, the command gets SIGTERM in time, and SIGKILL
before anybody else can get the lock: with the default TTL and grace, SIGTERM 18.5 s
after the last success, and SIGKILL before 27 s. If the lock is taken away (leasehold
break), or leasehold itself is killed, the command gets SIGKILL at once; if
leasehold is stopped, when trust in the lock ends. A process that leaves the
process group (setsid) is not covered.

HUP, INT, QUIT, TERM, USR1, USR2 and WINCH are forwarded to the process group.
After INT, QUIT or TERM the command has --grace to end, and the lock is kept
meanwhile; a second INT kills it at once.

The command finds in its environment
  LEASEHOLD_NAME    the lock's name
  LEASEHOLD_OWNER   this grant, as list and show tell it
  LEASEHOLD_TOKEN   the fencing token: a number that is greater for every later
                    holder; a resource that refuses smaller ones is safe from a
                    holder that was paused
  LEASEHOLD_HELD    the grants of all enclosing runs, one a line
and neither LEASEHOLD_PASSWORD nor a password in LEASEHOLD_STORE. A command that
runs leasehold itself finds the store by LEASEHOLD_STORE, not by the flags of this
run, and wants the password in a file.

Exit codes
  of the command, or 128+N if signal N ended it
  64   wrong usage, or NAME is already held by an enclosing run
  69   the store was not available
  71   the system could not start a process
  75   somebody else holds the lock (--try, --wait; --held-code changes it)
  78   something must be set up differently
  79   the lock was lost while the command ran
  126  COMMAND cannot be executed
  127  COMMAND was not found
  129, 130, 131, 143
       HUP, INT, QUIT or TERM came before the command was started

Left out on purpose
  shared and counted locks    two holders cannot both be the one that is in time
  -c 'SHELL COMMAND'          say sh -c '…' and see that a shell is there
  holding without a command   nobody would be there to stop when the lock is lost`

const runExample = `  # cron: one of all machines runs it, the others skip it silently
  LEASEHOLD_STORE=sqlserver://app@db.example.com?database=app
  LEASEHOLD_PASSWORD_FILE=/etc/leasehold/password
  0 3 * * *  leasehold run nightly -n -E 0 -- /usr/local/bin/nightly-report

  # a systemd unit of several on one machine: one works, the others wait to take over
  [Service]
  Environment=LEASEHOLD_STORE=sqlite:/var/lib/app/leases.db
  ExecStart=/usr/bin/leasehold run app-leader --metadata %H -- /usr/bin/app
  Restart=always
  RestartPreventExitStatus=64 78
  KillMode=mixed

  # a Kubernetes CronJob: one run at a time, whatever concurrencyPolicy sees
  containers:
  - name: report
    image: example/report
    env:
    - {name: LEASEHOLD_STORE, valueFrom: {secretKeyRef: {name: leasehold, key: store}}}
    - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    command: [leasehold, run, report, --wait, 10m, --instance, $(POD_NAME), --, /report]

  # a script that tells the outcomes apart
  leasehold run deploy --wait 5m --metadata "deploy by $USER" -- ./deploy.sh
  case $? in
    0)  echo deployed ;;
    75) echo "somebody else deploys" ;;
    79) echo "the lock was lost, the deployment was stopped half-way" >&2; exit 1 ;;
    *)  exit 1 ;;
  esac`

func (a *app) newRun() *cobra.Command {
	o := order{wait: -1}
	var wait time.Duration
	var silent, chatty bool
	cmd := &cobra.Command{
		Use:     "run [flags] NAME -- COMMAND [ARG…]",
		Short:   "Run a command while holding a lock",
		Long:    runLong,
		Example: runExample,
		Args: func(cmd *cobra.Command, args []string) (err error) {
			o.name, o.command, err = splitArgs(args, cmd.ArgsLenAtDash())
			return err
		},
		ValidArgsFunction:     a.completeName,
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			limited := cmd.Flags().Changed("wait")
			switch {
			case silent && chatty:
				return usagef("--quiet and --verbose exclude each other")
			case o.try && limited:
				return usagef("--try and --wait exclude each other")
			case limited && wait < 0:
				return usagef("--wait is %v; it must not be negative", wait)
			case silent:
				a.notices.loud = quiet
			case chatty:
				a.notices.loud = verbose
			}
			if limited {
				o.wait = wait
			}
			if err := o.check(); err != nil {
				return err
			}
			return a.runOrder(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&o.try, "try", "n", false, "do not wait for the lock")
	f.DurationVarP(&wait, "wait", "w", 0, "wait for the lock, at most so long (default: as long as it takes)")
	f.IntVarP(&o.heldCode, "held-code", "E", codeHeld, "exit code if somebody else holds the lock; 0 also means that it is not worth a message")
	f.DurationVar(&o.ttl, "ttl", 30*time.Second, "how long the lock outlives a crash; 200ms to 24h")
	f.DurationVar(&o.grace, "grace", 10*time.Second, "from a forwarded signal to SIGKILL")
	f.StringVar(&o.metadata, "metadata", "", "a note for those who wait or list")
	f.StringVar(&o.instance, "instance", "", "who holds the lock, for people (default HOST:PID)")
	f.BoolVarP(&silent, "quiet", "q", false, "only errors")
	f.BoolVarP(&chatty, "verbose", "v", false, "say what is done")
	return cmd
}

// splitArgs takes NAME -- COMMAND ARG… apart; dash is how many arguments were before the "--".
func splitArgs(args []string, dash int) (name string, command []string, err error) {
	switch {
	case len(args) == 0 || dash == 0:
		return "", nil, usagef("NAME is missing: leasehold run NAME -- COMMAND")
	case dash < 0 && len(args) == 1:
		return "", nil, usagef("the command is missing: leasehold run %s -- COMMAND", shellQuote(args[0]))
	case dash < 0:
		return "", nil, usagef("put -- before the command: leasehold run %s -- %s …", shellQuote(args[0]), shellQuote(args[1]))
	case dash > 1:
		return "", nil, usagef("one NAME before the --: what is %q?", args[1])
	case len(args) == 1:
		return "", nil, usagef("there is no command after the --")
	}
	return args[0], args[1:], nil
}

// check finds what is wrong before a store is opened.
func (o *order) check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.heldCode < 0 || o.heldCode > 255 {
		bad("--held-code is %d; it must be from 0 to 255", o.heldCode)
	}
	if o.ttl <= 0 {
		bad("--ttl is %v; it must be positive", o.ttl)
	}
	if o.grace < 0 {
		bad("--grace is %v; it must not be negative", o.grace)
	}
	if o.try {
		o.wait = 0
	}
	owner := o.instance
	if owner == "" {
		owner = "host"
	} else if err := store.ValidateInstance(owner); err != nil {
		bad("--instance: %w", err)
		owner = "host"
	}
	claim := store.Claim{Name: o.name, Owner: store.NewOwner(owner), TTL: time.Second, Metadata: o.metadata}
	if err := claim.Validate(); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return &exitError{codeUsage, errors.Join(errs...)}
	}
	return nil
}
