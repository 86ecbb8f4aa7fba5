package sqlite

import (
	"context"
	"fmt"

	"github.com/aaravsoft/leasehold/store"
)

// Acquire implements [store.Store]. The token is drawn in the transaction that grants: no other grant comes in between.
func (s *Store) Acquire(ctx context.Context, c store.Claim) (store.Lease, error) {
	if err := c.Validate(); err != nil {
		return store.Lease{}, err
	}
	var granted store.Lease
	var held error
	decide := func(t *tx) error {
		r, err := t.row(c.Name)
		if err != nil {
			return err
		}
		switch live := r != nil && r.left(t.now) > 0; {
		case live && r.owner != c.Owner:
			held = &store.HeldError{Lease: r.lease(t.now)}
			return nil
		case !live:
			token, err := t.token()
			if err != nil {
				return err
			}
			r = &row{name: c.Name, owner: c.Owner, token: token, acquired: t.now.wall}
		}
		r.metadata = text(c.Metadata)
		r.extend(t.now, c.TTL)
		granted = r.lease(t.now)
		granted.Version = uint64(r.token)
		return t.save(r)
	}
	err := s.use(ctx, "acquire", func(db *conn) error {
		if err := s.transact(ctx, "acquire", db, decide); err != nil {
			return err
		}
		s.sweep(db)
		return nil
	})
	if err == nil {
		err = held
	}
	if err != nil {
		return store.Lease{}, err
	}
	return granted, nil
}

// Renew implements [store.Store], in one transaction.
func (s *Store) Renew(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	return s.batch(ctx, opRenew, claims, store.Claim.Validate, (*tx).renew)
}

// Release implements [store.Store], in one transaction.
func (s *Store) Release(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	return s.batch(ctx, opRelease, claims, store.Claim.ValidateKey, (*tx).release)
}

// batch answers the invalid claims itself, and the others in one transaction.
func (s *Store) batch(ctx context.Context, op string, claims []store.Claim, validate func(store.Claim) error,
	answer func(*tx, store.Claim) (store.Result, error),
) ([]store.Result, error) {
	if len(claims) > store.MaxBatch {
		return nil, fmt.Errorf("%w batch of %d claims: at most %d", store.ErrInvalid, len(claims), store.MaxBatch)
	}
	results := make([]store.Result, len(claims))
	valid := 0
	for i, c := range claims {
		if results[i].Err = validate(c); results[i].Err == nil {
			valid++
		}
	}
	if valid == 0 {
		return results, nil
	}
	err := s.write(ctx, op, func(t *tx) error {
		for i, c := range claims {
			if results[i].Err != nil {
				continue
			}
			var err error
			if results[i], err = answer(t, c); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

func (t *tx) renew(c store.Claim) (store.Result, error) {
	r, err := t.row(c.Name)
	if err != nil {
		return store.Result{}, err
	}
	if loss := r.lost(c, t.now); loss != nil {
		return store.Result{Lease: r.lease(t.now), Err: loss}, nil //nolint:nilerr // the loss is the answer, not a failure
	}
	r.extend(t.now, c.TTL)
	return store.Result{Lease: r.lease(t.now)}, t.save(r)
}

func (t *tx) release(c store.Claim) (store.Result, error) {
	r, err := t.row(c.Name)
	if err != nil {
		return store.Result{}, err
	}
	if r != nil && r.owner == c.Owner {
		err = t.delete(r)
	}
	return store.Result{Lease: r.lease(t.now), Err: r.lost(c, t.now)}, err
}
