package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/memory"
	"github.com/aaravsoft/leasehold/store/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open: func(*testing.T) store.Store { return memory.New() },
		Exec: synctest.Test,
		StepClock: func(_ *testing.T, st store.Store, d time.Duration) {
			st.(*memory.Store).Step(d)
		},
		Exact: true,
	})
}
