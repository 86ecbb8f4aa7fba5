package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/aaravsoft/leasehold/chaos_test/check"
	"github.com/aaravsoft/leasehold/chaos_test/history"
)

// call is one call of Lock and what became of it.
type call struct {
	history.Event // its beginning

	owner      string
	events     []history.Event
	statements []check.Statement
	to         time.Duration
}

// callsOf returns the calls of a history by client, in their order.
func callsOf(h history.History) map[string][]*call {
	type key struct {
		client string
		id     int
	}
	index, owners := map[key]*call{}, map[string]*call{}
	all := map[string][]*call{}
	for _, e := range h.Events {
		switch e.Kind { //nolint:exhaustive // those of a call
		case history.Call:
			c := &call{Event: e, to: h.End()}
			index[key{e.Client, e.ID}] = c
			all[e.Client] = append(all[e.Client], c)
		case history.Grant, history.Refused, history.Risk, history.Safe, history.End, history.Lost, history.Unlock, history.Unlocked, history.Write:
			c := index[key{e.Client, e.ID}]
			if c == nil {
				continue
			}
			c.events = append(c.events, e)
			if e.Kind == history.Grant {
				c.owner = e.Owner
				owners[e.Owner] = c
			}
			if e.Kind == history.Refused || e.Kind == history.Unlocked {
				c.to = e.At
			}
		}
	}
	for _, s := range check.Statements(h) {
		if c := owners[s.Owner]; c != nil {
			c.statements = append(c.statements, s)
		}
	}
	return all
}

// client draws a client's lane: as many rows as it has calls at one time.
func (p *picture) client(name string, calls []*call, faults []window) {
	for _, w := range faults {
		if w.Detail == history.Killed {
			p.gone[name] = w.At
		}
	}
	var rows stack
	place := make([]int, len(calls))
	for i, c := range calls {
		place[i] = rows.place(c.At, c.to)
	}
	height := stripHeight + float64(len(rows))*rowHeight
	y := p.lane(name, height)
	for _, w := range faults {
		p.Faults = append(p.Faults, w.box(y, height))
	}
	for i, c := range calls {
		p.call(c, y+stripHeight+float64(place[i])*rowHeight)
	}
}

// call draws the bars of one call, and below them its statements.
func (p *picture) call(c *call, y float64) {
	class, from := "waiting", c.At
	token := uint64(0)
	bar := func(to time.Duration, tip string) {
		b := box{X: x(from), Y: y, W: x(to) - x(from), H: barHeight, Class: class, Name: c.Name}
		switch class {
		case "held", "risk", "lost":
			b.Label = fmt.Sprintf("%s · %d|%d", c.Name, token, token)
		case "waiting":
			b.Label = c.Name
		}
		b.Tip = fmt.Sprintf("%s %s\n%s, TTL %v\n%s to %s (%v)", c.Client, class, c.Name, c.TTL, clock(from), clock(to), (to - from).Round(10*time.Microsecond))
		if token != 0 {
			b.Tip += fmt.Sprintf("\ntoken %d, %s", token, c.owner)
		}
		if tip != "" {
			b.Tip += "\n" + tip
		}
		p.Bars = append(p.Bars, b)
		from = to
	}
	lost := false
	for _, e := range c.events {
		lost = lost || e.Kind == history.Lost
	}
	over := false // the end of the context may be recorded after that of Unlock
	for _, e := range c.events {
		if over && e.Kind != history.Write {
			continue
		}
		switch e.Kind { //nolint:exhaustive // those that change the bar
		case history.Grant:
			bar(e.At, "")
			class, token = "held", e.Token
		case history.Refused:
			bar(e.At, "given up: "+e.Detail)
			class = ""
		case history.Risk, history.Safe:
			if class == "held" || class == "risk" {
				bar(e.At, "")
				class = map[history.Kind]string{history.Risk: "risk", history.Safe: "held"}[e.Kind]
			}
		case history.End:
			bar(e.At, "ends: "+e.Detail)
			class = "releasing"
			if lost {
				class = "lost"
			}
		case history.Unlocked:
			bar(e.At, "Unlock: "+cmp.Or(e.Class, "confirmed"))
			class, over = "", true
		case history.Write:
			p.write(e, y)
		}
	}
	if gone, killed := p.gone[c.Client]; killed {
		bar(max(from, gone), "its process was killed")
	} else if class != "" {
		bar(p.end, "until the end of the record")
	}
	for _, s := range c.statements {
		p.statement(s, y+barHeight+2)
	}
}

func (p *picture) write(e history.Event, y float64) {
	if e.Class == history.Stale {
		p.Bars = append(p.Bars, box{
			X: x(e.At) - 1.5, Y: y - 3, W: 3, H: barHeight + 4, Class: "stale", Name: e.Name,
			Tip: fmt.Sprintf("%s: a write with token %d was refused as stale, at %s", e.Client, e.Token, clock(e.At)),
		})
	}
}

// statement draws what went to the store, thinly.
func (p *picture) statement(s check.Statement, y float64) {
	to := min(s.Answered, p.end)
	b := box{X: x(s.At), Y: y, W: x(to) - x(s.At), H: 3, Name: s.Name}
	switch {
	case s.Answered > p.end, s.Answer.Class == "unclear":
		b.Class = "statement unclear"
	case s.Answer.Class == "":
		b.Class = "statement done"
	case s.Answer.Class == "held":
		b.Class = "statement refused"
	default:
		b.Class = "statement failed"
	}
	b.Tip = fmt.Sprintf("%s of %s\nsent %s, answered %s: %s", s.Op, s.Owner, clock(s.At), clock(to), cmp.Or(s.Answer.Class, "done"))
	p.Bars = append(p.Bars, b)
}

// rows draws, for each lock, whose its row was as far as answers tell.
func (p *picture) rows(h history.History) {
	type span struct {
		owner    string
		token    uint64
		from, to time.Duration
		expires  time.Duration // left at the last answer
	}
	spans := map[string][]span{}
	for _, e := range h.Events {
		if e.Kind != history.Answered || e.Class != "" {
			continue
		}
		all := spans[e.Name]
		last := len(all) - 1
		switch {
		case (e.Op == history.Acquire || e.Op == history.Renew) && e.Row != nil:
			if last >= 0 && all[last].owner == e.Owner {
				all[last].expires = e.At + e.Row.Left
				all[last].to = all[last].expires
				break
			}
			if last >= 0 {
				all[last].to = min(all[last].to, e.At)
			}
			all = append(all, span{e.Owner, e.Row.Version, e.At, e.At + e.Row.Left, e.At + e.Row.Left})
		case e.Op == history.Release && last >= 0 && all[last].owner == e.Owner:
			all[last].to = e.At
		}
		spans[e.Name] = all
	}
	for name := range spans {
		p.Names = append(p.Names, name)
	}
	slices.Sort(p.Names)
	for _, name := range p.Names {
		y := p.lane("row of "+name, barHeight)
		for _, s := range spans[name] {
			b := box{X: x(s.from), Y: y, W: x(min(s.to, p.end)) - x(s.from), H: barHeight, Class: "row", Name: name}
			b.Label = fmt.Sprintf("%s|%d", s.owner, s.token)
			b.Tip = fmt.Sprintf("row of %s\nowner %s, token %d\n%s to %s", name, s.owner, s.token, clock(s.from), clock(s.to))
			p.Bars = append(p.Bars, b)
		}
	}
}
