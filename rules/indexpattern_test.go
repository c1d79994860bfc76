package rules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// textCell is a cell on a field of text, as it is written and as a function.
type textCell struct {
	text    string
	matches func(s string) bool
	missing bool // whether it matches a missing field
	pattern bool // whether long values are missing
}

// randomText has few letters, so that ends and parts occur within each other.
func randomText(r *rand.Rand, most int) string {
	b := make([]byte, 1+r.IntN(most))
	for i := range b {
		b[i] = "aab."[r.IntN(4)]
	}
	return string(b)
}

// longEnd is what many texts of about maxEnd bytes end with.
var longEnd = strings.Repeat("b", maxEnd-2)

// randomCell makes a cell, mostly one about ends or parts.
func randomCell(r *rand.Rand, depth int, ends *[]string) textCell {
	s := randomText(r, 6)
	if r.IntN(8) == 0 {
		s = randomText(r, 4) + longEnd // about as long as ends can be
	}
	*ends = append(*ends, s)
	switch n := r.IntN(14); {
	case n < 4:
		return textCell{strconv.Quote("*" + s), func(v string) bool { return strings.HasSuffix(v, s) }, false, false}
	case n < 8:
		return textCell{strconv.Quote("*" + s + "*"), func(v string) bool { return strings.Contains(v, s) }, false, true}
	case n == 8:
		return textCell{"{ is: " + strconv.Quote(s) + " }", func(v string) bool { return v == s }, false, false}
	case n == 9:
		s = "a" + strings.ReplaceAll(s, ".", "b")
		return textCell{s + "*", func(v string) bool { return strings.HasPrefix(v, s) }, false, false}
	case n == 10 && depth > 0:
		c := randomCell(r, 0, ends)
		return textCell{"{ not: " + c.text + " }", func(v string) bool { return !c.matches(v) }, false, c.pattern}
	case n == 11 && depth > 0:
		a, b := randomCell(r, depth-1, ends), randomCell(r, depth-1, ends)
		return textCell{"{ all: [" + a.text + ", " + b.text + "] }", func(v string) bool { return a.matches(v) && b.matches(v) }, a.missing && b.missing, a.pattern || b.pattern}
	case n == 12 && depth > 0:
		c := randomCell(r, 0, ends)
		return textCell{"[missing, " + c.text + "]", c.matches, true, c.pattern}
	}
	if depth == 0 {
		return randomCell(r, 0, ends)
	}
	cells := make([]textCell, 1+r.IntN(3))
	texts := make([]string, len(cells))
	either := textCell{}
	same := r.IntN(2) == 0 // all about ends, or all about parts
	for i := range cells {
		for cells[i] = randomCell(r, 0, ends); same && cells[i].pattern != cells[0].pattern; {
			cells[i] = randomCell(r, 0, ends)
		}
		texts[i] = cells[i].text
		either.pattern = either.pattern || cells[i].pattern
	}
	either.text = "[" + strings.Join(texts, ", ") + "]"
	either.matches = func(v string) bool {
		return slices.ContainsFunc(cells, func(c textCell) bool { return c.matches(v) })
	}
	return either
}

// The columns of ends and of parts find what looking at each cell would.
func TestPatternColumnsAgainstCells(t *testing.T) {
	m := model(t, "fields: { s: string, n: number }")
	seeds := uint64(300)
	if testing.Short() || raceEnabled {
		seeds = 100
	}
	var endColumns, parts, shared, many int
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 3))
		rows := []int{6, 40, 64, 65, 200}[r.IntN(5)]
		var text strings.Builder
		text.WriteString("columns: [s, n, value]\nmatrix:\n")
		var cells []textCell
		var ends []string
		for len(cells) < rows {
			c := randomCell(r, 2, &ends)
			if _, _, err := decodeCells(m, c.text); err {
				continue // it contradicts itself
			}
			cells = append(cells, c)
			fmt.Fprintf(&text, "  - [%s, %d.., v%d]\n", c.text, r.IntN(3), len(cells)-1)
		}
		tab := table(t, m, text.String())
		scan, indexed, tight := *tab, *tab, *tab
		scan.index, indexed.index = nil, newIndex(tab, columnBudget)
		tight.index = newIndex(tab, 8*indexed.index.words*6)
		for _, tables := range []*Table{&indexed, &tight} {
			for _, c := range slices.Concat(tables.index.columns, tables.index.lists) {
				if c.kind == endColumn {
					endColumns++
					if c.shift > 0 {
						shared++
					}
				}
				if c.kind == partColumn {
					parts++
				}
			}
		}
		rowN := make([]int, rows)
		for i, line := range strings.Split(strings.TrimSpace(text.String()), "\n")[2:] {
			rowN[i], _ = strconv.Atoi(line[strings.LastIndex(line, "..")-1 : strings.LastIndex(line, "..")])
		}
		for range 60 {
			value, given := randomText(r, 14), r.IntN(10) > 0
			switch r.IntN(15) {
			case 0:
				value = strings.Repeat(value, 9000/len(value)+1)
			case 1:
				value = strings.Repeat(value, maxEnd/len(value)+r.IntN(3))
			case 2:
				value = ""
			case 8:
				value += longEnd
			case 3, 4, 5:
				value = value[:r.IntN(len(value)+1)] + ends[r.IntN(len(ends))]
			case 6, 7:
				value = ends[r.IntN(len(ends))]
				value = value[r.IntN(len(value)):]
			}
			n := r.IntN(4)
			context := fmt.Sprintf(`{"s":%q,"n":%d}`, value, n)
			if !given {
				context = fmt.Sprintf(`{"n":%d}`, n)
			}
			want := -1
			for i, c := range cells {
				ok := c.missing
				if given && (!c.pattern || len(value) <= maxPatternValue) {
					ok = c.matches(value)
				}
				if ok && n >= rowN[i] {
					want = i
					break
				}
			}
			b := bind(t, m, context)
			for name, tab := range map[string]*Table{"scan": &scan, "index": &indexed, "tight index": &tight} {
				if got := tab.Evaluate(b); got.Row != want {
					t.Fatalf("seed %d, %s: row %d, want %d for %s\n%s", seed, name, got.Row, want, shorten(context), text.String())
				}
			}
			for i := range indexed.index.lists {
				if c := &indexed.index.lists[i]; c.kind == partColumn && len(value) < 100 {
					if _, all := c.parts.find(value, make([]uint32, maxElements)); !all {
						many++
					}
				}
			}
		}
	}
	// The test is about something.
	for what, n := range map[string]int{"columns of ends": endColumns, "columns of parts": parts, "columns of ends that share bitmaps": shared, "texts with too many parts": many} {
		if n < 10 {
			t.Errorf("only %d %s", n, what)
		}
	}
}

// Ends of about the length up to which they are looked up are told apart, from
// each other and from texts that go on before them.
func TestLongEnds(t *testing.T) {
	m := model(t, "fields: { s: string }")
	tail := strings.Repeat("b", maxEnd-4)
	var lines []string
	var values []string
	for _, front := range []string{"", "a", "aa", "aaa", "caaa", "aaaa", "ccaaaa", "aaaaa", "aaaaaa", "ccccccaaaaaa"} {
		values = append(values, front+tail)
		lines = append(lines, fmt.Sprintf("  - [[{ is: %q }, '*%sx'], 1]\n", front+tail, front), fmt.Sprintf("  - ['*c%s', 1]\n", front+tail))
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
