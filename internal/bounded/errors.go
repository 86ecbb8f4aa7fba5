package bounded

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aaravsoft/leasehold/store"
)

// ErrAbandoned refines [store.ErrUnavailable]: the call goes on, and its answer will be given to late.
var ErrAbandoned = errors.New("abandoned")

// LimitError says that the call's own limit ended it, not its caller. It is also the cause of the context that the
// store is given, so that a wrapper of the store can tell the two apart.
type LimitError struct {
	Limit time.Duration
}

func (e *LimitError) Error() string { return fmt.Sprintf("no answer within its limit of %v", e.Limit) }

// StoreLimit marks the error for a circuit breaker, which must not know this package: the store has not kept a limit.
func (e *LimitError) StoreLimit() {}

// PanicError is a panic of the store.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("the store panicked: %v", e.Value) }

var (
	errCrowded = fmt.Errorf("not sent, %d calls are abandoned already", Most)
	errExit    = errors.New("the store ended its goroutine")
)

func notSent(op string, err error) error { return &store.UnavailableError{Op: op, Err: err} }

func unclear(op string, err error) error {
	return &store.UnavailableError{Op: op, Unclear: true, Err: err}
}

// ended says why a call's context has ended, and returns nil if it has not. If both the limit and the caller ended, it
// names the caller: who has left does not want to hear of limits.
func ended(caller, ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if callerErr := caller.Err(); callerErr != nil {
		err, cause = callerErr, context.Cause(caller)
	} else if limit, ok := errors.AsType[*LimitError](cause); ok {
		return limit
	}
	if err == nil || errors.Is(cause, err) {
		return err
	}
	// The caller's cause can be anything, for example the ErrHeld of another lock, and must not be taken for the
	// class of this error: only its text goes in.
	return fmt.Errorf("%w (%s)", err, cause.Error())
}

// translate makes exactly one class of what a store returned, and has it mention a context's error only if the caller's
// own context has ended.
func translate(caller, ctx context.Context, op string, err error) error {
	if err == nil {
		return nil
	}
	unavailable, other := errors.Is(err, store.ErrUnavailable), isDefinite(err)
	if other && !unavailable {
		return err
	}
	why := ended(caller, ctx)
	if unavailable && !other && why == nil && !isContextual(err) {
		return err
	}
	// What has no class may have been sent.
	u := &store.UnavailableError{Op: op, Unclear: !unavailable || errors.Is(err, store.ErrUnclear)}
	inner := err
	if theirs, ok := errors.AsType[*store.UnavailableError](err); ok {
		u.RetryAfter = theirs.RetryAfter
		if err == error(theirs) { //nolint:errorlint // what wraps it would get lost
			inner = theirs.Err
		}
	}
	bare := inner == context.Canceled || inner == context.DeadlineExceeded //nolint:errorlint // not if it says more
	switch {
	case why == nil:
		u.Err = quiet(inner)
	case inner == nil || bare:
		u.Err = why
	default:
		u.Err = fmt.Errorf("%w: %w", why, quiet(inner))
	}
	return u
}

// isDefinite reports whether err is of a class that says something about the lease or the input.
func isDefinite(err error) bool {
	return errors.Is(err, store.ErrHeld) || errors.Is(err, store.ErrLost) || errors.Is(err, store.ErrInvalid) ||
		errors.Is(err, store.ErrMisconfigured) || errors.Is(err, store.ErrNotFound)
}

func isContextual(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// quiet keeps an error from saying more than it should to errors.Is, and keeps everything else in it reachable.
func quiet(err error) error {
	if err != nil && isDefinite(err) {
		return errors.New(err.Error()) // a second class: it comes from a context's cause
	}
	return quietError{err}
}

// quietError is not a context's error, whatever is in it.
type quietError struct{ error }

func (e quietError) Is(target error) bool {
	return target != context.Canceled && target != context.DeadlineExceeded && errors.Is(e.error, target)
}

func (e quietError) As(target any) bool { return errors.As(e.error, target) }
