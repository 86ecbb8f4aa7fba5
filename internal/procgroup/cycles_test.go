//go:build linux

package procgroup_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestManyGroupsLeaveNothing(t *testing.T) {
	tl := startTool(t, nil)
	cycles := func(n int) time.Duration {
		begin := time.Now()
		// In parts, each of which stays far below the limit for an answer.
		for ; n > 0; n -= 5 {
			tl.do(order{Do: "cycles", Count: min(n, 5), Argv: []string{"true"}})
		}
		return time.Since(begin)
	}
	cycles(5) // what the runtime opens and starts once
	before := tl.do(order{Do: "count"}).Counts
	took := cycles(200)
	after := tl.do(order{Do: "count"}).Counts
	t.Logf("%v a start and end; children, descriptors, goroutines: %v", took/200, after)
	assert.Equal(t, before, after)
}
