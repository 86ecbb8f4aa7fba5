// Package unclassed takes the class from an error that is only quoted.
//
// An error is of exactly one class. The cause of a context, or the engine's error inside a loss, may be of a class of its own: the
// loss of a lock around this one, say. What it says is kept, and what it is must not be taken for what the quoting error is.
package unclassed

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/aaravsoft/leasehold/store"
)

// Error returns err without its class. Everything else in it stays reachable by errors.Is and errors.As.
func Error(err error) error {
	if err == nil || !classed(err) {
		return err
	}
	return quoted{err}
}

// Ended is what a context says that has ended: its error, and its cause if that is another one (the cause that
// signal.NotifyContext sets is not Canceled).
func Ended(err, cause error) error {
	if cause == nil || errors.Is(err, cause) {
		return err
	}
	if errors.Is(cause, err) {
		return Error(cause)
	}
	return fmt.Errorf("%w: %w", err, Error(cause))
}

type quoted struct{ err error }

func (q quoted) Error() string { return q.err.Error() }

func (q quoted) Is(target error) bool { return !isClass(target) && errors.Is(q.err, target) }

func (q quoted) As(target any) bool {
	if !errors.As(q.err, target) {
		return false
	}
	found := reflect.ValueOf(target).Elem()
	if err, ok := reflect.TypeAssert[error](found); ok && classed(err) {
		found.SetZero() // what carries a class is part of it
		return false
	}
	return true
}

func classed(err error) bool {
	for _, class := range classes() {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}

func isClass(target error) bool {
	for _, class := range classes() {
		if target == class { //nolint:errorlint // a sentinel, asked for by name
			return true
		}
	}
	return false
}

func classes() [7]error {
	return [...]error{
		store.ErrHeld, store.ErrLost, store.ErrUnavailable, store.ErrUnclear, store.ErrInvalid, store.ErrMisconfigured, store.ErrNotFound,
	}
}
