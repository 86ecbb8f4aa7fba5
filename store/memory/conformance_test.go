package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/memory"
	"github.com/aaravsoft/leasehold/store/storetest"
)

func TestConformanceInBubble(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open:      func(*testing.T) store.Store { return memory.New() },
		Exec:      synctest.Test,
		StepClock: step,
		Exact:     true,
	})
}

// The same with a real clock, as any other store is tested: it proves that the suite can do without a bubble.
func TestConformance(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open:      func(*testing.T) store.Store { return memory.New() },
		StepClock: step,
		Short:     2 * time.Millisecond,
	})
}

func step(_ *testing.T, st store.Store, d time.Duration) { st.(*memory.Store).Step(d) }
