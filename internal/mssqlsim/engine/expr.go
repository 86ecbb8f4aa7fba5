package engine

import (
	"github.com/sqlc-dev/teesql/ast"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/syntax"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
)

// env is what an expression is evaluated in: the running statement and the rows that it looks at just now.
type env struct {
	*frame
	rows   []rows.Row      // by slot; nil = no row, as on the empty side of an outer join
	probes map[int]*probed // by slot: what sources of this statement keep
	groups []any           // values of aggregates
	changing
}

func (f *frame) env(slots int) *env { return &env{frame: f, rows: make([]rows.Row, slots)} }

// operand is a compiled expression.
type operand struct {
	typ   value.Type
	label label
	eval  func(e *env) (any, error)

	name  string  // of the column that it is, for the result set
	refs  slots   // rows that it looks at
	from  *source // if it is a plain column: of which source,
	place int     // and which one
}

// slots is a set of places in env.rows.
type slots uint64

func (s slots) within(other slots) bool { return s&^other == 0 }

// rank says how strongly an expression insists on its collation.
type rank uint8

const (
	noCollation rank = iota // no string
	coercible               // a variable, a literal: takes any
	implicitly              // a column
	undecided               // two columns that disagree
	explicitly              // COLLATE
)

// label is the collation of a string expression.
type label struct {
	rank      rank
	collation value.Collation
	other     value.Collation // of undecided: the other one
}

// combine is the collation of an operation on two strings.
func (l label) combine(other label, operation string) (label, error) {
	switch {
	case l.rank == explicitly && other.rank == explicitly && l.collation.Name != other.collation.Name:
		return l, sqlerr.CollationConflict(l.collation.Name, other.collation.Name, operation)
	case l.rank == implicitly && other.rank == implicitly && l.collation.Name != other.collation.Name:
		return label{undecided, l.collation, other.collation}, nil
	case l.rank >= other.rank:
		return l, nil
	default:
		return other, nil
	}
}

// decided returns the collation to compare with.
func (l label) decided(operation string) (value.Collation, error) {
	if l.rank == undecided {
		return l.collation, sqlerr.CollationConflict(l.collation.Name, l.other.Name, operation)
	}
	return l.collation, nil
}

// scope is the rows that names can mean, those of an enclosing query behind.
type scope struct {
	sources []*source
	parent  *scope
	// aggregates collects COUNT and the like of a query; nil where there can be none.
	aggregates *[]*aggregate
}

// constant is an operand with one value.
func constant(typ value.Type, v any) operand {
	return operand{typ: typ, eval: func(*env) (any, error) { return v, nil }}
}

// stringLabel is the label of a string that is no column.
func (c *compiler) stringLabel() label {
	return label{rank: coercible, collation: c.session.node.collation}
}

// scalar compiles an expression with the COLLATE clause behind it.
func (c *compiler) scalar(node ast.ScalarExpression, s *scope) (operand, error) {
	o, err := c.uncollated(node, s)
	if err != nil {
		return o, err
	}
	switch node.(type) {
	case *ast.BinaryExpression, *ast.UnaryExpression:
		return o, nil // COLLATE binds tighter: what stands there belongs to the last operand
	}
	spanned, ok := node.(syntax.Spanned)
	if !ok {
		return o, nil
	}
	collation, found, err := c.collation(spanned)
	if err != nil || !found {
		return o, err
	}
	if !o.typ.IsString() {
		return o, sqlerr.New(447, "Expression type %s is invalid for COLLATE clause.", o.typ.Name()).Ends(sqlerr.EndsCompilation)
	}
	o.label = label{rank: explicitly, collation: collation}
	return o, nil
}

func (c *compiler) uncollated(node ast.ScalarExpression, s *scope) (operand, error) {
	switch n := node.(type) {
	case *ast.ParenthesisExpression:
		o, err := c.scalar(n.Expression, s)
		o.name = ""
		return o, err
	case *ast.VariableReference:
		v, err := c.variable(n.Name)
		return c.variableOperand(v), err
	case *ast.ColumnReferenceExpression:
		return c.column(n, s)
	case *ast.IntegerLiteral, *ast.StringLiteral, *ast.BinaryLiteral, *ast.NullLiteral:
		return c.literal(n)
	case *ast.GlobalVariableExpression:
		return c.global(n)
	case *ast.UnaryExpression:
		return c.unary(n, s)
	case *ast.BinaryExpression:
		left, err := c.scalar(n.FirstExpression, s)
		if err != nil {
			return left, err
		}
		right, err := c.scalar(n.SecondExpression, s)
		if err != nil {
			return right, err
		}
		return c.binary(n.BinaryExpressionType, left, right)
	case *ast.ScalarSubquery:
		return c.subquery(n.QueryExpression, s)
	case *ast.FunctionCall:
		return c.call(n.FunctionName.Value, n.Parameters, s)
	case *ast.LeftFunctionCall:
		return c.call("LEFT", n.Parameters, s)
	case *ast.RightFunctionCall:
		return c.call("RIGHT", n.Parameters, s)
	}
	return c.conditional(node, s)
}

func (c *compiler) variableOperand(v variable) operand {
	o := operand{typ: v.typ, eval: func(e *env) (any, error) { return e.vars[v.slot], nil }}
	if v.typ.IsString() {
		o.label = c.stringLabel()
	}
	return o
}

// implicit converts an operand to a type as an assignment does.
func (c *compiler) implicit(o operand, to value.Type) (operand, error) {
	if !value.Convertible(o.typ, to) {
		return o, sqlerr.NoConversion(o.typ.Name(), to.Name())
	}
	if !value.ImplicitlyConvertible(o.typ, to) {
		return o, sqlerr.New(257, "Implicit conversion from data type %s to %s is not allowed. Use the CONVERT function to run this query.", o.typ.Name(), to.Name()).
			With(16, 3).Ends(sqlerr.EndsCompilation)
	}
	return c.converted(o, to), nil
}

// converted is the operand with its value made one of another type.
func (c *compiler) converted(o operand, to value.Type) operand {
	if o.typ == to {
		return o
	}
	from, eval := o.typ, o.eval
	o.eval = func(e *env) (any, error) {
		v, err := eval(e)
		if err != nil || v == nil {
			return nil, err
		}
		return value.Convert(v, from, to)
	}
	o.typ = to
	switch {
	case !to.IsString():
		o.label = label{}
	case o.label.rank == noCollation:
		o.label = c.stringLabel()
	}
	return o
}

// unify converts operands to the type that they have in common.
func (c *compiler) unify(operands ...*operand) (value.Type, error) {
	typ := operands[0].typ
	for _, o := range operands[1:] {
		typ = value.Common(typ, o.typ)
	}
	for _, o := range operands {
		converted, err := c.implicit(*o, typ)
		if err != nil {
			return typ, err
		}
		*o = converted
	}
	return typ, nil
}

// labels combines the collations of operands.
func labels(operation string, operands ...*operand) (label, error) {
	var l label
	for _, o := range operands {
		var err error
		if l, err = l.combine(o.label, operation); err != nil {
			return l, err
		}
	}
	return l, nil
}
