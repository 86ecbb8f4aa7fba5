package engine

import (
	"github.com/sqlc-dev/teesql/ast"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
)

// output is a compiled OUTPUT clause; nil = none.
type output struct {
	inserted, deleted int // slots
	items             []operand
	columns           []Column // to the client
	into              *destination
	places            []int
}

// output compiles an OUTPUT clause. others are the tables of the FROM clause beside the target, whose columns can be
// named too.
func (c *compiler) output(clause *ast.OutputClause, into *ast.OutputIntoClause, t *rows.Table, others []*source) (*output, error) {
	var elements []ast.SelectElement
	switch {
	case clause != nil && into != nil:
		return nil, sqlerr.Unsupported("OUTPUT to a table and to the client")
	case clause != nil:
		if len(t.Triggers) > 0 {
			return nil, sqlerr.Triggers(t.FullName())
		}
		elements = clause.SelectColumns
	case into != nil:
		elements = into.SelectColumns
	default:
		return nil, nil
	}
	o := &output{}
	s := &scope{sources: others}
	for _, pseudo := range []struct {
		name string
		slot *int
	}{{"inserted", &o.inserted}, {"deleted", &o.deleted}} {
		slot, err := c.slot()
		if err != nil {
			return nil, err
		}
		*pseudo.slot = slot
		s.sources = append(s.sources, &source{slot: slot, alias: pseudo.name, columns: t.Columns})
	}
	if t.ID != 0 {
		c.needs = append(c.needs, need{"SELECT", t})
	}
	q := &query{}
	if err := c.items(q, elements, s); err != nil {
		return nil, err
	}
	o.items = q.items
	if into == nil {
		o.columns = resultColumns(o.items)
		return o, nil
	}
	to, err := c.destination(into.IntoTable)
	if err != nil {
		return nil, err
	}
	if to.local < 0 {
		return nil, sqlerr.Unsupported("OUTPUT INTO anything but a table variable")
	}
	o.into = &to
	if o.places, err = to.places(into.IntoTableColumns); err != nil {
		return nil, err
	}
	if len(o.places) != len(o.items) {
		return nil, sqlerr.ColumnCount()
	}
	for i, place := range o.places {
		if o.items[i], err = c.assigned(o.items[i], to.table.Columns[place]); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// begin starts the result set, if the rows go to the client.
func (o *output) begin(f *frame) {
	if o != nil && o.into == nil {
		f.sink.Columns(o.columns)
		f.open = true
	}
}

// row puts out one changed row: as it is now (nil = deleted) and as it was (nil = new).
func (o *output) row(e *env, inserted, deleted rows.Row) error {
	if o == nil {
		return nil
	}
	e.rows[o.inserted], e.rows[o.deleted] = inserted, deleted
	values, err := evaluate(e, o.items)
	if err != nil {
		return err
	}
	if o.into == nil {
		e.sink.Row(values)
		return nil
	}
	_, err = o.into.store(e, o.places, values, "INSERT")
	return err
}
