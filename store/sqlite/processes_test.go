package sqlite

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

const (
	roleOpener = "opener"
	roleWorker = "worker"

	pathVariable = "LEASEHOLD_SQLITE_TEST_PATH"
	logVariable  = "LEASEHOLD_SQLITE_TEST_LOG"
)

// play is what this binary does as another process.
func play(role string) int {
	var err error
	switch role {
	case roleOpener:
		err = playOpener(os.Stdin, os.Stdout)
	case roleWorker:
		err = playWorker(os.Getenv(pathVariable), os.Getenv(logVariable))
	default:
		err = fmt.Errorf("no role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// process starts this binary in a role. It ends when its input does.
func process(t *testing.T, role string, env ...string) (cmd *exec.Cmd, in io.WriteCloser, out *bufio.Reader) {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd = exec.Command(exe)
	cmd.Env = append(os.Environ(), append(env, roleVariable+"="+role)...)
	cmd.Stderr = os.Stderr
	in, err = cmd.StdinPipe()
	require.NoError(t, err)
	pipe, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	return cmd, in, bufio.NewReader(pipe)
}

// playOpener opens each file that it is told, takes a name there and answers with the token or the error.
func playOpener(in io.Reader, out io.Writer) error {
	paths := bufio.NewScanner(in)
	for paths.Scan() {
		token, err := openAndAcquire(paths.Text())
		if _, err := fmt.Fprintf(out, "%d %v\n", token, err); err != nil {
			return err
		}
	}
	return paths.Err()
}

func openAndAcquire(path string) (token uint64, err error) {
	s, err := Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	l, err := s.Acquire(context.Background(), claim(fmt.Sprintf("process %d", os.Getpid()), time.Minute))
	return l.Version, err
}

func TestTenProcessesCreateTheFile(t *testing.T) {
	const processes, rounds = 10, 10
	var ins []io.WriteCloser
	var outs []*bufio.Reader
	for range processes {
		cmd, in, out := process(t, roleOpener)
		ins, outs = append(ins, in), append(outs, out)
		defer func() { assert.NoError(t, cmd.Wait()) }()
		defer in.Close()
	}
	dir := t.TempDir()
	for round := range rounds {
		path := filepath.Join(dir, fmt.Sprintf("%d.db", round))
		for _, in := range ins {
			_, err := fmt.Fprintln(in, path)
			require.NoError(t, err)
		}
		tokens := make(map[string]bool)
		for _, out := range outs {
			answer, err := out.ReadString('\n')
			require.NoError(t, err)
			token, err2, _ := strings.Cut(answer, " ")
			require.Equal(t, "<nil>\n", err2)
			tokens[token] = true
		}
		require.Len(t, tokens, processes)
		require.Len(t, names(t, openStore(t, path, systemClock())), processes)
	}
}

// moment is on a clock that all processes of this machine share.
func moment(s *Store) int64 {
	now := s.clock()
	if now.bootID == "" {
		return now.wall
	}
	return now.boot
}

// playWorker takes names, holds them, and writes down when it had reason to believe that it did.
func playWorker(path, log string) error {
	s, err := Open(path)
	if err != nil {
		return err
	}
	records, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	for ctx.Err() == nil {
		if err := work(ctx, s, records); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return s.Close()
}

func work(ctx context.Context, s *Store, records io.Writer) error {
	c := claim(fmt.Sprintf("job %d", rand.N(2)), time.Duration(20+rand.N(20))*time.Millisecond)
	sent := moment(s)
	l, err := s.Acquire(ctx, c)
	if held, ok := errors.AsType[*store.HeldError](err); ok {
		time.Sleep(min(held.Lease.Left, rand.N(10*time.Millisecond)))
		return nil
	}
	if err != nil {
		return err
	}
	from, until := moment(s), sent+int64(c.TTL)
	for range rand.N(4) {
		time.Sleep(rand.N(10 * time.Millisecond))
		sent := moment(s)
		results, err := s.Renew(ctx, []store.Claim{c})
		if err != nil {
			return err
		}
		if results[0].Err != nil {
			break
		}
		until = sent + int64(c.TTL)
	}
	leaves := rand.N(3) == 0 // without a release
	if !leaves {
		until = min(until, moment(s))
	}
	if from < until {
		if _, err := fmt.Fprintf(records, "%d %s %d %d %d\n", os.Getpid(), c.Name[len("job "):], l.Version, from, until); err != nil {
			return err
		}
	}
	if leaves {
		return nil
	}
	_, err = s.Release(ctx, []store.Claim{c})
	return err
}

// TestProcesses has eight processes fight for two names, and kills one of them every now and then.
func TestProcesses(t *testing.T) {
	const processes, lasts, kills = 8, 3 * time.Second, 15
	path, log := newPath(t), filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(log, nil, 0o600))
	start := func() (*exec.Cmd, io.WriteCloser) {
		cmd, in, _ := process(t, roleWorker, pathVariable+"="+path, logVariable+"="+log)
		return cmd, in
	}
	var running [processes]*exec.Cmd
	var ins [processes]io.WriteCloser
	for i := range running {
		running[i], ins[i] = start()
	}
	for range kills {
		time.Sleep(lasts / kills)
		i := rand.N(processes)
		require.NoError(t, running[i].Process.Kill())
		assert.Error(t, running[i].Wait())
		running[i], ins[i] = start()
	}
	for i, cmd := range running {
		assert.NoError(t, ins[i].Close())
		assert.NoError(t, cmd.Wait())
	}
	checkRecords(t, log)

	s := openStore(t, path, systemClock())
	var sound string
	require.NoError(t, s.conn.c.QueryRowContext(t.Context(), `PRAGMA integrity_check`).Scan(&sound))
	assert.Equal(t, "ok", sound)
}

func checkRecords(t *testing.T, log string) {
	type record struct {
		pid, job    int
		token       uint64
		from, until int64
	}
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	jobs := make(map[int][]record)
	for line := range strings.Lines(string(text)) {
		var r record
		_, err := fmt.Sscan(line, &r.pid, &r.job, &r.token, &r.from, &r.until)
		require.NoError(t, err, "%q", line)
		jobs[r.job] = append(jobs[r.job], r)
	}
	holders := make(map[int]int)
	for _, list := range jobs {
		slices.SortFunc(list, func(a, b record) int { return cmp.Compare(a.from, b.from) })
		for i, r := range list {
			holders[r.pid]++
			if i == 0 {
				continue
			}
			before := list[i-1]
			require.LessOrEqual(t, before.until, r.from, "two holders: %+v and %+v", before, r)
			require.Less(t, before.token, r.token, "tokens do not grow: %+v and %+v", before, r)
		}
	}
	t.Logf("%d grants, by process: %v", len(jobs[0])+len(jobs[1]), holders)
	assert.Greater(t, len(jobs[0])+len(jobs[1]), 50)
	assert.Greater(t, len(holders), 4, "the names went round")
}
