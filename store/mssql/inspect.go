package mssql

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/aaravsoft/leasehold/store"
)

// Get implements [store.Inspector].
func (s *Store) Get(ctx context.Context, name string) (store.Lease, error) {
	if err := store.ValidateName(name); err != nil {
		return store.Lease{}, err
	}
	row, err := s.ask(ctx, call{op: "get", other: true, sql: s.sql.get.within(patience), args: []any{nvarchar(name)}})
	if err == nil && !row.found {
		err = fmt.Errorf("%w: %q", store.ErrNotFound, name)
	}
	return row.lease, err
}

// List implements [store.Inspector]. It reads page by page, and yields when it has read them all: the order of bytes is
// none of the server's.
func (s *Store) List(ctx context.Context, prefix string) iter.Seq2[store.Lease, error] {
	return func(yield func(store.Lease, error) bool) {
		if !utf8.ValidString(prefix) {
			yield(store.Lease{}, fmt.Errorf("%w prefix %q: it must be valid UTF-8", store.ErrInvalid, prefix))
			return
		}
		list, err := s.list(ctx, prefix)
		if err != nil {
			yield(store.Lease{}, err)
			return
		}
		slices.SortFunc(list, func(a, b store.Lease) int { return cmp.Compare(a.Name, b.Name) })
		for _, lease := range list {
			if !yield(lease, nil) {
				return
			}
		}
	}
}

func (s *Store) list(ctx context.Context, prefix string) (list []store.Lease, err error) {
	after := ""
	for {
		var page []store.Lease
		err := s.pool.query(ctx, call{op: "list", other: true, sql: s.sql.list.within(patience),
			args: []any{nvarchar(after), len(utf16.Encode([]rune(prefix))), nvarchar(prefix)}},
			func() { page = nil },
			func(rows *sql.Rows) error {
				var a answer
				err := a.scan(rows)
				page = append(page, a.lease)
				return err
			})
		if err != nil {
			return nil, err
		}
		if len(page) == 0 {
			return list, nil
		}
		after = page[len(page)-1].Name
		for _, lease := range page {
			if strings.HasPrefix(lease.Name, prefix) { // the server ignores blanks at the end
				list = append(list, lease)
			}
		}
	}
}

// Break implements [store.Inspector].
func (s *Store) Break(ctx context.Context, name, owner string) (store.Lease, error) {
	c := store.Claim{Name: name, Owner: owner}
	if err := c.ValidateKey(); err != nil {
		return store.Lease{}, err
	}
	row, err := s.ask(ctx, call{op: "break", other: true, sql: s.sql.disown.within(patience),
		args: []any{nvarchar(name), nvarchar(owner), nvarchar(store.NewOwner(store.Broken))}})
	if err == nil && !row.found {
		err = fmt.Errorf("%w: %q of %s", store.ErrNotFound, name, owner)
	}
	return row.lease, err
}
