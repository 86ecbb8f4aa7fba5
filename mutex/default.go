package mutex

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/aaravsoft/leasehold/guard"
)

// defaultClient is the only state of a package in this module, as slog's default logger is of slog.
var defaultClient atomic.Pointer[Client]

// SetDefault makes c the client of the package-level [Lock], [TryLock] and [Do]. Nil takes it away.
func SetDefault(c *Client) { defaultClient.Store(c) }

// Default returns the client given to [SetDefault], or nil.
func Default() *Client { return defaultClient.Load() }

// Lock calls [Client.Lock] of the default client; without one the error is [ErrNoDefault].
func Lock(ctx context.Context, name string, opts ...Option) (*Guard, error) {
	if c := Default(); c != nil {
		return c.Lock(ctx, name, opts...)
	}
	return nil, fmt.Errorf("mutex: lock %q: %w", name, ErrNoDefault)
}

// TryLock calls [Client.TryLock] of the default client; without one the error is [ErrNoDefault].
func TryLock(ctx context.Context, name string, opts ...Option) (*Guard, error) {
	if c := Default(); c != nil {
		return c.TryLock(ctx, name, opts...)
	}
	return nil, fmt.Errorf("mutex: lock %q: %w", name, ErrNoDefault)
}

// Do calls [Client.Do] of the default client; without one the error is [ErrNoDefault].
func Do(ctx context.Context, name string, fn func(context.Context) error, opts ...Option) error {
	if c := Default(); c != nil {
		return c.Do(ctx, name, fn, opts...)
	}
	return fmt.Errorf("mutex: lock %q: %w", name, ErrNoDefault)
}

// FromContext returns the innermost guard of that name that ctx carries: ctx is, or derives from, the guard's context.
// Code deep in a call can so ask for the token, or whether the lock is still held.
func FromContext(ctx context.Context, name string) (*Guard, bool) {
	return guard.FromContext(ctx, name)
}
