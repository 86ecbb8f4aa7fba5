package engine

import (
	"slices"

	"github.com/sqlc-dev/teesql/ast"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
)

// aggregate is COUNT, COUNT_BIG, MIN, MAX or SUM over all rows of a query.
type aggregate struct {
	name      string
	arg       operand
	star      bool
	typ       value.Type
	collation value.Collation
}

func isAggregate(name string) bool {
	return slices.Contains([]string{"COUNT", "COUNT_BIG", "MIN", "MAX", "SUM"}, name)
}

func (c *compiler) aggregate(name string, nodes []ast.ScalarExpression, s *scope) (operand, error) {
	if s == nil || s.aggregates == nil {
		return operand{}, sqlerr.Unsupported("%s outside of a select list", name)
	}
	if len(nodes) != 1 {
		return operand{}, sqlerr.New(174, "The %s function requires 1 argument(s).", name).With(15, 1).Ends(sqlerr.EndsCompilation)
	}
	all := s.aggregates
	a := &aggregate{name: name, typ: value.TypeInt}
	if column, ok := nodes[0].(*ast.ColumnReferenceExpression); ok && column.ColumnType == "Wildcard" {
		a.star = true
	} else {
		within := *s
		within.aggregates = nil // no aggregate of an aggregate
		var err error
		if a.arg, err = c.scalar(nodes[0], &within); err != nil {
			return operand{}, err
		}
	}
	switch name {
	case "COUNT":
	case "COUNT_BIG":
		a.typ = value.TypeBigInt
	case "SUM":
		if !a.arg.typ.IsInteger() {
			return operand{}, sqlerr.Unsupported("SUM of %s", a.arg.typ)
		}
		if a.arg.typ.Kind == value.BigInt {
			a.typ = value.TypeBigInt
		}
	default:
		a.typ = a.arg.typ
		if a.typ.Kind == value.Bit {
			return operand{}, sqlerr.New(8117, "Operand data type bit is invalid for %s operator.", name).Ends(sqlerr.EndsCompilation)
		}
		if a.typ.IsString() {
			var err error
			if a.collation, err = a.arg.label.decided(name); err != nil {
				return operand{}, err
			}
		}
	}
	place := len(*all)
	*all = append(*all, a)
	return operand{typ: a.typ, label: a.arg.label, eval: func(e *env) (any, error) { return e.groups[place], nil }}, nil
}

// add takes one row into account.
func (a *aggregate) add(e *env, sum any) (any, error) {
	var v any
	if !a.star {
		var err error
		if v, err = a.arg.eval(e); err != nil || v == nil {
			return sum, err // NULL does not count
		}
	}
	switch {
	case a.name == "COUNT" || a.name == "COUNT_BIG":
		n, _ := sum.(int64)
		return n + 1, nil
	case sum == nil:
		return v, nil
	case a.name == "SUM":
		total, err := calculate("Add", sum.(int64), v.(int64))
		if err == nil && value.InRange(total, a.typ) != nil {
			err = sqlerr.Overflow(a.typ.Name())
		}
		return total, err
	}
	order := value.Compare(a.typ, a.collation, v, sum)
	if a.name == "MIN" && order < 0 || a.name == "MAX" && order > 0 {
		return v, nil
	}
	return sum, nil
}

// runAggregates emits the one row of a query with aggregates.
func (q *query) runAggregates(e *env, emit func([]any) error) error {
	groups := make([]any, len(q.aggregates))
	for i, a := range q.aggregates {
		if a.name == "COUNT" || a.name == "COUNT_BIG" {
			groups[i] = int64(0)
		}
	}
	err := q.loop(e, func() error {
		if ok, err := allTrue(e, q.where); err != nil || !ok {
			return err
		}
		for i, a := range q.aggregates {
			var err error
			if groups[i], err = a.add(e, groups[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	outer := e.groups
	e.groups = groups
	values, err := evaluate(e, q.items)
	e.groups = outer
	if err != nil {
		return err
	}
	return ignoreStop(emit(values))
}
