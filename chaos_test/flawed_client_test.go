package chaos

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/aaravsoft/leasehold/chaos_test/history"
	"github.com/aaravsoft/leasehold/internal/bounded"
	"github.com/aaravsoft/leasehold/store"
)

// Mistakes of a client.
const (
	noMargin       flaw = "no margin"
	trustFromReply flaw = "trust counted from the reply"
	burntAgain     flaw = "burnt owner id sent again"
	unlockLate     flaw = "Unlock that ends the context after its Release"
	endsWithCall   flaw = "context that ends when the renewal call returns"
)

// flawedClient is a small client of its own: the decisions of package mutex on which safety rests, without its breaker, queue and
// batches, so that each can be made wrong. Without a flaw it is right, which its own control run shows.
type flawedClient struct {
	flaw  flaw
	calls *bounded.Calls
	watch history.Observer
	tasks sync.WaitGroup

	mu  sync.Mutex
	ids map[string]string // by name: what burntAgain uses for ever
}

func openFlawed(f flaw) func(store.Store, history.Observer) (history.Locker, error) {
	return func(st store.Store, o history.Observer) (history.Locker, error) {
		return &flawedClient{flaw: f, calls: bounded.New(st), watch: o, ids: map[string]string{}}, nil
	}
}

func (c *flawedClient) Close(context.Context) error {
	c.tasks.Wait()
	return nil
}

// owner is a new one for every call of Lock.
func (c *flawedClient) owner(name string) string {
	if c.flaw != burntAgain {
		return store.NewOwner("flawed")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids[name] == "" {
		c.ids[name] = store.NewOwner("flawed")
	}
	return c.ids[name]
}

func (c *flawedClient) trust(ttl time.Duration) time.Duration {
	if c.flaw == noMargin {
		return ttl
	}
	return ttl - margin(ttl)
}

// known is when a request that has just been answered is taken to have been sent.
func (c *flawedClient) known(sent time.Time) time.Time {
	if c.flaw == trustFromReply {
		return time.Now()
	}
	return sent
}

func (c *flawedClient) Lock(ctx context.Context, name string, ttl, wait time.Duration) (history.Held, error) {
	claim := store.Claim{Name: name, Owner: c.owner(name), TTL: ttl}
	limit := c.trust(ttl) / 3
	maybe := false // its row may be there
	end := time.Now().Add(wait)
	for {
		sent := time.Now()
		lease, err := c.calls.Acquire(ctx, limit, claim, func(_ store.Lease, err error) {
			c.tasks.Go(func() { c.release(claim, limit) }) // nobody waits for this answer any more
		})
		switch {
		case err == nil && time.Until(c.known(sent).Add(c.trust(ttl))) >= ttl/3:
			return c.hold(ctx, claim, lease, sent), nil
		case err == nil || errors.Is(err, store.ErrUnclear):
			maybe = true
		}
		next := 20 * time.Millisecond
		if held, ok := errors.AsType[*store.HeldError](err); ok {
			next = min(held.Lease.Left, ttl/10) + 5*time.Millisecond
		}
		if ctx.Err() != nil || !time.Now().Add(next).Before(end) || errors.Is(err, bounded.ErrAbandoned) {
			if maybe {
				c.tasks.Go(func() { c.release(claim, limit) })
			}
			if err == nil {
				err = context.DeadlineExceeded
			}
			return nil, err
		}
		pause(ctx, next)
	}
}

// release gives a row back, trying for a while.
func (c *flawedClient) release(claim store.Claim, limit time.Duration) error {
	var results []store.Result
	var err error
	for range 5 {
		results, err = c.calls.Release(context.Background(), limit, []store.Claim{claim}, nil)
		if err == nil {
			return results[0].Err
		}
		time.Sleep(limit / 2)
	}
	return err
}

// flawedGuard is a guard of a flawedClient.
type flawedGuard struct {
	client *flawedClient
	claim  store.Claim
	token  uint64
	ctx    context.Context
	cancel context.CancelCauseFunc
	limit  time.Duration

	mu       sync.Mutex
	deadline time.Time
	timer    *time.Timer
}

var errOver = errors.New("the end of trust")

func (c *flawedClient) hold(ctx context.Context, claim store.Claim, lease store.Lease, sent time.Time) *flawedGuard {
	g := &flawedGuard{client: c, claim: claim, token: lease.Version, limit: c.trust(claim.TTL) / 3}
	g.ctx, g.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	g.deadline = c.known(sent).Add(c.trust(claim.TTL))
	if c.flaw != endsWithCall {
		g.timer = time.AfterFunc(time.Until(g.deadline), g.check)
	}
	c.tasks.Go(g.renew)
	return g
}

// check ends the guard if its trust is over, and otherwise looks again when it will be.
func (g *flawedGuard) check() {
	g.mu.Lock()
	left := time.Until(g.deadline)
	if left > 0 && g.timer != nil {
		g.timer.Reset(left)
	}
	g.mu.Unlock()
	if left <= 0 {
		g.lose(errOver, "unconfirmed")
	}
}

func (g *flawedGuard) lose(err error, reason string) {
	if g.ctx.Err() == nil {
		g.cancel(err)
		g.client.watch.Lost(g.claim.Name, g.claim.Owner, reason)
	}
}

func (g *flawedGuard) renew() {
	next := g.claim.TTL / 3
	for {
		pause(g.ctx, next)
		if g.ctx.Err() != nil {
			return
		}
		sent := time.Now()
		results, err := g.client.calls.Renew(context.Background(), g.limit, []store.Claim{g.claim}, nil)
		if err == nil && errors.Is(results[0].Err, store.ErrLost) {
			g.lose(results[0].Err, "taken")
			return
		}
		next = g.claim.TTL / 3
		if err != nil {
			g.client.watch.Risk(g.claim.Name, g.claim.Owner)
			next = g.limit / 4
		} else {
			g.raise(sent)
			g.client.watch.Safe(g.claim.Name, g.claim.Owner)
		}
		g.check()
	}
}

// raise counts a renewal that has succeeded, if its answer has come before the end of trust.
func (g *flawedGuard) raise(sent time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if d := g.client.known(sent).Add(g.client.trust(g.claim.TTL)); time.Now().Before(g.deadline) && d.After(g.deadline) {
		g.deadline = d
	}
}

func (g *flawedGuard) Context() context.Context { return g.ctx }
func (g *flawedGuard) Owner() string            { return g.claim.Owner }
func (g *flawedGuard) Token() uint64            { return g.token }
func (g *flawedGuard) Err() error               { return context.Cause(g.ctx) }

func (g *flawedGuard) Unlock() error {
	if g.client.flaw != unlockLate {
		g.cancel(errors.New("unlocked"))
	}
	err := g.client.release(g.claim, g.limit)
	g.cancel(errors.New("unlocked"))
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer != nil {
		g.timer.Stop()
	}
	return err
}
