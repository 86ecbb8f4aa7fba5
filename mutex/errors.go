package mutex

import (
	"context"
	"errors"
	"fmt"

	"github.com/aaravsoft/leasehold/guard"
	"github.com/aaravsoft/leasehold/internal/unclassed"
	"github.com/aaravsoft/leasehold/store"
)

// What callers meet, under one roof.
type (
	// Guard is a lock that is held: see [guard.Guard].
	Guard = guard.Guard
	// LostError says why a lock was lost, and since when: see [guard.LostError].
	LostError = guard.LostError
	// Reason is why a lock was lost: see [guard.Reason].
	Reason = guard.Reason
	// HeldError says who holds a lock, and until when: see [store.HeldError].
	HeldError = store.HeldError
	// UnavailableError says what could not be asked or answered: see [store.UnavailableError].
	UnavailableError = store.UnavailableError
	// MisconfiguredError says what must be set up differently: see [store.MisconfiguredError].
	MisconfiguredError = store.MisconfiguredError
)

// The classes, see package store. An error is exactly one of them, except that the error of a caller's ended context is
// joined with the class of what was waited for.
var (
	ErrHeld          = store.ErrHeld
	ErrLost          = store.ErrLost
	ErrUnavailable   = store.ErrUnavailable
	ErrInvalid       = store.ErrInvalid
	ErrMisconfigured = store.ErrMisconfigured

	// ErrUnclear refines ErrUnavailable: it may have happened all the same.
	ErrUnclear = store.ErrUnclear
)

var (
	// ErrClosed says that the client was closed. It ends the contexts of its guards and the waits of its callers.
	ErrClosed = guard.ErrClosed

	// ErrUnlocked says that the guard was unlocked.
	ErrUnlocked = guard.ErrUnlocked

	// ErrNested refines [ErrInvalid]: the caller's context already carries a guard of this name. Locks are not reentrant:
	// waiting would never end.
	ErrNested = fmt.Errorf("%w nested lock: the context carries a guard of this name, so waiting would never end; "+
		"work on under that guard, or pass a context without it", store.ErrInvalid)

	// ErrNotConfirmed refines [ErrUnavailable]: the primary has granted the lock, or renewed it, and the replicas of the store do
	// not show it, so it would not survive a failover. What was granted is given back.
	ErrNotConfirmed = errors.New("not confirmed by the replicas")

	// ErrNoDefault refines [ErrMisconfigured]: SetDefault was not called.
	ErrNoDefault = fmt.Errorf("%w: no default client: call mutex.SetDefault first", store.ErrMisconfigured)
)

// The causes that end a wait from this side. They are told by identity: the caller's context may have any cause, ErrClosed of
// another client too.
var (
	errWaitOver = errors.New("the wait is over")
	errClosing  = errors.New("the client is closing")
)

// contextError is what a context that has ended says, without the class of its cause: that may be the loss of a lock around
// this one.
func contextError(ctx context.Context) error {
	return unclassed.Ended(ctx.Err(), context.Cause(ctx))
}
