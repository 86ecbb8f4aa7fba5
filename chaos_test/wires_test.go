package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
)

// wires are the connections to simulated servers, and what can go wrong on them and in the servers' engines.
type wires struct {
	servers []*mssqlsim.Server
	tally   tally
}

// app is the application name by which the connections of a client are known.
func app(client int) string { return fmt.Sprintf("chaos-%d", client) }

func (w *wires) faults() []fault {
	leases := engine.Match{Contains: "[Leases]"}
	return []fault{
		w.wire("black hole", tds.AtWire, tds.Silence()),
		w.wire("slow network", tds.AtWire, tds.Delay(30*time.Millisecond)),
		w.wire("request held up", tds.AtRequest, tds.Silence()),
		w.wire("answer held up", tds.AtReply, tds.Silence()),
		w.wire("slow answer", tds.AtReply, tds.Delay(200*time.Millisecond)),
		w.wire("request lost", tds.AtRequest, tds.Close(tds.RST)),
		w.wire("answer lost", tds.AtReply, tds.Close(tds.RST)),
		w.wire("answer cut", tds.AtReply, tds.Cut(60, tds.FIN)),
		w.wire("answer and cancellation held up", tds.AtReply, tds.Silence(), tds.AtAttention),
		w.engine("deadlock victim", engine.BeforeCommit, leases, sqlerr.Deadlock(51)),
		w.engine("deadlock victim, after the commit", engine.AfterCommit, leases, sqlerr.Deadlock(51)),
		w.engine("lock timeout", engine.BeforeStatement, leases, sqlerr.LockTimeout()),
		w.engine("throttled", engine.BeforeStatement, leases, sqlerr.New(10929, "Resource ID: 1. The server is currently too busy.").With(20, 1)),
		w.noLogin(),
		{
			name: "connections cut", longest: time.Millisecond,
			begin: func(_ *rand.Rand, client int) func() {
				for _, s := range w.servers {
					w.tally.add("connections cut", s.Wire.CloseConns(tds.Match{App: app(client)}, tds.RST))
				}
				return func() {}
			},
			hits: w.tally.of("connections cut"),
		},
	}
}

// wire is a fault of one client's connections.
func (w *wires) wire(name string, place tds.Place, effect tds.Effect, also ...tds.Place) fault {
	return fault{
		name: name, longest: longest,
		begin: func(_ *rand.Rand, client int) func() {
			var switches []*tds.Switch
			for _, s := range w.servers {
				for _, at := range append(also, place) { // the rarest first
					switches = append(switches, s.Wire.Inject(tds.Fault{Match: tds.Match{App: app(client)}, Place: at, Effect: effect}))
				}
			}
			return func() {
				for i, sw := range switches {
					if i%(len(also)+1) == 0 {
						w.tally.add(name, sw.Count())
					}
					sw.Off()
				}
			}
		},
		hits: w.tally.of(name),
	}
}

// noLogin leaves a client without connections, and without a way to get some: what a login storm does, or a pool that is used up.
func (w *wires) noLogin() fault {
	const name = "no login"
	return fault{
		name: name, longest: longest, hits: w.tally.of(name),
		begin: func(_ *rand.Rand, client int) func() {
			var switches []*tds.Switch
			for _, s := range w.servers {
				match := tds.Match{App: app(client)}
				switches = append(switches, s.Wire.Inject(tds.Fault{Match: match, Place: tds.AtLogin, Effect: tds.Silence()}))
				s.Wire.CloseConns(match, tds.FIN)
			}
			return func() {
				for _, sw := range switches {
					w.tally.add(name, sw.Count())
					sw.Off()
				}
			}
		},
	}
}

// engine is a fault of statements, whoever sends them.
func (w *wires) engine(name string, point engine.Point, match engine.Match, err error) fault {
	return fault{
		name: name, resource: network, longest: 400 * time.Millisecond,
		begin: func(rng *rand.Rand, _ int) func() {
			var faults []*engine.Fault
			for _, s := range w.servers {
				faults = append(faults, s.Node.Fail(point, match, 1+rng.IntN(4), err))
			}
			return func() {
				for _, f := range faults {
					w.tally.add(name, f.Hits())
					f.Remove()
				}
			}
		},
		hits: w.tally.of(name),
	}
}
