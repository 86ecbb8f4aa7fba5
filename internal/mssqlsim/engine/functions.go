package engine

import (
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/sqlc-dev/teesql/ast"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
)

// function is a built-in function whose arguments are plain expressions.
type function struct {
	least, most int
	compile     func(c *compiler, args []operand) (operand, error)
}

// builtin finds a function by its name.
func builtin(name string) (function, bool) {
	for _, group := range []map[string]function{stringFunctions, timeFunctions, systemFunctions} {
		if f, ok := group[name]; ok {
			return f, true
		}
	}
	return function{}, false
}

func (c *compiler) call(name string, nodes []ast.ScalarExpression, s *scope) (operand, error) {
	name = strings.ToUpper(name)
	if isAggregate(name) {
		return c.aggregate(name, nodes, s)
	}
	if name == "DATEADD" || name == "DATEDIFF" || name == "DATEDIFF_BIG" {
		return c.dateArithmetic(name, nodes, s)
	}
	f, ok := builtin(name)
	if !ok {
		return operand{}, sqlerr.Unsupported("the function %s", name)
	}
	if len(nodes) < f.least || len(nodes) > f.most {
		return operand{}, sqlerr.New(174, "The %s function requires %d argument(s).", strings.ToLower(name), f.least).With(15, 1).Ends(sqlerr.EndsCompilation)
	}
	args := make([]operand, len(nodes))
	var refs slots
	for i, node := range nodes {
		var err error
		if args[i], err = c.scalar(node, s); err != nil {
			return args[i], err
		}
		refs |= args[i].refs
	}
	result, err := f.compile(c, args)
	result.refs = refs
	result.name = ""
	return result, err
}

// onValue is the shape of most functions: NULL in, NULL out.
func onValue(typ value.Type, l label, arg operand, f func(e *env, v any) (any, error)) operand {
	return operand{typ: typ, label: l, eval: func(e *env) (any, error) {
		v, err := arg.eval(e)
		if err != nil || v == nil {
			return nil, err
		}
		return f(e, v)
	}}
}

// asString converts an argument to a string as string functions do.
func (c *compiler) asString(o operand) (operand, error) {
	if o.typ.IsString() {
		return o, nil
	}
	return c.implicit(o, value.NVarCharOf(4000))
}

var stringFunctions = map[string]function{
	"LEN":        {1, 1, stringLength},
	"DATALENGTH": {1, 1, dataLength},
	"LEFT":       {2, 2, func(c *compiler, args []operand) (operand, error) { return cutEnd(c, "left", args) }},
	"RIGHT":      {2, 2, func(c *compiler, args []operand) (operand, error) { return cutEnd(c, "right", args) }},
	"SUBSTRING":  {3, 3, substring},
	"LOWER":      {1, 1, func(c *compiler, args []operand) (operand, error) { return mapped(c, args, strings.ToLower) }},
	"UPPER":      {1, 1, func(c *compiler, args []operand) (operand, error) { return mapped(c, args, strings.ToUpper) }},
	"LTRIM":      {1, 1, func(c *compiler, args []operand) (operand, error) { return mapped(c, args, trimLeft) }},
	"RTRIM":      {1, 1, func(c *compiler, args []operand) (operand, error) { return mapped(c, args, trimRight) }},
	"CONCAT":     {2, 254, concat},
	"ISNULL":     {2, 2, isNull},
	"QUOTENAME":  {1, 1, quoteName},
	"UNICODE":    {1, 1, codePoint},
	"NCHAR":      {1, 1, character},
}

func trimLeft(s string) string  { return strings.TrimLeft(s, " ") }
func trimRight(s string) string { return strings.TrimRight(s, " ") }

func stringLength(c *compiler, args []operand) (operand, error) {
	arg, err := c.asString(args[0])
	typ := value.TypeInt
	if arg.typ.Size == value.Max {
		typ = value.TypeBigInt
	}
	return onValue(typ, label{}, arg, func(_ *env, v any) (any, error) {
		return int64(value.Units(strings.TrimRight(v.(string), " "))), nil
	}), err
}

func dataLength(_ *compiler, args []operand) (operand, error) {
	arg := args[0]
	typ := value.TypeInt
	if arg.typ.Size == value.Max {
		typ = value.TypeBigInt
	}
	fixed := map[value.Kind]int64{value.Bit: 1, value.TinyInt: 1, value.SmallInt: 2, value.Int: 4, value.BigInt: 8}
	return onValue(typ, label{}, arg, func(_ *env, v any) (any, error) {
		switch x := v.(type) {
		case string:
			if arg.typ.Kind == value.VarChar {
				return int64(len([]rune(x))), nil
			}
			return int64(2 * value.Units(x)), nil
		case []byte:
			return int64(len(x)), nil
		}
		if n, ok := fixed[arg.typ.Kind]; ok {
			return n, nil
		}
		return nil, sqlerr.Unsupported("DATALENGTH of %s", arg.typ)
	}), nil
}

// cutEnd is LEFT and RIGHT.
func cutEnd(c *compiler, side string, args []operand) (operand, error) {
	text, err := c.asString(args[0])
	if err != nil {
		return text, err
	}
	count, err := c.implicit(args[1], value.TypeInt)
	return onValue(text.typ, text.label, text, func(e *env, v any) (any, error) {
		n, err := count.eval(e)
		if err != nil || n == nil {
			return nil, err
		}
		wanted := int(n.(int64))
		if wanted < 0 {
			return nil, sqlerr.New(536, "Invalid length parameter passed to the %s function.", side)
		}
		all := utf16.Encode([]rune(v.(string)))
		wanted = min(wanted, len(all))
		if side == "left" {
			return string(utf16.Decode(all[:wanted])), nil
		}
		return string(utf16.Decode(all[len(all)-wanted:])), nil
	}), err
}

func substring(c *compiler, args []operand) (operand, error) {
	text, err := c.asString(args[0])
	if err != nil {
		return text, err
	}
	start, err := c.implicit(args[1], value.TypeInt)
	if err != nil {
		return start, err
	}
	count, err := c.implicit(args[2], value.TypeInt)
	return onValue(text.typ, text.label, text, func(e *env, v any) (any, error) {
		from, err := start.eval(e)
		if err != nil || from == nil {
			return nil, err
		}
		n, err := count.eval(e)
		if err != nil || n == nil {
			return nil, err
		}
		if n.(int64) < 0 {
			return nil, sqlerr.New(537, "Invalid length parameter passed to the LEFT or SUBSTRING function.")
		}
		all := utf16.Encode([]rune(v.(string)))
		first := from.(int64) - 1
		end := min(first+n.(int64), int64(len(all)))
		if first = max(first, 0); first >= end {
			return "", nil
		}
		return string(utf16.Decode(all[first:end])), nil
	}), err
}

func mapped(c *compiler, args []operand, f func(string) string) (operand, error) {
	arg, err := c.asString(args[0])
	return onValue(arg.typ, arg.label, arg, func(_ *env, v any) (any, error) { return f(v.(string)), nil }), err
}

// concat takes NULL for an empty string.
func concat(c *compiler, args []operand) (operand, error) {
	result := operand{typ: value.VarCharOf(1)}
	size := 0
	for i := range args {
		arg, err := c.asString(args[i])
		if err != nil {
			return result, err
		}
		if args[i] = arg; arg.typ.Size == value.Max || size == value.Max {
			size = value.Max
		} else {
			size += arg.typ.Size
		}
		if arg.typ.Kind == value.NVarChar {
			result.typ.Kind = value.NVarChar
		}
		if result.label, err = result.label.combine(arg.label, "concat"); err != nil {
			return result, err
		}
	}
	most := 8000
	if result.typ.Kind == value.NVarChar {
		most = 4000
	}
	result.typ.Size = min(size, most)
	typ := result.typ
	result.eval = func(e *env) (any, error) {
		var b strings.Builder
		for _, arg := range args {
			v, err := arg.eval(e)
			if err != nil {
				return nil, err
			}
			if v != nil {
				b.WriteString(v.(string))
			}
		}
		return value.Convert(b.String(), typ, typ)
	}
	return result, nil
}

// isNull is ISNULL, whose result has the type of its first argument.
func isNull(c *compiler, args []operand) (operand, error) {
	first := args[0]
	if first.typ.Kind == value.Null {
		return args[1], nil
	}
	second, err := c.implicit(args[1], first.typ)
	return operand{typ: first.typ, label: first.label, eval: func(e *env) (any, error) {
		if v, err := first.eval(e); err != nil || v != nil {
			return v, err
		}
		return second.eval(e)
	}}, err
}

func quoteName(c *compiler, args []operand) (operand, error) {
	arg, err := c.implicit(args[0], value.TypeNVarCharMax)
	return onValue(value.NVarCharOf(258), c.stringLabel(), arg, func(_ *env, v any) (any, error) {
		s := v.(string)
		if value.Units(s) > 128 {
			return nil, nil
		}
		return "[" + strings.ReplaceAll(s, "]", "]]") + "]", nil
	}), err
}

func codePoint(c *compiler, args []operand) (operand, error) {
	arg, err := c.asString(args[0])
	return onValue(value.TypeInt, label{}, arg, func(_ *env, v any) (any, error) {
		all := utf16.Encode([]rune(v.(string)))
		if len(all) == 0 {
			return nil, nil
		}
		return int64(all[0]), nil
	}), err
}

func character(c *compiler, args []operand) (operand, error) {
	arg, err := c.implicit(args[0], value.TypeInt)
	return onValue(value.NVarCharOf(1), c.stringLabel(), arg, func(_ *env, v any) (any, error) {
		n := v.(int64)
		if n < 0 || n > 0xFFFF || utf16.IsSurrogate(rune(n)) || n > unicode.MaxRune { //nolint:gosec // checked
			return nil, nil
		}
		return string(rune(n)), nil //nolint:gosec // checked
	}), err
}

// split reads a name of one or two parts, as OBJECT_ID takes it.
func split(name string) (schema, base string, ok bool) {
	var parts []string
	rest := strings.TrimSpace(name)
	for {
		var part string
		if strings.HasPrefix(rest, "[") {
			end := strings.Index(strings.ReplaceAll(rest, "]]", "\x00\x00"), "]")
			if end < 0 {
				return "", "", false
			}
			part, rest = strings.ReplaceAll(rest[1:end], "]]", "]"), rest[end+1:]
		} else {
			end := strings.IndexByte(rest, '.')
			if end < 0 {
				end = len(rest)
			}
			part, rest = rest[:end], rest[end:]
		}
		parts = append(parts, part)
		if rest == "" {
			break
		}
		if rest[0] != '.' {
			return "", "", false
		}
		rest = rest[1:]
	}
	switch len(parts) {
	case 1:
		return "dbo", parts[0], true
	case 2:
		return parts[0], parts[1], true
	}
	return "", "", false
}

// sameName compares names of the catalog.
func sameName(a, b string) bool { return rows.Fold(a) == rows.Fold(b) }
