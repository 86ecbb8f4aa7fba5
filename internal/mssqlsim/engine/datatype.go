package engine

import (
	"fmt"
	"strconv"

	"github.com/sqlc-dev/teesql/ast"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/rows"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/value"
)

// dataType reads the name of a type with its length or scale.
func (c *compiler) dataType(node ast.DataTypeReference) (value.Type, error) {
	if user, ok := node.(*ast.UserDataTypeReference); ok {
		if user.Name.SchemaIdentifier == nil && rows.Fold(user.Name.BaseIdentifier.Value) == "sysname" {
			return value.TypeSysname, nil
		}
		return value.Type{}, sqlerr.Unsupported("the type %s", user.Name.BaseIdentifier.Value)
	}
	n, ok := node.(*ast.SqlDataTypeReference)
	if !ok {
		return value.Type{}, sqlerr.Unsupported("%T", node)
	}
	name := rows.Fold(n.Name.BaseIdentifier.Value)
	if len(n.Parameters) > 1 {
		return value.Type{}, sqlerr.Unsupported("the type %s with %d parameters", name, len(n.Parameters))
	}
	size := 1 // of a declaration without a length
	scale := 7
	if len(n.Parameters) == 1 {
		switch p := n.Parameters[0].(type) {
		case *ast.MaxLiteral:
			size = value.Max
		case *ast.IntegerLiteral:
			v, err := strconv.Atoi(p.Value)
			if err != nil {
				return value.Type{}, sqlerr.Syntax(p.Value)
			}
			size, scale = v, v
		default:
			return value.Type{}, sqlerr.Unsupported("%T as a length", p)
		}
	}
	plain, isPlain := map[string]value.Type{
		"bit": value.TypeBit, "tinyint": value.TypeTinyInt, "smallint": value.TypeSmallInt, "int": value.TypeInt,
		"bigint": value.TypeBigInt, "uniqueidentifier": value.TypeGUID, "rowversion": value.TypeRowVersion,
		"timestamp": value.TypeRowVersion, "sysname": value.TypeSysname,
	}[name]
	if isPlain {
		if len(n.Parameters) > 0 {
			return value.Type{}, sqlerr.New(2716, "Column, parameter, or variable #1: Cannot specify a column width on data type %s.", name).Ends(sqlerr.EndsCompilation)
		}
		return plain, nil
	}
	switch name {
	case "nvarchar":
		return limited(value.Type{Kind: value.NVarChar, Size: size}, 4000)
	case "varchar":
		return limited(value.Type{Kind: value.VarChar, Size: size}, 8000)
	case "varbinary":
		return limited(value.Type{Kind: value.VarBinary, Size: size}, 8000)
	case "binary":
		return limited(value.Type{Kind: value.Binary, Size: size}, 8000)
	case "datetimeoffset", "datetime2":
		if scale < 0 || scale > 7 {
			return value.Type{}, sqlerr.New(1002, "Line 1: Specified scale %d is invalid.", scale).Ends(sqlerr.EndsCompilation)
		}
		if name == "datetime2" {
			return value.Type{Kind: value.DateTime2, Scale: scale}, nil
		}
		return value.Type{Kind: value.DateTimeOffset, Scale: scale}, nil
	}
	return value.Type{}, sqlerr.Unsupported("the type %s", name)
}

func limited(t value.Type, most int) (value.Type, error) {
	if t.Size == value.Max && t.Kind != value.Binary || t.Size > 0 && t.Size <= most {
		return t, nil
	}
	return t, sqlerr.New(131, "The size (%d) given to the type '%s' exceeds the maximum allowed for any data type (8000).", t.Size, t.Name()).
		With(15, 3).Ends(sqlerr.EndsCompilation)
}

// length reports whether a type is written with its length.
func length(node ast.DataTypeReference) bool {
	n, ok := node.(*ast.SqlDataTypeReference)
	return !ok || len(n.Parameters) > 0 || rows.Fold(n.Name.BaseIdentifier.Value) == "sysname"
}

// hexadecimal is a binary as text: CONVERT with style 1 (0x…) or 2.
func (c *compiler) hexadecimal(o operand, to value.Type, prefix string) operand {
	eval := o.eval
	return operand{typ: to, label: c.stringLabel(), refs: o.refs, eval: func(e *env) (any, error) {
		v, err := eval(e)
		if err != nil || v == nil {
			return nil, err
		}
		return value.Convert(prefix+fmt.Sprintf("%X", v), to, to)
	}}
}
