// Command handler is an HTTP service that runs one settlement at a time, over all of its instances:
//
//	go run ./examples/handler
//	curl -i -X POST localhost:8080/settle/42
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store/sqlite"
)

func main() {
	addr := flag.String("addr", "localhost:8080", "address to listen on")
	path := flag.String("db", filepath.Join(os.TempDir(), "leasehold-handler.db"), "SQLite file of the locks")
	flag.Parse()
	if err := run(*addr, *path); err != nil {
		log.Fatal(err)
	}
}

func run(addr, path string) error {
	st, err := sqlite.Open(path)
	if err != nil {
		return err
	}
	defer st.Close()
	locks, err := mutex.New(st, mutex.Config{})
	if err != nil {
		return err
	}

	server := &http.Server{Addr: addr, Handler: handler(locks), ReadHeaderTimeout: 5 * time.Second}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	closed := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		closed <- errors.Join(server.Shutdown(closing), locks.Close(closing))
	})
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-closed
}

func handler(locks *mutex.Client) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /settle/{invoice}", func(w http.ResponseWriter, r *http.Request) {
		invoice := r.PathValue("invoice")
		// The request's context scopes the lock: if the client hangs up, the work is told to stop. Waiting is
		// bounded apart, for a request should not queue for long.
		guard, err := locks.Lock(r.Context(), "settle/"+invoice, mutex.WithWait(time.Second))
		if err != nil {
			refuse(w, err)
			return
		}
		defer guard.Unlock()

		err = settle(guard.Context(), invoice, guard.Token())
		if lost := guard.Err(); errors.Is(lost, mutex.ErrLost) {
			refuse(w, lost) // whatever settle says: somebody else may have begun
			return
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(w, "invoice %s is settled\n", invoice)
	})
	return mux
}

// refuse keeps "busy" and "broken" apart: the first is the caller's to repeat, the second is ours to mend.
func refuse(w http.ResponseWriter, err error) {
	var held *mutex.HeldError
	switch {
	case errors.As(err, &held):
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(held.Lease.Left.Seconds())))))
		http.Error(w, "somebody else is settling this invoice", http.StatusConflict)
	case errors.Is(err, mutex.ErrInvalid):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.Is(err, mutex.ErrUnavailable), errors.Is(err, mutex.ErrLost), errors.Is(err, mutex.ErrClosed):
		w.Header().Set("Retry-After", "1")
		http.Error(w, "the lock service is not available", http.StatusServiceUnavailable)
	default:
		http.Error(w, "the lock service is not set up", http.StatusInternalServerError)
		log.Print(err)
	}
}

// settle is the work. The token goes along to whatever stores the result, which refuses a smaller one than it has seen.
func settle(ctx context.Context, invoice string, token uint64) error {
	log.Printf("settling invoice %s under token %d", invoice, token)
	select {
	case <-time.After(100 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
