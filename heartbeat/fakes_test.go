package heartbeat_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/heartbeat"
	"github.com/aaravsoft/leasehold/internal/bounded"
	"github.com/aaravsoft/leasehold/internal/clock"
	"github.com/aaravsoft/leasehold/store"
)

// fakeStore renews everything, at once, unless answer or row says otherwise, and remembers its calls.
type fakeStore struct {
	store.Store // only Renew is called

	// answer is called first, with the number of the call; nil: nothing happens. An error is the whole call's.
	answer func(ctx context.Context, n int, claims []store.Claim) error
	// row answers one claim; nil: all are renewed.
	row func(n int, c store.Claim) store.Result

	mu          sync.Mutex
	calls       []renewal
	outstanding int
	most        int
}

type renewal struct {
	at     time.Time
	claims []store.Claim
	limit  time.Duration // of the context
}

func (s *fakeStore) Renew(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	end, _ := ctx.Deadline()
	s.mu.Lock()
	n := len(s.calls)
	s.calls = append(s.calls, renewal{time.Now(), claims, time.Until(end)})
	s.outstanding++
	s.most = max(s.most, s.outstanding)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.outstanding--
		s.mu.Unlock()
	}()
	if s.answer != nil {
		if err := s.answer(ctx, n, claims); err != nil {
			return nil, err
		}
	}
	results := make([]store.Result, len(claims))
	if s.row != nil {
		for i, c := range claims {
			results[i] = s.row(n, c)
		}
	}
	return results, nil
}

// seen returns the calls so far that name a target; "" is any.
func (s *fakeStore) seen(name string) []renewal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(s.calls), func(r renewal) bool {
		return name != "" && !slices.ContainsFunc(r.claims, func(c store.Claim) bool { return c.Name == name })
	})
}

func (s *fakeStore) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = nil
}

func (s *fakeStore) mostOutstanding() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// target is a lease as a guard sees it.
type target struct {
	claim store.Claim
	trust time.Duration
	clk   clock.Clock

	mu       sync.Mutex
	deadline clock.Instant
	renewed  int
	failed   []error
	lost     []store.Result
	expired  bool // D passed
	least    time.Duration
	leaked   bool
	onLost   func()
}

func (t *target) Claim() store.Claim { return t.claim }

func (t *target) Deadline() clock.Instant {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.deadline
}

func (t *target) Renewed(sent clock.Instant, _ store.Lease) {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := t.clk().Until(t.deadline)
	t.least = min(t.least, left)
	t.renewed++
	if left <= 0 {
		t.expired = true
	}
	if d := sent.Add(t.trust); !t.expired && d.Mono+d.Suspended > t.deadline.Mono+t.deadline.Suspended {
		t.deadline = d
	}
}

func (t *target) Failed(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = append(t.failed, err)
}

func (t *target) Lost(row store.Lease, err error) {
	t.mu.Lock()
	t.lost = append(t.lost, store.Result{Lease: row, Err: err})
	t.mu.Unlock()
	if t.onLost != nil {
		t.onLost()
	}
}

func (t *target) Leaked() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.leaked
}

func (t *target) live() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.lost) == 0 && !t.expired && t.clk().Until(t.deadline) > 0
}

func (t *target) renewals() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.renewed
}

func (t *target) losses() []store.Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.lost)
}

func (t *target) failures() []error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.failed)
}

// world is one client in a bubble.
type world struct {
	t     *testing.T
	store *fakeStore
	clk   clock.Clock
	beat  *heartbeat.Scheduler
}

func newWorld(t *testing.T, st *fakeStore) *world {
	clk := clock.System()
	return &world{t, st, clk, heartbeat.New(bounded.New(st), clk)}
}

// newTarget makes a lease that is granted now, with a margin of a tenth, at least 50 ms.
func (w *world) newTarget(name string, ttl time.Duration) *target {
	trust := ttl - max(ttl/10, 50*time.Millisecond)
	return &target{
		claim: store.Claim{Name: name, Owner: "me/" + name, TTL: ttl},
		trust: trust, clk: w.clk, deadline: w.clk().Add(trust), least: trust,
	}
}

func (w *world) add(name string, ttl, interval time.Duration) *target {
	t := w.newTarget(name, ttl)
	w.beat.Add(t, interval, w.clk())
	return t
}

func (w *world) addMany(n int, ttl, interval time.Duration) []*target {
	targets := make([]*target, n)
	for i := range targets {
		targets[i] = w.add(fmt.Sprintf("n-%05d", i), ttl, interval)
	}
	return targets
}

func (w *world) close() { require.NoError(w.t, w.beat.Close(w.t.Context())) }

// bubble runs a test in fake time. When it ends, nothing of the scheduler may be left.
func bubble(t *testing.T, st *fakeStore, test func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, st)
		test(w)
		w.close()
	})
}

var errNetwork = errors.New("connection reset")

func unclear() error { return &store.UnavailableError{Op: "renew", Unclear: true, Err: errNetwork} }
