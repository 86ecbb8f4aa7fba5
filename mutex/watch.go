package mutex

import (
	"time"

	"github.com/aaravsoft/leasehold/internal/clock"
)

// watcher compares the clocks while guards are held (rule 7). A guard's own timer runs on Go's monotonic clock, which
// stands still while the machine sleeps; the watcher sees that the other clocks went on, and has every guard judge itself.
// Its fields are guarded by Client.mu.
type watcher struct {
	timer *time.Timer
	armed bool
	every time.Duration
	base  clock.Instant // when the clocks were last found together
}

const (
	maxWatch = 250 * time.Millisecond
	// clockDrift is how far the clocks may drift apart, by adjustment, before it is looked at: it is covered by the margin.
	clockDrift = time.Millisecond
)

// watch arms the watcher for a new hold. Called with mu held.
func (c *Client) watch(t timing) {
	every := min(t.margin/4, maxWatch)
	w := &c.watcher
	switch {
	case w.armed && every >= w.every:
		return
	case w.armed:
		w.every = every
		w.timer.Reset(every)
		return
	}
	w.armed, w.every, w.base = true, every, c.clk()
	if w.timer == nil {
		w.timer = time.AfterFunc(every, c.compareClocks)
		return
	}
	w.timer.Reset(every)
}

func (c *Client) compareClocks() {
	now := c.clk()
	c.mu.Lock()
	w := &c.watcher
	if len(c.holds) == 0 {
		w.armed = false
		c.mu.Unlock()
		return
	}
	slept := now.Suspended - w.base.Suspended
	stepped := (now.Wall - w.base.Wall) - (now.Mono - w.base.Mono) - slept
	apart := slept > clockDrift || max(stepped, -stepped) > clockDrift
	var held []*hold
	if apart {
		w.base = now
		for h := range c.holds {
			held = append(held, h)
		}
	}
	w.timer.Reset(w.every)
	c.mu.Unlock()

	for _, h := range held {
		h.ctl.Check()
	}
	if apart {
		c.beat.Kick()
	}
}
