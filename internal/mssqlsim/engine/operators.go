package engine

import (
	"encoding/hex"
	"math"
	"math/bits"
	"strconv"

	"github.com/sqlc-dev/teesql/ast"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/locks"
)

func (c *compiler) literal(node ast.ScalarExpression) (operand, error) {
	switch n := node.(type) {
	case *ast.IntegerLiteral:
		v, err := strconv.ParseInt(n.Value, 10, 32)
		if err != nil {
			return operand{}, sqlerr.Unsupported("the number %s: one beyond int is a numeric", n.Value)
		}
		return constant(value.TypeInt, v), nil
	case *ast.StringLiteral:
		o := constant(value.VarCharOf(len(n.Value)), n.Value)
		if n.IsNational {
			o.typ = value.NVarCharOf(value.Units(n.Value))
		} else if v, err := value.Convert(n.Value, o.typ, o.typ); err == nil {
			o = constant(o.typ, v) // in the code page of the database
		}
		o.label = c.stringLabel()
		return o, nil
	case *ast.BinaryLiteral:
		digits := n.Value[2:]
		if len(digits)%2 == 1 {
			digits = "0" + digits
		}
		b, err := hex.DecodeString(digits)
		if err != nil {
			return operand{}, sqlerr.Syntax(n.Value)
		}
		return constant(value.VarBinaryOf(len(b)), b), nil
	default:
		return constant(value.Type{}, nil), nil // NULL
	}
}

func (c *compiler) unary(n *ast.UnaryExpression, s *scope) (operand, error) {
	if v, ok := integerLiteral(n); ok {
		return constant(value.TypeInt, v), nil
	}
	o, err := c.scalar(n.Expression, s)
	if err != nil || n.UnaryExpressionType == "Positive" {
		return o, err
	}
	return c.binary("Subtract", constant(value.TypeInt, int64(0)), o)
}

// binary compiles an arithmetic operator, or + on strings and binaries.
func (c *compiler) binary(operator string, left, right operand) (operand, error) {
	names := map[string]string{"Add": "add", "Subtract": "subtract", "Multiply": "multiply", "Divide": "divide"}
	typ := value.Common(left.typ, right.typ)
	switch {
	case typ.IsInteger():
		return c.arithmetic(operator, left, right)
	case operator == "Add" && left.typ.IsString() && right.typ.IsString():
		return c.concatenation(left, right)
	default:
		return operand{}, sqlerr.Operand(left.typ.Name(), right.typ.Name(), names[operator])
	}
}

func (c *compiler) concatenation(left, right operand) (operand, error) {
	l, err := labels("add", &left, &right)
	if err != nil {
		return operand{}, err
	}
	typ := value.Common(left.typ, right.typ)
	size := left.typ.Size + right.typ.Size
	switch {
	case left.typ.Size == value.Max || right.typ.Size == value.Max:
		typ.Size = value.Max
	case typ.Kind == value.NVarChar:
		typ.Size = min(size, 4000)
	default:
		typ.Size = min(size, 8000)
	}
	return operand{typ: typ, label: l, refs: left.refs | right.refs, eval: func(e *env) (any, error) {
		a, err := left.eval(e)
		if err != nil || a == nil {
			return nil, err
		}
		b, err := right.eval(e)
		if err != nil || b == nil {
			return nil, err
		}
		return value.Convert(a.(string)+b.(string), typ, typ)
	}}, nil
}

func (c *compiler) arithmetic(operator string, left, right operand) (operand, error) {
	typ, err := c.unify(&left, &right)
	if err != nil {
		return operand{}, err
	}
	return operand{typ: typ, refs: left.refs | right.refs, eval: func(e *env) (any, error) {
		a, err := left.eval(e)
		if err != nil || a == nil {
			return nil, err
		}
		b, err := right.eval(e)
		if err != nil || b == nil {
			return nil, err
		}
		v, err := calculate(operator, a.(int64), b.(int64))
		if err != nil {
			return nil, err
		}
		if value.InRange(v, typ) != nil {
			return nil, sqlerr.Overflow(typ.Name())
		}
		return v, nil
	}}, nil
}

// calculate does 64-bit arithmetic; what does not fit is an overflow.
func calculate(operator string, a, b int64) (int64, error) {
	overflow := sqlerr.Overflow("bigint")
	switch operator {
	case "Add":
		if sum := a + b; (sum > a) == (b > 0) {
			return sum, nil
		}
		return 0, overflow
	case "Subtract":
		if difference := a - b; (difference < a) == (b > 0) {
			return difference, nil
		}
		return 0, overflow
	case "Multiply":
		negative := (a < 0) != (b < 0)
		high, low := bits.Mul64(magnitude(a), magnitude(b))
		switch {
		case high != 0 || low > 1<<63 || low == 1<<63 && !negative:
			return 0, overflow
		case negative:
			return -int64(low), nil //nolint:gosec // checked
		}
		return int64(low), nil //nolint:gosec // checked
	default: // Divide
		if b == 0 {
			return 0, sqlerr.DivideByZero()
		}
		if a == math.MinInt64 && b == -1 {
			return 0, overflow
		}
		return a / b, nil
	}
}

func magnitude(v int64) uint64 {
	if v < 0 {
		return -uint64(v) //nolint:gosec // two's complement is the point
	}
	return uint64(v)
}

// global compiles @@ROWCOUNT and its like.
func (c *compiler) global(n *ast.GlobalVariableExpression) (operand, error) {
	integer := func(typ value.Type, of func(*env) int64) (operand, error) {
		return operand{typ: typ, eval: func(e *env) (any, error) { return of(e), nil }}, nil
	}
	switch rows.Fold(n.Name) {
	case "@@rowcount":
		return integer(value.TypeInt, func(e *env) int64 { return e.session.rowCount })
	case "@@error":
		return integer(value.TypeInt, func(e *env) int64 { return int64(e.session.lastError) })
	case "@@trancount":
		return integer(value.TypeInt, func(e *env) int64 { return int64(e.session.depth()) })
	case "@@spid":
		return integer(value.TypeSmallInt, func(e *env) int64 { return int64(e.session.id) }) //nolint:gosec // counts sessions
	case "@@lock_timeout":
		return integer(value.TypeInt, func(e *env) int64 {
			if e.session.lockTimeout == locks.Forever {
				return -1
			}
			return e.session.lockTimeout.Milliseconds()
		})
	case "@@dbts":
		return operand{typ: value.Type{Kind: value.VarBinary, Size: 8}, eval: func(e *env) (any, error) {
			return rows.RowVersionBytes(e.session.node.Data().LastRowVersion()), nil
		}}, nil
	case "@@servername":
		return c.text(func(e *env) any { return e.session.node.name }), nil
	}
	return operand{}, sqlerr.Unsupported("%s", n.Name)
}

// text is an operand that is a name of the system.
func (c *compiler) text(of func(*env) any) operand {
	return operand{typ: value.TypeSysname, label: c.stringLabel(), eval: func(e *env) (any, error) { return of(e), nil }}
}
