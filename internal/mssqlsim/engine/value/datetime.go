package value

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/aaravsoft/leasehold/internal/mssqlsim/engine/sqlerr"
)

// tick is the smallest step of datetimeoffset(7) and datetime2(7).
const tick = 100 * time.Nanosecond

// Tick truncates a moment to what a datetimeoffset(7) can hold.
func Tick(t time.Time) time.Time {
	return t.Add(-time.Duration(t.Nanosecond()) % tick)
}

// scaled rounds a moment to the digits of its type, as SQL Server does; only full seconds and 100 ns are common.
func scaled(t time.Time, scale int) time.Time {
	unit := time.Second
	for range scale {
		unit /= 10
	}
	rest := time.Duration(t.Nanosecond()) % unit
	if t = t.Add(-rest); rest >= unit/2 && rest > 0 {
		t = t.Add(unit)
	}
	return t
}

func toTime(v any, from, to Type) (any, error) {
	switch x := v.(type) {
	case time.Time:
		if from.Kind != to.Kind {
			// To datetime2 the local time is kept and the offset lost; the other way the offset is +00:00.
			_, offset := x.Zone()
			x = x.UTC().Add(time.Duration(offset) * time.Second)
		}
		return scaled(x, to.Scale), nil
	case string:
		return parseTime(x, to)
	}
	return nil, sqlerr.NoConversion(from.Name(), to.Name())
}

// parseTime reads the unambiguous forms only: ISO 8601 and the one that formatTime writes.
func parseTime(s string, to Type) (any, error) {
	text := strings.TrimSpace(s)
	for _, layout := range []string{
		"2006-01-02T15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999 -07:00", "2006-01-02 15:04:05.999999999 Z",
		"2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02", "20060102",
	} {
		t, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		_, offset := t.Zone()
		if to.Kind == DateTime2 {
			return scaled(t.UTC().Add(time.Duration(offset)*time.Second), to.Scale), nil
		}
		return scaled(t.In(Offset(offset/60)), to.Scale), nil
	}
	return nil, sqlerr.DateConversion()
}

// Offset is the location so many minutes east of UTC.
func Offset(minutes int) *time.Location {
	if minutes == 0 {
		return time.UTC
	}
	return time.FixedZone("", minutes*60)
}

func formatTime(t time.Time, from Type) string {
	layout := "2006-01-02 15:04:05"
	if from.Scale > 0 {
		layout += "." + strings.Repeat("0", from.Scale)
	}
	if from.Kind == DateTimeOffset {
		layout += " -07:00"
	}
	return t.Format(layout)
}

// Part is a unit of DATEADD and DATEDIFF.
type Part struct {
	name string
	unit time.Duration
}

// FindPart looks up a datepart. Months, quarters and years are not among them.
func FindPart(name string) (Part, bool) {
	for _, part := range []struct {
		unit  time.Duration
		names string
	}{
		{time.Nanosecond, "nanosecond ns"},
		{time.Microsecond, "microsecond mcs"},
		{time.Millisecond, "millisecond ms"},
		{time.Second, "second ss s"},
		{time.Minute, "minute mi n"},
		{time.Hour, "hour hh"},
		{24 * time.Hour, "day dd d"},
	} {
		for known := range strings.FieldsSeq(part.names) {
			if strings.EqualFold(known, name) {
				return Part{known, part.unit}, true
			}
		}
	}
	return Part{}, false
}

// The range of the types.
var (
	first = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	last  = time.Date(9999, 12, 31, 23, 59, 59, 999_999_900, time.UTC)
)

// Add is DATEADD: n units later. Its result keeps the offset.
func (p Part) Add(t time.Time, n int64, typ Type) (time.Time, error) {
	// A Duration holds 292 years, so whole seconds are added apart.
	perSecond := int64(time.Second / p.unit)
	var sum time.Time
	if perSecond > 0 {
		sum = addSeconds(t, n/perSecond).Add(time.Duration(n%perSecond) * p.unit)
	} else {
		sum = addSeconds(t, n*int64(p.unit/time.Second))
	}
	if p.unit < tick {
		sum = scaled(sum, 7)
	}
	_, offset := sum.Zone()
	if wall := sum.UTC().Add(time.Duration(offset) * time.Second); wall.Before(first) || wall.After(last) ||
		sum.Before(first) || sum.After(last) {
		return time.Time{}, sqlerr.DateOverflow(typ.Name())
	}
	return sum, nil
}

func addSeconds(t time.Time, n int64) time.Time {
	return time.Unix(t.Unix()+n, int64(t.Nanosecond())).In(t.Location())
}

// Diff is DATEDIFF_BIG: the number of boundaries of the unit between two moments, both taken in UTC.
func (p Part) Diff(from, to time.Time) (int64, error) {
	if p.unit >= time.Second {
		size := int64(p.unit / time.Second)
		return floorDiv(to.Unix(), size) - floorDiv(from.Unix(), size), nil
	}
	perSecond := int64(time.Second / p.unit)
	seconds := to.Unix() - from.Unix()
	parts := int64(to.Nanosecond())/int64(p.unit) - int64(from.Nanosecond())/int64(p.unit)
	if product := seconds * perSecond; product/perSecond == seconds {
		return product + parts, nil
	}
	return 0, sqlerr.DateDiffOverflow()
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// FormatGUID writes a uniqueidentifier, whose first three groups are stored little-endian.
func FormatGUID(g []byte) string {
	return strings.ToUpper(fmt.Sprintf("%02x%02x%02x%02x-%02x%02x-%02x%02x-%x-%x",
		g[3], g[2], g[1], g[0], g[5], g[4], g[7], g[6], g[8:10], g[10:16]))
}

func toGUID(v any, from Type) (any, error) {
	switch x := v.(type) {
	case []byte:
		out := make([]byte, 16)
		copy(out, x)
		return out, nil
	case string:
		text := strings.Trim(strings.TrimSpace(x), "{}")
		raw, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
		if err != nil || len(raw) != 16 || len(text) != 36 {
			return nil, sqlerr.New(8169, "Conversion failed when converting from a character string to uniqueidentifier.").With(16, 2).Ends(sqlerr.EndsTransaction)
		}
		return []byte{raw[3], raw[2], raw[1], raw[0], raw[5], raw[4], raw[7], raw[6],
			raw[8], raw[9], raw[10], raw[11], raw[12], raw[13], raw[14], raw[15]}, nil
	}
	return nil, sqlerr.NoConversion(from.Name(), "uniqueidentifier")
}
