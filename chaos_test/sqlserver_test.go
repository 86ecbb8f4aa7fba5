package chaos

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/chaos_test/check"
	"github.com/aaravsoft/leasehold/chaos_test/history"
	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store"
	"github.com/aaravsoft/leasehold/store/mssql"
)

// sqlServer is one simulated SQL Server, which the real driver talks to. It runs in real time.
type sqlServer struct {
	sim    *mssqlsim.Server
	stores []*mssql.Store
	admin  *mssql.Store // the operator's
	db     *sql.DB      // of somebody who locks rows
	tally  tally
}

// inRealTime is a service whose margins are large, because timers are late on a machine that does much else.
func inRealTime() profile {
	p := usual()
	p.duration, p.quiet, p.breaks = 5*time.Second, 150*time.Millisecond, 2*time.Second
	if *durationFlag != 0 {
		p.duration = *durationFlag
	}
	p.ttls = []time.Duration{800 * time.Millisecond, 1500 * time.Millisecond}
	p.margin = func(ttl time.Duration) time.Duration { return ttl / 3 }
	p.open = history.Mutex(mutex.Config{TTL: 1500 * time.Millisecond, Renew: 400 * time.Millisecond, Margin: 500 * time.Millisecond})
	return p
}

func newSQLServer(t *testing.T, clients int) *sqlServer {
	s := &sqlServer{sim: mssqlsim.New(mssqlsim.Options{})}
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

func app(client int) string { return fmt.Sprintf("chaos-%d", client) }

func (s *sqlServer) store(i int) store.Store { return s.stores[i] }

func (s *sqlServer) inspector() store.Inspector { return s.admin }

// longest is how long a statement can be held before it is executed: by a fault, then by a row.
const longest = 1500 * time.Millisecond

func (s *sqlServer) limits() limits {
	return limits{
		late: 2 * longest, timers: 200 * time.Millisecond,
		clock: check.Clock{Skew: skew + 20*time.Millisecond, Grain: 2 * time.Millisecond},
	}
}

func (s *sqlServer) faults() []fault {
	leases := engine.Match{Contains: "[Leases]"}
	return []fault{
		s.wire("black hole", tds.AtWire, tds.Silence()),
		s.wire("slow network", tds.AtWire, tds.Delay(30*time.Millisecond)),
		s.wire("request held up", tds.AtRequest, tds.Silence()),
		s.wire("answer held up", tds.AtReply, tds.Silence()),
		s.wire("slow answer", tds.AtReply, tds.Delay(200*time.Millisecond)),
		s.wire("request lost", tds.AtRequest, tds.Close(tds.RST)),
		s.wire("answer lost", tds.AtReply, tds.Close(tds.RST)),
		s.wire("answer cut", tds.AtReply, tds.Cut(60, tds.FIN)),
		s.wire("answer and cancellation held up", tds.AtReply, tds.Silence(), tds.AtAttention),
		s.engine("deadlock victim", engine.BeforeCommit, leases, sqlerr.Deadlock(51)),
		s.engine("deadlock victim, after the commit", engine.AfterCommit, leases, sqlerr.Deadlock(51)),
		s.engine("lock timeout", engine.BeforeStatement, leases, sqlerr.LockTimeout()),
		s.engine("throttled", engine.BeforeStatement, leases, sqlerr.New(10929, "Resource ID: 1. The server is currently too busy.").With(20, 1)),
		{
			name: "connections cut", longest: time.Millisecond,
			begin: func(_ *rand.Rand, client int) func() {
				s.tally.add("connections cut", s.sim.Wire.CloseConns(tds.Match{App: app(client)}, tds.RST))
				return func() {}
			},
			hits: s.tally.of("connections cut"),
		},
		{
			name: "restart", resource: network, longest: 400 * time.Millisecond,
			begin: func(*rand.Rand, int) func() {
				s.sim.Wire.Refuse()
				s.sim.Disconnect(tds.RST)
				s.tally.add("restart", 1)
				return s.sim.Wire.Listen
			},
			hits: s.tally.of("restart"),
		},
		{
			name: "clock ahead", resource: network, longest: longest,
			begin: func(*rand.Rand, int) func() {
				s.sim.Node.Step(skew)
				s.tally.add("clock ahead", 1)
				return func() { s.sim.Node.Step(-skew) }
			},
			hits: s.tally.of("clock ahead"),
		},
		{
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
		{name: "row locked", resource: network, longest: 600 * time.Millisecond, begin: s.lockRow, hits: s.tally.of("row locked")},
	}
}

// wire is a fault of one client's connections.
func (s *sqlServer) wire(name string, place tds.Place, effect tds.Effect, also ...tds.Place) fault {
	return fault{
		name: name, longest: longest,
		begin: func(_ *rand.Rand, client int) func() {
			var switches []*tds.Switch
			for _, at := range append(also, place) {
				switches = append(switches, s.sim.Wire.Inject(tds.Fault{Match: tds.Match{App: app(client)}, Place: at, Effect: effect}))
			}
			return func() {
				s.tally.add(name, switches[0].Count()) // of the rarest
				for _, sw := range switches {
					sw.Off()
				}
			}
		},
		hits: s.tally.of(name),
	}
}

// engine is a fault of statements, whoever sends them.
func (s *sqlServer) engine(name string, point engine.Point, match engine.Match, err error) fault {
	return fault{
		name: name, resource: network, longest: 400 * time.Millisecond,
		begin: func(rng *rand.Rand, _ int) func() {
			f := s.sim.Node.Fail(point, match, 1+rng.IntN(4), err)
			return func() {
				s.tally.add(name, f.Hits())
				f.Remove()
			}
		},
		hits: s.tally.of(name),
	}
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

func TestSQLServer(t *testing.T) {
	t.Parallel() // with what waits like it
	inParallel(t, inRealTime(), func(t *testing.T, p profile, _ uint64) topology { return newSQLServer(t, p.clients) })
}

// inParallel drives runs in real time, which mostly wait, beside each other; and judges them afterwards, for that takes
// processors away from timers.
func inParallel(t *testing.T, p profile, open func(t *testing.T, p profile, seed uint64) topology) {
	seeds := uint64(*seedsFlag)
	if *durationFlag == 0 {
		seeds = min(seeds, 3) // the short run
	}
	type result struct {
		history  history.History
		topology topology
		err      error
	}
	results := make([]result, seeds)
	t.Run("drive", func(t *testing.T) {
		for i := range results {
			t.Run(fmt.Sprintf("seed %d", *seedFlag+uint64(i)), func(t *testing.T) {
				t.Parallel()
				r := &results[i]
				r.topology = open(t, p, *seedFlag+uint64(i))
				r.history, r.err = drive(p, *seedFlag+uint64(i), r.topology)
			})
		}
	})
	var branches []map[string]int
	for i, r := range results {
		seed := *seedFlag + uint64(i)
		t.Run(fmt.Sprintf("judge seed %d", seed), func(t *testing.T) {
			require.NoError(t, r.err)
			branches = append(branches, check.Branches(r.history), struck(r.topology))
			report(t, command(strings.Split(t.Name(), "/")[0], p, seed), r.history, judge(t, r.history, p, r.topology.limits()))
		})
	}
	t.Logf("%d runs came to:\n%s", seeds, check.Count(branches...))
}
