package mssql

import (
	"context"
	"database/sql"
	"sync"
	"time"
)

const (
	sweepEvery = 30 * time.Second
	sweepMost  = 200
	sweepLimit = 10 * time.Second
)

// sweeping is what the Store knows of its sweeps: one at most runs.
type sweeping struct {
	mu      sync.Mutex
	next    time.Time
	cancel  context.CancelFunc // of the one that runs; nil if none does
	stopped bool
	wait    sync.WaitGroup
}

// stop ends the sweep that runs, and lets no other begin.
func (s *sweeping) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	if s.cancel != nil {
		s.cancel()
	}
}

func (s *sweeping) end(cancel context.CancelFunc) {
	cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel = nil
}

// sweepSoon deletes rows that nobody will ask for again, behind the back of an acquisition that has been answered. Its
// failure is nobody's failure. The goroutine is joined by Close.
func (s *Store) sweepSoon() {
	w := &s.sweeping
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || w.cancel != nil || now.Before(w.next) {
		return
	}
	select {
	case s.pool.share <- struct{}{}:
	default:
		return // there is no connection to spare: the next acquisition may do it
	}
	w.next = now.Add(sweepEvery)
	ctx, cancel := context.WithTimeout(context.Background(), sweepLimit)
	w.cancel = cancel
	w.wait.Go(func() {
		defer w.end(cancel)
		defer func() { <-s.pool.share }()
		_ = s.pool.query(ctx, call{op: "sweep", sql: s.sql.sweep.within(0), args: []any{sweepMost}},
			func() {}, func(rows *sql.Rows) error { return nil })
	})
}
