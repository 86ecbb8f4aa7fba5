package value

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"time"
)

// Compare orders two values of one type, neither of them NULL. Moments are compared as instants, whatever their
// offsets; strings by the collation.
func Compare(t Type, c Collation, a, b any) int {
	switch x := a.(type) {
	case bool:
		return cmp.Compare(bit(x), bit(b.(bool)))
	case int64:
		return cmp.Compare(x, b.(int64))
	case string:
		return c.Compare(x, b.(string))
	case time.Time:
		return x.Compare(b.(time.Time))
	case []byte:
		if t.Kind == UniqueIdentifier {
			return bytes.Compare(guidOrder(x), guidOrder(b.([]byte)))
		}
		return comparePadded(x, b.([]byte))
	}
	panic("value: Compare of a value that is none")
}

// comparePadded compares binaries as if the shorter one went on with zero bytes.
func comparePadded(a, b []byte) int {
	for i := range max(len(a), len(b)) {
		var x, y byte
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return int(x) - int(y)
		}
	}
	return 0
}

// guidOrder rearranges a uniqueidentifier: its last six bytes count most.
func guidOrder(g []byte) []byte {
	order := [16]int{10, 11, 12, 13, 14, 15, 8, 9, 6, 7, 4, 5, 0, 1, 2, 3}
	out := make([]byte, 16)
	for i, from := range order {
		out[i] = g[from]
	}
	return out
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// Key encodes a value, not NULL, as part of a row's key: two values have it in common exactly if they compare equal,
// and the order of keys of integers and moments is that of the values.
func Key(c Collation, v any) string {
	switch x := v.(type) {
	case bool:
		return string([]byte{byte(bit(x))}) //nolint:gosec // 0 or 1
	case int64:
		return string(binary.BigEndian.AppendUint64(nil, uint64(x)^1<<63)) //nolint:gosec // the sign bit is the point
	case string:
		return c.Key(x)
	case time.Time:
		seconds := binary.BigEndian.AppendUint64(nil, uint64(x.Unix())^1<<63) //nolint:gosec // likewise
		return string(binary.BigEndian.AppendUint32(seconds, uint32(x.Nanosecond())))
	case []byte:
		return string(bytes.TrimRight(x, "\x00"))
	}
	panic("value: Key of a value that is none")
}
