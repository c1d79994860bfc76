package rules

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// A data model has a ceiling for its fields, declared and computed together,
// and for its segments. A model at the ceiling is valid.
func TestModelCeilings(t *testing.T) {
	list := func(name string, n int, format string) string {
		var b strings.Builder
		b.WriteString(name + ":\n")
		for i := range n {
			fmt.Fprintf(&b, "  "+format+"\n", name[0:1]+fmt.Sprint(i))
		}
		return b.String()
	}
	fields := func(n int) string { return list("fields", n, "%s: string") }
	computed := func(n int) string { return list("computed", n, "%s: f0 == 'a'") }
	segments := func(n int) string { return list("segments", n, "%s: [ { f0: a } ]") }
	for _, tt := range []struct{ text, want string }{
		{fields(maxFields), ""},
		{fields(maxFields + 1), "1001 fields are declared, at most 1000 are supported"},
		{fields(maxFields-1) + computed(1), ""},
		{fields(maxFields-1) + computed(2), "1001 fields are declared and computed, at most 1000 are supported"},
		{fields(1) + segments(maxSegments), ""},
		{fields(1) + segments(maxSegments+1), "1001 segments are declared, at most 1000 are supported"},
	} {
		var errs document.Errors
		DecodeModel(parseYAML(t, "context.yaml", tt.text), nil, &errs)
		got := mistakes(&errs)
		if tt.want == "" && got != "" || !strings.HasSuffix(got, tt.want) {
			t.Errorf("got %s, want %s", shorten(got), tt.want)
		}
	}
}

// The shares of a split meet exactly: the last bucket of one and the first of
// the next are distinguished by evaluation, at full and at part coverage.
func TestSplitBoundaries(t *testing.T) {
	m := model(t, "fields: { u: string }")
	units := make(map[uint32]string) // by bucket
	probe := table(t, m, "rules: [{ id: r, split: { by: u, of: [{ value: a, share: 100% }] } }]").answers[0].split
	wanted := []uint32{0, 7_499, 7_500, 14_999, 15_000, 29_999, 30_000, 39_999, 40_000, 49_999, 50_000, 69_999, 70_000, 99_999}
	var b Binding
	for i := 0; len(units) < len(wanted); i++ {
		unit := fmt.Sprint("u", i)
		b.reset(m, noon)
		b.hasContext = true
		b.setText(&m.fields[0], 0, unit)
		bucket, _ := probe.bucket(&b)
		for _, w := range wanted {
			if w == bucket {
				units[w] = unit
			}
		}
	}
	// At full coverage a owns the buckets from 0 and b those from 30,000.
	for coverage, want := range map[string]string{
		"100%": "a a a a a a b b b b b b - -",
		"50%":  "a a a a - - b b b b - - - -",
		"25%":  "a a - - - - b b - - - - - -",
		"0%":   "- - - - - - - - - - - - - -",
	} {
		tab := table(t, m, "rules: [{ id: r, split: { by: u, coverage: "+coverage+", of: [{ value: a, share: 30% }, { value: b, share: 40% }] } }, { value: '-' }]")
		var got []string
		for _, w := range wanted {
			got = append(got, outcome(tab, tab.Evaluate(bind(t, m, `{"u":"`+units[w]+`"}`))))
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("coverage %s: got %s, want %s", coverage, got, want)
		}
	}
}
