package mutex

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aaravsoft/leasehold/heartbeat"
	"github.com/aaravsoft/leasehold/internal/bounded"
	"github.com/aaravsoft/leasehold/internal/clock"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/breaker"
)

// Client takes locks in one store. A service needs one, for all of its locks; it is safe for concurrent use. A client
// that holds nothing and waits for nothing has no goroutine and no timer.
type Client struct {
	cfg     Config
	clk     clock.Clock
	breaker *breaker.Store // nil: none
	calls   *bounded.Calls
	probes  *bounded.Calls // of Health: past the breaker, with places of its own
	beat    *heartbeat.Scheduler
	confirm *confirmation // nil: the store does not confirm
	tasks   *tasks
	events  *events

	renewedAt atomic.Int64 // when the last renewal succeeded, in Unix nanoseconds; zero: none has

	hurry     chan struct{} // closed when Close stops waiting: an Unlock is then brief
	hurryOnce sync.Once

	mu      sync.Mutex // never held across a call at the store, a callback or a wait
	closed  bool
	names   map[string]*queue
	holds   map[*hold]struct{} // live and draining
	orphans orphans
	failed  []error       // losses, and releases that were not confirmed, since Close began
	changed chan struct{} // closed and replaced when a hold ends or a waiter leaves; nil while nobody waits for it
	watcher watcher
}

// New returns a client on a store that stays the caller's: Close does not close it. The error, of class [ErrInvalid],
// names everything that is wrong with cfg.
func New(st store.Store, cfg Config) (*Client, error) {
	return newClient(st, cfg, clock.System())
}

func newClient(st store.Store, cfg Config, clk clock.Clock) (*Client, error) {
	cfg, err := cfg.withDefaults()
	if st == nil {
		err = errors.Join(err, fmt.Errorf("%w store: it is nil", store.ErrInvalid))
	}
	if err != nil {
		return nil, fmt.Errorf("mutex: %w", err)
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Client{
		cfg: cfg, clk: clk, probes: bounded.New(st), tasks: &tasks{},
		hurry: make(chan struct{}), names: map[string]*queue{}, holds: map[*hold]struct{}{},
	}
	c.events = &events{hooks: cfg.Hooks, log: log, tasks: c.tasks}
	if st, err = c.protect(st); err != nil {
		return nil, fmt.Errorf("mutex: %w", err)
	}
	c.calls = bounded.New(st)
	c.beat = heartbeat.New(c.calls, clk)
	c.confirm = newConfirmation(st, clk)
	if a, ok := store.As[adviser](st); ok && a.Advice() != "" {
		log.Warn("leasehold: the store could be set up better", "advice", a.Advice())
	}
	return c, nil
}

// adviser is a store that may have something to say about how it was set up.
type adviser interface{ Advice() string }

// protect puts the breaker around the store, if it is wanted and not there.
func (c *Client) protect(st store.Store) (store.Store, error) {
	if b, ok := store.As[*breaker.Store](st); ok {
		c.breaker = b
		return st, nil
	}
	if c.cfg.NoBreaker {
		return st, nil
	}
	cfg := c.cfg.Breaker
	cfg.OnChange = func(s breaker.State) {
		c.events.breakerChanged(s)
		if c.cfg.Breaker.OnChange != nil {
			c.cfg.Breaker.OnChange(s)
		}
	}
	b, err := breaker.New(st, cfg)
	c.breaker = b
	return b, err
}

// drop takes a hold out of the client's books. Only the first call for a hold does something.
func (c *Client) drop(h *hold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropLocked(h)
}

// dropLocked is drop with mu held.
func (c *Client) dropLocked(h *hold) {
	delete(c.holds, h)
	if h.queue.holder == h {
		h.queue.holder = nil
		h.queue.promote()
	}
	c.forget(h.queue)
}

// forget drops a queue that nobody needs any more, and wakes Close. Called with mu held.
func (c *Client) forget(q *queue) {
	if q.holder == nil && q.empty() && q.cleanup == nil && c.names[q.name] == q {
		delete(c.names, q.name)
	}
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}

// queue returns the queue of a name. Called with mu held; whoever calls it puts something into the queue, or it stays.
func (c *Client) queue(name string) *queue {
	q := c.names[name]
	if q == nil {
		q = &queue{name: name}
		c.names[name] = q
	}
	return q
}

// disown deletes, in the background, the row that a burnt owner id may have left. The next waiter of the name waits for
// it. Called with mu held.
func (c *Client) disown(id *ownerID, claim store.Claim, t timing) {
	q, done := c.queue(claim.Name), make(chan struct{})
	before := q.cleanup
	q.cleanup = done
	c.tasks.start(func() {
		clean := c.releaseUnguarded(claim, t)
		if before != nil {
			<-before // bounded like this one
		}
		c.mu.Lock()
		if !clean || id.unresolved() {
			c.orphans.add(claim, time.Now())
		}
		if q.cleanup == done {
			q.cleanup = nil
		}
		c.forget(q)
		c.mu.Unlock()
		close(done)
	})
}

// releaseUnguarded deletes the row of a burnt owner id, trying again for as long as an Unlock would.
func (c *Client) releaseUnguarded(claim store.Claim, t timing) bool {
	ctx, cancel := context.WithTimeout(context.Background(), c.releaseBound(t.trust()))
	defer cancel()
	for p := (poll{}); ; {
		results, err := c.calls.CleanUp(ctx, t.attempt(), []store.Claim{claim})
		if err == nil {
			err = results[0].Err
		}
		if err == nil || errors.Is(err, store.ErrLost) {
			return true
		}
		if !errors.Is(err, store.ErrUnavailable) {
			return false
		}
		timer := time.NewTimer(p.wait())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

const (
	minRelease   = time.Second
	maxRelease   = 5 * time.Second
	hurryRelease = 100 * time.Millisecond
)

// releaseBound is how long an Unlock may take in all: what is left of the lease, for afterwards there is nothing to
// delete, but not less than 1 s and not more than 5 s; 100 ms once Close has stopped waiting.
func (c *Client) releaseBound(left time.Duration) time.Duration {
	select {
	case <-c.hurry:
		return hurryRelease
	default:
		return min(max(left, minRelease), maxRelease)
	}
}

// orphans are the owner ids that were given up and whose row may still be there, or may still be written. A refusal that
// names one repeats its clean-up.
type orphans map[string]orphan

type orphan struct {
	claim store.Claim
	until time.Time
}

// add remembers a claim for two TTLs: what is executed later than one TTL after the clean-up is nobody's fault any more.
func (o *orphans) add(claim store.Claim, now time.Time) {
	if *o == nil {
		*o = orphans{}
	}
	for owner, old := range *o {
		if now.After(old.until) {
			delete(*o, owner)
		}
	}
	(*o)[claim.Owner] = orphan{claim, now.Add(2 * claim.TTL)}
}

func (o orphans) find(owner string, now time.Time) *store.Claim {
	if found, ok := o[owner]; ok && !now.After(found.until) {
		return &found.claim
	}
	return nil
}
