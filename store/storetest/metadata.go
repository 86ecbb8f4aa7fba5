package storetest

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"
)

// metadataCases is rule S13.
func metadataCases() []testCase {
	return []testCase{{name: "NAM-05 returned as it was given", run: metadataKept}}
}

func metadataKept(s *suite) {
	for i, note := range []string{
		"", " ", "NULL", " blanks around ", "a note\r\n\ton two lines\n", "a\x00b", `{"k":"it's; DROP TABLE x--"}`,
		`"quotes" 'and' ` + "`ticks` %s %n ? @p1 $1", "日本 ñ é e\u0301 \u00ad\u200b\ufeff", "\ufeff", "🔒👩‍👩‍👧‍👦",
		strings.Repeat("a", 1024), strings.Repeat("ñ", 1024), strings.Repeat("日", 1024),
		strings.Repeat("🔒", 512), strings.Repeat("🔒", 511) + "ab",
	} {
		rule := fmt.Sprintf("rule S13: metadata is returned as it was given: %.40q", note)
		c := claim(fmt.Sprintf("job %d", i), long)
		c.Metadata = note
		require.Equal(s, note, s.grant(c).Metadata, rule)
		require.Equal(s, note, s.refuse(claim(c.Name, long)).Metadata, rule)
		require.Equal(s, note, s.holds(c, rule).Metadata, rule)
		require.Equal(s, note, s.lost(s.renew(claim(c.Name, long)), rule).Metadata, rule)
		if !s.h.NoInspector {
			require.Equal(s, note, s.liveRow(c.Name).Metadata, rule)
		}
		require.NoError(s, s.release(c).Err, rule)
	}
}
