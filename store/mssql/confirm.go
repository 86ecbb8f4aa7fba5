package mssql

import (
	"context"
	"time"

	"github.com/aaravsoft/leasehold/store"
)

type replica struct{ pool *pool }

func newReplicas(Config, table) ([]*replica, error) { return nil, nil }

// Confirm implements [store.Confirmer].
func (s *Store) Confirm(_ context.Context, leases []store.Lease) ([]time.Time, error) {
	return make([]time.Time, len(leases)), nil
}
