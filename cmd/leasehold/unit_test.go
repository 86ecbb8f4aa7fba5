package main

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/sqlite"
)

func TestStateFolder(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		goos string
		env  environ
		want string // empty: none
	}{
		{"linux", environ{"HOME=/h"}, "/h/.local/state/leasehold"},
		{"linux", environ{"HOME=/h", "XDG_STATE_HOME=/s"}, "/s/leasehold"},
		{"linux", environ{"XDG_STATE_HOME=/s"}, "/s/leasehold"},
		{"linux", environ{"HOME=/h", "XDG_STATE_HOME=s"}, "/h/.local/state/leasehold"},
		{"linux", environ{"HOME=/h", "XDG_STATE_HOME="}, "/h/.local/state/leasehold"},
		{"linux", environ{"HOME="}, ""},
		{"linux", environ{"HOME=a"}, ""},
		{"linux", nil, ""},
		{"darwin", environ{"HOME=/h"}, "/h/Library/Application Support/leasehold"},
		{"darwin", nil, ""},
		{"windows", environ{"HOME=/h"}, ""},
	} {
		got, err := stateFolder(test.env, test.goos)
		assert.Equal(t, filepath.FromSlash(test.want), got, "%v", test)
		assert.Equal(t, test.want == "", err != nil, "%v", test)
		if err != nil {
			assert.Equal(t, codeMisconfigured, codeOf(err))
		}
	}
}

func TestEnviron(t *testing.T) {
	t.Parallel()
	env := environ{"A=1", "AB=2", "A=3", "C="}
	value, ok := env.lookup("A")
	assert.Equal(t, "1", value)
	assert.True(t, ok)
	value, ok = env.lookup("C")
	assert.Empty(t, value)
	assert.True(t, ok)
	_, ok = env.lookup("B")
	assert.False(t, ok)
	assert.Equal(t, environ{"AB=2", "C=", "A=x=y"}, env.with("A", "x=y"))
	assert.Equal(t, environ{"A=1", "AB=2", "A=3", "C="}, env, "the original is not changed")
}

func TestCodeOf(t *testing.T) {
	t.Parallel()
	held := &store.HeldError{Lease: store.Lease{Name: "x"}}
	for code, err := range map[int]error{
		0:  nil,
		1:  fmt.Errorf("show: %w", store.ErrNotFound),
		64: errors.New("unknown flag"),
		69: fmt.Errorf("list: %w", &store.UnavailableError{Op: "list"}),
		75: held,
		78: &store.MisconfiguredError{},
		79: store.ErrLost,
		42: fmt.Errorf("run: %w", &exitError{42, held}),
	} {
		assert.Equal(t, code, codeOf(err))
	}
	assert.Equal(t, 64, codeOf(store.ValidateName("")))
}

func TestShellQuote(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "a", "web1:12/ab_c-d.e", "a b", "it's", "$HOME", "*", "~", "a\nb", `"`, `\`, "é", "#x", "!"} {
		out, err := exec.Command("sh", "-c", "printf %s "+shellQuote(s)).Output()
		require.NoError(t, err)
		assert.Equal(t, s, string(out))
	}
	assert.Equal(t, "web1:12/ab", shellQuote("web1:12/ab"), "not quoted without need")
}

func TestPlain(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a note":               "a note",
		`"so" é 日本`:            `"so" é 日本`,
		"\x1b]0;title\a\r\x9b": `\x1b]0;title\a\r\x9b`,
		"a\u202eb":             `a\u202eb`,
	} {
		assert.Equal(t, want, plain(in))
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-1:                       "0s",
		1234567:                  "1ms",
		1260 * time.Millisecond:  "1.3s",
		12600 * time.Millisecond: "13s",
		90 * time.Second:         "1m30s",
	} {
		assert.Equal(t, want, span(d))
	}
}

// TestInProcess calls run as main does, without a process of its own.
func TestInProcess(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "leases.db")
	st, err := sqlite.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { st.Close() })
	_, err = st.Acquire(t.Context(), store.Claim{Name: "a b", Owner: "o'hara/1", TTL: time.Hour, Metadata: "\x1b[31mred"})
	require.NoError(t, err)
	env := []string{storeVar + "=sqlite:" + path}

	t.Run("CLI-10 what the holder wrote does not command the terminal, and can be pasted", func(t *testing.T) {
		code, out, errs := inProcess(t, env, "show", "a b")
		assert.Zero(t, code)
		assert.Empty(t, errs)
		assert.Contains(t, out, `\x1b[31mred`)
		assert.Contains(t, out, `leasehold break 'a b' --owner 'o'\''hara/1'`)
		assert.NotContains(t, out, "\x1b")
		_, out, _ = inProcess(t, env, "list")
		assert.NotContains(t, out, "\x1b")
	})
	t.Run("CLI-10 nor does it in a notice, and what leasehold has not written cannot be broken by it", func(t *testing.T) {
		folder := t.TempDir()
		path := filepath.Join(folder, "leases.db")
		st, err := sqlite.Open(path)
		require.NoError(t, err)
		_, err = st.Acquire(t.Context(), store.Claim{Name: "x", Owner: "evil/1", TTL: time.Hour})
		require.NoError(t, err)
		require.NoError(t, st.Close())
		db, err := sql.Open("sqlite", path)
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), "UPDATE leases SET owner = 'ev' || char(27) || ']0;x' || char(7) || 'il/1'")
		require.NoError(t, err)
		require.NoError(t, db.Close())
		env := []string{storeVar + "=sqlite:" + path}
		for _, args := range [][]string{{"show", "x"}, {"break", "x", "--owner", "evil/1"}, {"run", "x", "-n", "--", "true"}} {
			_, out, errs := inProcess(t, env, args...)
			assert.Contains(t, out+errs, `ev\x1b]0;x\ail/1`, args)
			assert.NotContains(t, out+errs, "\x1b", args)
			assert.NotContains(t, out+errs, "--owner", args)
		}
		assert.Equal(t, "a\tb\\x1b[31m é\n", printable("a\tb\x1b[31m é\n"))
	})
	t.Run("JSON keeps it as it is, with the zone", func(t *testing.T) {
		_, out, _ := inProcess(t, env, "list", "--json")
		var got row
		require.NoError(t, json.Unmarshal([]byte(out), &got))
		assert.Equal(t, "\x1b[31mred", got.Metadata)
		assert.Equal(t, time.UTC, got.Expires.Location())
		assert.Greater(t, got.LeftSeconds, 3500.0)
		assert.NotContains(t, strings.ToLower(out), "token")
	})
	t.Run("watching lists again until the end", func(t *testing.T) {
		read, write, err := os.Pipe()
		require.NoError(t, err)
		defer read.Close()
		ended := make(chan int, 1)
		go func() {
			ended <- run(t.Context(), []string{"list", "--watch", "--json"}, env, os.Stdin, write, os.Stderr)
		}()
		lines := json.NewDecoder(read)
		var first, second row
		require.NoError(t, lines.Decode(&first))
		require.NoError(t, lines.Decode(&second))
		assert.Less(t, second.LeftSeconds, first.LeftSeconds)
		read.Close()
		assert.Equal(t, codeSystem, <-ended, "nobody reads the list")
		write.Close()
	})
	t.Run("output that cannot be written", func(t *testing.T) {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skip("no /dev/full")
		}
		defer full.Close()
		errs := tempFile(t)
		assert.Equal(t, codeSystem, run(t.Context(), []string{"list"}, env, os.Stdin, full, errs))
		assert.Contains(t, contents(t, errs), "cannot write the output")
	})
}
