package inspect

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/rules"
)

// shownRows bounds the rows of a TableView: a table may have 100,000.
const shownRows = 500

// TableView is a table as a grid. A table that is written as rules has a column for each
// field that a rule is about.
type TableView struct {
	Columns []ColumnView `json:"columns"`
	First   int          `json:"first"` // index of the first row shown
	Rows    []RowView    `json:"rows"`
	Default RowView      `json:"default"`
}

// ColumnView is the head of a column.
type ColumnView struct {
	Name string `json:"name"`
	Place
}

// RowView is a row with what it answers at an instant.
type RowView struct {
	Row string `json:"row"`
	Place
	Cells []CellView `json:"cells,omitempty"` // one for each column
	By    string     `json:"by,omitempty"`    // the field whose units the row divides
	// Guarded says that a rollout has the share of each answer.
	Guarded bool        `json:"guarded,omitempty"`
	Answers []RowAnswer `json:"answers"`
}

// CellView is a condition as it was written. Text is "any" where there is none.
type CellView struct {
	Text string `json:"text"`
	Place
}

// RowAnswer is an answer of a row: a value, or the key of a variant. Share is how many of
// the row's units get it, as a part of 1. The rest is left to the rows below. Of a guarded
// split it is as if its rollout had not begun: the control has all.
type RowAnswer struct {
	Value json.RawMessage `json:"value"`
	Arm   string          `json:"arm,omitempty"`
	Share float64         `json:"share"`
	Place
}

// tableSource is a table as its file has it.
type tableSource struct {
	columns []*document.Node // of a matrix
	rows    []*document.Node
}

// sourceCell is a cell of a row under its column. own says that it is about the row, such as
// its id, and no condition on a field.
type sourceCell struct {
	column, value *document.Node
	own           bool
}

func sourceOf(def *document.Node) (g tableSource) {
	if columns, matrix := def.Get("columns"), def.Get("matrix"); columns != nil && matrix != nil {
		return tableSource{columns.Items, matrix.Items}
	}
	if n := def.Get("rules"); n != nil {
		g.rows = n.Items
	}
	return g
}

// cells returns the cells of a row.
func (g *tableSource) cells(row *document.Node) (list []sourceCell) {
	for i, cell := range row.Items[:min(len(row.Items), len(g.columns))] {
		list = append(list, sourceCell{g.columns[i], cell, rules.IsRowColumn(g.columns[i].Text)})
	}
	if when := row.Get("when"); when != nil {
		for _, m := range when.Members {
			list = append(list, sourceCell{m.Key, m.Value, false})
		}
	}
	for _, m := range row.Members {
		if m.Key.Text != "when" {
			list = append(list, sourceCell{m.Key, m.Value, true})
		}
	}
	return list
}

// isAnswer reports whether a cell is the id or the answer of its row.
func (c sourceCell) isAnswer() bool {
	return c.own && slices.Contains([]string{"id", "value", "split"}, c.column.Text)
}

// under reports whether a cell is in the same column as another.
func (c sourceCell) under(other sourceCell) bool {
	return c.own == other.own && c.column.Text == other.column.Text
}

// tableView lays out the rows of a table from first on.
func tableView(d *definition.Definition, first int, now time.Time) *TableView {
	g, t := sourceOf(d.Node()), d.Table()
	first = min(max(first, 0), len(g.rows))
	rows := g.rows[first:min(first+shownRows, len(g.rows))]
	v := &TableView{First: first, Rows: []RowView{}, Columns: []ColumnView{}}
	var columns []sourceCell
	for _, row := range rows {
		for _, c := range g.cells(row) {
			if !c.isAnswer() && !slices.ContainsFunc(columns, c.under) {
				columns = append(columns, c)
				v.Columns = append(v.Columns, ColumnView{c.column.Text, placeOf(c.column)})
			}
		}
	}
	outcomes := make(map[*document.Node]int)
	for i, n := range t.Outcomes() {
		outcomes[n] = i
	}
	for i, row := range rows {
		index := first + i
		r := RowView{Row: t.Rows()[index].ID, Place: Place(t.Rows()[index].Pos), Answers: []RowAnswer{}}
		cells := g.cells(row)
		for _, c := range columns {
			cell := CellView{Text: "any", Place: r.Place}
			if i := slices.IndexFunc(cells, c.under); i >= 0 {
				cell = CellView{rules.CellText(cells[i].value), placeOf(cells[i].value)}
			}
			if cell.Text == "any" && c.own {
				cell.Text = "" // a row without an end
			}
			r.Cells = append(r.Cells, cell)
		}
		division := t.Divide(index, now)
		r.By, r.Guarded = division.By, division.Guard != nil
		for _, value := range answersOf(cells) {
			outcome, ok := outcomes[value]
			if !ok {
				continue
			}
			decision := rules.Decision{Row: index, Outcome: outcome, Reason: rules.Match}
			a := RowAnswer{Value: d.Answer(decision), Arm: t.Arm(decision), Place: placeOf(value)}
			for _, part := range division.Parts {
				if part.Outcome == outcome && !r.Guarded {
					a.Share += float64(part.To-part.From) / rules.Buckets
				}
			}
			if r.Guarded && value == division.Guard.Get("control") {
				a.Share = 1
			}
			r.Answers = append(r.Answers, a)
		}
		v.Rows = append(v.Rows, r)
	}
	v.Default = RowView{Row: "default", Place: placeOf(d.Node())}
	if n := d.Node().Get("default"); n != nil {
		v.Default.Place = placeOf(n)
	}
	v.Default.Answers = []RowAnswer{{Value: d.Answer(rules.Decision{Row: -1, Outcome: -1, Reason: rules.Default}), Share: 1, Place: v.Default.Place}}
	return v
}

// answersOf returns the values of a row, and of the parts of its split.
func answersOf(cells []sourceCell) (values []*document.Node) {
	for _, c := range cells {
		switch {
		case !c.own:
		case c.column.Text == "value":
			values = append(values, c.value)
		case c.column.Text == "split":
			if of := c.value.Get("of"); of != nil {
				for _, part := range of.Items {
					values = append(values, part.Get("value"))
				}
			}
			if guard := c.value.Get("guard"); guard != nil {
				values = append(values, guard.Get("new"), guard.Get("control"))
			}
		}
	}
	return values
}

// locate returns the row, and the column, that a place is in. Without a row it may be in
// the head of a column.
func locate(d *definition.Definition, at document.Position) (row, column string) {
	g := sourceOf(d.Node())
	for _, c := range g.columns {
		if c.Pos == at {
			return "", c.Text
		}
	}
	i, _ := slices.BinarySearchFunc(g.rows, at, func(n *document.Node, at document.Position) int {
		return cmp.Or(comparePositions(n.Pos, at), -1) // the row after the place
	})
	if i == 0 || !within(g.rows[i-1], at) {
		return "", ""
	}
	n := g.rows[i-1]
	row = d.Table().Rows()[i-1].ID
	if n.Pos == at {
		return row, ""
	}
	for _, c := range g.cells(n) {
		if within(c.value, at) || c.column.Pos == at {
			column = c.column.Text
		}
	}
	return row, column
}

// within reports whether a place is in a value.
func within(n *document.Node, at document.Position) bool {
	return n != nil && n.Pos.File == at.File && comparePositions(n.Pos, at) <= 0 && comparePositions(at, lastOf(n)) <= 0
}

// lastOf returns where the last value or key in a value begins.
func lastOf(n *document.Node) document.Position {
	last := n.Pos
	for _, item := range n.Items {
		if at := lastOf(item); comparePositions(at, last) > 0 {
			last = at
		}
	}
	for _, m := range n.Members {
		if at := lastOf(m.Value); comparePositions(at, last) > 0 {
			last = at
		}
	}
	return last
}

func comparePositions(a, b document.Position) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
}

func comparePlaces(a, b Finding) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
}
