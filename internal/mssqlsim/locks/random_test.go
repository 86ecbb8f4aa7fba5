package locks_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/locks"
)

// Real goroutines, real time-outs and cancellations: what is granted excludes what it must exclude, every request is
// answered, and nothing stays behind. The rows' counters are changed under the locks only, so -race watches too.
func TestRandom(t *testing.T) {
	const sessions, rounds, rows = 8, 1500, 3
	m := locks.New()
	var readers, writers [rows]atomic.Int32
	var plain [rows]int // written under X, read under S
	var timeouts, victims, cancelled, granted atomic.Int32
	seed := rand.Uint64()
	t.Logf("seed %d", seed)

	use := func(row int, mode locks.Mode) {
		if mode == locks.Exclusive {
			assert.EqualValues(t, 1, writers[row].Add(1))
			assert.Zero(t, readers[row].Load())
			plain[row]++
			writers[row].Add(-1)
			return
		}
		readers[row].Add(1)
		assert.Zero(t, writers[row].Load())
		_ = plain[row]
		readers[row].Add(-1)
	}
	var all sync.WaitGroup
	for i := range sessions {
		session := m.Session()
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		all.Go(func() {
			for range rounds {
				owner := session.Owner()
				for range 1 + rng.IntN(3) {
					ctx, cancel := context.WithCancel(t.Context())
					if rng.IntN(4) == 0 {
						time.AfterFunc(time.Duration(rng.IntN(50))*time.Microsecond, cancel)
					}
					timeout := []time.Duration{locks.Forever, 0, 20 * time.Microsecond, time.Millisecond}[rng.IntN(4)]
					row, mode := rng.IntN(rows), locks.Mode(1+rng.IntN(3))
					err := owner.Lock(ctx, locks.Resource{Space: "t", Key: string(rune('a' + row))}, mode, timeout)
					cancel()
					switch {
					case err == nil:
						granted.Add(1)
						use(row, mode)
						if rng.IntN(3) == 0 {
							owner.Unlock(locks.Resource{Space: "t", Key: string(rune('a' + row))}, mode)
						}
					case errors.Is(err, locks.ErrTimeout):
						timeouts.Add(1)
					case errors.Is(err, context.Canceled):
						cancelled.Add(1)
					default:
						assert.ErrorIs(t, err, locks.ErrDeadlock)
						victims.Add(1)
						owner.UnlockAll()
					}
				}
				owner.UnlockAll()
			}
		})
	}
	all.Wait()
	holds, waits := m.Count()
	assert.Zero(t, holds)
	assert.Zero(t, waits)
	t.Logf("granted %d, timed out %d, victims %d, cancelled %d", granted.Load(), timeouts.Load(), victims.Load(), cancelled.Load())
	for name, count := range map[string]int32{"granted": granted.Load(), "time-outs": timeouts.Load(), "victims": victims.Load()} {
		assert.Positive(t, count, name)
	}
}
