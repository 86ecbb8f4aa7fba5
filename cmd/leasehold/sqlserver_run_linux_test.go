package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/mssql"
)

// process is a process of the tool whose command has said that it runs.
type process struct {
	*exec.Cmd
	out  *bufio.Reader
	errs *bytes.Buffer
}

// startTool starts the built tool, whose command must begin with a line on its standard output.
func startTool(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	r := &process{Cmd: exec.CommandContext(t.Context(), "leasehold", args...), errs: &bytes.Buffer{}}
	r.Env, r.Stderr = env, r.errs
	_, err := r.StdinPipe() // open until Wait: a command that reads goes on
	require.NoError(t, err)
	pipe, err := r.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, r.Start())
	r.out = bufio.NewReader(pipe)
	line, err := r.out.ReadString('\n')
	require.NoError(t, err, "%s", r.errs)
	require.Equal(t, "in\n", line)
	return r
}

// code is the exit code of the tool.
func (r *process) code() int {
	_, _ = r.out.WriteTo(&bytes.Buffer{})
	_ = r.Wait()
	return r.ProcessState.ExitCode()
}

func TestLostOnServer(t *testing.T) {
	t.Parallel()
	const job = "echo in; sleep 60 & echo $!; wait"

	for name, take := range map[string]func(t *testing.T, st *mssql.Store){
		"its row deleted": func(t *testing.T, st *mssql.Store) {
			l, err := st.Get(t.Context(), "job")
			require.NoError(t, err)
			results, err := st.Release(t.Context(), []store.Claim{{Name: l.Name, Owner: l.Owner}})
			require.NoError(t, err)
			require.NoError(t, results[0].Err)
		},
		"its lock broken": func(t *testing.T, st *mssql.Store) {
			l, err := st.Get(t.Context(), "job")
			require.NoError(t, err)
			_, err = st.Break(t.Context(), "job", l.Owner)
			require.NoError(t, err)
		},
	} {
		t.Run("CLI-02 "+name, func(t *testing.T) {
			t.Parallel()
			sim, env := onServer(t, true)
			st, err := mssql.Open(sim.DSN(), mssql.Config{})
			require.NoError(t, err)
			defer st.Close()
			r := startTool(t, env, "run", "job", "--ttl", "1s", "--", "sh", "-c", job)
			grandchild := readPID(t, r)
			take(t, st)
			assert.Equal(t, codeLost, r.code())
			assert.Contains(t, r.errs.String(), `lost`)
			assertGone(t, grandchild)
		})
	}

	t.Run("CLI-02 the server gone", func(t *testing.T) {
		t.Parallel()
		sim, env := onServer(t, true)
		r := startTool(t, env, "run", "job", "--ttl", "1s", "--grace", "100ms", "--", "sh", "-c", job)
		grandchild := readPID(t, r)
		began := time.Now()
		sim.Wire.Refuse()
		sim.Disconnect(tds.RST)
		assert.Equal(t, codeLost, r.code())
		assert.Less(t, time.Since(began), 3*time.Second)
		assert.NotContains(t, r.errs.String(), secret)
		assertGone(t, grandchild)
	})
}

func readPID(t *testing.T, r *process) int {
	t.Helper()
	line, err := r.out.ReadString('\n')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	return pid
}

func assertGone(t *testing.T, pid int) {
	t.Helper()
	assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "a process of the command is left")
}

// TestSecretsOfProcesses looks at what anybody may see of the processes, and at what the command gets.
func TestSecretsOfProcesses(t *testing.T) {
	t.Parallel()
	sim, _ := onServer(t, true)
	at, ok := parseAddress(sim.DSNFor("app", secret, "app name=x"))
	require.True(t, ok)
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte(secret+"\n"), 0o600))
	safe, _ := at.withoutSecrets()
	parameters := *at.url
	parameters.RawQuery = url.Values{"User ID": {"app"}, "Password": {secret}, "database": at.query["database"], "encrypt": {"disable"}}.Encode()

	for name, test := range map[string]struct{ env, args []string }{
		"in the URL":         {env: []string{storeVar + "=" + at.String()}},
		"in a parameter":     {env: []string{storeVar + "=" + parameters.String()}},
		"in the environment": {env: []string{storeVar + "=" + safe.String(), passwordVar + "=" + secret}},
		"in a file":          {env: []string{storeVar + "=" + safe.String()}, args: []string{"--password-file", file}},
		"of a store that is not used, and cannot be read": {
			env: []string{storeVar + "=server=x;user id=u;password=" + secret}, args: []string{"--store", safe.String(), "--password-file", file},
		},
	} {
		t.Run("CON-07 "+name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"run", "job " + name, "-v"}, test.args...)
			r := startTool(t, append(test.env, "PATH="+os.Getenv("PATH")), append(args, "--", "sh", "-c", "echo in; read line")...)
			defer func() {
				_ = r.Process.Signal(syscall.SIGTERM)
				r.code()
				assert.NotContains(t, r.errs.String(), "S3cret")
			}()

			below := descendants(t, r.Process.Pid)
			require.GreaterOrEqual(t, len(below), 2, "the supervisor, and the command")
			assert.NotContains(t, proc(t, r.Process.Pid, "cmdline"), secret)
			for _, pid := range below {
				assert.NotEmpty(t, proc(t, pid, "cmdline"))
				assert.NotContains(t, proc(t, pid, "cmdline")+proc(t, pid, "environ"), "S3cret")
			}
		})
	}
}

func proc(t *testing.T, pid int, what string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), what))
	require.NoError(t, err)
	return string(text)
}

// descendants are the processes below another one.
func descendants(t *testing.T, pid int) (all []int) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	children := map[int][]int{}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // a process of somebody else that has ended
		}
		var child, parent int
		var state string
		_, rest, _ := strings.Cut(string(text[bytes.LastIndexByte(text, ')'):]), ") ")
		_, err = fmt.Sscan(rest, &state, &parent)
		require.NoError(t, err)
		_, err = fmt.Sscan(string(text), &child)
		require.NoError(t, err)
		children[parent] = append(children[parent], child)
	}
	all = children[pid]
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}

func TestNestedRunOnServer(t *testing.T) {
	t.Parallel()
	_, env := onServer(t, true)
	t.Run("a run within one of the same name is refused, one of another name finds the password in the file", func(t *testing.T) {
		target, _ := environ(env).lookup(storeVar)
		safe, ok := withoutPassword(target)
		require.True(t, ok)
		file := filepath.Join(t.TempDir(), "password")
		require.NoError(t, os.WriteFile(file, []byte(secret), 0o600))
		env := []string{"PATH=" + os.Getenv("PATH"), storeVar + "=" + safe, passwordFileVar + "=" + file}
		r := startTool(t, env, "run", "a", "--", "sh", "-c", "echo in; leasehold run a -- echo never; echo $?; leasehold run b -- echo b")
		rest := &bytes.Buffer{}
		_, err := r.out.WriteTo(rest)
		require.NoError(t, err)
		assert.Zero(t, r.code())
		assert.Equal(t, strconv.Itoa(codeUsage)+"\nb\n", rest.String())
		assert.Contains(t, r.errs.String(), "nested run")
	})
}
