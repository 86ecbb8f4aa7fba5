package heartbeat

import (
	"cmp"
	"slices"
	"time"

	"github.com/aaravsoft/leasehold/store"
)

// ask is a target that is to be renewed, and the trust that it has left.
type ask struct {
	entry *entry
	left  time.Duration
}

// batch is one call.
type batch struct {
	entries []*entry
	limit   time.Duration
}

const (
	maxAttempt = 10 * time.Second
	minAttempt = 10 * time.Millisecond
)

// batches makes at least so many calls of the asks of a round, if there are as many, the most urgent ones first. It
// reorders asks.
func batches(asks []ask, least int) []batch {
	if len(asks) == 0 {
		return nil
	}
	slices.SortFunc(asks, func(a, b ask) int { return cmp.Compare(a.left, b.left) })
	size := min(store.MaxBatch, (len(asks)+least-1)/least)
	calls := make([]batch, 0, (len(asks)+size-1)/size)
	for some := range slices.Chunk(asks, size) {
		b := batch{entries: make([]*entry, len(some)), limit: limit(some[0].left)}
		for i, a := range some {
			b.entries[i] = a.entry
		}
		calls = append(calls, b)
	}
	return calls
}

// limit is how long an attempt may take with so much trust left: a third, so that it can be repeated, and at least the
// time that a round trip takes. It never exceeds (L − M)/3, for no more than L − M is ever left.
func limit(left time.Duration) time.Duration {
	return min(max(left/3, min(minAttempt, left/2)), maxAttempt)
}
