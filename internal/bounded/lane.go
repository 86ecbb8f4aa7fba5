package bounded

import (
	"context"
	"slices"
	"sync"
)

// lane counts the calls of one kind, and makes new ones wait while too many are abandoned. Its zero value is empty.
type lane struct {
	strict bool // the limit holds at any time

	mu        sync.Mutex
	flying    int             // calls whose caller waits for the answer
	abandoned int             // calls whose caller has left
	waiting   []chan struct{} // callers that wait for a place, first come first served; closed when it is theirs
}

// hasPlace: as long as the store answers there is no limit. Once a call was abandoned, those in flight may be next, and
// count as if they were: otherwise all waiting callers would start together as soon as one place is free.
func (l *lane) hasPlace() bool {
	return !l.strict && l.abandoned == 0 || l.abandoned+l.flying < Most
}

// enter waits for a place until ctx ends, and reports whether it got one.
func (l *lane) enter(ctx context.Context) bool {
	l.mu.Lock()
	if len(l.waiting) == 0 && l.hasPlace() {
		l.flying++
		l.mu.Unlock()
		return true
	}
	place := make(chan struct{})
	l.waiting = append(l.waiting, place)
	l.mu.Unlock()

	select {
	case <-place:
		return true
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, place); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	} else {
		l.flying-- // it was given just now
		l.admit()
	}
	return false
}

// answered: the store has answered its waiting caller.
func (l *lane) answered() { l.change(-1, 0) }

// abandon: the caller leaves.
func (l *lane) abandon() { l.change(-1, +1) }

// returned: an abandoned call is over.
func (l *lane) returned() { l.change(0, -1) }

func (l *lane) change(flying, abandoned int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying += flying
	l.abandoned += abandoned
	l.admit()
}

// admit gives free places to those who wait. Called with mu held.
func (l *lane) admit() {
	for len(l.waiting) > 0 && l.hasPlace() {
		l.flying++
		close(l.waiting[0])
		l.waiting = slices.Delete(l.waiting, 0, 1)
	}
}
