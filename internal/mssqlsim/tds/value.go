package tds

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"
)

// Type tokens of the wire.
const (
	tokenNull       = 0x1F
	tokenGUID       = 0x24
	tokenIntN       = 0x26
	tokenDate       = 0x28
	tokenDateTime2  = 0x2A
	tokenDTOffset   = 0x2B
	tokenTinyInt    = 0x30
	tokenBit        = 0x32
	tokenSmallInt   = 0x34
	tokenInt        = 0x38
	tokenFloat      = 0x3E
	tokenBitN       = 0x68
	tokenFloatN     = 0x6D
	tokenBigInt     = 0x7F
	tokenVarBinary  = 0xA5
	tokenBinary     = 0xAD
	tokenNVarChar   = 0xE7
	tokenNChar      = 0xEF
	maxLength       = 0xFFFF // as a type's length: (max); as a value's: NULL
	plpNull         = math.MaxUint64
	rowVersionUser  = 80
	epochDays       = 719162  // 1970-01-01, counted from 0001-01-01
	lastDay         = 3652058 // 9999-12-31
	secondsPerDay   = 24 * 60 * 60
	hundredNanos    = 100
	offsetBytes     = 2
	dateBytes       = 3
	columnNullable  = 1
	collationLength = 5
)

// parseValue reads TYPE_INFO and the value behind it.
func parseValue(d *decoder) (Type, any, Messages) {
	switch token := d.uint8(); token {
	case tokenNull:
		return Type{}, nil, nil
	case tokenTinyInt, tokenSmallInt, tokenInt, tokenBigInt, tokenBit, tokenFloat:
		fixed := map[uint8]Type{tokenTinyInt: {Kind: TinyInt}, tokenSmallInt: {Kind: SmallInt}, tokenInt: {Kind: Int},
			tokenBigInt: {Kind: BigInt}, tokenBit: {Kind: Bit}, tokenFloat: {Kind: Float}}[token]
		return fixed, parseScalar(d, fixed, d.take(fixed.bytes())), nil
	case tokenIntN, tokenBitN, tokenFloatN, tokenGUID:
		t := scalarType(d, token, d.uint8())
		return t, parseScalar(d, t, d.take(int(d.uint8()))), nil
	case tokenDate:
		t := Type{Kind: Date}
		return t, parseTime(d, t, d.take(int(d.uint8()))), nil
	case tokenDateTime2, tokenDTOffset:
		t := Type{Kind: DateTime2, Scale: int(d.uint8())}
		if token == tokenDTOffset {
			t.Kind = DateTimeOffset
		}
		if t.Scale > 7 {
			d.fail("scale %d", t.Scale)
		}
		return t, parseTime(d, t, d.take(int(d.uint8()))), nil
	case tokenVarBinary, tokenBinary, tokenNVarChar, tokenNChar:
		t, value := parseLong(d, token)
		return t, value, nil
	default:
		return Type{}, nil, refuse(8009, fmt.Sprintf("Parameters of data type 0x%02X are not supported by the simulator.", token))
	}
}

// scalarType is the type of a token whose size says which one it is.
func scalarType(d *decoder, token, size uint8) Type {
	for _, t := range []Type{{Kind: TinyInt}, {Kind: SmallInt}, {Kind: Int}, {Kind: BigInt}, {Kind: Bit}, {Kind: Float},
		{Kind: UniqueIdentifier}} {
		if t.token() == token && t.bytes() == int(size) {
			return t
		}
	}
	d.fail("type %#x of %d bytes", token, size)
	return Type{}
}

// parseScalar reads a number, bit or uniqueidentifier; no bytes are NULL.
func parseScalar(d *decoder, t Type, b []byte) any {
	if len(b) == 0 {
		return nil
	}
	if len(b) != t.bytes() {
		d.fail("%v of %d bytes", t, len(b))
		return nil
	}
	switch t.Kind {
	case Bit:
		return b[0] != 0
	case TinyInt:
		return int64(b[0])
	case SmallInt:
		return int64(int16(binary.LittleEndian.Uint16(b)))
	case Int:
		return int64(int32(binary.LittleEndian.Uint32(b)))
	case BigInt:
		return int64(binary.LittleEndian.Uint64(b))
	case Float:
		return math.Float64frombits(binary.LittleEndian.Uint64(b))
	default:
		return append([]byte(nil), b...)
	}
}

// parseTime reads date, datetime2 and datetimeoffset; no bytes are NULL.
func parseTime(d *decoder, t Type, b []byte) any {
	if len(b) == 0 {
		return nil
	}
	if len(b) != t.bytes() {
		d.fail("%v of %d bytes", t, len(b))
		return nil
	}
	zone := time.UTC
	if t.Kind == DateTimeOffset {
		minutes := int16(binary.LittleEndian.Uint16(b[len(b)-offsetBytes:]))
		zone = time.FixedZone("", int(minutes)*60)
		b = b[:len(b)-offsetBytes]
	}
	clock, date := b[:len(b)-dateBytes], b[len(b)-dateBytes:]
	var ticks int64
	for _, b := range slices.Backward(clock) {
		ticks = ticks<<8 | int64(b)
	}
	for i := t.Scale; i < 7; i++ {
		ticks *= 10
	}
	if len(clock) > 0 && ticks >= secondsPerDay*1e7 {
		d.fail("time of day beyond midnight")
		return nil
	}
	days := int64(date[0]) | int64(date[1])<<8 | int64(date[2])<<16
	if days > lastDay {
		d.fail("date after the year 9999")
		return nil
	}
	return time.Unix((days-epochDays)*secondsPerDay+ticks/1e7, ticks%1e7*hundredNanos).In(zone)
}

// parseLong reads a string or binary, in one piece or in chunks.
func parseLong(d *decoder, token uint8) (Type, any) {
	size := int(d.uint16())
	text := token == tokenNVarChar || token == tokenNChar
	t := Type{Kind: VarBinary, Size: size}
	switch {
	case text:
		d.take(collationLength)
		t = Type{Kind: NVarChar, Size: size / 2}
	case token == tokenBinary:
		t.Kind = Binary
	}
	var b []byte
	if size == maxLength {
		t.Size = Max
		b = parseChunks(d)
	} else if length := int(d.uint16()); length != maxLength {
		if length > size {
			d.fail("%d bytes in %v", length, t)
		}
		b = append([]byte{}, d.take(length)...)
	}
	switch {
	case b == nil:
		return t, nil
	case !text:
		return t, b
	case len(b)%2 != 0:
		d.fail("text of %d bytes", len(b))
		return t, nil
	default:
		return t, decodeUTF16(b)
	}
}

// parseChunks reads a partially length-prefixed value; nil is NULL.
func parseChunks(d *decoder) []byte {
	if d.uint64() == plpNull {
		return nil
	}
	b := []byte{}
	for d.err == nil {
		n := d.uint32()
		if n == 0 {
			break
		}
		b = append(b, d.take(int(n))...)
	}
	return b
}
