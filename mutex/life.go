package mutex

import "fmt"

// life is the life of one owner id (rule 6): wanted, then held, then burnt; or wanted, then burnt. It decides, from
// what happened to the Acquires that carried the id, when its reply may become a guard and when a Release is owed. It
// is pure: whoever owns it serialises the events and carries out the actions.
//
// The difficulty is the third answer. A statement whose reply is missing may have been applied, or may be applied
// later, so a Release can come too early for it. Hence a Release is owed twice: once when the id is burnt, and once
// more when a call that had been abandoned comes back. What executes after that lives one TTL, nobody can prevent it.
type life struct {
	phase     phase
	flying    int  // Acquires whose caller still waits for the answer
	abandoned int  // Acquires whose caller has left; the answer may still come
	unclear   bool // an Acquire may have been applied, or may be applied later, and no answer is to be expected
}

type phase uint8

const (
	wanted phase = iota // Acquires with this id may be sent
	held                // a reply became a guard
	lost                // burnt, but the work under the guard may still run: the row stays until Unlock
	burnt               // burnt, and nothing runs under it
)

type event uint8

const (
	sent        event = iota // an Acquire goes out
	granted                  // its reply: the row is this id's
	refused                  // its reply, or its failure: it did nothing, and will not
	unclear                  // it failed, and nobody knows
	abandoned                // its caller stopped waiting; late events follow
	lateGranted              // the three outcomes of an abandoned Acquire
	lateRefused
	lateUnclear
	lose // the guard is lost
	burn // the id is given up: Unlock, a cancelled wait, a grant that came too late
)

// actions is what an event asks for.
type actions struct {
	guard   bool // the reply becomes a guard
	release bool // a Release with this id is owed now
}

// on returns the life after an event, and what is to be done.
func (l life) on(e event) (life, actions) {
	switch e {
	case sent:
		if l.phase != wanted {
			panic("mutex: an owner id was sent again after it was " + l.phase.String())
		}
		l.flying++
	case granted:
		l.flying--
		l.phase = held // only a wanted id has flying Acquires: burn and lose come after the last was answered or abandoned
		return l, actions{guard: true}
	case refused:
		l.flying--
	case unclear:
		l.flying--
		l.unclear = true
	case abandoned:
		l.flying--
		l.abandoned++
	case lateGranted, lateUnclear:
		l.abandoned--
		switch l.phase {
		case wanted:
			l.unclear = true // burn will clean up
		case held, lost:
			// The row is this guard's, or will be released by its Unlock, which comes after this call has returned.
			// Releasing now would take the lock from running work (rule 8). What an unclear one does later
			// lives one TTL.
		case burnt:
			return l, actions{release: true}
		}
	case lateRefused:
		l.abandoned--
	case lose:
		if l.phase == held {
			l.phase = lost
		}
	case burn:
		was := l.phase
		l.phase = burnt
		// A held id's row is there. A wanted id's may be, or come, if any Acquire of it is unresolved, whatever
		// later ones were answered.
		return l, actions{release: was == held || was == lost || was == wanted && l.unresolved()}
	}
	return l, actions{}
}

// unresolved reports whether an Acquire may have been applied, or may be applied later.
func (l life) unresolved() bool { return l.unclear || l.abandoned > 0 }

func (p phase) String() string {
	switch p {
	case wanted:
		return "wanted"
	case held:
		return "held"
	case lost:
		return "lost"
	case burnt:
		return "burnt"
	}
	return fmt.Sprintf("phase(%d)", uint8(p))
}
