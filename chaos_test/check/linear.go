package check

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/aaravsoft/leasehold/chaos_test/history"
)

// Clock is what is known of the store's clock.
type Clock struct {
	Skew  time.Duration // how far it may be off from the record's at any time
	Grain time.Duration // how coarse the times in its answers are

	start time.Time
}

// Linearizable looks for an order of the statements, name by name, in which every answer is what one table with one row
// would have answered, each statement taking effect at one moment between its send and its answer. A statement whose outcome
// is unclear takes effect or does not, and one that was abandoned may do so until late after that: the model forks there. Undecided names, which took longer
// than limit to check, are returned apart.
func Linearizable(h history.History, clock Clock, late, limit time.Duration) (found []Violation, undecided []string) {
	clock.start = h.Start
	names := map[string][]Statement{}
	for _, s := range Statements(h) {
		names[s.Name] = append(names[s.Name], s)
	}
	for name, statements := range names {
		for _, ops := range passes(operations(statements, late)) {
			result, info := porcupine.CheckOperationsVerbose(rowModel(clock), ops, limit)
			if result == porcupine.Unknown {
				undecided = append(undecided, name)
			}
			if result == porcupine.Illegal {
				culprit := odd(ops, info)
				found = append(found, Violation{
					Check: Linear, At: culprit.At, Until: min(culprit.Answered, h.End()), Name: name, Clients: []string{culprit.Client},
					Text: "no order of the statements explains " + describe(culprit),
				})
				break
			}
		}
	}
	slices.Sort(undecided)
	return sorted(found), slices.Compact(undecided)
}

// operations makes porcupine's operations of statements. It leaves out what certainly did nothing and was told nothing.
func operations(statements []Statement, late time.Duration) []porcupine.Operation {
	seen := map[string]bool{} // owners that an answer shows
	for _, s := range statements {
		if s.Answer.Row != nil {
			seen[s.Answer.Row.Owner] = true
		}
		if s.done() || s.Op == history.Break { // who breaks a row has seen it
			seen[s.Owner] = true
		}
	}
	clients := map[string]int{}
	var ops []porcupine.Operation
	for _, s := range statements {
		if s.unclear() && !seen[s.Owner] {
			continue // that it did nothing is always one explanation, and nobody has seen another
		}
		if !s.unclear() && !s.done() && !s.refused() {
			continue
		}
		if _, known := clients[s.Client]; !known {
			clients[s.Client] = len(clients)
		}
		end := s.end(late)
		ops = append(ops, porcupine.Operation{ClientId: clients[s.Client], Input: s, Output: s.Answer.Class, Call: int64(s.At), Return: int64(end)})
	}
	return ops
}

// together is how many looks a pass may have at one time.
const together = 4

// passes deals out the statements that only looked: each pass has all the others, and few of these at one time. A history stays
// linearizable without statements that changed nothing, so a pass that fails convicts the whole; and the search, which is
// exponential in what happens together, stays short.
func passes(ops []porcupine.Operation) [][]porcupine.Operation {
	var changes []porcupine.Operation
	looks := [][]porcupine.Operation{nil}
	for _, op := range ops { // by Call
		if s := op.Input.(Statement); !s.refused() || s.Op == history.Release && s.Answer.Row != nil && s.Answer.Row.Owner == s.Owner {
			changes = append(changes, op)
			continue
		}
		pass := slices.IndexFunc(looks, func(pass []porcupine.Operation) bool {
			n := 0
			for _, other := range pass {
				if other.Return >= op.Call {
					n++
				}
			}
			return n < together
		})
		if pass < 0 {
			pass = len(looks)
			looks = append(looks, nil)
		}
		looks[pass] = append(looks[pass], op)
	}
	for i := range looks {
		looks[i] = append(looks[i], changes...)
		slices.SortStableFunc(looks[i], func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	}
	return looks
}

// odd returns the first operation that the longest explanation leaves out.
func odd(ops []porcupine.Operation, info porcupine.LinearizationInfo) Statement {
	explained := map[int]bool{}
	most := 0
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, partial := range partition {
			if len(partial) < most {
				continue
			}
			most = len(partial)
			clear(explained)
			for _, op := range partial {
				explained[op.Input.(Statement).ID*1000+op.ClientId] = true
			}
		}
	}
	var first porcupine.Operation
	for _, op := range ops {
		if !explained[op.Input.(Statement).ID*1000+op.ClientId] && (first.Input == nil || op.Return < first.Return) {
			first = op
		}
	}
	return first.Input.(Statement)
}

// describe is a statement and its answer in words.
func describe(s Statement) string {
	text := fmt.Sprintf("the %s of %s, sent at %v", s.Op, s.Owner, s.At)
	if s.Answered == never {
		return text + " and never answered"
	}
	text += fmt.Sprintf(", answered at %v: %s", s.Answered, cmp.Or(s.Answer.Class, "done"))
	if r := s.Answer.Row; r != nil {
		text += fmt.Sprintf(" (row of %s, %v left, version %d)", r.Owner, r.Left, r.Version)
	}
	return text
}

// row is the state of the model: what the table holds under one name.
type row struct {
	owner   string // "": nobody
	expires time.Time
	vague   bool   // expires is not known: an unclear statement may have set it
	token   uint64 // the greatest that was granted
}

func rowModel(clock Clock) porcupine.Model {
	seed := maphash.MakeSeed()
	m := porcupine.NondeterministicModel{
		Init: func() []any { return []any{row{}} },
		Step: func(state, input, _ any) []any {
			var next []any
			for _, r := range state.(row).step(input.(Statement), clock) {
				next = append(next, r)
			}
			return next
		},
		Equal: func(a, b any) bool { return a.(row).same(b.(row)) },
		Hash: func(a any) uint64 {
			r := a.(row)
			return maphash.String(seed, fmt.Sprint(r.owner, r.token, r.vague))
		},
		DescribeOperation: func(input, _ any) string { return describe(input.(Statement)) },
		DescribeState:     func(a any) string { return fmt.Sprint(a) },
	}
	return m.ToModel()
}

func (r row) same(o row) bool {
	return r.owner == o.owner && r.vague == o.vague && r.token == o.token && (r.vague || r.expires.Equal(o.expires))
}

// during is what the store's clock may have shown when a statement took effect.
type during struct {
	low, high time.Time // of the statement itself
	swept     time.Time // until when others may have deleted a row that had expired
}

func (r row) maybeExpired(d during) bool {
	return r.owner == "" || r.vague || !r.expires.After(d.high)
}

// maybeGone also allows for a statement that read the clock, waited, and found that somebody else had swept the row.
func (r row) maybeGone(d during) bool {
	return r.maybeExpired(d) || !r.expires.After(d.swept)
}

func (r row) maybeLive(d during) bool {
	return r.owner != "" && (r.vague || r.expires.After(d.low))
}

// step returns the rows that a statement with its answer can lead to: none if the row refutes the answer.
func (r row) step(s Statement, clock Clock) []row {
	latest := clock.start.Add(min(s.Answered, never/2) + clock.Skew)
	d := during{clock.start.Add(s.At - clock.Skew), latest, latest}
	shown := s.Answer.Row
	if shown != nil && shown.Left > 0 {
		now := shown.Expires.Add(-shown.Left) // the answer tells the store's clock
		d.low, d.high = now.Add(-clock.Grain), now.Add(clock.Grain)
	}
	switch {
	case s.unclear():
		return r.unclear(s, d)
	case s.Answer.Class == "":
		return r.applied(s, d, shown)
	case s.refused():
		return r.refused(s, d, shown)
	}
	return []row{r} // not applied
}

// unclear is a statement that was applied, or not.
func (r row) unclear(s Statement, d during) []row {
	vague := row{owner: s.Owner, vague: true, token: r.token}
	switch {
	case s.Op == history.Acquire && (r.owner == s.Owner || r.maybeGone(d)),
		s.Op == history.Renew && r.owner == s.Owner && r.maybeLive(d):
		return []row{r, vague}
	case s.Op == history.Release && r.owner == s.Owner:
		return []row{r, {token: r.token}}
	case s.Op == history.Break && r.owner == s.Owner && r.maybeLive(d):
		return []row{r, {owner: unknownBroken, expires: r.expires, vague: r.vague, token: r.token}}
	}
	return []row{r}
}

// unknownBroken is the owner that an unclear break may have left.
const unknownBroken = "broken/?"

// applied is a success.
func (r row) applied(s Statement, d during, shown *history.Row) []row {
	mine := r.owner == s.Owner
	switch s.Op {
	case history.Acquire:
		if shown == nil || shown.Owner != s.Owner || !mine && !r.maybeGone(d) || shown.Version <= r.token || !r.extends(s, d, shown) {
			return nil
		}
		return []row{{owner: s.Owner, expires: shown.Expires, token: shown.Version}}
	case history.Renew:
		if shown == nil || !mine || !r.maybeLive(d) || !r.extends(s, d, shown) {
			return nil
		}
		return []row{{owner: s.Owner, expires: shown.Expires, token: r.token}}
	case history.Release:
		if !mine || !r.maybeLive(d) {
			return nil
		}
		return []row{{token: r.token}}
	case history.Break:
		if shown == nil || !mine || !r.maybeLive(d) || !r.vague && !r.expires.Equal(shown.Expires) || !strings.HasPrefix(shown.Owner, "broken/") {
			return nil
		}
		return []row{{owner: shown.Owner, expires: shown.Expires, token: r.token}}
	}
	return nil
}

// extends reports whether the shown expiry may follow the row's: a statement that is late does not shorten its own row,
// unless the row reaches so far ahead that the clock must have been stepped.
func (r row) extends(s Statement, d during, shown *history.Row) bool {
	if r.owner != s.Owner || r.vague || !r.maybeLive(d) {
		return true
	}
	return !shown.Expires.Before(r.expires) || r.expires.After(d.low.Add(2*s.TTL))
}

// refused is "held", "lost", or "not found": the answer shows the row that was in the way, or none, or the statement's own row that
// had expired.
func (r row) refused(s Statement, d during, shown *history.Row) []row {
	if shown == nil {
		switch {
		case s.Op == history.Break:
			if r.owner == s.Owner && !r.maybeGone(d) {
				return nil
			}
			return []row{r}
		case !r.maybeGone(d):
			return nil
		}
		return []row{{token: r.token}} // an expired row may be swept at any time
	}
	if r.owner == unknownBroken && strings.HasPrefix(shown.Owner, "broken/") {
		r.owner = shown.Owner
	}
	if shown.Owner != r.owner || !r.vague && !r.expires.Equal(shown.Expires) {
		return nil
	}
	r.expires, r.vague = shown.Expires, false
	switch {
	case s.Op == history.Acquire && (shown.Owner == s.Owner || !r.maybeLive(d)):
		return nil // nobody is in the way
	case shown.Owner == s.Owner && !r.maybeExpired(d):
		return nil // it is a live row of its own
	case shown.Owner == s.Owner && s.Op == history.Release:
		return []row{{token: r.token}} // deleted, though expired
	}
	return []row{r}
}
