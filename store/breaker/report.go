package breaker

import (
	"context"
	"errors"
	"sync"

	"github.com/aaravsoft/leasehold/store"
)

// What gobreaker is told of a call; nil is a success.
var (
	errFailed  = errors.New("failed")
	errNeutral = errors.New("says nothing about the store")
)

// reporter tells gobreaker of one call, once. A nil reporter tells nothing.
type reporter struct {
	s       *Store
	ctx     context.Context
	done    func(error)
	success bool // a success counts as one
	once    sync.Once
	stop    func() bool // nil if ctx need not be told
}

// ender is a context that tells of its end, at less cost than context.AfterFunc, as that of a call that package bounded makes.
type ender interface {
	OnEnd(w interface{ Ended() }) bool
}

// watch reports a call whose context ends before it returns: then its caller has left, and a probe that hangs must not keep
// the place.
func (s *Store) watch(ctx context.Context, done func(error), success bool) *reporter {
	r := &reporter{s: s, ctx: ctx, done: done, success: success}
	if e, ok := ctx.(ender); !ok || !e.OnEnd(r) { // another breaker, around this one, may be told
		r.stop = context.AfterFunc(ctx, r.Ended)
	}
	return r
}

// Ended is called when the context has ended.
func (r *reporter) Ended() { r.settle(ended(r.ctx)) }

func (r *reporter) report(verdict error) {
	if r == nil {
		return
	}
	if r.stop != nil {
		r.stop()
	}
	r.settle(verdict)
}

func (r *reporter) settle(verdict error) {
	r.once.Do(func() {
		if verdict == nil && !r.success {
			verdict = errNeutral
		}
		r.done(verdict)
		r.s.tell()
		r.s.look()
	})
}

// verdict is what a call's outcome says about the store.
func verdict(ctx context.Context, err error) error {
	switch {
	case err == nil, errors.Is(err, store.ErrHeld), errors.Is(err, store.ErrLost), contended(err):
		return nil
	case errors.Is(err, store.ErrInvalid), errors.Is(err, store.ErrMisconfigured):
		return errNeutral
	case ctx.Err() != nil:
		return ended(ctx)
	}
	return errFailed
}

// contended reports a deadlock victim or a lock time-out: the store is busy, and alive.
func contended(err error) bool {
	var contention interface{ Contention() bool }
	return errors.As(err, &contention) && contention.Contention()
}

// ended tells a limit of this module, which the store has not kept, from a caller who left. The causes of package context
// are callers'; a limit has a cause of its own.
func ended(ctx context.Context) error {
	var limit interface{ StoreLimit() }
	if errors.As(context.Cause(ctx), &limit) {
		return errFailed
	}
	return errNeutral
}
