package mssql_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/tds"
	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store/breaker"
)

// TestOutageLoad takes the server away from 200 clients, each with a pool of its own as a process has, for three leases:
// each holds a lock and waits for another one.
func TestOutageLoad(t *testing.T) {
	t.Parallel()
	processes := 200
	if racing {
		processes = 30
	}
	cfg := mutex.Config{TTL: 3 * time.Second, Drain: time.Millisecond}
	outage := 3 * cfg.TTL
	sim := server(t)
	ready(t, sim)
	clients, held := make([]*mutex.Client, processes), make([]*mutex.Guard, processes)
	var wait sync.WaitGroup
	for n := range clients {
		clients[n] = client(t, open(t, sim), cfg)
	}
	for n := range 8 {
		wait.Go(func() {
			for i := n; i < processes; i += 8 {
				g, err := clients[i].Lock(t.Context(), fmt.Sprint("held ", i))
				if assert.NoError(t, err) {
					held[i] = g
				}
			}
		})
	}
	wait.Wait()

	down := sim.Wire.Inject(tds.Fault{Place: tds.AtLogin, Effect: tds.Fail(tds.Message{Number: 40613, Class: 14, Text: "not available"})})
	sim.Disconnect(tds.RST)
	began := time.Now()
	back := began.Add(outage)
	var slowest time.Duration
	var mu sync.Mutex
	ctx, cancel := context.WithDeadline(t.Context(), back.Add(30*time.Second))
	defer cancel()
	for n, g := range held {
		left := g.Remaining()
		wait.Go(func() {
			<-g.Context().Done()
			lived := time.Since(began)
			assert.ErrorIs(t, g.Err(), mutex.ErrLost)
			assert.InDelta(t, left.Seconds(), lived.Seconds(), 1, "it ends at D")
			_ = g.Unlock()
		})
		wait.Go(func() {
			g, err := clients[n].Lock(ctx, fmt.Sprint("wanted ", n))
			if !assert.NoError(t, err) {
				return
			}
			mu.Lock()
			slowest = max(slowest, time.Since(back))
			mu.Unlock()
			assert.NoError(t, g.Unlock())
		})
	}
	<-time.After(time.Until(back))
	attempts := down.Count()
	down.Off()
	wait.Wait()
	t.Logf("%d processes, %v without a server: %d logins were tried, %.1f by each; the last waiter had its lock %v after the server's return",
		processes, outage, attempts, float64(attempts)/float64(processes), slowest.Round(time.Millisecond))
	// Before the breaker opens there are some acquisitions, then one a second; renewals and the release of a held lock, which
	// no breaker stops, come to about as many.
	assert.LessOrEqual(t, attempts, processes*4*int(outage/time.Second))
	require.Less(t, slowest, 2*time.Second+late)
}

// TestAcquisitionsAlone: a server on which only acquisitions fail costs no lock that is held.
func TestAcquisitionsAlone(t *testing.T) {
	t.Parallel()
	t.Run("BRK-03 the breaker is open for three leases", func(t *testing.T) {
		sim := server(t)
		cfg := brief
		cfg.Breaker.OpenFor = time.Minute // no probe: a renewal that succeeds would be one, once nobody waits any more
		locks := client(t, ready(t, sim), cfg)
		g, err := locks.Lock(t.Context(), "held")
		require.NoError(t, err)
		failing := sim.Wire.Inject(tds.Fault{Match: acquisitions, Place: tds.AtRequest, Effect: tds.Fail(tds.Message{Number: 701, Class: 17, Text: "memory"})})
		ctx, cancel := context.WithTimeout(t.Context(), 3*brief.TTL)
		defer cancel()
		var wait sync.WaitGroup
		for n := range 8 {
			wait.Go(func() {
				_, err := locks.Lock(ctx, fmt.Sprint("wanted ", n))
				assert.ErrorIs(t, err, mutex.ErrUnavailable)
			})
		}
		wait.Wait()
		assert.Equal(t, breaker.Open, locks.Health(t.Context()).Breaker.Phase)
		require.NoError(t, g.Err())
		failing.Off()
		require.NoError(t, g.Unlock(), "it is released through an open breaker")
	})
}
