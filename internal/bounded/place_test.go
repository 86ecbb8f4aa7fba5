package bounded

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
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

// A call whose goroutine has not come to run when its caller leaves is never made. The moment cannot be hit from outside.
func TestACallThatHasNotBegunIsNeverMade(t *testing.T) {
	t.Run("ACQ-02 no statement is sent for a caller who has left and cleaned up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			c := &call[forbidden, int]{
				question: forbidden{t},
				caller:   t.Context(), Context: ctx, lane: &lane{flying: 1}, op: "acquire", start: time.Now(),
				limit: LimitError{Limit: time.Second}, done: make(chan struct{}),
				late: func(int, error) { t.Error("there is nothing to come late") },
			}
			_, err := c.answer() // and run does not run
			require.ErrorIs(t, err, store.ErrUnavailable)
			require.NotErrorIs(t, err, store.ErrUnclear)
			require.NotErrorIs(t, err, ErrAbandoned)
			assert.Zero(t, c.lane.flying)
			assert.Zero(t, c.lane.abandoned)
			c.run()
			assert.Zero(t, c.lane.abandoned)
		})
	})
}

type forbidden struct{ t *testing.T }

func (q forbidden) ask(context.Context, context.Context) (int, error) {
	q.t.Error("the store was called")
	return 0, nil
}
