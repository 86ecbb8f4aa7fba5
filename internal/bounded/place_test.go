package bounded

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

// A place that is given to a caller who leaves at that moment must not be lost. The moment cannot be hit from outside.
func TestPlaceOfACallerWhoLeavesIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lane{abandoned: Most}
		entered := make(chan bool, 2)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { entered <- l.enter(ctx) }()
		synctest.Wait()
		go func() { entered <- l.enter(t.Context()) }()
		synctest.Wait()

		l.mu.Lock()
		cancel() // the first waiter's select has chosen, and its enter waits for mu
		l.abandoned--
		l.admit() // to the first waiter
		assert.Len(t, l.waiting, 1)
		l.mu.Unlock()
		synctest.Wait()

		assert.Len(t, entered, 2)
		assert.ElementsMatch(t, []bool{false, true}, []bool{<-entered, <-entered})
		assert.Equal(t, 1, l.flying)
		assert.Empty(t, l.waiting)
	})
}
