package rules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// The compiled regular expressions of a table, and of all segments, have a
// ceiling for their memory together, which a few bytes of text can exceed.
func TestCeilingOfPatterns(t *testing.T) {
	cells := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("{ matches: '^(?:[a-cx-z]{996}){1}%c$' }", 'a'+i%26))
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	m := model(t, "fields: { s: { type: string } }")
	var errs document.Errors
	one := DecodeTable(m, parseYAML(t, "t.yaml", "rules: [{ when: { s: "+cells(1)+" }, value: 1 }]"), Options{}, &errs).PatternSize()
	if one < 100_000 || one > 300_000 {
		t.Fatalf("one takes %d", one)
	}
	limit := maxPatterns / one
	for n, want := range map[int]string{limit: "", limit + 1: "the regular expressions up to here take about 64 MiB, at most 64 MiB are possible"} {
		var errs document.Errors
		tab := DecodeTable(m, parseYAML(t, "t.yaml", "rules: [{ when: { s: "+cells(n)+" }, value: 1 }]"), Options{}, &errs)
		if got := mistakes(&errs); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%d in a table: %s", n, shorten(got))
		}
		if want == "" && tab.PatternSize() != n*one {
			t.Errorf("%d take %d", n, tab.PatternSize())
		}
	}
	for text, want := range map[string]string{
		"{ matches: '^\\pL{1000}$' }": "",
		"[{ matches: '^\\pL{1000}$' }, { matches: '^\\pL{999}$' }, { matches: '^\\pL{998}$' }, { matches: '^\\pL{997}$' }, { matches: '^(?:\\pL{500}){2}$' }, { matches: '\\pL{995}$' }, { matches: '\\pL{996}$' }, { matches: '\\pL{994}$' }]": "take about",
	} {
		var errs document.Errors
		DecodeModel(parseYAML(t, "context.yaml", "fields: { s: { type: string } }\nsegments: { x: [ { s: "+text+" } ] }"), nil, &errs)
		if got := mistakes(&errs); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("segments: %s", shorten(got))
		}
	}
}
