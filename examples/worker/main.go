// Command worker is a worker loop with a graceful shutdown: several processes work through one list, and a lock on
// a SQLite file makes sure that one at a time takes the next item. Run it twice at once:
//
//	go run ./examples/worker & go run ./examples/worker; wait
//
// The list is a plain file with a number in it, read, raised and written back without any protection of its own: if two
// processes were ever inside together, numbers would be handed out twice.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store/sqlite"
)

func main() {
	dir := flag.String("dir", filepath.Join(os.TempDir(), fmt.Sprint("leasehold-worker-", os.Getuid())), "folder of the lock file and the list, which goes on from run to run")
	items := flag.Int("items", 10, "how many items this process takes before it leaves")
	workers := flag.Int("workers", 2, "workers in this process")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *dir, *items, *workers)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string, items, workers int) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	st, err := sqlite.Open(filepath.Join(dir, "locks.db"))
	if err != nil {
		return err
	}
	defer st.Close()
	locks, err := mutex.New(st, mutex.Config{TTL: 5 * time.Second})
	if err != nil {
		return err
	}

	todo := make(chan struct{}, items)
	for range items {
		todo <- struct{}{}
	}
	close(todo)
	group, stopping := errgroup.WithContext(ctx)
	for n := range workers {
		group.Go(func() error {
			for range todo {
				// A signal ends the wait for the lock at once, but an item that was begun is finished: its
				// guard lives in the background context, so no signal reaches it.
				err := locks.Do(stopping, "list", func(ctx context.Context) error {
					return takeOne(ctx, filepath.Join(dir, "list"), n)
				}, mutex.WithParent(context.WithoutCancel(ctx)))
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = group.Wait()
	if errors.Is(err, context.Canceled) {
		fmt.Println("asked to stop: nothing is left half done")
		err = nil
	}

	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, locks.Close(closing))
}

// takeOne is the work that only one may do at a time.
func takeOne(ctx context.Context, list string, worker int) error {
	last, err := os.ReadFile(list)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	number := 0
	if text := strings.TrimSpace(string(last)); text != "" {
		if number, err = strconv.Atoi(text); err != nil {
			return err
		}
	}
	number++
	select { // the item takes a while
	case <-time.After(20 * time.Millisecond):
	case <-ctx.Done():
		return context.Cause(ctx) // the lock is lost: stop before anything is written
	}
	if err := os.WriteFile(list, []byte(strconv.Itoa(number)), 0o600); err != nil {
		return err
	}
	guard, _ := mutex.FromContext(ctx, "list")
	fmt.Printf("process %d, worker %d: did item %d (token %d)\n", os.Getpid(), worker, number, guard.Token())
	return nil
}
