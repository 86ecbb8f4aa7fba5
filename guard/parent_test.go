package guard

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// slowErr is a user's context whose Err may take long (it asks somebody, or takes a lock).
type slowErr struct {
	context.Context
	gate chan struct{}
}

func (s slowErr) Err() error { <-s.gate; return s.Context.Err() }

func TestParentOfSomebodyElse(t *testing.T) {
	bubble(t, "SAF-08 its Err takes long", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p := slowErr{ctx, make(chan struct{}, 1000)}
		p.gate <- struct{}{}
		time.AfterFunc(20*time.Second, func() { close(p.gate) })
		r := newRig(t, p)
		require.LessOrEqual(t, r.doneAt(), trust)
	})
}
