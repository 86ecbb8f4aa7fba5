package store

import (
	"context"
	"iter"
	"time"
)

// Lease is one row: who holds a name, and until when. All times are on the store's clock.
type Lease struct {
	Name     string // as stored; a store with a case-insensitive collation may spell it differently from the claim
	Owner    string
	Metadata string
	Acquired time.Time
	Renewed  time.Time
	Expires  time.Time

	// Left is the time until Expires, measured by the store's clock when it answered. It is never negative:
	// zero means expired.
	Left time.Duration

	// Version is the fencing token in Acquire's answer, and has no meaning anywhere else.
	Version uint64
}

// Result is the answer to one claim of a batch.
type Result struct {
	Lease Lease
	Err   error
}

// Store is where leases live. The package comment holds the rules that an implementation must keep.
type Store interface {
	// Acquire grants the claim or refuses it with a [*HeldError]. The grant's Version is its fencing token.
	Acquire(ctx context.Context, c Claim) (Lease, error)

	// Renew extends live leases of exactly these owners. If err is nil there is one Result for each claim, in
	// order. A Result of class [ErrLost] is definite; its Lease is the row now under that name, or the zero
	// Lease if there is none.
	Renew(ctx context.Context, claims []Claim) ([]Result, error)

	// Release deletes the rows of exactly these owners; only Name and Owner of a claim count. If err is nil
	// there is one Result for each claim, in order: nil if the row was deleted while it was valid, class
	// [ErrLost] if it was deleted after it had expired (its Lease is then the deleted row) or was not there
	// (its Lease is the row of another owner, or zero).
	Release(ctx context.Context, claims []Claim) ([]Result, error)
}

// MaxBatch is the largest number of claims that Renew and Release take in one call.
const MaxBatch = 500

// Inspector is what a store offers to operators.
type Inspector interface {
	// Get returns the row under a name, expired or not, or [ErrNotFound].
	Get(ctx context.Context, name string) (Lease, error)

	// List yields the rows whose names start with prefix, in the order of their names' bytes. It reads in
	// pages and keeps nothing open between them. An error ends the sequence.
	List(ctx context.Context, prefix string) iter.Seq2[Lease, error]

	// Break disowns: it replaces the owner of a live row by "broken/<nonce>" and leaves the expiry, so the
	// holder's next renewal is a definite loss and nobody enters before the old expiry. It returns the row as
	// it is then, or [ErrNotFound] if no live row has exactly this name and owner.
	Break(ctx context.Context, name, owner string) (Lease, error)
}

// Confirmer is implemented by stores that can look at replicas, so that trust never outruns a failover.
type Confirmer interface {
	// Confirm looks once at every replica and does not wait for one to catch up. For each lease, in order, it
	// returns the Expires up to which every replica shows that name with that lease's owner; the zero time if one
	// does not show it, or does not answer. An error says which replica did not answer and why; the times that
	// come with it are valid. A replica never proves loss.
	Confirm(ctx context.Context, leases []Lease) ([]time.Time, error)
}

// Unwrapper is implemented by stores that wrap another one.
type Unwrapper interface{ Unwrap() Store }

// As returns the outermost store in st's chain of wrappers that implements T.
func As[T any](st Store) (T, bool) {
	for st != nil {
		if t, ok := st.(T); ok {
			return t, true
		}
		w, ok := st.(Unwrapper)
		if !ok {
			break
		}
		st = w.Unwrap()
	}
	var none T
	return none, false
}
