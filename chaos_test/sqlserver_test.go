package chaos

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/chaos_test/check"
	"github.com/aaravsoft/leasehold/chaos_test/history"
	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/mssql"
)

// sqlServer is one simulated SQL Server, which the real driver talks to. It runs in real time.
type sqlServer struct {
	wires
	sim    *mssqlsim.Server
	stores []*mssql.Store
	admin  *mssql.Store // the operator's
	db     *sql.DB      // of somebody who locks rows
}

// inRealTime is a service whose margins are large, because timers are late on a machine that does much else.
func inRealTime() profile {
	p := usual()
	p.duration, p.quiet, p.breaks = 5*time.Second, 150*time.Millisecond, 2*time.Second
	if *durationFlag != 0 {
		p.duration = *durationFlag
	}
	p.ttls = []time.Duration{800 * time.Millisecond, 1500 * time.Millisecond}
	p.moment = 10 * time.Second
	p.margin = func(ttl time.Duration) time.Duration { return ttl / 3 }
	p.open = history.Mutex(mutex.Config{TTL: 1500 * time.Millisecond, Renew: 400 * time.Millisecond, Margin: 500 * time.Millisecond})
	return p
}

func newSQLServer(t *testing.T, clients int) *sqlServer {
	s := &sqlServer{sim: mssqlsim.New(mssqlsim.Options{})}
	s.servers = []*mssqlsim.Server{s.sim}
	open := func(app string) *mssql.Store {
		st, err := mssql.Open(s.sim.DSN("app name="+app), mssql.Config{})
		require.NoError(t, err)
		require.NoError(t, st.EnsureSchema(t.Context()))
		return st
	}
	for i := range clients {
		s.stores = append(s.stores, open(app(i)))
	}
	s.admin = open("operator")
	var err error
	s.db, err = sql.Open("sqlserver", s.sim.DSN("app name=somebody"))
	require.NoError(t, err)
	return s
}

func (s *sqlServer) store(i int) store.Store { return s.stores[i] }

func (s *sqlServer) inspector() store.Inspector { return s.admin }

// longest is how long a statement can be held before it is executed: by a fault, then by a row.
const longest = 1500 * time.Millisecond

func (s *sqlServer) limits() limits {
	return limits{
		late: 2 * longest, timers: time.Second,
		clock: check.Clock{Skew: skew + 20*time.Millisecond, Grain: 2 * time.Millisecond},
	}
}

func (s *sqlServer) faults() []fault {
	leases := engine.Match{Contains: "[Leases]"}
	return append(s.wires.faults(),
		fault{
			name: "restart", resource: network, longest: 400 * time.Millisecond,
			begin: func(*rand.Rand, int) func() {
				s.sim.Wire.Refuse()
				s.sim.Disconnect(tds.RST)
				s.tally.add("restart", 1)
				return s.sim.Wire.Listen
			},
			hits: s.tally.of("restart"),
		},
		fault{
			name: "clock ahead", resource: network, longest: longest,
			begin: func(*rand.Rand, int) func() {
				s.sim.Node.Step(skew)
				s.tally.add("clock ahead", 1)
				return func() { s.sim.Node.Step(-skew) }
			},
			hits: s.tally.of("clock ahead"),
		},
		fault{
			name: "row versions held up", resource: network, longest: 200 * time.Millisecond,
			begin: func(*rand.Rand, int) func() {
				gate := s.sim.Node.Gate(engine.RowVersionDrawn, leases)
				return func() {
					s.tally.add("row versions held up", len(gate.Arrived()))
					gate.Open()
				}
			},
			hits: s.tally.of("row versions held up"),
		},
		fault{name: "row locked", resource: network, longest: 600 * time.Millisecond, begin: s.lockRow, hits: s.tally.of("row locked")},
	)
}

// lockRow has somebody hold a row in a transaction that takes its time.
func (s *sqlServer) lockRow(rng *rand.Rand, _ int) func() {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	tx, err := s.db.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return func() {}
	}
	result, err := tx.ExecContext(ctx, "UPDATE [lease].[Leases] SET Metadata = Metadata WHERE LeaseName = @p1", fmt.Sprintf("lock-%d", rng.IntN(2)))
	if err == nil {
		n, _ := result.RowsAffected()
		s.tally.add("row locked", int(n))
	}
	return func() { _ = tx.Rollback() }
}

func (s *sqlServer) settle() {}

func (s *sqlServer) close() {
	for _, st := range append(s.stores, s.admin) {
		_ = st.Close()
	}
	_ = s.db.Close()
	s.sim.Close()
}
