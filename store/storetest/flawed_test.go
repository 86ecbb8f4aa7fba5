package storetest_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/memory"
	"github.com/aaravsoft/leasehold/store/storetest"
)

// flawVariable names the flaw that TestFlawed is to run the suite with. A test that has to fail needs a process of its
// own.
const flawVariable = "LEASEHOLD_STORETEST_FLAW"

// The suite is worth what it catches: each flaw must fail it, and for the right reason.
func TestSuiteCatchesFlaws(t *testing.T) {
	for _, f := range flaws() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			out, err := runFlawed(t, f.name)
			requireCaught(t, out, err, "--- FAIL: TestFlawed/", f.rule)
		})
	}
	t.Run("no flaw", func(t *testing.T) {
		t.Parallel()
		out, err := runFlawed(t, "none")
		require.NoError(t, err, out)
		require.Contains(t, out, "--- PASS: TestFlawed/")
		require.NotContains(t, out, "--- SKIP", "memory can be asked for everything")
	})
	t.Run("a token for each client", func(t *testing.T) {
		t.Parallel()
		out, err := runFlawed(t, twoCounters)
		requireCaught(t, out, err, "--- FAIL: TestFlawed/tokens/over_two_clients", "rule S7")
	})
}

func requireCaught(t *testing.T, out string, err error, parts ...string) {
	t.Helper()
	require.Error(t, err, "the suite passed")
	if _, stack, panicked := strings.Cut(out, "panic: "); panicked {
		require.Fail(t, "the suite must fail, not break off", stack)
	}
	for _, part := range parts {
		if !strings.Contains(out, part) {
			said := slices.DeleteFunc(strings.Split(out, "\n"), func(line string) bool {
				return !strings.Contains(line, "Messages:") && !strings.Contains(line, "--- FAIL")
			})
			require.Fail(t, "caught, but for another reason than "+part, strings.Join(said, "\n"))
		}
	}
}

func runFlawed(t *testing.T, name string) (string, error) {
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFlawed$", "-test.v", "-test.timeout=2m")
	child.Env = append(os.Environ(), flawVariable+"="+name,
		"GORACE=atexit_sleep_ms=0") // a race detector's child would wait a second for nothing
	out, err := child.CombinedOutput()
	return string(out), err
}

// twoCounters is not about one store, but about two of the same data.
const twoCounters = "a token for each client"

func TestFlawed(t *testing.T) {
	name := os.Getenv(flawVariable)
	if name == "" {
		t.Skip("run by TestSuiteCatchesFlaws")
	}
	storetest.Run(t, storetest.Harness{
		Open: func(*testing.T) store.Store {
			h := hook(memory.New())
			for _, f := range flaws() {
				if f.name == name {
					f.put(h)
				}
			}
			return h
		},
		Second: func(_ *testing.T, first store.Store) store.Store {
			if name != twoCounters {
				return first
			}
			h := hook(first.(*hooked).Store)
			h.acquire = func(ctx context.Context, c store.Claim) (store.Lease, error) {
				l, err := h.Store.Acquire(ctx, c)
				l.Version /= 2 // of a counter that lags behind
				return l, err
			}
			return h
		},
		Exec:      synctest.Test,
		StepClock: func(_ *testing.T, st store.Store, d time.Duration) { st.(*hooked).Step(d) },
		Exact:     true,
		Rounds:    5,
	})
}
