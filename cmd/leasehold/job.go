//go:build linux || darwin

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aaravsoft/leasehold/internal/procgroup"
	"github.com/aaravsoft/leasehold/mutex"
)

const (
	lookInterval  = time.Second            // a poll behind all timers: they do not count the time of a suspend
	maxKillLead   = 100 * time.Millisecond // SIGKILL is sent so long before the end of trust
	leftoverAfter = 200 * time.Millisecond // from the command's end until processes that it left are worth a line
)

// job is a command that runs under a lock. One goroutine has it: [job.attend].
type job struct {
	*runner
	guard *mutex.Guard
	group *procgroup.Group
	tty   tty

	started bool             // the command did run
	exited  *procgroup.Event // the command has ended
	endedAt time.Time

	interrupts int            // how often INT came
	asked      syscall.Signal // the first signal that asked the command to end, with the grace from then
	askedAt    time.Time
	killedFor  syscall.Signal // the signal that led to SIGKILL

	feared   bool // trust was so near its end that TERM was sent: the run ends with 79, whatever the store says later
	fearedAt time.Time
	lost     error // the lock is lost, the group was sent SIGKILL
	toldLeft bool
}

func newJob(r *runner, guard *mutex.Guard, group *procgroup.Group) *job {
	return &job{runner: r, guard: guard, group: group, tty: tty{group: group}}
}

// start starts the command, if nobody has asked to end in the meantime. What comes from now on is forwarded.
func (j *job) start() error {
	if sig := j.pendingSignal(); sig != 0 {
		return exitWith(interrupted(sig))
	}
	files, err := j.files()
	if err == nil {
		err = j.feed()
	}
	if err == nil {
		j.hearShell() // before the command can run: a ^Z that stopped the tool alone would leave it running
		err = j.group.Exec(j.order.command, j.childEnv(j.guard), files)
	}
	if e, ok := errors.AsType[*procgroup.ExecError](err); ok {
		return &exitError{e.Code, fmt.Errorf("cannot run %w", err)}
	}
	if err != nil {
		return &exitError{codeSystem, fmt.Errorf("cannot run %s: %w", j.order.command[0], err)}
	}
	j.started = true
	j.notices.detail("%s is started", j.order.command[0])
	return nil
}

// feed tells the supervisor the end of trust. The boot clock is read first: what passes between the two readings makes
// the deadline earlier, never later.
func (j *job) feed() error {
	now := procgroup.BootClock()
	return j.group.Deadline(now + j.guard.Remaining())
}

// attend returns when no process of the group is left.
func (j *job) attend() error {
	defer j.tty.close()
	ended := j.guard.Context().Done()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(j.check())
		select {
		case e := <-j.group.Events():
			if e.Kind == procgroup.Gone {
				return j.verdict(e.Err)
			}
			j.heard(e)
		case sig := <-j.signals:
			j.signal(asSignal(sig))
		case <-ended:
			ended = nil
			j.lose(j.guard.Err())
		case <-j.events.renewed:
			_ = j.feed() // if the supervisor died, an event says so; else the old deadline is obeyed
		case <-timer.C:
			_ = j.feed() // it may have become earlier: a clock was set forward
		}
	}
}

// check does what is due, and returns when to look again at the latest. It looks at states, not at what has just
// happened, so it may be called at any time.
func (j *job) check() time.Duration {
	now := time.Now()
	next := lookInterval
	due := func(left time.Duration) bool {
		if left > 0 {
			next = min(next, left)
		}
		return left <= 0
	}
	grace := j.order.grace
	if j.asked != 0 && j.killedFor == 0 && due(grace-now.Sub(j.askedAt)) {
		j.notices.fault("the command has not ended within %s after %s: it is killed", span(grace), unix.SignalName(j.asked))
		j.kill(j.asked)
	}
	if j.exited != nil && !j.toldLeft && due(leftoverAfter-now.Sub(j.endedAt)) {
		j.toldLeft = true
		j.notices.tell("the command has ended, processes that it left have not: they are ended first, within %s", span(grace))
	}
	if j.tty.stopping && due(stopAfter-now.Sub(j.tty.stoppingSince)) {
		j.stopSelf()
	}
	if j.lost != nil {
		return next
	}
	warning := j.timing.warning()
	lead := min(warning/4, maxKillLead)
	trust := j.guard.Remaining()
	if !j.feared && due(trust-min(grace+lead, warning)) {
		j.fear(now)
	}
	// Not both times: if trust grows again after all, the grace counts.
	if j.feared && (due(trust-lead) || due(grace-now.Sub(j.fearedAt))) {
		j.group.Kill()
	}
	return max(next, time.Millisecond)
}

// fear asks the command to stop, because the lock may be lost soon.
func (j *job) fear(now time.Time) {
	j.feared, j.fearedAt = true, now
	why := "the store has not answered"
	if failure := j.events.failure.Load(); failure != nil {
		why = (*failure).Error()
	}
	j.notices.fault("%q could not be renewed for too long, the command is stopped before the lock is lost: %s", j.order.name, why)
	j.end(unix.SIGTERM)
}

// lose kills at once: somebody else may hold the lock soon, or holds it already.
func (j *job) lose(err error) {
	if j.lost != nil {
		return
	}
	j.lost = err
	j.group.Kill()
	j.notices.fault("the command is killed: %v", err)
}

// kill kills because of a signal.
func (j *job) kill(why syscall.Signal) {
	j.killedFor = why
	j.group.Kill()
}

// end sends a signal that is meant to end the group, also if it is stopped.
func (j *job) end(sig syscall.Signal) {
	_ = j.group.Signal(sig) // fails only if there is nobody left
	_ = j.group.Signal(unix.SIGCONT)
}

func (j *job) heard(e procgroup.Event) {
	switch e.Kind {
	case procgroup.Exited:
		j.exited, j.endedAt = &e, time.Now()
		j.tty.takeBack()
		j.notices.detail("%s has ended with code %d", j.order.command[0], e.Code)
	case procgroup.Stopped:
		j.stopped(e.Signal)
	case procgroup.Gone: // attend has taken it
	}
}

func (j *job) signal(sig syscall.Signal) {
	switch sig {
	case unix.SIGTSTP:
		j.suspend()
		return
	case unix.SIGCONT:
		j.resume()
		return
	case unix.SIGINT:
		j.interrupts++
		if j.interrupts > 1 {
			j.kill(sig)
			return
		}
	default:
	}
	j.notices.detail("%s is forwarded", unix.SignalName(sig))
	switch sig {
	case unix.SIGINT, unix.SIGQUIT, unix.SIGTERM:
		if j.asked == 0 {
			j.asked, j.askedAt = sig, time.Now()
		}
		j.end(sig)
	default:
		_ = j.group.Signal(sig)
	}
}

// verdict is the outcome when the group is gone: gone says if it was ended by its supervisor, or with it.
func (j *job) verdict(gone error) error {
	switch err := j.guard.Err(); {
	case j.lost != nil || j.feared:
	case err != nil:
		j.notices.fault("%v", err)
	case gone != nil:
		j.notices.fault("%v", gone)
	case j.killedFor != 0 && j.exited.Signal == unix.SIGKILL:
		return exitWith(interrupted(j.killedFor))
	default:
		return exitWith(j.exited.Code)
	}
	return exitWith(codeLost)
}

// release gives the lock back. No process of the group is left.
func (j *job) release(outcome error) error {
	ctx := context.Background()
	if j.interrupts > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, hurryLimit)
		defer cancel()
	}
	err := j.guard.UnlockContext(ctx)
	switch {
	case err == nil:
	case codeOf(outcome) == codeLost, !j.started && errors.Is(err, mutex.ErrLost):
		// It has been said, or is nobody's problem.
	case errors.Is(err, mutex.ErrLost):
		j.notices.fault("%v", err)
		outcome = exitWith(codeLost)
	default:
		j.notices.fault("the release of %q is not confirmed, it is free within %s: %v", j.order.name, span(j.order.ttl), err)
	}
	if codeOf(outcome) == codeLost {
		j.closeLimit = lostLimit
	}
	return outcome
}

// hearShell begins to receive the signals of job control, also after a stop has taken them away. A tool that was
// started with them ignored has none.
func (j *job) hearShell() {
	for _, sig := range []os.Signal{unix.SIGTSTP, unix.SIGCONT} {
		if !signal.Ignored(sig) {
			signal.Notify(j.signals, sig)
		}
	}
}
