// Package history records what the clients of a lock do, and what the store answers, on one clock: so that checkers can
// judge a run that nobody watched, and a page can show it.
//
// A history assumes that its clock is one: the fake time of a bubble, or the boot-time clock that all processes of a
// machine share. Events that were recorded by one process are in the order in which they happened; of two processes,
// the time decides.
package history

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aaravsoft/leasehold/store"
)

// Kind is what happened.
type Kind string

// The kinds. From Call to Unlocked they are about one call of Lock, with its ID.
const (
	Call     Kind = "call"     // Lock was called
	Grant    Kind = "grant"    // it has returned a guard
	Refused  Kind = "refused"  // it has returned an error: Class, Detail
	Risk     Kind = "risk"     // a renewal failed
	Safe     Kind = "safe"     // one has succeeded again
	End      Kind = "end"      // the guard's context has ended
	Lost     Kind = "lost"     // the guard says that it is lost: Detail is the reason
	Unlock   Kind = "unlock"   // Unlock was called
	Unlocked Kind = "unlocked" // it has returned: Class, empty if the release is confirmed

	Sent     Kind = "sent"     // a claim goes to the store: Op, with an ID of its own
	Answered Kind = "answered" // and comes back: Class, Row

	Write Kind = "write" // the protected resource was written with Token; Class is Stale if it refused

	Stall Kind = "stall" // the process of Client, or of all, was not run for the TTL before: see Pulse

	Fault Kind = "fault" // begins: Detail is its kind, ID its own
	Heal  Kind = "heal"  // ends
)

// Abandoned is the Detail of a statement whose context had ended. If it is an unclear answer's, the statement may still be executed;
// other unclear answers come from a connection that has ended, and with it its statement. If it was so when the store was called, the
// store has sent nothing.
const Abandoned = "abandoned"

// Killed is the Detail of a fault after which its client is gone for good.
const Killed = "killed"

// The classes of outcomes that are not those of package store.
const (
	Stale = "stale"
	Other = "other"
)

// Ops of a statement.
const (
	Acquire = "acquire"
	Renew   = "renew"
	Release = "release"
	Break   = "break"
)

// Event is one thing that happened. Fields that do not apply are zero.
type Event struct {
	At     time.Duration `json:"at"` // since the run began
	Kind   Kind          `json:"kind"`
	Client string        `json:"client,omitempty"`
	ID     int           `json:"id,omitempty"` // of the call, the statement or the fault; unique within a client
	Name   string        `json:"name,omitempty"`
	Owner  string        `json:"owner,omitempty"`
	Token  uint64        `json:"token,omitempty"`
	TTL    time.Duration `json:"ttl,omitempty"`
	Op     string        `json:"op,omitempty"`
	Class  string        `json:"class,omitempty"`
	Detail string        `json:"detail,omitempty"`
	Row    *Row          `json:"row,omitempty"`
}

// Row is a lease as an answer shows it.
type Row struct {
	Owner   string        `json:"owner"`
	Expires time.Time     `json:"expires"`
	Left    time.Duration `json:"left"`
	Version uint64        `json:"version,omitempty"`
}

func (e Event) String() string {
	parts := []string{fmt.Sprintf("%9.3fs %-4s %-8s", e.At.Seconds(), e.Client, e.Kind), e.Op, e.Name, e.Class, e.Owner, e.Detail}
	if e.Token != 0 {
		parts = append(parts, fmt.Sprintf("token %d", e.Token))
	}
	if e.Row != nil {
		parts = append(parts, fmt.Sprintf("[row of %s until %s, %v left, version %d]", e.Row.Owner, e.Row.Expires.Format("05.0000000"), e.Row.Left, e.Row.Version))
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
}

// Recorder collects events. It is safe for concurrent use.
type Recorder struct {
	now  func() time.Duration
	sink *json.Encoder // nil: none

	mu     sync.Mutex
	events []Event
	lastID int
	err    error
}

// NewRecorder returns a recorder that reads the run's clock with now. If sink is not nil it also gets each event at once, as
// a line of JSON, so that the record of a process that is killed survives it.
func NewRecorder(now func() time.Duration, sink io.Writer) *Recorder {
	r := &Recorder{now: now}
	if sink != nil {
		r.sink = json.NewEncoder(sink)
	}
	return r
}

// Add records an event, now.
func (r *Recorder) Add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.At = r.now() // under the mutex: the order of the events is that of their times
	r.events = append(r.events, e)
	if r.sink != nil {
		r.err = errors.Join(r.err, r.sink.Encode(e))
	}
}

const (
	beat   = 10 * time.Millisecond
	missed = 10 * time.Millisecond
)

// Pulse records when the process was not run for a while: on a busy machine every timer is late then, and neither the locks nor
// the checkers can know better. It returns when ctx ends. An empty client is all of them.
func (r *Recorder) Pulse(ctx context.Context, client string) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for last := r.now(); ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now := r.now()
		if now-last > beat+missed {
			r.Add(Event{Kind: Stall, Client: client, TTL: now - last})
		}
		last = now
	}
}

// NextID returns a number that this recorder has not returned before, from 1.
func (r *Recorder) NextID() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastID++
	return r.lastID
}

// History returns what was recorded so far.
func (r *Recorder) History() History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return History{Events: slices.Clone(r.events)}
}

// Err returns what the sink said.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// History is a record.
type History struct {
	Start  time.Time `json:"start"`  // of the run, on the wall
	Events []Event   `json:"events"` // by time
}

// Read reads the lines that a recorder has written. A last line that was cut off, by a kill, is left out.
func Read(r io.Reader) (History, error) {
	var h History
	for lines := bufio.NewReader(r); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return h, nil
		}
		if err != nil {
			return h, err
		}
		var e Event
		if err := json.Unmarshal(line, &e); err != nil {
			return h, fmt.Errorf("history: %w in %q", err, line)
		}
		h.Events = append(h.Events, e)
	}
}

// Merge makes one history of those of several recorders that shared a clock.
func Merge(histories ...History) History {
	var h History
	for _, one := range histories {
		h.Events = append(h.Events, one.Events...)
	}
	slices.SortStableFunc(h.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return h
}

// End returns the time of the last event.
func (h History) End() time.Duration {
	if len(h.Events) == 0 {
		return 0
	}
	return h.Events[len(h.Events)-1].At
}

// Class names an error's class as histories do: of one that has two, as the end of a caller's context has, that of package
// store; "unclear" for an unavailable one that may have been applied.
func Class(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, store.ErrUnclear):
		return "unclear"
	case errors.Is(err, store.ErrUnavailable):
		return "unavailable"
	case errors.Is(err, store.ErrHeld):
		return "held"
	case errors.Is(err, store.ErrLost):
		return "lost"
	case errors.Is(err, store.ErrInvalid):
		return "invalid"
	case errors.Is(err, store.ErrMisconfigured):
		return "misconfigured"
	case errors.Is(err, store.ErrNotFound):
		return "not found"
	}
	return Other
}
