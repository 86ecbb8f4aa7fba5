package value

import "fmt"

// Kind is a family of types.
type Kind uint8

// The kinds, in SQL Server's order of precedence from the lowest: of two operands the lower one is converted.
const (
	Null Kind = iota // an untyped NULL
	Binary
	VarBinary
	RowVersion
	VarChar
	NVarChar
	UniqueIdentifier
	Bit
	TinyInt
	SmallInt
	Int
	BigInt
	DateTime2
	DateTimeOffset
)

// Max is the size of nvarchar(max) and the like.
const Max = -1

// Type is the type of a column, variable or expression.
type Type struct {
	Kind  Kind
	Size  int // strings: UTF-16 units (varchar: bytes); binaries: bytes; or Max
	Scale int // DateTimeOffset, DateTime2: digits of the second
}

// The types in common use.
var (
	TypeBit            = Type{Kind: Bit}
	TypeTinyInt        = Type{Kind: TinyInt}
	TypeSmallInt       = Type{Kind: SmallInt}
	TypeInt            = Type{Kind: Int}
	TypeBigInt         = Type{Kind: BigInt}
	TypeRowVersion     = Type{Kind: RowVersion, Size: 8}
	TypeDateTimeOffset = Type{Kind: DateTimeOffset, Scale: 7}
	TypeDateTime2      = Type{Kind: DateTime2, Scale: 7}
	TypeGUID           = Type{Kind: UniqueIdentifier}
	TypeSysname        = Type{Kind: NVarChar, Size: 128}
	TypeNVarCharMax    = Type{Kind: NVarChar, Size: Max}
)

// NVarCharOf is nvarchar(units), or nvarchar(max) where units is more than the longest plain one.
func NVarCharOf(units int) Type { return sized(NVarChar, units, 4000) }

// VarCharOf is varchar(bytes).
func VarCharOf(bytes int) Type { return sized(VarChar, bytes, 8000) }

// VarBinaryOf is varbinary(bytes).
func VarBinaryOf(bytes int) Type { return sized(VarBinary, bytes, 8000) }

func sized(kind Kind, size, most int) Type {
	if size > most {
		size = Max
	} else if size == 0 {
		size = 1
	}
	return Type{Kind: kind, Size: size}
}

// IsString reports whether values of this type have a collation.
func (t Type) IsString() bool { return t.Kind == NVarChar || t.Kind == VarChar }

// IsInteger reports whether values of this type are int64.
func (t Type) IsInteger() bool { return t.Kind >= TinyInt && t.Kind <= BigInt }

// IsBinary reports whether values of this type are bytes.
func (t Type) IsBinary() bool { return t.Kind >= Binary && t.Kind <= RowVersion }

// IsTime reports whether values of this type are moments.
func (t Type) IsTime() bool { return t.Kind == DateTime2 || t.Kind == DateTimeOffset }

var kindNames = map[Kind]string{
	Null: "NULL", Binary: "binary", VarBinary: "varbinary", RowVersion: "timestamp", VarChar: "varchar",
	NVarChar: "nvarchar", UniqueIdentifier: "uniqueidentifier", Bit: "bit", TinyInt: "tinyint", SmallInt: "smallint",
	Int: "int", BigInt: "bigint", DateTime2: "datetime2", DateTimeOffset: "datetimeoffset",
}

// Name is the type's name without its size.
func (t Type) Name() string { return kindNames[t.Kind] }

// String is the type as T-SQL writes it.
func (t Type) String() string {
	switch {
	case t.IsString() || t.Kind == Binary || t.Kind == VarBinary:
		if t.Size == Max {
			return t.Name() + "(max)"
		}
		return fmt.Sprintf("%s(%d)", t.Name(), t.Size)
	case t.IsTime():
		return fmt.Sprintf("%s(%d)", t.Name(), t.Scale)
	}
	return t.Name()
}

// Common is the type that values of both types can be converted to: of two of one kind the larger, else the one of
// higher precedence. Whether the other converts at all is the conversion's business.
func Common(a, b Type) Type {
	switch {
	case a.Kind == Null:
		return b
	case b.Kind == Null:
		return a
	case a.Kind == b.Kind:
		return larger(a, b)
	case a.IsString() && b.IsString():
		wide := a
		if b.Kind == NVarChar {
			wide = b
		}
		return larger(wide, Type{Kind: NVarChar, Size: min(maxSize(a, b), 4000)})
	case a.IsBinary() && b.IsBinary():
		return larger(Type{Kind: VarBinary, Size: a.Size}, Type{Kind: VarBinary, Size: b.Size})
	case a.Kind > b.Kind:
		return a
	default:
		return b
	}
}

func maxSize(a, b Type) int {
	if a.Size == Max || b.Size == Max {
		return Max
	}
	return max(a.Size, b.Size)
}

func larger(a, b Type) Type {
	a.Size = maxSize(a, b)
	a.Scale = max(a.Scale, b.Scale)
	return a
}
