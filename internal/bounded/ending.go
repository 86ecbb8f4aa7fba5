package bounded

import "sync"

// ending tells one who asked that the context of a call has ended before its answer came. The context that a store is given
// has its method OnEnd, for a wrapper of the store that has to know. It is the context.AfterFunc of the caller who waits
// for the answer anyway, and so costs nothing as long as the store answers.
type ending struct {
	mu      sync.Mutex
	over    bool
	watcher interface{ Ended() }
}

// OnEnd has w told when the context ends, once, on a goroutine of its own. If the answer comes before, w is not told. There
// can be one watcher a call.
func (e *ending) OnEnd(w interface{ Ended() }) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.watcher = w
	if e.over {
		go w.Ended()
	}
}

func (e *ending) tell() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	if e.watcher != nil {
		go e.watcher.Ended()
	}
}
