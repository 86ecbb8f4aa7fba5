package store

import (
	"errors"
	"fmt"
	"time"
)

// The classes. Every error of this module that concerns a lease is exactly one of them, by [errors.Is].
var (
	// ErrHeld: somebody else holds the name, validly. Details: [*HeldError].
	ErrHeld = errors.New("held by another owner")

	// ErrLost: this grant is over, definitely.
	ErrLost = errors.New("lease lost")

	// ErrUnavailable: the store could not be asked, or did not answer. Details: [*UnavailableError].
	ErrUnavailable = errors.New("store unavailable")

	// ErrInvalid: the input was wrong, and is wrong again next time.
	ErrInvalid = errors.New("invalid")

	// ErrMisconfigured: the store must be set up differently: schema, permission, login. Details:
	// [*MisconfiguredError].
	ErrMisconfigured = errors.New("store misconfigured")

	// ErrNotFound: there is no such row. Only an [Inspector] says so.
	ErrNotFound = errors.New("no such lease")
)

// ErrUnclear refines [ErrUnavailable]: the statement may have been applied, or may be applied later.
var ErrUnclear = errors.New("outcome unclear")

// HeldError says who holds a name and until when.
type HeldError struct {
	Lease Lease
}

func (e *HeldError) Error() string {
	l := e.Lease
	s := fmt.Sprintf("%q is held by %s", l.Name, l.Owner)
	if !l.Acquired.IsZero() {
		s += " since " + l.Acquired.UTC().Format(time.RFC3339)
	}
	if l.Left > 0 {
		s += fmt.Sprintf(", %s left", l.Left.Round(time.Millisecond))
	}
	if l.Metadata != "" {
		s += fmt.Sprintf(" (%q)", l.Metadata)
	}
	return s
}

// Is makes a HeldError of class [ErrHeld].
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// UnavailableError says what failed, and whether it may have been applied all the same.
type UnavailableError struct {
	Op         string        // what was tried, for people: "acquire", "renew", "release", …
	Unclear    bool          // the statement may have been applied, or may be applied later
	RetryAfter time.Duration // not before this long from now; zero if unknown
	Err        error         // the engine's or the context's own error
}

func (e *UnavailableError) Error() string {
	s := "store unavailable"
	if e.Op != "" {
		s += ": " + e.Op
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.Unclear {
		s += " (outcome unclear)"
	}
	return s
}

// Is makes an UnavailableError of class [ErrUnavailable], refined by [ErrUnclear] if it is unclear.
func (e *UnavailableError) Is(target error) bool {
	return target == ErrUnavailable || target == ErrUnclear && e.Unclear
}

func (e *UnavailableError) Unwrap() error { return e.Err }

// MisconfiguredError says what must be changed, and how.
type MisconfiguredError struct {
	Remedy string // a sentence for people: what is wrong and what to do about it
	Err    error  // the engine's own error, if there was one
}

func (e *MisconfiguredError) Error() string {
	s := "store misconfigured: " + e.Remedy
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is makes a MisconfiguredError of class [ErrMisconfigured].
func (e *MisconfiguredError) Is(target error) bool { return target == ErrMisconfigured }

func (e *MisconfiguredError) Unwrap() error { return e.Err }
