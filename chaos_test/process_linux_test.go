package chaos

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/aaravsoft/leasehold/chaos_test/check"
	"github.com/aaravsoft/leasehold/chaos_test/history"
	"github.com/aaravsoft/leasehold/mutex"
	"github.com/aaravsoft/leasehold/store/sqlite"
)

// These are real processes on one SQLite file, which are stopped and killed. A process is this test binary, started again.
const roleVar = "LEASEHOLD_CHAOS_CHILD"

func TestMain(m *testing.M) {
	if name := os.Getenv(roleVar); name != "" {
		if err := child(name, os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, name, "failed:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// processes is how they work. The margin is large, because timers are late on a machine that does much else.
func processes(instance string) profile {
	return profile{
		workers: 2, names: 1, ttls: []time.Duration{time.Second}, duration: 6 * time.Second, work: 0.5, moment: 10 * time.Second,
		open: history.Mutex(mutex.Config{TTL: time.Second, Renew: 250 * time.Millisecond, Margin: processMargin, Instance: instance}),
	}
}

const processMargin = 350 * time.Millisecond

// onBoot is the clock that all processes of a machine share: since the time that the parent has written down.
func onBoot(start time.Duration) func() time.Duration {
	return func() time.Duration {
		var ts unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // never fails for a clock that exists
		return time.Duration(ts.Nano()) - start
	}
}

// child takes locks until the run is over.
func child(name, dir string) error {
	start, err := os.ReadFile(filepath.Join(dir, "start"))
	if err != nil {
		return err
	}
	now := onBoot(time.Duration(binary.BigEndian.Uint64(start)))
	st, err := sqlite.Open(filepath.Join(dir, "locks.db"))
	if err != nil {
		return err
	}
	defer st.Close()
	sink, err := os.Create(filepath.Join(dir, name+".jsonl"))
	if err != nil {
		return err
	}
	defer sink.Close()
	p := processes(name)
	r := &run{profile: p, rec: history.NewRecorder(now, sink), resource: fileResource{dir}}
	c, err := history.NewClient(r.rec, name, st, p.open)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.duration-now())
	defer cancel()
	var all sync.WaitGroup
	all.Go(func() { r.rec.Pulse(ctx, name) })
	for w := range p.workers {
		all.Go(func() { r.work(ctx, c, rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(w)))) })
	}
	all.Wait()
	ctx, cancel = context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := c.Close(ctx); ctx.Err() != nil {
		return err
	}
	return r.rec.Err()
}

// fileResource is a resource of several processes.
type fileResource struct{ dir string }

func (r fileResource) write(g *history.Guard) {
	f, err := os.OpenFile(filepath.Join(r.dir, "resource-"+g.Name()), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX) != nil {
		return
	}
	var greatest [8]byte
	_, _ = f.ReadAt(greatest[:], 0)
	g.Write(func(token uint64) bool {
		if token < binary.BigEndian.Uint64(greatest[:]) {
			return false
		}
		binary.BigEndian.PutUint64(greatest[:], token)
		_, err := f.WriteAt(greatest[:], 0)
		return err == nil
	})
}

// herd is the parent's view of its processes.
type herd struct {
	t     *testing.T
	dir   string
	rec   *history.Recorder
	procs map[string]*exec.Cmd
	born  int
}

func (h *herd) spawn() {
	name := fmt.Sprintf("p%d", h.born)
	h.born++
	self, err := os.Executable()
	require.NoError(h.t, err)
	cmd := exec.Command(self, h.dir)
	cmd.Env = append(os.Environ(), roleVar+"="+name)
	cmd.Stderr = os.Stderr
	require.NoError(h.t, cmd.Start())
	h.procs[name] = cmd
	h.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// stop freezes a process for a while.
func (h *herd) stop(name string, d time.Duration) {
	proc := h.procs[name].Process
	require.NoError(h.t, proc.Signal(unix.SIGSTOP))
	e := history.Event{Kind: history.Fault, Client: name, ID: h.rec.NextID(), Detail: "stopped"}
	h.rec.Add(e)
	time.Sleep(d)
	e.Kind = history.Heal
	h.rec.Add(e)
	require.NoError(h.t, proc.Signal(unix.SIGCONT))
}

// kill ends a process, and starts another one.
func (h *herd) kill(name string) {
	cmd := h.procs[name]
	require.NoError(h.t, cmd.Process.Kill())
	_ = cmd.Wait() // "signal: killed"
	h.rec.Add(history.Event{Kind: history.Fault, Client: name, ID: h.rec.NextID(), Detail: history.Killed})
	delete(h.procs, name)
	h.spawn()
}

// pauses are the times in which processes ran no code, and after which a guard may take a moment to see it.
func pauses(h history.History) []check.Pause {
	// A watcher looks at the clocks every quarter of the margin.
	const grace = processMargin/4 + 100*time.Millisecond
	healed := map[int]time.Duration{}
	all := check.Stalls(h)
	for _, e := range h.Events {
		if e.Kind == history.Heal {
			healed[e.ID] = e.At + grace
		}
	}
	for _, e := range h.Events {
		if e.Kind == history.Fault {
			to, ok := healed[e.ID]
			if !ok {
				to = h.End()
			}
			all = append(all, check.Pause{Client: e.Client, From: e.At, To: to})
		}
	}
	return all
}

func TestProcesses(t *testing.T) {
	t.Parallel() // with the runs on SQL servers, which wait as well
	t.Run("SAF-05 processes are stopped and killed while they hold", func(t *testing.T) {
		dir := t.TempDir()
		start := onBoot(0)()
		wall := time.Now()
		now := onBoot(start)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "start"), binary.BigEndian.AppendUint64(nil, uint64(start)), 0o600))
		st, err := sqlite.Open(filepath.Join(dir, "locks.db"))
		require.NoError(t, err)
		defer st.Close()
		h := &herd{t: t, dir: dir, rec: history.NewRecorder(now, nil), procs: map[string]*exec.Cmd{}}
		for range 3 {
			h.spawn()
		}
		p := processes(prober)
		for n, next := 0, 800*time.Millisecond; next < p.duration-2*time.Second; next = now() + 500*time.Millisecond {
			time.Sleep(next - now())
			row, err := st.Get(t.Context(), "lock-0")
			victim, _, _ := strings.Cut(row.Owner, "/")
			if err != nil || h.procs[victim] == nil {
				continue
			}
			if n++; n%2 == 0 {
				h.kill(victim)
			} else {
				h.stop(victim, 1500*time.Millisecond)
			}
		}
		for name, cmd := range h.procs {
			require.NoError(t, cmd.Wait(), name)
		}
		r := &run{profile: p, rec: h.rec}
		require.NoError(t, r.probe(context.Background(), st))
		record := h.record()
		record.Start = wall

		all := check.Overlaps(record, 0, pauses(record)...)
		all = append(all, check.TokensGrow(record)...)
		all = append(all, check.StaleWrites(record)...)
		all = append(all, check.FreeAgain(record, prober)...)
		all = append(all, check.OrphanRows(record, 0, 50*time.Millisecond)...)
		all = append(all, check.BurntIDs(record)...)
		all = append(all, check.TrustEnds(record, func(time.Duration) time.Duration { return processMargin }, 200*time.Millisecond, pauses(record)...)...)
		odd, undecided := check.Linearizable(record, check.Clock{Skew: 50 * time.Millisecond, Grain: time.Millisecond}, 0, 10*time.Second)
		require.Empty(t, undecided)
		report(t, "go test ./chaos_test -run TestProcesses", record, append(all, odd...))

		n := check.Branches(record)
		t.Log(check.Count(n))
		assert.NotZero(t, n["a row was taken over at its expiry"], "somebody went on after a process that was stopped or killed")
		assert.Greater(t, h.born, 3, "a process was killed")
	})
}

// record is what all processes and the parent have recorded.
func (h *herd) record() history.History {
	files, err := filepath.Glob(filepath.Join(h.dir, "*.jsonl"))
	require.NoError(h.t, err)
	histories := []history.History{h.rec.History()}
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(h.t, err)
		one, err := history.Read(bytes.NewReader(text))
		require.NoError(h.t, err)
		histories = append(histories, one)
	}
	return history.Merge(histories...)
}
