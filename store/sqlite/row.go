package sqlite

import (
	"database/sql"
	"fmt"
	"time"

	"github.com/aaravsoft/leasehold/store"
)

// row is a line of the table leases.
type row struct {
	name, owner string
	metadata    sql.NullString
	token       int64

	acquired, renewed int64 // wall clock, for people
	expires           reading
}

func (r *row) left(now reading) time.Duration { return r.expires.sub(now) }

// extend is rule S3 of package store: a statement that was delayed does not shorten the row; but an expiry farther away
// than any statement of this grant could have put it comes from a clock that was stepped.
func (r *row) extend(now reading, ttl time.Duration) {
	r.renewed = now.wall
	if left := r.left(now); left < ttl || left > 2*ttl {
		r.expires = now.add(ttl)
	}
}

// lost says why a claim has no live lease, if it has none. A nil row is none.
func (r *row) lost(c store.Claim, now reading) error {
	switch {
	case r == nil:
		return fmt.Errorf("%w: nobody holds %q", store.ErrLost, c.Name)
	case r.owner != c.Owner:
		return fmt.Errorf("%w: %q belongs to %s", store.ErrLost, c.Name, r.owner)
	case r.left(now) <= 0:
		return fmt.Errorf("%w: the lease of %q has expired", store.ErrLost, c.Name)
	}
	return nil
}

// lease is the row as a client sees it. The token is for the grant's own answer alone.
func (r *row) lease(now reading) store.Lease {
	if r == nil {
		return store.Lease{}
	}
	return store.Lease{
		Name:     r.name,
		Owner:    r.owner,
		Metadata: r.metadata.String,
		Acquired: time.Unix(0, r.acquired).UTC(),
		Renewed:  time.Unix(0, r.renewed).UTC(),
		Expires:  time.Unix(0, r.expires.wall).UTC(),
		Left:     max(0, r.left(now)),
	}
}

// text is rule S13 of package store: no metadata is NULL.
func text(s string) sql.NullString { return sql.NullString{String: s, Valid: s != ""} }
