package heartbeat

import (
	"errors"
	"time"

	"github.com/aaravsoft/leasehold/internal/bounded"
	"github.com/aaravsoft/leasehold/internal/clock"
	"github.com/aaravsoft/leasehold/store"
)

// run asks the targets of a round how much trust they have left, and sends them: each batch by itself.
func (s *Scheduler) run(r round) {
	asks := s.ask(r.entries)
	var over []answer
	hopeful := asks[:0]
	for _, a := range asks {
		if a.left <= 0 {
			over = append(over, answer{entry: a.entry})
		} else {
			hopeful = append(hopeful, a)
		}
	}
	if len(over) > 0 {
		s.mu.Lock()
		s.plan.answer(boot(s.clk()), 0, unsent, over)
		s.turn()
		s.mu.Unlock()
	}
	for _, b := range batches(hopeful, r.pieces) {
		s.running.Go(func() { s.send(b) })
	}
}

// ask finds out what trust is left, and drops the targets that have leaked.
func (s *Scheduler) ask(entries []*entry) []ask {
	asks := make([]ask, 0, len(entries))
	for _, e := range entries {
		switch {
		case e.gone.Load():
		case e.target.Leaked():
			s.Remove(e.target)
		default:
			asks = append(asks, ask{e, s.clk().Until(e.target.Deadline())})
		}
	}
	return asks
}

// attempt is one call, from its send to its answer.
type attempt struct {
	entries []*entry
	sent    clock.Instant
}

func (s *Scheduler) send(b batch) {
	a := attempt{entries: make([]*entry, 0, len(b.entries))}
	claims := make([]store.Claim, 0, len(b.entries))
	for _, e := range b.entries {
		if !e.gone.Load() {
			a.entries = append(a.entries, e)
			claims = append(claims, e.claim)
		}
	}
	if len(claims) == 0 {
		return
	}
	told := make(chan struct{})
	defer close(told)
	a.sent = s.clk() // trust counts from before the send
	results, err := s.calls.Renew(s.ctx, b.limit, claims, func(results []store.Result, err error) {
		<-told // the targets hear that it was abandoned before they hear what it says
		s.answered(a, late, results, err)
	})
	if errors.Is(err, bounded.ErrAbandoned) {
		s.answered(a, abandoned, nil, err)
	} else {
		s.answered(a, returned, results, err)
	}
}

// answered tells the targets and the plan what became of an attempt. Good news goes first: a success counts only if it is
// processed before the end of trust.
func (s *Scheduler) answered(a attempt, end ending, results []store.Result, err error) {
	answers := make([]answer, len(a.entries))
	var losses []int
	for i, e := range a.entries {
		answers[i].entry = e
		var rowErr error
		if err == nil {
			rowErr = results[i].Err
		}
		switch {
		case e.gone.Load():
		case err == nil && rowErr == nil:
			answers[i].verdict = renewed
			e.target.Renewed(a.sent, results[i].Lease)
		case err == nil && errors.Is(rowErr, store.ErrLost):
			answers[i].verdict = lost
			losses = append(losses, i)
		}
	}
	if end != late { // else they have heard of the failure when it was abandoned
		s.failures(answers, results, err)
	}

	s.mu.Lock()
	certain := losses[:0]
	for _, i := range losses {
		if e := a.entries[i]; !e.gone.Load() {
			certain = append(certain, i)
			s.drop(e)
		}
	}
	s.plan.answer(boot(s.clk()), boot(a.sent), end, answers)
	s.turn()
	s.mu.Unlock()

	for _, i := range certain {
		a.entries[i].target.Lost(results[i].Lease, results[i].Err)
	}
}

// failures fills in the answers of the targets that got none, and tells them.
func (s *Scheduler) failures(answers []answer, results []store.Result, err error) {
	// What was not even sent, no row can have held up.
	_, limited := errors.AsType[*bounded.LimitError](err)
	timedOut := limited && errors.Is(err, store.ErrUnclear)
	for i := range answers {
		a := &answers[i]
		if a.verdict != nothing || a.entry.gone.Load() {
			continue
		}
		cause := err
		if cause == nil {
			cause = results[i].Err
		}
		a.entry.target.Failed(cause)
		a.verdict = failed
		a.failure = failure{
			left:     s.clk().Until(a.entry.target.Deadline()),
			after:    retryAfter(cause),
			timedOut: timedOut,
		}
	}
}

// retryAfter is what the store asked for.
func retryAfter(err error) time.Duration {
	if unavailable, ok := errors.AsType[*store.UnavailableError](err); ok {
		return max(unavailable.RetryAfter, 0)
	}
	return 0
}
