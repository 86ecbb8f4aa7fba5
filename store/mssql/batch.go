package mssql

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aaravsoft/leasehold/store"
)

const (
	// fewMissing is how many claims that did not come back are asked one by one.
	fewMissing = 16

	// inFlight is how many of them at the same time.
	inFlight = 8
)

// verb is a renewal or a release, of one claim and of many.
type verb struct {
	op       string
	validate func(store.Claim) error
	one      func(*Store, context.Context, store.Claim) store.Result
	many     func(b *batches, patient bool) *text
	judge    func(*answer, store.Claim) store.Result
	wait     func(claims []store.Claim, some []int) time.Duration // the TTL that the lock timeout is derived from
}

var (
	renewal = verb{
		op: "renew", validate: store.Claim.Validate, one: (*Store).renew, judge: (*answer).renewed,
		many: func(b *batches, patient bool) *text {
			if patient {
				return &b.renewAll
			}
			return &b.renew
		},
		wait: func(claims []store.Claim, some []int) time.Duration {
			return claims[slices.MinFunc(some, func(i, j int) int { return cmp.Compare(claims[i].TTL, claims[j].TTL) })].TTL
		},
	}
	releasing = verb{
		op: "release", validate: store.Claim.ValidateKey, one: (*Store).release, judge: (*answer).released,
		many: func(b *batches, patient bool) *text {
			if patient {
				return &b.releaseAll
			}
			return &b.release
		},
		wait: func([]store.Claim, []int) time.Duration { return patience },
	}
)

// Renew implements [store.Store].
func (s *Store) Renew(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	return s.batch(ctx, &renewal, claims)
}

// Release implements [store.Store].
func (s *Store) Release(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
	return s.batch(ctx, &releasing, claims)
}

// batch answers the invalid claims itself. The others go in one round trip that leaves out locked rows, or, if it is only
// one, in one that waits for its row. What did not come back is asked again, without hints: a row that is missing from an
// answer proves nothing.
func (s *Store) batch(ctx context.Context, v *verb, claims []store.Claim) ([]store.Result, error) {
	if len(claims) > store.MaxBatch {
		return nil, fmt.Errorf("%w batch of %d claims: at most %d", store.ErrInvalid, len(claims), store.MaxBatch)
	}
	b := &batch{store: s, verb: v, claims: claims, results: make([]store.Result, len(claims))}
	var valid []int
	for i, c := range claims {
		if b.results[i].Err = v.validate(c); b.results[i].Err == nil {
			valid = append(valid, i)
		}
	}
	switch len(valid) {
	case 0:
	case 1:
		i := valid[0]
		if b.results[i] = v.one(s, ctx, claims[i]); failed(b.results[i].Err) {
			return nil, b.results[i].Err
		}
	default:
		missing, err := b.send(ctx, valid, false)
		if err != nil {
			return nil, err
		}
		b.again(ctx, missing)
	}
	return b.results, nil
}

// failed says that an error is of a call rather than an answer.
func failed(err error) bool { return err != nil && !errors.Is(err, store.ErrLost) }

// batch is one that is being answered.
type batch struct {
	store   *Store
	verb    *verb
	claims  []store.Claim
	results []store.Result
}

// send asks for some of the claims in one round trip. It returns those that were not answered.
func (b *batch) send(ctx context.Context, some []int, patient bool) (missing []int, err error) {
	texts, err := b.store.pool.texts(ctx)
	if err != nil {
		return nil, err
	}
	answered := make([]bool, len(some))
	parameter := encode(len(some), func(n int) store.Claim { return b.claims[some[n]] })
	err = b.store.pool.query(ctx, call{op: b.verb.op, sql: b.verb.many(texts, patient).within(b.verb.wait(b.claims, some)), args: []any{parameter}},
		func() { clear(answered) },
		func(rows *sql.Rows) error {
			var a answer
			var n int
			if err := a.scan(rows, &n); err != nil {
				return err
			}
			if n < 0 || n >= len(some) {
				return fmt.Errorf("an answer to claim %d of %d", n, len(some))
			}
			answered[n], b.results[some[n]] = true, b.verb.judge(&a, b.claims[some[n]])
			return nil
		})
	if err != nil {
		return nil, err
	}
	for n, i := range some {
		if !answered[n] {
			missing = append(missing, i)
		}
	}
	return missing, nil
}

// again asks for what did not come back, in the order of the claims: the caller has put the most urgent ones first.
func (b *batch) again(ctx context.Context, missing []int) {
	if len(missing) > fewMissing {
		rest, err := b.send(ctx, missing, true)
		switch {
		case err == nil:
			missing = rest
		case all(err).has(contention):
			// One locked row has cost all of them their answer: try without it.
			b.again(ctx, missing[:len(missing)/2])
			b.again(ctx, missing[len(missing)/2:])
			return
		default:
			for _, i := range missing {
				b.results[i] = store.Result{Err: err}
			}
			return
		}
	}
	// Those that a patient batch did not find are no longer theirs, which only the row itself proves.
	var wait sync.WaitGroup
	places := make(chan struct{}, inFlight)
	for _, i := range missing {
		places <- struct{}{}
		wait.Go(func() {
			b.results[i] = b.verb.one(b.store, ctx, b.claims[i])
			<-places
		})
	}
	wait.Wait()
}

// encode is some claims as the statements read them.
func encode(n int, at func(int) store.Claim) any {
	type claim struct {
		Ordinal     int
		Name, Owner string
		TTL         int64
	}
	list := make([]claim, 0, n)
	for i := range n {
		c := at(i)
		// A release has no use for the TTL, and so has not checked that it fits.
		list = append(list, claim{i, c.Name, c.Owner, min(max(c.TTL.Milliseconds(), 0), math.MaxInt32)})
	}
	var text strings.Builder
	_ = json.NewEncoder(&text).Encode(list) // strings and numbers can always be encoded
	return nvarchar(text.String())
}

// texts are the statements for many claims. The collation of the names is asked for once.
func (p *pool) texts(ctx context.Context) (*batches, error) {
	if b := p.batches.Load(); b != nil {
		return b, nil
	}
	var collation sql.NullString
	err := p.query(ctx, call{op: "read the collation of the names", sql: collationSQL, args: []any{nvarchar(p.table.String())}},
		func() {}, func(rows *sql.Rows) error { return rows.Scan(&collation) })
	if err != nil {
		return nil, err
	}
	if err := checkCollation(p.table, collation.String); err != nil {
		return nil, err
	}
	b := newBatches(p.table, collation.String)
	p.batches.Store(b)
	return b, nil
}

// checkCollation keeps text that is no name of a collation out of a statement.
func checkCollation(t table, name string) error {
	plain := strings.IndexFunc(name, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
	if name == "" || !plain {
		return &store.MisconfiguredError{Remedy: reported{208}.remedy(t)}
	}
	return nil
}
