package chaos

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/aaravsoft/leasehold/chaos_test/history"
	"github.com/aaravsoft/leasehold/store"
)

// profile is how a run is made.
type profile struct {
	clients, workers, names int
	ttls                    []time.Duration
	duration                time.Duration
	quiet                   time.Duration                         // between two faults, on the average
	work                    float64                               // how long a lock is held, in TTLs, on the average
	breaks                  time.Duration                         // between two breaks by an operator; zero: none
	moment                  time.Duration                         // how much longer than it should a lock may take to become free
	margin                  func(ttl time.Duration) time.Duration // the client's
	open                    func(store.Store, history.Observer) (history.Locker, error)
}

// window is one fault of a schedule.
type window struct {
	from, to time.Duration
	fault    int
	client   int
	seed     uint64
}

// schedule draws the faults of a run: everything about it follows from the seed.
func schedule(seed uint64, p profile, faults []fault) []window {
	rng := rand.New(rand.NewPCG(seed, 1))
	var all []window
	busy := map[string]time.Duration{} // until when each resource is needed
	var deck []int                     // faults are dealt like cards, so that each comes up
	for at := time.Duration(0); ; {
		at += time.Duration(rng.ExpFloat64() * float64(p.quiet))
		if at >= p.duration {
			return all
		}
		if len(deck) == 0 {
			deck = rng.Perm(len(faults))
		}
		w := window{from: at, fault: deck[0], client: rng.IntN(p.clients), seed: rng.Uint64()}
		f := faults[w.fault]
		w.to = at + time.Duration(float64(f.longest)*(0.02+0.98*rng.Float64()*rng.Float64())) // mostly short
		resource := cmp.Or(f.resource, fmt.Sprint(w.client))
		if busy[resource] > at {
			continue // this one is still wanted
		}
		if f.resource != "" {
			w.client = -1
		}
		deck = deck[1:]
		busy[resource] = w.to
		all = append(all, w)
	}
}

// run is one run.
type run struct {
	profile
	seed     uint64
	topology topology
	rec      *history.Recorder
	start    time.Time
	clients  []*history.Client
	resource resource
}

// prober is the client that asks at the end whether every lock is free.
const prober = "end"

// drive runs a profile on a topology, and returns the record. It can be used in a bubble: all that it starts has ended when it
// returns.
func drive(p profile, seed uint64, topo topology) (history.History, error) {
	r := &run{profile: p, seed: seed, topology: topo, start: time.Now(), resource: &register{greatest: map[string]uint64{}}}
	r.rec = history.NewRecorder(func() time.Duration { return time.Since(r.start) }, nil)
	for i := range p.clients {
		c, err := history.NewClient(r.rec, fmt.Sprintf("c%d", i), topo.store(i), p.open)
		if err != nil {
			return history.History{}, err
		}
		r.clients = append(r.clients, c)
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.duration)
	defer cancel()
	var all sync.WaitGroup
	for i, c := range r.clients {
		for w := range p.workers {
			rng := rand.New(rand.NewPCG(seed, uint64(100+i*100+w)))
			all.Go(func() { r.work(ctx, c, rng) })
		}
	}
	if topo.limits().timers > 0 { // it is real time
		for range 4 { // each timer is some processor's, and it may be that one alone that was not run
			all.Go(func() { r.rec.Pulse(ctx, "") })
		}
	}
	if p.breaks > 0 {
		all.Go(func() { r.operate(ctx, topo.inspector(), rand.New(rand.NewPCG(seed, 2))) })
	}
	r.strike()
	all.Wait()
	topo.settle()
	err := r.finish()
	topo.close()
	h := r.rec.History()
	h.Start = r.start
	return h, err
}

// strike carries the schedule out.
func (r *run) strike() {
	faults := r.topology.faults()
	var all sync.WaitGroup
	for i, w := range schedule(r.seed, r.profile, faults) {
		f := faults[w.fault]
		e := history.Event{ID: i + 1, Detail: f.name}
		if w.client >= 0 {
			e.Client = fmt.Sprintf("c%d", w.client)
		}
		time.Sleep(w.from - time.Since(r.start))
		e.Kind = history.Fault
		r.rec.Add(e)
		heal := f.begin(rand.New(rand.NewPCG(w.seed, 0)), w.client)
		all.Go(func() {
			time.Sleep(w.to - time.Since(r.start))
			heal()
			e.Kind = history.Heal
			r.rec.Add(e)
		})
	}
	all.Wait()
}

// work takes locks until the run is over.
func (r *run) work(ctx context.Context, c *history.Client, rng *rand.Rand) {
	for ctx.Err() == nil {
		name, ttl := fmt.Sprintf("lock-%d", rng.IntN(r.names)), r.ttls[rng.IntN(len(r.ttls))]
		wait := []time.Duration{0, ttl / 2, 3 * ttl, 10 * ttl}[rng.IntN(4)]
		r.lock(ctx, c, rng, name, ttl, wait)
		pause(ctx, time.Duration(rng.Int64N(int64(ttl/8))))
	}
}

// lock now and then has the caller lose patience in the middle: of the wait, or of the work.
func (r *run) lock(ctx context.Context, c *history.Client, rng *rand.Rand, name string, ttl, wait time.Duration) {
	if rng.IntN(10) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.Int64N(int64(3*ttl))))
		defer cancel()
	}
	if g, err := c.Lock(ctx, name, ttl, wait); err == nil {
		r.hold(g, rng, ttl)
	}
}

// hold works under a lock, most of the time as one should: until the work is done or the context ends.
func (r *run) hold(g *history.Guard, rng *rand.Rand, ttl time.Duration) {
	left := time.Duration(rng.ExpFloat64() * r.profile.work * float64(ttl))
	for left > 0 && g.Context().Err() == nil {
		r.resource.write(g)
		step := min(left, ttl/20+time.Duration(rng.Int64N(int64(ttl/5))))
		left -= step
		pause(g.Context(), step)
	}
	if g.Context().Err() == nil {
		r.resource.write(g)
	} else if rng.IntN(3) == 0 {
		// It did not listen, or was stopped: that is what tokens are for.
		time.Sleep(time.Duration(rng.Int64N(int64(2 * ttl))))
		r.resource.write(g)
	}
	g.Unlock()
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// operate breaks a lock now and then, as a person who knows no better.
func (r *run) operate(ctx context.Context, inspector store.Inspector, rng *rand.Rand) {
	for {
		pause(ctx, time.Duration(rng.ExpFloat64()*float64(r.breaks)))
		if ctx.Err() != nil {
			return
		}
		row, err := inspector.Get(ctx, fmt.Sprintf("lock-%d", rng.IntN(r.names)))
		if err != nil {
			continue
		}
		time.Sleep(time.Duration(rng.Int64N(int64(20 * time.Millisecond))))
		e := history.Event{Kind: history.Sent, Client: "op", ID: r.rec.NextID(), Op: history.Break, Name: row.Name, Owner: row.Owner}
		r.rec.Add(e)
		broken, err := inspector.Break(context.WithoutCancel(ctx), row.Name, row.Owner)
		e.Kind, e.Class = history.Answered, history.Class(err)
		if err == nil {
			e.Row = &history.Row{Owner: broken.Owner, Expires: broken.Expires, Left: broken.Left}
		}
		r.rec.Add(e)
	}
}

// finish closes the clients.
func (r *run) finish() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	for _, c := range r.clients {
		if err := c.Close(ctx); ctx.Err() != nil {
			return fmt.Errorf("a client does not close: %w", err)
		}
	}
	return r.probe(ctx, r.topology.store(0))
}

// probe asks for every lock.
func (r *run) probe(ctx context.Context, st store.Store) error {
	end, err := history.NewClient(r.rec, prober, st, r.open)
	if err != nil {
		return err
	}
	// Whatever was left behind has expired within one TTL, and is taken within a moment of that: which is longer in real time, on
	// a machine that does much else.
	ttl := slices.Max(r.ttls)
	patience := ttl + time.Second + r.moment
	for i := range r.names {
		g, err := end.Lock(ctx, fmt.Sprintf("lock-%d", i), ttl, patience)
		if err == nil {
			g.Unlock()
		}
	}
	return end.Close(ctx)
}

// resource is something that a lock protects, which remembers the greatest token it has seen.
type resource interface{ write(g *history.Guard) }

// register is a resource of this process.
type register struct {
	mu       sync.Mutex
	greatest map[string]uint64
}

func (r *register) write(g *history.Guard) {
	r.mu.Lock() // over the recording, too: the record has the order of the writes
	defer r.mu.Unlock()
	name := g.Name()
	g.Write(func(token uint64) bool {
		if token < r.greatest[name] {
			return false
		}
		r.greatest[name] = token
		return true
	})
}
