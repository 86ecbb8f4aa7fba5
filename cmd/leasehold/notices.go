package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aaravsoft/leasehold/store"
)

// loudness is how much the tool says of its own accord.
type loudness int

const (
	quiet   loudness = iota // errors, and what went wrong while the command ran
	normal                  // and why it waits
	verbose                 // and what it does
)

// notices writes the tool's own lines to standard error. Nothing else goes there, and nothing goes to standard output.
type notices struct {
	mu   sync.Mutex // hooks of the mutex client write too
	w    io.Writer
	loud loudness
}

func (n *notices) say(at loudness, format string, args ...any) {
	if at > n.loud {
		return
	}
	line := "leasehold: " + fmt.Sprintf(format, args...) + "\n"
	n.mu.Lock()
	defer n.mu.Unlock()
	_, _ = io.WriteString(n.w, line) // nobody is left to be told
}

func (n *notices) fault(format string, args ...any)  { n.say(quiet, format, args...) }
func (n *notices) tell(format string, args ...any)   { n.say(normal, format, args...) }
func (n *notices) detail(format string, args ...any) { n.say(verbose, format, args...) }

// stamp is a time for people, with its zone.
func stamp(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05 -0700") }

// span is a duration for people.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// plain makes text from the store safe to print: whoever may write a note must not command a terminal with it.
func plain(s string) string {
	quoted := strconv.QuoteToGraphic(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// holder says who holds a lease, and since when.
func holder(l store.Lease) string {
	s := fmt.Sprintf("%q is held by %s since %s", l.Name, plain(l.Owner), stamp(l.Acquired))
	if l.Metadata != "" {
		s += " (" + plain(l.Metadata) + ")"
	}
	return s
}
