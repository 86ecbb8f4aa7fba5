package mssql

import (
	"context"
	"database/sql/driver"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
	"github.com/aaravsoft/leasehold/store"
)

// dialing is a connector on a simulated server.
func dialing(t *testing.T, options mssqlsim.Options, parameters ...string) (*mssqlsim.Server, *connector) {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	sim := mssqlsim.New(options)
	_, p, err := open(sim.DSN(parameters...), 4)
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, p.close())
		sim.Close()
		goleak.VerifyNone(t, leaks)
	})
	return sim, p.own
}

// briefly is a context of a caller in a hurry.
func briefly(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// state is how many logins run, callers wait and connections are parked.
func (c *connector) state() (logins, waiting, parked int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.logins), len(c.waiting), len(c.parked)
}

func TestConnector(t *testing.T) {
	const late = time.Second // on a busy machine

	for name, test := range map[string]struct {
		place      tds.Place
		encryption tds.Encryption
		parameter  string
	}{
		"CON-01 PRELOGIN is not answered":   {tds.AtAccept, tds.EncryptionOffered, "encrypt=disable"},
		"PRELOGIN is the last answer":       {tds.AtPrelogin, tds.EncryptionOffered, "encrypt=disable"},
		"the TLS handshake is not answered": {tds.AtPrelogin, tds.EncryptionRequired, "encrypt=true"},
		"LOGIN7 is not answered":            {tds.AtLogin, tds.EncryptionOffered, "encrypt=disable"},
	} {
		t.Run(name, func(t *testing.T) {
			sim, c := dialing(t, mssqlsim.Options{Wire: tds.Options{Encryption: test.encryption}}, test.parameter)
			c.limit = 300 * time.Millisecond
			silent := sim.Wire.Inject(tds.Fault{Place: test.place, Effect: tds.Silence()})
			defer silent.Off()
			began := time.Now()
			_, err := c.Connect(briefly(t))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Less(t, time.Since(began), late)
			logins, waiting, _ := c.state()
			assert.Equal(t, 1, logins, "the login goes on")
			assert.Zero(t, waiting)

			_, err = c.Connect(t.Context()) // waits for the one that runs, to its limit
			require.ErrorContains(t, err, "no login within 300ms")
			require.Eventually(t, func() bool { n, _, _ := c.state(); return n == 0 }, 5*time.Second, time.Millisecond)
			assert.EqualValues(t, 1, sim.Wire.Stats().Accepted, "one login for both callers")
			c.mu.Lock()
			sockets := len(c.open)
			c.mu.Unlock()
			assert.Zero(t, sockets)
			require.Eventually(t, func() bool { // the client has hung up, though the server still holds its end
				for _, conn := range sim.Wire.Conns() {
					if !conn.HungUp {
						return false
					}
				}
				return true
			}, 5*time.Second, time.Millisecond)
		})
	}

	t.Run("many callers in a hurry share one login, and one of those after them gets it", func(t *testing.T) {
		sim, c := dialing(t, mssqlsim.Options{})
		slow := sim.Wire.Inject(tds.Fault{Place: tds.AtLogin, Effect: tds.Silence()})
		for range 5 { // one after the other: as a short lease tries again and again
			_, err := c.Connect(briefly(t))
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		assert.EqualValues(t, 1, sim.Wire.Stats().Accepted)
		slow.Off()
		require.Eventually(t, func() bool { _, _, n := c.state(); return n == 1 }, 5*time.Second, time.Millisecond)
		one, err := c.Connect(t.Context())
		require.NoError(t, err)
		another, err := c.Connect(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 2, sim.Wire.Stats().Logins, "the second has a login of its own")
		require.NoError(t, one.Close())
		require.NoError(t, another.Close())
	})

	t.Run("two callers at once have two logins", func(t *testing.T) {
		sim, c := dialing(t, mssqlsim.Options{})
		held := sim.Wire.Inject(tds.Fault{Place: tds.AtLogin, Effect: tds.Silence()})
		conns := make(chan driver.Conn, 2)
		for range 2 {
			go func() {
				conn, err := c.Connect(t.Context())
				assert.NoError(t, err)
				conns <- conn
			}()
		}
		require.NoError(t, held.Reached(t.Context(), 2))
		held.Off()
		for range 2 {
			require.NoError(t, (<-conns).Close())
		}
	})

	t.Run("a parked connection is closed when its time is over", func(t *testing.T) {
		sim, c := dialing(t, mssqlsim.Options{})
		c.keep = 50 * time.Millisecond
		slow := sim.Wire.Inject(tds.Fault{Place: tds.AtLogin, Effect: tds.Silence()})
		_, err := c.Connect(briefly(t))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		slow.Off()
		require.Eventually(t, func() bool { s := sim.Wire.Stats(); return s.Logins == 1 && s.Open == 0 }, 5*time.Second, time.Millisecond)
		_, _, parked := c.state()
		assert.Zero(t, parked)
	})

	t.Run("a connection that was taken from the park stays", func(t *testing.T) {
		sim, c := dialing(t, mssqlsim.Options{})
		c.keep = 200 * time.Millisecond
		slow := sim.Wire.Inject(tds.Fault{Place: tds.AtLogin, Effect: tds.Silence()})
		_, err := c.Connect(briefly(t))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		slow.Off()
		var conn driver.Conn
		require.Eventually(t, func() bool { _, _, n := c.state(); return n == 1 }, 5*time.Second, time.Millisecond)
		conn, err = c.Connect(t.Context())
		require.NoError(t, err)
		<-time.After(2 * c.keep)
		require.NoError(t, conn.(driver.Pinger).Ping(t.Context()))
		assert.EqualValues(t, 1, sim.Wire.Stats().Logins)
		require.NoError(t, conn.Close())
	})

	t.Run("a login that is refused is no reason to wait", func(t *testing.T) {
		sim, c := dialing(t, mssqlsim.Options{})
		refused := sim.Wire.Inject(tds.Fault{Place: tds.AtLogin, Effect: tds.Fail(tds.Message{Number: 18456, Class: 14, Text: "no"})})
		_, err := c.Connect(t.Context())
		require.Error(t, err)
		refused.Off()
		logins, waiting, parked := c.state()
		assert.Zero(t, logins+waiting+parked)
	})

	t.Run("nothing is dialled for a caller that has gone, nor after Close", func(t *testing.T) {
		sim, c := dialing(t, mssqlsim.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := c.Connect(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, c.Close())
		_, err = c.Connect(t.Context())
		require.ErrorIs(t, err, store.ErrInvalid)
		assert.Zero(t, sim.Wire.Stats().Accepted)
	})

	t.Run("a login that is too slow for its caller is there for the next one", func(t *testing.T) {
		sim, c := dialing(t, mssqlsim.Options{})
		slow := sim.Wire.Inject(tds.Fault{Place: tds.AtLogin, Effect: tds.Silence()})
		_, err := c.Connect(briefly(t))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		slow.Off()
		require.Eventually(t, func() bool { _, _, n := c.state(); return n == 1 }, 5*time.Second, time.Millisecond)
		conn, err := c.Connect(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 1, sim.Wire.Stats().Accepted)
		require.NoError(t, conn.(driver.Pinger).Ping(t.Context()))
		require.NoError(t, conn.Close())
	})

	t.Run("a caller takes over a login whose own caller has left", func(t *testing.T) {
		sim, c := dialing(t, mssqlsim.Options{})
		slow := sim.Wire.Inject(tds.Fault{Place: tds.AtLogin, Effect: tds.Silence()})
		_, err := c.Connect(briefly(t))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.AfterFunc(50*time.Millisecond, slow.Off)
		conn, err := c.Connect(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 1, sim.Wire.Stats().Accepted)
		require.NoError(t, conn.Close())
	})

	t.Run("what nobody takes is closed, by time or because it is forgotten", func(t *testing.T) {
		sim, c := dialing(t, mssqlsim.Options{})
		for _, lose := range []func(*parked){c.drop, func(*parked) { c.forget() }} {
			slow := sim.Wire.Inject(tds.Fault{Place: tds.AtLogin, Effect: tds.Silence()})
			_, err := c.Connect(briefly(t))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			slow.Off()
			require.Eventually(t, func() bool { _, _, n := c.state(); return n == 1 }, 5*time.Second, time.Millisecond)
			c.mu.Lock()
			one := c.parked[0]
			c.mu.Unlock()
			lose(one)
			c.drop(one) // twice does no harm
			_, _, parked := c.state()
			assert.Zero(t, parked)
			require.Eventually(t, func() bool { return sim.Wire.Stats().Open == 0 }, 5*time.Second, time.Millisecond)
		}
	})

	t.Run("Close ends logins that hang, and calls", func(t *testing.T) {
		sim := mssqlsim.New(mssqlsim.Options{})
		defer sim.Close()
		st, err := Open(sim.DSN(), Config{})
		require.NoError(t, err)
		require.NoError(t, st.EnsureSchema(t.Context()))
		silent := sim.Wire.Inject(tds.Fault{Place: tds.AtWire, Effect: tds.Silence()})
		defer silent.Off()
		errs := make(chan error, 2)
		for range 2 { // one on the idle connection, one that has to log in
			go func() {
				_, err := st.Get(context.WithoutCancel(t.Context()), "job")
				errs <- err
			}()
		}
		require.Eventually(t, func() bool { n, _, _ := st.pool.own.state(); return n == 1 }, 5*time.Second, time.Millisecond)
		began := time.Now()
		require.NoError(t, st.Close())
		for range 2 {
			require.Error(t, <-errs)
		}
		assert.Less(t, time.Since(began), late)
	})

	t.Run("a certificate that nobody knows, and a port of something else", func(t *testing.T) {
		sim, _ := dialing(t, mssqlsim.Options{Wire: tds.Options{Encryption: tds.EncryptionRequired}})
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer listener.Close()
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\nthis is no SQL Server at all"))
			}
		}()
		for _, dsn := range []string{sim.DSN("encrypt=true"), "sqlserver://" + listener.Addr().String() + "?encrypt=disable"} {
			st, err := Open(dsn, Config{})
			require.NoError(t, err)
			_, err = st.Get(t.Context(), "job")
			require.ErrorIs(t, err, store.ErrMisconfigured, dsn)
			assert.ErrorContains(t, err, "certificate")
			require.NoError(t, st.Close())
		}
	})

	t.Run("a port that nobody listens at", func(t *testing.T) {
		sim, _ := dialing(t, mssqlsim.Options{})
		sim.Wire.Refuse()
		st, err := Open(sim.DSN(), Config{})
		require.NoError(t, err)
		_, err = st.Get(t.Context(), "job")
		require.ErrorIs(t, err, store.ErrUnavailable)
		assert.NotErrorIs(t, err, store.ErrUnclear)
		require.NoError(t, st.Close())
	})

	t.Run("a connection is reset and dead connections are replaced before anything is sent", func(t *testing.T) {
		sim := mssqlsim.New(mssqlsim.Options{})
		defer sim.Close()
		st, err := Open(sim.DSN(), Config{})
		require.NoError(t, err)
		defer st.Close()
		require.NoError(t, st.EnsureSchema(t.Context()))
		sim.Disconnect(tds.RST)
		require.Eventually(t, func() bool { return sim.Wire.Stats().Open == 0 }, 5*time.Second, time.Millisecond)
		_, err = st.Get(t.Context(), "job")
		if err != nil { // the write may have been accepted before the reset was seen
			assert.NotErrorIs(t, err, store.ErrMisconfigured)
		}
		_, err = st.Get(t.Context(), "job")
		assert.ErrorIs(t, err, store.ErrNotFound)
	})
}
