package locks_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/locks"
)

// op is one step of a session: take a lock, or (mode 0) give everything back.
type op struct {
	row  locks.Resource
	mode locks.Mode
}

// parse reads a program: "Sa Xb -" takes S on a, X on b and gives both back. It always ends with giving back.
func parse(program string) (ops []op) {
	modes := map[byte]locks.Mode{'S': locks.Shared, 'U': locks.Update, 'X': locks.Exclusive, '-': 0}
	for word := range strings.FieldsSeq(program + " -") {
		o := op{mode: modes[word[0]]}
		if o.mode != 0 {
			o.row = locks.Resource{Space: "t", Key: word[1:]}
		}
		ops = append(ops, o)
	}
	return ops
}

// actor runs the program of one session, and keeps what the session should hold and what it waits for: the test's
// own book, written from the answers only.
type actor struct {
	owner   *locks.Owner
	ops     []op
	next    int
	held    map[locks.Resource]locks.Mode
	answer  chan error
	waits   *op
	since   int // step at which the wait began
	convert bool
}

// world is one run of one schedule.
type world struct {
	t         *testing.T
	actors    []*actor
	trace     []string
	step      int
	deadlocks int
}

func (w *world) failf(format string, args ...any) {
	w.t.Helper()
	require.Fail(w.t, fmt.Sprintf(format, args...), "schedule: %s", strings.Join(w.trace, " "))
}

func clash(a, b locks.Mode) bool {
	return a == locks.Exclusive || b == locks.Exclusive || a == locks.Update && b == locks.Update
}

// waitsFor is the test's own idea of who keeps x waiting.
func (w *world) waitsFor(x *actor) (blockers []*actor) {
	for _, other := range w.actors {
		if other == x {
			continue
		}
		holds := other.held[x.waits.row] != 0 && clash(other.held[x.waits.row], x.waits.mode)
		ahead := other.waits != nil && other.waits.row == x.waits.row && clash(other.waits.mode, x.waits.mode) &&
			!x.convert && (other.convert || other.since < x.since)
		if holds || ahead {
			blockers = append(blockers, other)
		}
	}
	return blockers
}

func (w *world) inCircle(x *actor) bool {
	seen := map[*actor]bool{}
	var reaches func(*actor) bool
	reaches = func(at *actor) bool {
		if at.waits == nil || seen[at] {
			return false
		}
		seen[at] = true
		for _, next := range w.waitsFor(at) {
			if next == x || reaches(next) {
				return true
			}
		}
		return false
	}
	return reaches(x)
}

// run lets one actor take one step and settles everything that follows from it.
func (w *world) run(i int) {
	a := w.actors[i]
	o := a.ops[a.next]
	a.next++
	w.step++
	w.trace = append(w.trace, fmt.Sprintf("%d:%v%s", i, o.mode, o.row.Key))
	if o.mode == 0 {
		a.owner.UnlockAll()
		clear(a.held)
	} else {
		a.waits, a.since, a.convert = &o, w.step, a.held[o.row] != 0
		go func() { a.answer <- a.owner.Lock(w.t.Context(), o.row, o.mode, locks.Forever) }()
	}
	synctest.Wait()
	w.settle(a)
	w.check()
}

// settle reads answers. A victim gives everything back, which may bring further answers.
func (w *world) settle(mover *actor) {
	for again := true; again; {
		again = false
		for _, a := range w.actors {
			if a.waits == nil {
				continue
			}
			select {
			case err := <-a.answer:
				again = true
				w.answered(a, mover, err)
			default:
			}
		}
	}
}

func (w *world) answered(a, mover *actor, err error) {
	switch {
	case err == nil:
		a.held[a.waits.row] = max(a.held[a.waits.row], a.waits.mode)
		a.waits = nil
	case errors.Is(err, locks.ErrDeadlock):
		if a != mover {
			w.failf("the victim has the same weight as the one that closed the circle, and is another one")
		}
		if !w.inCircle(a) {
			w.failf("a victim without a deadlock")
		}
		w.deadlocks++
		a.waits, a.next = nil, len(a.ops)
		a.owner.UnlockAll()
		clear(a.held)
		synctest.Wait()
	default:
		w.failf("unexpected error: %v", err)
	}
}

// check compares the manager with the book, and both with the rules.
func (w *world) check() {
	for i, a := range w.actors {
		for row, mode := range a.held {
			if got := a.owner.Holds(row); got != mode {
				w.failf("session %d holds %v on %s, should hold %v", i, got, row.Key, mode)
			}
			for j, b := range w.actors {
				if j > i && b.held[row] != 0 && clash(mode, b.held[row]) {
					w.failf("sessions %d and %d hold %s together: %v, %v", i, j, row.Key, mode, b.held[row])
				}
			}
		}
		if a.waits != nil && len(w.waitsFor(a)) == 0 {
			w.failf("session %d waits for nobody", i)
		}
		if a.waits != nil && w.inCircle(a) {
			w.failf("session %d is in a deadlock that nobody noticed", i)
		}
	}
}

// explore runs every schedule of the programs and returns their number. A schedule is a path through a tree whose
// branches are the sessions that can move; a run replays a prefix and then always takes the first one.
func explore(t *testing.T, programs ...string) (schedules, deadlocks int) {
	prefix := []int{}
	for {
		var choices, widths []int
		synctest.Test(t, func(t *testing.T) {
			m := locks.New()
			w := &world{t: t}
			for _, program := range programs {
				w.actors = append(w.actors, &actor{owner: m.Session().Owner(), ops: parse(program),
					held: map[locks.Resource]locks.Mode{}, answer: make(chan error, 1)})
			}
			for {
				var movable []int
				for i, a := range w.actors {
					if a.waits == nil && a.next < len(a.ops) {
						movable = append(movable, i)
					}
				}
				if len(movable) == 0 {
					break
				}
				choice := 0
				if len(choices) < len(prefix) {
					choice = prefix[len(choices)]
				}
				choices, widths = append(choices, choice), append(widths, len(movable))
				w.run(movable[choice])
			}
			deadlocks += w.deadlocks
			if holds, waits := m.Count(); holds+waits != 0 {
				w.failf("at the end %d holds and %d waits are left", holds, waits)
			}
		})
		schedules++
		if t.Failed() {
			return schedules, deadlocks
		}
		last := len(choices) - 1
		for last >= 0 && choices[last]+1 == widths[last] {
			last--
		}
		if last < 0 {
			return schedules, deadlocks
		}
		prefix = append(slices.Clone(choices[:last]), choices[last]+1)
	}
}

// Every interleaving of these programs keeps the rules, ends, and leaves nothing behind.
func TestEverySchedule(t *testing.T) {
	for _, test := range []struct {
		programs  []string
		deadlocks bool
	}{
		{[]string{"Xa Xb", "Xa Xb"}, false},
		{[]string{"Xa Xb", "Xb Xa"}, true},
		{[]string{"Sa Xa", "Sa Xa"}, true},
		{[]string{"Ua Xa", "Ua Xa"}, false},
		{[]string{"Ua Xa - Ua Xa", "Sa - Xa"}, false},
		{[]string{"Sa Ua Xa", "Sa Ua Xa"}, true},
		{[]string{"Ua Xa", "Ua Xa", "Sa"}, false},
		{[]string{"Xa Xb", "Xb Xa", "Sa Sb"}, true},
		{[]string{"Sa Xb", "Xa", "Sb Sa"}, true},
		{[]string{"Sa Xa", "Sa", "Ua Xa"}, true},
		{[]string{"Xa", "Xa", "Sa"}, false},
		{[]string{"Xa Xb", "Xb Xc", "Xc Xa"}, true},
	} {
		t.Run(strings.Join(test.programs, " | "), func(t *testing.T) {
			schedules, deadlocks := explore(t, test.programs...)
			t.Logf("%d schedules, %d deadlocks", schedules, deadlocks)
			require.Greater(t, schedules, 5)
			require.Equal(t, test.deadlocks, deadlocks > 0, "a deadlock was found")
		})
	}
}
