package sqlite

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/aaravsoft/leasehold/store"
)

// Get implements [store.Inspector].
func (s *Store) Get(ctx context.Context, name string) (store.Lease, error) {
	if err := store.ValidateName(name); err != nil {
		return store.Lease{}, err
	}
	found, now, err := s.read(ctx, "get", func(c *conn) ([]row, error) { return rows(c.find, name) })
	if err != nil {
		return store.Lease{}, err
	}
	if len(found) == 0 {
		return store.Lease{}, fmt.Errorf("%w: %q", store.ErrNotFound, name)
	}
	return found[0].lease(now), nil
}

const pageSize = 100

// List implements [store.Inspector]. SQLite compares the bytes of names, as the order asks for.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[store.Lease, error] {
	return func(yield func(store.Lease, error) bool) {
		if !utf8.ValidString(prefix) {
			yield(store.Lease{}, fmt.Errorf("%w prefix %q: it must be valid UTF-8", store.ErrInvalid, prefix))
			return
		}
		from := prefix // no name with this prefix comes before it
		for {
			page, now, err := s.read(ctx, "list", func(c *conn) ([]row, error) { return rows(c.page, from, pageSize) })
			if err != nil {
				yield(store.Lease{}, err)
				return
			}
			for _, r := range page {
				if !strings.HasPrefix(r.name, prefix) || !yield(r.lease(now), nil) {
					return
				}
			}
			if len(page) < pageSize {
				return
			}
			from = page[len(page)-1].name + "\x00" // nothing comes in between
		}
	}
}

// Break implements [store.Inspector].
func (s *Store) Break(ctx context.Context, name, owner string) (store.Lease, error) {
	c := store.Claim{Name: name, Owner: owner}
	if err := c.ValidateKey(); err != nil {
		return store.Lease{}, err
	}
	var broken store.Lease
	var missing error
	err := s.write(ctx, "break", func(t *tx) error {
		r, err := t.row(name)
		if err != nil {
			return err
		}
		if r.lost(c, t.now) != nil {
			missing = fmt.Errorf("%w: %q of %s", store.ErrNotFound, name, owner)
			return nil //nolint:nilerr // what is missing is the answer
		}
		r.owner = store.NewOwner(store.Broken)
		broken = r.lease(t.now)
		return t.save(r)
	})
	if err == nil {
		err = missing
	}
	return broken, err
}
