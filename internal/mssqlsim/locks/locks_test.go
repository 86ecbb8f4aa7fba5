package locks_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/locks"
)

var (
	rowA = locks.Resource{Space: "t", Key: "a"}
	rowB = locks.Resource{Space: "t", Key: "b"}
)

// begin asks for a lock on a goroutine of its own and returns where the answer will arrive.
func begin(o *locks.Owner, r locks.Resource, mode locks.Mode, timeout time.Duration) <-chan error {
	return beginContext(context.Background(), o, r, mode, timeout)
}

func beginContext(ctx context.Context, o *locks.Owner, r locks.Resource, mode locks.Mode, timeout time.Duration) <-chan error {
	answer := make(chan error, 1)
	go func() { answer <- o.Lock(ctx, r, mode, timeout) }()
	synctest.Wait()
	return answer
}

func granted(t *testing.T, answer <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-answer:
		require.NoError(t, err)
	default:
		require.Fail(t, "still waiting, want it granted")
	}
}

func blocked(t *testing.T, answer <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-answer:
		require.Fail(t, "answered, want it to wait", "answer: %v", err)
	default:
	}
}

func bubble(name string, t *testing.T, test func(t *testing.T, m *locks.Manager)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := locks.New()
			test(t, m)
			holds, waits := m.Count()
			assert.Zero(t, holds, "holds left over")
			assert.Zero(t, waits, "waits left over")
		})
	})
}

func TestCompatibility(t *testing.T) {
	goesWith := map[locks.Mode]string{locks.Shared: "SU", locks.Update: "S", locks.Exclusive: ""}
	for _, held := range []locks.Mode{locks.Shared, locks.Update, locks.Exclusive} {
		for _, wanted := range []locks.Mode{locks.Shared, locks.Update, locks.Exclusive} {
			bubble(held.String()+" then "+wanted.String(), t, func(t *testing.T, m *locks.Manager) {
				first, second := m.Session().Owner(), m.Session().Owner()
				granted(t, begin(first, rowA, held, locks.Forever))
				answer := begin(second, rowA, wanted, locks.Forever)
				for _, mode := range goesWith[held] {
					if wanted.String() == string(mode) {
						granted(t, answer)
						first.UnlockAll()
						second.UnlockAll()
						return
					}
				}
				blocked(t, answer)
				granted(t, begin(first, rowB, locks.Exclusive, 0)) // another row is another matter
				first.UnlockAll()
				granted(t, answer)
				assert.Equal(t, wanted, second.Holds(rowA))
				second.UnlockAll()
			})
		}
	}
}

func TestOrder(t *testing.T) {
	bubble("first in first out", t, func(t *testing.T, m *locks.Manager) {
		holder := m.Session().Owner()
		granted(t, begin(holder, rowA, locks.Exclusive, locks.Forever))
		var owners []*locks.Owner
		var answers []<-chan error
		for range 5 {
			owners = append(owners, m.Session().Owner())
			answers = append(answers, begin(owners[len(owners)-1], rowA, locks.Exclusive, locks.Forever))
		}
		holder.UnlockAll()
		for i, answer := range answers {
			granted(t, answer)
			for _, later := range answers[i+1:] {
				blocked(t, later)
			}
			owners[i].UnlockAll()
		}
	})
	bubble("a reader waits behind a writer", t, func(t *testing.T, m *locks.Manager) {
		reader, writer, late := m.Session().Owner(), m.Session().Owner(), m.Session().Owner()
		granted(t, begin(reader, rowA, locks.Shared, locks.Forever))
		waitsForReader := begin(writer, rowA, locks.Exclusive, locks.Forever)
		waitsForWriter := begin(late, rowA, locks.Shared, locks.Forever)
		blocked(t, waitsForReader)
		blocked(t, waitsForWriter)
		reader.UnlockAll()
		granted(t, waitsForReader)
		blocked(t, waitsForWriter)
		writer.UnlockAll()
		granted(t, waitsForWriter)
		late.UnlockAll()
	})
	bubble("a conversion goes ahead", t, func(t *testing.T, m *locks.Manager) {
		reader, converter, writer := m.Session().Owner(), m.Session().Owner(), m.Session().Owner()
		granted(t, begin(reader, rowA, locks.Shared, locks.Forever))
		granted(t, begin(converter, rowA, locks.Update, locks.Forever))
		first := begin(writer, rowA, locks.Exclusive, locks.Forever)
		second := begin(converter, rowA, locks.Exclusive, locks.Forever)
		reader.UnlockAll()
		granted(t, second)
		blocked(t, first)
		converter.UnlockAll()
		granted(t, first)
		writer.UnlockAll()
	})
	bubble("who gives up lets the next one in", t, func(t *testing.T, m *locks.Manager) {
		reader, writer, late := m.Session().Owner(), m.Session().Owner(), m.Session().Owner()
		granted(t, begin(reader, rowA, locks.Shared, locks.Forever))
		givesUp := begin(writer, rowA, locks.Exclusive, time.Second)
		next := begin(late, rowA, locks.Shared, locks.Forever)
		blocked(t, next)
		assert.ErrorIs(t, <-givesUp, locks.ErrTimeout)
		granted(t, next)
		reader.UnlockAll()
		late.UnlockAll()
	})
}

func TestWaiting(t *testing.T) {
	bubble("time-out after exactly its time", t, func(t *testing.T, m *locks.Manager) {
		holder, waiter := m.Session().Owner(), m.Session().Owner()
		granted(t, begin(holder, rowA, locks.Exclusive, 0))
		start := time.Now()
		assert.ErrorIs(t, waiter.Lock(t.Context(), rowA, locks.Shared, 300*time.Millisecond), locks.ErrTimeout)
		assert.Equal(t, 300*time.Millisecond, time.Since(start))
		assert.ErrorIs(t, waiter.Lock(t.Context(), rowA, locks.Shared, 0), locks.ErrTimeout, "0 does not wait")
		assert.Equal(t, 300*time.Millisecond, time.Since(start))
		holder.UnlockAll()
		assert.NoError(t, waiter.Lock(t.Context(), rowA, locks.Shared, 0))
		waiter.UnlockAll()
	})
	bubble("cancelled", t, func(t *testing.T, m *locks.Manager) {
		holder, waiter, next := m.Session().Owner(), m.Session().Owner(), m.Session().Owner()
		granted(t, begin(holder, rowA, locks.Shared, 0))
		attention := errors.New("attention")
		ctx, cancel := context.WithCancelCause(t.Context())
		answer := beginContext(ctx, waiter, rowA, locks.Exclusive, locks.Forever)
		behind := begin(next, rowA, locks.Shared, locks.Forever)
		blocked(t, behind)
		cancel(attention)
		assert.ErrorIs(t, <-answer, attention)
		granted(t, behind)
		assert.Zero(t, waiter.Holds(rowA))
		holder.UnlockAll()
		next.UnlockAll()
	})
	bubble("one session does not block itself", t, func(t *testing.T, m *locks.Manager) {
		session := m.Session()
		transaction, whole := session.Owner(), session.Owner()
		granted(t, begin(transaction, rowA, locks.Exclusive, 0))
		granted(t, begin(whole, rowA, locks.Exclusive, 0))
		other := m.Session().Owner()
		answer := begin(other, rowA, locks.Shared, locks.Forever)
		transaction.UnlockAll()
		blocked(t, answer)
		whole.UnlockAll()
		granted(t, answer)
		other.UnlockAll()
	})
	bubble("counted", t, func(t *testing.T, m *locks.Manager) {
		o, other := m.Session().Owner(), m.Session().Owner()
		granted(t, begin(o, rowA, locks.Exclusive, 0))
		granted(t, begin(o, rowA, locks.Shared, 0))
		o.Unlock(rowA, locks.Shared)
		assert.Equal(t, locks.Exclusive, o.Holds(rowA))
		granted(t, begin(o, rowA, locks.Update, 0))
		answer := begin(other, rowA, locks.Shared, locks.Forever)
		o.Unlock(rowA, locks.Exclusive) // down to U, which goes with S
		granted(t, answer)
		o.Unlock(rowA, locks.Update)
		other.Unlock(rowA, locks.Shared)
		assert.Panics(t, func() { other.Unlock(rowA, locks.Shared) })
	})
}

func TestDeadlock(t *testing.T) {
	// cross lets two sessions take a and b in opposite order and returns the answers of their second requests.
	cross := func(t *testing.T, m *locks.Manager, weight1, weight2 int) (first, second *locks.Owner, answer1, answer2 <-chan error) {
		session1, session2 := m.Session(), m.Session()
		session1.SetWeight(weight1)
		session2.SetWeight(weight2)
		first, second = session1.Owner(), session2.Owner()
		granted(t, begin(first, rowA, locks.Exclusive, 0))
		granted(t, begin(second, rowB, locks.Exclusive, 0))
		answer1 = begin(first, rowB, locks.Exclusive, locks.Forever)
		answer2 = begin(second, rowA, locks.Exclusive, locks.Forever)
		return first, second, answer1, answer2
	}
	bubble("equally light: the one that closes the circle", t, func(t *testing.T, m *locks.Manager) {
		first, second, answer1, answer2 := cross(t, m, 0, 0)
		assert.ErrorIs(t, <-answer2, locks.ErrDeadlock)
		blocked(t, answer1)
		second.UnlockAll()
		granted(t, answer1)
		first.UnlockAll()
	})
	bubble("the lighter one", t, func(t *testing.T, m *locks.Manager) {
		first, second, answer1, answer2 := cross(t, m, 1, 2)
		assert.ErrorIs(t, <-answer1, locks.ErrDeadlock)
		first.UnlockAll()
		granted(t, answer2)
		second.UnlockAll()
	})
	bubble("two readers of one row that both want to write it", t, func(t *testing.T, m *locks.Manager) {
		first, second := m.Session().Owner(), m.Session().Owner()
		granted(t, begin(first, rowA, locks.Shared, 0))
		granted(t, begin(second, rowA, locks.Shared, 0))
		answer1 := begin(first, rowA, locks.Exclusive, locks.Forever)
		assert.ErrorIs(t, <-begin(second, rowA, locks.Exclusive, locks.Forever), locks.ErrDeadlock)
		second.UnlockAll()
		granted(t, answer1)
		first.UnlockAll()
	})
	bubble("through the queue", t, func(t *testing.T, m *locks.Manager) {
		// 1 reads a, 2 waits to write it, 3 holds c and waits behind 2 to read a. When 1 asks for c, it waits for 3,
		// 3 for 2, and 2 for 1: although nobody who waits for a row held by 2 is among them.
		rowC := locks.Resource{Space: "t", Key: "c"}
		first, second, third := m.Session().Owner(), m.Session().Owner(), m.Session().Owner()
		granted(t, begin(first, rowA, locks.Shared, 0))
		granted(t, begin(third, rowC, locks.Exclusive, 0))
		writer := begin(second, rowA, locks.Exclusive, locks.Forever)
		reader := begin(third, rowA, locks.Shared, locks.Forever)
		assert.ErrorIs(t, <-begin(first, rowC, locks.Shared, locks.Forever), locks.ErrDeadlock)
		first.UnlockAll()
		granted(t, writer)
		second.UnlockAll()
		granted(t, reader)
		third.UnlockAll()
	})
	bubble("the owner of another lifetime counts", t, func(t *testing.T, m *locks.Manager) {
		session := m.Session()
		whole, transaction := session.Owner(), session.Owner()
		other := m.Session().Owner()
		granted(t, begin(whole, rowA, locks.Exclusive, 0))
		granted(t, begin(other, rowB, locks.Exclusive, 0))
		answer := begin(other, rowA, locks.Exclusive, locks.Forever)
		assert.ErrorIs(t, <-begin(transaction, rowB, locks.Exclusive, locks.Forever), locks.ErrDeadlock)
		whole.UnlockAll()
		granted(t, answer)
		other.UnlockAll()
	})
}
