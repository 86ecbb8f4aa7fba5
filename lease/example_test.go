package lease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aaravsoft/leasehold/lease"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/memory"
)

var ctx = context.Background()

// The loop of the .NET package: acquire, work in pieces, renew between them, release.
func Example() {
	st := memory.New() // or that of package mssql

	work, err := lease.New(st, "invoice-batch", "host-1:4711", 30*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := work.TryAcquire(ctx); err != nil {
		fmt.Println("not now:", err) // with a *store.HeldError: who has it, and for how long
		return
	}
	defer func() { _ = work.TryRelease(ctx) }() // if it fails, the row expires

	for piece := range 3 {
		fmt.Println("piece", piece)

		err := work.TryRenew(ctx)
		if errors.Is(err, store.ErrLost) {
			fmt.Println("stop:", err)
			return
		}
		if err != nil && work.Remaining() < 10*time.Second {
			fmt.Println("stop, the store does not answer:", err)
			return
		}
	}
	// Output:
	// piece 0
	// piece 1
	// piece 2
}

func ExampleNew() {
	_, err := lease.New(memory.New(), "", "me", 48*time.Hour)
	fmt.Println(errors.Is(err, store.ErrInvalid))
	fmt.Println(err)
	// Output:
	// true
	// invalid name: it must not be empty
	// invalid TTL 48h0m0s: it must be a whole number of milliseconds from 1ms to 24h0m0s
}

func ExampleLease_TryAcquire() {
	st := memory.New()
	a, _ := lease.New(st, "job", "a", time.Minute, lease.WithMetadata("nightly run"))
	b, _ := lease.New(st, "job", "b", time.Minute)

	fmt.Println(a.TryAcquire(ctx))

	err := b.TryAcquire(ctx)
	fmt.Println(errors.Is(err, store.ErrHeld))
	if held, ok := errors.AsType[*store.HeldError](err); ok {
		who, _, _ := strings.Cut(held.Lease.Owner, "/")
		fmt.Printf("held by %s for %s: %s\n", who, held.Lease.Left.Round(time.Second), held.Lease.Metadata)
	}
	// Output:
	// <nil>
	// true
	// held by a for 1m0s: nightly run
}

func ExampleLease_TryRenew() {
	st := memory.New()
	a, _ := lease.New(st, "job", "a", time.Minute)
	fmt.Println(errors.Is(a.TryRenew(ctx), store.ErrLost), "before it was acquired")

	_ = a.TryAcquire(ctx)
	fmt.Println(a.TryRenew(ctx))

	st.Step(time.Hour) // the database fails over to a server whose clock is ahead
	fmt.Println(errors.Is(a.TryRenew(ctx), store.ErrLost), "after it had expired")
	// Output:
	// true before it was acquired
	// <nil>
	// true after it had expired
}

func ExampleLease_TryRelease() {
	st := memory.New()
	a, _ := lease.New(st, "job", "a", time.Minute)
	_ = a.TryAcquire(ctx)

	ended, cancel := context.WithCancel(ctx)
	cancel()
	fmt.Println(a.TryRelease(ended)) // it is sent all the same
	fmt.Println(errors.Is(a.TryRelease(ended), store.ErrLost))
	// Output:
	// <nil>
	// true
}

func ExampleLease_Remaining() {
	a, _ := lease.New(memory.New(), "job", "a", time.Minute)
	fmt.Println(a.Remaining())
	_ = a.TryAcquire(ctx)
	fmt.Println(a.Remaining().Round(time.Second)) // the TTL less a tenth
	_ = a.TryRelease(ctx)
	fmt.Println(a.Remaining())
	// Output:
	// 0s
	// 54s
	// 0s
}

// Token lets the resource refuse a holder that was overtaken.
func ExampleLease_Token() {
	st := memory.New()
	a, _ := lease.New(st, "job", "a", time.Minute)
	b, _ := lease.New(st, "job", "b", time.Minute)
	_ = a.TryAcquire(ctx)
	_ = a.TryRenew(ctx)
	st.Step(time.Hour)
	_ = b.TryAcquire(ctx)
	fmt.Println(b.Token() > a.Token())
	// Output:
	// true
}

// With an exact owner a restarted process enters its old row, and so does any other process with this id.
func ExampleWithExactOwner() {
	st := memory.New()
	before, _ := lease.New(st, "job", "host-1", time.Minute, lease.WithExactOwner())
	fmt.Println(before.TryAcquire(ctx), before.Owner())

	after, _ := lease.New(st, "job", "host-1", time.Minute, lease.WithExactOwner())
	fmt.Println(after.TryAcquire(ctx), after.Owner())
	// Output:
	// <nil> host-1
	// <nil> host-1
}
