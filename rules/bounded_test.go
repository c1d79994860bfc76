package rules

import (
	"fmt"
	"strings"
	"testing"
)

// customers is a table of so many customers, of whom the last is there twice.
func customers(t testing.TB, hit string, rows int) *Table {
	m := model(t, "fields:\n  plan: string\n  customer: string\n  level: number\n")
	var text strings.Builder
	text.WriteString("hit: " + hit + "\ncolumns: [plan, customer, level, value]\nmatrix:\n")
	for i := range rows - 1 {
		fmt.Fprintf(&text, "  - [any, customer-%d, %s, v%d]\n", i, []string{"any", "1", "2.."}[i%3], i%7)
	}
	fmt.Fprintf(&text, "  - [pro, customer-0, 5, other]\n")
	return table(t, m, text.String())
}

// TestAnalysisOfManyRows decides tables of many single values within a work
// bound that only grows as the rows do.
func TestAnalysisOfManyRows(t *testing.T) {
	for hit, sizes := range map[string][]int{"first": {1000, MaxRows}, "unique": {1000, 20_000}} {
		if raceEnabled {
			sizes = sizes[:1]
		}
		for _, rows := range sizes {
			t.Run(fmt.Sprintf("%s, %d", hit, rows), func(t *testing.T) {
				tab := customers(t, hit, rows)
				findings := tab.Analyse(Analysis{Now: noon, Budget: 64 * rows, Equal: equalText(tab)})
				checkFindings(t, tab.model, tab, findings)
				want := 1 // the last row is never reached
				if hit == "unique" {
					want = 2 // and has another value
				}
				for i, f := range findings {
					if i == 0 && f.Kind != Unreachable || i == 1 && f.Kind != Overlap || f.Row != rows-1 || f.Witness == "" {
						t.Errorf("%s: %s", f.Kind, f.Message)
					}
				}
				if len(findings) != want {
					t.Errorf("got %d findings, want %d", len(findings), want)
				}
			})
		}
	}
}

// TestAnalysisOfManyRanges finds the overlap of two among many ranges.
func TestAnalysisOfManyRanges(t *testing.T) {
	const rows = 10_000
	m := model(t, "fields:\n  n: number\n")
	var text strings.Builder
	text.WriteString("hit: unique\ncolumns: [n, value]\nmatrix:\n")
	for i := range rows {
		fmt.Fprintf(&text, "  - [%d..<%d, v%d]\n", 10*i, 10*i+10, i)
	}
	fmt.Fprintf(&text, "  - [55555.., v]\n")
	tab := table(t, m, text.String())
	overlaps := 0
	for _, f := range tab.Analyse(Analysis{Now: noon, Budget: 100 * rows, Equal: equalText(tab)}) {
		if f.Kind != Overlap || f.Row != rows {
			t.Errorf("%s: %s", f.Kind, f.Message)
		}
		overlaps++
	}
	if overlaps != maxFindings {
		t.Errorf("%d overlaps", overlaps)
	}
}

// TestAnalysisOfManyPatterns ends at its bound, however much there is to
// compile and compare, and says so.
func TestAnalysisOfManyPatterns(t *testing.T) {
	m := model(t, "fields:\n  name: { type: string, ignore_case: true }\n")
	var text strings.Builder
	text.WriteString("hit: unique\ncolumns: [name, value]\nmatrix:\n")
	for i := range 200 {
		fmt.Fprintf(&text, "  - [{ matches: '^a%d[\\pL\\d]{20}x$' }, v%d]\n", i, i)
	}
	tab := table(t, m, text.String())
	const budget = 300_000
	left := budget
	s := newSolver(tab, noon, &left)
	questions := 0
	for row := range tab.rows {
		for other := range row {
			if left < 0 {
				break
			}
			s.find([][]atom{tab.rowAtoms(row), tab.rowAtoms(other)}, nil)
			questions++
		}
	}
	if questions > budget/100 {
		t.Errorf("%d questions about patterns for %d steps", questions, budget)
	}
	if findings := tab.Analyse(Analysis{Now: noon, Budget: budget, Equal: equalText(tab)}); len(findings) == 0 || findings[len(findings)-1].Kind != Undecided {
		t.Errorf("got %v", findings)
	}
}
