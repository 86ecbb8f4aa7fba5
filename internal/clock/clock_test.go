package clock

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const s = time.Second

func TestSinceTakesTheClockThatWentFarthest(t *testing.T) {
	sent := Instant{Mono: 100 * s, Suspended: 7 * s, Wall: 5000 * s}
	for name, tt := range map[string]struct {
		now   Instant
		since time.Duration
	}{
		"nothing happened":              {Instant{100 * s, 7 * s, 5000 * s}, 0},
		"all clocks agree":              {Instant{103 * s, 7 * s, 5003 * s}, 3 * s},
		"suspended":                     {Instant{101 * s, 17 * s, 5011 * s}, 11 * s},
		"suspended, wall clock wrong":   {Instant{101 * s, 17 * s, 5001 * s}, 11 * s},
		"suspended, only wall saw it":   {Instant{101 * s, 7 * s, 5011 * s}, 11 * s},
		"wall clock set forward":        {Instant{101 * s, 7 * s, 8601 * s}, 3601 * s},
		"CLK-05 wall clock set back":    {Instant{103 * s, 7 * s, 1403 * s}, 3 * s},
		"set back while suspended":      {Instant{103 * s, 9 * s, 1403 * s}, 5 * s},
		"an instant that has yet to be": {Instant{98 * s, 7 * s, 4999 * s}, -1 * s},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, tt.since, tt.now.Since(sent))
			assert.Equal(t, -tt.since, tt.now.Until(sent))
			deadline := sent.Add(3 * s)
			assert.Equal(t, 3*s-tt.since, tt.now.Until(deadline), "time left of a deadline 3 s after the send")
		})
	}
}

func TestAddMovesEveryClock(t *testing.T) {
	i := Instant{Mono: 1 * s, Suspended: 2 * s, Wall: 3 * s}
	assert.Equal(t, Instant{Mono: 6 * s, Suspended: 2 * s, Wall: 8 * s}, i.Add(5*s))
	assert.Equal(t, 5*s, i.Add(5*s).Since(i))
	assert.Equal(t, -5*s, i.Add(-5*s).Since(i))
	assert.Equal(t, 5*s, i.Until(i.Add(5*s)))
}

func TestTimeIsTheWallClockInUTC(t *testing.T) {
	at := time.Date(2026, 3, 4, 5, 6, 7, 8, time.FixedZone("x", 3600))
	got := Instant{Wall: time.Duration(at.UnixNano())}.Time()
	assert.True(t, at.Equal(got))
	assert.Equal(t, time.UTC, got.Location())
}

func TestSystemFollowsFakeTimeExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clk := System()
		start, began := clk(), time.Now()
		for n := range 10_000 {
			time.Sleep(time.Duration(n%977) * 1013 * time.Nanosecond)
			now := clk()
			require.Equal(t, start.Suspended, now.Suspended, "reading %d", n)
			require.Equal(t, time.Since(began), now.Since(start), "reading %d", n)
			require.Equal(t, time.Now().UTC(), now.Time(), "reading %d", n)
		}
	})
}

func TestSystemMadeOutsideABubble(t *testing.T) {
	clk := System() // as a package-level client in a user's test would
	synctest.Test(t, func(t *testing.T) {
		start := clk()
		time.Sleep(3 * time.Hour)
		assert.Equal(t, 3*time.Hour, clk().Since(start))
	})
}

func TestSystemInRealTime(t *testing.T) {
	clk := System()
	before := time.Now()
	first := clk()
	for range 1000 {
		now := clk()
		assert.GreaterOrEqual(t, now.Mono, first.Mono)
		assert.Equal(t, first.Suspended, now.Suspended)
	}
	assert.LessOrEqual(t, clk().Mono-first.Mono, time.Since(before))
	assert.WithinDuration(t, time.Now(), clk().Time(), time.Minute)
}

func TestSuspendedIsSticky(t *testing.T) {
	type bounds struct{ low, high time.Duration }
	const us, ms = time.Microsecond, time.Millisecond
	for name, tt := range map[string]struct {
		last     time.Duration
		readings []bounds // the last one repeats
		want     time.Duration
	}{
		"noise above":                       {5 * s, []bounds{{5*s + 900*us, 5*s + 901*us}}, 5 * s},
		"noise below":                       {5 * s, []bounds{{5*s - 901*us, 5*s - 900*us}}, 5 * s},
		"a reading that was interrupted":    {5 * s, []bounds{{2 * s, 9 * s}}, 5 * s},
		"nothing known":                     {5 * s, []bounds{{math.MinInt64 / 2, math.MaxInt64 / 2}}, 5 * s},
		"a suspend":                         {5 * s, []bounds{{8 * s, 8*s + 2*us}}, 8*s + us},
		"a short suspend":                   {5 * s, []bounds{{5*s + 2*ms, 5*s + 2*ms}}, 5*s + 2*ms},
		"creeping down":                     {5 * s, []bounds{{5*s - 2*ms, 5*s - 2*ms}}, 5*s - 2*ms},
		"a suspend, interrupted once":       {5 * s, []bounds{{6 * s, 9 * s}, {8 * s, 8 * s}}, 8 * s},
		"a suspend, interrupted every time": {5 * s, []bounds{{7 * s, 9 * s}}, 8 * s},
		"the first reading":                 {0, []bounds{{3 * time.Hour, 3 * time.Hour}}, 3 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			var sus suspended
			sus.last.Store(int64(tt.last))
			n := 0
			got := sus.read(func() (low, high time.Duration) {
				b := tt.readings[min(n, len(tt.readings)-1)]
				n++
				return b.low, b.high
			})
			assert.Equal(t, tt.want, got)
			assert.Equal(t, tt.want, time.Duration(sus.last.Load()))
		})
	}
}

func TestAnOutdatedReadingDoesNotOverwriteANewerOne(t *testing.T) {
	var sus suspended
	sus.last.Store(int64(5 * s))
	got := sus.read(func() (low, high time.Duration) {
		sus.last.Store(int64(20 * s)) // another goroutine saw the next suspend meanwhile
		return 8 * s, 8 * s
	})
	assert.Equal(t, 20*s, got)
	assert.Equal(t, 20*s, time.Duration(sus.last.Load()))
}

func TestAReadingIsGoodForAMoment(t *testing.T) {
	var sus suspended
	value, reads := time.Duration(0), 0
	bounds := func() (low, high time.Duration) {
		reads++
		return value, value
	}
	require.Zero(t, sus.at(time.Second, bounds))
	value = time.Minute
	require.Zero(t, sus.at(time.Second+fresh-1, bounds))
	require.Equal(t, 1, reads)
	require.Equal(t, time.Minute, sus.at(time.Second+fresh, bounds))
	require.Equal(t, 2, reads)
	require.Equal(t, time.Minute, sus.at(time.Millisecond, bounds), "a reading of before is no reading of now")
	require.Equal(t, 3, reads)
}

func BenchmarkSystem(b *testing.B) {
	b.ReportAllocs()
	clk := System()
	for b.Loop() {
		clk()
	}
}
