package mssqlsim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/mssqlsim"
)

// TestGroupConverges does everything that can be done to a group, in any order and under load, and then puts it right
// again: all nodes must come to be the same.
func TestGroupConverges(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // chance, not secrets
	g, db := group(t, mssqlsim.GroupOptions{SessionTimeout: 2 * time.Millisecond, Nodes: []mssqlsim.NodeOptions{
		{Name: "a"}, {Name: "b"}, {Name: "c", Mode: mssqlsim.Asynchronous}, {Name: "d"},
	}})
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	for i, node := range append(g.Nodes(), "") {
		pool := db
		if node != "" {
			pool = connect(t, g.NodeDSN(node))
		}
		load.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				// Without a limit: the driver races with itself when it gives up a call whose connection is cut.
				_ = put(context.WithoutCancel(ctx), pool, fmt.Sprintf("%d/%d", i, n))
			}
		})
	}
	for until := time.Now().Add(time.Second); time.Now().Before(until); {
		disturb(g, random.IntN(12), g.Nodes()[random.IntN(4)], time.Duration(random.IntN(5))*time.Millisecond)
	}
	stop()
	g.SetRequiredSecondaries(0)
	load.Wait()

	g.EndSplit()
	for _, name := range g.Nodes() {
		g.SetLag(name, 0)
		g.SetRedoLag(name, 0)
		g.Up(name)
	}
	for _, name := range g.Nodes() {
		if g.Status(name).Role == mssqlsim.RoleResolving {
			require.NoError(t, g.Rejoin(name))
		}
		g.Resume(name)
	}
	require.NoError(t, put(within(t), db, "last"))
	primary := g.Node(g.Primary()).Node.Data()
	catalog, _ := primary.Catalog()
	for _, name := range g.Nodes() {
		applied(t, g, name)
		data := g.Node(name).Node.Data()
		assert.Equal(t, primary.Rows(catalog.Tables[0].ID), data.Rows(catalog.Tables[0].ID), name)
		assert.Equal(t, primary.Sequence(), data.Sequence(), name)
		assert.Equal(t, primary.Sequence(), data.Fork(primary), name)
	}
}

// disturb does one of the things that can be done to a group; that not all of them are possible at all times is part of it.
func disturb(g *mssqlsim.Group, what int, name string, d time.Duration) {
	switch what {
	case 0, 1:
		_ = g.Failover(name)
	case 2:
		_ = g.ForceFailover(name)
	case 3:
		_ = g.SplitFailover(name)
	case 4, 5:
		g.EndSplit()
	case 6:
		_ = g.Rejoin(name)
	case 7:
		g.Down(name)
	case 8:
		g.Up(name)
	case 9:
		g.Suspend(name)
	case 10:
		g.Resume(name)
	default:
		g.SetLag(name, d)
		g.SetRedoLag(name, d)
		g.SetRequiredSecondaries(int(d/time.Millisecond) % 2)
	}
}
