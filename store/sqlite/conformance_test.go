package sqlite

import (
	"testing"
	"time"

	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) store.Store { return openStore(t, newPath(t), systemClock()) },
		Second: func(t *testing.T, first store.Store) store.Store {
			return openStore(t, first.(*Store).path, systemClock())
		},
		PageSize: pageSize,
	})
}

// TestConformanceOfTheWallClock is for machines without a boot id, where people can step the store's clock.
func TestConformanceOfTheWallClock(t *testing.T) {
	clocks := make(map[store.Store]*fakeClock)
	storetest.Run(t, storetest.Harness{
		Open: func(t *testing.T) store.Store {
			clock := newFakeClock("")
			s := openStore(t, newPath(t), clock.read)
			clocks[s] = clock
			return s
		},
		Second: func(t *testing.T, first store.Store) store.Store {
			return openStore(t, first.(*Store).path, first.(*Store).clock)
		},
		Elapse:    func(_ *testing.T, st store.Store, d time.Duration) { clocks[st].pass(d) },
		StepClock: func(_ *testing.T, st store.Store, d time.Duration) { clocks[st].step(d) },
		Exact:     true,
		Rounds:    5,
		PageSize:  pageSize,
	})
}
