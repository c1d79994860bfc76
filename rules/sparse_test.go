package rules

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// Columns of very many texts list the rows of each, and where every row has a
// cell evaluation skips from one listed row to the next. All of them, at both
// ends of words and of the table, must be found.
func TestSparseColumns(t *testing.T) {
	seeds := uint64(120)
	if testing.Short() {
		seeds = 30
	}
	m := model(t, "fields: { who: string, other: string, n: number, tags: list }")
	sparse, missed := 0, 0
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 4))
		rows := []int{5, 63, 64, 65, 127, 128, 129, 200, 300}[r.IntN(9)]
		ids := []int{2, 10, rows/2 + 1, rows}[r.IntN(4)]
		two, wild := r.IntN(2) == 0, r.IntN(4) == 0
		var text strings.Builder
		text.WriteString("columns: [who, other, n, tags, value]\nmatrix:\n")
		for row := range rows {
			id := fmt.Sprintf("id%d", r.IntN(ids))
			if r.IntN(4) == 0 {
				id = fmt.Sprintf("[id%d, id%d]", r.IntN(ids), r.IntN(ids))
			}
			if wild && row > rows/2 && r.IntN(10) == 0 {
				id = []string{"any", "not id1", "missing"}[r.IntN(3)]
			}
			other, tags := "any", "any"
			if two {
				other = fmt.Sprintf("o%d", r.IntN(ids))
			}
			if r.IntN(8) == 0 {
				tags = "a"
			}
			fmt.Fprintf(&text, "  - [%s, %s, %d.., %s, x]\n", id, other, r.IntN(6), tags)
		}
		tab := table(t, m, text.String())
		scan, indexed := *tab, *tab
		scan.index = nil
		// Hardly a bitmap fits, so the columns of texts are lists of rows.
		indexed.index = newIndex(tab, 8*tab.index.words*4)
		for _, c := range indexed.index.lists {
			if c.kind == postingColumn && c.sparse {
				sparse++
			}
		}
		for range 150 {
			context := fmt.Sprintf(`{"who":"id%d","other":"o%d","n":%d,"tags":[%q]}`, r.IntN(ids+1), r.IntN(ids+1), r.IntN(7)-1, "ab"[r.IntN(2):])
			if r.IntN(20) == 0 {
				context = `{"n":5}`
			}
			b := bind(t, m, context)
			got, want := indexed.Evaluate(b).Row, scan.Evaluate(b).Row
			if got != want {
				t.Fatalf("seed %d: row %d, want %d of %d for %s\n%s", seed, got, want, rows, context, text.String())
			}
			if want < 0 {
				missed++
			}
		}
	}
	if sparse < 20 || missed < 100 {
		t.Errorf("only %d sparse columns, %d contexts without a row", sparse, missed)
	}
}

// A row of its own for each text: every one is found, wherever it is.
func TestSparseColumnFindsEachRow(t *testing.T) {
	m := model(t, "fields: { who: string, n: number }")
	for _, rows := range []int{63, 64, 65, 128, 129} {
		var text strings.Builder
		text.WriteString("columns: [who, n, value]\nmatrix:\n")
		for i := range rows {
			// A text has two rows; the first of them is for larger numbers.
			fmt.Fprintf(&text, "  - [id%d, %d.., x]\n", i%((rows+1)/2), (rows-i)/((rows+1)/2)*10)
		}
		tab := table(t, m, text.String())
		scan := *tab
		scan.index = nil
		tab.index = newIndex(tab, 8*tab.index.words*3)
		if len(tab.index.lists) != 1 || !tab.index.lists[0].sparse {
			t.Fatal("no sparse column")
		}
		for i := range rows {
			for _, n := range []int{-1, 0, 10, 20} {
				b := bind(t, m, fmt.Sprintf(`{"who":"id%d","n":%d}`, i, n))
				if got, want := tab.Evaluate(b).Row, scan.Evaluate(b).Row; got != want {
					t.Errorf("%d rows: row %d, want %d for id%d and %d", rows, got, want, i, n)
				}
			}
		}
	}
}
