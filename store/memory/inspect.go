package memory

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aaravsoft/leasehold/store"
)

// Get implements [store.Inspector].
func (s *Store) Get(ctx context.Context, name string) (store.Lease, error) {
	if err := store.ValidateName(name); err != nil {
		return store.Lease{}, err
	}
	if err := ended(ctx, "get"); err != nil {
		return store.Lease{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	row, found := s.rows[name]
	if !found {
		return store.Lease{}, fmt.Errorf("%w: %q", store.ErrNotFound, name)
	}
	return answer(row, s.now()), nil
}

// List implements [store.Inspector].
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[store.Lease, error] {
	return func(yield func(store.Lease, error) bool) {
		if !utf8.ValidString(prefix) {
			yield(store.Lease{}, fmt.Errorf("%w prefix %q: it must be valid UTF-8", store.ErrInvalid, prefix))
			return
		}
		after := "" // no name is empty
		for {
			if err := ended(ctx, "list"); err != nil {
				yield(store.Lease{}, err)
				return
			}
			page := s.page(prefix, after)
			for _, lease := range page {
				if !yield(lease, nil) {
					return
				}
			}
			if len(page) < pageSize {
				return
			}
			after = page[len(page)-1].Name
		}
	}
}

const pageSize = 100

// page returns the first rows behind a name. The mutex is not held while they are yielded: the loop's body may use the
// store.
func (s *Store) page(prefix, after string) []store.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()

	var names []string
	for name := range s.rows {
		if name > after && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	now := s.now()
	page := make([]store.Lease, 0, pageSize)
	for _, name := range names[:min(len(names), pageSize)] {
		page = append(page, answer(s.rows[name], now))
	}
	return page
}

// Break implements [store.Inspector].
func (s *Store) Break(ctx context.Context, name, owner string) (store.Lease, error) {
	if err := (store.Claim{Name: name, Owner: owner}).ValidateKey(); err != nil {
		return store.Lease{}, err
	}
	if err := ended(ctx, "break"); err != nil {
		return store.Lease{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	now := s.now()
	row := s.rows[name]
	if row.Owner != owner || expired(row, now) {
		return store.Lease{}, fmt.Errorf("%w: %q of %s", store.ErrNotFound, name, owner)
	}
	row.Owner = store.NewOwner(store.Broken)
	s.put(row)
	return answer(row, now), nil
}
