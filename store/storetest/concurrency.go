package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

const ruleOneWinner = "rule S1: of any number of concurrent claims on one free name exactly one is granted"

// concurrencyCases is rule S1 under contention, and the part of S11 that says "safe for concurrent use".
func concurrencyCases() []testCase {
	return []testCase{
		{name: "one winner for a free name", run: raceForFree},
		{name: "one winner for a released name", run: raceForReleased},
		{name: "SQL-04 one winner for an expired row", run: raceForExpired},
		{name: "one holder at a time", run: func(s *suite) { s.turns("job", 5*s.h.Rounds) }},
		{name: "many names at once", run: manyNames},
	}
}

func raceForFree(s *suite) {
	for i := range s.h.Rounds {
		s.race(fmt.Sprintf("job %d", i))
	}
}

func raceForReleased(s *suite) {
	for range s.h.Rounds {
		winner := s.race("job")
		require.NoError(s, s.release(store.Claim{Name: "job", Owner: winner.Owner}).Err, ruleDeletes)
	}
}

func raceForExpired(s *suite) {
	for i := range s.h.Rounds {
		name := fmt.Sprintf("job %d", i)
		s.expire(s.grant(claim(name, s.h.Short)))
		s.race(name)
	}
}

// race lets Racers goroutines of two clients claim one free name at the same time, and returns the one grant.
func (s *suite) race(name string) store.Lease {
	s.Helper()
	type answer struct {
		owner string
		lease store.Lease
		err   error
	}
	answers := make([]answer, s.h.Racers)
	clients := s.clients()
	start := make(chan struct{})
	var racers sync.WaitGroup
	for i := range answers {
		racers.Go(func() {
			c := claim(name, long)
			<-start
			lease, err := clients[i%len(clients)].Acquire(s.Context(), c)
			answers[i] = answer{c.Owner, lease, err}
		})
	}
	close(start)
	racers.Wait()

	var grants []store.Lease
	for _, a := range answers {
		if a.err == nil {
			require.Equal(s, a.owner, a.lease.Owner, "the lease of a grant is the row that was written")
			grants = append(grants, a.lease)
		}
	}
	require.Len(s, grants, 1, ruleOneWinner)
	for _, a := range answers {
		if a.owner == grants[0].Owner {
			continue
		}
		shown := s.held(a.err, ruleOneWinner+", the others are refused")
		require.Equal(s, grants[0].Owner, shown.Owner, ruleShowsHolder)
	}
	return grants[0]
}

// turns lets Racers goroutines of two clients take a name from each other until it was granted n times. It checks that
// no two hold it at once, and returns the grants in their order.
func (s *suite) turns(name string, n int) []store.Lease {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Minute)
	defer cancel()
	t := &turns{name: name, most: n, end: cancel}
	clients := s.clients()
	var racers sync.WaitGroup
	for i := range s.h.Racers {
		racers.Go(func() { t.race(ctx, clients[i%len(clients)]) })
	}
	racers.Wait()
	require.NoError(s, t.trouble)
	require.GreaterOrEqual(s, len(t.grants), n, "a name that is released again and again is granted again and again")
	return t.grants
}

type turns struct {
	name string
	most int
	end  context.CancelFunc

	inside atomic.Int32

	mu      sync.Mutex // guards what follows
	grants  []store.Lease
	trouble error
	unclear int
}

func (t *turns) race(ctx context.Context, st store.Store) {
	for ctx.Err() == nil {
		c := claim(t.name, long)
		l, err := st.Acquire(ctx, c)
		if errors.Is(err, store.ErrHeld) {
			time.Sleep(time.Millisecond)
			continue
		}
		if err == nil {
			t.hold(l)
		} else if ctx.Err() == nil {
			t.failed(err)
		}
		// Also for a claim whose outcome is unclear, and when the race is over: its row would be in the way.
		results, releaseErr := st.Release(context.WithoutCancel(ctx), []store.Claim{c})
		if err == nil {
			t.released(results, releaseErr)
		}
	}
}

// hold writes a grant down. What is written is the order of the grants, for it is written while the name is held: after
// its Acquire was answered and before its Release is sent. The next grant comes after that Release.
func (t *turns) hold(l store.Lease) {
	if t.inside.Add(1) != 1 {
		t.fail(fmt.Errorf("%s: two hold %q at once", ruleOneWinner, t.name))
	}
	defer t.inside.Add(-1)
	t.mu.Lock()
	t.grants = append(t.grants, l)
	if len(t.grants) >= t.most {
		t.end()
	}
	t.mu.Unlock()
	time.Sleep(time.Millisecond) // the others try meanwhile
}

// failed forgives a busy store now and then.
func (t *turns) failed(err error) {
	t.mu.Lock()
	t.unclear++
	tooMany := t.unclear > t.most/10
	t.mu.Unlock()
	if tooMany || !errors.Is(err, store.ErrUnavailable) {
		t.fail(fmt.Errorf("rule S1: a claim on a contended name is granted or refused: %w", err))
	}
}

func (t *turns) released(results []store.Result, err error) {
	switch {
	case err != nil:
		t.fail(fmt.Errorf("release of a contended name: %w", err))
	case results[0].Err != nil:
		t.fail(fmt.Errorf("rule S4: only the owner's own Release ends a live lease: %w", results[0].Err))
	}
}

func (t *turns) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trouble = errors.Join(t.trouble, err)
	t.end()
}

// manyNames does everything at once, for the race detector and for stores that mix their rows up.
func manyNames(s *suite) {
	clients := s.clients()
	errs := make([]error, s.h.Racers)
	var workers sync.WaitGroup
	for i := range errs {
		workers.Go(func() {
			for range s.h.Rounds {
				if errs[i] == nil {
					errs[i] = s.everything(clients[i%len(clients)], fmt.Sprintf("job %d", i))
				}
			}
		})
	}
	workers.Wait()
	require.NoError(s, errors.Join(errs...), "rule S11: a store is safe for concurrent use")
}

// everything uses one name in every way there is. It is called from goroutines that must not end the test.
func (s *suite) everything(st store.Store, name string) error {
	ctx := s.Context()
	c := claim(name, long)
	l, err := st.Acquire(ctx, c)
	if err := mine(c, l, err); err != nil {
		return fmt.Errorf("acquire %q: %w", name, err)
	}
	results, err := st.Renew(ctx, []store.Claim{c, claim(name, long)})
	if err != nil {
		return fmt.Errorf("renew %q: %w", name, err)
	}
	if err := mine(c, results[0].Lease, results[0].Err); err != nil {
		return fmt.Errorf("renew %q: %w", name, err)
	}
	if !errors.Is(results[1].Err, store.ErrLost) {
		return fmt.Errorf("renew %q by a stranger: %w", name, cmp.Or(results[1].Err, errors.New("no error")))
	}
	if in, ok := store.As[store.Inspector](st); ok {
		l, err := in.Get(ctx, name)
		if err := mine(c, l, err); err != nil {
			return fmt.Errorf("get %q: %w", name, err)
		}
		for _, err := range in.List(ctx, "") {
			if err != nil {
				return fmt.Errorf("list: %w", err)
			}
		}
	}
	results, err = st.Release(ctx, []store.Claim{c})
	if err == nil {
		err = results[0].Err
	}
	if err != nil {
		return fmt.Errorf("release %q: %w", name, err)
	}
	return nil
}

// mine says what is wrong with an answer that must show the claim's own row.
func mine(c store.Claim, l store.Lease, err error) error {
	if err == nil && (l.Name != c.Name || l.Owner != c.Owner) {
		err = fmt.Errorf("it shows %q of %s instead of %s", l.Name, l.Owner, c.Owner)
	}
	return err
}
