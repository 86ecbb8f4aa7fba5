package mutex

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/aaravsoft/leasehold/internal/bounded"
	"github.com/aaravsoft/leasehold/internal/clock"
	"github.com/aaravsoft/leasehold/store"
)

// confirmation looks at the replicas, and raises the trust in held locks as far as these show their renewals.
//
// Guards are looked at in cohorts, by ⌊log2 R⌋ as the heartbeat groups them, so the guards of a round are looked at
// together. A cohort has at most one look in flight: a second one would ask replicas that are slow already. Cohorts
// do not wait for each other, or a look that may hang for seconds would cost a lock that has only a fraction of a
// second. Between looks there is no goroutine, and no timer while nothing is unconfirmed.
type confirmation struct {
	clk      clock.Clock
	grants   *bounded.Looks
	renewals *bounded.Looks // with places of their own: acquisitions can never use them up (rule 14)
	running  sync.WaitGroup // looks for renewals

	mu      sync.Mutex // never held across a look, nor when something is told to a guard
	closed  bool
	cohorts map[int]*cohort
}

// cohort is guarded by confirmation.mu.
type cohort struct {
	behind map[*hold]struct{} // holds with proofs
	timer  *time.Timer        // nil before the first look
	next   time.Time          // what the timer is set to; zero: it is not
	ended  time.Time          // of the last look
	cut    context.CancelFunc // ends the look in flight; nil: there is none
}

// unconfirmed is what of a hold is guarded by confirmation.mu.
type unconfirmed struct {
	proofs proofs
	blamed bool // a failure was reported since the last renewal
	over   bool // renewals have ended: nothing is looked at any more
}

func newConfirmation(st store.Store, clk clock.Clock) *confirmation {
	c := confirmer(st)
	if c == nil {
		return nil
	}
	return &confirmation{
		clk: clk, grants: bounded.NewLooks(c), renewals: bounded.NewLooks(c), cohorts: map[int]*cohort{},
	}
}

// gather is how long after a renewal the first look comes: the others of its batch are told at the same time and are to be in
// the same look, and a replica that shows it already is rare.
const gather = 20 * time.Millisecond

// renewed takes in a renewal that the primary has answered. It is worth nothing yet.
func (c *confirmation) renewed(h *hold, p proof) {
	now := c.clk()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || h.unconfirmed.over {
		return
	}
	h.unconfirmed.proofs.add(p, now, h.timing.trust())
	h.unconfirmed.blamed = false
	slot := bits.Len64(uint64(h.timing.renew))
	group := c.cohorts[slot]
	if group == nil {
		group = &cohort{behind: map[*hold]struct{}{}}
		c.cohorts[slot] = group
	}
	group.behind[h] = struct{}{}
	c.schedule(group, gather)
}

// forget ends the looks for a hold, and the look in flight if it was for nobody else: an Unlock or Close must not wait
// for it. It may be called more than once.
func (c *confirmation) forget(h *hold) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h.unconfirmed = unconfirmed{over: true}
	if group := c.cohorts[bits.Len64(uint64(h.timing.renew))]; group != nil {
		delete(group.behind, h)
		if len(group.behind) == 0 {
			group.stop()
		}
	}
}

// close ends all looks and waits for them: not long, package bounded sees to it.
func (c *confirmation) close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.closed = true
	for _, group := range c.cohorts {
		group.stop()
	}
	c.mu.Unlock()
	c.running.Wait()
}

// stop is called with mu held.
func (g *cohort) stop() {
	if !g.next.IsZero() {
		g.timer.Stop()
		g.next = time.Time{}
	}
	if g.cut != nil {
		g.cut()
	}
}

// schedule plans the next look, unless an earlier one is planned or one is in flight, whose end plans it. Called with mu held.
func (c *confirmation) schedule(g *cohort, wait time.Duration) {
	if g.cut != nil {
		return
	}
	now := time.Now()
	wait = max(wait, g.ended.Add(minLookPause).Sub(now))
	at := now.Add(wait)
	if !g.next.IsZero() && !at.Before(g.next) {
		return
	}
	g.next = at
	if g.timer == nil {
		g.timer = time.AfterFunc(wait, func() { c.fire(g) })
		return
	}
	g.timer.Reset(wait)
}

// fire is the timer's function; its goroutine makes the look. It may come after the timer was stopped or set anew.
func (c *confirmation) fire(g *cohort) {
	c.mu.Lock()
	if c.closed || g.cut != nil || g.next.IsZero() || time.Now().Before(g.next) {
		c.mu.Unlock()
		return
	}
	g.next = time.Time{}
	list := c.urgent(g)
	if len(list) == 0 {
		c.mu.Unlock()
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	g.cut = cancel
	c.running.Add(1) // before close can wait for it: closed is not set yet
	c.mu.Unlock()
	defer c.running.Done()
	defer cancel()

	for some := range slices.Chunk(list, store.MaxBatch) {
		c.look(ctx, g, some)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	g.cut, g.ended = nil, time.Now()
	if pause := c.pause(g); !c.closed && len(g.behind) > 0 {
		c.schedule(g, pause)
	}
}

// suspect is a hold that is to be looked at.
type suspect struct {
	hold  *hold
	lease store.Lease
	left  time.Duration // of trust
}

// urgent returns whom to look at, those with the least trust first. Those whose trust is over are left to their guards' own
// timers. Called with mu held.
func (c *confirmation) urgent(g *cohort) []suspect {
	list := make([]suspect, 0, len(g.behind))
	now := c.clk()
	for h := range g.behind {
		left := now.Until(h.ctl.Deadline())
		if left <= 0 {
			h.unconfirmed.proofs = nil
			delete(g.behind, h)
			continue
		}
		newest := h.unconfirmed.proofs.newest()
		list = append(list, suspect{h, store.Lease{Name: h.claim.Name, Owner: h.claim.Owner, Expires: newest.expires}, left})
	}
	slices.SortFunc(list, func(a, b suspect) int { return cmp.Compare(a.left, b.left) })
	return list
}

// look looks once, and tells the guards what it has found. As with a renewal, a third of the least trust left is its limit.
func (c *confirmation) look(ctx context.Context, g *cohort, list []suspect) {
	leases := make([]store.Lease, len(list))
	for i, s := range list {
		leases[i] = s.lease
	}
	left := c.clk().Until(list[0].hold.ctl.Deadline())
	shown, err := c.renewals.Confirm(ctx, max(left/3, minLook), leases)

	raised, failed := make([]proof, len(list)), make([]time.Duration, len(list))
	now := c.clk()
	c.mu.Lock()
	for i, s := range list {
		own := &s.hold.unconfirmed
		if raised[i] = own.proofs.confirm(shown[i]); raised[i] != (proof{}) {
			own.blamed = false // it is about to be out of risk
		}
		if len(own.proofs) == 0 { // also if it was forgotten
			delete(g.behind, s.hold)
			continue
		}
		// Replicas are always a little behind. It is a failure when the next renewal is due.
		since := now.Since(own.proofs[0].sent)
		if (err != nil || since >= s.hold.timing.renew) && !own.blamed {
			own.blamed, failed[i] = true, since
		}
	}
	c.mu.Unlock()

	for i, s := range list { // good news first: it counts only if it comes before the end of trust
		if raised[i] != (proof{}) {
			s.hold.trust(raised[i].sent)
		}
	}
	for i, s := range list {
		if failed[i] > 0 {
			s.hold.Failed(notConfirmed(failed[i], cmp.Or(err, errBehind)))
		}
	}
}

// pause is how long to wait for the next look: not so long for anybody that trust could end meanwhile. Called with mu held.
func (c *confirmation) pause(g *cohort) time.Duration {
	now, pause := c.clk(), maxLookPause
	for h := range g.behind {
		left := now.Until(h.ctl.Deadline())
		pause = min(pause, lookPause(now.Since(h.unconfirmed.proofs.newest().sent)), max(left/4, minLookPause))
	}
	return pause
}

// proof is a renewal that the primary has answered: trust counts from sent if the replicas show expires.
type proof struct {
	sent    clock.Instant
	expires time.Time
}

// proofs are the unconfirmed renewals of one hold, by their send.
type proofs []proof

// maxProofs bounds how many proofs are kept, by their distance: see add.
const maxProofs = 16

// add takes in a renewal, and drops those that are worth nothing any more. Of renewals that follow each other in less than
// a sixteenth of trust only some are kept: which of them is confirmed makes little difference. The oldest always stays, so
// replicas that are far behind confirm something in the end.
func (p *proofs) add(n proof, now clock.Instant, trust time.Duration) {
	list := slices.DeleteFunc(*p, func(old proof) bool { return now.Since(old.sent) >= trust })
	at := len(list)
	for at > 0 && list[at-1].after(n) { // a late answer
		at--
	}
	if last := at - 1; at == len(list) && at > 1 && list[last].sent.Since(list[last-1].sent) < trust/maxProofs {
		list[last] = n
	} else {
		list = slices.Insert(list, at, n)
	}
	*p = list
}

func (p proof) after(q proof) bool {
	return p.sent.Mono+p.sent.Suspended > q.sent.Mono+q.sent.Suspended // the clock that nobody sets
}

func (p proofs) newest() proof { return p[len(p)-1] }

// confirm returns the newest renewal that replicas cover that show the lease up to shown, or the zero proof. It and the older
// ones are done with.
func (p *proofs) confirm(shown time.Time) proof {
	for i, n := range slices.Backward(*p) {
		if covers(shown, n.expires) {
			*p = slices.Delete(*p, 0, i+1)
			return n
		}
	}
	return proof{}
}
