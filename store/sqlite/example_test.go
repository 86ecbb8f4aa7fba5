package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/sqlite"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	leases, err := sqlite.Open(filepath.Join(dir, "leases.db"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer leases.Close()

	ctx := context.Background()
	mine := store.Claim{Name: "nightly-report", Owner: store.NewOwner("host:1"), TTL: 30 * time.Second}
	lease, err := leases.Acquire(ctx, mine)
	fmt.Println(lease.Name, err)

	theirs := store.Claim{Name: "nightly-report", Owner: store.NewOwner("host:2"), TTL: 30 * time.Second}
	_, err = leases.Acquire(ctx, theirs)
	fmt.Println("held:", errors.Is(err, store.ErrHeld))

	results, err := leases.Release(ctx, []store.Claim{mine})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("released:", results[0].Err == nil)
	// Output:
	// nightly-report <nil>
	// held: true
	// released: true
}
