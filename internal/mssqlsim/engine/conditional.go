package engine

import (
	"github.com/sqlc-dev/teesql/ast"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
)

// conditional compiles CASE and its relatives, and casts.
func (c *compiler) conditional(node ast.ScalarExpression, s *scope) (operand, error) {
	switch n := node.(type) {
	case *ast.SearchedCaseExpression:
		var when []predicate
		var then []ast.ScalarExpression
		for _, clause := range n.WhenClauses {
			p, err := c.predicate(clause.WhenExpression, s)
			if err != nil {
				return operand{}, err
			}
			when, then = append(when, p), append(then, clause.ThenExpression)
		}
		return c.choose(when, then, n.ElseExpression, s)
	case *ast.SimpleCaseExpression:
		return c.simpleCase(n, s)
	case *ast.IIfCall:
		p, err := c.predicate(n.Predicate, s)
		if err != nil {
			return operand{}, err
		}
		return c.choose([]predicate{p}, []ast.ScalarExpression{n.ThenExpression}, n.ElseExpression, s)
	case *ast.CoalesceExpression:
		return c.coalesce(n.Expressions, s)
	case *ast.NullIfExpression:
		return c.nullIf(n, s)
	case *ast.CastCall:
		return c.cast(n.DataType, n.Parameter, nil, s)
	case *ast.ConvertCall:
		return c.cast(n.DataType, n.Parameter, n.Style, s)
	case *ast.TryCastCall:
		return c.tryCast(n.DataType, n.Parameter, s)
	case *ast.TryConvertCall:
		return c.tryCast(n.DataType, n.Parameter, s)
	}
	return operand{}, sqlerr.Unsupported("%T", node)
}

func (c *compiler) simpleCase(n *ast.SimpleCaseExpression, s *scope) (operand, error) {
	input, err := c.scalar(n.InputExpression, s)
	if err != nil {
		return input, err
	}
	var when []predicate
	var then []ast.ScalarExpression
	for _, clause := range n.WhenClauses {
		value, err := c.scalar(clause.WhenExpression, s)
		if err != nil {
			return value, err
		}
		p, err := c.comparison("Equals", input, value)
		if err != nil {
			return operand{}, err
		}
		when, then = append(when, p), append(then, clause.ThenExpression)
	}
	return c.choose(when, then, n.ElseExpression, s)
}

// choose is CASE: the value that belongs to the first condition that is true, of the type that all values have in
// common.
func (c *compiler) choose(when []predicate, then []ast.ScalarExpression, otherwise ast.ScalarExpression, s *scope) (operand, error) {
	values := make([]operand, len(then)+1)
	all := make([]*operand, len(values))
	for i := range values {
		var err error
		switch {
		case i < len(then):
			values[i], err = c.scalar(then[i], s)
		case otherwise != nil:
			values[i], err = c.scalar(otherwise, s)
		default:
			values[i] = constant(value.Type{}, nil)
		}
		if err != nil {
			return operand{}, err
		}
		all[i] = &values[i]
	}
	result, err := c.combined("CASE", all)
	if err != nil {
		return result, err
	}
	for _, p := range when {
		result.refs |= p.refs
	}
	result.eval = func(e *env) (any, error) {
		for i, p := range when {
			t, err := p.eval(e)
			if err != nil {
				return nil, err
			}
			if t == isTrue {
				return values[i].eval(e)
			}
		}
		return values[len(values)-1].eval(e)
	}
	return result, nil
}

// combined is the shell of an operand that has the value of one of several: their type, collation and references.
func (c *compiler) combined(operation string, all []*operand) (operand, error) {
	typ, err := c.unify(all...)
	if err != nil {
		return operand{}, err
	}
	if typ.Kind == value.Null {
		return operand{}, sqlerr.New(8133, "At least one of the result expressions in a CASE specification must be an expression other than the NULL constant.").Ends(sqlerr.EndsCompilation)
	}
	result := operand{typ: typ}
	if typ.IsString() {
		if result.label, err = labels(operation, all...); err != nil {
			return result, err
		}
	}
	for _, o := range all {
		result.refs |= o.refs
	}
	return result, nil
}

func (c *compiler) coalesce(nodes []ast.ScalarExpression, s *scope) (operand, error) {
	values := make([]operand, len(nodes))
	all := make([]*operand, len(nodes))
	for i, node := range nodes {
		var err error
		if values[i], err = c.scalar(node, s); err != nil {
			return operand{}, err
		}
		all[i] = &values[i]
	}
	result, err := c.combined("COALESCE", all)
	result.eval = func(e *env) (any, error) {
		for _, o := range values {
			if v, err := o.eval(e); err != nil || v != nil {
				return v, err
			}
		}
		return nil, nil
	}
	return result, err
}

func (c *compiler) nullIf(n *ast.NullIfExpression, s *scope) (operand, error) {
	first, err := c.scalar(n.FirstExpression, s)
	if err != nil {
		return first, err
	}
	second, err := c.scalar(n.SecondExpression, s)
	if err != nil {
		return second, err
	}
	same, err := c.comparison("Equals", first, second)
	if err != nil {
		return operand{}, err
	}
	return operand{typ: first.typ, label: first.label, refs: same.refs, eval: func(e *env) (any, error) {
		t, err := same.eval(e)
		if err != nil || t == isTrue {
			return nil, err
		}
		return first.eval(e)
	}}, nil
}

func (c *compiler) cast(dataType ast.DataTypeReference, node, style ast.ScalarExpression, s *scope) (operand, error) {
	to, err := c.dataType(dataType)
	if err != nil {
		return operand{}, err
	}
	if (to.IsString() || to.Kind == value.Binary || to.Kind == value.VarBinary) && !length(dataType) {
		to.Size = 30 // CAST without a length; a declaration would mean 1
	}
	o, err := c.scalar(node, s)
	if err != nil {
		return o, err
	}
	o.name, o.from = "", nil
	if style != nil {
		if v, ok := integerLiteral(style); !ok || v != 1 && v != 2 || !o.typ.IsBinary() || !to.IsString() {
			return o, sqlerr.Unsupported("CONVERT with this style")
		} else if v == 1 {
			return c.hexadecimal(o, to, "0x"), nil
		}
		return c.hexadecimal(o, to, ""), nil
	}
	if !value.Convertible(o.typ, to) {
		return o, sqlerr.New(529, "Explicit conversion from data type %s to %s is not allowed.", o.typ.Name(), to.Name()).
			With(16, 2).Ends(sqlerr.EndsCompilation)
	}
	return c.converted(o, to), nil
}

// tryCast is CAST whose failure is NULL.
func (c *compiler) tryCast(dataType ast.DataTypeReference, node ast.ScalarExpression, s *scope) (operand, error) {
	o, err := c.scalar(node, s)
	if err != nil {
		return o, err
	}
	source, err := c.cast(dataType, node, nil, s)
	if err != nil {
		return source, err
	}
	eval := source.eval
	source.eval = func(e *env) (any, error) {
		v, err := o.eval(e) // an error of the operand itself is one
		if err != nil || v == nil {
			return nil, err
		}
		if v, err = eval(e); err != nil {
			return nil, nil //nolint:nilerr // that is what TRY_CAST is for
		}
		return v, nil
	}
	return source, nil
}
