package locks

import "slices"

// queue is one locked resource. Everything in this file runs under Manager.mu.
type queue struct {
	holds []*hold
	waits []*request // conversions first, then in order of arrival
}

func (m *Manager) queue(resource Resource) *queue {
	q := m.queues[resource]
	if q == nil {
		q = &queue{}
		m.queues[resource] = q
	}
	return q
}

// converts reports whether the request's session holds the resource already.
func (q *queue) converts(r *request) bool {
	return slices.ContainsFunc(q.holds, func(h *hold) bool { return h.owner.session == r.owner.session })
}

// blockers yields the sessions that keep r, with ahead before it in the queue, from being granted: other sessions
// that hold something incompatible, and those ahead that want something incompatible. A conversion looks at holders
// only: behind another conversion that waits for this very session it would be a deadlock for nothing.
func (q *queue) blockers(r *request, ahead []*request, yield func(*Session) bool) {
	for _, h := range q.holds {
		if h.owner.session != r.owner.session && !compatible(h.mode(), r.mode) && !yield(h.owner.session) {
			return
		}
	}
	if q.converts(r) {
		return
	}
	for _, w := range ahead {
		if !compatible(w.mode, r.mode) && !yield(w.owner.session) {
			return
		}
	}
}

func (q *queue) grantable(r *request, ahead []*request) bool {
	free := true
	q.blockers(r, ahead, func(*Session) bool { free = false; return false })
	return free
}

// enqueue puts a conversion behind the conversions that wait already, anything else at the end.
func (q *queue) enqueue(r *request) {
	place := len(q.waits)
	if q.converts(r) {
		for place = 0; place < len(q.waits) && q.converts(q.waits[place]); {
			place++
		}
	}
	q.waits = slices.Insert(q.waits, place, r)
}

func (q *queue) grant(r *request) {
	h := r.owner.holds[r.resource]
	if h == nil {
		h = &hold{owner: r.owner}
		r.owner.holds[r.resource] = h
		q.holds = append(q.holds, h)
	}
	h.counts[r.mode]++
}

func (q *queue) remove(h *hold) {
	q.holds = slices.DeleteFunc(q.holds, func(other *hold) bool { return other == h })
}

// settle grants what has become grantable and forgets the resource when nobody cares about it.
func (m *Manager) settle(resource Resource) {
	q := m.queues[resource]
	if q == nil {
		return
	}
	for place := 0; place < len(q.waits); {
		r := q.waits[place]
		if !q.grantable(r, q.waits[:place]) {
			place++
			continue
		}
		q.waits = slices.Delete(q.waits, place, place+1)
		q.grant(r)
		r.owner.session.waiting = nil
		r.answer <- nil
	}
	if len(q.holds) == 0 && len(q.waits) == 0 {
		delete(m.queues, resource)
	}
}

// withdraw takes a waiting request out of its queue; those behind it may go ahead.
func (m *Manager) withdraw(r *request) {
	q := m.queues[r.resource]
	q.waits = slices.DeleteFunc(q.waits, func(w *request) bool { return w == r })
	r.owner.session.waiting = nil
	m.settle(r.resource)
}

// breakDeadlocks picks victims until s is in no circle. Only a new wait can close a circle, and then the waiting
// session is part of it: a grant adds edges only towards a session that no longer waits. So it is enough to look from
// the session that has just begun to wait.
func (m *Manager) breakDeadlocks(s *Session) {
	for s.waiting != nil {
		circle := m.circle(s)
		if circle == nil {
			return
		}
		victim := circle[0] // s itself
		for _, other := range circle[1:] {
			if other.weight < victim.weight {
				victim = other
			}
		}
		r := victim.waiting
		m.withdraw(r)
		r.answer <- ErrDeadlock
	}
}

// circle returns the sessions of a circle of waits through s, s first, or nil.
func (m *Manager) circle(s *Session) []*Session {
	seen := map[*Session]bool{}
	var path []*Session
	var visit func(*Session) bool
	visit = func(at *Session) bool {
		r := at.waiting
		if r == nil || seen[at] {
			return false
		}
		seen[at] = true
		path = append(path, at)
		q := m.queues[r.resource]
		found := false
		q.blockers(r, q.waits[:slices.Index(q.waits, r)], func(next *Session) bool {
			found = next == s || visit(next)
			return !found
		})
		if !found {
			path = path[:len(path)-1]
		}
		return found
	}
	if visit(s) {
		return path
	}
	return nil
}
