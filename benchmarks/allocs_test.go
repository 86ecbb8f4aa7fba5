package benchmarks

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store/memory"
)

// operations is how many there are in a Lock and its Unlock.
const operations = 2

// allocs is how many allocations f makes. Unlike its time it does not depend on the machine. It is not testing.AllocsPerRun,
// which rounds down, so that a difference of two may be wrong by one.
func allocs(tb testing.TB, f func() error) float64 {
	tb.Helper()
	const runs = 2000
	var before, after runtime.MemStats
	for n := range runs + runs/10 {
		if n == runs/10 { // what is made once is made
			runtime.ReadMemStats(&before)
		}
		if err := f(); err != nil {
			tb.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / runs
}

// TestAllocations keeps what a lock costs from growing unseen. A number that is below its limit by much is a reason to lower
// the limit.
func TestAllocations(t *testing.T) {
	if racing {
		t.Skip("the race detector allocates, too")
	}
	ctx := t.Context()

	t.Run("over the store in memory", func(t *testing.T) {
		st := memory.New()
		locks := client(t, st, mutex.Config{})
		bare := allocs(t, func() error { return acquireAndRelease(ctx, st, "bare") })
		lock := allocs(t, func() error { return lockAndUnlock(ctx, locks) })
		require.LessOrEqual(t, (lock-bare)/operations, 23.5, "an operation; %v bare, %v with the lock", bare, lock)
	})

	t.Run("over database/sql, with store/mssql", func(t *testing.T) {
		r := newShare(t)
		pool := allocs(t, func() error { return r.pool(ctx) })
		st := allocs(t, func() error { return acquireAndRelease(ctx, r.store, "lock") })
		lock := allocs(t, func() error { return lockAndUnlock(ctx, r.locks) })
		require.LessOrEqual(t, st, pool, "the store allocates no more than the pool below it")
		require.LessOrEqual(t, (lock-pool)/operations, 25.0, "an operation; %v the pool, %v with the lock", pool, lock)
	})
}

// reportAllocs adds the share of what is above, for each operation.
func reportAllocs(b *testing.B, below, above func() error) {
	b.ReportMetric((allocs(b, above)-allocs(b, below))/operations, "own-allocs/operation")
}
