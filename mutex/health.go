package mutex

import (
	"context"
	"errors"
	"time"

	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/breaker"
)

// Health is how a client and its store are.
type Health struct {
	Store       error         // nil: the store has answered just now; ErrClosed: the client is closed
	Breaker     breaker.State // the zero State if there is no breaker
	Held        int           // guards that are live or draining
	AtRisk      int           // of them: a renewal failed, or is not confirmed, and none has been since
	LastRenewal time.Time     // when a renewal last succeeded; zero: none has
}

// healthLimit bounds the one call at the store.
const healthLimit = 2 * time.Second

// Health asks the store, by a release of something that is not there, past the breaker, and says how the client is. It returns
// when ctx ends, and within two seconds.
func (c *Client) Health(ctx context.Context) Health {
	h := Health{Store: c.ask(ctx)}
	if c.breaker != nil {
		h.Breaker = c.breaker.State()
	}
	if at := c.renewedAt.Load(); at != 0 {
		h.LastRenewal = time.Unix(0, at)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h.Held = len(c.holds)
	for held := range c.holds {
		if held.risk.Load() {
			h.AtRisk++
		}
	}
	if c.closed {
		h.Store = ErrClosed
	}
	return h
}

func (c *Client) ask(ctx context.Context) error {
	nothing := store.Claim{Name: "leasehold/health", Owner: store.NewOwner("health")}
	results, err := c.probes.Release(ctx, healthLimit, []store.Claim{nothing}, nil)
	if err == nil {
		err = results[0].Err
	}
	if errors.Is(err, store.ErrLost) {
		return nil // as it should be
	}
	return err
}
