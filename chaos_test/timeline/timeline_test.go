package timeline_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/aaravsoft/leasehold/chaos_test/check"
	"github.com/aaravsoft/leasehold/chaos_test/history"
	"github.com/aaravsoft/leasehold/chaos_test/timeline"
)

func TestPage(t *testing.T) {
	at := func(ms int, e history.Event) history.Event {
		e.At = time.Duration(ms) * time.Millisecond
		return e
	}
	call := history.Event{Client: "c0", ID: 1, Name: "<name>", TTL: time.Second}
	held := call
	held.Owner, held.Token = "me/1", 42
	with := func(e history.Event, k history.Kind) history.Event {
		e.Kind = k
		return e
	}
	h := history.History{Events: []history.Event{
		at(0, history.Event{Kind: history.Fault, ID: 9, Client: "c0", Detail: "a cut"}),
		at(1, with(call, history.Call)),
		at(5, with(held, history.Grant)),
		at(900, with(held, history.Risk)),
		at(1500, with(held, history.Lost)),
		at(1500, with(held, history.End)),
		at(2000, history.Event{Kind: history.Heal, ID: 9, Client: "c0", Detail: "a cut"}),
		at(2100, with(held, history.Unlocked)),
	}}
	var b strings.Builder
	found := []check.Violation{{Check: check.OneHolder, At: time.Second, Until: 1200 * time.Millisecond, Name: "<name>", Text: "two held it"}}
	require.NoError(t, timeline.Write(&b, "the title", h, found))
	page := b.String()

	assert.NotRegexp(t, regexp.MustCompile(`(src|href)="[^#"]`), page, "the page needs nothing else")
	assert.NotContains(t, page, "<name>", "names are escaped")
	for _, class := range []string{"waiting", "held", "risk", "lost", "fault", "violation"} {
		assert.Contains(t, page, `<rect class="`+class+`" x=`, "a bar of each kind")
	}
	assert.Contains(t, page, `data-l="&lt;name&gt; · 42|42"`)
	assert.Contains(t, page, "two held it")
	assert.NotContains(t, page, "ZgotmplZ", "the template has refused something")
}
