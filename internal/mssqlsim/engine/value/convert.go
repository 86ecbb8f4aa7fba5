package value

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
)

// Convertible reports whether CAST makes a value of one type one of another.
func Convertible(from, to Type) bool {
	switch {
	case from.Kind == Null || from.Kind == to.Kind:
		return true
	case to.Kind == RowVersion:
		return from.IsBinary() || from.IsInteger()
	case from.IsTime() != to.IsTime():
		return from.IsString() || to.IsString()
	case from.Kind == UniqueIdentifier || to.Kind == UniqueIdentifier:
		return from.IsString() || to.IsString() || from.IsBinary() || to.IsBinary()
	}
	return true
}

// ImplicitlyConvertible is Convertible without CAST: a string does not become a binary, nor a rowversion an nvarchar.
func ImplicitlyConvertible(from, to Type) bool {
	if from.IsString() && to.IsBinary() || from.Kind == RowVersion && to.Kind == NVarChar {
		return false
	}
	return Convertible(from, to)
}

// Convert makes v, a value of type from, one of type to. A string or binary that is too long is cut without a word, as
// CAST, variables and parameters do it; a column does not (see [Fit]).
func Convert(v any, from, to Type) (any, error) {
	if v == nil {
		return nil, nil
	}
	switch {
	case to.IsString():
		s, err := toString(v, from, to)
		if err != nil {
			return nil, err
		}
		return cutString(s, to), nil
	case to.Kind == Bit:
		return toBit(v, from)
	case to.IsInteger():
		return toInteger(v, from, to)
	case to.IsTime():
		return toTime(v, from, to)
	case to.Kind == UniqueIdentifier:
		return toGUID(v, from)
	case to.IsBinary():
		return cutBinary(toBinary(v, from, to), to), nil
	}
	return nil, sqlerr.NoConversion(from.Name(), to.Name())
}

// Fit says whether a value fits a column of this type, and if not, the part of it that does.
func Fit(v any, to Type) (fits bool, head string) {
	switch x := v.(type) {
	case string:
		cut := cutString(x, to)
		// Blanks at the end of a value are cut off without an error.
		return strings.TrimRight(x, " ") == strings.TrimRight(cut, " "), cut
	case []byte:
		return to.Size == Max || len(x) <= to.Size || to.Kind == UniqueIdentifier, fmt.Sprintf("%X", cutBinary(x, to))
	}
	return true, ""
}

// Units is the length of a string in UTF-16 units.
func Units(s string) int {
	n := 0
	for _, r := range s {
		if n++; r > 0xFFFF {
			n++
		}
	}
	return n
}

// Head is the first n UTF-16 units of a string.
func Head(s string, n int) string {
	if Units(s) <= n {
		return s
	}
	return string(utf16.Decode(utf16.Encode([]rune(s))[:n]))
}

func cutString(s string, to Type) string {
	if to.Kind == VarChar {
		s = narrow(s)
	}
	if to.Size == Max {
		return s
	}
	return Head(s, to.Size)
}

// narrow is the string in code page 1252 as far as this simulator cares: Latin 1, anything else is a question mark.
func narrow(s string) string {
	return strings.Map(func(r rune) rune {
		if r > 0xFF {
			return '?'
		}
		return r
	}, s)
}

func cutBinary(b []byte, to Type) []byte {
	if to.Size != Max && len(b) > to.Size {
		b = b[:to.Size]
	}
	if to.Kind == Binary && len(b) < to.Size || to.Kind == RowVersion && len(b) < 8 {
		b = append(append([]byte{}, b...), make([]byte, to.Size-len(b))...)
	}
	return b
}

func toString(v any, from, to Type) (string, error) {
	switch x := v.(type) {
	case string:
		return x, nil
	case bool:
		return strconv.FormatInt(bit(x), 10), nil
	case int64:
		s := strconv.FormatInt(x, 10)
		if to.Size != Max && len(s) > to.Size {
			if to.Kind == VarChar && from.Kind <= Int {
				return "*", nil // an int too wide for a varchar is a star
			}
			return "", sqlerr.Overflow(to.Name())
		}
		return s, nil
	case time.Time:
		return formatTime(x, from), nil
	case []byte:
		if from.Kind == UniqueIdentifier {
			return FormatGUID(x), nil
		}
		if to.Kind == VarChar {
			runes := make([]rune, len(x))
			for i, b := range x {
				runes[i] = rune(b)
			}
			return string(runes), nil
		}
		wide := make([]uint16, len(x)/2)
		for i := range wide {
			wide[i] = binary.LittleEndian.Uint16(x[2*i:])
		}
		return string(utf16.Decode(wide)), nil
	}
	return "", sqlerr.NoConversion(from.Name(), to.Name())
}

func toBit(v any, from Type) (any, error) {
	switch x := v.(type) {
	case bool:
		return x, nil
	case int64:
		return x != 0, nil
	case string:
		switch s := strings.ToLower(strings.TrimSpace(x)); s {
		case "true":
			return true, nil
		case "false":
			return false, nil
		default:
			n, err := parseInteger(x, from, TypeBit)
			return n != 0, err
		}
	case []byte:
		return integerOf(x, 8) != 0, nil
	}
	return nil, sqlerr.NoConversion(from.Name(), "bit")
}

func toInteger(v any, from, to Type) (any, error) {
	var n int64
	switch x := v.(type) {
	case bool:
		n = bit(x)
	case int64:
		n = x
	case string:
		parsed, err := parseInteger(x, from, to)
		if err != nil {
			return nil, err
		}
		n = parsed
	case []byte:
		return integerOf(x, map[Kind]int{TinyInt: 1, SmallInt: 2, Int: 4, BigInt: 8}[to.Kind]), nil
	default:
		return nil, sqlerr.NoConversion(from.Name(), to.Name())
	}
	return n, InRange(n, to)
}

// InRange reports an integer that is too large for its type.
func InRange(n int64, t Type) error {
	switch t.Kind {
	case TinyInt:
		if n < 0 || n > 255 {
			return sqlerr.New(220, "Arithmetic overflow error for data type tinyint, value = %d.", n).With(16, 2)
		}
	case SmallInt:
		if n != int64(int16(n)) {
			return sqlerr.New(220, "Arithmetic overflow error for data type smallint, value = %d.", n)
		}
	case Int:
		if n != int64(int32(n)) {
			return sqlerr.Overflow("int")
		}
	default:
	}
	return nil
}

func parseInteger(s string, from, to Type) (int64, error) {
	trimmed := strings.TrimSpace(s)
	if trimmed == "" {
		return 0, nil // an empty string is 0
	}
	n, err := strconv.ParseInt(trimmed, 10, 64)
	switch {
	case err == nil:
		if to.Kind == Int && InRange(n, to) != nil {
			return 0, sqlerr.New(248, "The conversion of the %s value '%s' overflowed an int column.", from.Name(), s).Ends(sqlerr.EndsTransaction)
		}
		return n, nil
	case errors.Is(err, strconv.ErrRange) && to.Kind == BigInt:
		return 0, sqlerr.New(8115, "Arithmetic overflow error converting expression to data type bigint.").With(16, 2).Ends(sqlerr.EndsTransaction)
	default:
		return 0, sqlerr.Conversion(from.Name(), s, to.Name())
	}
}

// integerOf reads the last size bytes, big-endian.
func integerOf(b []byte, size int) int64 {
	if len(b) > size {
		b = b[len(b)-size:]
	}
	var n uint64
	for _, x := range b {
		n = n<<8 | uint64(x)
	}
	switch size {
	case 4:
		return int64(int32(uint32(n))) //nolint:gosec // the bits are the point
	case 2:
		return int64(int16(uint16(n))) //nolint:gosec // likewise
	}
	return int64(n) //nolint:gosec // likewise
}

func toBinary(v any, from, to Type) []byte {
	switch x := v.(type) {
	case []byte:
		return x
	case bool:
		return []byte{byte(bit(x))} //nolint:gosec // 0 or 1
	case int64:
		wide := binary.BigEndian.AppendUint64(nil, uint64(x)) //nolint:gosec // the bits are the point
		own := wide[8-map[Kind]int{TinyInt: 1, SmallInt: 2, Int: 4, BigInt: 8}[from.Kind]:]
		if to.Size == Max {
			return own
		}
		if len(own) > to.Size { // numbers lose their high bytes
			return own[len(own)-to.Size:]
		}
		if to.Kind == VarBinary {
			return own
		}
		return append(make([]byte, to.Size-len(own)), own...)
	case string:
		if from.Kind == VarChar {
			var narrowed []byte
			for _, r := range narrow(x) {
				narrowed = append(narrowed, byte(r))
			}
			return narrowed
		}
		var wide []byte
		for _, unit := range units(x) {
			wide = binary.LittleEndian.AppendUint16(wide, unit)
		}
		return wide
	}
	return nil
}
