package history

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store"
)

// Locker is a client as a driver uses it: package mutex's, or one with a flaw.
type Locker interface {
	Lock(ctx context.Context, name string, ttl, wait time.Duration) (Held, error)
	Close(ctx context.Context) error
}

// Held is a guard as a driver uses it.
type Held interface {
	Context() context.Context
	Owner() string
	Token() uint64
	Err() error
	Unlock() error
}

// Client records what happens to the locks of one client.
type Client struct {
	rec   *Recorder
	name  string
	watch *watch
	inner Locker
}

// Observer is what a client under observation reports by itself.
type Observer struct {
	Risk, Safe func(name, owner string) // a renewal has failed, or succeeded; each time
	Lost       func(name, owner, reason string)
}

// NewClient returns a client around the one that open makes: of a recording store around st, reporting to the observer.
func NewClient(rec *Recorder, name string, st store.Store, open func(store.Store, Observer) (Locker, error)) (*Client, error) {
	w := &watch{rec: rec, client: name, guards: map[string]*watched{}}
	c := &Client{rec: rec, name: name, watch: w}
	inner, err := open(&Store{inner: st, rec: rec, client: name, watch: w}, Observer{Risk: w.risk, Safe: w.safe, Lost: w.lost})
	c.inner = inner
	return c, err
}

// Mutex opens a [mutex.Client].
func Mutex(cfg mutex.Config) func(store.Store, Observer) (Locker, error) {
	return func(st store.Store, o Observer) (Locker, error) {
		cfg := cfg // clients are opened beside each other
		cfg.Hooks.AtRisk = func(ev mutex.Event) { o.Risk(ev.Name, ev.Owner) }
		cfg.Hooks.Renewed = func(ev mutex.Event) { o.Safe(ev.Name, ev.Owner) }
		cfg.Hooks.Lost = func(ev mutex.Event) { o.Lost(ev.Name, ev.Owner, ev.Reason.String()) }
		c, err := mutex.New(st, cfg)
		return locker{c}, err
	}
}

type locker struct{ client *mutex.Client }

func (l locker) Lock(ctx context.Context, name string, ttl, wait time.Duration) (Held, error) {
	g, err := l.client.Lock(ctx, name, mutex.WithTTL(ttl), mutex.WithWait(wait))
	if err != nil {
		return nil, err
	}
	return g, nil
}

func (l locker) Close(ctx context.Context) error { return l.client.Close(ctx) }

// Lock is the client's Lock, recorded.
func (c *Client) Lock(ctx context.Context, name string, ttl, wait time.Duration) (*Guard, error) {
	e := Event{Kind: Call, Client: c.name, ID: c.rec.NextID(), Name: name, TTL: ttl}
	c.rec.Add(e)
	held, err := c.inner.Lock(ctx, name, ttl, wait)
	if err != nil {
		e.Kind, e.Class, e.Detail = Refused, Class(err), err.Error()
		c.rec.Add(e)
		return nil, err
	}
	e.Owner, e.Token = held.Owner(), held.Token()
	g := &Guard{held: held, rec: c.rec, event: e}
	g.record(Grant, nil) // before anybody can see its end
	c.watch.add(held.Context(), e)
	return g, nil
}

// Close closes the client.
func (c *Client) Close(ctx context.Context) error { return c.inner.Close(ctx) }

// Guard is a guard whose life is recorded.
type Guard struct {
	held  Held
	rec   *Recorder
	event Event
}

// Context returns the guard's context.
func (g *Guard) Context() context.Context { return g.held.Context() }

// Name returns the name that is locked.
func (g *Guard) Name() string { return g.event.Name }

// Token returns the guard's token.
func (g *Guard) Token() uint64 { return g.held.Token() }

// Unlock is the guard's Unlock, recorded.
func (g *Guard) Unlock() error {
	g.record(Unlock, nil)
	err := g.held.Unlock()
	g.record(Unlocked, err)
	return err
}

// Write records a write to a resource, which has accepted it or not.
func (g *Guard) Write(accept func(token uint64) bool) {
	e := g.event
	e.Kind = Write
	if !accept(g.Token()) {
		e.Class = Stale
	}
	g.rec.Add(e)
}

func (g *Guard) record(k Kind, err error) {
	e := g.event
	e.Kind, e.Class = k, Class(err)
	if errors.Is(err, mutex.ErrUnlocked) {
		e.Class = ""
	}
	g.rec.Add(e)
}

// watch knows the guards of a client by their owners.
type watch struct {
	rec    *Recorder
	client string

	mu     sync.Mutex
	guards map[string]*watched
}

type watched struct {
	event Event
	ctx   context.Context
	ended sync.Once
	risky bool
}

func (w *watch) add(ctx context.Context, e Event) {
	g := &watched{event: e, ctx: ctx}
	w.mu.Lock()
	w.guards[e.Owner] = g
	w.mu.Unlock()
	context.AfterFunc(ctx, func() { w.end(g) })
}

func (w *watch) end(g *watched) {
	g.ended.Do(func() {
		e := g.event
		e.Kind = End
		e.Detail = context.Cause(g.ctx).Error()
		w.rec.Add(e)
	})
}

// look records the end of a guard's context if it has ended. An AfterFunc runs when the scheduler likes; before a Release is
// sent is when it matters that the context has ended.
func (w *watch) look(owner string) {
	if g := w.find(owner); g != nil && g.ctx.Err() != nil {
		w.end(g)
	}
}

func (w *watch) find(owner string) *watched {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.guards[owner]
}

func (w *watch) risk(_, owner string) { w.turn(owner, Risk) }
func (w *watch) safe(_, owner string) { w.turn(owner, Safe) }

// turn records a change between risk and safety.
func (w *watch) turn(owner string, k Kind) {
	g := w.find(owner)
	if g == nil {
		return
	}
	w.mu.Lock()
	changed := g.risky != (k == Risk)
	g.risky = k == Risk
	w.mu.Unlock()
	if changed {
		e := g.event
		e.Kind = k
		w.rec.Add(e)
	}
}

func (w *watch) lost(_, owner, reason string) {
	if g := w.find(owner); g != nil {
		e := g.event
		e.Kind, e.Detail = Lost, reason
		w.rec.Add(e)
	}
}
