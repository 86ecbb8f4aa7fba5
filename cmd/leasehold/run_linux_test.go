package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"io"
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
	"golang.org/x/sys/unix"

	"github.com/aaravsoft/leasehold/store"
)

// deaf is a command that ignores everything but KILL, and so does its child.
const deaf = "trap '' HUP INT QUIT TERM; echo $$; sleep 1000 & sleep 1000"

func TestSignals(t *testing.T) {
	t.Parallel()
	t.Run("CLI-01 TERM stops the command first, then the lock goes", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tl := w.start("run", "svc", "--", "sleep", "600")
		eventually(t, "the lock is held", func() bool { _, held := w.row("svc"); return held })
		tl.signal(unix.SIGTERM) // wherever the tool is by now
		assert.Equal(t, 143, tl.wait())
		w.requireEmpty()

		tl = w.start("run", "svc", "--", "sh", "-c",
			"trap 'leasehold show svc --json; exit 7' TERM; echo $$; while :; do sleep 0.01; done").ready()
		check := w.guarded(tl, "svc")
		tl.signal(unix.SIGTERM)
		assert.Contains(t, tl.line(), `"expired":false`, "the lock while the command ends")
		assert.Equal(t, 7, tl.wait())
		check()
		w.requireEmpty()
	})

	t.Run("CLI-03 a command that ignores TERM", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tl := w.start("run", "svc", "--ttl", "2s", "--grace", "3s", "--", "sh", "-c", deaf).ready()
		check := w.guarded(tl, "svc")
		tl.signal(unix.SIGTERM)
		asked := time.Now()
		code := tl.wait()
		took := tl.at.Sub(asked)
		t.Logf("killed %v after TERM", took)
		assert.Equal(t, 143, code)
		assert.GreaterOrEqual(t, took, 3*time.Second)
		assert.Less(t, took, 6*time.Second)
		assert.Contains(t, tl.errs.String(), "killed")
		check() // TTL is 2 s: the lock was renewed meanwhile
		w.requireEmpty()
	})

	t.Run("HUP and USR1 are forwarded each time, and ask nobody to end", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tl := w.start("run", "svc", "--grace", "0s", "--", "sh", "-c",
			"trap 'echo hup' HUP; trap 'echo usr1' USR1; echo $$; while :; do sleep 0.01; done").ready()
		for range 3 {
			tl.signal(unix.SIGHUP)
			require.Equal(t, "hup", tl.line())
			tl.signal(unix.SIGUSR1)
			require.Equal(t, "usr1", tl.line())
		}
		tl.signal(unix.SIGTERM)
		assert.Equal(t, 143, tl.wait())
	})

	t.Run("a second INT kills", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tl := w.start("run", "svc", "--", "sh", "-c", "trap 'echo int' INT; echo $$; while :; do sleep 0.01; done").ready()
		tl.signal(unix.SIGINT)
		require.Equal(t, "int", tl.line())
		tl.signal(unix.SIGINT)
		assert.Equal(t, 130, tl.wait())
		w.requireEmpty()
	})

	t.Run("nohup reaches the command", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tl := w.start("run", "svc", "--", "sh", "-c", "kill -HUP $$; echo lives")
		assert.Empty(t, tl.line())
		assert.Equal(t, 129, tl.wait())

		cmd := exec.Command("nohup", "leasehold", "run", "svc", "--", "sh", "-c", "kill -HUP $$; echo lives")
		cmd.Env = w.env
		out, err := cmd.Output()
		require.NoError(t, err)
		assert.Equal(t, "lives\n", string(out))
	})

	for _, sig := range []syscall.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		t.Run("CLI-05 "+unix.SignalName(sig)+" while waiting", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			claim := w.hold("svc", time.Hour)
			tl := w.start("run", "svc", "--", "touch", "started")
			tl.errs.expect(t, "waiting")
			tl.signal(sig)
			sent := time.Now()
			assert.Equal(t, 128+int(sig), tl.wait())
			t.Logf("ended after %v", tl.at.Sub(sent))
			assert.Less(t, tl.at.Sub(sent), 2*time.Second)
			_, err := w.st.Release(t.Context(), []store.Claim{claim})
			require.NoError(t, err)
			w.requireEmpty()
			assert.NoFileExists(t, filepath.Join(filepath.Dir(w.path), "started"))
		})
	}
}

func TestStreams(t *testing.T) {
	t.Parallel()
	t.Run("CLI-08 bytes and ends pass untouched", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		var want bytes.Buffer
		_, err := io.CopyN(&want, rand.Reader, 10<<20)
		require.NoError(t, err)
		cmd := exec.Command("leasehold", "run", "-v", "svc", "--", "cat")
		cmd.Env, cmd.Stdin = w.env, bytes.NewReader(want.Bytes())
		var errs bytes.Buffer
		cmd.Stderr = &errs
		got, err := cmd.Output()
		require.NoError(t, err)
		assert.True(t, bytes.Equal(want.Bytes(), got))
		assert.Contains(t, errs.String(), "cat is started")
	})

	t.Run("nobody reads the tool's messages", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		claim := w.hold("svc", time.Hour)
		read, write, err := os.Pipe()
		require.NoError(t, err)
		read.Close()
		cmd := exec.Command("leasehold", "run", "-v", "svc", "--", "true")
		cmd.Env, cmd.Stderr = w.env, write
		require.NoError(t, cmd.Start())
		write.Close()
		_, err = w.st.Release(t.Context(), []store.Claim{claim})
		require.NoError(t, err)
		assert.NoError(t, cmd.Wait())
		w.requireEmpty()
	})
}

func TestLeftovers(t *testing.T) {
	t.Parallel()
	t.Run("a child of the command keeps standard output open", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tl := w.start("run", "svc", "--", "sh", "-c", "echo $$; sleep 1000 & read line; exit 3").ready()
		check := w.guarded(tl, "svc")
		tl.in.Close()
		assert.Equal(t, 3, tl.wait())
		check()
		assert.Empty(t, living(t, tl.group))
	})

	t.Run("one that ignores TERM has the grace, and the lock is kept", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tl := w.start("run", "svc", "--grace", "3s", "--ttl", "2s", "--", "sh", "-c", "trap '' TERM; echo $$; sleep 1000 & read line; exit 3").ready()
		check := w.guarded(tl, "svc")
		tl.in.Close()
		assert.Equal(t, 3, tl.wait())
		check()
		assert.Contains(t, tl.errs.String(), "processes that it left")
		w.requireEmpty()
	})
}

func TestToolDies(t *testing.T) {
	t.Parallel()
	t.Run("kill -9: the whole group goes at once, the next one comes at the expiry", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tl := w.start("run", "svc", "--ttl", "1s", "--", "sh", "-c", "echo $$; sleep 1000 | sleep 1000").ready()
		eventually(t, "the pipeline runs", func() bool { return len(living(t, tl.group)) == 4 })
		next := w.start("run", "svc", "--", "date", "+%s%N")
		next.errs.expect(t, "waiting")

		tl.signal(unix.SIGKILL)
		killed := time.Now()
		gone := tl.gone()
		last, held := w.row("svc")
		require.True(t, held)
		t.Logf("group gone after %v", gone.Sub(killed))
		assert.Less(t, gone.Sub(killed), time.Second)
		assert.Less(t, gone, last.Expires)

		var nanos int64
		_, err := fmt.Sscan(next.line(), &nanos)
		require.NoError(t, err)
		assert.Zero(t, next.wait())
		late := time.Unix(0, nanos).Sub(last.Expires)
		t.Logf("the next command ran %v after the expiry", late)
		assert.Positive(t, late)
		assert.Less(t, late, time.Second)
	})

	t.Run("SAF-05 stopped past its TTL", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tl := w.start("run", "svc", "--ttl", "1s", "--", "sh", "-c", deaf).ready()
		tl.signal(unix.SIGSTOP)
		eventually(t, "the tool is stopped", func() bool { return processState(strconv.Itoa(tl.cmd.Process.Pid)) == "T" })
		last, held := w.row("svc")
		require.True(t, held)
		gone := tl.gone()
		d := last.Expires.Add(-timingFor(time.Second).margin)
		t.Logf("group gone %v after D", gone.Sub(d))
		assert.Less(t, gone, last.Expires)
		assert.Equal(t, "T", processState(strconv.Itoa(tl.cmd.Process.Pid)))

		next := w.start("run", "svc", "--", "sh", "-c", "echo $$; read line").ready()
		second, _ := w.row("svc")
		tl.signal(unix.SIGCONT)
		continued := time.Now()
		assert.Equal(t, codeLost, tl.wait())
		t.Logf("79 %v after CONT", tl.at.Sub(continued))
		assert.Less(t, tl.at.Sub(continued), 2*time.Second)
		now, held := w.row("svc")
		assert.True(t, held)
		assert.Equal(t, second.Owner, now.Owner)
		assert.Equal(t, second.Acquired, now.Acquired)
		next.in.Close()
		next.wait()
		w.requireEmpty()
	})

	t.Run("its supervisor is killed", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tl := w.start("run", "svc", "--", "sh", "-c", deaf).ready()
		require.NoError(t, unix.Kill(tl.group, unix.SIGKILL))
		assert.Equal(t, codeLost, tl.wait())
		assert.Empty(t, living(t, tl.group))
		assert.Contains(t, tl.errs.String(), "supervisor")
		w.requireEmpty()
	})
}

func TestLoss(t *testing.T) {
	t.Parallel()
	const ttl, grace = 3 * time.Second, 500 * time.Millisecond
	failures := map[string]func(*testing.T, *world){
		"the file is locked": func(t *testing.T, w *world) {
			db, err := sql.Open("sqlite", w.path)
			require.NoError(t, err)
			t.Cleanup(func() { db.Close() })
			conn, err := db.Conn(context.Background())
			require.NoError(t, err)
			eventually(t, "locked", func() bool {
				_, err := conn.ExecContext(context.Background(), "BEGIN IMMEDIATE")
				return err == nil
			})
		},
		"the file is away": func(t *testing.T, w *world) {
			require.NoError(t, os.Rename(w.path, w.path+".away"))
		},
	}
	for name, fail := range failures {
		t.Run("CLI-02 "+name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			// The command hears TERM and stays; its child is deaf.
			tl := w.start("run", "svc", "--ttl", ttl.String(), "--grace", grace.String(), "--", "sh", "-c",
				"trap 'echo term' TERM; echo $$; (trap '' TERM; while :; do sleep 1000; done) & while :; do wait; done").ready()
			fail(t, w)
			require.Equal(t, "term", tl.line())
			asked := time.Now()
			gone := tl.gone()
			code := tl.wait()

			if _, err := os.Stat(w.path); err != nil {
				require.NoError(t, os.Rename(w.path+".away", w.path))
			}
			last, _ := w.row("svc")
			d := last.Expires.Add(-timingFor(ttl).margin)
			t.Logf("TERM %v and dead %v before D", d.Sub(asked), d.Sub(gone))
			assert.Equal(t, codeLost, code)
			assert.Less(t, gone, last.Expires, "strict: nobody else could hold the lock")
			assert.Less(t, gone, d.Add(50*time.Millisecond))
			assert.Greater(t, gone.Sub(asked), grace/2, "it had time to end")
			assert.Less(t, d.Sub(asked), ttl/2, "it was not asked too early")
			assert.Contains(t, tl.errs.String(), "could not be renewed")
		})
	}

	t.Run("CLI-10 the lock is broken", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tl := w.start("run", "svc", "--ttl", "2s", "--", "sh", "-c", "trap 'echo term' TERM; echo $$; while :; do sleep 0.01; done").ready()
		row, _ := w.row("svc")
		out, err := w.command("break", "svc", "--owner", row.Owner).Output()
		require.NoError(t, err)
		assert.Contains(t, string(out), "the next one can get in at")
		assert.Equal(t, codeLost, tl.wait())
		assert.Less(t, time.Now(), row.Expires.Add(time.Second))
		assert.Empty(t, living(t, tl.group))
		assert.Empty(t, tl.line(), "killed at once")
		assert.Contains(t, tl.errs.String(), "lost")
		now, held := w.row("svc")
		assert.True(t, !held || store.Disowned(now.Owner))
	})

	t.Run("the release is not confirmed", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		tl := w.start("run", "svc", "--ttl", "3s", "--", "sh", "-c", "echo $$; read line; exit 4").ready()
		failures["the file is away"](t, w)
		tl.in.Close()
		assert.Equal(t, 4, tl.wait())
		assert.Contains(t, tl.errs.String(), "not confirmed")
	})
}

func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command("leasehold", args...)
	cmd.Env = w.env
	return cmd
}

func TestWarning(t *testing.T) {
	t.Parallel()
	t.Run("CLI-02 TERM and KILL fit into what is left after a renewal that failed", func(t *testing.T) {
		for _, ttl := range []time.Duration{200 * time.Millisecond, time.Second, 10 * time.Second, 30 * time.Second, 24 * time.Hour} {
			tm := timingFor(ttl)
			assert.Positive(t, tm.warning())
			// A lock that is renewed in time, at the latest 1.1 R after the last time, is never feared for.
			assert.Less(t, tm.warning(), tm.ttl-tm.margin-tm.renew*11/10, "%v", ttl)
		}
	})
}

func TestTwoShells(t *testing.T) {
	t.Parallel()
	t.Run("CLI-09 one holds, the others wait, try, and wait for a while", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		first := w.start("run", "two", "--metadata", "first shell", "--", "sh", "-c", "echo $$; read line; date +%s%N").ready()
		second := w.start("run", "two", "--", "date", "+%s%N")
		second.errs.expect(t, "waiting: \"two\" is held by ")
		row, _ := w.row("two")
		second.errs.expect(t, row.Owner+" since "+stamp(row.Acquired)+" (first shell)")

		began := time.Now()
		third := w.start("run", "two", "--try", "--", "touch", "third")
		assert.Equal(t, codeHeld, third.wait())
		t.Logf("--try answered after %v", third.at.Sub(began))
		began = time.Now()
		fourth := w.start("run", "two", "--wait", "1s", "--", "touch", "fourth")
		assert.Equal(t, codeHeld, fourth.wait())
		t.Logf("--wait 1s answered after %v", fourth.at.Sub(began))
		assert.GreaterOrEqual(t, fourth.at.Sub(began), time.Second)
		assert.Less(t, fourth.at.Sub(began), 3*time.Second)
		for _, name := range []string{"third", "fourth"} {
			assert.NoFileExists(t, filepath.Join(filepath.Dir(w.path), name))
		}

		first.in.Close()
		var ended, started int64
		_, err := fmt.Sscan(first.line(), &ended)
		require.NoError(t, err)
		_, err = fmt.Sscan(second.line(), &started)
		require.NoError(t, err)
		assert.Zero(t, first.wait())
		assert.Zero(t, second.wait())
		gap := time.Duration(started - ended)
		t.Logf("started %v after the end of the first", gap)
		assert.Positive(t, gap)
		assert.Less(t, gap, 5*time.Second)
		assert.Equal(t, 1, strings.Count(second.errs.String(), "\n"), "one line: %s", second.errs)
		w.requireEmpty()
	})
}
