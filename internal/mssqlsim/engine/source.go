package engine

import (
	"errors"
	"strings"

	"github.com/sqlc-dev/teesql/ast"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
)

// errStop ends a loop over rows early and without an error.
var errStop = errors.New("engine: enough rows")

// source is something that a statement reads rows from.
type source struct {
	slot     int
	alias    string // the name by which columns are qualified
	schema   string // of a base table without an alias, which may be named by both
	columns  []rows.Column
	base     *rows.Table    // of a base table
	variable *tableVariable // of a table variable
	hints    hints
	target   *target // set if the statement changes this one
	// list returns the rows of anything but a base table. fixed says that they are the same for the whole statement.
	list  func(e *env) ([]rows.Row, error)
	fixed bool
}

// hints are the table hints that mean something to the simulator. ROWLOCK is what it does anyway.
type hints struct {
	readPast, noWait, update, exclusive, readCommittedLock bool
}

func tableHints(nodes []ast.TableHintType) (hints, error) {
	var h hints
	for _, node := range nodes {
		hint, ok := node.(*ast.TableHint)
		if !ok {
			return h, sqlerr.Unsupported("%T", node)
		}
		switch rows.Fold(hint.HintKind) {
		case "rowlock", "readcommitted":
		case "readpast":
			h.readPast = true
		case "nowait":
			h.noWait = true
		case "updlock":
			h.update = true
		case "xlock":
			h.exclusive = true
		case "readcommittedlock":
			h.readCommittedLock = true
		default:
			return h, sqlerr.Unsupported("the hint %s", hint.HintKind)
		}
	}
	if h.readPast && h.noWait {
		return h, sqlerr.New(1047, "Conflicting locking hints specified.").With(15, 1).Ends(sqlerr.EndsCompilation)
	}
	return h, nil
}

func (h hints) union(other hints) hints {
	return hints{h.readPast || other.readPast, h.noWait || other.noWait, h.update || other.update,
		h.exclusive || other.exclusive, h.readCommittedLock || other.readCommittedLock}
}

// slot takes the next place in env.rows.
func (c *compiler) slot() (int, error) {
	if c.slots == 64 {
		return 0, sqlerr.Unsupported("more than 64 tables in a statement")
	}
	c.slots++
	return c.slots - 1, nil
}

// table finds the base table of a name and notes that the statement uses it.
func (c *compiler) table(name *ast.SchemaObjectName, permission string) (*rows.Table, error) {
	if name.Count > 2 || name.ServerIdentifier != nil || name.DatabaseIdentifier != nil {
		return nil, sqlerr.Unsupported("a name with the database in it")
	}
	schema := "dbo"
	if name.SchemaIdentifier != nil {
		schema = name.SchemaIdentifier.Value
	}
	base := name.BaseIdentifier.Value
	if len(base) > 0 && base[0] == '#' {
		return nil, sqlerr.Unsupported("temporary tables")
	}
	c.names = append(c.names, objectName{schema, base, permission != "SELECT"})
	t := c.catalog.Table(schema, base)
	if t == nil {
		full := base
		if name.SchemaIdentifier != nil {
			full = schema + "." + base
		}
		return nil, sqlerr.NoObject(full)
	}
	c.needs = append(c.needs, need{permission, t})
	return t, nil
}

// source compiles one table of a FROM clause.
func (c *compiler) source(node ast.TableReference, outer *scope) (*source, error) {
	slot, err := c.slot()
	if err != nil {
		return nil, err
	}
	s := &source{slot: slot}
	switch n := node.(type) {
	case *ast.NamedTableReference:
		return s, c.namedSource(s, n)
	case *ast.VariableTableReference:
		v, ok := c.symbols.tables[rows.Fold(n.Variable.Name)]
		if !ok {
			return nil, sqlerr.NoTableVariable(n.Variable.Name)
		}
		s.alias = n.Variable.Name
		if n.Alias != nil {
			s.alias = n.Alias.Value
		}
		s.variable = &v
		s.columns, s.fixed = v.table.Columns, true
		s.list = func(e *env) ([]rows.Row, error) { return e.tables[v.slot].rows, nil }
		return s, nil
	case *ast.OpenJsonTableReference:
		return s, c.openJSON(s, n, outer)
	case *ast.InlineDerivedTable:
		return s, c.valuesSource(s, n, outer)
	}
	return nil, sqlerr.Unsupported("%T", node)
}

func (c *compiler) namedSource(s *source, n *ast.NamedTableReference) (err error) {
	if s.hints, err = tableHints(n.TableHints); err != nil {
		return err
	}
	s.alias = n.SchemaObject.BaseIdentifier.Value
	if n.Alias != nil {
		s.alias = n.Alias.Value
	}
	if n.SchemaObject.SchemaIdentifier != nil && rows.Fold(n.SchemaObject.SchemaIdentifier.Value) == "sys" {
		return c.systemView(s, n.SchemaObject.BaseIdentifier.Value)
	}
	if s.base, err = c.table(n.SchemaObject, "SELECT"); err != nil {
		return err
	}
	if n.Alias == nil {
		s.schema = s.base.Schema
	}
	s.columns = s.base.Columns
	if s.hints.readPast && !s.hints.readCommittedLock && c.session.node.rcsi.Load() {
		return sqlerr.ReadPast()
	}
	return nil
}

// valuesSource is (VALUES (…), (…)) AS alias (columns).
func (c *compiler) valuesSource(s *source, n *ast.InlineDerivedTable, outer *scope) error {
	s.alias = n.Alias.Value
	table := make([][]operand, len(n.RowValues))
	var refs slots
	for i, row := range n.RowValues {
		if len(row.ColumnValues) != len(n.Columns) {
			return sqlerr.ColumnCount()
		}
		for _, node := range row.ColumnValues {
			o, err := c.scalar(node, outer)
			if err != nil {
				return err
			}
			refs |= o.refs
			table[i] = append(table[i], o)
		}
	}
	for place, name := range n.Columns {
		all := make([]*operand, len(table))
		for i := range table {
			all[i] = &table[i][place]
		}
		common, err := c.combined("VALUES", all)
		if err != nil {
			return err
		}
		s.columns = append(s.columns, rows.Column{Name: name.Value, Type: common.typ, Nullable: true, Collation: common.label.collation})
	}
	s.fixed = refs == 0
	s.list = func(e *env) ([]rows.Row, error) {
		list := make([]rows.Row, len(table))
		for i, operands := range table {
			for _, o := range operands {
				v, err := o.eval(e)
				if err != nil {
					return nil, err
				}
				list[i] = append(list[i], v)
			}
		}
		return list, nil
	}
	return nil
}

// column compiles the name of a column.
func (c *compiler) column(n *ast.ColumnReferenceExpression, s *scope) (operand, error) {
	if n.MultiPartIdentifier == nil {
		return operand{}, sqlerr.Unsupported("a column reference of type %s", n.ColumnType)
	}
	parts := n.MultiPartIdentifier.Identifiers
	names := make([]string, len(parts))
	for i, part := range parts {
		names[i] = part.Value
	}
	full := strings.Join(names, ".")
	for at := s; at != nil; at = at.parent {
		found, place, err := at.find(names)
		if err != nil {
			return operand{}, err
		}
		if found != nil {
			return found.column(place), nil
		}
	}
	if len(names) > 1 {
		return operand{}, sqlerr.NoPrefix(full)
	}
	return operand{}, sqlerr.NoColumn(full)
}

// find looks a column up in the rows of one scope.
func (s *scope) find(names []string) (*source, int, error) {
	var found *source
	place := -1
	name := names[len(names)-1]
	for _, candidate := range s.sources {
		if !candidate.answers(names[:len(names)-1]) {
			continue
		}
		for i, column := range candidate.columns {
			if !sameName(column.Name, name) {
				continue
			}
			if found != nil {
				return nil, 0, sqlerr.AmbiguousColumn(name)
			}
			found, place = candidate, i
		}
		if len(names) > 1 && found == nil {
			return nil, 0, sqlerr.NoColumn(name)
		}
	}
	return found, place, nil
}

// answers reports whether the source can be qualified so: not at all, by its alias, or by schema and name.
func (s *source) answers(qualifier []string) bool {
	switch len(qualifier) {
	case 0:
		return true
	case 1:
		return sameName(qualifier[0], s.alias)
	case 2:
		return s.schema != "" && sameName(qualifier[0], s.schema) && sameName(qualifier[1], s.alias)
	}
	return false
}

// column is the operand of one of the source's columns. Without a row, as on the empty side of an outer join, it is
// NULL.
func (s *source) column(place int) operand {
	slot, column := s.slot, s.columns[place]
	o := operand{typ: column.Type, name: column.Name, refs: 1 << slot, from: s, place: place,
		eval: func(e *env) (any, error) {
			if row := e.rows[slot]; row != nil {
				return row[place], nil
			}
			return nil, nil
		}}
	if column.Type.IsString() {
		o.label = label{rank: implicitly, collation: column.Collation}
	}
	return o
}

// probed is the rows of a source that is no base table, kept for a statement, and by what they are looked up.
type probed struct {
	rows  []rows.Row
	index map[string][]rows.Row
}

// rowsOf returns the rows of a source that is no base table.
func (s *source) rowsOf(e *env) (*probed, error) {
	if kept := e.probes[s.slot]; kept != nil {
		return kept, nil
	}
	list, err := s.list(e)
	if err != nil {
		return nil, err
	}
	p := &probed{rows: list}
	if s.fixed {
		if e.probes == nil {
			e.probes = map[int]*probed{}
		}
		e.probes[s.slot] = p
	}
	return p, nil
}

// lookup is an equality by which rows of a source are found: a column of it, and what it must be equal to.
type lookup struct {
	place     int
	collation value.Collation
	typ       value.Type
	want      operand
}

// lookups are the equalities among the conditions whose other side can be had before the source is read.
func (s *source) lookups(conditions []predicate, bound slots) []lookup {
	var found []lookup
	for _, p := range conditions {
		if p.equal == nil {
			continue
		}
		for side := range 2 {
			column, other := p.equal.raw[side], p.equal.sides[1-side]
			// A column that had to be converted, or is compared under another collation than its own, cannot be
			// looked up, nor can it in SQL Server.
			if column.from != s || column.typ.Kind != p.equal.sides[side].typ.Kind || !other.refs.within(bound) ||
				column.typ.IsString() && p.equal.collation.Name != s.columns[column.place].Collation.Name {
				continue
			}
			found = append(found, lookup{column.place, p.equal.collation, p.equal.sides[side].typ, other})
			break
		}
	}
	return found
}
