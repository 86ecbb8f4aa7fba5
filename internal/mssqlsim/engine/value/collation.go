package value

import (
	"strings"
	"unicode"
	"unicode/utf16"
)

// Collation says which strings are equal and how they are ordered. In every collation, blanks at the end do not count
// (ANSI padding: the shorter string is filled up with blanks).
type Collation struct {
	Name string
	fold func(string) []uint16
}

// DefaultCollation is the collation of a database unless it is told otherwise.
const DefaultCollation = "SQL_Latin1_General_CP1_CI_AS"

// BinaryCollation is the collation that our own tables name.
const BinaryCollation = "Latin1_General_100_BIN2"

// FindCollation looks a collation up by its name, whose case does not matter.
func FindCollation(name string) (Collation, bool) {
	for _, known := range []string{DefaultCollation, "Latin1_General_CI_AS", "Latin1_General_100_CI_AS"} {
		if strings.EqualFold(name, known) {
			return Collation{Name: known, fold: foldWords}, true
		}
	}
	for _, known := range []string{BinaryCollation, "Latin1_General_BIN2"} {
		if strings.EqualFold(name, known) {
			return Collation{Name: known, fold: units}, true
		}
	}
	return Collation{}, false
}

// units is the string as it is: a BIN2 collation compares UTF-16 units.
func units(s string) []uint16 { return utf16.Encode([]rune(s)) }

// foldWords is what is left of a string when everything is taken away that a CI_AS collation without _SC and without a
// version above 100 does not tell apart: case, width, kana; characters beyond U+FFFF and control characters, which have
// no weight; ß and the ligatures, which are spelled out. Accents count. Order is approximate (by code point after
// folding), and strings that differ in Unicode's normal form only are told apart, which SQL Server would not do.
func foldWords(s string) []uint16 {
	out := make([]uint16, 0, len(s))
	for _, r := range s {
		switch {
		case r > 0xFFFF || r < 0x09 || r > 0x0D && r < 0x20 || r >= 0x7F && r < 0xA0:
			continue
		case r >= 0xFF01 && r <= 0xFF5E: // full width ASCII
			r -= 0xFEE0
		case r >= 0x30A1 && r <= 0x30F6: // katakana
			r -= 0x60
		case r == 0x3000:
			r = ' '
		}
		switch r {
		case 'ß', 'ẞ':
			out = append(out, 's', 's')
			continue
		case 'ﬁ':
			out = append(out, 'f', 'i')
			continue
		case 'ﬂ':
			out = append(out, 'f', 'l')
			continue
		}
		out = append(out, uint16(unicode.ToLower(unicode.ToUpper(r)))) //nolint:gosec // at most U+FFFF
	}
	return out
}

// Compare orders two strings: negative, 0 or positive.
func (c Collation) Compare(a, b string) int {
	x, y := c.fold(a), c.fold(b)
	for i := range max(len(x), len(y)) {
		u, v := padded(x, i), padded(y, i)
		if u != v {
			return int(u) - int(v)
		}
	}
	return 0
}

func padded(s []uint16, i int) uint16 {
	if i < len(s) {
		return s[i]
	}
	return ' '
}

// Key is a string that two strings have in common exactly if they are equal. It is not text.
func (c Collation) Key(s string) string {
	folded := c.fold(s)
	for len(folded) > 0 && folded[len(folded)-1] == ' ' {
		folded = folded[:len(folded)-1]
	}
	key := make([]byte, 0, 2*len(folded))
	for _, unit := range folded {
		key = append(key, byte(unit>>8), byte(unit)) //nolint:gosec // two halves
	}
	return string(key)
}

// Like matches a string with a LIKE pattern of %, _ and an escape character (0 for none). It reports false for ok if
// the pattern has a bracket, which the simulator does not interpret. Unlike =, blanks at the end count.
func (c Collation) Like(s, pattern string, escape rune) (match, ok bool) {
	type element struct {
		any, one bool
		unit     []uint16
	}
	var elements []element
	runes := []rune(pattern)
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; {
		case escape != 0 && r == escape && i+1 < len(runes):
			i++
			elements = append(elements, element{unit: c.fold(string(runes[i]))})
		case r == '%':
			elements = append(elements, element{any: true})
		case r == '_':
			elements = append(elements, element{one: true})
		case r == '[':
			return false, false
		default:
			elements = append(elements, element{unit: c.fold(string(r))})
		}
	}
	text := []rune(s)
	var matches func(e, t int) bool
	matches = func(e, t int) bool {
		for ; e < len(elements); e, t = e+1, t+1 {
			if elements[e].any {
				for skip := t; skip <= len(text); skip++ {
					if matches(e+1, skip) {
						return true
					}
				}
				return false
			}
			if t == len(text) || !elements[e].one && string(utf16.Decode(c.fold(string(text[t])))) != string(utf16.Decode(elements[e].unit)) {
				return false
			}
		}
		return t == len(text)
	}
	return matches(0, 0), true
}

// Equal reports whether two strings are the same to the collation.
func (c Collation) Equal(a, b string) bool { return a == b || c.Key(a) == c.Key(b) }
