package mutex_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store/memory"
)

func newClient() *mutex.Client {
	locks, err := mutex.New(memory.New(), mutex.Config{Instance: "example"})
	if err != nil {
		log.Fatal(err)
	}
	return locks
}

func ExampleNew() {
	_, err := mutex.New(memory.New(), mutex.Config{TTL: 3 * time.Second, Renew: 3 * time.Second})
	fmt.Println(errors.Is(err, mutex.ErrInvalid))
	fmt.Println(err)
	// Output:
	// true
	// mutex: invalid Config: a renewal has no chance to be repeated: TTL 3s − Margin 300ms = 2.7s must not be less than 1.1 × Renew 3s + one attempt 900ms; Renew may be 1.636s at most
}

func ExampleClient_Lock() {
	locks := newClient()
	guard, err := locks.Lock(context.Background(), "invoice-batch")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer guard.Unlock()

	work := func(ctx context.Context) error { return ctx.Err() }
	if err := work(guard.Context()); err != nil {
		fmt.Println("work failed:", err)
	}
	if lost := guard.Err(); errors.Is(lost, mutex.ErrLost) {
		fmt.Println("somebody else may have begun:", lost)
		return
	}
	fmt.Println("done under the lock")
	// Output: done under the lock
}

func ExampleClient_TryLock() {
	locks := newClient()
	first, err := locks.TryLock(context.Background(), "job", mutex.WithMetadata("nightly run"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer first.Unlock()

	_, err = locks.TryLock(context.Background(), "job")
	if held, ok := errors.AsType[*mutex.HeldError](err); ok {
		fmt.Println("held by us:", held.Lease.Owner == first.Owner())
		fmt.Println("note:", held.Lease.Metadata)
	}
	// Output:
	// held by us: true
	// note: nightly run
}

func ExampleClient_Do() {
	locks := newClient()
	err := locks.Do(context.Background(), "job", func(ctx context.Context) error {
		guard, _ := mutex.FromContext(ctx, "job")
		fmt.Println("token is positive:", guard.Token() > 0)
		return nil
	})
	fmt.Println(err)
	// Output:
	// token is positive: true
	// <nil>
}

func ExampleClient_Close() {
	locks := newClient()
	guard, err := locks.Lock(context.Background(), "job")
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() {
		<-guard.Context().Done() // asked to stop
		guard.Unlock()
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	fmt.Println(locks.Close(ctx))
	_, err = locks.Lock(context.Background(), "job")
	fmt.Println(errors.Is(err, mutex.ErrClosed))
	// Output:
	// <nil>
	// true
}

func ExampleWithWait() {
	locks := newClient()
	guard, err := locks.Lock(context.Background(), "job")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer guard.Unlock()
	_, err = locks.Lock(context.Background(), "job", mutex.WithWait(10*time.Millisecond))
	fmt.Println(errors.Is(err, mutex.ErrHeld), errors.Is(err, context.DeadlineExceeded))
	// Output: true false
}

func ExampleWithParent() {
	locks := newClient()
	// The wait ends with the signal, the work does not.
	signal, stop := context.WithCancel(context.Background())
	defer stop()
	guard, err := locks.Lock(signal, "job", mutex.WithParent(context.Background()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer guard.Unlock()
	stop()
	fmt.Println(guard.Context().Err())
	// Output: <nil>
}

func ExampleSetDefault() {
	mutex.SetDefault(newClient())
	defer mutex.SetDefault(nil)
	guard, err := mutex.Lock(context.Background(), "job")
	fmt.Println(guard.Name(), err)
	fmt.Println(guard.Unlock())
	// Output:
	// job <nil>
	// <nil>
}

func ExampleFromContext() {
	locks := newClient()
	deepInside := func(ctx context.Context) {
		guard, ok := mutex.FromContext(ctx, "job")
		fmt.Println(ok, guard.Err())
	}
	_ = locks.Do(context.Background(), "job", func(ctx context.Context) error {
		deepInside(ctx)
		return nil
	})
	// Output: true <nil>
}
