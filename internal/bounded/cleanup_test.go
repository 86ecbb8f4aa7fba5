package bounded_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/aaravsoft/leasehold/internal/bounded"
	"github.com/aaravsoft/leasehold/store"
)

// A lock that is held keeps its connections: clean-ups never have more than their own, and none of those of renewals.
func TestCleanUps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		var started atomic.Int64
		calls := bounded.New(deaf(free, &started))
		var wait sync.WaitGroup
		for range 3 * bounded.Most {
			wait.Go(func() {
				_, err := calls.CleanUp(t.Context(), time.Hour, []store.Claim{claim})
				assert.NoError(t, err)
			})
		}
		synctest.Wait()
		assert.EqualValues(t, bounded.Most, started.Load(), "the others wait, although nothing was abandoned")
		wait.Go(func() {
			_, err := calls.Renew(t.Context(), time.Hour, []store.Claim{claim}, nil)
			assert.NoError(t, err)
		})
		synctest.Wait()
		assert.EqualValues(t, bounded.Most+1, started.Load())
		close(free)
		wait.Wait()
		assert.EqualValues(t, 3*bounded.Most+1, started.Load())
	})
}
