package engine

import (
	"github.com/sqlc-dev/teesql/ast"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
)

// selectStatement compiles a SELECT that is a statement: its rows go to the client, or into variables.
func (c *compiler) selectStatement(n *ast.SelectStatement) (body, error) {
	q, elements, err := c.query(n.QueryExpression, nil)
	if err != nil {
		return nil, err
	}
	var variables []int
	for _, element := range elements {
		if set, ok := element.(*ast.SelectSetVariable); ok {
			v, err := c.variable(set.Variable.Name)
			if err != nil {
				return nil, err
			}
			variables = append(variables, v.slot)
		}
	}
	slots := c.slots
	switch {
	case len(variables) == 0:
		columns := resultColumns(q.items)
		return func(f *frame) error {
			f.sink.Columns(columns)
			f.open = true
			count := int64(0)
			err := q.run(f.env(slots), func(values []any) error {
				count++
				f.sink.Row(values)
				return nil
			})
			if err == nil {
				f.done(CommandSelect, count)
			}
			return err
		}, nil
	case len(variables) < len(elements):
		return nil, sqlerr.New(141, "A SELECT statement that assigns a value to a variable must not be combined with data-retrieval operations.").
			With(15, 1).Ends(sqlerr.EndsCompilation)
	}
	if q.order == nil {
		// One variable after the other, so that the next expression sees it.
		for i, slot := range variables {
			eval := q.items[i].eval
			q.items[i].eval = func(e *env) (any, error) {
				v, err := eval(e)
				if err == nil {
					e.vars[slot] = v
				}
				return v, err
			}
		}
	}
	return func(f *frame) error {
		count := int64(0)
		err := q.run(f.env(slots), func(values []any) error {
			count++
			for i, slot := range variables { // the last row stays
				f.vars[slot] = values[i]
			}
			return nil
		})
		if err == nil {
			f.done(CommandSelect, count)
		}
		return err
	}, nil
}

// resultColumns describes operands to the client. An untyped NULL is an int, as everywhere.
func resultColumns(items []operand) []Column {
	columns := make([]Column, len(items))
	for i, item := range items {
		columns[i] = Column{Name: item.name, Type: item.typ}
		if item.typ.Kind == value.Null {
			columns[i].Type = value.TypeInt
		}
	}
	return columns
}
