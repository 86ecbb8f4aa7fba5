package bounded

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// maxParting is how long a call may go on after its caller's context has ended: a store that honours its context uses
// it to say whether the statement was sent.
const maxParting = 25 * time.Millisecond

// question is what a store is asked. It is a value of a type of its own, and no function, because a closure would cost each
// lock an allocation.
type question[T any] interface {
	ask(caller, ctx context.Context) (T, error)
}

// call is one call to the store, and the context of that call.
type call[Q question[T], T any] struct {
	context.Context // not of the caller
	ending

	question Q
	caller   context.Context
	lane     *lane
	op       string
	start    time.Time
	limit    LimitError
	late     func(T, error)

	// The caller and the call's goroutine agree by one swap of settled on who hands on the answer: the caller who
	// waited for it, or the goroutine because the caller has left.
	settled atomic.Bool
	// Likewise by one swap of begun on whether the store is called at all.
	begun atomic.Bool
	done  chan struct{} // closed when value and err are there for the caller
	value T
	err   error
}

// do makes the call. Either it returns the store's answer, or it abandons the call and leaves the answer to late.
func (c *call[Q, T]) do() (T, error) {
	var none T
	if err := ended(c.caller, c.caller); err != nil {
		return none, notSent(c.op, err)
	}
	c.start = time.Now()
	// The store's time ends a little before the caller's, so that a store that honours its context can answer by
	// itself: it knows better than anybody here what became of the statement.
	limit := c.limit.Limit
	ctx, cancel := context.WithTimeoutCause(c.caller, limit-limit/10, &c.limit)
	defer cancel()
	if !c.lane.enter(ctx) {
		return none, notSent(c.op, fmt.Errorf("%w: %w", errCrowded, ended(c.caller, ctx)))
	}

	c.Context, c.done = ctx, make(chan struct{})
	go c.run()
	return c.answer()
}

// answer waits for the store's answer, or leaves without.
func (c *call[Q, T]) answer() (T, error) {
	var none T
	if !c.wait() && c.settled.CompareAndSwap(false, true) {
		why := ended(c.caller, c)
		if c.begun.CompareAndSwap(false, true) {
			// On a busy machine run has not come to run yet. Now it never calls the store: what the caller does next may
			// rest on that, as the release of an owner id that must not be sent any more.
			c.lane.answered()
			return none, notSent(c.op, why)
		}
		c.lane.abandon()
		return none, unclear(c.op, fmt.Errorf("%w: %w", ErrAbandoned, why))
	}
	<-c.done
	c.lane.answered()
	return c.value, c.err
}

// run is the call's goroutine. It ends with the store's call, and outlives do only if it is abandoned.
func (c *call[Q, T]) run() {
	growStack()
	if !c.begun.CompareAndSwap(false, true) {
		return // the caller has left
	}
	returned := false
	defer func() {
		if p := recover(); p != nil {
			c.err = unclear(c.op, &PanicError{Value: p, Stack: debug.Stack()})
		} else if !returned {
			c.err = unclear(c.op, errExit)
		}
		c.settle()
	}()
	c.value, c.err = c.question.ask(c.caller, c)
	c.err = translate(c.caller, c, c.op, c.err)
	returned = true
}

func (c *call[Q, T]) settle() {
	if c.settled.CompareAndSwap(false, true) {
		close(c.done)
		return
	}
	c.lane.returned() // before late, which may want to make a call itself
	if c.late != nil {
		c.late(c.value, c.err)
	}
}

// wait waits for the answer as long as the call may take, and reports whether it has come.
func (c *call[Q, T]) wait() bool {
	select {
	case <-c.done:
		return true
	case <-c.Done():
	}
	c.tell()
	timer := time.NewTimer(c.left())
	defer timer.Stop()
	select {
	case <-c.done:
		return true
	case <-timer.C:
		return false
	case <-c.caller.Done():
	}
	timer.Reset(min(maxParting, c.limit.Limit/10, c.left()))
	select {
	case <-c.done:
		return true
	case <-timer.C:
		return false
	}
}

func (c *call[Q, T]) left() time.Duration { return c.limit.Limit - time.Since(c.start) }
