//go:build unix

package mutex_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/sqlite"
)

// The tests of this file are about real processes on one SQLite file. A process is this test binary, started again in
// a role.
const roleVar = "LEASEHOLD_TEST_ROLE"

func TestMain(m *testing.M) {
	roles := map[string]func(dir string) error{"count": countRole, "hold": holdRole}
	if role, ok := roles[os.Getenv(roleVar)]; ok {
		if err := role(os.Args[1]); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func start(t *testing.T, role, dir string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, dir)
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, bufio.NewScanner(out)
}

func open(dir string, cfg mutex.Config) (*sqlite.Store, *mutex.Client, error) {
	st, err := sqlite.Open(filepath.Join(dir, "locks.db"))
	if err != nil {
		return nil, nil, err
	}
	locks, err := mutex.New(st, cfg)
	return st, locks, err
}

func openT(t *testing.T, dir string, cfg mutex.Config) (*sqlite.Store, *mutex.Client) {
	t.Helper()
	st, locks, err := open(dir, cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, locks.Close(context.Background()))
		require.NoError(t, st.Close())
	})
	return st, locks
}

const countFor = 5 * time.Second

// countRole takes the lock again and again, and checks from outside of it that nobody else is inside: the file that it
// creates must not exist.
func countRole(dir string) error {
	st, locks, err := open(dir, mutex.Config{TTL: 2 * time.Second})
	if err != nil {
		return err
	}
	defer st.Close()
	tokens, err := os.OpenFile(filepath.Join(dir, "tokens"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer tokens.Close()
	inside := filepath.Join(dir, "inside")
	for end := time.Now().Add(countFor); time.Now().Before(end); {
		err := locks.Do(context.Background(), "count", func(ctx context.Context) error {
			f, err := os.OpenFile(inside, os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return fmt.Errorf("somebody else is inside: %w", err)
			}
			defer f.Close()
			g, _ := mutex.FromContext(ctx, "count")
			if _, err := fmt.Fprintln(tokens, os.Getpid(), g.Token()); err != nil {
				return err
			}
			return os.Remove(inside)
		})
		if err != nil {
			return err
		}
	}
	return locks.Close(context.Background())
}

func TestProcesses(t *testing.T) {
	t.Run("SAF-10 eight processes on one file: one inside, everyone gets a turn, tokens grow", func(t *testing.T) {
		dir := t.TempDir()
		var procs []*exec.Cmd
		for range 8 {
			cmd, _ := start(t, "count", dir)
			procs = append(procs, cmd)
		}
		for _, p := range procs {
			require.NoError(t, p.Wait())
		}
		log, err := os.ReadFile(filepath.Join(dir, "tokens"))
		require.NoError(t, err)
		turns, last := map[string]int{}, uint64(0)
		for line := range strings.Lines(string(log)) {
			pid, text, _ := strings.Cut(strings.TrimSpace(line), " ")
			token, err := strconv.ParseUint(text, 10, 64)
			require.NoError(t, err)
			require.Greater(t, token, last)
			last = token
			turns[pid]++
		}
		require.Len(t, turns, 8)
		t.Logf("turns: %v", turns)
	})

	t.Run("SAF-05 a holder that is stopped past its TTL", func(t *testing.T) {
		dir := t.TempDir()
		st, locks := openT(t, dir, mutex.Config{TTL: time.Second})
		holder, out := start(t, "hold", dir)
		owner := next(t, out, "held ")

		require.NoError(t, holder.Process.Signal(syscall.SIGSTOP))
		guard, err := locks.Lock(t.Context(), "hold")
		require.NoError(t, err)
		require.NotEqual(t, owner, guard.Owner())
		row, err := st.Get(t.Context(), "hold")
		require.NoError(t, err)
		require.Equal(t, guard.Owner(), row.Owner)

		resumed := time.Now()
		require.NoError(t, holder.Process.Signal(syscall.SIGCONT))
		require.Contains(t, next(t, out, "ended "), "lost")
		took := time.Since(resumed)
		t.Logf("the context ended %v after SIGCONT", took)
		require.Less(t, took, time.Second, "200 ms are meant; the machine may be busy")
		require.Equal(t, "lost", next(t, out, "unlock "))
		require.NoError(t, holder.Wait())

		require.NoError(t, guard.Err())
		row, err = st.Get(t.Context(), "hold")
		require.NoError(t, err)
		require.Equal(t, guard.Owner(), row.Owner, "the new row is untouched")
		require.NoError(t, guard.Unlock())
	})

	t.Run("ACQ-09 a holder that is killed: taken at the expiry, not before", func(t *testing.T) {
		dir := t.TempDir()
		st, locks := openT(t, dir, mutex.Config{TTL: time.Second})
		holder, out := start(t, "hold", dir)
		next(t, out, "held ")
		require.NoError(t, holder.Process.Kill())
		_ = holder.Wait()

		before := time.Now()
		row, err := st.Get(t.Context(), "hold")
		require.NoError(t, err)
		after := time.Now()
		guard, err := locks.Lock(t.Context(), "hold")
		require.NoError(t, err)
		got := time.Now()
		require.GreaterOrEqual(t, got.Sub(before), row.Left, "not before the expiry")
		t.Logf("taken at most %v after the expiry", got.Sub(after)-row.Left)
		require.Less(t, got.Sub(after), row.Left+time.Second, "50 ms and a round trip are meant; the machine may be busy")
		require.NoError(t, guard.Unlock())
	})
}

// holdRole holds a lock until its context ends, and prints what happens.
func holdRole(dir string) error {
	st, locks, err := open(dir, mutex.Config{TTL: time.Second})
	if err != nil {
		return err
	}
	defer st.Close()
	guard, err := locks.Lock(context.Background(), "hold")
	if err != nil {
		return err
	}
	fmt.Println("held " + guard.Owner())
	<-guard.Context().Done()
	fmt.Println("ended", context.Cause(guard.Context()))
	err = guard.Unlock()
	if errors.Is(err, store.ErrLost) {
		fmt.Println("unlock lost")
		err = nil
	}
	return errors.Join(err, ignoreLost(locks.Close(context.Background())))
}

func ignoreLost(err error) error {
	if errors.Is(err, store.ErrLost) {
		return nil
	}
	return err
}

// next returns what follows prefix in the next line, which must begin with it.
func next(t *testing.T, out *bufio.Scanner, prefix string) string {
	t.Helper()
	require.True(t, out.Scan(), "the process ended: %v", out.Err())
	rest, ok := bytes.CutPrefix(out.Bytes(), []byte(prefix))
	require.True(t, ok, "want %q, got %q", prefix, out.Text())
	return string(rest)
}
