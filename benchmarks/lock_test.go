package benchmarks

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/memory"
	"github.com/aaravsoft/leasehold/store/sqlite"
)

// stores are those that are measured, the one in memory being the floor.
func stores(b *testing.B, bench func(b *testing.B, st store.Store)) {
	b.Run("memory", func(b *testing.B) { bench(b, memory.New()) })
	b.Run("sqlite", func(b *testing.B) {
		st, err := sqlite.Open(filepath.Join(b.TempDir(), "locks.db"))
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, st.Close()) })
		bench(b, st)
	})
}

func client(tb testing.TB, st store.Store, cfg mutex.Config) *mutex.Client {
	locks, err := mutex.New(st, cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, locks.Close(context.Background())) })
	return locks
}

// BenchmarkUncontended is Lock and Unlock of a free name, beside the two bare calls at the store that it needs.
func BenchmarkUncontended(b *testing.B) {
	stores(b, func(b *testing.B, st store.Store) {
		ctx := context.Background()
		locks := client(b, st, mutex.Config{})
		bare := func() error { return acquireAndRelease(ctx, st, "bare") }
		lock := func() error { return lockAndUnlock(ctx, locks) }
		b.Run("bare", func(b *testing.B) { loop(b, bare) })
		b.Run("lock", func(b *testing.B) {
			loop(b, lock)
			reportAllocs(b, bare, lock)
		})
	})
}

// loop measures one operation.
func loop(b *testing.B, op func() error) {
	b.ReportAllocs()
	for b.Loop() {
		if err := op(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHandover passes a lock between two goroutines of one process.
func BenchmarkHandover(b *testing.B) {
	stores(b, func(b *testing.B, st store.Store) {
		locks := client(b, st, mutex.Config{})
		b.ReportAllocs()
		var turns atomic.Int64
		done := make(chan error, 2)
		b.ResetTimer()
		for range 2 {
			go func() {
				for turns.Add(1) <= int64(b.N) {
					g, err := locks.Lock(context.Background(), "job")
					if err == nil {
						err = g.Unlock()
					}
					if err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		for range 2 {
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		}
	})
}

// counted counts the calls that come in.
type counted struct {
	store.Store
	renews atomic.Int64
}

func (c *counted) Renew(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	c.renews.Add(1)
	return c.Store.Renew(ctx, claims)
}

// BenchmarkHeld is a thousand locks held for ten intervals: what they weigh, and what they cost the store.
func BenchmarkHeld(b *testing.B) {
	const guards, intervals = 1000, 10
	st := &counted{Store: memory.New()}
	locks := client(b, st, mutex.Config{TTL: 900 * time.Millisecond, Renew: 300 * time.Millisecond})
	for b.Loop() {
		before := heap()
		goroutines := runtime.NumGoroutine()
		held := make([]*mutex.Guard, guards)
		for n := range held {
			var err error
			held[n], err = locks.Lock(context.Background(), fmt.Sprintf("name-%d", n))
			require.NoError(b, err)
		}
		b.ReportMetric(float64(heap()-before)/guards, "bytes/guard")
		b.ReportMetric(float64(runtime.NumGoroutine()-goroutines), "goroutines")
		renews := st.renews.Load()
		<-time.After(intervals * 300 * time.Millisecond)
		b.ReportMetric(float64(st.renews.Load()-renews)/intervals, "calls/interval")
		for _, g := range held {
			require.NoError(b, g.Unlock())
		}
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
