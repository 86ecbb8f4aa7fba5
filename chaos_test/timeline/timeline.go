// Package timeline draws a history as one page of HTML that needs nothing else: a lane for each client and each lock's row,
// bars for waiting, holding and losing, the faults behind them, and what the checkers found.
package timeline

import (
	"cmp"
	_ "embed" // for the page
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"time"

	"github.com/aaravsoft/leasehold/chaos_test/check"
	"github.com/aaravsoft/leasehold/chaos_test/history"
)

// Sizes, in pixels.
const (
	perSecond   = 300.0 // a window of usual width shows four seconds
	rowHeight   = 30.0
	barHeight   = 20.0
	stripHeight = 18.0 // of fault labels, above a client's rows
	laneGap     = 10.0
	axisHeight  = 44.0 // the second line is for what the violations are called
	letter      = 6.7  // how wide one is, of the labels' font
)

//go:embed page.html
var source string

// Write draws a history and what was found in it. The title says what was run, and how to run it again.
func Write(w io.Writer, title string, h history.History, found []check.Violation) error {
	page, err := template.New("page").Parse(source)
	if err != nil {
		return err
	}
	return page.Execute(w, draw(title, h, found))
}

// box is a rectangle with what it says.
type box struct {
	X, Y, W, H float64
	Class      string
	Name       string // of the lock, so that others can be dimmed
	Label      string // alternatives, the longest first, divided by |; the page shows what fits
	Free       bool   // the label may stand out, where no other does
	Tip        string
}

// LabelY is the line on which the label stands.
func (b box) LabelY() float64 {
	if b.Free {
		return b.Y - 6
	}
	return b.Y + 14
}

type lane struct {
	Y, H  float64
	Label string
}

type violation struct {
	box
	Text string
}

type picture struct {
	Title         string
	Width, Height float64
	Top           float64 // of the lanes
	Lanes         []lane
	Faults        []box
	Bars          []box
	Violations    []violation
	Names         []string
	Focus         string  // the name that the first violation is about
	Start         float64 // what is to be seen first

	end  time.Duration
	gone map[string]time.Duration // when a client was killed
}

// PerSecond and Letter are for the page's own arithmetic.
func (*picture) PerSecond() float64 { return perSecond }

// Letter is how wide a letter is.
func (*picture) Letter() float64 { return letter }

func x(at time.Duration) float64 { return math.Round(at.Seconds()*perSecond*10) / 10 }

func draw(title string, h history.History, found []check.Violation) *picture {
	p := &picture{Title: title, end: h.End(), gone: map[string]time.Duration{}, Top: axisHeight, Height: axisHeight}
	p.Width = x(p.end) + perSecond/2
	faults := windows(h)
	p.everybody(faults)
	calls := callsOf(h)
	for _, client := range clients(h) {
		p.client(client, calls[client], faults[client])
	}
	p.rows(h)
	p.Height += laneGap
	for i := range p.Faults {
		if p.Faults[i].H == 0 { // everybody's reach all the way down
			p.Faults[i].H = p.Height - p.Faults[i].Y
		}
	}
	for _, v := range found {
		p.violation(v)
	}
	if len(found) > 0 {
		p.Focus = found[0].Name
		p.Start = x(found[0].At)
	}
	return p
}

func (p *picture) violation(v check.Violation) {
	until := max(v.Until, v.At)
	b := box{X: x(v.At), Y: axisHeight, W: x(until) - x(v.At), H: p.Height - axisHeight, Class: "violation", Name: v.Name, Free: true, Tip: v.String()}
	b.Label = v.Check
	if until > v.At {
		b.Label += fmt.Sprintf(": %v", (until - v.At).Round(10*time.Microsecond))
	}
	p.Violations = append(p.Violations, violation{box: b, Text: v.String()})
}

// lane opens a lane of a height.
func (p *picture) lane(label string, height float64) (y float64) {
	p.Height += laneGap
	y = p.Height
	p.Lanes = append(p.Lanes, lane{Y: y, H: height, Label: label})
	p.Height += height
	return y
}

// window is a fault, from its beginning to its end.
type window struct {
	history.Event
	to time.Duration
}

// windows returns the faults by the client that they strike; those of everybody under "".
func windows(h history.History) map[string][]window {
	all := map[string][]window{}
	healed := map[int]time.Duration{}
	for _, e := range h.Events {
		if e.Kind == history.Heal {
			healed[e.ID] = e.At
		}
	}
	for _, e := range h.Events {
		if e.Kind == history.Fault {
			to, ok := healed[e.ID]
			if !ok {
				to = h.End()
			}
			all[e.Client] = append(all[e.Client], window{e, to})
		}
	}
	return all
}

func (w window) box(y, height float64) box {
	b := box{X: x(w.At), Y: y, W: x(w.to) - x(w.At), H: height, Class: "fault"}
	b.Label = w.Detail
	b.Tip = fmt.Sprintf("%s, from %s to %s", w.Detail, clock(w.At), clock(w.to))
	return b
}

func clock(d time.Duration) string { return fmt.Sprintf("%.4f s", d.Seconds()) }

// everybody draws the faults that strike all clients: each has a strip, and shades all lanes below.
func (p *picture) everybody(faults map[string][]window) {
	all := faults[""]
	if len(all) == 0 {
		return
	}
	var rows stack
	place := make([]float64, len(all))
	for i, w := range all {
		place[i] = float64(rows.place(w.At, w.to)) * stripHeight
	}
	y := p.lane("everybody", float64(len(rows))*stripHeight)
	for i, w := range all {
		b := w.box(y+place[i], stripHeight-2)
		p.Faults = append(p.Faults, b)
		b.Class, b.Label, b.H = "wide", "", 0
		p.Faults = append(p.Faults, b)
	}
}

// stack holds what is to be drawn at one time in rows below each other: until when each row is taken.
type stack []time.Duration

// place returns the first row that is free.
func (s *stack) place(from, to time.Duration) int {
	row := slices.IndexFunc(*s, func(until time.Duration) bool { return until <= from })
	if row < 0 {
		row = len(*s)
		*s = append(*s, 0)
	}
	(*s)[row] = to
	return row
}

// clients are those that took locks, by name.
func clients(h history.History) []string {
	var all []string
	for _, e := range h.Events {
		if e.Kind == history.Call && !slices.Contains(all, e.Client) {
			all = append(all, e.Client)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return all
}
