package chaos

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/aaravsoft/leasehold/store"
)

// flaw is a mistake that was made on purpose, somewhere. The zero flaw is none.
type flaw string

// Mistakes of a store.
const (
	renewAnyOwner   flaw = "renew without owner filter"
	renewRevives    flaw = "renew that revives"
	releaseAnyOwner flaw = "release without owner filter"
	sweepBlindly    flaw = "sweep that does not repeat its predicate"
	renewShortens   flaw = "renewal that shortens"
	tokenResets     flaw = "token that resets"
	tokenEarly      flaw = "token that is drawn early"
	breakDeletes    flaw = "break that deletes"
)

// flawedTable is a store of its own, so that each mistake can be made where real stores would make it. Without a flaw it is
// right, which its own control run shows. Like a database it reads the clock before it waits for a row that is locked.
type flawedTable struct {
	flaw flaw
	rng  *rand.Rand

	mu      sync.Mutex
	rows    map[string]store.Lease
	token   uint64
	offset  time.Duration
	blocked int
	waited  int

	readOnly bool     // it is a secondary, which refuses
	log      []change // what a secondary copies
}

// change is one row that was written, or deleted.
type change struct {
	at      time.Time // on everybody's clock
	row     store.Lease
	deleted bool
	token   uint64
}

func (t *flawedTable) write(row store.Lease) {
	t.rows[row.Name] = row
	t.log = append(t.log, change{at: time.Now(), row: row, token: t.token})
}

func (t *flawedTable) erase(name string) {
	delete(t.rows, name)
	t.log = append(t.log, change{at: time.Now(), row: store.Lease{Name: name}, deleted: true, token: t.token})
}

// apply makes a change that happened elsewhere.
func (t *flawedTable) apply(c change) {
	if c.deleted {
		delete(t.rows, c.row.Name)
	} else {
		t.rows[c.row.Name] = c.row
	}
	t.token = max(t.token, c.token)
}

func newFlawedTable(f flaw, seed uint64) *flawedTable {
	return &flawedTable{flaw: f, rng: rand.New(rand.NewPCG(seed, 3)), rows: map[string]store.Lease{}}
}

// newLocking returns a topology whose statements sometimes wait for rows that are locked.
func newLocking(f flaw, p profile, seed uint64) *oneNode {
	table := newFlawedTable(f, seed)
	n := newOneNode(table, seed, p.clients)
	n.extra = []fault{{
		name: "row locked", resource: network, longest: 5 * time.Second,
		begin: func(*rand.Rand, int) func() {
			table.block(1)
			return func() { table.block(-1) }
		},
		hits: table.hits,
	}}
	return n
}

// Step moves the clock.
func (t *flawedTable) Step(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.offset += d
}

// block makes statements wait for row locks, until as many blocks are taken back.
func (t *flawedTable) block(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.blocked += n
}

func (t *flawedTable) hits() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waited
}

var errReadOnly = &store.UnavailableError{Op: "chaos", Err: errors.New("the database is read-only")}

// statement reads the clock and a token, waits for the row, and leaves the mutex held.
func (t *flawedTable) statement(ttl time.Duration) (now time.Time, token uint64, err error) {
	t.mu.Lock()
	now = time.Now().Round(0).UTC().Add(t.offset)
	t.token++
	token = t.token
	if t.blocked > 0 && t.rng.IntN(3) == 0 {
		t.waited++
		// Less than a TTL: a lock timeout sees to that.
		wait := min(time.Duration(t.rng.ExpFloat64()*float64(ttl/5)), ttl*9/10)
		t.mu.Unlock()
		time.Sleep(wait)
		t.mu.Lock()
	}
	if t.flaw != tokenEarly {
		t.token++
		token = t.token
	}
	if t.readOnly {
		err = errReadOnly // it may have become so while we waited
	}
	return now, token, err
}

// Acquire implements [store.Store].
func (t *flawedTable) Acquire(_ context.Context, c store.Claim) (store.Lease, error) {
	t.sweep()
	now, token, err := t.statement(c.TTL)
	defer t.mu.Unlock()
	if err != nil {
		return store.Lease{}, err
	}
	row, found := t.rows[c.Name]
	switch {
	case !found || !row.Expires.After(now):
		version := row.Version
		row = store.Lease{Name: c.Name, Owner: c.Owner, Acquired: now, Expires: now.Add(c.TTL), Version: token}
		if t.flaw == tokenResets {
			row.Version = version + 1
		}
	case row.Owner != c.Owner:
		return store.Lease{}, &store.HeldError{Lease: shown(row, now)}
	default:
		row.Expires = t.extended(row, now, c.TTL)
		if t.flaw != tokenResets {
			row.Version = token
		}
	}
	row.Renewed = now
	t.write(row)
	return shown(row, now), nil
}

func shown(row store.Lease, now time.Time) store.Lease {
	row.Left = max(0, row.Expires.Sub(now))
	return row
}

func (t *flawedTable) extended(row store.Lease, now time.Time, ttl time.Duration) time.Time {
	if t.flaw == renewShortens || row.Expires.Before(now.Add(ttl)) || row.Expires.After(now.Add(2*ttl)) {
		return now.Add(ttl)
	}
	return row.Expires
}

// Renew implements [store.Store].
func (t *flawedTable) Renew(_ context.Context, claims []store.Claim) ([]store.Result, error) {
	now, token, err := t.statement(claims[0].TTL)
	defer t.mu.Unlock()
	if err != nil {
		return nil, err
	}
	results := make([]store.Result, len(claims))
	for i, c := range claims {
		row, found := t.rows[c.Name]
		mine := found && (row.Owner == c.Owner || t.flaw == renewAnyOwner)
		if t.flaw == renewRevives && (!found || row.Owner == c.Owner) {
			row.Name, row.Owner, mine = c.Name, c.Owner, true
			row.Expires = now.Add(c.TTL)
		}
		if !mine || !row.Expires.After(now) {
			results[i] = store.Result{Lease: shown(row, now), Err: fmt.Errorf("%w: not this owner's", store.ErrLost)}
			continue
		}
		row.Expires, row.Renewed = t.extended(row, now, c.TTL), now
		if t.flaw != tokenResets {
			row.Version = token // every write draws one, as a rowversion does
		}
		t.write(row)
		results[i].Lease = shown(row, now)
	}
	return results, nil
}

// Release implements [store.Store].
func (t *flawedTable) Release(_ context.Context, claims []store.Claim) ([]store.Result, error) {
	now, _, err := t.statement(max(claims[0].TTL, time.Millisecond))
	defer t.mu.Unlock()
	if err != nil {
		return nil, err
	}
	results := make([]store.Result, len(claims))
	for i, c := range claims {
		row, found := t.rows[c.Name]
		mine := found && (row.Owner == c.Owner || t.flaw == releaseAnyOwner)
		if mine {
			t.erase(c.Name)
		}
		results[i].Lease = shown(row, now)
		if !mine || !row.Expires.After(now) {
			results[i].Err = fmt.Errorf("%w: not this owner's", store.ErrLost)
		}
	}
	return results, nil
}

// sweep reads which rows have expired, and deletes them a moment later.
func (t *flawedTable) sweep() {
	var expired []string
	t.mu.Lock()
	now := time.Now().Round(0).UTC().Add(t.offset)
	for name, row := range t.rows {
		if !row.Expires.After(now) {
			expired = append(expired, name)
		}
	}
	t.mu.Unlock()
	if len(expired) == 0 {
		return
	}
	time.Sleep(3 * time.Millisecond)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.readOnly {
		return
	}
	for _, name := range expired {
		if t.flaw == sweepBlindly || !t.rows[name].Expires.After(now) {
			t.erase(name)
		}
	}
}

// Get implements [store.Inspector].
func (t *flawedTable) Get(_ context.Context, name string) (store.Lease, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	row, found := t.rows[name]
	if !found {
		return row, store.ErrNotFound
	}
	return shown(row, time.Now().Round(0).UTC().Add(t.offset)), nil
}

// List implements [store.Inspector]. Nobody asks.
func (t *flawedTable) List(context.Context, string) iter.Seq2[store.Lease, error] {
	return func(func(store.Lease, error) bool) {}
}

// Break implements [store.Inspector].
func (t *flawedTable) Break(_ context.Context, name, owner string) (store.Lease, error) {
	now, _, err := t.statement(time.Millisecond)
	defer t.mu.Unlock()
	if err != nil {
		return store.Lease{}, err
	}
	row := t.rows[name]
	if row.Owner != owner || !row.Expires.After(now) {
		return row, store.ErrNotFound
	}
	row.Owner = store.NewOwner("broken")
	t.write(row)
	if t.flaw == breakDeletes {
		t.erase(name)
	}
	return shown(row, now), nil
}
