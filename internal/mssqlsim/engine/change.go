package engine

import (
	"slices"

	"github.com/sqlc-dev/teesql/ast"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/locks"
)

// change is a compiled UPDATE or DELETE.
type change struct {
	command Command
	loop    loop
	where   []predicate
	target  *source
	table   *rows.Table
	local   int // of a table variable: its place; -1 = a base table
	top     *operand
	out     *output
	set     []assignment // of an UPDATE
}

type assignment struct {
	place int
	from  operand
}

// clauses are what UPDATE and DELETE have in common.
type clauses struct {
	target     ast.TableReference
	from       *ast.FromClause
	where      *ast.WhereClause
	top        *ast.TopRowFilter
	output     *ast.OutputClause
	outputInto *ast.OutputIntoClause
	permission string
}

// change compiles what UPDATE and DELETE have in common. set compiles what must be compiled in between, with the
// tables of the statement in scope.
func (c *compiler) change(ch *change, n clauses, set func(*scope) error) (body, error) {
	s := &scope{}
	all, err := c.from(n.from, s)
	if err != nil {
		return nil, err
	}
	if all, err = c.findTarget(ch, n, s, all); err != nil {
		return nil, err
	}
	if err := set(s); err != nil {
		return nil, err
	}
	if n.where != nil {
		if ch.where, err = c.conditions(n.where.SearchCondition, s); err != nil {
			return nil, err
		}
	}
	q := &query{}
	if err := c.topRows(q, n.top); err != nil {
		return nil, err
	}
	ch.top = q.top
	if ch.target.base != nil {
		ch.target.target = &target{versioned: ch.command == CommandUpdate && ch.table.RowVersion() >= 0}
	}
	ch.loop = all.plan(0, ch.where)
	others := slices.DeleteFunc(slices.Clone(s.sources), func(one *source) bool { return one == ch.target })
	if ch.out, err = c.output(n.output, n.outputInto, ch.table, others); err != nil {
		return nil, err
	}
	slots := c.slots
	return func(f *frame) error { return ch.run(f.env(slots)) }, nil
}

// findTarget finds the table that is changed: one of the FROM clause by its alias or its name, or else the only one.
func (c *compiler) findTarget(ch *change, n clauses, s *scope, all *relation) (*relation, error) {
	if all == nil {
		one, err := c.source(n.target, nil)
		if err != nil {
			return nil, err
		}
		s.sources = append(s.sources, one)
		ch.target = one
		all = &relation{source: one, slots: 1 << one.slot}
	} else if err := findInFrom(ch, n.target, s); err != nil {
		return nil, err
	}
	ch.local = -1
	switch {
	case ch.target.base != nil:
		ch.table = ch.target.base
		c.needs = append(c.needs, need{n.permission, ch.table})
		for i := range c.names { // written, not read
			if sameName(c.names[i].schema, ch.table.Schema) && sameName(c.names[i].name, ch.table.Name) {
				c.names[i].writes = true
			}
		}
	case ch.target.variable != nil:
		ch.table, ch.local = ch.target.variable.table, ch.target.variable.slot
	default:
		return nil, sqlerr.Unsupported("a target that is no table")
	}
	return all, nil
}

func findInFrom(ch *change, node ast.TableReference, s *scope) error {
	var qualifier []string
	var extra hints
	switch n := node.(type) {
	case *ast.VariableTableReference:
		qualifier = []string{n.Variable.Name}
	case *ast.NamedTableReference:
		if n.SchemaObject.SchemaIdentifier != nil {
			qualifier = append(qualifier, n.SchemaObject.SchemaIdentifier.Value)
		}
		qualifier = append(qualifier, n.SchemaObject.BaseIdentifier.Value)
		var err error
		if extra, err = tableHints(n.TableHints); err != nil {
			return err
		}
	default:
		return sqlerr.Unsupported("%T as a target", node)
	}
	for _, one := range s.sources {
		if one.answers(qualifier) {
			if ch.target != nil {
				return sqlerr.New(8154, "The table '%s' is ambiguous.", one.alias).Ends(sqlerr.EndsCompilation)
			}
			ch.target = one
		}
	}
	if ch.target == nil {
		return sqlerr.Unsupported("a target that the FROM clause names otherwise, or not at all")
	}
	ch.target.hints = ch.target.hints.union(extra)
	return nil
}

func (c *compiler) update(n *ast.UpdateSpecification) (body, error) {
	ch := &change{command: CommandUpdate}
	return c.change(ch, clauses{n.Target, n.FromClause, n.WhereClause, n.TopRowFilter, n.OutputClause, n.OutputIntoClause, "UPDATE"},
		func(s *scope) error {
			for _, node := range n.SetClauses {
				set, ok := node.(*ast.AssignmentSetClause)
				if !ok || set.Column == nil {
					return sqlerr.Unsupported("%T", node)
				}
				if err := c.assignment(ch, set, s); err != nil {
					return err
				}
			}
			return nil
		})
}

func (c *compiler) assignment(ch *change, set *ast.AssignmentSetClause, s *scope) error {
	parts := set.Column.MultiPartIdentifier.Identifiers
	name := parts[len(parts)-1].Value
	place := ch.table.Column(name)
	switch {
	case place < 0:
		return sqlerr.NoColumn(name)
	case place == ch.table.RowVersion():
		return sqlerr.NotUpdatable("UPDATE")
	case slices.Contains(ch.table.Key, place):
		return sqlerr.Unsupported("UPDATE of a column of the primary key")
	case slices.ContainsFunc(ch.set, func(a assignment) bool { return a.place == place }):
		return sqlerr.New(264, "The column name '%s' is specified more than once in the SET clause or column list of an INSERT.", name).Ends(sqlerr.EndsCompilation)
	}
	o, err := c.scalar(set.NewValue, s)
	if err != nil {
		return err
	}
	if o, err = c.assigned(o, ch.table.Columns[place]); err != nil {
		return err
	}
	ch.set = append(ch.set, assignment{place, o})
	return nil
}

func (c *compiler) delete(n *ast.DeleteSpecification) (body, error) {
	ch := &change{command: CommandDelete}
	return c.change(ch, clauses{n.Target, n.FromClause, n.WhereClause, n.TopRowFilter, n.OutputClause, n.OutputIntoClause, "DELETE"},
		func(*scope) error { return nil })
}

func (ch *change) run(e *env) error {
	defer e.finishRowVersion()
	if ch.local < 0 {
		if err := e.session.node.writable(); err != nil {
			return err
		}
		if err := e.mayWrite(); err != nil {
			return err
		}
	}
	most, err := limit(e, ch.top)
	if err != nil {
		return err
	}
	ch.out.begin(e.frame)
	count := int64(0)
	if most != 0 {
		err = ignoreStop(ch.loop(e, func() error {
			if ok, err := allTrue(e, ch.where); err != nil || !ok {
				return err
			}
			changed, err := ch.apply(e)
			if err != nil || !changed {
				return err
			}
			if count++; count == most {
				return errStop
			}
			return nil
		}))
	}
	if err != nil {
		return err
	}
	if ch.local >= 0 {
		ch.replaceLocals(e)
	}
	if ch.local < 0 {
		action := "DELETE"
		if ch.command == CommandUpdate {
			action = "UPDATE"
		}
		if err := e.fire(ch.table, action); err != nil {
			return err
		}
	}
	e.frame.done(ch.command, count)
	return nil
}

// apply changes the row that the loop is at, unless this statement has changed it already.
func (ch *change) apply(e *env) (bool, error) {
	old := e.rows[ch.target.slot]
	if old == nil {
		return false, nil // the empty side of an outer join
	}
	if ch.local >= 0 {
		return ch.applyLocal(e, old)
	}
	if e.changing.done[e.key] {
		return false, nil
	}
	e.hit = true
	if err := e.pass(RowLocked); err != nil {
		return false, err
	}
	tx := e.session.writing()
	if err := e.lock(tx.locks, rowLock(ch.table, e.key), locks.Exclusive, e.session.lockTimeout); err != nil {
		return false, err
	}
	row, err := ch.newRow(e, old)
	if err != nil {
		return false, err
	}
	if e.changing.done == nil {
		e.changing.done = map[string]bool{}
	}
	e.changing.done[e.key] = true
	if place := ch.table.RowVersion(); place >= 0 && row != nil {
		e.storeRowVersion(row, place)
	}
	e.write(ch.table, e.key, row)
	return true, ch.out.row(e, row, old)
}

// newRow is the row as it is to be; nil = deleted.
func (ch *change) newRow(e *env, old rows.Row) (rows.Row, error) {
	if ch.command == CommandDelete {
		return nil, nil
	}
	row := slices.Clone(old)
	for _, set := range ch.set {
		v, err := set.from.eval(e)
		if err != nil {
			return nil, err
		}
		if row[set.place], err = e.fitted(ch.table, ch.table.Columns[set.place], v, "UPDATE"); err != nil {
			return nil, err
		}
	}
	return row, nil
}

func (ch *change) applyLocal(e *env, old rows.Row) (bool, error) {
	if _, done := e.replaced[&old[0]]; done {
		return false, nil
	}
	row, err := ch.newRow(e, old)
	if err != nil {
		return false, err
	}
	if e.replaced == nil {
		e.replaced = map[*any]rows.Row{}
	}
	e.replaced[&old[0]] = row
	return true, ch.out.row(e, row, old)
}

// replaceLocals makes the changes of a table variable, all at once.
func (ch *change) replaceLocals(e *env) {
	t := e.tables[ch.local]
	e.save(t)
	var after []rows.Row
	for _, row := range t.rows {
		changed, ok := e.replaced[&row[0]]
		switch {
		case !ok:
			after = append(after, row)
		case changed != nil:
			after = append(after, changed)
		}
	}
	t.rows, t.keys = after, nil
}
