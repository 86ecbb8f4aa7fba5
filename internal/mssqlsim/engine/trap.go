package engine

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// Point is a place in the life of a statement where a test can hold it or make it fail.
type Point uint8

// The points, in the order in which a writing statement passes them. Those of rows are passed once for each row.
const (
	BeforeStatement Point = iota + 1 // "now" is taken, nothing else has happened
	RowVersionDrawn                  // a row version is drawn, its row not yet locked
	RowLocked                        // the row is locked and fits the conditions, it is not yet written
	BeforeCommit                     // everything is written and locked; not passed by a transaction without changes
	AfterCommit                      // committed and unlocked, the client does not know yet
	AfterStatement                   // it has done what it does; outside of a transaction that is committed
)

// Visit is one arrival at a point.
type Visit struct {
	Point     Point
	Session   *Session
	Statement string // the text of the statement, "COMMIT" for a request of the transaction manager
}

// Match says which visits a gate or a fault is about. Its zero value matches all.
type Match struct {
	Session  *Session // nil = any
	Contains string   // in the statement's text, whatever the case
}

func (m Match) matches(v Visit) bool {
	return (m.Session == nil || m.Session == v.Session) &&
		strings.Contains(strings.ToLower(v.Statement), strings.ToLower(m.Contains))
}

// trap is a gate or a fault.
type trap struct {
	point Point
	match Match
	meet  func(context.Context, Visit) error
}

type traps struct {
	mu  sync.Mutex
	set []*trap
}

func (t *traps) add(one *trap) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set = append(slices.Clip(t.set), one)
}

func (t *traps) remove(one *trap) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var rest []*trap
	for _, other := range t.set {
		if other != one {
			rest = append(rest, other)
		}
	}
	t.set = rest
}

// meet takes a visit through all traps in the order in which they were set.
func (t *traps) meet(ctx context.Context, v Visit) error {
	t.mu.Lock()
	set := t.set
	t.mu.Unlock()
	for _, one := range set {
		if one.point == v.Point && one.match.matches(v) {
			if err := one.meet(ctx, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// Gate holds statements at a point until it lets them through.
type Gate struct {
	node    *Node
	trap    *trap
	arrived chan Visit
	step    chan struct{}
	open    chan struct{}
	once    sync.Once
}

// Gate closes a gate. Who arrives is reported by [Gate.Arrived] and waits for [Gate.Step] or [Gate.Open], or for the
// end of its context.
func (n *Node) Gate(point Point, match Match) *Gate {
	g := &Gate{node: n, arrived: make(chan Visit, 1024), step: make(chan struct{}), open: make(chan struct{})}
	g.trap = &trap{point: point, match: match, meet: g.hold}
	n.traps.add(g.trap)
	return g
}

func (g *Gate) hold(ctx context.Context, v Visit) error {
	select {
	case g.arrived <- v:
	default: // nobody counts that many
	}
	select {
	case <-g.step:
	case <-g.open:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// Arrived delivers one visit for each statement that has come to the gate.
func (g *Gate) Arrived() <-chan Visit { return g.arrived }

// Step lets one statement through, and waits until there is one.
func (g *Gate) Step() { g.step <- struct{}{} }

// Open lets everybody through and takes the gate away. It can be called again.
func (g *Gate) Open() {
	g.once.Do(func() {
		g.node.traps.remove(g.trap)
		close(g.open)
	})
}

// Fault makes statements fail.
type Fault struct {
	node *Node
	trap *trap
	err  error

	mu   sync.Mutex
	left int
	hits int
}

// Fail makes the next times statements (negative: all) that come to a point fail there with err, which should be a
// *sqlerr.Error. At BeforeStatement nothing of it has happened; up to BeforeCommit it is rolled back as by any error; at
// AfterCommit it stands, although its client is told that it failed.
func (n *Node) Fail(point Point, match Match, times int, err error) *Fault {
	f := &Fault{node: n, err: err, left: times}
	f.trap = &trap{point: point, match: match, meet: f.strike}
	n.traps.add(f.trap)
	return f
}

func (f *Fault) strike(context.Context, Visit) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.left == 0 {
		return nil
	}
	f.left--
	f.hits++
	return f.err
}

// Hits is how often it has made a statement fail.
func (f *Fault) Hits() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hits
}

// Remove ends it.
func (f *Fault) Remove() { f.node.traps.remove(f.trap) }
