package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Ends of about the length up to which they are looked up are distinguished,
// from each other and from texts that go on before them.
func TestLongEnds(t *testing.T) {
	m := model(t, "fields: { s: string }")
	tail := strings.Repeat("b", maxEnd-4)
	var lines []string
	var values []string
	// The longest first, because the shortest are the ends of all.
	for _, front := range []string{"ccccccaaaaaa", "aaaaaa", "aaaaa", "ccaaaa", "aaaa", "caaa", "aaa", "aa", "a", ""} {
		values = append(values, front+tail)
		lines = append(lines, fmt.Sprintf("  - [['*%s', '*%sx'], 1]\n", front+tail, front), fmt.Sprintf("  - ['*c%s', 1]\n", front+tail))
	}
	tab := table(t, m, "columns: [s, value]\nmatrix:\n"+strings.Join(lines, ""))
	scan := *tab
	scan.index = nil
	if !slices.ContainsFunc(tab.index.columns, func(c column) bool { return c.kind == endColumn }) {
		t.Fatal("no column of ends")
	}
	for _, front := range []string{"", "a", "c", "ca", "dcaa"} {
		for _, v := range values {
			b := bind(t, m, fmt.Sprintf(`{"s":%q}`, front+v))
			if got, want := tab.Evaluate(b).Row, scan.Evaluate(b).Row; got != want {
				t.Errorf("%s: row %d, want %d", front+v, got, want)
			}
		}
	}
}

// A list of more elements than are looked up finds the rows of the last ones, too.
func TestManyElements(t *testing.T) {
	m := model(t, "fields: { tags: list }")
	var rows, tags []string
	for i := range 2 * maxElements {
		rows = append(rows, fmt.Sprintf("[t%d, v]", i))
		tags = append(tags, fmt.Sprintf("%q", fmt.Sprint("t", 2*maxElements-1-i)))
	}
	tab := table(t, m, "columns: [tags, value]\nmatrix: ["+strings.Join(rows, ", ")+"]")
	for n := 1; n <= len(tags); n++ {
		b := bind(t, m, `{"tags":["other",`+strings.Join(tags[:n], ",")+`]}`)
		if got, want := tab.Evaluate(b).Row, len(rows)-n; got != want {
			t.Errorf("%d elements: row %d, want %d", n, got, want)
		}
	}
}
