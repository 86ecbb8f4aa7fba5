package mutex

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/faultstore"
	"github.com/aaravsoft/leasehold/store"
)

// policy is one row of the table in docs/failure-modes.md: what an error of the store leads to.
type policy struct {
	op      string
	class   string
	err     error
	retried bool
	counted bool // as a failure, by the circuit breaker
	sees    string
	is      error // that; nil: no error
}

var policies = []policy{
	{"Lock", "held", &store.HeldError{Lease: store.Lease{Name: "job", Owner: "a/b", Left: time.Hour}}, true, false, "ErrHeld when the wait is over", ErrHeld},
	{"Lock", "unavailable", &store.UnavailableError{Err: errDown}, true, true, "ErrUnavailable when the wait is over", ErrUnavailable},
	{"Lock", "unclear", &store.UnavailableError{Unclear: true, Err: errDown}, true, true, "ErrUnavailable when the wait is over; a clean-up follows", ErrUnclear},
	{"Lock", "invalid", fmt.Errorf("%w: odd", store.ErrInvalid), false, false, "ErrInvalid at once", ErrInvalid},
	{"Lock", "misconfigured", &store.MisconfiguredError{Remedy: "create it"}, false, false, "ErrMisconfigured at once; a clean-up follows", ErrMisconfigured},
	{"TryLock", "held", &store.HeldError{Lease: store.Lease{Name: "job", Owner: "a/b", Left: time.Hour}}, false, false, "ErrHeld at once", ErrHeld},
	{"TryLock", "unavailable", &store.UnavailableError{Err: errDown}, false, true, "ErrUnavailable at once", ErrUnavailable},
	{"TryLock", "unclear", &store.UnavailableError{Unclear: true, Err: errDown}, false, true, "ErrUnavailable at once; a clean-up follows", ErrUnclear},
	{"TryLock", "invalid", fmt.Errorf("%w: odd", store.ErrInvalid), false, false, "ErrInvalid at once", ErrInvalid},
	{"TryLock", "misconfigured", &store.MisconfiguredError{Remedy: "create it"}, false, false, "ErrMisconfigured at once; a clean-up follows", ErrMisconfigured},
	{"renewal", "lost", nil, false, false, "LostError at the answer", ErrLost},
	{"renewal", "unavailable", &store.UnavailableError{Err: errDown}, true, true, "LostError at D", ErrLost},
	{"renewal", "unclear", &store.UnavailableError{Unclear: true, Err: errDown}, true, true, "LostError at D", ErrLost},
	{"renewal", "invalid", fmt.Errorf("%w: odd", store.ErrInvalid), true, false, "LostError at D", ErrLost},
	{"renewal", "misconfigured", &store.MisconfiguredError{Remedy: "grant it"}, true, false, "LostError at D", ErrLost},
	{"Unlock", "lost", nil, false, false, "LostError at once", ErrLost},
	{"Unlock", "unavailable", &store.UnavailableError{Err: errDown}, true, true, "ErrUnavailable at its bound; the row expires", ErrUnavailable},
	{"Unlock", "unclear", &store.UnavailableError{Unclear: true, Err: errDown}, true, true, "ErrUnavailable at its bound; the row is gone, or expires", ErrUnclear},
	{"Unlock", "invalid", fmt.Errorf("%w: odd", store.ErrInvalid), false, false, "ErrInvalid at once; the row expires", ErrInvalid},
	{"Unlock", "misconfigured", &store.MisconfiguredError{Remedy: "grant DELETE"}, false, false, "ErrMisconfigured at once; the row expires", ErrMisconfigured},
}

// TestPolicy runs every row, and holds the table in the documents against the rows.
func TestPolicy(t *testing.T) {
	for _, p := range policies {
		bubble(t, p.op+" "+p.class, func(t *testing.T) {
			r := newRig(t)
			c := r.client(three())
			op := map[string]faultstore.Op{"Lock": faultstore.Acquire, "TryLock": faultstore.Acquire, "renewal": faultstore.Renew, "Unlock": faultstore.Release}[p.op]
			var g *Guard
			if op != faultstore.Acquire {
				g = mustLock(t, c, "job")
			}
			failures := 0
			r.faults.Add(faultstore.Fault{Ops: op, Fail: p.err, Before: func() { failures = max(failures, c.breaker.State().Failures) }})
			if p.err == nil { // lost
				_, err := r.mem.Release(t.Context(), []store.Claim{{Name: "job", Owner: g.Owner()}})
				require.NoError(t, err)
			}
			var err error
			began := r.at()
			switch p.op {
			case "Lock":
				_, err = c.Lock(t.Context(), "job", WithWait(900*time.Millisecond))
			case "TryLock":
				_, err = c.TryLock(t.Context(), "job")
			case "renewal":
				<-g.Context().Done()
				err = g.Err()
			case "Unlock":
				err = g.Unlock()
			}
			calls := r.faults.Calls(op)
			require.NoError(t, c.tasks.wait(t.Context()))
			failures = max(failures, c.breaker.State().Failures)
			require.ErrorIs(t, err, p.is)
			require.Equal(t, p.retried, calls > 1, "retried")
			require.Equal(t, p.counted, failures > 0, "counted")
			if strings.HasSuffix(strings.Split(p.sees, ";")[0], "at once") {
				require.Equal(t, began, r.at())
			}
			if strings.Contains(p.sees, "a clean-up follows") {
				require.Positive(t, r.faults.Calls(faultstore.Release))
			}
			if p.sees == "LostError at D" {
				require.Equal(t, threeTrust, r.at())
			}
			r.faults.Clear()
			_ = g.Unlock()
		})
	}

	bubble(t, "BRK-02 a caller's ended context", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Delay: 50 * time.Millisecond})
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			_, err := c.Lock(ctx, "job")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancel()
			time.Sleep(100 * time.Millisecond)
		}
		require.Zero(t, c.breaker.State().Failures)
	})

	t.Run("the table in docs/failure-modes.md", func(t *testing.T) {
		text, err := os.ReadFile(filepath.Join("..", "docs", "failure-modes.md"))
		require.NoError(t, err)
		for _, p := range policies {
			row := fmt.Sprintf("| %s | %s | %s | %s | %s |", p.op, p.class, yes(p.retried), yes(p.counted), p.sees)
			require.Contains(t, string(text), row)
		}
	})
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
