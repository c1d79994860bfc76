package document

import (
	"encoding/csv"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// IsCSV reports whether a file of this name is read as CSV.
func IsCSV(file string) bool { return strings.EqualFold(filepath.Ext(file), ".csv") }

// csvReader makes rows of cells of a CSV file.
type csvReader struct {
	builder
	lines []string
	// The place that was asked for last: a line and its column, counted in
	// characters, at an offset in the line.
	line, at, column int
}

// parseCSV reads a table by RFC 4180: a list of rows, each a list of cells. The first
// row has the names of the columns. Cells are separated by commas, or by semicolons if
// the first line has one. Blanks around a cell are not part of it, and a row of empty
// cells is skipped.
//
// A cell that begins with a bracket, a brace or a quote is read as YAML; any other is
// text, verbatim. All nodes of a cell have the cell's position. For example, the last
// cell of this row is a mapping:
//
//	nl,10..20,{ rpm: 60 }
func parseCSV(file, data string, errs *Errors) *Node {
	data = unixLines(data)
	r := &csvReader{builder: builder{file: file, errs: errs, limit: MaxNodes, instead: "split it"}, lines: strings.Split(data, "\n")}
	if i := strings.IndexFunc(data, unprintable); i >= 0 {
		c, _ := utf8.DecodeRuneInString(data[i:])
		_ = r.fail(offsetPosition(file, data, i), "control character U+%04X: save the file as UTF-8 (it may be in UTF-16), or delete the character", c)
		return nil
	}
	in := csv.NewReader(strings.NewReader(data))
	in.FieldsPerRecord, in.ReuseRecord, in.TrimLeadingSpace = -1, true, true
	in.Comma = rune(Separator(data))
	table := &Node{Shape: Sequence, Pos: Position{file, 1, 1}}
	var flow []*Node
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			r.mistake(err)
			return nil
		}
		if !slices.ContainsFunc(fields, func(text string) bool { return text != "" }) {
			continue
		}
		row := r.row(in, fields)
		if row == nil {
			return nil
		}
		for _, cell := range row.Items {
			if len(table.Items) > 0 && cell.Text != "" && strings.IndexByte(`[{"'`, cell.Text[0]) >= 0 {
				flow = append(flow, cell)
			}
		}
		table.Items = append(table.Items, row)
	}
	// Many at a time: a reader of YAML costs more than a cell.
	const many = 10_000
	for cells := range slices.Chunk(flow, many) {
		r.readFlow(cells)
	}
	if len(table.Items) == 0 {
		return nil
	}
	return table
}

// Separator returns what separates the cells of a CSV file.
func Separator(data string) byte {
	for line := range strings.Lines(unixLines(data)) {
		if strings.TrimSpace(line) != "" {
			if strings.Contains(line, ";") {
				return ';'
			}
			break
		}
	}
	return ','
}

// row makes a row of the fields of a line. It returns nil after a mistake.
func (r *csvReader) row(in *csv.Reader, fields []string) *Node {
	cells := make([]Node, len(fields))
	row := &Node{Shape: Sequence, Items: make([]*Node, len(fields))}
	for i, text := range fields {
		pos := r.position(in.FieldPos(i))
		if r.count(pos) != nil {
			return nil
		}
		cells[i] = Node{Shape: Scalar, Pos: pos, Text: strings.Trim(text, " \t\n")}
		row.Items[i] = &cells[i]
	}
	row.Pos = cells[0].Pos
	return row
}

// position returns a place by its line and the offset in it, which counts from 1. One
// pass over a line finds all of its places.
func (r *csvReader) position(line, offset int) Position {
	text := r.lines[min(line, len(r.lines))-1]
	to := min(offset-1, len(text))
	if line != r.line || to < r.at {
		r.line, r.at, r.column = line, 0, 1
	}
	r.column += utf8.RuneCountInString(text[r.at:to])
	r.at = to
	return Position{r.file, line, r.column}
}

// readFlow reads cells as YAML: all as one list, or one by one if one of them has a
// mistake.
func (r *csvReader) readFlow(cells []*Node) {
	var list strings.Builder
	for _, cell := range cells {
		list.WriteString("- " + strings.ReplaceAll(cell.Text, "\n", " ") + "\n")
	}
	// A cell without an end runs into the next: then there are fewer than cells.
	if n := parseYAML(r.file, list.String(), new(Errors)); n != nil && len(n.Items) == len(cells) {
		for i, cell := range cells {
			n.Items[i].moveTo(cell.Pos)
			*cell = *n.Items[i]
		}
		return
	}
	for _, cell := range cells {
		var found Errors
		n := parseYAML(r.file, cell.Text, &found)
		if n == nil {
			r.errs.AddAt(cell.Pos, "%s", found.List()[0].Message)
			continue
		}
		n.moveTo(cell.Pos)
		*cell = *n
	}
}

// moveTo gives a tree one position.
func (n *Node) moveTo(pos Position) {
	n.Pos = pos
	for _, item := range n.Items {
		item.moveTo(pos)
	}
	for _, m := range n.Members {
		m.Key.moveTo(pos)
		m.Value.moveTo(pos)
	}
}

// mistake reports a violation of the format.
func (r *csvReader) mistake(err error) {
	e, ok := errors.AsType[*csv.ParseError](err)
	switch {
	case !ok:
		_ = r.fail(Position{r.file, 1, 1}, "invalid CSV: %v", err)
	case errors.Is(err, csv.ErrBareQuote):
		_ = r.fail(r.position(e.Line, e.Column), "invalid CSV: a quote within a cell that does not begin with one: put the cell in quotes, and double those in it")
	case e.StartLine != e.Line:
		_ = r.fail(Position{r.file, e.StartLine, 1}, "invalid CSV: a quoted cell of this row has no end, or more behind it: double the quotes within a cell")
	default:
		_ = r.fail(r.position(e.Line, e.Column), "invalid CSV: a quoted cell has no end, or more behind it: double the quotes within a cell")
	}
}
