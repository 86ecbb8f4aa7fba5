package storetest_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aaravsoft/leasehold/store"
)

// flaw is a way to get a store wrong, and what the suite has to say to it.
type flaw struct {
	name string
	rule string // a part of the failure
	put  func(h *hooked)
}

func flaws() []flaw {
	return slices.Concat(acquireFlaws(), extendFlaws(), scopeFlaws(), tokenFlaws(), batchFlaws(), inputFlaws(), inspectorFlaws())
}

func acquireFlaws() []flaw {
	return []flaw{
		{"look, then write", "rule S1: of any number of concurrent claims", func(h *hooked) {
			h.acquire = func(ctx context.Context, c store.Claim) (store.Lease, error) {
				if h.row(c.Name).Left == 0 {
					time.Sleep(time.Millisecond)
					h.free(c.Name)
				}
				return h.Store.Acquire(ctx, c)
			}
		}},
		{"insert only", "rule S1: Acquire grants a claim", func(h *hooked) {
			h.acquire = func(ctx context.Context, c store.Claim) (store.Lease, error) {
				if row := h.row(c.Name); row.Owner != "" && row.Left == 0 {
					return store.Lease{}, &store.HeldError{Lease: row}
				}
				return h.Store.Acquire(ctx, c)
			}
		}},
		{"last claim wins", "rule S1: Acquire refuses a claim", func(h *hooked) {
			h.acquire = func(ctx context.Context, c store.Claim) (store.Lease, error) {
				h.free(c.Name)
				return h.Store.Acquire(ctx, c)
			}
		}},
		{"expired one tick late", "rule S1: Acquire grants a claim", func(h *hooked) {
			h.acquire = func(ctx context.Context, c store.Claim) (store.Lease, error) {
				if row := h.row(c.Name); row.Expires.Equal(time.Now()) {
					return store.Lease{}, &store.HeldError{Lease: row}
				}
				return h.Store.Acquire(ctx, c)
			}
		}},
		{"a refusal without details", "a refusal is a *HeldError", func(h *hooked) {
			h.acquire = func(ctx context.Context, c store.Claim) (store.Lease, error) {
				l, err := h.Store.Acquire(ctx, c)
				if errors.Is(err, store.ErrHeld) {
					err = store.ErrHeld
				}
				return l, err
			}
		}},
		{"a refusal of two classes", "rule S10: every error has exactly one class", func(h *hooked) {
			h.acquire = func(ctx context.Context, c store.Claim) (store.Lease, error) {
				l, err := h.Store.Acquire(ctx, c)
				if errors.Is(err, store.ErrHeld) {
					err = errors.Join(err, store.ErrUnavailable)
				}
				return l, err
			}
		}},
		{"Left is the TTL", "Left is the time until Expires", func(h *hooked) {
			h.acquire = func(ctx context.Context, c store.Claim) (store.Lease, error) {
				l, err := h.Store.Acquire(ctx, c)
				if held, ok := errors.AsType[*store.HeldError](err); ok {
					held.Lease.Left = held.Lease.Expires.Sub(held.Lease.Renewed)
				}
				return l, err
			}
		}},
		{"local times", "rule S13: times are in UTC", func(h *hooked) {
			h.acquire = func(ctx context.Context, c store.Claim) (store.Lease, error) {
				l, err := h.Store.Acquire(ctx, c)
				l.Expires = l.Expires.In(time.FixedZone("", 3600))
				return l, err
			}
		}},
	}
}

// extendFlaws is about what Renew and a repeated Acquire do to a row.
func extendFlaws() []flaw {
	revive := func(h *hooked, when func(store.Lease) bool) batch {
		return after(h.Store.Renew, func(c store.Claim, r store.Result) store.Result {
			if errors.Is(r.Err, store.ErrLost) && when(r.Lease) && (r.Lease.Owner == c.Owner || r.Lease.Owner == "") {
				l, err := h.Store.Acquire(context.Background(), c)
				return store.Result{Lease: l, Err: err}
			}
			return r
		})
	}
	return []flaw{
		{"renew revives", "rule S5: Renew never revives an expired lease", func(h *hooked) {
			h.renew = revive(h, func(row store.Lease) bool { return row.Owner != "" })
		}},
		{"renew revives in the last instant", "rule S2: at Expires <= now a lease is expired", func(h *hooked) {
			h.renew = revive(h, func(row store.Lease) bool { return row.Expires.Equal(time.Now()) })
		}},
		{"renew creates", "rule S5: Renew never creates a row", func(h *hooked) {
			h.renew = revive(h, func(row store.Lease) bool { return row.Owner == "" })
		}},
		{"renew shortens", "rule S3", func(h *hooked) {
			h.renew = after(h.Store.Renew, func(c store.Claim, r store.Result) store.Result {
				if r.Err == nil {
					r.Lease.Expires = r.Lease.Renewed.Add(c.TTL)
				}
				return r
			})
		}},
		{"renew keeps a far expiry", "rule S3", func(h *hooked) {
			h.renew = before(h.Store.Renew, func(c store.Claim) store.Claim {
				if l := h.row(c.Name); c.Validate() == nil && l.Owner == c.Owner && l.Left > c.TTL {
					c.TTL = l.Left.Truncate(time.Millisecond)
				}
				return c
			})
		}},
		{"renew takes metadata", "rule S5: Renew changes Renewed and Expires, nothing else", func(h *hooked) {
			h.renew = after(h.Store.Renew, func(c store.Claim, r store.Result) store.Result {
				r.Lease.Metadata = c.Metadata
				return r
			})
		}},
		{"acquire again starts afresh", "rule S5: an Acquire that finds its own live row", func(h *hooked) {
			h.acquire = func(ctx context.Context, c store.Claim) (store.Lease, error) {
				if h.row(c.Name).Owner == c.Owner {
					h.free(c.Name)
				}
				return h.Store.Acquire(ctx, c)
			}
		}},
		{"acquire revives", "rule S5: an expired lease is not revived, not even", func(h *hooked) {
			h.acquire = func(ctx context.Context, c store.Claim) (store.Lease, error) {
				old := h.row(c.Name)
				l, err := h.Store.Acquire(ctx, c)
				if old.Owner == c.Owner {
					l.Acquired = old.Acquired
				}
				return l, err
			}
		}},
	}
}

// scopeFlaws is about whose row an operation touches.
func scopeFlaws() []flaw {
	anyOwner := func(h *hooked) func(store.Claim) store.Claim {
		return func(c store.Claim) store.Claim {
			if row := h.row(c.Name); row.Owner != "" && c.ValidateKey() == nil {
				c.Owner = row.Owner
			}
			return c
		}
	}
	return []flaw{
		{"renew without owner", "rule S4: Renew, Release and Break touch a row only", func(h *hooked) {
			h.renew = before(h.Store.Renew, anyOwner(h))
		}},
		{"release without owner", "rule S4: Renew, Release and Break touch a row only", func(h *hooked) {
			h.release = before(h.Store.Release, anyOwner(h))
		}},
		{"break without owner", "Break returns ErrNotFound", func(h *hooked) {
			h.disown = func(ctx context.Context, name, owner string) (store.Lease, error) {
				return h.Store.Break(ctx, name, anyOwner(h)(store.Claim{Name: name, Owner: owner}).Owner)
			}
		}},
		{"owners without case", "rule S4: owners are compared exactly", func(h *hooked) {
			h.renew = before(h.Store.Renew, func(c store.Claim) store.Claim {
				if row := h.row(c.Name); strings.EqualFold(row.Owner, c.Owner) {
					c.Owner = row.Owner
				}
				return c
			})
		}},
		{"names without case", "rule S1: Acquire grants a claim", func(h *hooked) {
			h.acquire = func(ctx context.Context, c store.Claim) (store.Lease, error) {
				for row := range h.Store.List(ctx, "") {
					if strings.EqualFold(row.Name, c.Name) {
						c.Name = row.Name
					}
				}
				return h.Store.Acquire(ctx, c)
			}
		}},
		{"release does not tell that it was late", "rule S6: Release reports a row that had already expired", func(h *hooked) {
			h.release = after(h.Store.Release, func(c store.Claim, r store.Result) store.Result {
				if r.Lease.Owner == c.Owner {
					r.Err = nil
				}
				return r
			})
		}},
		{"release leaves expired rows", "rule S6: Release deletes, also what has expired", func(h *hooked) {
			h.release = func(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
				for _, c := range claims {
					if row := h.row(c.Name); row.Owner == c.Owner && row.Left == 0 {
						return []store.Result{{Lease: row, Err: store.ErrLost}}, nil // good enough for batches of one
					}
				}
				return h.Store.Release(ctx, claims)
			}
		}},
	}
}

func tokenFlaws() []flaw {
	return []flaw{
		{"the token restarts with the row", "rule S7", func(h *hooked) {
			var mu sync.Mutex
			last := map[string]uint64{}
			h.acquire = func(ctx context.Context, c store.Claim) (store.Lease, error) {
				l, err := h.Store.Acquire(ctx, c)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					last[c.Name]++
					l.Version = last[c.Name]
				}
				return l, err
			}
			h.release = func(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
				mu.Lock()
				defer mu.Unlock()
				results, err := h.Store.Release(ctx, claims)
				for i, r := range results {
					if r.Err == nil {
						delete(last, claims[i].Name)
					}
				}
				return results, err
			}
		}},
		{"the token is drawn before the row is held", "also if the row was contended", func(h *hooked) {
			var last atomic.Uint64
			h.acquire = func(ctx context.Context, c store.Claim) (store.Lease, error) {
				token := last.Add(1)
				time.Sleep(rand.N(4 * time.Millisecond))
				l, err := h.Store.Acquire(ctx, c)
				l.Version = token
				return l, err
			}
		}},
		{"the token of a takeover is the old one", "rule S7", func(h *hooked) {
			var mu sync.Mutex
			last := map[string]uint64{}
			h.acquire = func(ctx context.Context, c store.Claim) (store.Lease, error) {
				mu.Lock()
				defer mu.Unlock()
				found := h.row(c.Name).Owner != ""
				l, err := h.Store.Acquire(ctx, c)
				if err == nil && !found {
					last[c.Name] = l.Version
				}
				l.Version = last[c.Name]
				return l, err
			}
		}},
	}
}
