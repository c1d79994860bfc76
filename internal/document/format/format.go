// Package format lays out the matrices of definition files: it aligns the cells
// of a column below the column's name. Only spaces between the cells of a row
// change. Comments and all else stay byte for byte.
//
//	columns: [plan,value]               columns: [ plan,  value ]
//	matrix:                             matrix:
//	  - [enterprise,1] # one     ->       - [ enterprise, 1 ] # one
//	  - [free,  2]                        - [ free,       2 ]
package format

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/visible"
)

// errChanged is the error for a file whose meaning a new layout would change. It
// is a safety net: no such file is known.
var errChanged = errors.New("its layout can't be changed without changing what it says")

// Source lays out the matrix of a definition file. It returns JSON and CSV as they
// are, by the extension of name, and leaves a row that spans several lines alone. The
// error is a *document.MultiError for a file that can't be parsed.
func Source(name string, data []byte) ([]byte, error) {
	if document.IsJSON(name) || document.IsCSV(name) {
		return data, nil
	}
	var errs document.Errors
	def := document.Parse(name, data, &errs)
	if err := errs.Err(); err != nil {
		return nil, err
	}
	matrix := def.Get("matrix")
	if matrix == nil || matrix.Shape != document.Sequence {
		return data, nil
	}
	lines := strings.SplitAfter(string(data), "\n")
	var rows []*row
	add := func(n *document.Node) {
		if r := readRow(lines, n); r != nil {
			rows = append(rows, r)
		}
	}
	add(def.Get("columns"))
	for _, n := range matrix.Items {
		add(n)
	}
	rows = alone(rows)
	align(rows)
	for _, r := range rows {
		lines[r.line] = r.text()
	}
	out := strings.Join(lines, "")
	again := document.Parse(name, []byte(out), &errs)
	if errs.Len() > 0 || !same(def, again) {
		return nil, fmt.Errorf("%s: %w", name, errChanged)
	}
	return []byte(out), nil
}

// row is a flow sequence within one line.
type row struct {
	line  int      // index into the file's lines
	head  string   // the line up to and including [
	cells []string // without the spaces around them
	tail  string   // from ] on, or from a comma before it
	at    []int    // the columns at which the cells begin
}

// readRow splits a row into its parts. It returns nil for a row that is left
// alone.
func readRow(lines []string, n *document.Node) *row {
	if n == nil || n.Shape != document.Sequence || len(n.Items) == 0 || n.Pos.Line > len(lines) {
		return nil
	}
	line := lines[n.Pos.Line-1]
	start, ok := offset(line, n.Pos.Column)
	if !ok || line[start] != '[' {
		return nil
	}
	cells, end, ok := scanCells(line[start:])
	if !ok {
		return nil
	}
	r := &row{line: n.Pos.Line - 1, head: line[:start+1], tail: line[start+end:]}
	if last := len(cells) - 1; last > 0 && cells[last] == "" {
		// There is a comma behind the last cell.
		cells, r.tail = cells[:last], ", "+r.tail
	}
	if len(cells) != len(n.Items) {
		return nil
	}
	r.cells, r.at = cells, make([]int, len(cells))
	return r
}

// alone returns the rows that have a line to themselves. A row that an alias
// repeats counts once.
func alone(rows []*row) []*row {
	slices.SortFunc(rows, func(a, b *row) int { return cmp.Or(cmp.Compare(a.line, b.line), len(a.head)-len(b.head)) })
	rows = slices.CompactFunc(rows, func(a, b *row) bool { return a.line == b.line && a.head == b.head })
	count := make(map[int]int, len(rows))
	for _, r := range rows {
		count[r.line]++
	}
	return slices.DeleteFunc(rows, func(r *row) bool { return count[r.line] > 1 })
}

// offset returns the index of the byte at a column. Columns are characters,
// counted from 1.
func offset(line string, column int) (int, bool) {
	for i := range line {
		if column--; column == 0 {
			return i, true
		}
	}
	return 0, false
}

// align gives every cell its column: the first cell follows its bracket, and
// the others the longest row.
func align(rows []*row) {
	for i := 0; ; i++ {
		longest, found := 0, false
		for _, r := range rows {
			if i >= len(r.cells) {
				continue
			}
			found = true
			r.at[i] = visible.Width(r.head) + 1
			if i > 0 {
				r.at[i] = r.at[i-1] + visible.Width(r.cells[i-1]) + len(", ")
			}
			longest = max(longest, r.at[i])
		}
		if !found {
			return
		}
		for _, r := range rows {
			if i > 0 && i < len(r.cells) {
				r.at[i] = longest
			}
		}
	}
}

// text returns the line of the row.
func (r *row) text() string {
	var b strings.Builder
	b.WriteString(r.head)
	at := visible.Width(r.head)
	for i, cell := range r.cells {
		if i > 0 {
			b.WriteByte(',')
			at++
		}
		b.WriteString(strings.Repeat(" ", r.at[i]-at))
		b.WriteString(cell)
		at = r.at[i] + visible.Width(cell)
	}
	if r.tail[0] != ',' {
		b.WriteByte(' ')
	}
	b.WriteString(r.tail)
	return b.String()
}

// same reports whether two documents are equal but for the places of their
// values.
func same(a, b *document.Node) bool {
	if a == nil || b == nil {
		return a == b
	}
	if a.Shape != b.Shape || a.Text != b.Text || a.Quoted != b.Quoted || len(a.Items) != len(b.Items) || len(a.Members) != len(b.Members) {
		return false
	}
	for i := range a.Items {
		if !same(a.Items[i], b.Items[i]) {
			return false
		}
	}
	for i, m := range a.Members {
		if !same(m.Key, b.Members[i].Key) || !same(m.Value, b.Members[i].Value) {
			return false
		}
	}
	return true
}
