package engine

import (
	"unicode/utf8"

	"github.com/sqlc-dev/teesql/ast"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
)

// truth is the value of a condition. NULL makes it unknown.
type truth int8

const (
	isFalse truth = iota - 1
	unknown
	isTrue
)

func truthOf(b bool) truth {
	if b {
		return isTrue
	}
	return isFalse
}

// predicate is a compiled condition.
type predicate struct {
	eval func(e *env) (truth, error)
	refs slots
	// equal, if set, says that the condition is a plain equality of two operands under the given collation: what a
	// row can be looked up by.
	equal *equality
}

type equality struct {
	sides     [2]operand // as compared: of one type
	raw       [2]operand // before they were converted to it
	collation value.Collation
}

func (c *compiler) predicate(node ast.BooleanExpression, s *scope) (predicate, error) {
	switch n := node.(type) {
	case *ast.BooleanParenthesisExpression:
		return c.predicate(n.Expression, s)
	case *ast.BooleanNotExpression:
		p, err := c.predicate(n.Expression, s)
		eval := p.eval
		return predicate{refs: p.refs, eval: func(e *env) (truth, error) {
			t, err := eval(e)
			return -t, err
		}}, err
	case *ast.BooleanBinaryExpression:
		return c.connective(n, s)
	case *ast.BooleanComparisonExpression:
		left, err := c.scalar(n.FirstExpression, s)
		if err != nil {
			return predicate{}, err
		}
		right, err := c.scalar(n.SecondExpression, s)
		if err != nil {
			return predicate{}, err
		}
		return c.comparison(n.ComparisonType, left, right)
	case *ast.BooleanIsNullExpression:
		o, err := c.scalar(n.Expression, s)
		return predicate{refs: o.refs, eval: func(e *env) (truth, error) {
			v, err := o.eval(e)
			return truthOf((v == nil) != n.IsNot), err
		}}, err
	case *ast.BooleanInExpression:
		return c.in(n, s)
	case *ast.BooleanTernaryExpression:
		return c.between(n, s)
	case *ast.BooleanLikeExpression:
		return c.like(n, s)
	case *ast.ExistsPredicate:
		return c.exists(n.Subquery, s)
	}
	return predicate{}, sqlerr.Unsupported("%T", node)
}

func (c *compiler) connective(n *ast.BooleanBinaryExpression, s *scope) (predicate, error) {
	left, err := c.predicate(n.FirstExpression, s)
	if err != nil {
		return left, err
	}
	right, err := c.predicate(n.SecondExpression, s)
	if err != nil {
		return right, err
	}
	if n.BinaryExpressionType == "And" {
		return both(left, right), nil
	}
	return predicate{refs: left.refs | right.refs, eval: func(e *env) (truth, error) {
		a, err := left.eval(e)
		if err != nil || a == isTrue {
			return a, err
		}
		b, err := right.eval(e)
		return max(a, b), err
	}}, nil
}

func both(left, right predicate) predicate {
	return predicate{refs: left.refs | right.refs, eval: func(e *env) (truth, error) {
		a, err := left.eval(e)
		if err != nil || a == isFalse {
			return a, err
		}
		b, err := right.eval(e)
		return min(a, b), err
	}}
}

// conjuncts splits a condition at its ANDs: each part must be true for the whole to be true.
func conjuncts(node ast.BooleanExpression) []ast.BooleanExpression {
	switch n := node.(type) {
	case nil:
		return nil
	case *ast.BooleanParenthesisExpression:
		return conjuncts(n.Expression)
	case *ast.BooleanBinaryExpression:
		if n.BinaryExpressionType == "And" {
			return append(conjuncts(n.FirstExpression), conjuncts(n.SecondExpression)...)
		}
	}
	return []ast.BooleanExpression{node}
}

// comparisons says for which order of its operands a comparison is true.
var comparisons = map[string]struct {
	less, equal, greater bool
	name                 string
}{
	"Equals":                {equal: true, name: "equal to"},
	"NotEqualToBrackets":    {less: true, greater: true, name: "not equal to"},
	"NotEqualToExclamation": {less: true, greater: true, name: "not equal to"},
	"LessThan":              {less: true, name: "less than"},
	"LessThanOrEqualTo":     {less: true, equal: true, name: "less than or equal to"},
	"GreaterThan":           {greater: true, name: "greater than"},
	"GreaterThanOrEqualTo":  {equal: true, greater: true, name: "greater than or equal to"},
}

func (c *compiler) comparison(kind string, left, right operand) (predicate, error) {
	wanted, known := comparisons[kind]
	if !known {
		return predicate{}, sqlerr.Unsupported("the comparison %s", kind)
	}
	raw := [2]operand{left, right}
	typ, err := c.unify(&left, &right)
	if err != nil {
		return predicate{}, err
	}
	var collation value.Collation
	if typ.IsString() {
		l, err := labels(wanted.name, &left, &right)
		if err != nil {
			return predicate{}, err
		}
		if collation, err = l.decided(wanted.name); err != nil {
			return predicate{}, err
		}
	}
	p := predicate{refs: left.refs | right.refs}
	justEqual := typ.IsString() && wanted.less == wanted.greater
	if kind == "Equals" {
		p.equal = &equality{sides: [2]operand{left, right}, raw: raw, collation: collation}
	}
	p.eval = func(e *env) (truth, error) {
		a, err := left.eval(e)
		if err != nil || a == nil {
			return unknown, err
		}
		b, err := right.eval(e)
		if err != nil || b == nil {
			return unknown, err
		}
		if justEqual {
			return truthOf(collation.Equal(a.(string), b.(string)) == wanted.equal), nil
		}
		order := value.Compare(typ, collation, a, b)
		return truthOf(order < 0 && wanted.less || order == 0 && wanted.equal || order > 0 && wanted.greater), nil
	}
	return p, nil
}

// in compiles x IN (a, b) as x = a OR x = b.
func (c *compiler) in(n *ast.BooleanInExpression, s *scope) (predicate, error) {
	if n.Subquery != nil {
		return predicate{}, sqlerr.Unsupported("IN with a subquery")
	}
	left, err := c.scalar(n.Expression, s)
	if err != nil {
		return predicate{}, err
	}
	var some predicate
	var parts []predicate
	for _, node := range n.Values {
		right, err := c.scalar(node, s)
		if err != nil {
			return predicate{}, err
		}
		p, err := c.comparison("Equals", left, right)
		if err != nil {
			return predicate{}, err
		}
		parts = append(parts, p)
		some.refs |= p.refs
	}
	some.eval = func(e *env) (truth, error) {
		found := isFalse
		for _, p := range parts {
			t, err := p.eval(e)
			if err != nil {
				return unknown, err
			}
			if found = max(found, t); found == isTrue {
				break
			}
		}
		if n.NotDefined {
			found = -found
		}
		return found, nil
	}
	return some, nil
}

func (c *compiler) between(n *ast.BooleanTernaryExpression, s *scope) (predicate, error) {
	var operands [3]operand
	for i, node := range []ast.ScalarExpression{n.FirstExpression, n.SecondExpression, n.ThirdExpression} {
		var err error
		if operands[i], err = c.scalar(node, s); err != nil {
			return predicate{}, err
		}
	}
	low, err := c.comparison("GreaterThanOrEqualTo", operands[0], operands[1])
	if err != nil {
		return low, err
	}
	high, err := c.comparison("LessThanOrEqualTo", operands[0], operands[2])
	if err != nil {
		return high, err
	}
	p := both(low, high)
	if n.TernaryExpressionType == "NotBetween" {
		eval := p.eval
		p.eval = func(e *env) (truth, error) {
			t, err := eval(e)
			return -t, err
		}
	}
	return p, nil
}

func (c *compiler) like(n *ast.BooleanLikeExpression, s *scope) (predicate, error) {
	text, err := c.scalar(n.FirstExpression, s)
	if err != nil {
		return predicate{}, err
	}
	pattern, err := c.scalar(n.SecondExpression, s)
	if err != nil {
		return predicate{}, err
	}
	if !text.typ.IsString() || !pattern.typ.IsString() {
		return predicate{}, sqlerr.Unsupported("LIKE on anything but strings")
	}
	var escape rune
	if n.EscapeExpression != nil {
		literal, ok := n.EscapeExpression.(*ast.StringLiteral)
		if !ok || utf8.RuneCountInString(literal.Value) != 1 {
			return predicate{}, sqlerr.Unsupported("ESCAPE with anything but a literal of one character")
		}
		escape, _ = utf8.DecodeRuneInString(literal.Value)
	}
	l, err := labels("like", &text, &pattern)
	if err != nil {
		return predicate{}, err
	}
	collation, err := l.decided("like")
	if err != nil {
		return predicate{}, err
	}
	return predicate{refs: text.refs | pattern.refs, eval: func(e *env) (truth, error) {
		a, err := text.eval(e)
		if err != nil || a == nil {
			return unknown, err
		}
		b, err := pattern.eval(e)
		if err != nil || b == nil {
			return unknown, err
		}
		match, ok := collation.Like(a.(string), b.(string), escape)
		if !ok {
			return unknown, sqlerr.Unsupported("a LIKE pattern with brackets")
		}
		return truthOf(match != n.NotDefined), nil
	}}, nil
}
