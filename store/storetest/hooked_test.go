package storetest_test

import (
	"context"
	"iter"

	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/memory"
)

// hooked is the memory store with some of its operations replaced.
type hooked struct {
	*memory.Store
	acquire func(context.Context, store.Claim) (store.Lease, error)
	renew   func(context.Context, []store.Claim) ([]store.Result, error)
	release func(context.Context, []store.Claim) ([]store.Result, error)
	list    func(context.Context, string) iter.Seq2[store.Lease, error]
	disown  func(ctx context.Context, name, owner string) (store.Lease, error)
}

func hook(m *memory.Store) *hooked {
	return &hooked{Store: m, acquire: m.Acquire, renew: m.Renew, release: m.Release, list: m.List, disown: m.Break}
}

func (h *hooked) Acquire(ctx context.Context, c store.Claim) (store.Lease, error) {
	return h.acquire(ctx, c)
}

func (h *hooked) Renew(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	return h.renew(ctx, claims)
}

func (h *hooked) Release(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	return h.release(ctx, claims)
}

func (h *hooked) List(ctx context.Context, prefix string) iter.Seq2[store.Lease, error] {
	return h.list(ctx, prefix)
}

func (h *hooked) Break(ctx context.Context, name, owner string) (store.Lease, error) {
	return h.disown(ctx, name, owner)
}

// row is zero if there is none.
func (h *hooked) row(name string) store.Lease {
	l, _ := h.Get(context.Background(), name)
	return l
}

// free deletes whatever is under a name.
func (h *hooked) free(name string) {
	_, _ = h.Store.Release(context.Background(), []store.Claim{{Name: name, Owner: h.row(name).Owner}})
}

type batch = func(context.Context, []store.Claim) ([]store.Result, error)

// before changes the claims of a batch on their way in.
func before(next batch, change func(store.Claim) store.Claim) batch {
	return func(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
		changed := make([]store.Claim, len(claims))
		for i, c := range claims {
			changed[i] = change(c)
		}
		return next(ctx, changed)
	}
}

// after changes the answers of a batch on their way out.
func after(next batch, change func(store.Claim, store.Result) store.Result) batch {
	return func(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
		results, err := next(ctx, claims)
		for i := range results {
			results[i] = change(claims[i], results[i])
		}
		return results, err
	}
}
