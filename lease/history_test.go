package lease

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/memory"
)

// weather is a store behind a bad network: each call may be slow, lost on the way, executed late or not answered,
// whatever its context says.
type weather struct {
	store.Store
	mu     sync.Mutex
	random *rand.Rand
	struck map[string]int
	calm   bool
}

func (w *weather) roll(n int64) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Duration(w.random.Int64N(n))
}

func pass[T any](w *weather, call func() (T, error)) (T, error) {
	w.mu.Lock()
	dice := w.random.IntN(10)
	kind := []string{"not sent", "not applied", "answer lost", "late on its way", "late answer"}[min(dice, 4)]
	if dice > 4 || w.calm {
		kind = "fine"
	}
	w.struck[kind]++
	w.mu.Unlock()

	time.Sleep(w.roll(int64(50 * time.Millisecond)))
	var none T
	switch kind {
	case "not sent":
		return none, errNotSent
	case "not applied":
		return none, errUnclear
	case "late on its way":
		time.Sleep(w.roll(int64(2 * ttl)))
	}
	value, err := call()
	switch kind {
	case "answer lost":
		return none, errUnclear
	case "late answer":
		time.Sleep(w.roll(int64(2 * ttl)))
	}
	time.Sleep(w.roll(int64(50 * time.Millisecond)))
	return value, err
}

func (w *weather) Acquire(_ context.Context, c store.Claim) (store.Lease, error) {
	return pass(w, func() (store.Lease, error) { return w.Store.Acquire(context.Background(), c) })
}

func (w *weather) Renew(_ context.Context, cs []store.Claim) ([]store.Result, error) {
	return pass(w, func() ([]store.Result, error) { return w.Store.Renew(context.Background(), cs) })
}

func (w *weather) Release(_ context.Context, cs []store.Claim) ([]store.Result, error) {
	return pass(w, func() ([]store.Result, error) { return w.Store.Release(context.Background(), cs) })
}

// Four leases, each used by two goroutines, do random things in bad weather. At any instant at most one is trusted,
// tokens grow, and in the end the rows of late acquires go, too.
func TestRandomHistories(t *testing.T) {
	for range 3 {
		seed := rand.Uint64()
		bubble(t, "ACQ-03 one trusted holder", func(r *rig) {
			r.Log("seed", seed)
			history(r, seed)
		})
	}
}

func history(r *rig, seed uint64) {
	mem := memory.New()
	w := &weather{Store: mem, random: rand.New(rand.NewPCG(seed, 0)), struck: map[string]int{}}
	var leases []*Lease
	for _, owner := range []string{"a", "b", "c", "d"} {
		leases = append(leases, r.on(w, owner))
	}
	trusted := func() (n int) {
		for _, l := range leases {
			if l.Remaining() > 0 {
				n++
			}
		}
		return n
	}
	outcomes := map[string]int{}
	var mu sync.Mutex // guards outcomes and token
	var token uint64
	act := func(l *Lease) {
		ctx, cancel := context.WithTimeout(r.Context(), w.roll(int64(2*limit)))
		defer cancel()
		var op string
		var err error
		switch dice := w.roll(10); {
		case dice < 4:
			op, err = "acquire ", l.TryAcquire(ctx)
		case dice < 8:
			op, err = "renew ", l.TryRenew(ctx)
		default:
			op, err = "release ", l.TryRelease(ctx)
		}
		mu.Lock()
		defer mu.Unlock()
		assert.LessOrEqual(r, trusted(), 1)
		if l.Remaining() > 0 {
			assert.GreaterOrEqual(r, l.Token(), token)
			token = l.Token()
		}
		outcomes[op+class(r, err)]++
	}
	for _, l := range leases {
		for range 2 {
			go func() {
				for time.Since(r.start) < 3*time.Minute {
					time.Sleep(w.roll(int64(time.Second)))
					act(l)
				}
			}()
		}
	}
	for time.Since(r.start) < 4*time.Minute {
		if n := trusted(); n > 1 {
			r.Fatalf("%d leases are trusted after %v", n, time.Since(r.start))
		}
		time.Sleep(20 * time.Millisecond)
	}

	w.mu.Lock()
	w.calm = true
	w.mu.Unlock()
	calm := time.Now()
	for _, l := range leases {
		if err := l.TryRelease(r.Context()); err != nil {
			require.ErrorIs(r, err, store.ErrLost)
		}
	}
	time.Sleep(time.Minute) // what is late comes back
	if row, err := mem.Get(r.Context(), "job"); err == nil {
		require.True(r, row.Renewed.Before(calm), "its clean-up can only have failed in bad weather: %+v", row)
	}

	r.Log(outcomes, w.struck)
	for _, must := range []string{
		"acquire ok", "acquire held", "acquire unavailable", "renew ok", "renew lost", "renew unavailable",
		"release ok", "release lost", "release unavailable",
	} {
		assert.Positive(r, outcomes[must], must)
	}
	assert.Len(r, w.struck, 6)
}

func class(t require.TestingT, err error) string {
	if err == nil {
		return "ok"
	}
	var found []string
	for name, class := range map[string]error{
		"held": store.ErrHeld, "lost": store.ErrLost, "unavailable": store.ErrUnavailable,
		"invalid": store.ErrInvalid, "misconfigured": store.ErrMisconfigured,
	} {
		if errors.Is(err, class) {
			found = append(found, name)
		}
	}
	require.Len(t, found, 1, "%v", err)
	return found[0]
}
