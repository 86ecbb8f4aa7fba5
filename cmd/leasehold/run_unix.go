//go:build linux || darwin

package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aaravsoft/leasehold/internal/procgroup"
	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store"
)

const (
	closeLimit = 400 * time.Millisecond // for what is still to be cleaned up at the end
	lostLimit  = 100 * time.Millisecond // the same when the lock is lost, and the answer 79 should not be late
	hurryLimit = 2 * time.Second        // for a release after a second ^C
)

// The variables that a command finds in its environment.
const (
	nameVar  = "LEASEHOLD_NAME"
	ownerVar = "LEASEHOLD_OWNER"
	tokenVar = "LEASEHOLD_TOKEN"
	heldVar  = "LEASEHOLD_HELD"
)

// timing of a lease, as the library would choose it. It is given to the library so that both cannot differ.
type timing struct{ ttl, renew, margin time.Duration }

func timingFor(ttl time.Duration) timing {
	return timing{ttl: ttl, renew: min(ttl/3, time.Minute), margin: max(ttl/10, 50*time.Millisecond)}
}

// warning is how long before the end of trust the command is asked to stop at the earliest: half of what is left for
// failed renewals.
func (t timing) warning() time.Duration { return (t.ttl - t.margin - t.renew) / 2 }

// runOrder takes the lock, runs the command and gives the lock back.
func (a *app) runOrder(ctx context.Context, o order) error {
	signals, stop := listen(ctx)
	defer stop()
	st, err := a.open()
	if err != nil {
		return err
	}
	r := &runner{app: a, order: o, timing: timingFor(o.ttl), signals: signals, nested: a.env.held()}
	r.client, err = mutex.New(st, mutex.Config{
		TTL: r.timing.ttl, Renew: r.timing.renew, Margin: r.timing.margin,
		Instance: o.instance, Hooks: r.hooks(),
	})
	if err != nil {
		_ = st.Close()
		return err
	}
	r.closeLimit = closeLimit
	err = r.run()
	if stuck := r.close(); stuck != nil {
		r.notices.fault("the store does not answer: if it has a row of this run, that expires within %s", span(o.ttl))
		r.notices.detail("%v", stuck)
		return err // calls are stuck in the store, and would stick its Close too
	}
	_ = st.Close()
	return err
}

// forwarded are the signals that the command gets as the tool gets them.
var forwarded = []os.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH,
}

// fatal are those of them that end the tool while it waits.
func fatal(sig os.Signal) bool { return sig != unix.SIGWINCH }

// listen begins to receive signals. A HUP or INT that the tool's parent ignores (nohup, a shell's &) stays ignored, for the
// command too; Go keeps that for no other signal.
func listen(ctx context.Context) (chan os.Signal, func()) {
	signals := make(chan os.Signal, 64)
	for _, sig := range forwarded {
		if !signal.Ignored(sig) {
			signal.Notify(signals, sig)
		}
	}
	// To write to a closed pipe must not end the tool, up to its last line, which may be written when run has returned.
	// Ignoring it would reach the command.
	broken := make(chan os.Signal, 1)
	if !signal.Ignored(unix.SIGPIPE) {
		signal.Notify(broken, unix.SIGPIPE)
	}
	stopCtx := context.AfterFunc(ctx, func() {
		select {
		case signals <- unix.SIGTERM:
		default: // there are enough
		}
	})
	return signals, func() {
		stopCtx()
		signal.Stop(signals)
	}
}

// runner is one execution of run.
type runner struct {
	*app
	order      order
	timing     timing
	signals    chan os.Signal
	nested     []string // owners of the enclosing runs
	client     *mutex.Client
	events     hookEvents
	closeLimit time.Duration
}

func (r *runner) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), r.closeLimit)
	defer cancel()
	return r.client.Close(ctx)
}

func (r *runner) run() error {
	guard, err := r.acquire()
	if err != nil {
		return err
	}
	defer guard.Unlock() // has happened, unless something panics
	group, err := procgroup.Start(r.order.grace)
	if err != nil {
		_ = guard.Unlock()
		return &exitError{codeSystem, err}
	}
	defer group.Close()
	j := newJob(r, guard, group)
	err = j.start()
	if err == nil {
		err = j.attend()
	}
	group.Close() // before the release: a command that did not start leaves a supervisor
	return j.release(err)
}

// childEnv is the environment of the command.
func (r *runner) childEnv(g *mutex.Guard) []string {
	env := r.env.without(passwordVar) // what it does not find
	if target, named := env.lookup(storeVar); named {
		env = env.without(storeVar)
		if safe, ok := withoutPassword(target); ok {
			env = env.with(storeVar, safe)
		}
	}
	return env.
		with(nameVar, g.Name()).
		with(ownerVar, g.Owner()).
		with(tokenVar, strconv.FormatUint(g.Token(), 10)).
		with(heldVar, strings.Join(append(slices.Clone(r.nested), g.Owner()), "\n"))
}

// held returns the owners of the runs around this one.
func (e environ) held() []string {
	value, _ := e.lookup(heldVar)
	return strings.FieldsFunc(value, func(r rune) bool { return r == '\n' })
}

// inside reports whether an error says that an enclosing run holds the lock: to wait for it would never end.
func (r *runner) inside(err error) bool {
	held, ok := errors.AsType[*store.HeldError](err)
	return ok && slices.Contains(r.nested, held.Lease.Owner)
}

// files are the descriptors that the command gets. They are not taken from File.Fd, which may change the mode of a
// stream that is shared with others.
func (a *app) files() ([]uintptr, error) {
	var fds []uintptr
	for _, f := range []*os.File{a.stdin, a.stdout, a.stderr} {
		raw, err := f.SyscallConn()
		if err == nil {
			err = raw.Control(func(fd uintptr) { fds = append(fds, fd) })
		}
		if err != nil {
			return nil, err
		}
	}
	return fds, nil
}

// asSignal is what it was all the time.
func asSignal(sig os.Signal) syscall.Signal {
	s, _ := sig.(syscall.Signal)
	return s
}
