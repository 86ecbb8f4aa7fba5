package history_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/chaos_test/history"
	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store/memory"
)

func kinds(h history.History) string {
	var all []string
	for _, e := range h.Events {
		all = append(all, strings.TrimSpace(string(e.Kind)+" "+e.Op))
	}
	return strings.Join(all, ", ")
}

func TestClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var lines strings.Builder
		rec := history.NewRecorder(func() time.Duration { return time.Since(start) }, &lines)
		c, err := history.NewClient(rec, "c", memory.New(), history.Mutex(mutex.Config{}))
		require.NoError(t, err)
		g, err := c.Lock(t.Context(), "x", time.Second, 0)
		require.NoError(t, err)
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, g.Unlock())
		require.NoError(t, c.Close(context.Background()))
		require.NoError(t, rec.Err())

		h := rec.History()
		require.Equal(t, "call, sent acquire, answered acquire, grant, sent renew, answered renew, unlock, end, sent release, answered release, unlocked", kinds(h),
			"the end of the context is recorded before the release is sent")
		assert.Equal(t, 500*time.Millisecond, h.End())

		read, err := history.Read(strings.NewReader(lines.String() + `{"at": 12, "ki`))
		require.NoError(t, err, "a last line may be cut off")
		assert.Equal(t, kinds(h), kinds(read))
		assert.Len(t, history.Merge(read, h).Events, 2*len(h.Events))
	})
}
