//go:build linux || darwin

package procgroup

import (
	"cmp"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// SIGCHLD says when to look; a poll stands behind it.
const (
	pollIdle      = time.Second
	pollLeftovers = 25 * time.Millisecond // members that are not our children end without a signal
	pollEndFirst  = time.Millisecond
	pollEndLast   = 50 * time.Millisecond
)

// phase is where a group is on its way: phases only advance.
type phase uint8

const (
	running   phase = iota // the command is to come, or runs
	leftovers              // the command has ended
	ending                 // the supervisor is dead, the group was sent SIGKILL
	draining               // no member lives, the supervisor was waited for
	gone
)

// waiter is the one goroutine that waits for children, and the only one that signals because of what it saw.
type waiter struct {
	g       *Group
	phase   phase
	pending []Event
	cause   error     // for Gone
	warned  bool      // leftovers: TERM was sent
	killAt  time.Time // leftovers: the end of their grace
	poll    time.Duration
	sigchld chan os.Signal
}

func newWaiter(g *Group) *waiter {
	w := &waiter{g: g, poll: pollEndFirst, sigchld: make(chan os.Signal, 1)}
	signal.Notify(w.sigchld, unix.SIGCHLD)
	return w
}

func (w *waiter) run() {
	g := w.g
	defer close(g.done)
	defer close(g.events)
	defer func() {
		g.feedMu.Lock()
		defer g.feedMu.Unlock()
		g.feed.Close()
	}()
	defer signal.Stop(w.sigchld)

	closed := g.closed
	for {
		again := w.look()
		if closed == nil {
			w.pending = nil
		}
		if w.phase == gone && len(w.pending) == 0 {
			return
		}
		var events chan<- Event
		var next Event
		if len(w.pending) > 0 {
			events, next = g.events, w.pending[0]
		}
		select {
		case events <- next:
			w.pending = w.pending[1:]
		case <-closed:
			closed = nil
		case <-w.sigchld:
		case <-g.wake:
		case <-time.After(again):
		}
	}
}

// look takes in what has happened and does what follows from it. It returns when to look again at the latest.
func (w *waiter) look() time.Duration {
	for w.phase <= leftovers && w.takeNews() {
	}
	again := pollIdle
	if w.phase == leftovers {
		again = w.clearLeftovers()
	}
	if w.phase == ending {
		again = w.finish()
	}
	if w.phase == draining {
		again = w.drain()
	}
	if w.phase != gone {
		reapOrphans(w.g.pid)
	}
	return again
}

// takeNews takes one change of one member's state; it returns false if there is none.
func (w *waiter) takeNews() bool {
	g := w.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.forking {
		return false // the pid of the command is not known yet; endExec wakes us
	}
	pid := news(g.pid, g.child)
	switch pid {
	case 0:
		return false
	case g.pid:
		if ended(g.pid) {
			w.supervisorDied()
			return false
		}
		// Somebody stopped the whole group with the one signal that the supervisor cannot ignore.
		takeStop(g.pid)
		_ = unix.Kill(g.pid, unix.SIGCONT)
		return true
	}
	got, status, err := wait(pid, unix.WNOHANG|unix.WUNTRACED)
	if err != nil || got == 0 {
		return false
	}
	if pid == g.child {
		w.childChanged(status)
	}
	return true
}

// supervisorDied kills the group. It is called with mu held and not while forking: every child that Exec started is in
// the group by now, and dying keeps others from following. The supervisor is a zombie, which keeps the group's number.
func (w *waiter) supervisorDied() {
	g := w.g
	g.dying = true
	w.phase = ending
	if !g.killed {
		w.cause = cmp.Or(g.pastDeadline(), ErrSupervisorDied)
	}
	_ = g.send(unix.SIGKILL)
}

// pastDeadline returns ErrDeadline or nil.
func (g *Group) pastDeadline() error {
	if BootClock() >= time.Duration(g.deadline.Load()) {
		return ErrDeadline
	}
	return nil
}

func (w *waiter) childChanged(status unix.WaitStatus) {
	switch {
	case status.Stopped():
		w.pending = append(w.pending, Event{Kind: Stopped, Signal: status.StopSignal()})
	case status.Signaled():
		w.childEnded(Event{Kind: Exited, Code: 128 + int(status.Signal()), Signal: status.Signal()})
	case status.Exited():
		w.childEnded(Event{Kind: Exited, Code: status.ExitStatus()})
	}
}

func (w *waiter) childEnded(e Event) {
	w.pending = append(w.pending, e)
	w.phase = max(w.phase, leftovers)
}

// clearLeftovers ends those who outlive the command, and then the supervisor.
func (w *waiter) clearLeftovers() time.Duration {
	g := w.g
	n, err := living(g.pid)
	switch {
	case n == 0 || err != nil: // if nobody can tell, a grace for nobody would delay every end
		w.cause = g.pastDeadline() // the supervisor may have killed them, and not be dead itself yet
		g.Kill()
		return pollLeftovers
	case !w.warned:
		w.warned = true
		w.killAt = time.Now().Add(g.grace)
		_ = g.Signal(unix.SIGTERM)
		_ = g.Signal(unix.SIGCONT) // a stopped process would not notice
	case !time.Now().Before(w.killAt):
		g.Kill()
	}
	return min(pollLeftovers, max(time.Until(w.killAt), pollEndFirst))
}

// finish waits until no member lives any more. Only then it waits for the supervisor, and frees the group's number.
func (w *waiter) finish() time.Duration {
	g := w.g
	// A failure to look is no reason to wait for ever: drain sees those who are our children.
	if n, err := living(g.pid); err == nil && n > 0 {
		return w.backOff()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	_, _, _ = wait(g.pid, 0)
	g.over = true
	w.phase = draining
	return 0
}

// drain waits for the zombies of the group.
func (w *waiter) drain() time.Duration {
	for {
		pid, status, err := waitMember(w.g.pid, w.g.child)
		switch {
		case err != nil: // ECHILD
			w.phase = gone
			w.pending = append(w.pending, Event{Kind: Gone, Err: w.cause})
			return pollIdle
		case pid == 0:
			return w.backOff()
		case pid == w.g.child:
			w.childChanged(status)
		}
	}
}

func (w *waiter) backOff() time.Duration {
	w.poll = min(2*w.poll, pollEndLast)
	return w.poll
}
