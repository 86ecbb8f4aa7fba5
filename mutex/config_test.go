package mutex

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/store/memory"
)

func TestConfig(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  Config
		bad  []string // what the error names; none: accepted
	}{
		{"CFG-01 unset", Config{}, nil},
		{"CFG-01 negative", Config{TTL: -1, Renew: -time.Second, Margin: -1, Drain: -1}, []string{"TTL", "Renew", "Margin", "Drain", "-1s"}},
		{"CFG-01 too short a TTL", Config{TTL: 199 * time.Millisecond}, []string{"199ms", "200ms"}},
		{"CFG-01 too long a TTL", Config{TTL: 24*time.Hour + 1}, []string{"24h0m0.001s"}},
		{"CFG-01 the shortest", Config{TTL: 200 * time.Millisecond}, nil},
		{"CFG-01 the longest", Config{TTL: 24 * time.Hour}, nil},
		{"CFG-01 too small a margin", Config{Margin: 10 * time.Millisecond}, []string{"Margin", "50ms"}},
		{"CFG-02 R = L", Config{TTL: 3 * time.Second, Renew: 3 * time.Second}, []string{"3s", "1.1 × Renew"}},
		{"CFG-02 R > L", Config{TTL: 3 * time.Second, Renew: 4 * time.Second}, []string{"4s"}},
		{"CFG-02 R just below L", Config{TTL: 3 * time.Second, Renew: 2900 * time.Millisecond}, []string{"2.9s"}},
		{"CFG-02 R = L/3", Config{TTL: 3 * time.Second, Renew: time.Second}, nil},
		{"CFG-02 a margin that leaves nothing", Config{TTL: 3 * time.Second, Margin: 3 * time.Second}, []string{"Margin"}},
		{"NAM-05 an instance that is too long", Config{Instance: strings.Repeat("x", 112)}, []string{"112", "111"}},
		{"NAM-05 an instance that just fits", Config{Instance: strings.Repeat("x", 111)}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := New(memory.New(), tc.cfg)
			if len(tc.bad) == 0 {
				require.NoError(t, err)
				require.NotNil(t, c)
				return
			}
			require.ErrorIs(t, err, ErrInvalid)
			for _, word := range tc.bad {
				require.ErrorContains(t, err, word)
			}
		})
	}
	t.Run("CFG-03 no store", func(t *testing.T) {
		_, err := New(nil, Config{})
		require.ErrorIs(t, err, ErrInvalid)
	})
	t.Run("CFG-02 the limit that the error names is accepted", func(t *testing.T) {
		for _, cfg := range []Config{{TTL: 3 * time.Second, Renew: 2 * time.Second}, {TTL: time.Hour, Renew: time.Hour}} {
			_, err := New(memory.New(), cfg)
			var limit string
			_, after, found := strings.Cut(err.Error(), "Renew may be ")
			require.True(t, found)
			limit, _, _ = strings.Cut(after, " ")
			cfg.Renew, err = time.ParseDuration(limit)
			require.NoError(t, err)
			_, err = New(memory.New(), cfg)
			require.NoError(t, err)
			cfg.Renew += 2 * time.Millisecond
			_, err = New(memory.New(), cfg)
			require.ErrorIs(t, err, ErrInvalid)
		}
	})
	t.Run("a TTL for one lock scales all three", func(t *testing.T) {
		cfg, err := Config{TTL: 30 * time.Second, Renew: 5 * time.Second, Margin: 6 * time.Second}.withDefaults()
		require.NoError(t, err)
		got := cfg.timing(time.Minute)
		want := timing{ttl: time.Minute, renew: 10 * time.Second, margin: 12 * time.Second, drain: time.Minute}
		want.confirm = (want.ttl - want.margin - want.renew) * 9 / 10
		require.Equal(t, want, got)
		got = cfg.timing(200 * time.Millisecond)
		require.Equal(t, 50*time.Millisecond, got.margin)
		cfg, err = Config{}.withDefaults()
		require.NoError(t, err)
		want = timing{ttl: time.Hour, renew: time.Minute, margin: 6 * time.Minute, drain: time.Hour}
		want.confirm = 53 * time.Minute * 9 / 10
		require.Equal(t, want, cfg.timing(time.Hour))
		for ttl := minTTL; ttl <= maxTTL; ttl = ttl*3/2 + time.Microsecond {
			require.NoError(t, cfg.timing(min(ttl, maxTTL)).validate("TTL"), ttl)
		}
	})
	bubble(t, "CFG-01 options", func(t *testing.T) {
		c := newRig(t).client(three())
		for _, opt := range []Option{WithTTL(0), WithTTL(-1), WithTTL(time.Millisecond), WithTTL(25 * time.Hour), WithWait(-1), WithMaxHold(0), WithMaxHold(-1), WithParent(nil)} {
			_, err := c.Lock(t.Context(), "job", opt)
			require.ErrorIs(t, err, ErrInvalid)
		}
		_, err := c.Lock(nil, "job")
		require.ErrorIs(t, err, ErrInvalid)
		require.NoError(t, mustLock(t, c, "job", nil).Unlock())
	})
}

// eventLog records what the hooks are told.
type eventLog struct {
	mu   sync.Mutex
	seen []record
}

func (l *eventLog) hooks() Hooks {
	on := func(k kind) func(Event) {
		return func(e Event) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.seen = append(l.seen, record{kind: k, ev: e})
		}
	}
	return Hooks{
		Waiting: on(evWaiting), Acquired: on(evAcquired), Refused: on(evRefused), Renewed: on(evRenewed),
		AtRisk: on(evAtRisk), Lost: on(evLost), Released: on(evReleased),
	}
}

func (l *eventLog) of(k kind) []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []Event
	for _, r := range l.seen {
		if r.kind == k {
			out = append(out, r.ev)
		}
	}
	return out
}

func (l *eventLog) count(k kind) int { return len(l.of(k)) }

func TestEvents(t *testing.T) {
	capture := func(cfg Config, level slog.Level) (Config, *bytes.Buffer) {
		var out bytes.Buffer
		cfg.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))
		return cfg, &out
	}

	bubble(t, "OBS-01 normal endings are no warnings", func(t *testing.T) {
		r := newRig(t)
		cfg, out := capture(three(), slog.LevelWarn)
		c := r.client(cfg)
		for range 100 {
			require.NoError(t, mustLock(t, c, "job").Unlock())
		}
		g := mustLock(t, c, "job")
		other := r.client(cfg)
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			_, err := other.Lock(ctx, "job")
			require.ErrorIs(t, err, ErrHeld)
			cancel()
			_, err = other.Lock(t.Context(), "job", WithWait(50*time.Millisecond))
			require.ErrorIs(t, err, ErrHeld)
		}
		require.NoError(t, g.Unlock())
		require.NoError(t, c.Close(t.Context()))
		require.NoError(t, other.Close(t.Context()))
		require.Empty(t, out.String())
	})

	bubble(t, "OBS-02 contention is no warning", func(t *testing.T) {
		r := newRig(t)
		cfg, out := capture(Config{TTL: time.Second}, slog.LevelInfo)
		var wg sync.WaitGroup
		for range 8 {
			c := r.on(r.mem, cfg)
			wg.Go(func() {
				for r.at() < 10*time.Second {
					g, err := c.Lock(context.Background(), "job")
					if assert.NoError(t, err) {
						time.Sleep(20 * time.Millisecond)
						assert.NoError(t, g.Unlock())
					}
				}
			})
		}
		wg.Wait()
		require.Empty(t, out.String())
	})

	bubble(t, "the life of a lock, told with fixed keys", func(t *testing.T) {
		r := newRig(t)
		cfg, out := capture(three(), slog.LevelDebug)
		var events eventLog
		cfg.Hooks = events.hooks()
		c := r.client(cfg)
		other := mustLock(t, r.healthy(three()), "job")
		time.AfterFunc(2*time.Second, func() { _ = other.Unlock() })
		g := mustLock(t, c, "job")
		r.outage(errDown)
		<-g.Context().Done()
		r.faults.Clear()
		require.ErrorIs(t, g.Unlock(), ErrLost)
		require.NoError(t, c.Close(t.Context()))

		require.Equal(t, 1, events.count(evWaiting))
		var held *HeldError
		require.ErrorAs(t, events.of(evWaiting)[0].Err, &held)
		require.Equal(t, other.Owner(), held.Lease.Owner)
		require.Positive(t, events.count(evRefused))
		got := events.of(evAcquired)
		require.Len(t, got, 1)
		require.Equal(t, g.Token(), got[0].Token)
		require.GreaterOrEqual(t, got[0].Waited, 2*time.Second)
		require.Equal(t, 1, events.count(evAtRisk))
		require.ErrorIs(t, events.of(evAtRisk)[0].Err, errDown)
		require.Equal(t, 1, events.count(evLost))
		require.Equal(t, 1, events.count(evReleased))
		for _, key := range []string{"name=job", "owner=", "token=", "waited=", "held=", "left=", "reason=unconfirmed", "err="} {
			require.Contains(t, out.String(), key)
		}
		require.Contains(t, out.String(), "level=ERROR msg=\"leasehold: lost\"")
		require.Contains(t, out.String(), "level=WARN msg=\"leasehold: at risk\"")
	})

	bubble(t, "hooks may be slow, wrong, and use the client", func(t *testing.T) {
		r := newRig(t)
		var c *Client
		cfg := three()
		cfg.Hooks.Acquired = func(e Event) {
			if e.Name == "job" {
				g, err := c.Lock(context.Background(), "from a hook")
				assert.NoError(t, err)
				assert.NoError(t, g.Unlock())
				panic("a bug of the user's")
			}
		}
		released := make(chan Event, 2)
		cfg.Hooks.Released = func(e Event) { released <- e }
		c = r.client(cfg)
		require.NoError(t, mustLock(t, c, "job").Unlock())
		<-released
		<-released
	})

	bubble(t, "losses are never dropped, the rest is counted", func(t *testing.T) {
		r := newRig(t)
		gate := make(chan struct{})
		var lost, acquiredN int
		var dropped uint64
		cfg := three()
		cfg.Hooks = Hooks{
			Acquired: func(Event) { <-gate; acquiredN++ },
			Lost:     func(e Event) { lost++; dropped = e.Dropped },
		}
		c := r.client(cfg)
		for n := range 2000 {
			mustKeep(t, mustLock(t, c, nth(n)))
		}
		r.outage(errors.New("down"))
		time.Sleep(10 * time.Second)
		close(gate)
		require.NoError(t, c.tasks.wait(t.Context()))
		require.Equal(t, 2000, lost)
		require.Equal(t, uint64(2000-acquiredN), dropped)
		require.InDelta(t, maxQueued, acquiredN, 2)
	})
}

func nth(n int) string { return fmt.Sprintf("name-%d", n) }

// mustKeep keeps a guard reachable until the test ends, as a program that works under it does.
func mustKeep(t *testing.T, g *Guard) { t.Cleanup(func() { _ = g.Name() }) }
