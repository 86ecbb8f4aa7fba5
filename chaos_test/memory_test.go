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
	skew  time.Duration
	extra []fault // what else can be done to the table

	tally tally

	mu      sync.Mutex
	skewers int // who wants the clock ahead
}

// skew is how far the clock of a node may be from another's: less than the margin, which is at least 50 ms.
const skew = 30 * time.Millisecond

// newOneNode returns a topology around a table.
func newOneNode(t table, seed uint64, clients int) *oneNode {
	n := &oneNode{table: t, skew: skew}
	for i := range clients {
		net := &line{inner: t, rng: rand.New(rand.NewPCG(seed, uint64(i)))}
		n.nets = append(n.nets, faultstore.Wrap(net))
	}
	return n
}

func (n *oneNode) store(i int) store.Store { return n.nets[i] }

func (n *oneNode) inspector() store.Inspector { return n.table }

func (n *oneNode) limits() limits {
	l := limits{clock: check.Clock{Skew: n.skew}}
	if n.skew > skew {
		l.overlap = n.skew - margin(0) // of the shortest TTL it is the least
		l.unordered = true
	}
	return l
}

var errNetwork = errors.New("the network is broken")

// ops are what a fault of the network may be limited to.
var ops = []faultstore.Op{
	faultstore.All, faultstore.All, faultstore.Acquire, faultstore.Renew, faultstore.Release, faultstore.Renew | faultstore.Release,
}

func (n *oneNode) faults() []fault {
	refused := &store.UnavailableError{Op: "chaos", Err: errNetwork}
	unclear := &store.UnavailableError{Op: "chaos", Err: errNetwork, Unclear: true}
	return append([]fault{
		n.network("connection refused", 5*time.Second, always(faultstore.Fault{Fail: refused})),
		n.network("request lost", 5*time.Second, always(faultstore.Fault{Fail: unclear})),
		n.network("answer lost", 3*time.Second, always(faultstore.Fault{Lose: unclear})),
		n.network("request held up", 4*time.Second, always(faultstore.Fault{HangBefore: true})),
		n.network("answer held up", 4*time.Second, always(faultstore.Fault{HangAfter: true})),
		n.network("slow", 4*time.Second, func(rng *rand.Rand) []faultstore.Fault {
			return []faultstore.Fault{{Ops: ops[rng.IntN(len(ops))], Delay: slow(rng)}}
		}),
		n.network("slow, then dead", 6*time.Second, func(rng *rand.Rand) []faultstore.Fault {
			return []faultstore.Fault{
				{Ops: faultstore.Renew, Delay: slow(rng), Times: 1 + rng.IntN(2)},
				{Ops: faultstore.All, Fail: refused},
			}
		}),
		n.network("driver panics", time.Second, always(faultstore.Fault{Panic: true})),
		{
			// A failover to a node whose clock is ahead, and back.
			name: "clock ahead", resource: network, longest: 4 * time.Second,
			begin: func(*rand.Rand, int) func() { return n.ahead() },
			hits:  n.tally.of("clock ahead"),
		},
		{
			name: "clock ahead, and cut off", longest: 5 * time.Second,
			begin: func(_ *rand.Rand, client int) func() {
				// Shortly before, so that what was granted or renewed last knows nothing of it.
				n.nets[client].Add(faultstore.Fault{Ops: faultstore.All, Fail: refused})
				back := n.ahead()
				return func() {
					back()
					n.nets[client].Clear()
				}
			},
			hits: n.tally.of("clock ahead"),
		},
	}, n.extra...)
}

// ahead puts the node's clock ahead, until the last who wanted it calls back.
func (n *oneNode) ahead() (back func()) {
	n.tally.add("clock ahead", 1)
	want := func(more, step int) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.skewers += more; n.skewers == step {
			n.table.Step(time.Duration(more) * n.skew)
		}
	}
	want(1, 1)
	return func() { want(-1, 0) }
}

func slow(rng *rand.Rand) time.Duration {
	return 20*time.Millisecond + time.Duration(rng.Int64N(int64(700*time.Millisecond)))
}

// always is one fault, of some operations.
func always(f faultstore.Fault) func(*rand.Rand) []faultstore.Fault {
	return func(rng *rand.Rand) []faultstore.Fault {
		f.Ops = ops[rng.IntN(len(ops))]
		return []faultstore.Fault{f}
	}
}

// network is a fault of one client's network.
func (n *oneNode) network(name string, longest time.Duration, draw func(*rand.Rand) []faultstore.Fault) fault {
	return fault{
		name: name, longest: longest,
		begin: func(rng *rand.Rand, client int) func() {
			net := n.nets[client]
			before := net.Hits()
			for _, f := range draw(rng) {
				net.Add(f)
			}
			return func() {
				n.tally.add(name, net.Hits()-before)
				net.Clear()
				net.Free()
			}
		},
		hits: n.tally.of(name),
	}
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

// close waits for what nobody waits for: clean-ups after answers that were late.
func (n *oneNode) close() { time.Sleep(time.Minute) }
