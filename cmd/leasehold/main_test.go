package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/procgroup"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/sqlite"
)

// The test binary is also the tool, and its supervisor.
func TestMain(m *testing.M) {
	procgroup.Main()
	testscript.Main(heedful{m}, map[string]func(){
		"leasehold":      main,
		"signal-at-once": signalAtOnce,
	})
}

// heedful runs the tests with no signal ignored: under nohup, or behind a shell's &, every process of theirs would inherit that.
type heedful struct{ *testing.M }

func (m heedful) Run() int {
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig) // a handler, unlike its absence, is not inherited
		}
	}
	return m.M.Run()
}

func TestScripts(t *testing.T) {
	about := map[string]string{
		"CLI-04-exit-codes":      "CLI-04 every way to end has its exit code",
		"CLI-07-arguments":       "CLI-07 odd arguments reach the command untouched",
		"CLI-10-list-show-break": "CLI-10 who holds a lock, and how to break it",
		"CON-07-passwords":       "CON-07 passwords",
	}
	files, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(cmp.Or(about[name], name), func(t *testing.T) { runScript(t, file) })
		delete(about, name)
	}
	require.Empty(t, about, "scripts that are not there")
}

func runScript(t *testing.T, file string) {
	testscript.Run(t, testscript.Params{
		Files:               []string{file},
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("LEASEHOLD_STORE", "sqlite:"+filepath.Join(env.WorkDir, "leases.db"))
			env.Setenv("LEASEHOLD_HELD", "")
			env.Setenv("TZ", "UTC")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":  scriptCode,
			"row":   scriptRow,
			"await": scriptAwait,
			"lock":  scriptLock,
		},
	})
}

// scriptCode runs a command and expects an exit code: code 75 leasehold run …
func scriptCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N command [arg…]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// scriptRow writes a row into a store, whoever held it before it is gone: row FILE NAME OWNER TTL [NOTE]
func scriptRow(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 || len(args) > 5 {
		ts.Fatalf("usage: row file name owner ttl [note]")
	}
	ttl, err := time.ParseDuration(args[3])
	ts.Check(err)
	st, err := sqlite.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	defer st.Close()
	_, err = st.Acquire(context.Background(), store.Claim{
		Name: args[1], Owner: args[2], TTL: ttl, Metadata: strings.Join(args[4:], ""),
	})
	ts.Check(err)
}

// scriptAwait waits for a file, or with ! for a row of that name to expire: await FILE | ! await FILE NAME
func scriptAwait(ts *testscript.TestScript, neg bool, args []string) {
	done := func() bool {
		_, err := os.Stat(ts.MkAbs(args[0]))
		return err == nil
	}
	if neg {
		st, err := sqlite.Open(ts.MkAbs(args[0]))
		ts.Check(err)
		defer st.Close()
		done = func() bool {
			l, err := st.Get(context.Background(), args[1])
			return err != nil || l.Left <= 0
		}
	}
	for end := time.Now().Add(10 * time.Second); !done(); {
		if time.Now().After(end) {
			ts.Fatalf("waited too long for %v", args)
		}
		time.Sleep(time.Millisecond) // between looks at another process; nothing depends on its length
	}
}

// inProcess runs the tool in this process.
func inProcess(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	stdin, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer stdin.Close()
	outFile, errFile := tempFile(t), tempFile(t)
	code = run(t.Context(), args, env, stdin, outFile, errFile)
	return code, contents(t, outFile), contents(t, errFile)
}

func tempFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func contents(t *testing.T, f *os.File) string {
	t.Helper()
	_, err := f.Seek(0, io.SeekStart)
	require.NoError(t, err)
	var b bytes.Buffer
	_, err = b.ReadFrom(f)
	require.NoError(t, err)
	return b.String()
}
