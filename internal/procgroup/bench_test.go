//go:build linux

package procgroup_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/internal/procgroup"
)

// BenchmarkStart measures what a run pays before its command: a supervisor from nothing to ready. It grows with what
// the executable initialises before main.
func BenchmarkStart(b *testing.B) {
	var private int64
	for b.Loop() {
		g, err := procgroup.Start(time.Second)
		require.NoError(b, err)
		b.StopTimer()
		private = max(private, supervisorMemory(b))
		g.Close()
		b.StartTimer()
	}
	b.ReportMetric(float64(private), "private-KiB")
}

// BenchmarkRun measures all that a run adds, and the command "true".
func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		g, err := procgroup.Start(time.Second)
		require.NoError(b, err)
		require.NoError(b, g.Deadline(procgroup.BootClock()+time.Minute))
		require.NoError(b, g.Exec([]string{"true"}, os.Environ(), nil))
		for range g.Events() {
		}
		g.Close()
	}
}

// supervisorMemory is what the supervisor does not share with this process's executable.
func supervisorMemory(b *testing.B) (kibibytes int64) {
	for _, p := range processes() {
		if p.parent != os.Getpid() || p.args != "lh-supervisor" {
			continue
		}
		rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p.pid))
		require.NoError(b, err)
		for line := range strings.Lines(string(rollup)) {
			var n int64
			if _, err := fmt.Sscanf(line, "Private_Dirty: %d kB", &n); err == nil {
				kibibytes += n
			}
		}
	}
	return kibibytes
}
