package guard

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/aaravsoft/leasehold/internal/unclassed"
	"github.com/aaravsoft/leasehold/store"
)

// Unlock ends the guard's context and gives the lock back. It works when all contexts around it have ended, and returns
// within the time that is left of the lease, at least 1 s and at most 5 s. Later calls wait for the first and repeat its
// answer; a nil guard's is nil, so that it can be deferred before the error of Lock is looked at.
//
// The answer is nil if the row was deleted while it was valid; a [*LostError] if it was not; of class
// [store.ErrUnavailable] if the store did not confirm it, with [store.ErrUnclear] if it may be deleted all the same; of class
// [store.ErrMisconfigured] if the store refused. A row that is not deleted expires by itself. Unlock of a lost guard returns
// the loss at once, and goes on in the background. It may be called by what the end of the context sets off.
func (g *Guard) Unlock() error {
	if g == nil {
		return nil
	}
	s := g.state
	owed, done := s.unlock()
	runtime.KeepAlive(g) // until its cleanup is stopped: an Unlock that begins is no leak
	if owed {
		s.settle()
	}
	<-done
	return s.answer // written before done was closed
}

// UnlockContext is Unlock, and ctx limits only how long the caller waits for the answer. The release goes on when it ends;
// the error is then the context's and its cause, joined with [store.ErrUnavailable] and [store.ErrUnclear], and a later Unlock
// tells the answer. A ctx that has ended already is allowed: the release is sent.
func (g *Guard) UnlockContext(ctx context.Context) error {
	if g == nil {
		return nil
	}
	s := g.state
	owed, done := s.unlock()
	runtime.KeepAlive(g)
	if owed {
		s.p.Keeper.Go(s.settle)
	}
	select {
	case <-done:
		return s.answer
	default:
	}
	select {
	case <-done:
		return s.answer
	case <-ctx.Done():
		ended := unclassed.Ended(ctx.Err(), context.Cause(ctx))
		return fmt.Errorf("unlock %q: %w", s.p.Name, &store.UnavailableError{Op: "release", Unclear: true, Err: ended})
	}
}

// unlock ends the guard, and reports whether this call is the one that is to settle it; done is closed when it is settled.
func (s *state) unlock() (owed bool, done <-chan struct{}) {
	_, do := s.enter()
	if s.unlocking != nil {
		s.mu.Unlock()
		s.perform(do)
		return false, s.unlocking
	}
	s.unlocking = make(chan struct{})
	was := s.phase
	if was != lost {
		s.timer.Stop()
		s.phase = unlocked
		s.cause = firstOf(s.cause, ErrUnlocked)
	}
	do.cause, do.stop = s.cause, true // also if it was lost: whoever noticed may not have come to it yet
	s.mu.Unlock()
	s.cleanup.Stop()
	// The context ends, and the heartbeat lets go, before the Release is sent: once the row is deleted somebody else may
	// hold the lock (rule 8).
	s.perform(do)
	if was == lost {
		s.answer = s.lost
		close(s.unlocking)
		s.p.Keeper.Go(func() {
			_, err := s.release()
			<-s.told // by whoever noticed the loss, perhaps only now
			s.p.Keeper.Released(err)
		})
		return false, s.unlocking
	}
	return true, s.unlocking
}

// settle releases the row, and publishes the first Unlock's answer.
func (s *state) settle() {
	lost, err := s.release()
	if lost != nil {
		s.mu.Lock()
		s.lost = lost
		s.mu.Unlock()
		s.p.Keeper.Lost(lost)
	}
	s.p.Keeper.Released(err)
	s.answer = err
	close(s.unlocking)
}

const (
	minPause = 25 * time.Millisecond
	maxPause = 400 * time.Millisecond
)

// release deletes the row, trying again while the store is unavailable, within its bound. Besides the answer it returns a loss
// that the store has told.
func (s *state) release() (lost *LostError, err error) {
	s.mu.Lock()
	left := s.left()
	s.mu.Unlock()
	bound, began := s.p.Keeper.ReleaseBound(left), time.Now()
	unclear := false // an earlier attempt may have deleted the row
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		res, err := s.p.Keeper.Release(bound - time.Since(began))
		if err == nil {
			err = res.Err
		}
		switch {
		case err == nil:
			return nil, nil
		case errors.Is(err, store.ErrLost):
			if unclear && left > 0 && res.Lease.Owner != s.p.Owner && !store.Disowned(res.Lease.Owner) {
				// It was valid when the first attempt was sent, and is gone now: that attempt has deleted it. A
				// row of ours would have been deleted by this one, after its expiry; one that was broken is still there.
				return nil, nil
			}
			lost := s.denied(res.Lease, err)
			return lost, lost
		case !errors.Is(err, store.ErrUnavailable):
			return nil, err // trying again would not help; the row expires
		}
		unclear = unclear || errors.Is(err, store.ErrUnclear)
		wait := max(pause/2+rand.N(pause/2), retryAfter(err))
		if wait >= bound-time.Since(began) {
			return nil, unconfirmed(err, unclear)
		}
		time.Sleep(wait)
	}
}

// denied is the loss that a Release has found out.
func (s *state) denied(row store.Lease, err error) *LostError {
	why := Gone
	if row.Owner != "" && row.Owner != s.p.Owner {
		why = Taken
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loss(s.p.Clock(), why, err)
}

// retryAfter is what the store asked for.
func retryAfter(err error) time.Duration {
	if unavailable, ok := errors.AsType[*store.UnavailableError](err); ok {
		return unavailable.RetryAfter
	}
	return 0
}

// unconfirmed is the last attempt's error, unclear if any attempt was.
func unconfirmed(err error, unclear bool) error {
	if !unclear || errors.Is(err, store.ErrUnclear) {
		return err
	}
	cause := err
	if u, ok := errors.AsType[*store.UnavailableError](err); ok {
		cause = u.Err
	}
	return &store.UnavailableError{Op: "release", Unclear: true, Err: cause}
}
