package tds

import "fmt"

// Kind is a family of SQL Server types.
type Kind uint8

// The kinds that the wire can carry. Whatever else a client sends is refused.
const (
	Null Kind = iota // an untyped NULL; the zero Type
	Bit
	TinyInt
	SmallInt
	Int
	BigInt
	Float
	NVarChar
	VarBinary
	Binary
	RowVersion // binary(8) with the user type of timestamp
	UniqueIdentifier
	DateTimeOffset
	DateTime2
	Date
)

// Max is the Size of nvarchar(max) and varbinary(max).
const Max = -1

// Type is the type of a column or parameter.
type Type struct {
	Kind  Kind
	Size  int // NVarChar: UTF-16 units; VarBinary, Binary: bytes; or Max
	Scale int // DateTimeOffset, DateTime2: digits of the second, 0 to 7
}

// The types in common use.
var (
	TypeBit            = Type{Kind: Bit}
	TypeInt            = Type{Kind: Int}
	TypeBigInt         = Type{Kind: BigInt}
	TypeFloat          = Type{Kind: Float}
	TypeRowVersion     = Type{Kind: RowVersion, Size: 8}
	TypeDateTimeOffset = Type{Kind: DateTimeOffset, Scale: 7}
	TypeDateTime2      = Type{Kind: DateTime2, Scale: 7}
	TypeSysname        = Type{Kind: NVarChar, Size: 128}
	TypeNVarCharMax    = Type{Kind: NVarChar, Size: Max}
)

// TypeNVarChar is nvarchar(units).
func TypeNVarChar(units int) Type { return Type{Kind: NVarChar, Size: units} }

// TypeVarBinary is varbinary(bytes).
func TypeVarBinary(bytes int) Type { return Type{Kind: VarBinary, Size: bytes} }

var kindNames = [...]string{"null", "bit", "tinyint", "smallint", "int", "bigint", "float", "nvarchar", "varbinary",
	"binary", "timestamp", "uniqueidentifier", "datetimeoffset", "datetime2", "date"}

// String is the type as T-SQL writes it.
func (t Type) String() string {
	name := "unknown"
	if int(t.Kind) < len(kindNames) {
		name = kindNames[t.Kind]
	}
	switch t.Kind {
	case NVarChar, VarBinary, Binary:
		if t.Size == Max {
			return name + "(max)"
		}
		return fmt.Sprintf("%s(%d)", name, t.Size)
	case DateTimeOffset, DateTime2:
		return fmt.Sprintf("%s(%d)", name, t.Scale)
	default:
		return name
	}
}
