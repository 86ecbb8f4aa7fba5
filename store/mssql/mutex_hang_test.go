package mssql_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
	"github.com/aaravsoft/leasehold/mutex"
)

// brief is a lease whose whole life fits into a test: trust lasts 900 ms, an attempt 300 ms.
var brief = mutex.Config{TTL: time.Second, Renew: 300 * time.Millisecond, Margin: 100 * time.Millisecond, Drain: time.Millisecond}

// late is how late something may be on a busy machine. The exact times are the subject of the tests in fake time.
const late = 700 * time.Millisecond

// hang is a way in which the driver, or the server, does not answer.
type hang struct {
	name   string
	faults []tds.Fault
	logins bool // only logins meet it: what is connected must be cut first
}

func hangs() []hang {
	at := func(place tds.Place, effect tds.Effect) tds.Fault { return tds.Fault{Place: place, Effect: effect} }
	return []hang{
		{name: "CON-01 PRELOGIN is never answered", logins: true, faults: []tds.Fault{at(tds.AtAccept, tds.Silence())}},
		{name: "silent after PRELOGIN, before TLS and LOGIN7", logins: true, faults: []tds.Fault{at(tds.AtPrelogin, tds.Silence())}},
		{name: "LOGIN7 is never answered", logins: true, faults: []tds.Fault{at(tds.AtLogin, tds.Silence())}},
		{name: "a statement outlives its deadline, the attention is confirmed", faults: []tds.Fault{at(tds.AtRequest, tds.Silence())}},
		{name: "CON-02 a statement outlives its deadline, the attention is not confirmed",
			faults: []tds.Fault{at(tds.AtRequest, tds.Silence()), at(tds.AtAttention, tds.Silence())}},
		{name: "CON-01 the network swallows everything", faults: []tds.Fault{at(tds.AtWire, tds.Silence())}},
		{name: "silent in the middle of the rows", faults: []tds.Fault{at(tds.AtRow, tds.Silence()), at(tds.AtAttention, tds.Silence())}},
		{name: "executed, the answer never comes", faults: []tds.Fault{at(tds.AtReply, tds.Silence())}},
		{name: "executed, the answer comes when the deadline has passed", faults: []tds.Fault{at(tds.AtReply, tds.Delay(400*time.Millisecond))}},
		{name: "executed, the connection ends", faults: []tds.Fault{at(tds.AtReply, tds.Close(tds.FIN))}},
		{name: "the answer is cut", faults: []tds.Fault{at(tds.AtReply, tds.Cut(60, tds.RST))}},
		{name: "an error after the first row", faults: []tds.Fault{at(tds.AtRow, tds.Fail(tds.Message{Number: 1205, Class: 13, Text: "deadlock"}))}},
		{name: "every connection is refused", logins: true, faults: []tds.Fault{at(tds.AtLogin, tds.Fail(tds.Message{Number: 40613, Class: 14, Text: "not available"}))}},
	}
}

// TestHang has a lock held while nothing is answered any more: its context ends at D, every call returns within its
// bound, and when the fault is over everything works again. None of our calls opens a transaction or goes without
// parameters, so the driver's hangs in COMMIT and with unparametrised batches cannot be met.
func TestHang(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Run("", func(t *testing.T) { // returns when all of its parallel tests have ended
		for _, h := range hangs() {
			t.Run(h.name, func(t *testing.T) {
				t.Parallel()
				sim := server(t)
				h.run(t, sim, client(t, ready(t, sim), brief))
			})
		}
	})
}

func (h hang) run(t *testing.T, sim *mssqlsim.Server, locks *mutex.Client) {
	held, err := locks.Lock(t.Context(), "held")
	require.NoError(t, err)
	var switches []*tds.Switch
	for _, f := range h.faults {
		switches = append(switches, sim.Wire.Inject(f))
	}
	if h.logins {
		sim.Disconnect(tds.RST)
	}
	// From here on no renewal is confirmed: one may have been answered just before.
	left, began := held.Remaining(), time.Now()

	limit := 200 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	asked := time.Now()
	_, err = locks.Lock(ctx, "other")
	assert.ErrorIs(t, err, mutex.ErrUnavailable)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Less(t, time.Since(asked), limit+late, "Lock ends with its context")

	asked = time.Now()
	_, err = locks.TryLock(t.Context(), "another")
	assert.ErrorIs(t, err, mutex.ErrUnavailable)
	assert.Less(t, time.Since(asked), 300*time.Millisecond+late, "TryLock ends with its attempt")

	<-held.Context().Done()
	lived := time.Since(began)
	assert.ErrorIs(t, context.Cause(held.Context()), mutex.ErrLost)
	assert.GreaterOrEqual(t, lived, left-50*time.Millisecond, "not before D")
	assert.Less(t, lived, left+late, "at D")

	asked = time.Now()
	assert.ErrorIs(t, held.Unlock(), mutex.ErrLost)
	assert.Less(t, time.Since(asked), late, "the Unlock of a lost guard returns at once")

	require.NoError(t, switches[0].Reached(t.Context(), 1))
	for _, s := range switches {
		s.Off()
	}
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, name := range []string{"held", "other", "another"} {
		g, err := locks.Lock(ctx, name)
		if assert.NoError(t, err, name) {
			assert.NoError(t, g.Unlock())
		}
	}
}
