package storetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store"
)

// The rules that most cases lean on. The others are quoted where they are checked.
const (
	ruleGranted     = "rule S1: Acquire grants a claim if the name has no row, or its row has expired, or is the claim's own"
	ruleRefused     = "rule S1: Acquire refuses a claim while a live row of another owner is there"
	ruleScoped      = "rule S4: Renew, Release and Break touch a row only if its owner is exactly the given one"
	ruleAnswers     = "rule S8: a batch is answered per claim, in order"
	ruleShowsHolder = "a refusal shows the holder's row"
	ruleLeft        = "Left is the time until Expires when the store answered"
	ruleOneClass    = "rule S10: every error has exactly one class"
	ruleReadOnly    = "rule S12: a store never writes to the slice of claims"
)

// suite is one running case: its test, its store, and the calls on it.
type suite struct {
	*testing.T
	h     Harness
	st    store.Store
	other store.Store // see second
}

// long is a TTL that no case lives to see the end of.
const long = time.Hour

// claim is one of a new owner.
func claim(name string, ttl time.Duration) store.Claim {
	return store.Claim{Name: name, Owner: store.NewOwner("storetest"), TTL: ttl}
}

func (s *suite) grant(c store.Claim) store.Lease {
	s.Helper()
	return s.grantBy(s.st, c)
}

// grantBy acquires what must be granted.
func (s *suite) grantBy(st store.Store, c store.Claim) store.Lease {
	s.Helper()
	lease, err := st.Acquire(s.Context(), c)
	require.NoError(s, err, ruleGranted)
	s.plausible(lease)
	require.Equal(s, c.Owner, lease.Owner, "the lease of a grant is the row that was written")
	return lease
}

func (s *suite) refuse(c store.Claim) store.Lease {
	s.Helper()
	return s.refuseBy(s.st, c)
}

// refuseBy tries to acquire what another owner holds. It returns the lease that the refusal shows.
func (s *suite) refuseBy(st store.Store, c store.Claim) store.Lease {
	s.Helper()
	_, err := st.Acquire(s.Context(), c)
	shown := s.held(err, ruleRefused)
	require.NotEqual(s, c.Owner, shown.Owner, ruleShowsHolder)
	return shown
}

// held checks a refusal. It returns the lease that it shows.
func (s *suite) held(err error, rule string) store.Lease {
	s.Helper()
	s.class(err, store.ErrHeld, rule)
	held, ok := errors.AsType[*store.HeldError](err)
	require.True(s, ok, "a refusal is a *HeldError, this is %T", err)
	s.plausible(held.Lease)
	require.NotEmpty(s, held.Lease.Owner, ruleShowsHolder)
	require.Positive(s, held.Lease.Left, "a refusal says how long the lease lasts")
	return held.Lease
}

// renew sends a batch of one.
func (s *suite) renew(c store.Claim) store.Result {
	s.Helper()
	return s.renewAll([]store.Claim{c})[0]
}

func (s *suite) renewAll(claims []store.Claim) []store.Result {
	s.Helper()
	sent := slices.Clone(claims)
	results, err := s.st.Renew(s.Context(), sent)
	s.batch(claims, sent, results, err)
	return results
}

// release sends a batch of one.
func (s *suite) release(c store.Claim) store.Result {
	s.Helper()
	return s.releaseAll([]store.Claim{c})[0]
}

func (s *suite) releaseAll(claims []store.Claim) []store.Result {
	s.Helper()
	sent := slices.Clone(claims)
	results, err := s.st.Release(s.Context(), sent)
	s.batch(claims, sent, results, err)
	return results
}

// batch checks what every answered batch has in common.
func (s *suite) batch(claims, sent []store.Claim, results []store.Result, err error) {
	s.Helper()
	require.NoError(s, err, "rule S8: one claim's trouble never costs another its answer")
	require.Len(s, results, len(claims), ruleAnswers)
	require.Equal(s, claims, sent, ruleReadOnly)
	for _, r := range results {
		if r.Err != nil {
			s.class(r.Err, r.Err, ruleOneClass)
		}
		s.plausible(r.Lease)
	}
}

// holds checks that the claim's owner has a live lease, by renewing it.
func (s *suite) holds(c store.Claim, rule string) store.Lease {
	s.Helper()
	r := s.renew(c)
	require.NoError(s, r.Err, rule)
	require.Equal(s, c.Owner, r.Lease.Owner, rule)
	return r.Lease
}

// lost checks a definite "not yours". It returns the row that the answer shows, if any.
func (s *suite) lost(r store.Result, rule string) store.Lease {
	s.Helper()
	s.class(r.Err, store.ErrLost, rule)
	return r.Lease
}

// class checks that err is of the wanted class and of no other.
func (s *suite) class(err, want error, rule string) {
	s.Helper()
	require.ErrorIs(s, err, want, rule)
	var is []error
	for _, class := range []error{
		store.ErrHeld, store.ErrLost, store.ErrUnavailable, store.ErrInvalid, store.ErrMisconfigured, store.ErrNotFound,
	} {
		if errors.Is(err, class) {
			is = append(is, class)
		}
	}
	require.Len(s, is, 1, "%s: %v", ruleOneClass, err)
	if errors.Is(err, store.ErrUnclear) {
		require.ErrorIs(s, err, store.ErrUnavailable, "%s: ErrUnclear refines ErrUnavailable", ruleOneClass)
	}
}

// plausible checks what holds for any lease in any answer. The zero lease is none.
func (s *suite) plausible(l store.Lease) {
	s.Helper()
	if l.Owner == "" {
		require.Equal(s, store.Lease{}, l, "no row is the zero Lease")
		return
	}
	for _, t := range []time.Time{l.Acquired, l.Renewed, l.Expires} {
		require.Equal(s, time.UTC, t.Location(), "rule S13: times are in UTC")
	}
	require.GreaterOrEqual(s, l.Left, time.Duration(0), "Left is never negative")
	require.True(s, l.Expires.After(l.Renewed), "rule S2: a lease expires after the request that made or renewed it, by the store's clock: %+v", l)
}

// sameTime compares times of the store's clock.
func (s *suite) sameTime(want, got time.Time, rule string) {
	s.Helper()
	require.WithinDuration(s, want, got, s.h.Granularity, rule)
}

// expiresAfter checks that the lease expires ttl after the store's now, which its Renewed is.
func (s *suite) expiresAfter(ttl time.Duration, l store.Lease, rule string) {
	s.Helper()
	s.sameTime(l.Renewed.Add(ttl), l.Expires, rule)
}

// sameRow checks that two answers show the same row, apart from how much is left of it.
func (s *suite) sameRow(want, got store.Lease, rule string) {
	s.Helper()
	assert.Equal(s, want.Name, got.Name, rule)
	assert.Equal(s, want.Owner, got.Owner, rule)
	assert.Equal(s, want.Metadata, got.Metadata, rule)
	s.sameTime(want.Acquired, got.Acquired, rule)
	s.sameTime(want.Renewed, got.Renewed, rule)
	s.sameTime(want.Expires, got.Expires, rule)
	if s.Failed() {
		s.FailNow()
	}
}

// expire waits for the end of leases that were just answered.
func (s *suite) expire(leases ...store.Lease) {
	s.Helper()
	var left time.Duration
	for _, l := range leases {
		left = max(left, l.Left)
	}
	left += s.h.Granularity
	if !s.h.Exact {
		left += s.h.Slack
	}
	s.h.Elapse(s.T, s.st, left)
}

// elapse lets time pass on the store's clock.
func (s *suite) elapse(d time.Duration) { s.h.Elapse(s.T, s.st, d) }

// moment lets so much time pass that two times of the store's clock differ.
func (s *suite) moment() { s.elapse(time.Millisecond + s.h.Granularity) }

// step moves the store's clock while no time passes.
func (s *suite) step(d time.Duration) { s.h.StepClock(s.T, s.st, d) }

// second is another client of the same data.
func (s *suite) second() store.Store {
	if s.other == nil {
		s.other = s.h.Second(s.T, s.st)
	}
	return s.other
}

func (s *suite) clients() [2]store.Store { return [2]store.Store{s.st, s.second()} }

// inspector is only called by cases that need one.
func (s *suite) inspector() store.Inspector {
	s.Helper()
	in, ok := store.As[store.Inspector](s.st)
	require.True(s, ok, "the store is no store.Inspector; say so by Harness.NoInspector if that is meant")
	return in
}

// row looks at a name. The answer may be none also for a row that has expired, for a store may sweep at any time.
func (s *suite) row(name string) (store.Lease, bool) {
	s.Helper()
	lease, err := s.inspector().Get(s.Context(), name)
	if err != nil {
		s.class(err, store.ErrNotFound, "Get returns the row or ErrNotFound")
		return store.Lease{}, false
	}
	s.plausible(lease)
	return lease, true
}

// liveRow looks at a name that is held.
func (s *suite) liveRow(name string) store.Lease {
	s.Helper()
	lease, found := s.row(name)
	require.True(s, found, "Get finds the row of a name that is held")
	return lease
}
