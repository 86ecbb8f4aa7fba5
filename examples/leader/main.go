// Command leader elects one leader among any number of processes: whoever holds the lock leads, the others stand by.
// Run it in two terminals, stop the leader with ^C or kill -9, and watch the other take over.
//
//	go run ./examples/leader
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store/sqlite"
)

func main() {
	path := flag.String("db", filepath.Join(os.TempDir(), "leasehold-leader.db"), "SQLite file of the lock")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *path)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "leader:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, path string) error {
	st, err := sqlite.Open(path)
	if err != nil {
		return err
	}
	defer st.Close()
	locks, err := mutex.New(st, mutex.Config{
		TTL: 3 * time.Second,
		Hooks: mutex.Hooks{
			Waiting: func(e mutex.Event) { fmt.Println("standing by:", e.Err) },
		},
	})
	if err != nil {
		return err
	}

	for {
		// Do returns when lead does, and says if the lock was lost meanwhile; then we stand for election again.
		err := locks.Do(ctx, "leader", lead)
		switch {
		case ctx.Err() != nil:
			fmt.Println("stepped down")
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			return locks.Close(closing)
		case errors.Is(err, mutex.ErrLost):
			fmt.Println("lost the lead:", err)
		case err != nil:
			return err // misconfigured, or lead itself failed
		}
	}
}

// lead does what only the leader may do, until its context ends.
func lead(ctx context.Context) error {
	guard, _ := mutex.FromContext(ctx, "leader")
	fmt.Printf("process %d leads, term %d\n", os.Getpid(), guard.Token())
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			fmt.Printf("process %d still leads\n", os.Getpid())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
