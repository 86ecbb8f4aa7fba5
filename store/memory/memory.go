// Package memory keeps leases in the memory of one process. It is the reference implementation of [store.Store] and
// the store for tests: also for yours, of code that takes locks.
//
// It can be used inside a testing/synctest bubble: it reads the time with time.Now, starts no goroutine, and its one
// mutex is never held across anything that blocks. Its clock is the wall clock plus an offset; [Store.Step] moves it
// as a failover to a node with another clock does.
//
// What it leaves out is what makes a store useful in production: it excludes nobody outside this process, and the
// leases end with the process.
package memory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aaravsoft/leasehold/store"
)

// Store is a [store.Store] and a [store.Inspector]. The zero value is an empty store. It must not be copied.
type Store struct {
	mu     sync.Mutex
	rows   map[string]store.Lease // Left and Version are zero here: they belong to an answer
	token  uint64                 // of the latest grant of any name
	offset time.Duration          // of the store's clock from the wall clock
	swept  time.Time              // when, by this process's clock and not by the store's
}

var (
	_ store.Store     = (*Store)(nil)
	_ store.Inspector = (*Store)(nil)
)

// New returns an empty store.
func New() *Store { return &Store{} }

// Step moves the store's clock by d, forward or back, while no time passes: what the clients of a database see when it
// fails over to a node whose clock differs by d. Leases keep their Expires, so a step forward may end them and a step
// back makes them last longer.
func (s *Store) Step(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset += d
}

// Acquire implements [store.Store].
func (s *Store) Acquire(ctx context.Context, c store.Claim) (store.Lease, error) {
	if err := c.Validate(); err != nil {
		return store.Lease{}, err
	}
	if err := ended(ctx, "acquire"); err != nil {
		return store.Lease{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	now := s.now()
	row, found := s.rows[c.Name]
	switch {
	case !found || expired(row, now):
		row = store.Lease{Name: c.Name, Owner: c.Owner, Acquired: now, Renewed: now, Expires: now.Add(c.TTL)}
	case row.Owner != c.Owner:
		return store.Lease{}, &store.HeldError{Lease: answer(row, now)}
	default:
		row = extend(row, now, c.TTL)
	}
	row.Metadata = c.Metadata
	s.put(row)

	// Every answered claim draws a new token, also one that finds its own row: as on a server, where the row version
	// moves with each write.
	s.token++
	lease := answer(row, now)
	lease.Version = s.token

	s.sweep(now)
	return lease, nil
}

// Renew implements [store.Store].
func (s *Store) Renew(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	return s.batch(ctx, "renew", claims, s.renew)
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	return s.batch(ctx, "release", claims, s.release)
}

func (s *Store) batch(
	ctx context.Context, op string, claims []store.Claim, one func(store.Claim, time.Time) store.Result,
) ([]store.Result, error) {
	results := make([]store.Result, len(claims))
	if len(claims) == 0 {
		return results, nil
	}
	if len(claims) > store.MaxBatch {
		return nil, fmt.Errorf("%w batch of %d claims: at most %d", store.ErrInvalid, len(claims), store.MaxBatch)
	}
	if err := ended(ctx, op); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	now := s.now()
	for i, c := range claims {
		results[i] = one(c, now)
	}
	return results, nil
}

func (s *Store) renew(c store.Claim, now time.Time) store.Result {
	if err := c.Validate(); err != nil {
		return store.Result{Err: err}
	}
	row := s.rows[c.Name]
	if err := lost(row, c, now); err != nil {
		return store.Result{Lease: answer(row, now), Err: err}
	}
	row = extend(row, now, c.TTL)
	s.put(row)
	return store.Result{Lease: answer(row, now)}
}

func (s *Store) release(c store.Claim, now time.Time) store.Result {
	if err := c.ValidateKey(); err != nil {
		return store.Result{Err: err}
	}
	row := s.rows[c.Name]
	if row.Owner == c.Owner {
		delete(s.rows, c.Name)
	}
	return store.Result{Lease: answer(row, now), Err: lost(row, c, now)}
}

// put needs the mutex, as now and sweep do.
func (s *Store) put(row store.Lease) {
	if s.rows == nil {
		s.rows = make(map[string]store.Lease)
	}
	s.rows[row.Name] = row
}

// now is the store's clock. Without the monotonic reading of time.Now: the clock of a database has none either.
func (s *Store) now() time.Time { return time.Now().Round(0).UTC().Add(s.offset) }

const (
	sweepEvery = 30 * time.Second
	sweepMost  = 200
)

// sweep deletes what nobody will ask for again.
func (s *Store) sweep(now time.Time) {
	if time.Since(s.swept) < sweepEvery {
		return
	}
	s.swept = time.Now()
	left := sweepMost
	for name, row := range s.rows {
		if left == 0 {
			return
		}
		if expired(row, now) {
			delete(s.rows, name)
			left--
		}
	}
}

// expired decides at Expires itself: the lease covers the time before it.
func expired(row store.Lease, now time.Time) bool { return !row.Expires.After(now) }

// extend renews a live row by rule S3: a statement that arrives late does not take away what a later one gave.
func extend(row store.Lease, now time.Time, ttl time.Duration) store.Lease {
	row.Renewed = now
	if row.Expires.Before(now.Add(ttl)) || row.Expires.After(now.Add(2*ttl)) {
		row.Expires = now.Add(ttl)
	}
	return row
}

// lost says why the row is not a live one of the claim's owner. A zero row is none.
func lost(row store.Lease, c store.Claim, now time.Time) error {
	switch {
	case row.Owner == "":
		return fmt.Errorf("%w: nobody holds %q", store.ErrLost, c.Name)
	case row.Owner != c.Owner:
		return fmt.Errorf("%w: %q belongs to %s", store.ErrLost, c.Name, row.Owner)
	case expired(row, now):
		return fmt.Errorf("%w: %q expired at %s", store.ErrLost, c.Name, row.Expires.Format(time.RFC3339Nano))
	}
	return nil
}

// answer is the row as a client sees it.
func answer(row store.Lease, now time.Time) store.Lease {
	row.Left = max(0, row.Expires.Sub(now))
	return row
}

// ended answers for a context that was over before anything was done.
func ended(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return &store.UnavailableError{Op: op, Err: err}
	}
	return nil
}
