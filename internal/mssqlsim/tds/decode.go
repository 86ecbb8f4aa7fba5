package tds

import (
	"encoding/binary"
	"unicode/utf16"
)

// decoder reads the fields of a message. After the first field that is not
// there it returns zeros and remembers the error.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = malformed(format, args...)
	}
	d.b = nil
}

func (d *decoder) take(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.fail("%d bytes wanted, %d left", n, len(d.b))
		return nil
	}
	taken := d.b[:n]
	d.b = d.b[n:]
	return taken
}

func (d *decoder) uint8() uint8 {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) uint16() uint16 {
	if b := d.take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

func (d *decoder) uint32() uint32 {
	if b := d.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (d *decoder) uint64() uint64 {
	if b := d.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// bVarChar is a string with its length in UTF-16 units in one byte.
func (d *decoder) bVarChar() string { return decodeUTF16(d.take(2 * int(d.uint8()))) }

// decodeUTF16 turns UTF-16LE into a string; a lone surrogate becomes U+FFFD,
// an odd last byte is dropped.
func decodeUTF16(b []byte) string {
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	return string(utf16.Decode(units))
}

func appendUTF16(b []byte, s string) []byte {
	for _, r := range s {
		if high, low := utf16.EncodeRune(r); high != '\uFFFD' {
			b = binary.LittleEndian.AppendUint16(b, uint16(high))
			r = low
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(r))
	}
	return b
}

// utf16Len is the length of s in UTF-16 units.
func utf16Len(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}
