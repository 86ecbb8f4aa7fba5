package mutex

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aaravsoft/leasehold/store"
)

// Option changes one Lock, TryLock or Do.
type Option func(*options)

type options struct {
	ttl      time.Duration
	wait     time.Duration // negative: as long as the context allows
	maxHold  time.Duration // zero: none
	metadata string
	parent   context.Context // nil: the call's own
	errs     []error
}

// WithTTL sets the lease's time to live for this lock, 200 ms to 24 h, and scales the renewal interval and the margin with
// it, but not a Drain that Config sets. A TTL for which the relation of [Config] does not hold is [ErrInvalid].
func WithTTL(d time.Duration) Option {
	return func(o *options) {
		if d <= 0 {
			o.bad("WithTTL", d, "it must be positive")
			return
		}
		o.ttl = d
	}
}

// WithWait bounds the wait, and only the wait: unlike a deadline of the context it does not end the guard's context
// later. Zero is one attempt. When the wait is over the error is of class [ErrHeld], or [ErrUnavailable] if the
// store could not be asked.
func WithWait(d time.Duration) Option {
	return func(o *options) {
		if d < 0 {
			o.bad("WithWait", d, "it must not be negative")
			return
		}
		o.wait = d
	}
}

// WithMaxHold bounds how long the lock is held: after d the guard's context ends and Drain begins, so that stuck work
// does not keep the lock for ever. The name is free at the latest d + Drain + TTL after the grant.
func WithMaxHold(d time.Duration) Option {
	return func(o *options) {
		if d <= 0 {
			o.bad("WithMaxHold", d, "it must be positive")
			return
		}
		o.maxHold = d
	}
}

// WithMetadata leaves a note in the row, for people who look at it or wait for it: at most 1,024 UTF-16 units.
func WithMetadata(s string) Option { return func(o *options) { o.metadata = s } }

// WithParent derives the guard's context from parent; the call's own context then bounds only the wait. For "wait until
// SIGTERM, but finish the item that was begun".
func WithParent(parent context.Context) Option {
	return func(o *options) {
		if parent == nil {
			o.errs = append(o.errs, fmt.Errorf("%w WithParent: the context is nil", store.ErrInvalid))
			return
		}
		o.parent = parent
	}
}

func (o *options) bad(option string, d time.Duration, must string) {
	o.errs = append(o.errs, fmt.Errorf("%w %s: %v; %s", store.ErrInvalid, option, d, must))
}

// resolve fills o from the client's configuration and the options over it.
func (o *options) resolve(cfg Config, opts []Option) (timing, error) {
	*o = options{ttl: cfg.TTL, wait: -1}
	for _, opt := range opts {
		if opt != nil {
			opt(o)
		}
	}
	t := cfg.timing(o.ttl)
	if err := errors.Join(o.errs...); err != nil {
		return t, err
	}
	if t.ttl == cfg.TTL {
		return t, nil // New has checked it
	}
	return t, t.validate("WithTTL")
}
