package memory_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/memory"
)

func ExampleNew() {
	ctx := context.Background()
	st := memory.New()
	mine := store.Claim{Name: "invoices", Owner: "host-a:7/3f2a", TTL: time.Minute}
	yours := store.Claim{Name: "invoices", Owner: "host-b:9/81cc", TTL: time.Minute}

	lease, err := st.Acquire(ctx, mine)
	fmt.Println(lease.Name, "is held by", lease.Owner, err)

	_, err = st.Acquire(ctx, yours)
	fmt.Println(errors.Is(err, store.ErrHeld))

	results, err := st.Release(ctx, []store.Claim{mine})
	fmt.Println(results[0].Err, err)

	later, err := st.Acquire(ctx, yours)
	fmt.Println(later.Version > lease.Version, err)
	// Output:
	// invoices is held by host-a:7/3f2a <nil>
	// true
	// <nil> <nil>
	// true <nil>
}

func ExampleStore_Acquire() {
	ctx := context.Background()
	st := memory.New()
	_, _ = st.Acquire(ctx, store.Claim{Name: "invoices", Owner: "host-a:7/3f2a", TTL: time.Minute, Metadata: "nightly run"})

	_, err := st.Acquire(ctx, store.Claim{Name: "invoices", Owner: "host-b:9/81cc", TTL: time.Minute})
	if held, ok := errors.AsType[*store.HeldError](err); ok {
		fmt.Println("held by", held.Lease.Owner, "for at most", held.Lease.Left.Round(time.Second), "more:", held.Lease.Metadata)
	}
	// Output: held by host-a:7/3f2a for at most 1m0s more: nightly run
}

func ExampleStore_Renew() {
	ctx := context.Background()
	st := memory.New()
	mine := store.Claim{Name: "invoices", Owner: "host-a:7/3f2a", TTL: time.Minute}
	_, _ = st.Acquire(ctx, mine)

	stranger := store.Claim{Name: "invoices", Owner: "host-b:9/81cc", TTL: time.Minute}
	results, err := st.Renew(ctx, []store.Claim{mine, stranger})
	fmt.Println(err)
	for _, r := range results {
		fmt.Println(r.Lease.Owner, r.Err)
	}
	// Output:
	// <nil>
	// host-a:7/3f2a <nil>
	// host-a:7/3f2a lease lost: "invoices" belongs to host-a:7/3f2a
}

func ExampleStore_Release() {
	ctx := context.Background()
	st := memory.New()
	mine := store.Claim{Name: "invoices", Owner: "host-a:7/3f2a", TTL: time.Minute}
	_, _ = st.Acquire(ctx, mine)

	for range 2 {
		results, _ := st.Release(ctx, []store.Claim{mine})
		fmt.Println(results[0].Err)
	}
	// Output:
	// <nil>
	// lease lost: nobody holds "invoices"
}

// A failover to a node whose clock is 40 s ahead ends a lease of 30 s.
func ExampleStore_Step() {
	ctx := context.Background()
	st := memory.New()
	mine := store.Claim{Name: "invoices", Owner: "host-a:7/3f2a", TTL: 30 * time.Second}
	_, _ = st.Acquire(ctx, mine)

	st.Step(40 * time.Second)
	results, _ := st.Renew(ctx, []store.Claim{mine})
	fmt.Println(errors.Is(results[0].Err, store.ErrLost))
	// Output: true
}

func ExampleStore_Get() {
	ctx := context.Background()
	st := memory.New()
	_, _ = st.Acquire(ctx, store.Claim{Name: "invoices", Owner: "host-a:7/3f2a", TTL: time.Minute})

	lease, err := st.Get(ctx, "invoices")
	fmt.Println(lease.Owner, err)
	_, err = st.Get(ctx, "reports")
	fmt.Println(err)
	// Output:
	// host-a:7/3f2a <nil>
	// no such lease: "reports"
}

func ExampleStore_List() {
	ctx := context.Background()
	st := memory.New()
	for _, name := range []string{"reports/weekly", "invoices", "reports/daily"} {
		_, _ = st.Acquire(ctx, store.Claim{Name: name, Owner: "host-a:7/3f2a", TTL: time.Minute})
	}
	for lease, err := range st.List(ctx, "reports/") {
		fmt.Println(lease.Name, err)
	}
	// Output:
	// reports/daily <nil>
	// reports/weekly <nil>
}

func ExampleStore_Break() {
	ctx := context.Background()
	st := memory.New()
	mine := store.Claim{Name: "invoices", Owner: "host-a:7/3f2a", TTL: time.Minute}
	held, _ := st.Acquire(ctx, mine)

	broken, err := st.Break(ctx, "invoices", "host-a:7/3f2a")
	fmt.Println(broken.Expires.Equal(held.Expires), err)

	results, _ := st.Renew(ctx, []store.Claim{mine})
	fmt.Println("the holder has lost it:", errors.Is(results[0].Err, store.ErrLost))
	_, err = st.Acquire(ctx, store.Claim{Name: "invoices", Owner: "host-b:9/81cc", TTL: time.Minute})
	fmt.Println("nobody else enters yet:", errors.Is(err, store.ErrHeld))
	// Output:
	// true <nil>
	// the holder has lost it: true
	// nobody else enters yet: true
}
