package heartbeat

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/aaravsoft/leasehold/internal/bounded"
	"github.com/aaravsoft/leasehold/internal/clock"
	"github.com/aaravsoft/leasehold/store"
)

// yes renews everything.
type yes struct{ store.Store }

func (yes) Renew(_ context.Context, claims []store.Claim) ([]store.Result, error) {
	return make([]store.Result, len(claims)), nil
}

// benchLease is as cheap as a target can be.
type benchLease struct {
	lease
	mu sync.Mutex
	d  clock.Instant
}

func (l *benchLease) Deadline() clock.Instant {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.d
}

func (l *benchLease) Renewed(sent clock.Instant, _ store.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.d = sent.Add(27 * time.Second)
}

// BenchmarkRound is one round over n targets, from the timer to the last answer, on a store that costs nothing.
func BenchmarkRound(b *testing.B) {
	for _, n := range []int{1, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			var now clock.Instant
			s := New(bounded.New(yes{}), func() clock.Instant { return now })
			for range n {
				l := &benchLease{}
				l.d = now.Add(27 * time.Second)
				s.Add(l, 10*time.Second, now)
			}
			for b.Loop() {
				now = now.Add(12 * time.Second)
				s.fire()
				s.running.Wait()
			}
			_ = s.Close(b.Context())
		})
	}
}

// BenchmarkAddRemove is what the heartbeat costs a lock that is held only briefly, beside n others.
func BenchmarkAddRemove(b *testing.B) {
	for _, n := range []int{0, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			clk := clock.System()
			s := New(bounded.New(yes{}), clk)
			for range n {
				l := &benchLease{}
				l.d = clk().Add(27 * time.Minute)
				s.Add(l, 10*time.Minute, clk())
			}
			l := &benchLease{}
			for b.Loop() {
				sent := clk()
				l.d = sent.Add(27 * time.Minute)
				s.Add(l, 10*time.Minute, sent)
				s.Remove(l)
			}
			_ = s.Close(b.Context())
		})
	}
}
