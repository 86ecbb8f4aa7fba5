package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/aaravsoft/leasehold/store/sqlite"
)

// TestSignalAtTheGrant sends a signal to a tool around the moment in which it gets the lock and starts its command: many
// times, at times that are spread over all of it.
func TestSignalAtTheGrant(t *testing.T) {
	t.Parallel()
	t.Run("CLI-05 never a command without its lock, never an orphan row", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		rounds := 500
		if testing.Short() {
			rounds = 50
		}
		cmd := exec.Command("signal-at-once", w.path, strconv.Itoa(rounds), t.TempDir())
		cmd.Env = w.env
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		t.Logf("%s", out)
		for _, outcome := range []string{"before the command", "while it ran"} {
			assert.Contains(t, string(out), outcome, "that moment was never met")
		}
	})
}

// signalAtOnce is the process that does it: it calls run, as main does, and signals itself.
func signalAtOnce() {
	rounds, err := strconv.Atoi(os.Args[2])
	if err == nil {
		err = signalRounds(os.Args[1], rounds, os.Args[3])
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func signalRounds(path string, rounds int, folder string) error {
	signal.Notify(make(chan os.Signal, 1), unix.SIGTERM) // between the rounds it must not end this process
	st, err := sqlite.Open(path)
	if err != nil {
		return err
	}
	defer st.Close()
	if err := os.Chdir(folder); err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()

	began := time.Now()
	if code := run(context.Background(), []string{"run", "x", "--", "true"}, os.Environ(), null, null, os.Stderr); code != 0 {
		return fmt.Errorf("without a signal: code %d", code)
	}
	window := time.Since(began)
	outcomes := map[string]int{}
	missed := 0
	for range rounds {
		outcome, signals, err := signalRound(st, null, time.Duration(rand.Int64N(int64(window))))
		if err != nil {
			return err
		}
		outcomes[outcome]++
		if signals > 1 {
			missed++
		}
	}
	if missed > rounds/10 { // those before run listens are few
		return fmt.Errorf("the signal was missed in %d of %d rounds", missed, rounds)
	}
	fmt.Println(rounds, "rounds in", time.Since(began), "the signal within", window, outcomes, "again:", missed)
	return nil
}

// signalRound runs a command that does not end by itself, and signals after a time.
func signalRound(st *sqlite.Store, null *os.File, after time.Duration) (outcome string, signals int, err error) {
	ended := make(chan struct{})
	var sender sync.WaitGroup
	sender.Go(func() {
		for { // again, if the first came before run listened: a real tool would have died of it
			select {
			case <-time.After(after):
				signals++
				_ = unix.Kill(os.Getpid(), unix.SIGTERM)
				after = time.Second
			case <-ended:
				return
			}
		}
	})
	// The command looks itself whether it has the lock.
	const command = "echo $$ >started; leasehold show x >shown || echo >unlocked; exec sleep 1000"
	code := run(context.Background(), []string{"run", "x", "-v", "--", "sh", "-c", command}, os.Environ(), null, null, os.Stderr)
	close(ended)
	sender.Wait()

	if code != 128+int(unix.SIGTERM) {
		return "", signals, fmt.Errorf("code %d", code)
	}
	for l, err := range st.List(context.Background(), "") {
		return "", signals, fmt.Errorf("an orphan row %+v, or %w", l, err)
	}
	if _, err := os.Stat("unlocked"); err == nil {
		return "", signals, errors.New("the command ran without its lock")
	}
	started, err := os.ReadFile("started")
	if errors.Is(err, fs.ErrNotExist) {
		return "before the command", signals, nil
	}
	if err != nil {
		return "", signals, err
	}
	if pid := strings.TrimSpace(string(started)); pid != "" {
		if state := processState(pid); state != "" {
			return "", signals, fmt.Errorf("process %s lives on: %s", pid, state)
		}
	}
	return "while it ran", signals, os.Remove("started")
}
