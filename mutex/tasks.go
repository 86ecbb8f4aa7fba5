package mutex

import (
	"context"
	"sync"
)

// tasks owns the client's goroutines: those that clean up, release behind a lost guard, and deliver events. Unlike
// a sync.WaitGroup it may be waited for while new ones start, and waiting can end early.
type tasks struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed and replaced when n falls to zero; nil while nobody waits
}

// start runs f on a goroutine of its own.
func (t *tasks) start(f func()) {
	t.mu.Lock()
	t.n++
	t.mu.Unlock()
	go func() {
		defer t.end()
		f()
	}()
}

func (t *tasks) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n--; t.n == 0 && t.idle != nil {
		close(t.idle)
		t.idle = nil
	}
}

// wait returns when no task runs, or with the context's error.
func (t *tasks) wait(ctx context.Context) error {
	t.mu.Lock()
	if t.n == 0 {
		t.mu.Unlock()
		return nil
	}
	if t.idle == nil {
		t.idle = make(chan struct{})
	}
	idle := t.idle
	t.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
