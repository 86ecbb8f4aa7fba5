package engine

import (
	"math"
	"time"

	"github.com/sqlc-dev/teesql/ast"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
)

var timeFunctions = map[string]function{
	"SYSDATETIMEOFFSET": {0, 0, func(*compiler, []operand) (operand, error) {
		return operand{typ: value.TypeDateTimeOffset, eval: func(e *env) (any, error) { return e.now, nil }}, nil
	}},
	"SYSUTCDATETIME": {0, 0, func(*compiler, []operand) (operand, error) {
		return operand{typ: value.TypeDateTime2, eval: func(e *env) (any, error) { return e.now.UTC(), nil }}, nil
	}},
	"SYSDATETIME": {0, 0, func(*compiler, []operand) (operand, error) {
		return operand{typ: value.TypeDateTime2, eval: func(e *env) (any, error) {
			return value.Convert(e.now, value.TypeDateTimeOffset, value.TypeDateTime2)
		}}, nil
	}},
	"SWITCHOFFSET":     {2, 2, switchOffset},
	"TODATETIMEOFFSET": {2, 2, toDateTimeOffset},
}

// offsetMinutes reads a time zone: minutes, or a string as '+02:00'.
func offsetMinutes(c *compiler, o operand) (func(e *env) (*time.Location, error), error) {
	bad := sqlerr.New(9812, "The timezone provided to builtin function is invalid.")
	if o.typ.IsString() {
		return func(e *env) (*time.Location, error) {
			v, err := o.eval(e)
			if err != nil || v == nil {
				return nil, err
			}
			t, err := time.Parse("-07:00", v.(string))
			if err != nil {
				return nil, bad
			}
			_, seconds := t.Zone()
			return value.Offset(seconds / 60), nil
		}, nil
	}
	minutes, err := c.implicit(o, value.TypeInt)
	return func(e *env) (*time.Location, error) {
		v, err := minutes.eval(e)
		if err != nil || v == nil {
			return nil, err
		}
		if n := v.(int64); n < -14*60 || n > 14*60 {
			return nil, bad
		}
		return value.Offset(int(v.(int64))), nil
	}, err
}

// switchOffset keeps the instant and changes the offset.
func switchOffset(c *compiler, args []operand) (operand, error) {
	moment, err := c.implicit(args[0], value.TypeDateTimeOffset)
	if err != nil {
		return moment, err
	}
	zone, err := offsetMinutes(c, args[1])
	return onValue(moment.typ, label{}, moment, func(e *env, v any) (any, error) {
		z, err := zone(e)
		if err != nil || z == nil {
			return nil, err
		}
		return v.(time.Time).In(z), nil
	}), err
}

// toDateTimeOffset keeps the local time and gives it an offset.
func toDateTimeOffset(c *compiler, args []operand) (operand, error) {
	moment, err := c.implicit(args[0], value.TypeDateTime2)
	if err != nil {
		return moment, err
	}
	zone, err := offsetMinutes(c, args[1])
	return onValue(value.TypeDateTimeOffset, label{}, moment, func(e *env, v any) (any, error) {
		z, err := zone(e)
		if err != nil || z == nil {
			return nil, err
		}
		t := v.(time.Time).UTC()
		return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), z), nil
	}), err
}

// dateArithmetic compiles DATEADD, DATEDIFF and DATEDIFF_BIG, whose first argument is no expression but a datepart.
func (c *compiler) dateArithmetic(name string, nodes []ast.ScalarExpression, s *scope) (operand, error) {
	if len(nodes) != 3 {
		return operand{}, sqlerr.New(174, "The %s function requires 3 argument(s).", name).With(15, 1).Ends(sqlerr.EndsCompilation)
	}
	word, ok := nodes[0].(*ast.ColumnReferenceExpression)
	if !ok || len(word.MultiPartIdentifier.Identifiers) != 1 {
		return operand{}, sqlerr.New(1023, "Invalid parameter 1 specified for %s.", name).With(15, 1).Ends(sqlerr.EndsCompilation)
	}
	part, ok := value.FindPart(word.MultiPartIdentifier.Identifiers[0].Value)
	if !ok {
		return operand{}, sqlerr.Unsupported("the datepart %s", word.MultiPartIdentifier.Identifiers[0].Value)
	}
	first, err := c.scalar(nodes[1], s)
	if err != nil {
		return first, err
	}
	second, err := c.scalar(nodes[2], s)
	if err != nil {
		return second, err
	}
	if name == "DATEADD" {
		return c.dateAdd(part, first, second)
	}
	return c.dateDiff(name, part, first, second)
}

func (c *compiler) dateAdd(part value.Part, number, moment operand) (operand, error) {
	number, err := c.implicit(number, value.TypeInt) // a bigint that does not fit an int is an overflow
	if err != nil {
		return number, err
	}
	if !moment.typ.IsTime() {
		return moment, sqlerr.Unsupported("DATEADD to a %s", moment.typ)
	}
	typ := moment.typ
	return operand{typ: typ, refs: number.refs | moment.refs, eval: func(e *env) (any, error) {
		n, err := number.eval(e)
		if err != nil || n == nil {
			return nil, err
		}
		v, err := moment.eval(e)
		if err != nil || v == nil {
			return nil, err
		}
		return part.Add(v.(time.Time), n.(int64), typ)
	}}, nil
}

func (c *compiler) dateDiff(name string, part value.Part, from, to operand) (operand, error) {
	result := operand{typ: value.TypeBigInt, refs: from.refs | to.refs}
	if name == "DATEDIFF" {
		result.typ = value.TypeInt
	}
	for _, o := range []*operand{&from, &to} {
		if !o.typ.IsTime() {
			return result, sqlerr.Unsupported("%s of a %s", name, o.typ)
		}
		// A datetime2 counts as UTC.
		*o = c.converted(*o, value.TypeDateTimeOffset)
	}
	result.eval = func(e *env) (any, error) {
		a, err := from.eval(e)
		if err != nil || a == nil {
			return nil, err
		}
		b, err := to.eval(e)
		if err != nil || b == nil {
			return nil, err
		}
		n, err := part.Diff(a.(time.Time), b.(time.Time))
		if err == nil && name == "DATEDIFF" && (n > math.MaxInt32 || n < math.MinInt32) {
			err = sqlerr.DateDiffOverflow()
		}
		return n, err
	}
	return result, nil
}
