//go:build linux || darwin

package main

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store"
)

// repeat is how often a waiting tool says that it waits.
const repeat = time.Minute

// hookEvents is what the hooks of the client leave for the loops. Hooks run on a goroutine of the client.
type hookEvents struct {
	refusal atomic.Pointer[error]   // the last one
	cancel  context.CancelCauseFunc // ends the wait
	renewed chan struct{}           // trust has grown
	failure atomic.Pointer[error]   // the last failed renewal
}

var errNestedRun = errors.New("nested run")

func (r *runner) hooks() mutex.Hooks {
	r.events.renewed = make(chan struct{}, 1)
	refused := func(e mutex.Event) {
		r.events.refusal.Store(&e.Err)
		if r.inside(e.Err) {
			r.events.cancel(errNestedRun)
		}
	}
	return mutex.Hooks{
		Waiting: func(e mutex.Event) {
			refused(e)
			r.tellWaiting(e.Err)
		},
		Refused: func(e mutex.Event) {
			refused(e)
			if errors.Is(e.Err, store.ErrUnavailable) {
				r.notices.detail("%v", e.Err)
			}
		},
		Acquired: func(e mutex.Event) {
			r.notices.detail("%q is held as %s after %s", e.Name, e.Owner, span(e.Waited))
		},
		Renewed: func(e mutex.Event) {
			select {
			case r.events.renewed <- struct{}{}:
			default: // the loop has not looked yet, and will see this one too
			}
			r.notices.detail("%q is renewed", e.Name)
		},
		AtRisk: func(e mutex.Event) {
			r.events.failure.Store(&e.Err)
			r.notices.tell("%q could not be renewed, trying again: the lock is good for %s yet: %v", e.Name, span(e.Left), e.Err)
		},
		Released: func(e mutex.Event) {
			if e.Err == nil {
				r.notices.detail("%q is released after %s", e.Name, span(e.Held))
			}
		},
	}
}

// tellWaiting says for whom the tool waits.
func (r *runner) tellWaiting(err error) {
	held, ok := errors.AsType[*store.HeldError](err)
	switch {
	case r.order.wait == 0 || r.inside(err): // it does not
	case ok:
		r.notices.tell("waiting: %s", holder(held.Lease))
	default:
		r.notices.tell("waiting for %q: %v", r.order.name, err)
	}
}

// acquire waits until the lock is held. A signal that comes before the guard is returned ends the wait, also in the very
// moment of the grant: the lock is then given back.
func (r *runner) acquire() (*mutex.Guard, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	r.events.cancel = cancel

	opts := []mutex.Option{mutex.WithMetadata(r.order.metadata), mutex.WithParent(context.Background())}
	if r.order.wait >= 0 {
		opts = append(opts, mutex.WithWait(r.order.wait))
	}
	type answer struct {
		guard *mutex.Guard
		err   error
	}
	answers := make(chan answer, 1)
	go func() {
		g, err := r.client.Lock(ctx, r.order.name, opts...)
		answers <- answer{g, err}
	}()

	var ended syscall.Signal
	tick := time.NewTicker(repeat)
	defer tick.Stop()
	for {
		select {
		case got := <-answers:
			if ended == 0 {
				ended = r.pendingSignal()
			}
			if ended != 0 {
				_ = got.guard.Unlock() // of a nil guard too
				return nil, exitWith(interrupted(ended))
			}
			return got.guard, r.refusal(got.err)
		case sig := <-r.signals:
			if fatal(sig) && ended == 0 {
				ended = asSignal(sig)
				cancel(context.Canceled)
			}
		case <-tick.C:
			if refusal := r.events.refusal.Load(); refusal != nil {
				r.tellWaiting(*refusal)
			}
		}
	}
}

// pendingSignal takes a signal that came before the command was started, 0 if there is none.
func (r *runner) pendingSignal() syscall.Signal {
	for {
		select {
		case sig := <-r.signals:
			if fatal(sig) {
				return asSignal(sig)
			}
		default:
			return 0
		}
	}
}

// refusal is what the user is told of a lock that was not granted.
func (r *runner) refusal(err error) error {
	held, ok := errors.AsType[*store.HeldError](err)
	switch {
	case err == nil:
		return nil
	case r.inside(err):
		r.notices.fault("nested run: what runs under %q cannot run something else under it, it would wait for itself", r.order.name)
		return exitWith(codeUsage)
	case ok:
		if r.order.heldCode != 0 {
			r.notices.tell("%s", holder(held.Lease))
		}
		return &exitError{code: r.order.heldCode} // not nil, whatever the code
	}
	return err
}
