package engine

import (
	"errors"
	"slices"

	"github.com/sqlc-dev/teesql/ast"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
)

// query is a compiled SELECT without what is done with its rows.
type query struct {
	loop       loop
	where      []predicate
	items      []operand
	order      []sortKey
	top        *operand
	aggregates []*aggregate
	refs       slots // rows of enclosing queries that it looks at
}

type sortKey struct {
	by         operand
	collation  value.Collation
	descending bool
}

// query compiles a SELECT. outer is the scope of the query that it is a part of, if it is.
func (c *compiler) query(node ast.QueryExpression, outer *scope) (*query, []ast.SelectElement, error) {
	n, ok := node.(*ast.QuerySpecification)
	if !ok {
		return nil, nil, sqlerr.Unsupported("%T", node)
	}
	q := &query{}
	inner := slots(0)
	first := c.slots
	s := &scope{parent: outer}
	all, err := c.from(n.FromClause, s)
	if err != nil {
		return nil, nil, err
	}
	for slot := first; slot < c.slots; slot++ {
		inner |= 1 << slot
	}
	if n.WhereClause != nil {
		if q.where, err = c.conditions(n.WhereClause.SearchCondition, s); err != nil {
			return nil, nil, err
		}
	}
	q.loop = all.plan(1<<first-1, q.where)
	s.aggregates = &q.aggregates
	if err := c.items(q, n.SelectElements, s); err != nil {
		return nil, nil, err
	}
	if len(q.aggregates) > 0 {
		for _, item := range q.items {
			if item.refs&inner != 0 {
				return nil, nil, sqlerr.New(8120, "Column '%s' is invalid in the select list because it is not contained in either an aggregate function or the GROUP BY clause.", item.name).
					Ends(sqlerr.EndsCompilation)
			}
		}
	}
	s.aggregates = nil
	if err := c.orderBy(q, n, s); err != nil {
		return nil, nil, err
	}
	if err := c.topRows(q, n.TopRowFilter); err != nil {
		return nil, nil, err
	}
	for _, p := range q.where {
		q.refs |= p.refs
	}
	for _, item := range q.items {
		q.refs |= item.refs
	}
	for _, a := range q.aggregates {
		q.refs |= a.arg.refs
	}
	q.refs &^= inner
	return q, n.SelectElements, nil
}

// items compiles the select list; a star becomes the columns that it stands for.
func (c *compiler) items(q *query, elements []ast.SelectElement, s *scope) error {
	for _, element := range elements {
		switch n := element.(type) {
		case *ast.SelectScalarExpression:
			o, err := c.scalar(n.Expression, s)
			if err != nil {
				return err
			}
			if n.ColumnName != nil {
				o.name = n.ColumnName.Value
				if n.ColumnName.Identifier != nil {
					o.name = n.ColumnName.Identifier.Value
				}
			}
			q.items = append(q.items, o)
		case *ast.SelectStarExpression:
			columns, err := star(n, s)
			if err != nil {
				return err
			}
			q.items = append(q.items, columns...)
		case *ast.SelectSetVariable:
			v, err := c.variable(n.Variable.Name)
			if err != nil {
				return err
			}
			o, err := c.scalar(n.Expression, s)
			if err != nil {
				return err
			}
			if o, err = c.implicit(o, v.typ); err != nil {
				return err
			}
			q.items = append(q.items, o)
		default:
			return sqlerr.Unsupported("%T", n)
		}
	}
	return nil
}

func star(n *ast.SelectStarExpression, s *scope) ([]operand, error) {
	var qualifier []string
	if n.Qualifier != nil {
		for _, part := range n.Qualifier.Identifiers {
			qualifier = append(qualifier, part.Value)
		}
	}
	var all []operand
	for _, one := range s.sources {
		if !one.answers(qualifier) {
			continue
		}
		for place := range one.columns {
			all = append(all, one.column(place))
		}
	}
	if len(all) == 0 {
		return nil, sqlerr.New(107, "The column prefix does not match with a table name or alias name used in the query.").With(15, 1).Ends(sqlerr.EndsCompilation)
	}
	return all, nil
}

func (c *compiler) orderBy(q *query, n *ast.QuerySpecification, s *scope) error {
	if n.OrderByClause == nil {
		return nil
	}
	for _, element := range n.OrderByClause.OrderByElements {
		if _, number := integerLiteral(element.Expression); number {
			return sqlerr.Unsupported("ORDER BY the number of a column")
		}
		by, err := c.sortOperand(q, element.Expression, n.SelectElements, s)
		if err != nil {
			return err
		}
		key := sortKey{by: by, descending: element.SortOrder == "Descending"}
		if by.typ.IsString() {
			if key.collation, err = by.label.decided("ORDER BY"); err != nil {
				return err
			}
		}
		q.order = append(q.order, key)
	}
	if len(q.aggregates) > 0 {
		q.order = nil // of a single row
	}
	return nil
}

// sortOperand is a column of the result by its alias, or an expression.
func (c *compiler) sortOperand(q *query, node ast.ScalarExpression, elements []ast.SelectElement, s *scope) (operand, error) {
	name, ok := node.(*ast.ColumnReferenceExpression)
	if ok && name.MultiPartIdentifier != nil && len(name.MultiPartIdentifier.Identifiers) == 1 && len(elements) == len(q.items) {
		for i, element := range elements {
			aliased, ok := element.(*ast.SelectScalarExpression)
			if ok && aliased.ColumnName != nil && sameName(q.items[i].name, name.MultiPartIdentifier.Identifiers[0].Value) {
				return q.items[i], nil
			}
		}
	}
	return c.scalar(node, s)
}

func (c *compiler) topRows(q *query, n *ast.TopRowFilter) error {
	if n == nil {
		return nil
	}
	o, err := c.scalar(n.Expression, nil)
	if err != nil {
		return err
	}
	o, err = c.implicit(o, value.TypeBigInt)
	q.top = &o
	return err
}

// limit evaluates TOP; -1 = without.
func limit(e *env, top *operand) (int64, error) {
	if top == nil {
		return -1, nil
	}
	v, err := top.eval(e)
	if err != nil {
		return 0, err
	}
	n, ok := v.(int64)
	if !ok || n < 0 {
		return 0, sqlerr.New(1060, "The number of rows provided for a TOP or FETCH clauses row count parameter must be an integer.").With(15, 1)
	}
	return n, nil
}

// run calls emit with each row of the result, in its order.
func (q *query) run(e *env, emit func(values []any) error) error {
	most, err := limit(e, q.top)
	if err != nil || most == 0 {
		return err
	}
	if len(q.aggregates) > 0 {
		return q.runAggregates(e, emit)
	}
	var sorted []sortedRow
	count := int64(0)
	err = q.loop(e, func() error {
		if ok, err := allTrue(e, q.where); err != nil || !ok {
			return err
		}
		values, err := evaluate(e, q.items)
		if err != nil {
			return err
		}
		if q.order == nil {
			if err := emit(values); err != nil {
				return err
			}
			if count++; count == most {
				return errStop
			}
			return nil
		}
		row := sortedRow{values: values, keys: make([]any, len(q.order))}
		for i, key := range q.order {
			if row.keys[i], err = key.by.eval(e); err != nil {
				return err
			}
		}
		sorted = append(sorted, row)
		return nil
	})
	if err != nil && !errors.Is(err, errStop) || q.order == nil {
		return ignoreStop(err)
	}
	slices.SortStableFunc(sorted, q.compare)
	for i, row := range sorted {
		if int64(i) == most {
			break
		}
		if err := emit(row.values); err != nil {
			return ignoreStop(err)
		}
	}
	return nil
}

type sortedRow struct{ values, keys []any }

// compare orders rows by their keys; NULL is the lowest value.
func (q *query) compare(a, b sortedRow) int {
	for i, key := range q.order {
		order := 0
		switch x, y := a.keys[i], b.keys[i]; {
		case x == nil && y == nil:
		case x == nil:
			order = -1
		case y == nil:
			order = 1
		default:
			order = value.Compare(key.by.typ, key.collation, x, y)
		}
		if key.descending {
			order = -order
		}
		if order != 0 {
			return order
		}
	}
	return 0
}

func ignoreStop(err error) error {
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

func evaluate(e *env, items []operand) ([]any, error) {
	values := make([]any, len(items))
	for i, item := range items {
		v, err := item.eval(e)
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	return values, nil
}

// subquery compiles a SELECT that stands for a value.
func (c *compiler) subquery(node ast.QueryExpression, s *scope) (operand, error) {
	q, _, err := c.query(node, s)
	if err != nil {
		return operand{}, err
	}
	if len(q.items) != 1 {
		return operand{}, sqlerr.New(116, "Only one expression can be specified in the select list when the subquery is not introduced with EXISTS.").Ends(sqlerr.EndsCompilation)
	}
	item := q.items[0]
	return operand{typ: item.typ, label: item.label, refs: q.refs, eval: func(e *env) (any, error) {
		var result any
		count := 0
		err := q.run(e, func(values []any) error {
			if count++; count > 1 {
				return sqlerr.MoreThanOneRow()
			}
			result = values[0]
			return nil
		})
		return result, err
	}}, nil
}

func (c *compiler) exists(node ast.QueryExpression, s *scope) (predicate, error) {
	q, _, err := c.query(node, s)
	if err != nil {
		return predicate{}, err
	}
	return predicate{refs: q.refs, eval: func(e *env) (truth, error) {
		found := isFalse
		err := q.run(e, func([]any) error {
			found = isTrue
			return errStop
		})
		return found, err
	}}, nil
}
