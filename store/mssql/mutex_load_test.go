package mssql_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store/mssql"
)

var loadFor = flag.Duration("load", 5*time.Second, "how long TestLoad runs")

// TestLoad is 32 goroutines, of four clients, that lock four names for 200 ms at a time, while deadlocks, lock timeouts, lost
// replies, cut connections and silences that outlast the leases go on among them.
func TestLoad(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	sim := mssqlsim.New(mssqlsim.Options{})
	defer sim.Close()
	l := &load{names: map[string]*grants{}}
	for n := range 4 {
		l.names[fmt.Sprintf("job %d", n)] = &grants{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), *loadFor)
	defer cancel()
	var work, trouble sync.WaitGroup
	var clients []*mutex.Client
	var stores []*mssql.Store
	for range 4 {
		st, err := mssql.Open(sim.DSN(), mssql.Config{})
		require.NoError(t, err)
		require.NoError(t, st.EnsureSchema(ctx))
		locks, err := mutex.New(st, mutex.Config{TTL: 200 * time.Millisecond, Drain: time.Millisecond})
		require.NoError(t, err)
		stores, clients = append(stores, st), append(clients, locks)
	}
	trouble.Go(func() { l.makeTrouble(ctx, sim) })
	for n := range 32 {
		work.Go(func() { l.work(ctx, t, clients[n%len(clients)]) })
	}
	work.Wait()
	trouble.Wait()
	for name, g := range l.names {
		assert.Positive(t, g.count, "%s was never granted", name)
	}
	t.Logf("%d grants, %d guards lost; %v", l.granted.Load(), l.lost.Load(), l.hits)
	assert.Positive(t, l.lost.Load(), "no guard was ever lost: there was not enough trouble")
	for what, n := range l.hits {
		assert.Positive(t, n, "%s never happened", what)
	}
	closing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, c := range clients {
		if err := c.Close(closing); err != nil {
			assert.ErrorIs(t, err, mutex.ErrLost, "it names those that have crashed")
		}
	}
	// Whatever is left has been written last by a call that was executed late: it lives for one TTL at most.
	time.Sleep(200 * time.Millisecond)
	for row, err := range stores[0].List(closing, "") {
		require.NoError(t, err)
		assert.Zero(t, row.Left, "the row of %s has outlived its TTL", row.Owner)
	}
	for _, st := range stores {
		assert.NoError(t, st.Close())
	}
	require.Eventually(t, func() bool { return sim.Wire.Stats().Open == 0 }, 5*time.Second, time.Millisecond, "connections are left")
}

// load is what the goroutines share.
type load struct {
	names         map[string]*grants
	granted, lost atomic.Int64
	hits          map[string]int // written by makeTrouble alone
}

// grants are those of one name.
type grants struct {
	mu    sync.Mutex
	last  *mutex.Guard
	at    time.Time // when last was registered
	count int
}

// enter registers a grant, whose Lock was called at asked, and judges it beside the one before.
func (g *grants) enter(t *testing.T, guard *mutex.Guard, asked time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.last != nil {
		// Err re-checks D, so a timer that comes late on a busy machine makes no false alarm.
		if guard.Err() == nil && g.last.Err() == nil {
			assert.Fail(t, "two live guards", "%s and %s of %q", g.last.Owner(), guard.Owner(), guard.Name())
		}
		if asked.After(g.at) {
			assert.Greater(t, guard.Token(), g.last.Token(), "of two grants of %q one after the other", guard.Name())
		}
	}
	g.last, g.at = guard, time.Now()
	g.count++
}

func (l *load) work(ctx context.Context, t *testing.T, locks *mutex.Client) {
	for ctx.Err() == nil {
		name := fmt.Sprintf("job %d", rand.N(4))
		crash := rand.N(8) == 0 // it is neither renewed nor released: the row expires
		var options []mutex.Option
		if crash {
			options = append(options, mutex.WithMaxHold(time.Millisecond))
		}
		hold := rand.N(20 * time.Millisecond)
		if rand.N(16) == 0 {
			hold = 300 * time.Millisecond // beyond a lease: only renewals keep it, and a silence costs it
		}
		asked := time.Now()
		guard, err := locks.Lock(ctx, name, options...)
		if err != nil {
			if ctx.Err() == nil {
				assert.NoError(t, err, "Lock waits")
			}
			continue
		}
		l.granted.Add(1)
		l.names[name].enter(t, guard, asked)
		select {
		case <-guard.Context().Done():
		case <-time.After(hold):
		}
		if crash {
			continue
		}
		if err := guard.Unlock(); errors.Is(err, mutex.ErrLost) {
			l.lost.Add(1)
		}
	}
}

// makeTrouble goes on until ctx ends.
func (l *load) makeTrouble(ctx context.Context, sim *mssqlsim.Server) {
	deadlock := sqlerr.New(1205, "Transaction was deadlocked").With(13, 51).Ends(sqlerr.EndsBatch)
	timeout := sqlerr.New(1222, "Lock request time out period exceeded.").With(16, 51)
	once := func(place tds.Place, effect tds.Effect, match tds.Match) func() {
		return func() {
			s := sim.Wire.Inject(tds.Fault{Match: match, Place: place, Effect: effect, Times: 1})
			_ = s.Reached(ctx, 1)
			s.Off()
		}
	}
	fail := func(point engine.Point, contains string, err error) func() {
		return func() {
			f := sim.Node.Fail(point, engine.Match{Contains: contains}, 1, err)
			for f.Hits() == 0 && ctx.Err() == nil {
				pause(ctx, time.Millisecond)
			}
			f.Remove()
		}
	}
	kinds := []struct {
		name string
		do   func()
	}{
		{"a deadlock of an acquisition", fail(engine.BeforeStatement, "INSERT INTO [lease]", deadlock)},
		{"a deadlock after the commit", fail(engine.AfterCommit, "UPDATE [lease]", deadlock)},
		{"a lock timeout", fail(engine.BeforeStatement, "UPDATE [lease]", timeout)},
		{"a lost reply of an acquisition", once(tds.AtReply, tds.Close(tds.RST), acquisitions)},
		{"a lost reply", once(tds.AtReply, tds.Close(tds.FIN), tds.Match{})},
		{"a reply that is cut", once(tds.AtReply, tds.Cut(50, tds.FIN), tds.Match{})},
		{"a lost request", once(tds.AtRequest, tds.Close(tds.RST), tds.Match{})},
		{"a late reply", once(tds.AtReply, tds.Delay(70*time.Millisecond), tds.Match{})},
		{"all connections cut", func() { sim.Disconnect(tds.RST) }},
		{"silence beyond the lease", func() {
			s := sim.Wire.Inject(tds.Fault{Place: tds.AtWire, Effect: tds.Silence()})
			pause(ctx, 250*time.Millisecond)
			s.Off()
		}},
	}
	l.hits = map[string]int{}
	for _, k := range kinds {
		l.hits[k.name] = 0
	}
	for n := 0; ctx.Err() == nil; n++ {
		k := kinds[n%len(kinds)]
		k.do()
		if ctx.Err() == nil {
			l.hits[k.name]++
		}
		pause(ctx, rand.N(30*time.Millisecond))
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
