// Package invoice is code of a user that needs a lock, and its unit test shows how to test such code: on the memory
// store, in fake time.
package invoice

import (
	"context"
	"fmt"
	"time"

	"github.com/aaravsoft/leasehold/mutex"
)

// Batch sends the invoices of one customer, one instance at a time.
type Batch struct {
	Locks *mutex.Client
	Send  func(ctx context.Context, number int) error
}

// Run sends count invoices, and stops between two of them when it may not go on.
func (b *Batch) Run(ctx context.Context, customer string, count int) (sent int, err error) {
	err = b.Locks.Do(ctx, "invoices/"+customer, func(ctx context.Context) error {
		for ; sent < count; sent++ {
			if ctx.Err() != nil {
				return fmt.Errorf("stopped after %d of %d: %w", sent, count, context.Cause(ctx))
			}
			if err := b.Send(ctx, sent+1); err != nil {
				return err
			}
		}
		return nil
	}, mutex.WithWait(10*time.Second), mutex.WithMetadata("invoice batch"))
	return sent, err
}
