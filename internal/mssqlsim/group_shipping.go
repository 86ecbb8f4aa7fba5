package mssqlsim

import (
	"context"
	"time"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
)

// SetLag makes a node, whenever it is a secondary, get each record so long after its commit; 0, the default, is at once.
// A lag beyond the session timeout is a frozen secondary.
func (g *Group) SetLag(name string, d time.Duration) {
	m := g.member(name)
	g.change(func() { m.lag = d })
}

// SetRedoLag makes the readers of a secondary see each record so long after the secondary has got it. A failover to it
// keeps the record all the same.
func (g *Group) SetRedoLag(name string, d time.Duration) {
	m := g.member(name)
	g.change(func() { m.redoLag = d })
}

// SetRequiredSecondaries is REQUIRED_SYNCHRONIZED_SECONDARIES_TO_COMMIT: so many synchronous secondaries must have a
// record before its client is told. Without them a commit waits until its client gives up; committed it is all the same.
func (g *Group) SetRequiredSecondaries(n int) { g.change(func() { g.required = n }) }

// Suspend ends the data movement to a secondary. Its readers go on seeing what they see, and no commit waits for it.
func (g *Group) Suspend(name string) {
	m := g.member(name)
	g.change(func() { m.suspended, m.synchronized = true, false })
}

// Resume lets data move again. What the secondary has and the present primary has not, is thrown away at once.
func (g *Group) Resume(name string) {
	m := g.member(name)
	g.change(func() {
		m.suspended, m.aligned = false, false
		g.align(m)
	})
}

// WaitApplied waits until the readers of a node see everything that was committed on the primary when it was called.
func (g *Group) WaitApplied(ctx context.Context, name string) error {
	m := g.member(name)
	g.mu.Lock()
	target := g.primary.data().Sequence()
	g.mu.Unlock()
	return g.await(ctx, func() bool { return g.fits(m) && m.data().Sequence() >= target })
}

// WaitSynchronized waits until Synchronized.
func (g *Group) WaitSynchronized(ctx context.Context, name string) error {
	m := g.member(name)
	return g.await(ctx, func() bool { return m.role == RoleSecondary && m.synchronized })
}

// change changes something and lets everybody look at it.
func (g *Group) change(f func()) {
	g.mu.Lock()
	f()
	g.broadcast()
	g.mu.Unlock()
	g.wakeAll()
}

func (g *Group) wakeAll() {
	for _, m := range g.members {
		select {
		case m.wake <- struct{}{}:
		default: // it has not yet looked since the last time
		}
	}
}

// ship brings the log of the primary of the time to one node, whenever that is a secondary.
func (g *Group) ship(m *member) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		g.mu.Lock()
		next := g.advance(m)
		g.mu.Unlock()
		var due <-chan time.Time
		if !next.IsZero() {
			timer.Reset(time.Until(next))
			due = timer.C
		}
		select {
		case <-m.wake:
		case <-due:
		case <-g.done:
			return
		}
	}
}

// advance gives a secondary what is due, and returns when there will be more, zero if only a change can bring it.
func (g *Group) advance(m *member) (next time.Time) {
	if m.role != RoleSecondary || m.down || m.suspended {
		return next
	}
	now, progress := time.Now(), false
	soon := func(due time.Time) bool {
		if !due.After(now) {
			return false
		}
		if next.IsZero() || due.Before(next) {
			next = due
		}
		return true
	}
	if g.follows(m) {
		g.align(m)
		for _, record := range g.primary.data().Log(m.hardened) {
			if soon(record.Committed.Add(m.lag)) {
				break
			}
			m.received, m.hardened, progress = append(m.received, record), record.Sequence, true
		}
	}
	for len(m.received) > 0 && !soon(m.received[0].Committed.Add(m.lag+m.redoLag)) {
		m.data().Redo(m.received[0])
		m.received, progress = m.received[1:], true
	}
	// A commit is in the log before it comes to harden, which takes mu. So every one that has found the secondary not
	// synchronized is among those that it is compared with here, and every later one will wait for it.
	if g.follows(m) && g.synchronous(m) && !m.synchronized && m.hardened == g.primary.data().Sequence() {
		m.synchronized, progress = true, true
	}
	if progress {
		g.broadcast()
	}
	return next
}

// follows reports whether data moves from the primary to a node.
func (g *Group) follows(m *member) bool {
	return m.role == RoleSecondary && m != g.primary && !m.down && !m.suspended && !g.primary.down
}

// fits reports whether a node has nothing that its primary has not.
func (g *Group) fits(m *member) bool { return m == g.primary || m.aligned && m.role == RoleSecondary }

func (g *Group) synchronous(m *member) bool {
	return m.Mode == Synchronous && g.primary.Mode == Synchronous
}

// align makes what a node has the beginning of the primary's log: its own tail is thrown away, and so is what it has
// received and not redone, which it gets again if the primary has it.
func (g *Group) align(m *member) {
	if m.aligned || !g.follows(m) {
		return
	}
	mine, theirs := m.data(), g.primary.data()
	if fork := mine.Fork(theirs); fork < mine.Sequence() {
		mine = g.copyOfContent()
		for _, record := range theirs.Log(0) {
			if record.Sequence > fork {
				break
			}
			mine.Redo(record)
		}
		g.cut(m)
		m.server.Node.Restore(mine)
		g.serve(m)
	}
	m.received, m.hardened = nil, mine.Sequence()
	m.aligned = true
}

// harden is what a commit waits for after it is in the log of its node.
func (g *Group) harden(ctx context.Context, m *member, record rows.Record) error {
	g.wakeAll()
	var timeout <-chan time.Time
	for {
		g.mu.Lock()
		enough, serving := g.hardenedEnough(m, record.Sequence), m.role == RolePrimary && !m.down
		changed := g.changed
		g.mu.Unlock()
		switch {
		case !serving:
			return sqlerr.Killed() // its client is cut already
		case enough:
			return nil
		case timeout == nil:
			timer := time.NewTimer(g.options.SessionTimeout)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-changed:
		case <-timeout:
			g.fallBack(m, record.Sequence)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// hardenedEnough reports whether a record of a primary may be acknowledged.
func (g *Group) hardenedEnough(primary *member, sequence int64) bool {
	have := 0
	for _, m := range g.partners(primary) {
		if m.hardened >= sequence {
			have++
		} else if m.synchronized {
			return false
		}
	}
	return have >= g.required
}

// fallBack ends, silently, the waiting for secondaries that do not have a record, until they have caught up. Once is
// enough for the record: who has caught up after it has it.
func (g *Group) fallBack(primary *member, sequence int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.partners(primary) {
		if m.synchronized && m.hardened < sequence {
			m.synchronized = false
			m.fallbacks++
		}
	}
	g.broadcast()
}

// partners are the secondaries that a primary commits synchronously with: none, if it was left behind in a split.
func (g *Group) partners(primary *member) (list []*member) {
	for _, m := range g.members {
		if primary == g.primary && g.follows(m) && g.synchronous(m) {
			list = append(list, m)
		}
	}
	return list
}
