package mutex

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/faultstore"
	"github.com/aaravsoft/leasehold/store"
)

func TestLock(t *testing.T) {
	bubble(t, "ACQ-01 a context that has ended", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, lock := range []func(context.Context, string, ...Option) (*Guard, error){c.Lock, c.TryLock} {
			g, err := lock(ctx, "pre")
			require.ErrorIs(t, err, context.Canceled)
			require.Nil(t, g)
		}
		_, err := c.Lock(t.Context(), "pre", WithParent(ctx))
		require.ErrorIs(t, err, context.Canceled)
		_, found := r.row("pre")
		require.False(t, found)
		require.Zero(t, r.faults.Calls(faultstore.Acquire))
	})

	bubble(t, "ACQ-05 goroutines of one process exclude each other", func(t *testing.T) {
		r := newRig(t)
		c := r.client(Config{TTL: 2 * time.Second})
		var in inside
		var wg sync.WaitGroup
		turns := make([]int, 50)
		for n := range turns {
			wg.Go(func() {
				for r.at() < 5*time.Second {
					g := mustLock(t, c, "job")
					in.enter(g)
					turns[n]++
					time.Sleep(10 * time.Millisecond)
					in.leave()
					require.NoError(t, g.Unlock())
				}
			})
		}
		wg.Wait()
		in.check(t)
		for n, had := range turns {
			assert.Positive(t, had, "goroutine %d never got its turn", n)
		}
	})

	bubble(t, "ACQ-06 the wait may be longer than the lease", func(t *testing.T) {
		r := newRig(t)
		a, b := r.client(Config{TTL: time.Second}), r.client(Config{TTL: time.Second})
		g := mustLock(t, a, "job")
		time.AfterFunc(5*time.Second, func() { _ = g.Unlock() })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		h, err := b.Lock(ctx, "job")
		require.NoError(t, err)
		require.GreaterOrEqual(t, r.at(), 5*time.Second)
		require.LessOrEqual(t, r.at(), 6*time.Second+50*time.Millisecond)
		require.NoError(t, h.Unlock())
	})

	bubble(t, "ACQ-07 busy and broken are told apart", func(t *testing.T) {
		r := newRig(t)
		a, b := r.healthy(three()), r.client(three())
		g := mustLock(t, a, "job")
		defer g.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err := b.Lock(ctx, "job")
		require.ErrorIs(t, err, ErrHeld)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, ErrUnavailable)
		var held *HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, g.Owner(), held.Lease.Owner)

		down := errors.New("connection refused")
		r.outage(down)
		ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err = b.Lock(ctx, "other")
		require.ErrorIs(t, err, ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, down, "the engine's own error stays reachable")
		require.NotErrorIs(t, err, ErrHeld)
	})

	bubble(t, "ACQ-07 WithWait ends with the class alone, and does not touch the hold", func(t *testing.T) {
		r := newRig(t)
		a, b := r.client(three()), r.client(three())
		g := mustLock(t, a, "job")
		began := r.at()
		_, err := b.Lock(t.Context(), "job", WithWait(time.Second))
		require.ErrorIs(t, err, ErrHeld)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, context.Canceled)
		require.Equal(t, time.Second, r.at()-began)
		require.NoError(t, g.Unlock())
		h := mustLock(t, b, "job", WithWait(time.Second))
		time.Sleep(10 * time.Second)
		require.NoError(t, h.Err())
		require.NoError(t, h.Unlock())
	})

	bubble(t, "ACQ-07 an attempt that the end of the wait cuts short says nothing", func(t *testing.T) {
		r := newRig(t)
		g := mustLock(t, r.healthy(three()), "job")
		c := r.client(three())
		r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Delay: 400 * time.Millisecond})
		_, err := c.Lock(t.Context(), "job", WithWait(600*time.Millisecond))
		require.ErrorIs(t, err, ErrHeld)
		require.NotErrorIs(t, err, ErrUnavailable)
		_, err = c.Lock(t.Context(), "job", WithWait(200*time.Millisecond))
		require.ErrorIs(t, err, ErrUnavailable, "no answer at all")
		require.NoError(t, g.Unlock())
		time.Sleep(time.Second) // until the slow calls have returned
	})

	bubble(t, "ACQ-08 a deadline of the context scopes the hold, with the lock renewed for Drain", func(t *testing.T) {
		r := newRig(t)
		c := r.client(Config{TTL: time.Second})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		g, err := c.Lock(ctx, "job")
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, r.doneAt(g.Context()))
		require.ErrorIs(t, context.Cause(g.Context()), context.DeadlineExceeded)
		require.ErrorIs(t, g.Err(), context.DeadlineExceeded)
		require.NotErrorIs(t, g.Err(), ErrLost)
		time.Sleep(900 * time.Millisecond) // within Drain, beyond a TTL without a renewal
		row, found := r.row("job")
		require.True(t, found)
		require.Positive(t, row.Left)
		require.NoError(t, g.Unlock())
	})

	bubble(t, "REL-03 a parent outlives the context of the wait", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		ctx, cancel := context.WithCancel(t.Context())
		g, err := c.Lock(ctx, "job", WithParent(context.WithoutCancel(ctx)))
		require.NoError(t, err)
		cancel()
		time.Sleep(10 * time.Second)
		require.NoError(t, g.Err())
		require.NoError(t, g.Unlock())
		_, found := r.row("job")
		require.False(t, found)
	})

	bubble(t, "ACQ-03 a guard or an error, never both or none", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		for range 5000 {
			r.faults.Add(faultstore.Fault{Ops: faultstore.Acquire, Delay: 10 * time.Millisecond})
			ctx, cancel := context.WithCancel(t.Context())
			stop := time.AfterFunc(rand.N(20*time.Millisecond), cancel)
			g, err := c.Lock(ctx, "job")
			require.NotEqual(t, g == nil, err == nil)
			if err == nil {
				row, found := r.row("job")
				require.True(t, found)
				require.Equal(t, g.Owner(), row.Owner)
				require.NoError(t, g.Unlock())
			} else {
				require.ErrorIs(t, err, context.Canceled)
			}
			stop.Stop()
			cancel()
		}
		r.faults.Clear()
		require.NoError(t, c.tasks.wait(t.Context()))
		_, found := r.row("job")
		require.False(t, found)
		c.mu.Lock()
		defer c.mu.Unlock()
		require.Empty(t, c.holds)
		require.Empty(t, c.names)
	})

	bubble(t, "SAF-09 a lost lock can be taken again", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		g := mustLock(t, c, "job")
		r.outage(errors.New("down"))
		require.Equal(t, threeTrust, r.doneAt(g.Context()))
		r.faults.Clear()
		r.sleepUntil(4 * time.Second)
		h := mustLock(t, c, "job")
		require.Equal(t, 4*time.Second, r.at(), "the row had expired")
		require.Greater(t, h.Token(), g.Token())
		require.ErrorIs(t, g.Err(), ErrLost)
		require.ErrorIs(t, g.Unlock(), ErrLost)
		require.NoError(t, c.tasks.wait(t.Context()))
		require.NoError(t, h.Err())
		row, _ := r.row("job")
		require.Equal(t, h.Owner(), row.Owner, "the old guard's release is owner-safe")
		require.NoError(t, h.Unlock())
	})

	bubble(t, "SAF-10 tokens grow over grants and stand still within one", func(t *testing.T) {
		r := newRig(t)
		a, b := r.client(three()), r.client(three())
		var tokens []uint64
		for n := range 10 {
			c := []*Client{a, b}[n%2]
			g := mustLock(t, c, "fence")
			token := g.Token()
			time.Sleep(100 * time.Second) // a hundred renewals
			require.Equal(t, token, g.Token())
			tokens = append(tokens, token)
			require.NoError(t, g.Unlock())
		}
		for n := 1; n < len(tokens); n++ {
			require.Greater(t, tokens[n], tokens[n-1])
		}
	})

	bubble(t, "rule 19: a nested lock is refused at once", func(t *testing.T) {
		r := newRig(t)
		a, b := r.client(three()), r.client(three())
		g := mustLock(t, a, "job")
		began := r.at()
		for name, c := range map[string]*Client{"the same client": a, "another client on the same rows": b} {
			for _, lock := range []func(context.Context, string, ...Option) (*Guard, error){c.Lock, c.TryLock} {
				_, err := lock(g.Context(), "job")
				require.ErrorIs(t, err, ErrNested, name)
				require.ErrorIs(t, err, ErrInvalid, name)
				require.NotErrorIs(t, err, ErrHeld, name)
			}
		}
		require.Equal(t, began, r.at())
		inner, err := a.Lock(g.Context(), "another")
		require.NoError(t, err)
		_, err = a.Lock(inner.Context(), "job")
		require.ErrorIs(t, err, ErrNested, "also further out")
		got, ok := FromContext(inner.Context(), "job")
		require.True(t, ok)
		require.Same(t, g, got)
		require.NoError(t, inner.Unlock())
		require.NoError(t, g.Unlock())
		_, err = a.TryLock(g.Context(), "job")
		require.ErrorIs(t, err, context.Canceled, "the carried guard is over, and so is its context")
	})

	bubble(t, "rule 18: a lock under a lost one, or under a closed client's, is of its own class", func(t *testing.T) {
		r := newRig(t)
		inner, other := r.healthy(three()), r.healthy(three())
		held := mustLock(t, other, "inner")
		for name, end := range map[string]func(outer *Client, g *Guard){
			"lost": func(_ *Client, g *Guard) {
				_, err := r.mem.Release(t.Context(), []store.Claim{{Name: "outer", Owner: g.Owner()}})
				assert.NoError(t, err)
			},
			"closed": func(outer *Client, _ *Guard) { _ = outer.Close(context.Background()) },
		} {
			outer := r.client(three())
			g := mustLock(t, outer, "outer")
			time.AfterFunc(100*time.Millisecond, func() { end(outer, g) }) // while the inner one waits
			_, err := inner.Lock(g.Context(), "inner")
			require.ErrorIs(t, err, ErrHeld, name)
			require.ErrorIs(t, err, context.Canceled, name)
			require.NotErrorIs(t, err, ErrLost, name)
			var lost *LostError
			require.False(t, errors.As(err, &lost), name)
			_ = g.Unlock()
		}
		require.NoError(t, held.Unlock())
	})

	bubble(t, "a local TryLock asks nobody", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		g := mustLock(t, c, "job", WithMetadata("note"))
		calls := r.faults.Calls(faultstore.Acquire)
		time.Sleep(time.Second)
		_, err := c.TryLock(t.Context(), "job")
		var held *HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, g.Owner(), held.Lease.Owner)
		require.Equal(t, "note", held.Lease.Metadata)
		row, _ := r.row("job")
		require.Equal(t, row.Expires, held.Lease.Expires)
		require.Equal(t, calls, r.faults.Calls(faultstore.Acquire))
		require.NoError(t, g.Unlock())
	})
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{
		strings.Repeat("a", 200):          true,
		strings.Repeat("a", 201):          false,
		strings.Repeat("ñ", 200):          true,
		strings.Repeat("🔒", 100):          true,
		strings.Repeat("🔒", 101):          false,
		"":                                false,
		"job ":                            false,
		" job":                            false,
		"job\t":                           false,
		"job\u00a0":                       false,
		"a\x00b":                          false,
		"bad\xffutf8":                     false,
		"Invoice-Batch":                   true,
		`x'; DELETE FROM lease.Leases;--`: true,
		"%":                               true, "_": true, "[a-z]": true,
	} {
		bubble(t, fmt.Sprintf("NAM-01 NAM-03 NAM-08 %.20q", name), func(t *testing.T) {
			r := newRig(t)
			c := r.client(three())
			g, err := c.TryLock(t.Context(), name)
			if !ok {
				require.ErrorIs(t, err, ErrInvalid)
				require.NotErrorIs(t, err, ErrHeld)
				require.Zero(t, r.faults.Calls(faultstore.Acquire), "refused before the store is asked")
				return
			}
			require.NoError(t, err)
			row, found := r.row(name)
			require.True(t, found)
			require.Equal(t, name, row.Name)
			require.NoError(t, g.Unlock())
		})
	}

	bubble(t, "NAM-02 case counts", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		g, h := mustLock(t, c, "Invoice-Batch"), mustLock(t, c, "invoice-batch")
		require.NoError(t, g.Unlock())
		require.NoError(t, h.Err())
		require.NoError(t, h.Unlock())
	})

	bubble(t, "NAM-05 metadata fits or is refused before the store is asked", func(t *testing.T) {
		r := newRig(t)
		c := r.client(three())
		for _, note := range []string{"", strings.Repeat("m", 1024), strings.Repeat("🔒", 512), `{"k":"it's; DROP TABLE x--"}`} {
			g := mustLock(t, c, "job", WithMetadata(note))
			row, _ := r.row("job")
			require.Equal(t, note, row.Metadata)
			require.NoError(t, g.Unlock())
		}
		calls := r.faults.Calls(faultstore.Acquire)
		for _, note := range []string{strings.Repeat("m", 1025), strings.Repeat("🔒", 512) + "a"} {
			_, err := c.Lock(t.Context(), "job", WithMetadata(note))
			require.ErrorIs(t, err, ErrInvalid)
		}
		require.Equal(t, calls, r.faults.Calls(faultstore.Acquire))
	})

	t.Run("NAM-04 owners are never equal", func(t *testing.T) {
		seen := map[string]bool{}
		for _, host := range []string{"app", strings.Repeat("h", 253), "", "odd\nhost name\x00", strings.Repeat("🔒", 100)} {
			instance := defaultInstance(host, nil)
			require.NoError(t, store.ValidateInstance(instance))
			for range 2000 {
				owner := store.NewOwner(instance)
				require.NoError(t, store.ValidateOwner(owner))
				require.False(t, seen[owner])
				seen[owner] = true
			}
		}
		require.Contains(t, defaultInstance("", errors.New("no host name")), "unknown:")
	})

	bubble(t, "NAM-07 the same name in two stores", func(t *testing.T) {
		r, s := newRig(t), newRig(t)
		a, b := r.client(three()), s.client(three())
		g, h := mustLock(t, a, "same"), mustLock(t, b, "same")
		require.NoError(t, g.Unlock())
		require.NoError(t, h.Err())
		_, err := s.client(three()).TryLock(t.Context(), "same")
		var held *HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, "same", held.Lease.Name)
		require.NoError(t, h.Unlock())
	})
}
