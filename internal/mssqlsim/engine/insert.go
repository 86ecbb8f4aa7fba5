package engine

import (
	"slices"

	"github.com/sqlc-dev/teesql/ast"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
)

// destination is the table that an INSERT or an OUTPUT INTO fills.
type destination struct {
	table *rows.Table
	local int // of a table variable: its place; -1 = a base table
}

func (c *compiler) destination(node ast.TableReference) (destination, error) {
	switch n := node.(type) {
	case *ast.VariableTableReference:
		v, ok := c.symbols.tables[rows.Fold(n.Variable.Name)]
		if !ok {
			return destination{}, sqlerr.NoTableVariable(n.Variable.Name)
		}
		return destination{v.table, v.slot}, nil
	case *ast.NamedTableReference:
		h, err := tableHints(n.TableHints)
		if err != nil {
			return destination{}, err
		}
		switch {
		case h.readCommittedLock:
			return destination{}, sqlerr.ReadCommittedLockTarget()
		case h.readPast || h.noWait:
			return destination{}, sqlerr.Unsupported("READPAST or NOWAIT on the target of an INSERT")
		}
		t, err := c.table(n.SchemaObject, "INSERT")
		return destination{t, -1}, err
	}
	return destination{}, sqlerr.Unsupported("%T as a target", node)
}

// places finds the columns that values are given for. Without a list that is all of them.
func (d destination) places(columns []*ast.ColumnReferenceExpression) ([]int, error) {
	if len(columns) == 0 {
		if d.table.RowVersion() >= 0 {
			return nil, sqlerr.Unsupported("INSERT without a column list into a table with a rowversion")
		}
		places := make([]int, len(d.table.Columns))
		for i := range places {
			places[i] = i
		}
		return places, nil
	}
	var places []int
	for _, column := range columns {
		parts := column.MultiPartIdentifier.Identifiers
		name := parts[len(parts)-1].Value
		place := d.table.Column(name)
		switch {
		case place < 0:
			return nil, sqlerr.NoColumn(name)
		case place == d.table.RowVersion():
			return nil, sqlerr.NotUpdatable("INSERT")
		case slices.Contains(places, place):
			return nil, sqlerr.New(264, "The column name '%s' is specified more than once in the SET clause or column list of an INSERT.", name).Ends(sqlerr.EndsCompilation)
		}
		places = append(places, place)
	}
	return places, nil
}

// store puts values into a new row of the destination and returns it.
func (d destination) store(e *env, places []int, values []any, statement string) (rows.Row, error) {
	row := make(rows.Row, len(d.table.Columns))
	for i, place := range places {
		row[place] = values[i]
	}
	for place, column := range d.table.Columns {
		if column.Type.Kind == value.RowVersion && row[place] == nil {
			continue
		}
		v, err := e.fitted(d.table, column, row[place], statement)
		if err != nil {
			return nil, err
		}
		row[place] = v
	}
	if d.local < 0 {
		return row, e.insertRow(d.table, row)
	}
	t := e.tables[d.local]
	e.save(t)
	return row, e.insertLocal(t, row)
}

func (c *compiler) insert(n *ast.InsertSpecification) (body, error) {
	to, err := c.destination(n.Target)
	if err != nil {
		return nil, err
	}
	places, err := to.places(n.Columns)
	if err != nil {
		return nil, err
	}
	out, err := c.output(n.OutputClause, n.OutputIntoClause, to.table, nil)
	if err != nil {
		return nil, err
	}
	from, err := c.insertSource(n.InsertSource, to.table, places)
	if err != nil {
		return nil, err
	}
	slots := c.slots
	return func(f *frame) error {
		e := f.env(slots)
		defer e.finishRowVersion()
		if to.local < 0 {
			if err := f.session.node.writable(); err != nil {
				return err
			}
			if err := f.mayWrite(); err != nil {
				return err
			}
		}
		out.begin(f)
		count := int64(0)
		err := from(e, func(values []any) error {
			row, err := to.store(e, places, values, "INSERT")
			if err != nil {
				return err
			}
			count++
			return out.row(e, row, nil)
		})
		if err == nil && to.local < 0 {
			err = f.fire(to.table, "INSERT")
		}
		if err == nil {
			f.done(CommandInsert, count)
		}
		return err
	}, nil
}

// insertSource compiles what an INSERT takes its values from. A SELECT is read to its end before the first row is
// stored, so that it does not see them.
func (c *compiler) insertSource(node ast.InsertSource, t *rows.Table, places []int) (func(*env, func([]any) error) error, error) {
	var list [][]operand
	var q *query
	switch n := node.(type) {
	case *ast.ValuesInsertSource:
		for _, row := range n.RowValues {
			var items []operand
			for _, value := range row.ColumnValues {
				o, err := c.insertValue(value)
				if err != nil {
					return nil, err
				}
				items = append(items, o)
			}
			list = append(list, items)
		}
	case *ast.SelectInsertSource:
		var err error
		if q, _, err = c.query(n.Select, nil); err != nil {
			return nil, err
		}
		list = [][]operand{q.items}
	default:
		return nil, sqlerr.Unsupported("%T", node)
	}
	for _, items := range list {
		if len(items) != len(places) {
			return nil, sqlerr.ColumnCount()
		}
		for i, place := range places {
			o, err := c.assigned(items[i], t.Columns[place])
			if err != nil {
				return nil, err
			}
			items[i] = o
		}
	}
	if q != nil {
		return func(e *env, store func([]any) error) error {
			var all [][]any
			err := q.run(e, func(values []any) error {
				all = append(all, values)
				return nil
			})
			for _, values := range all {
				if err == nil {
					err = store(values)
				}
			}
			return err
		}, nil
	}
	return func(e *env, store func([]any) error) error {
		for _, items := range list {
			values, err := evaluate(e, items)
			if err != nil {
				return err
			}
			if err := store(values); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// insertValue compiles one of VALUES; no column has a default, so DEFAULT is NULL.
func (c *compiler) insertValue(node ast.ScalarExpression) (operand, error) {
	if _, ok := node.(*ast.DefaultLiteral); ok {
		return constant(value.Type{}, nil), nil
	}
	return c.scalar(node, nil)
}

// mayWrite refuses to write in a transaction that is doomed.
func (f *frame) mayWrite() error {
	if f.session.tx != nil && f.session.tx.doomed {
		return sqlerr.Doomed()
	}
	return nil
}
