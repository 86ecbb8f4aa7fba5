package mutex

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// world is a row, a server with statements on their way, and one id's life beside it: everything that the protocol of
// rule 6 can meet. The test below walks through all of its interleavings.
type world struct {
	life  life
	fate  [attempts]fate
	row   rowOwner
	calls releases

	sentAcquires int
	guards       int  // guards made of this id
	foreign      bool // somebody else was granted the name at some time
	// lateRow: this id's row was written after the last Release that is owed had executed. Rule 11 admits it.
	lateRow bool
}

const attempts = 3

// fate is where one Acquire is.
type fate struct {
	sent, executed, answered, abandoned bool
	grant                               bool // what it did when it executed
}

type rowOwner uint8

const (
	noRow rowOwner = iota
	ours
	theirs
)

// releases counts the Releases on their way to the server and those still owed to be sent.
type releases struct{ inflight uint8 }

type step struct {
	name string
	next world
}

// steps enumerates everything that can happen next.
func (w world) steps(t *testing.T) []step {
	var out []step
	apply := func(name string, w world, e event) world {
		next, do := w.life.on(e)
		w.life = next
		if do.guard {
			require.Equal(t, wanted, phaseBefore(e, w), "only a wanted id becomes a guard: %s", name)
			w.guards++
		}
		if do.release {
			w.calls.inflight++
			w.lateRow = false
		}
		out = append(out, step{name, w})
		return w
	}

	waiting := w.life.flying > 0
	// The client: one Acquire after the other while the id is wanted; it gives up, loses or unlocks.
	if w.life.phase == wanted && !waiting && w.sentAcquires < attempts {
		n := w
		n.fate[n.sentAcquires].sent = true
		n.sentAcquires++
		apply("send", n, sent)
	}
	if !waiting && w.life.phase != burnt {
		apply("burn", w, burn)
	}
	if w.life.phase == held {
		apply("lose", w, lose)
	}

	for i := range w.fate {
		f := w.fate[i]
		if !f.sent {
			continue
		}
		// The server executes, at any time, also long after the client has left.
		if !f.executed {
			n := w
			n.fate[i].executed = true
			if n.row != theirs {
				n.fate[i].grant = true
				if n.row == noRow && n.life.phase == burnt && n.calls.inflight == 0 {
					n.lateRow = true
				}
				n.row = ours
			}
			out = append(out, step{"execute acquire", n})
			// … or proves that it never will.
			if !f.answered {
				n := w
				n.fate[i].executed, n.fate[i].answered = true, true
				apply("not applied", n, pick(f.abandoned, lateRefused, refused))
			}
		}
		if f.answered {
			continue
		}
		n := w
		n.fate[i].answered = true
		if f.executed {
			switch {
			case f.grant && f.abandoned:
				apply("late grant", n, lateGranted)
			case f.grant:
				apply("grant", n, granted)
			default:
				apply("refusal", n, pick(f.abandoned, lateRefused, refused))
			}
		}
		n = w
		n.fate[i].answered = true
		apply("reply lost", n, pick(f.abandoned, lateUnclear, unclear))
		if !f.abandoned {
			n = w
			n.fate[i].abandoned = true
			apply("abandon", n, abandoned)
		}
	}
	// A Release executes.
	if w.calls.inflight > 0 {
		n := w
		n.calls.inflight--
		if n.row == ours {
			n.row = noRow
		}
		out = append(out, step{"execute release", n})
	}
	// Somebody else takes a free row, and leaves; ours expires.
	if w.row == noRow && !w.foreign {
		n := w
		n.row, n.foreign = theirs, true
		out = append(out, step{"foreign grant", n})
	}
	if w.row == theirs {
		n := w
		n.row = noRow
		out = append(out, step{"foreign release", n})
	}
	return out
}

func phaseBefore(e event, w world) phase {
	if e == granted && w.guards == 0 {
		return wanted
	}
	return w.life.phase
}

func pick(late bool, ifLate, ifNot event) event {
	if late {
		return ifLate
	}
	return ifNot
}

func (w world) check(t *testing.T) {
	require.LessOrEqual(t, w.guards, 1, "an id becomes a guard at most once")
	require.GreaterOrEqual(t, w.life.flying, 0)
	require.GreaterOrEqual(t, w.life.abandoned, 0)
	if w.life.phase == held {
		require.Equal(t, 1, w.guards)
	}
	// Quiet: the client is done, every reply and every Release has come to its end.
	if w.life.phase != burnt || w.calls.inflight > 0 || w.life.abandoned > 0 {
		return
	}
	pending := false // an Acquire whose reply is lost but which the server may still execute
	for _, f := range w.fate {
		pending = pending || f.sent && !f.executed
	}
	if !pending && w.row == ours {
		require.True(t, w.lateRow, "rule 11: a row was left behind by an id that is given up: %+v", w)
	}
}

// TestLifeInterleavings walks every reachable interleaving of up to three Acquires of one id, their executions, lost
// and late replies, abandonments, loss, burning and the Releases that follow.
func TestLifeInterleavings(t *testing.T) {
	seen := map[world]bool{}
	next := []world{{}}
	for len(next) > 0 {
		w := next[len(next)-1]
		next = next[:len(next)-1]
		if seen[w] {
			continue
		}
		seen[w] = true
		w.check(t)
		for _, s := range w.steps(t) {
			if !seen[s.next] {
				next = append(next, s.next)
			}
		}
	}
	t.Logf("%d states", len(seen))
	require.Greater(t, len(seen), 10_000, "the walk must reach the rare states")
}

func TestLifeTable(t *testing.T) {
	for _, tc := range []struct {
		name   string
		events []event
		want   actions // of the last event
		phase  phase
	}{
		{"a grant becomes a guard", []event{sent, granted}, actions{guard: true}, held},
		{"a refusal leaves nothing", []event{sent, refused, burn}, actions{}, burnt},
		{"nothing was sent", []event{burn}, actions{}, burnt},
		{"an unclear attempt is cleaned up", []event{sent, unclear, burn}, actions{release: true}, burnt},
		{"an abandoned attempt is cleaned up now, not only when it returns", []event{sent, abandoned, burn}, actions{release: true}, burnt},
		{"a later refusal resolves nothing", []event{sent, unclear, sent, refused, burn}, actions{release: true}, burnt},
		{"unlock releases", []event{sent, granted, burn}, actions{release: true}, burnt},
		{"loss does not", []event{sent, granted, lose}, actions{}, lost},
		{"unlock after loss does", []event{sent, granted, lose, burn}, actions{release: true}, burnt},
		{"late grant of a burnt id", []event{sent, abandoned, burn, lateGranted}, actions{release: true}, burnt},
		{"late grant of a wanted id waits for the next try", []event{sent, abandoned, lateGranted}, actions{}, wanted},
		{"late grant under a guard", []event{sent, abandoned, sent, granted, lateGranted}, actions{}, held},
		{"late grant under lost work", []event{sent, abandoned, sent, granted, lose, lateGranted}, actions{}, lost},
		{"late grant after unlock", []event{sent, abandoned, sent, granted, burn, lateGranted}, actions{release: true}, burnt},
		{"late refusal of a burnt id", []event{sent, abandoned, burn, lateRefused}, actions{}, burnt},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var l life
			var do actions
			for _, e := range tc.events {
				l, do = l.on(e)
			}
			require.Equal(t, tc.want, do)
			require.Equal(t, tc.phase, l.phase)
		})
	}
	t.Run("a burnt id is never sent again", func(t *testing.T) {
		l, _ := life{}.on(burn)
		require.Panics(t, func() { l.on(sent) })
	})
}
