package mssql_test

import (
	"sync"
	"testing"
	"time"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/storetest"
)

// servers finds what a store was opened on.
type servers[T any] struct {
	mu   sync.Mutex
	list map[store.Store]T
}

func (s *servers[T]) put(st store.Store, on T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list[st] = on
}

func (s *servers[T]) of(st store.Store) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list[st]
}

// TestConformance is the contract of package store, on the simulated server through the real driver.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, coarse := range map[string]bool{"own table": false, "table of the .NET package": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			known := &servers[*mssqlsim.Server]{list: map[store.Store]*mssqlsim.Server{}}
			storetest.Run(t, storetest.Harness{
				Open: func(t *testing.T) store.Store {
					sim := server(t)
					if coarse {
						exec(t, database(t, sim), dotnetTable)
					}
					stopped := time.Date(2026, 5, 6, 7, 8, 9, 123456700, time.UTC)
					sim.Node.SetClock(func() time.Time { return stopped })
					s := ready(t, sim)
					known.put(s, sim)
					return s
				},
				Second: func(t *testing.T, first store.Store) store.Store {
					sim := known.of(first)
					s := open(t, sim)
					known.put(s, sim)
					return s
				},
				Elapse:      func(_ *testing.T, st store.Store, d time.Duration) { known.of(st).Node.Step(d) },
				StepClock:   func(_ *testing.T, st store.Store, d time.Duration) { known.of(st).Node.Step(d) },
				Exact:       true,
				Granularity: 100 * time.Nanosecond,
				PageSize:    500,
				CoarseNames: coarse,
			})
		})
	}
}

// dotnetTable is as the .NET package creates it: with the collation of the database.
const dotnetTable = `IF SCHEMA_ID(N'lease') IS NULL EXEC (N'CREATE SCHEMA [lease];');
EXEC (N'CREATE TABLE [lease].[Leases] (LeaseName NVARCHAR(200) NOT NULL, OwnerInstanceId NVARCHAR(128) NOT NULL,
	AcquiredAtUtc DATETIMEOFFSET(7) NOT NULL, RenewedAtUtc DATETIMEOFFSET(7) NOT NULL, ExpiresAtUtc DATETIMEOFFSET(7) NOT NULL,
	Metadata NVARCHAR(1024) NULL, RowVersion ROWVERSION NOT NULL, CONSTRAINT PK_Leases PRIMARY KEY (LeaseName));
CREATE INDEX IX_Leases_ExpiresAtUtc ON [lease].[Leases] (ExpiresAtUtc);');`
