package storetest_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/aaravsoft/leasehold/store"
)

func batchFlaws() []flaw {
	return []flaw{
		{"one invalid claim fails the batch", "rule S8: one claim's trouble", func(h *hooked) {
			h.renew = func(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
				for _, c := range claims {
					if err := c.Validate(); err != nil && len(claims) > 1 {
						return nil, err
					}
				}
				return h.Store.Renew(ctx, claims)
			}
		}},
		{"answers in the order of names", "rule S8", func(h *hooked) {
			h.release = func(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
				sorted := slices.Clone(claims)
				slices.SortStableFunc(sorted, func(a, b store.Claim) int { return strings.Compare(a.Name, b.Name) })
				return h.Store.Release(ctx, sorted)
			}
		}},
		{"only answers for rows that were found", "rule S8: a batch is answered per claim", func(h *hooked) {
			h.renew = func(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
				results, err := h.Store.Renew(ctx, claims)
				return slices.DeleteFunc(results, func(r store.Result) bool { return r.Lease.Owner == "" }), err
			}
		}},
		{"one TTL for all", "rule S8: each claim of a batch has its own TTL", func(h *hooked) {
			h.renew = func(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
				return before(h.Store.Renew, func(c store.Claim) store.Claim {
					c.TTL = claims[0].TTL
					return c
				})(ctx, claims)
			}
		}},
		{"any number of claims", "rule S8: a batch has at most MaxBatch claims", func(h *hooked) {
			h.release = func(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
				var all []store.Result
				for part := range slices.Chunk(claims, store.MaxBatch) {
					results, err := h.Store.Release(ctx, part)
					if err != nil {
						return nil, err
					}
					all = append(all, results...)
				}
				return all, nil
			}
		}},
		{"writes to the claims", "rule S12", func(h *hooked) {
			h.renew = func(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
				slices.Reverse(claims)
				results, err := h.Store.Renew(ctx, claims)
				slices.Reverse(results)
				return results, err
			}
		}},
	}
}

func inputFlaws() []flaw {
	return []flaw{
		{"names are trimmed", "rule S9", func(h *hooked) {
			h.acquire = func(ctx context.Context, c store.Claim) (store.Lease, error) {
				c.Name = strings.TrimSpace(c.Name)
				return h.Store.Acquire(ctx, c)
			}
		}},
		{"metadata is cut to fit", "rule S9", func(h *hooked) {
			h.acquire = func(ctx context.Context, c store.Claim) (store.Lease, error) {
				c.Metadata = c.Metadata[:min(len(c.Metadata), 1024)]
				return h.Store.Acquire(ctx, c)
			}
		}},
		{"metadata ends at a zero byte", "rule S13: metadata is returned as it was given", func(h *hooked) {
			h.acquire = func(ctx context.Context, c store.Claim) (store.Lease, error) {
				c.Metadata, _, _ = strings.Cut(c.Metadata, "\x00")
				return h.Store.Acquire(ctx, c)
			}
		}},
		{"a bare context error", "rule S10: a context that has ended is ErrUnavailable too", func(h *hooked) {
			h.renew = func(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				return h.Store.Renew(ctx, claims)
			}
		}},
		{"unclear though nothing was sent", "rule S10: what fails before the statement is sent", func(h *hooked) {
			h.acquire = func(ctx context.Context, c store.Claim) (store.Lease, error) {
				l, err := h.Store.Acquire(ctx, c)
				if down, ok := errors.AsType[*store.UnavailableError](err); ok {
					down.Unclear = true
				}
				return l, err
			}
		}},
		{"an ended context is ignored", "rule S10: a context that has ended is ErrUnavailable too", func(h *hooked) {
			h.release = func(ctx context.Context, claims []store.Claim) ([]store.Result, error) {
				return h.Store.Release(context.WithoutCancel(ctx), claims)
			}
		}},
	}
}

func inspectorFlaws() []flaw {
	// rows yields all that pass, in an order.
	rows := func(h *hooked, pass func(store.Lease) bool, less func(a, b store.Lease) int) iter.Seq2[store.Lease, error] {
		return func(yield func(store.Lease, error) bool) {
			var all []store.Lease
			for l := range h.Store.List(context.Background(), "") {
				if pass(l) {
					all = append(all, l)
				}
			}
			slices.SortStableFunc(all, less)
			for _, l := range all {
				if !yield(l, nil) {
					return
				}
			}
		}
	}
	byBytes := func(a, b store.Lease) int { return strings.Compare(a.Name, b.Name) }
	return []flaw{
		{"break frees", "Break disowns", func(h *hooked) {
			h.disown = func(ctx context.Context, name, owner string) (store.Lease, error) {
				l, err := h.Store.Break(ctx, name, owner)
				if err == nil {
					h.free(name)
				}
				return l, err
			}
		}},
		{"break ends the lease", "Break disowns", func(h *hooked) {
			h.disown = func(ctx context.Context, name, owner string) (store.Lease, error) {
				l, err := h.Store.Break(ctx, name, owner)
				l.Expires = l.Renewed.Add(1)
				return l, err
			}
		}},
		{"break revives the past", "Break returns ErrNotFound", func(h *hooked) {
			h.disown = func(ctx context.Context, name, owner string) (store.Lease, error) {
				l, err := h.Store.Break(ctx, name, owner)
				if row := h.row(name); errors.Is(err, store.ErrNotFound) && row.Owner == owner {
					return row, nil
				}
				return l, err
			}
		}},
		{"a prefix is a pattern", "List yields the rows whose names start with prefix", func(h *hooked) {
			h.list = func(ctx context.Context, prefix string) iter.Seq2[store.Lease, error] {
				return h.Store.List(ctx, strings.TrimSuffix(prefix, "%"))
			}
		}},
		{"list ignores case", "List yields the rows whose names start with prefix", func(h *hooked) {
			h.list = func(_ context.Context, prefix string) iter.Seq2[store.Lease, error] {
				prefix = strings.ToLower(prefix)
				return rows(h, func(l store.Lease) bool { return strings.HasPrefix(strings.ToLower(l.Name), prefix) }, byBytes)
			}
		}},
		{"list sorts UTF-16 units", "in the order of their names' bytes", func(h *hooked) {
			h.list = func(_ context.Context, prefix string) iter.Seq2[store.Lease, error] {
				return rows(h, func(l store.Lease) bool { return strings.HasPrefix(l.Name, prefix) }, func(a, b store.Lease) int {
					return slices.Compare(utf16.Encode([]rune(a.Name)), utf16.Encode([]rune(b.Name)))
				})
			}
		}},
		{"list counts rows", "List reads in pages and keeps nothing open", func(h *hooked) {
			h.list = func(ctx context.Context, prefix string) iter.Seq2[store.Lease, error] {
				return func(yield func(store.Lease, error) bool) {
					for seen := 0; ; {
						var all []store.Lease
						for l, err := range h.Store.List(ctx, prefix) {
							if err != nil {
								yield(l, err)
								return
							}
							all = append(all, l)
						}
						page := all[min(seen, len(all)):min(seen+50, len(all))]
						for _, l := range page {
							if !yield(l, nil) {
								return
							}
						}
						if seen += len(page); len(page) == 0 {
							return
						}
					}
				}
			}
		}},
		{"list stops after a page", "List yields the rows whose names start with prefix", func(h *hooked) {
			h.list = func(ctx context.Context, prefix string) iter.Seq2[store.Lease, error] {
				return func(yield func(store.Lease, error) bool) {
					n := 0
					for l, err := range h.Store.List(ctx, prefix) {
						if n++; n > 100 || !yield(l, err) {
							return
						}
					}
				}
			}
		}},
	}
}
