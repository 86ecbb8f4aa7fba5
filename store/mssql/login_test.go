package mssql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	mssqldb "github.com/microsoft/go-mssqldb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
	"github.com/aaravsoft/leasehold/store"
)

// nothing is a connection that does nothing.
type nothing struct{ driver.Conn }

func (nothing) Close() error { return nil }

// TestSlowLogins is about logins in fake time: script says how long each takes, and how it ends.
func TestSlowLogins(t *testing.T) {
	type outcome struct {
		after time.Duration
		err   error
	}
	const never = time.Hour
	errGone := errors.New("the node is gone")
	run := func(name string, script []outcome, check func(t *testing.T, c *connector, begun *atomic.Int64)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var begun atomic.Int64
				c := newConnector(nil, func(ctx context.Context, _ mssqldb.Dialer) (driver.Conn, error) {
					does := script[min(int(begun.Add(1)), len(script))-1]
					select {
					case <-time.After(does.after):
						return nothing{}, does.err
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				})
				check(t, c, &begun)
				require.NoError(t, c.Close())
			})
		})
	}
	// call is a caller with a second to spare.
	call := func(c *connector) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := c.Connect(ctx)
		return err
	}

	run("CON-01 one that hangs is not counted on for ever", []outcome{{never, nil}, {0, nil}}, func(t *testing.T, c *connector, begun *atomic.Int64) {
		for range 3 {
			require.ErrorIs(t, call(c), context.DeadlineExceeded)
		}
		assert.EqualValues(t, 1, begun.Load())
		require.NoError(t, call(c), "another node has taken over meanwhile")
		assert.EqualValues(t, 2, begun.Load())
	})

	run("LIV-01 however long they hang there are few", []outcome{{never, nil}}, func(t *testing.T, c *connector, begun *atomic.Int64) {
		c.limit = time.Hour
		for start := time.Now(); time.Since(start) < time.Minute; {
			require.Error(t, call(c))
		}
		assert.EqualValues(t, 1+moreLogins, begun.Load())
	})

	run("the failure of an old one is not the answer to a caller for whom another runs",
		[]outcome{{5 * time.Second, errGone}, {3 * time.Second, nil}}, func(t *testing.T, c *connector, _ *atomic.Int64) {
			require.Error(t, call(c))
			time.Sleep(3 * time.Second)
			_, err := c.Connect(context.Background())
			require.NoError(t, err)
		})

	run("that of the last one is", []outcome{{5 * time.Second, errGone}, {2 * time.Second, errGone}}, func(t *testing.T, c *connector, _ *atomic.Int64) {
		require.Error(t, call(c))
		time.Sleep(3 * time.Second)
		start := time.Now()
		_, err := c.Connect(context.Background())
		require.ErrorIs(t, err, errGone)
		assert.Equal(t, 2*time.Second, time.Since(start), "of the only one that was left")
	})
}

// TestRefusedLogins is about logins that the server refuses, for whatever reason.
func TestRefusedLogins(t *testing.T) {
	for name, test := range map[string]struct {
		number int32
		class  error
		remedy string
	}{
		"too little memory":           {701, store.ErrUnavailable, ""},
		"a number that is in no list": {17892, store.ErrUnavailable, ""},
		"the password":                {18456, store.ErrMisconfigured, "refused the login"},
	} {
		t.Run("rule 16: "+name, func(t *testing.T) {
			sim, c := dialing(t, mssqlsim.Options{})
			sim.Wire.Inject(tds.Fault{Place: tds.AtLogin, Effect: tds.Fail(tds.Message{Number: test.number, Class: 14, Text: "no"})})
			for range 20 {
				_, err := c.Connect(t.Context())
				err = classify(t.Context(), "acquire", false, table{}, err)
				require.ErrorIs(t, err, test.class)
				require.ErrorContains(t, err, test.remedy)
				require.NotErrorIs(t, err, store.ErrUnclear)
				require.NotContains(t, err.Error(), "certificate")
			}
			c.mu.Lock()
			assert.Empty(t, c.open, "no socket is left")
			c.mu.Unlock()
			require.Eventually(t, func() bool { return sim.Wire.Stats().Open == 0 }, 5*time.Second, time.Millisecond)
		})
	}
}

// TestDistrust is about what an error says about other connections.
func TestDistrust(t *testing.T) {
	sim := mssqlsim.New(mssqlsim.Options{})
	defer sim.Close()
	_, p, err := open(sim.DSN(), 2)
	require.NoError(t, err)
	p.limitOthers()
	defer func() { assert.NoError(t, p.close()) }()
	ask := func(ctx context.Context) error {
		return p.query(ctx, call{op: "ask", sql: "SELECT @p1;", args: []any{1}}, func() {}, func(*sql.Rows) error { return nil })
	}
	require.NoError(t, ask(t.Context()))
	require.Equal(t, 1, p.db.Stats().Idle)
	parked := &parked{conn: nothing{}, timer: time.NewTimer(time.Hour)}
	p.own.parked = append(p.own.parked, parked)

	t.Run("a caller without time says nothing", func(t *testing.T) {
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		require.ErrorIs(t, ask(ctx), store.ErrUnavailable)
		_, _, parked := p.own.state()
		assert.Equal(t, 1, parked)
		assert.Equal(t, 1, p.db.Stats().Idle)
	})
	t.Run("a dead connection does", func(t *testing.T) {
		sim.Wire.Inject(tds.Fault{Place: tds.AtReply, Effect: tds.Close(tds.RST), Times: 1})
		require.ErrorIs(t, ask(t.Context()), store.ErrUnclear)
		_, _, parked := p.own.state()
		assert.Zero(t, parked)
		assert.Zero(t, p.db.Stats().OpenConnections)
		require.NoError(t, ask(t.Context()))
	})
}

// TestOneSweep is about sweeps that take longer than the pause between them.
func TestOneSweep(t *testing.T) {
	sim := mssqlsim.New(mssqlsim.Options{})
	defer sim.Close()
	st, err := Open(sim.DSN(), Config{})
	require.NoError(t, err)
	defer st.Close()
	require.NoError(t, st.EnsureSchema(t.Context()))
	hang := sim.Wire.Inject(tds.Fault{Place: tds.AtRequest, Effect: tds.Silence()})
	st.sweepSoon()
	for range 3 {
		st.sweeping.next = time.Time{} // the pause is over
		st.sweepSoon()
	}
	assert.Len(t, st.pool.share, 1)
	hang.Off()
	st.sweeping.wait.Wait()
	st.sweepSoon()
	st.sweeping.wait.Wait()
	assert.Empty(t, st.pool.share)
}
