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

// OnEnd has w told when the context ends, once, on a goroutine of its own. If the answer comes before, w is not told. There is
// room for one watcher a call: OnEnd reports whether w is it.
func (e *ending) OnEnd(w interface{ Ended() }) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.watcher != nil {
		return false
	}
	e.watcher = w
	if e.over {
		go w.Ended()
	}
	return true
}

func (e *ending) tell() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	if e.watcher != nil {
		go e.watcher.Ended()
	}
}
