package rules

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Patterns look at values of 8 KiB at most. For a cell with one, a longer value
// is missing, however the table is evaluated; for all other cells it is there.
func TestPatternsOnLongValues(t *testing.T) {
	const fields = `
fields: { s: { type: string }, l: { type: list } }
computed: { c: 's + "."' }
segments: { odd: [ { s: /x$/ } ], even: [ { s: "not /x$/" } ] }
`
	m := model(t, strings.Replace(fields, `"not /x$/"`, "{ not: /x$/ }", 1))
	long, most := strings.Repeat("a", 8<<10)+"x", strings.Repeat("a", 8<<10-1)+"x"
	for _, tt := range []struct {
		cell          string
		atMost, above bool // whether it matches a value of 8 KiB, and a longer one
	}{
		{"s: /x$/", true, false},
		{"s: { not: /y/ }", true, false},
		{`s: "*ax*"`, true, false},
		{`s: { not: "*y*" }`, true, false},
		{"s: [missing, /y/]", false, true},
		{`s: { all: [a*, { not: /y/ }] }`, true, false},
		{"s: a*", true, true},
		{`s: "*x"`, true, true},
		{"s: { not: y }", true, true},
		{"s: present", true, true},
		{"l: /x$/", true, false},
		{"l: { none: /y/ }", true, false},
		{"l: { none: [y] }", true, true},
		{"l: { size: 2 }", true, true},
		{`c: /x\.$/`, false, false}, // the computed text is longer by one
		{`c: "*x."`, true, true},
		{"segment: odd", true, false},
		{"segment: even", false, false},
		{"segment: not odd", false, true},
	} {
		for _, others := range []int{0, 40} {
			text := "rules:\n" + strings.Repeat("  - { when: { s: other }, value: other }\n", others) + "  - { when: { " + tt.cell + " }, value: hit }\n"
			tab := table(t, m, text)
			for value, want := range map[string]bool{most: tt.atMost, long: tt.above} {
				b := bind(t, m, fmt.Sprintf(`{"s":%q,"l":["b",%q]}`, value, value))
				if got := outcome(tab, tab.Evaluate(b)) == "hit"; got != want {
					t.Errorf("%s on %d bytes, %d rows above: %v, want %v", tt.cell, len(value), others, got, want)
				}
				if e := tab.Explain(b).Rows[others]; e.Matched != want {
					t.Errorf("%s on %d bytes: explained as %v", tt.cell, len(value), e)
				}
			}
		}
	}
}

// A value too long for a pattern is noted, once, by the tables that have one,
// and not hidden by a remembered decision.
func TestLongValuesAreNoted(t *testing.T) {
	m := model(t, "fields: { s: { type: string }, l: { type: list } }\nsegments: { odd: [ { s: /x$/ } ] }")
	long := bind(t, m, fmt.Sprintf(`{"s":%q,"l":["b",%q]}`, strings.Repeat("a", 9000), strings.Repeat("b", 9000)))
	short := bind(t, m, `{"s":"a","l":["b"]}`)
	plain := table(t, m, "rules: [{ when: { s: a, l: b }, value: 1 }]")
	pattern := table(t, m, "rules: [{ when: { s: /a/ }, value: 1 }, { when: { s: /b/ }, value: 2 }]")
	segment := table(t, m, "rules: [{ when: { segment: odd }, value: 1 }]")
	list := table(t, m, "rules: [{ when: { l: \"*b*\" }, value: 1 }]")
	asking := tableAsking(t, m, map[string]*Table{"p": pattern}, "rules: [{ when: { config: { p: 1 } }, value: 1 }]")
	if plain.Evaluate(long); long.Notes() != nil || !plain.Cacheable(long) {
		t.Errorf("a table without a pattern: %v", long.Notes())
	}
	for _, tab := range []*Table{pattern, segment, list, asking} {
		if tab.Cacheable(long) || !tab.Cacheable(short) {
			t.Error("a decision that leaves a note is not one to remember, others are")
		}
		tab.Evaluate(long)
		if tab.Evaluate(short); short.Notes() != nil {
			t.Errorf("%v", short.Notes())
		}
	}
	if diff := cmp.Diff([]Note{{"s", NoteTooLong}, {"l", NoteTooLong}}, long.Notes()); diff != "" {
		t.Error(diff)
	}
	if got, want := pattern.Explain(long).Rows[0].String(), " is longer than patterns look at, so it counts as missing"; !strings.HasSuffix(got, want) {
		t.Errorf("%s does not end with %s", got, want)
	}
}

// However long a value is and however many patterns there are, they take no
// time.
func TestPatternsTakeNoTimeOnLongValues(t *testing.T) {
	m := model(t, "fields: { s: { type: string } }")
	var text strings.Builder
	text.WriteString("columns: [s, value]\nmatrix:\n")
	for i := range 1000 {
		fmt.Fprintf(&text, "  - [/(a|b|c)*d%d$/, x]\n", i)
	}
	tab := table(t, m, text.String())
	b := bind(t, m, fmt.Sprintf(`{"s":%q}`, strings.Repeat("abc", 300_000)))
	begun := time.Now()
	for range 10 {
		tab.Evaluate(b)
	}
	// With the patterns at work it would be minutes.
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("%v", took)
	}
}
