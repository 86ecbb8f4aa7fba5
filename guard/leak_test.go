package guard

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/clock"
	"github.com/aaravsoft/leasehold/store"
)

// TestLeak runs in real time: cleanups are the runtime's.
func TestLeak(t *testing.T) {
	leak := func(t *testing.T, keep func(*Guard)) *Control {
		t.Helper()
		g, ctl := New(params(clock.System()))
		ctl.Start()
		keep(g)
		return ctl
	}
	collected := func(ctl *Control) bool {
		for range 50 {
			if runtime.GC(); ctl.Leaked() {
				return true
			}
			runtime.Gosched()
		}
		return false
	}

	t.Run("a handle that is gone", func(t *testing.T) {
		ctl := leak(t, func(*Guard) {})
		require.True(t, collected(ctl))
		require.NotEmpty(t, ctl.Where())
	})
	t.Run("the context keeps the guard", func(t *testing.T) {
		var ctx context.Context
		ctl := leak(t, func(g *Guard) { ctx = g.Context() })
		require.False(t, collected(ctl))
		runtime.KeepAlive(ctx)
	})
	t.Run("an unlocked guard is no leak", func(t *testing.T) {
		ctl := leak(t, func(g *Guard) { require.NoError(t, g.Unlock()) })
		require.False(t, collected(ctl))
	})
}

// TestLeakRace collects garbage at the worst moment: when Unlock has begun, and nothing references the handle any more.
func TestLeakRace(t *testing.T) {
	var unlocking bool
	system := clock.System()
	p := params(func() clock.Instant {
		if unlocking {
			for range 5 {
				runtime.GC()
				runtime.Gosched()
			}
		}
		return system()
	})
	var ctl *Control
	var seen bool
	keeperOf(&p).stop = func() { seen = seen || ctl.Leaked() }
	func() {
		var g *Guard
		g, ctl = New(p)
		ctl.Start()
		unlocking = true
		_ = g.Unlock()
	}()
	for range 50 {
		runtime.GC()
		runtime.Gosched()
	}
	require.False(t, seen || ctl.Leaked())
}

func TestNothingIsLeft(t *testing.T) {
	endings := map[string]func(g *Guard, ctl *Control, cancel func()){
		"unlocked":              func(g *Guard, _ *Control, _ func()) { _ = g.Unlock() },
		"unlocked with context": func(g *Guard, _ *Control, _ func()) { _ = g.UnlockContext(context.Background()) },
		"lost":                  func(_ *Guard, ctl *Control, _ func()) { ctl.Lose(Gone, nil) },
		"lost and unlocked": func(g *Guard, ctl *Control, _ func()) {
			ctl.Lose(Gone, nil)
			_ = g.Unlock()
		},
		"parent ended, unlocked": func(g *Guard, _ *Control, cancel func()) {
			cancel()
			_ = g.Unlock()
		},
		"closed, unlocked": func(g *Guard, ctl *Control, _ func()) {
			ctl.Close()
			_ = g.Unlock()
		},
	}
	for name, end := range endings {
		bubble(t, "REL-09 "+name, func(t *testing.T) { // which fails if a goroutine is left
			parent, cancel := context.WithCancel(context.Background())
			defer cancel()
			var readings atomic.Int64
			system := clock.System()
			p := params(func() clock.Instant {
				readings.Add(1)
				return system()
			})
			p.Parent, p.MaxHold = parent, 30*time.Minute
			g, ctl := New(p)
			ctl.Start()
			end(g, ctl, cancel)
			synctest.Wait()
			before := readings.Load()
			time.Sleep(24 * time.Hour)
			cancel()
			synctest.Wait()
			require.Equal(t, before, readings.Load(), "no timer, and nothing at the parent")
		})
	}
}

func params(clk clock.Clock) Params {
	return Params{
		Name: "job", Owner: "a/b", Parent: context.Background(), Clock: clk, Sent: clk(), Trust: time.Hour, Drain: time.Hour,
		Keeper: &keeper{
			stop: func() {}, lost: func(*LostError) {}, released: func(error) {}, run: func(f func()) { f() },
			release:      func(time.Duration) (store.Result, error) { return store.Result{}, nil },
			releaseBound: func(d time.Duration) time.Duration { return d },
		},
	}
}

func BenchmarkGuard(b *testing.B) {
	parent, cancel := context.WithCancel(b.Context()) // as a request's
	defer cancel()
	p := params(clock.System())
	p.Parent = parent
	b.ReportAllocs()
	for b.Loop() {
		p.Sent = p.Clock()
		g, ctl := New(p)
		ctl.Start()
		_ = g.Unlock()
	}
}
