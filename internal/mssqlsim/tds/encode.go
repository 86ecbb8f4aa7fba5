package tds

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

// collation is SQL_Latin1_General_CP1_CI_AS.
const collation = "\x09\x04\xD0\x00\x34"

// bytes is the length of a value of a type of fixed length.
func (t Type) bytes() int {
	switch t.Kind {
	case Bit, TinyInt:
		return 1
	case SmallInt:
		return 2
	case Int:
		return 4
	case BigInt, Float, RowVersion:
		return 8
	case UniqueIdentifier:
		return 16
	case Date:
		return dateBytes
	case DateTime2:
		return t.clockBytes() + dateBytes
	case DateTimeOffset:
		return t.clockBytes() + dateBytes + offsetBytes
	default:
		return 0
	}
}

// clockBytes is the length of a time of day: 3 to 5 bytes by scale.
func (t Type) clockBytes() int { return min(5, 3+max(0, t.Scale-1)/2) }

func (t Type) token() uint8 {
	switch t.Kind {
	case Bit:
		return tokenBitN
	case TinyInt, SmallInt, Int, BigInt:
		return tokenIntN
	case Float:
		return tokenFloatN
	case NVarChar:
		return tokenNVarChar
	case VarBinary:
		return tokenVarBinary
	case Binary, RowVersion:
		return tokenBinary
	case UniqueIdentifier:
		return tokenGUID
	case DateTimeOffset:
		return tokenDTOffset
	case DateTime2:
		return tokenDateTime2
	case Date:
		return tokenDate
	default:
		panic(fmt.Sprintf("tds: a column cannot be of type %v", t))
	}
}

func appendColumns(b []byte, columns []Column) []byte {
	b = append(b, 0x81)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(columns)))
	for _, c := range columns {
		user := uint32(0)
		if c.Type.Kind == RowVersion {
			user = rowVersionUser
		}
		b = binary.LittleEndian.AppendUint32(b, user)
		b = binary.LittleEndian.AppendUint16(b, columnNullable)
		b = appendType(b, c.Type)
		b = appendBVarChar(b, c.Name)
	}
	return b
}

func appendType(b []byte, t Type) []byte {
	b = append(b, t.token())
	switch t.Kind {
	case NVarChar:
		b = appendSize(b, t, 2)
		return append(b, collation...)
	case VarBinary, Binary, RowVersion:
		return appendSize(b, t, 1)
	case DateTimeOffset, DateTime2:
		if t.Scale < 0 || t.Scale > 7 {
			panic(fmt.Sprintf("tds: there is no type %v", t))
		}
		return append(b, byte(t.Scale))
	case Date:
		return b
	default:
		return append(b, byte(t.bytes()))
	}
}

// appendSize writes the length of a type whose unit has width bytes.
func appendSize(b []byte, t Type, width int) []byte {
	const longest = 8000
	switch {
	case t.Size == Max && t.Kind != Binary:
		return binary.LittleEndian.AppendUint16(b, maxLength)
	case t.Kind == RowVersion:
		return binary.LittleEndian.AppendUint16(b, uint16(t.bytes()))
	case t.Size < 1 || t.Size*width > longest:
		panic(fmt.Sprintf("tds: there is no type %v", t))
	default:
		return binary.LittleEndian.AppendUint16(b, uint16(t.Size*width))
	}
}

// appendRow writes a ROW, or an NBCROW if the row has a NULL in it, so that
// clients meet both.
func appendRow(b []byte, columns []Column, values []any) []byte {
	if len(values) != len(columns) {
		panic(fmt.Sprintf("tds: %d values for %d columns", len(values), len(columns)))
	}
	bitmap := make([]byte, (len(values)+7)/8)
	nulls := false
	for i, v := range values {
		if v == nil {
			bitmap[i/8] |= 1 << (i % 8)
			nulls = true
		}
	}
	if nulls {
		b = append(b, 0xD2)
		b = append(b, bitmap...)
	} else {
		b = append(b, 0xD1)
	}
	for i, v := range values {
		if v != nil {
			b = appendValue(b, columns[i], v)
		}
	}
	return b
}

func appendValue(b []byte, c Column, value any) []byte {
	t := c.Type
	switch v := value.(type) {
	case bool:
		if t.Kind == Bit {
			bit := byte(0)
			if v {
				bit = 1
			}
			return append(b, 1, bit)
		}
	case int64:
		if fitsInteger(t.Kind, v) {
			b = append(b, byte(t.bytes()))
			return append(b, binary.LittleEndian.AppendUint64(nil, uint64(v))[:t.bytes()]...)
		}
	case float64:
		if t.Kind == Float {
			return binary.LittleEndian.AppendUint64(append(b, 8), math.Float64bits(v))
		}
	case string:
		if n := utf16Len(v); t.Kind == NVarChar && (t.Size == Max || n <= t.Size) {
			return appendLong(b, t, appendUTF16(make([]byte, 0, 2*n), v))
		}
	case []byte:
		if fitsBytes(t, len(v)) {
			if t.Kind == UniqueIdentifier {
				return append(append(b, byte(len(v))), v...)
			}
			return appendLong(b, t, v)
		}
	case time.Time:
		if t.Kind == DateTimeOffset || t.Kind == DateTime2 || t.Kind == Date {
			return appendTime(b, t, v)
		}
	}
	panic(fmt.Sprintf("tds: the value %#v (%T) does not fit column %q of type %v", value, value, c.Name, t))
}

func fitsInteger(k Kind, v int64) bool {
	switch k {
	case TinyInt:
		return v == int64(uint8(v))
	case SmallInt:
		return v == int64(int16(v))
	case Int:
		return v == int64(int32(v))
	default:
		return k == BigInt
	}
}

func fitsBytes(t Type, n int) bool {
	switch t.Kind {
	case VarBinary:
		return t.Size == Max || n <= t.Size
	case Binary:
		return n == t.Size
	default:
		return (t.Kind == RowVersion || t.Kind == UniqueIdentifier) && n == t.bytes()
	}
}

func appendLong(b []byte, t Type, value []byte) []byte {
	if t.Size != Max {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(value)))
		return append(b, value...)
	}
	const chunk = 8000
	b = binary.LittleEndian.AppendUint64(b, uint64(len(value)))
	for len(value) > 0 {
		n := min(chunk, len(value))
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
		b = append(b, value[:n]...)
		value = value[n:]
	}
	return binary.LittleEndian.AppendUint32(b, 0)
}

// appendTime writes a time truncated to the type's scale: datetimeoffset as UTC
// with its offset, the others as the wall clock of the value's own zone.
func appendTime(b []byte, t Type, value time.Time) []byte {
	_, offset := value.Zone()
	seconds := value.Unix()
	if t.Kind != DateTimeOffset {
		seconds += int64(offset)
	}
	days := seconds/secondsPerDay + epochDays
	clock := seconds % secondsPerDay
	if clock < 0 {
		clock += secondsPerDay
		days--
	}
	if days < 0 || days > lastDay {
		panic(fmt.Sprintf("tds: %v is outside of the years 1 to 9999", value))
	}
	b = append(b, byte(t.bytes()))
	if t.Kind != Date {
		ticks := clock*1e7 + int64(value.Nanosecond())/hundredNanos
		for i := t.Scale; i < 7; i++ {
			ticks /= 10
		}
		b = append(b, binary.LittleEndian.AppendUint64(nil, uint64(ticks))[:t.clockBytes()]...)
	}
	b = append(b, byte(days), byte(days>>8), byte(days>>16))
	if t.Kind == DateTimeOffset {
		b = binary.LittleEndian.AppendUint16(b, uint16(int16(offset/60)))
	}
	return b
}

func appendBVarChar(b []byte, s string) []byte {
	n := utf16Len(s)
	if n > math.MaxUint8 {
		panic(fmt.Sprintf("tds: %q is longer than 255", s))
	}
	return appendUTF16(append(b, byte(n)), s)
}
