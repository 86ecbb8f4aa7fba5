package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

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
//
// Whoever reads standard error may stop reading. Then lines are dropped: nothing of what keeps a lock, and a command within
// it, may wait for a reader. The one goroutine that writes ends with the process, or with flush.
type notices struct {
	loud  loudness
	lines chan line
}

// line is what is to be written, or, with written set, a request to say when all before it is.
type line struct {
	text    string
	written chan struct{}
}

const (
	maxLines   = 200
	flushLimit = time.Second
)

func newNotices(w io.Writer) *notices {
	n := &notices{loud: normal, lines: make(chan line, maxLines)}
	go func() {
		for l := range n.lines {
			if l.written != nil {
				close(l.written)
				return
			}
			_, _ = io.WriteString(w, l.text) // nobody is left to be told
		}
	}()
	return n
}

// flush waits until everything is written, but not long. What is said after it is not written.
func (n *notices) flush() {
	limit := time.NewTimer(flushLimit)
	defer limit.Stop()
	last := line{written: make(chan struct{})}
	select {
	case n.lines <- last:
	case <-limit.C:
		return
	}
	select {
	case <-last.written:
	case <-limit.C:
	}
}

func (n *notices) say(at loudness, format string, args ...any) {
	if at > n.loud {
		return
	}
	select {
	case n.lines <- line{text: "leasehold: " + printable(fmt.Sprintf(format, args...)) + "\n"}:
	default:
	}
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

// printable replaces what would command a terminal in a line of the tool's own. Errors may quote what is in the store.
func printable(s string) string {
	var text strings.Builder
	for _, r := range s {
		if unicode.IsGraphic(r) || r == '\n' || r == '\t' {
			text.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		text.WriteString(quoted[1 : len(quoted)-1])
	}
	return text.String()
}

// holder says who holds a lease, and since when.
func holder(l store.Lease) string {
	if store.Disowned(l.Owner) {
		return fmt.Sprintf("%q was taken away from its holder, and is free at %s", l.Name, stamp(l.Expires))
	}
	s := fmt.Sprintf("%q is held by %s since %s", l.Name, plain(l.Owner), stamp(l.Acquired))
	if l.Metadata != "" {
		s += " (" + plain(l.Metadata) + ")"
	}
	return s
}
