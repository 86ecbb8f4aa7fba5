package chaos

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/aaravsoft/leasehold/chaos_test/check"
	"github.com/aaravsoft/leasehold/internal/faultstore"
	"github.com/aaravsoft/leasehold/store"
)

// table is a store in this process whose clock can be moved.
type table interface {
	store.Store
	store.Inspector
	Step(d time.Duration)
}

// oneNode is a database of one node in this process, and a network for each client. It runs in fake time.
type oneNode struct {
	table table
	nets  []*faultstore.Store
	start time.Time
	skew  time.Duration

	mu  sync.Mutex
	hit map[string]int
}

// skew is how far the clock of a node may be from another's: less than the margin, which is at least 50 ms.
const skew = 30 * time.Millisecond

// newOneNode returns a topology around a table.
func newOneNode(t table, seed uint64, clients int) *oneNode {
	n := &oneNode{table: t, hit: map[string]int{}, start: time.Now(), skew: skew}
	for i := range clients {
		net := &line{inner: t, rng: rand.New(rand.NewPCG(seed, uint64(i)))}
		n.nets = append(n.nets, faultstore.Wrap(net))
	}
	return n
}

func (n *oneNode) store(i int) store.Store { return n.nets[i] }

func (n *oneNode) limits() limits {
	return limits{clock: check.Clock{Start: n.start, Skew: n.skew}}
}

var errNetwork = errors.New("the network is broken")

// ops are what a fault of the network may be limited to.
var ops = []faultstore.Op{
	faultstore.All, faultstore.All, faultstore.Acquire, faultstore.Renew, faultstore.Release, faultstore.Renew | faultstore.Release,
}

func (n *oneNode) faults() []fault {
	refused := &store.UnavailableError{Op: "chaos", Err: errNetwork}
	unclear := &store.UnavailableError{Op: "chaos", Err: errNetwork, Unclear: true}
	return []fault{
		n.network("connection refused", 5*time.Second, func(*rand.Rand) faultstore.Fault { return faultstore.Fault{Fail: refused} }),
		n.network("request lost", 5*time.Second, func(*rand.Rand) faultstore.Fault { return faultstore.Fault{Fail: unclear} }),
		n.network("answer lost", 3*time.Second, func(*rand.Rand) faultstore.Fault { return faultstore.Fault{Lose: unclear} }),
		n.network("request held up", 4*time.Second, func(*rand.Rand) faultstore.Fault { return faultstore.Fault{HangBefore: true} }),
		n.network("answer held up", 4*time.Second, func(*rand.Rand) faultstore.Fault { return faultstore.Fault{HangAfter: true} }),
		n.network("slow", 4*time.Second, func(rng *rand.Rand) faultstore.Fault {
			return faultstore.Fault{Delay: 20*time.Millisecond + time.Duration(rng.Int64N(int64(700*time.Millisecond)))}
		}),
		n.network("driver panics", time.Second, func(*rand.Rand) faultstore.Fault { return faultstore.Fault{Panic: true} }),
		{
			// A failover to a node whose clock is ahead, and back.
			name: "clock skew", scope: everybody, longest: 4 * time.Second,
			begin: func(*rand.Rand, int) func() {
				n.table.Step(skew)
				n.count("clock skew", 1)
				return func() { n.table.Step(-skew) }
			},
			hits: func() int { return n.count("clock skew", 0) },
		},
	}
}

// network is a fault of one client's network.
func (n *oneNode) network(name string, longest time.Duration, draw func(*rand.Rand) faultstore.Fault) fault {
	return fault{
		name: name, longest: longest,
		begin: func(rng *rand.Rand, client int) func() {
			net := n.nets[client]
			f := draw(rng)
			f.Ops = ops[rng.IntN(len(ops))]
			before := net.Hits()
			net.Add(f)
			return func() {
				n.count(name, net.Hits()-before)
				net.Clear()
				net.Free()
			}
		},
		hits: func() int { return n.count(name, 0) },
	}
}

// count adds to what a fault has struck, and returns the sum.
func (n *oneNode) count(name string, hits int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hit[name] += hits
	return n.hit[name]
}

func (n *oneNode) settle() {
	for _, net := range n.nets {
		net.Clear()
	}
	time.Sleep(time.Second) // what has met a fault already is about to hang
	for _, net := range n.nets {
		net.Free()
	}
}

func (n *oneNode) close() {}
