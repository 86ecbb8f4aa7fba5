package mutex

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/guard"
	"github.com/aaravsoft/leasehold/internal/bounded"
	"github.com/aaravsoft/leasehold/internal/clock"
	"github.com/aaravsoft/leasehold/internal/faultstore"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/memory"
)

// sends records when renewals are sent, from now on.
type sends struct {
	mu sync.Mutex
	at []time.Duration
}

func (r *pairRig) sends() *sends {
	s := &sends{}
	r.faults.Add(faultstore.Fault{Ops: faultstore.Renew, Before: func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.at = append(s.at, r.at())
	}})
	return s
}

func (s *sends) all() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Duration(nil), s.at...)
}

// TestConfirmedRenewals is about trust in a held lock on a store with replicas.
func TestConfirmedRenewals(t *testing.T) {
	bubble(t, "trust follows the replicas, never before them", func(t *testing.T) {
		r := newPairRig(t)
		a := r.client(three())
		g := mustLock(t, a, "job")
		r.set(func() { r.lag = 400 * time.Millisecond })
		sent := r.sends()
		before := time.Duration(0) // when the request was sent that trust counts from
		for range 10 {
			n := len(sent.all())
			for len(sent.all()) == n {
				require.NoError(t, g.Err())
				time.Sleep(10 * time.Millisecond)
			}
			renewed := sent.all()[n]
			r.sleepUntil(renewed + 399*time.Millisecond)
			require.Equal(t, before+threeTrust-r.at(), g.Remaining(), "the replica does not show it")
			r.sleepUntil(renewed + 520*time.Millisecond)
			require.Equal(t, renewed+threeTrust-r.at(), g.Remaining(), "now it does")
			before = renewed
		}
		requireSpaced(t, r.looked())
		require.Less(t, len(r.looked()), 100)
		require.NoError(t, g.Unlock())
	})
	bubble(t, "the replica is frozen while the lock is held", func(t *testing.T) {
		r := newPairRig(t)
		var events eventLog
		cfg := three()
		cfg.Hooks = events.hooks()
		a := r.client(cfg)
		g := mustLock(t, a, "job")
		sent := r.sends()
		r.sleepUntil(3500 * time.Millisecond)
		confirmed := sent.all()
		r.set(r.freeze)
		end := r.doneAt(g.Context())
		require.Equal(t, confirmed[len(confirmed)-1]+threeTrust, end, "D of the last renewal that the replica shows")
		require.GreaterOrEqual(t, len(sent.all()), len(confirmed)+2, "renewals went on")
		var lost *LostError
		require.ErrorAs(t, g.Err(), &lost)
		require.Equal(t, guard.Unconfirmed, lost.Reason)
		require.ErrorIs(t, g.Err(), ErrNotConfirmed)
		require.NotErrorIs(t, g.Err(), ErrUnavailable)
		require.InDelta(t, 2, lost.Attempts, 1, "renewals are counted, not looks")
		synctest.Wait()
		require.Equal(t, 1, events.count(evAtRisk))
		require.Equal(t, 1, events.count(evLost))
		looks := len(r.looked())
		requireSpaced(t, r.looked())
		time.Sleep(time.Minute)
		require.Len(t, r.looked(), looks, "nothing is looked at after the loss")
	})
	bubble(t, "the replica is back before D", func(t *testing.T) {
		r := newPairRig(t)
		var events eventLog
		cfg := three()
		cfg.Hooks = events.hooks()
		a := r.client(cfg)
		g := mustLock(t, a, "job")
		for range 5 {
			r.set(r.freeze)
			time.Sleep(1300 * time.Millisecond)
			r.set(r.follow)
			time.Sleep(3 * time.Second)
			require.NoError(t, g.Err())
		}
		require.Zero(t, events.count(evLost))
		require.NoError(t, g.Unlock())
	})
	bubble(t, "REP-07 the replica cannot be reached while the lock is held", func(t *testing.T) {
		r := newPairRig(t)
		var events eventLog
		cfg := three()
		cfg.Hooks = events.hooks()
		a := r.client(cfg)
		g := mustLock(t, a, "job")
		r.sleepUntil(500 * time.Millisecond)
		r.set(func() { r.refuse = downError(errDown) })
		r.sleepUntil(1200 * time.Millisecond)
		require.Equal(t, 1, a.Health(t.Context()).AtRisk)
		require.Equal(t, 1, events.count(evAtRisk))
		require.ErrorIs(t, events.of(evAtRisk)[0].Err, errDown)
		require.ErrorIs(t, events.of(evAtRisk)[0].Err, ErrNotConfirmed)
		r.sleepUntil(2 * time.Second)
		require.Equal(t, 1, events.count(evAtRisk), "once")
		require.Zero(t, events.count(evRenewed), "nothing is told as renewed that is not confirmed")
		require.Zero(t, a.Health(t.Context()).Breaker.Failures)
		r.set(func() { r.refuse = nil })
		r.sleepUntil(2900 * time.Millisecond)
		require.NoError(t, g.Err())
		require.Zero(t, a.Health(t.Context()).AtRisk)
		require.Positive(t, events.count(evRenewed))
		require.NoError(t, g.Unlock())
	})
	bubble(t, "REP-07 a row of somebody else's on the replica proves no loss", func(t *testing.T) {
		r := newPairRig(t)
		a := r.client(three())
		g := mustLock(t, a, "job")
		r.set(func() {
			r.foreign["job"] = store.Lease{Name: "job", Owner: "other/1", Expires: time.Now().Add(time.Hour)}
		})
		require.Equal(t, threeTrust, r.doneAt(g.Context()), "and confirms nothing")
		require.ErrorIs(t, g.Err(), ErrNotConfirmed)
	})
	bubble(t, "REP-03 a split: the old primary goes on, the replica that has not seen the renewals is promoted", func(t *testing.T) {
		r := newPairRig(t)
		a := r.client(three())
		g := mustLock(t, a, "job")
		r.set(r.freeze)
		split := memory.New()
		_, err := split.Acquire(t.Context(), store.Claim{Name: "job", Owner: g.Owner(), TTL: 3 * time.Second})
		require.NoError(t, err)
		h := mustLock(t, r.on(split, three()), "job")
		require.Less(t, r.at(), 3100*time.Millisecond)
		require.Error(t, g.Context().Err(), "two inside")
		require.ErrorIs(t, g.Err(), ErrLost)
		row, found := r.row("job")
		require.True(t, found && row.Expires.Sub(r.start) > 4*time.Second, "it was renewed on the old primary")
		require.NoError(t, h.Unlock())
	})
	bubble(t, "replicas that are far behind confirm all the same", func(t *testing.T) {
		r := newPairRig(t)
		a := r.client(Config{TTL: 30 * time.Second, Renew: 300 * time.Millisecond})
		g := mustLock(t, a, "job")
		r.set(func() { r.lag = 18 * time.Second })
		time.Sleep(5 * time.Minute)
		require.NoError(t, g.Err())
		require.NoError(t, g.Unlock())
	})
	bubble(t, "the shortest lease there is", func(t *testing.T) {
		r := newPairRig(t)
		r.set(func() { r.slow = 5 * time.Millisecond })
		r.faults.Add(faultstore.Fault{Ops: faultstore.All, Delay: 5 * time.Millisecond})
		g := mustLock(t, r.client(Config{TTL: minTTL}), "job")
		time.Sleep(time.Minute)
		require.NoError(t, g.Err())
		require.NoError(t, g.Unlock())
	})
	bubble(t, "at risk, better, and at risk again", func(t *testing.T) {
		r := newPairRig(t)
		var events eventLog
		a := r.client(Config{TTL: time.Minute, Renew: 5 * time.Second, Hooks: events.hooks()})
		g := mustLock(t, a, "job")
		r.set(func() { r.refuse = downError(errDown) })
		r.sleepUntil(12 * time.Second) // two renewals
		require.Equal(t, 1, events.count(evAtRisk))
		r.set(func() { r.refuse = nil; r.frozen = r.start.Add(7 * time.Second) })
		r.sleepUntil(12500 * time.Millisecond)
		require.Equal(t, 1, events.count(evRenewed), "the first of them is confirmed")
		r.set(func() { r.refuse = downError(errDown) })
		r.sleepUntil(13 * time.Second)
		require.Equal(t, 2, events.count(evAtRisk), "and the second is not")
		require.NoError(t, g.Unlock())
	})
	bubble(t, "1,000 guards are looked at together", func(t *testing.T) {
		r := newPairRig(t)
		a := r.client(Config{})
		guards := make([]*Guard, 1000)
		for i := range guards {
			guards[i] = mustLock(t, a, fmt.Sprint(i))
		}
		acquired := len(r.looked())
		require.Equal(t, 1000, acquired, "one each: the first look found it")
		time.Sleep(35 * time.Second) // three rounds
		renewals := r.faults.Calls(faultstore.Renew)
		looks := r.looked()[acquired:]
		assert.Equal(t, renewals, len(looks), "as many looks as batches")
		for i := 0; i < len(looks); i += 2 {
			assert.Equal(t, looks[i].at, looks[i+1].at, "in one go")
			assert.Equal(t, 1000, looks[i].leases+looks[i+1].leases)
		}
		for _, g := range guards {
			require.NoError(t, g.Err())
			require.Greater(t, g.Remaining(), 15*time.Second)
			require.NoError(t, g.Unlock())
		}
	})
}

// TestLooksThatHang is about replicas that do not answer while locks are held.
func TestLooksThatHang(t *testing.T) {
	bubble(t, "CON-01 they delay no renewal, and do not pile up", func(t *testing.T) {
		r := newPairRig(t)
		a := r.client(Config{})
		g := mustLock(t, a, "job")
		sent := r.sends()
		r.set(r.hang)
		require.Equal(t, 27*time.Second, r.doneAt(g.Context()))
		at := sent.all()
		require.GreaterOrEqual(t, len(at), 2)
		for i := 1; i < len(at); i++ {
			require.LessOrEqual(t, at[i]-at[i-1], 11*time.Second)
		}
		looks := r.looked()[1:]
		require.LessOrEqual(t, len(looks), bounded.Most)
		require.Greater(t, len(looks), 3)
		require.LessOrEqual(t, looks[0].at-at[0], 100*time.Millisecond)
		require.Greater(t, looks[1].at-looks[0].at, 4*time.Second, "one at a time, for a third of what is left")
	})
	bubble(t, "a cohort has one in flight, whatever is renewed meanwhile", func(t *testing.T) {
		r := newPairRig(t)
		a := r.client(Config{TTL: 30 * time.Second, Renew: time.Second})
		g, h := mustLock(t, a, "job"), mustLock(t, a, "other")
		r.set(func() { r.slow = 3 * time.Second })
		time.Sleep(time.Minute)
		r.set(func() { require.Equal(t, 1, r.most) })
		require.InDelta(t, 20, len(r.looked()), 3)
		require.NoError(t, g.Err())
		require.Greater(t, g.Remaining(), 20*time.Second)
		require.NoError(t, g.Unlock())
		require.NoError(t, h.Unlock())
	})
	bubble(t, "a look for long leases delays none for short ones", func(t *testing.T) {
		r := newPairRig(t)
		a := r.client(Config{})
		long := mustLock(t, a, "long", WithTTL(24*time.Hour))
		short := mustLock(t, a, "short", WithTTL(time.Second))
		r.set(func() { r.stuck = "long"; r.hang() })
		time.Sleep(2 * time.Minute) // then as many looks are abandoned as may be
		require.NoError(t, short.Err())
		require.Positive(t, r.hanging.Load())
		require.NoError(t, long.Err())
		require.NoError(t, short.Unlock())
		require.NoError(t, long.Unlock())
	})
	bubble(t, "acquisitions take no places from renewals", func(t *testing.T) {
		r := newPairRig(t)
		a := r.client(three())
		g := mustLock(t, a, "mine")
		r.set(func() { r.stuck = "theirs"; r.hang() })
		_, err := a.Lock(t.Context(), "theirs", WithWait(time.Minute))
		require.ErrorIs(t, err, ErrUnavailable)
		require.NoError(t, g.Err())
		require.NoError(t, g.Unlock())
	})
	bubble(t, "Unlock and Close do not wait for them", func(t *testing.T) {
		r := newPairRig(t)
		a := r.client(Config{})
		g := mustLock(t, a, "job")
		r.set(r.hang)
		time.Sleep(11200 * time.Millisecond)
		require.Len(t, r.looked(), 2)
		require.Equal(t, 2, looking(), "the look, and who waits for it")
		start := time.Now()
		require.NoError(t, g.Unlock())
		require.Zero(t, time.Since(start))
		require.NoError(t, a.Close(t.Context()))
		require.Less(t, time.Since(start), 100*time.Millisecond)
		synctest.Wait()
		require.Equal(t, 1, looking(), "the abandoned look")
		r.set(r.free)
		synctest.Wait()
		require.Zero(t, looking())
	})
	bubble(t, "Close with a lock that is held joins them", func(t *testing.T) {
		r := newPairRig(t)
		a := r.client(Config{})
		g := mustLock(t, a, "job")
		r.set(r.hang)
		time.Sleep(11200 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		require.Error(t, a.Close(ctx))
		require.Less(t, time.Since(start), 1100*time.Millisecond)
		looks := len(r.looked())
		time.Sleep(time.Hour)
		require.Len(t, r.looked(), looks)
		require.ErrorIs(t, g.Err(), ErrLost)
		require.Equal(t, 1, looking(), "the abandoned look")
	})
}

// TestConfirmedLife is about the other ends of a lock on a store with replicas.
func TestConfirmedLife(t *testing.T) {
	bubble(t, "nothing runs while everything is confirmed", func(t *testing.T) {
		r := newPairRig(t)
		a := r.client(Config{})
		g := mustLock(t, a, "job")
		time.Sleep(11200 * time.Millisecond)
		require.Len(t, r.looked(), 2)
		synctest.Wait()
		require.Zero(t, looking())
		looks := len(r.looked())
		require.NoError(t, g.Unlock())
		time.Sleep(time.Hour)
		require.Len(t, r.looked(), looks)
	})
	bubble(t, "unlocked while its renewal is not confirmed", func(t *testing.T) {
		r := newPairRig(t)
		a := r.client(Config{})
		g := mustLock(t, a, "job")
		r.set(r.freeze)
		time.Sleep(12 * time.Second)
		looks := len(r.looked())
		require.Greater(t, looks, 1)
		require.Zero(t, looking(), "between looks")
		require.NoError(t, g.Unlock())
		time.Sleep(time.Hour)
		require.Len(t, r.looked(), looks)
	})
	bubble(t, "REN-06 MaxHold and Drain, confirmed", func(t *testing.T) {
		r := newPairRig(t)
		cfg := three()
		cfg.Drain = 5 * time.Second
		a := r.client(cfg)
		r.set(func() { r.lag = 100 * time.Millisecond })
		g := mustLock(t, a, "job", WithMaxHold(10*time.Second))
		from := r.at()
		require.Equal(t, from+10*time.Second, r.doneAt(g.Context()))
		time.Sleep(4 * time.Second)
		require.NotErrorIs(t, g.Err(), ErrLost, "the lock is renewed while it drains")
		require.Greater(t, g.Remaining(), time.Second)
		time.Sleep(5 * time.Second)
		var lost *LostError
		require.ErrorAs(t, g.Err(), &lost)
		require.Equal(t, guard.Abandoned, lost.Reason)
	})
}

func TestProofs(t *testing.T) {
	const trust = 27 * time.Second
	at := func(d time.Duration) clock.Instant { return clock.Instant{}.Add(d) }
	expiry := func(d time.Duration) time.Time { return time.Unix(0, 0).Add(d + 30*time.Second) }
	add := func(p *proofs, d time.Duration) { p.add(proof{at(d), expiry(d)}, at(d), trust) }

	t.Run("the newest that is shown counts, and the older ones with it", func(t *testing.T) {
		var p proofs
		for d := range 3 {
			add(&p, time.Duration(d)*10*time.Second-5*time.Second)
		}
		require.Equal(t, proof{}, p.confirm(time.Time{}))
		require.Equal(t, proof{}, p.confirm(expiry(-6*time.Second)))
		require.Len(t, p, 3)
		require.Equal(t, at(5*time.Second), p.confirm(expiry(14*time.Second)).sent)
		require.Equal(t, at(15*time.Second), p.confirm(expiry(time.Hour)).sent)
		require.Empty(t, p)
		require.Equal(t, proof{}, p.confirm(expiry(time.Hour)))
	})
	t.Run("a late answer finds its place", func(t *testing.T) {
		var p proofs
		add(&p, 5*time.Second)
		p.add(proof{at(time.Second), expiry(time.Second)}, at(6*time.Second), trust)
		require.Equal(t, at(time.Second), p.confirm(expiry(2*time.Second)).sent)
		require.Len(t, p, 1)
	})
	t.Run("bounded, and the oldest that is worth something stays", func(t *testing.T) {
		for _, every := range []time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second} {
			var p proofs
			for d := time.Duration(0); d < 3*trust; d += every {
				add(&p, d)
				require.LessOrEqual(t, len(p), maxProofs+2)
				require.Equal(t, at(d), p.newest().sent)
				require.LessOrEqual(t, p[0].sent.Until(at(d)), trust)
				if d > trust {
					require.Greater(t, at(d).Since(p[0].sent), trust-trust/maxProofs-2*every)
				}
			}
		}
	})
	t.Run("an answer without an expiry is none", func(t *testing.T) {
		require.False(t, covers(time.Time{}, time.Time{}))
		require.False(t, covers(time.Now(), time.Time{}))
	})
}
