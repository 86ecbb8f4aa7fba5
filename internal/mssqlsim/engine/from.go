package engine

import (
	"slices"

	"github.com/sqlc-dev/teesql/ast"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
)

// loop calls yield for each combination of rows, which it puts into e.rows.
type loop func(e *env, yield func() error) error

// relation is a FROM clause, or a part of it.
type relation struct {
	source      *source // a single one
	left, right *relation
	outer       bool // LEFT JOIN
	on          []predicate
	slots       slots
}

// from compiles a FROM clause. Its sources are added to the scope as they come, so that a condition sees those before
// it and its own.
func (c *compiler) from(clause *ast.FromClause, s *scope) (*relation, error) {
	if clause == nil {
		return nil, nil
	}
	var all *relation
	for _, node := range clause.TableReferences {
		r, err := c.relation(node, s)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = r
			continue
		}
		all = &relation{left: all, right: r, slots: all.slots | r.slots}
	}
	return all, nil
}

func (c *compiler) relation(node ast.TableReference, s *scope) (*relation, error) {
	join, ok := node.(*ast.QualifiedJoin)
	if !ok {
		one, err := c.source(node, s.parent)
		if err != nil {
			return nil, err
		}
		s.sources = append(s.sources, one)
		return &relation{source: one, slots: 1 << one.slot}, nil
	}
	left, err := c.relation(join.FirstTableReference, s)
	if err != nil {
		return nil, err
	}
	right, err := c.relation(join.SecondTableReference, s)
	if err != nil {
		return nil, err
	}
	on, err := c.conditions(join.SearchCondition, s)
	return &relation{left: left, right: right, on: on, outer: join.QualifiedJoinType == "LeftOuter", slots: left.slots | right.slots}, err
}

// conditions compiles the parts of a condition that must all be true.
func (c *compiler) conditions(node ast.BooleanExpression, s *scope) ([]predicate, error) {
	if node == nil {
		return nil, nil
	}
	var all []predicate
	for _, part := range conjuncts(node) {
		p, err := c.predicate(part, s)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// allTrue judges conditions in their order.
func allTrue(e *env, conditions []predicate) (bool, error) {
	for _, p := range conditions {
		if t, err := p.eval(e); err != nil || t != isTrue {
			return false, err
		}
	}
	return true, nil
}

// plan makes the loop of a relation. bound is what is in e.rows before it starts, given are further conditions that
// will be judged on its rows and may be used to find them.
func (r *relation) plan(bound slots, given []predicate) loop {
	switch {
	case r == nil:
		return func(_ *env, yield func() error) error { return yield() }
	case r.source != nil:
		return r.source.plan(bound, given)
	case r.outer:
		return r.planOuter(bound, given)
	}
	var parts []*relation
	var on []predicate
	r.flatten(&parts, &on)
	// What is not a base table comes first, so that base tables can be looked up by it.
	slices.SortStableFunc(parts, func(a, b *relation) int { return a.weight() - b.weight() })
	run := func(_ *env, yield func() error) error { return yield() }
	conditions := append(slices.Clone(given), on...)
	for _, part := range parts {
		inner := part.plan(bound, conditions)
		bound |= part.slots
		outer := run
		now := slices.DeleteFunc(slices.Clone(on), func(p predicate) bool { return !p.refs.within(bound) })
		on = slices.DeleteFunc(on, func(p predicate) bool { return p.refs.within(bound) })
		run = func(e *env, yield func() error) error {
			return outer(e, func() error {
				return inner(e, func() error {
					if ok, err := allTrue(e, now); err != nil || !ok {
						return err
					}
					return yield()
				})
			})
		}
	}
	return run
}

func (r *relation) flatten(parts *[]*relation, on *[]predicate) {
	if r.source != nil || r.outer {
		*parts = append(*parts, r)
		return
	}
	r.left.flatten(parts, on)
	r.right.flatten(parts, on)
	*on = append(*on, r.on...)
}

func (r *relation) weight() int {
	if r.source != nil && r.source.base == nil {
		return 0
	}
	return 1
}

// planOuter is the loop of a LEFT JOIN: for a row of the left side without a partner, those of the right side are nil.
func (r *relation) planOuter(bound slots, given []predicate) loop {
	left := r.left.plan(bound, given)
	right := r.right.plan(bound|r.left.slots, r.on)
	return func(e *env, yield func() error) error {
		return left(e, func() error {
			alone := true
			err := right(e, func() error {
				if ok, err := allTrue(e, r.on); err != nil || !ok {
					return err
				}
				alone = false
				return yield()
			})
			if err != nil || !alone {
				return err
			}
			for slot := range e.rows {
				if r.right.slots&(1<<slot) != 0 {
					e.rows[slot] = nil
				}
			}
			return yield()
		})
	}
}

// plan is the loop over one source: a look-up where the conditions allow it, else all its rows.
func (s *source) plan(bound slots, conditions []predicate) loop {
	lookups := s.lookups(conditions, bound)
	if s.base == nil {
		if len(lookups) == 0 {
			return s.scan
		}
		return func(e *env, yield func() error) error { return s.probe(e, lookups[0], yield) }
	}
	visit := s.visitRow
	if s.target != nil {
		visit = s.visitTarget
	}
	if seek := s.seek(lookups); seek != nil {
		return func(e *env, yield func() error) error {
			key, ok, err := seek(e)
			if err != nil || !ok {
				return err
			}
			return visit(e, key, yield)
		}
	}
	return func(e *env, yield func() error) error {
		data := e.session.node.Data()
		for key, ok := data.Next(s.base.ID, "", true); ok; key, ok = data.Next(s.base.ID, key, false) {
			if err := visit(e, key, yield); err != nil {
				return err
			}
		}
		return nil
	}
}

func (s *source) scan(e *env, yield func() error) error {
	kept, err := s.rowsOf(e)
	if err != nil {
		return err
	}
	for _, row := range kept.rows {
		e.rows[s.slot] = row
		if err := yield(); err != nil {
			return err
		}
	}
	return nil
}

// probe finds rows by an index that is made on the way. The condition is judged again by whoever asked.
func (s *source) probe(e *env, by lookup, yield func() error) error {
	want, err := by.want.eval(e)
	if err != nil || want == nil {
		return err
	}
	kept, err := s.rowsOf(e)
	if err != nil {
		return err
	}
	if kept.index == nil {
		kept.index = map[string][]rows.Row{}
		for _, row := range kept.rows {
			if v := row[by.place]; v != nil {
				key := value.Key(by.collation, v)
				kept.index[key] = append(kept.index[key], row)
			}
		}
	}
	for _, row := range kept.index[value.Key(by.collation, want)] {
		e.rows[s.slot] = row
		if err := yield(); err != nil {
			return err
		}
	}
	return nil
}

// seek finds the key of a base table's row, if every column of the primary key is given.
func (s *source) seek(lookups []lookup) func(e *env) (string, bool, error) {
	parts := make([]lookup, len(s.base.Key))
	for i, place := range s.base.Key {
		at := slices.IndexFunc(lookups, func(l lookup) bool { return l.place == place })
		if at < 0 {
			return nil
		}
		parts[i] = lookups[at]
	}
	if len(parts) == 0 {
		return nil
	}
	return func(e *env) (string, bool, error) {
		values := make([]any, len(parts))
		for i, part := range parts {
			v, err := part.want.eval(e)
			if err != nil || v == nil {
				return "", false, err
			}
			values[i] = v
		}
		return s.base.EncodeKey(values), true, nil
	}
}
