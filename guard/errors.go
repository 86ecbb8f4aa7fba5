package guard

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aaravsoft/leasehold/internal/unclassed"
	"github.com/aaravsoft/leasehold/store"
)

var (
	// ErrClosed ends the context of a guard whose client was closed.
	ErrClosed = errors.New("mutex client closed")

	// ErrUnlocked ends the context of a guard that was unlocked.
	ErrUnlocked = errors.New("unlocked")
)

// Reason is why a lock was lost.
type Reason uint8

// The reasons.
const (
	Unconfirmed Reason = iota + 1 // no renewal succeeded until trust ended
	Taken                         // the store says: somebody else has it
	Gone                          // the store says: expired, or deleted
	Suspended                     // the machine slept, or its clock was set forward, until trust ended
	Abandoned                     // renewals had stopped, after Drain or since the handle was dropped, until trust ended
)

func (r Reason) String() string {
	switch r {
	case Unconfirmed:
		return "unconfirmed"
	case Taken:
		return "taken"
	case Gone:
		return "gone"
	case Suspended:
		return "suspended"
	case Abandoned:
		return "abandoned"
	}
	return "unknown"
}

// explanation is Reason for an error's text.
func (r Reason) explanation() string {
	switch r {
	case Unconfirmed:
		return "no renewal was confirmed in time"
	case Taken:
		return "somebody else holds it"
	case Gone:
		return "its row has expired or was deleted"
	case Suspended:
		return "the machine was suspended, or its clock set forward, for longer than the lease"
	case Abandoned:
		return "it was no longer renewed"
	}
	return "for an unknown reason"
}

// LostError says why a lock was lost. Its class is [store.ErrLost] alone: errors.Is and errors.As find the engine's own error,
// but not the class and the type that the store gave it.
type LostError struct {
	Name, Owner   string
	Reason        Reason
	Since         time.Time // when trust ended, or the store said so, on this machine's wall clock
	LastConfirmed time.Time // when the last request that succeeded was sent
	Attempts      int       // renewals that failed since then
	Err           error     // of the last of them, or the store's answer; may be nil
}

func (e *LostError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "lock %q lost: %s (since %s, last confirmed %s", e.Name, e.Reason.explanation(),
		e.Since.Format(time.RFC3339Nano), e.LastConfirmed.Format(time.RFC3339Nano))
	if e.Attempts > 0 {
		fmt.Fprintf(&b, ", failed attempts since: %d", e.Attempts)
	}
	b.WriteString(")")
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Is makes a LostError of class [store.ErrLost].
func (e *LostError) Is(target error) bool { return target == store.ErrLost }

// Unwrap returns Err without its class: a lost lock is lost, not unavailable.
func (e *LostError) Unwrap() error {
	return unclassed.Error(e.Err)
}
