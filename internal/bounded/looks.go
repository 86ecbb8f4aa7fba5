package bounded

import (
	"context"
	"fmt"
	"time"

	"github.com/aaravsoft/leasehold/store"
)

// MaxLook is the longest that a look at the replicas may take, whatever its limit.
const MaxLook = 10 * time.Second

// Looks bounds the looks at a store's replicas, as [Calls] does the calls at the primary. They are a kind of their own.
type Looks struct {
	confirmer store.Confirmer
	lane      lane
}

// NewLooks returns bounded looks, with places for abandoned ones of their own.
func NewLooks(c store.Confirmer) *Looks { return &Looks{confirmer: c} }

// Confirm looks once, for at most limit. There is one time a lease, whatever the error: those of replicas that answered are
// valid next to the error of one that did not. The answer of an abandoned look is dropped: the next look says the same and
// more. The leases must not be touched again: an abandoned look goes on reading them.
func (l *Looks) Confirm(ctx context.Context, limit time.Duration, leases []store.Lease) ([]time.Time, error) {
	one := call[look, []time.Time]{
		question: look{l.confirmer, leases},
		caller:   ctx, lane: &l.lane, op: "confirm", limit: LimitError{min(limit, MaxLook)},
	}
	shown, err := one.do()
	if shown == nil {
		shown = make([]time.Time, len(leases))
	}
	return shown, err
}

type look struct {
	confirmer store.Confirmer
	leases    []store.Lease
}

func (q look) ask(_, ctx context.Context) ([]time.Time, error) {
	shown, err := q.confirmer.Confirm(ctx, q.leases)
	if len(shown) == len(q.leases) {
		return shown, err
	}
	if err == nil {
		err = notSent("confirm", fmt.Errorf("the store gave %d times for %d leases", len(shown), len(q.leases)))
	}
	return nil, err
}
