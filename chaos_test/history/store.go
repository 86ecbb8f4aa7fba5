package history

import (
	"context"
	"errors"

	"github.com/aaravsoft/leasehold/store"
)

// Store records the statements that one client sends, and their answers as they come back, however late.
type Store struct {
	inner  store.Store
	rec    *Recorder
	client string
	watch  *watch
}

var (
	_ store.Store     = (*Store)(nil)
	_ store.Unwrapper = (*Store)(nil)
)

// Unwrap returns the store inside.
func (s *Store) Unwrap() store.Store { return s.inner }

// Acquire implements [store.Store].
func (s *Store) Acquire(ctx context.Context, c store.Claim) (store.Lease, error) {
	answered := s.sent(ctx, Acquire, c)
	defer noteAPanic(func() { answered(store.Lease{}, errPanic) })
	lease, err := s.inner.Acquire(ctx, c)
	row := lease
	if held, ok := errors.AsType[*store.HeldError](err); ok {
		row = held.Lease
	}
	answered(row, err)
	return lease, err
}

// Renew implements [store.Store].
func (s *Store) Renew(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	return s.batch(ctx, Renew, claims, func() ([]store.Result, error) { return s.inner.Renew(ctx, claims) })
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	for _, c := range claims {
		s.watch.look(c.Owner)
	}
	return s.batch(ctx, Release, claims, func() ([]store.Result, error) { return s.inner.Release(ctx, claims) })
}

func (s *Store) batch(
	ctx context.Context, op string, claims []store.Claim, call func() ([]store.Result, error),
) ([]store.Result, error) {
	answered := make([]func(store.Lease, error), len(claims))
	for i, c := range claims {
		answered[i] = s.sent(ctx, op, c)
	}
	defer noteAPanic(func() {
		for _, a := range answered {
			a(store.Lease{}, errPanic)
		}
	})
	results, err := call()
	for i := range claims {
		switch {
		case err != nil:
			answered[i](store.Lease{}, err)
		case i < len(results):
			answered[i](results[i].Lease, results[i].Err)
		}
	}
	return results, err
}

var errPanic = &store.UnavailableError{Op: "chaos", Unclear: true}

// noteAPanic calls note and goes on panicking. It is deferred.
func noteAPanic(note func()) {
	if p := recover(); p != nil {
		note()
		panic(p)
	}
}

// sent records a statement, and returns what records its answer.
func (s *Store) sent(ctx context.Context, op string, c store.Claim) func(store.Lease, error) {
	e := Event{
		Kind: Sent, Client: s.client, ID: s.rec.NextID(), Op: op, Name: c.Name, Owner: c.Owner, TTL: c.TTL,
	}
	if ctx.Err() != nil {
		e.Detail = Abandoned
	}
	s.rec.Add(e)
	return func(l store.Lease, err error) {
		e.Kind, e.Class, e.Detail = Answered, Class(err), ""
		if ctx.Err() != nil && e.Class == "unclear" {
			e.Detail = Abandoned
		}
		if l.Owner != "" {
			e.Row = &Row{Owner: l.Owner, Expires: l.Expires, Left: l.Left, Version: l.Version}
		}
		s.rec.Add(e)
	}
}
