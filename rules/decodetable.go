package rules

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// TableMembers are the members of a definition's mapping that DecodeTable
// reads. All other members are the definition's own.
var TableMembers = []string{"columns", "matrix", "rules", "hit"}

// MaxRows is how many rows a table may have.
const MaxRows = 100_000

// Options describe the definition that a table is part of.
type Options struct {
	// Key is the definition's key, which splits hash with the unit.
	Key string
	// Name is the definition's name in traces, such as remoteconfigs/new_checkout.
	Name string
	// Variants is set where the values are the keys of variants, which traces then
	// call the arms by. A share of a split has no name there.
	Variants bool
	// Config resolves a config: cell: the value another configuration must
	// have. It reports mistakes of key or value to errs, and then
	// returns nil. A nil Config means that such cells are not possible.
	Config func(key, value *document.Node, errs *document.Errors) *Prerequisite
}

// DecodeTable compiles the table in a definition's mapping: columns and
// matrix, or rules. A definition with neither has a table of no rows. The
// value cells are not interpreted: they come back as Outcomes for the
// definition to decode. Mistakes are added to errs; the table returned is
// never nil, but only fit for evaluation when there were none.
func DecodeTable(m *Model, def *document.Node, opts Options, errs *document.Errors) *Table {
	r := &tableReader{
		cellReader: cellReader{m: m, errs: errs, config: opts.Config},
		t:          &Table{model: m, name: opts.Name, variants: opts.Variants},
		key:        opts.Key,
		variants:   opts.Variants,
		ids:        make(map[string]*document.Node),
	}
	if hit := def.Get("hit"); hit != nil {
		word, _ := hit.ReadWord(errs, "hit", "first", "unique")
		r.t.unique = word == "unique"
	}
	columns, matrix, rules := def.Get("columns"), def.Get("matrix"), def.Get("rules")
	switch {
	case rules != nil && (columns != nil || matrix != nil):
		errs.Add(rules, "a table is written as columns and matrix or as rules, not both")
	case rules != nil:
		r.rules(rules)
	case columns != nil && matrix != nil:
		r.matrix(columns, matrix)
	case columns != nil:
		errs.Add(columns, "columns without a matrix: add the rows under matrix, or leave the columns out")
	case matrix != nil:
		errs.Add(matrix, "a matrix without columns: name the fields its cells are about, with value as the last")
	}
	r.t.remarks, r.t.patterns = r.remarks, r.patterns
	r.t.finish()
	return r.t
}

// tableReader decodes the rows of a table.
type tableReader struct {
	cellReader
	t        *Table
	key      string
	variants bool
	ids      map[string]*document.Node
}

// rowSource is a row on its way into the table, whichever layout it has.
type rowSource struct {
	node                         *document.Node
	cells                        []document.Member
	id, from, until, ramp, split *document.Node
	value                        *document.Node
}

// ruleMembers are the members of a rule.
var ruleMembers = []string{"id", "when", "value", "split", "from", "until", "ramp"}

// rules decodes the layout with one mapping a row.
func (r *tableReader) rules(n *document.Node) {
	if !r.checkRows(n, "rules") {
		return
	}
	r.t.grow(len(n.Items), 2)
	for _, item := range n.Items {
		mistakes := r.errs.Len()
		if !item.CheckMembers(r.errs, "a rule", ruleMembers...) {
			continue
		}
		misspelt := r.errs.Len() > mistakes
		row := rowSource{
			node: item,
			id:   item.Get("id"), from: item.Get("from"), until: item.Get("until"),
			ramp: item.Get("ramp"), split: item.Get("split"), value: item.Get("value"),
		}
		if when := item.Get("when"); !when.IsNull() {
			if when.Shape != document.Mapping {
				r.errs.Add(when, "when must be a mapping of fields to cells, this is %s", when.Shape)
				continue
			}
			row.cells = when.Members
		}
		if (row.value == nil) == (row.split == nil) {
			if !misspelt || row.value != nil { // an unknown member may be the one that is missing
				r.errs.Add(item, "a rule needs a value or a split, and not both")
			}
			continue
		}
		r.row(&row)
	}
}

func (r *tableReader) checkRows(n *document.Node, what string) bool {
	switch {
	case n.IsNull():
		return false
	case n.Shape == document.Scalar && what == "matrix":
		r.errs.Add(n, "matrix must be a list of rows or the name of a CSV file, such as limits.csv, this is %s", n.Describe())
		return false
	case n.Shape != document.Sequence:
		r.errs.Add(n, "%s must be a list of rows, this is %s", what, n.Shape)
		return false
	case len(n.Items) > MaxRows:
		r.errs.Add(n, "%s has %d rows, at most %d are supported", what, len(n.Items), MaxRows)
		return false
	}
	return true
}

// valueColumn is the last column of a matrix.
const valueColumn = "value"

// rowColumns are the columns of a matrix that are about the row itself.
var rowColumns = []string{"id", "from", "until", "ramp", valueColumn}

// IsRowColumn reports whether a column of a matrix is about the row itself.
func IsRowColumn(name string) bool { return slices.Contains(rowColumns, name) }

// matrix decodes the layout with one line a row.
func (r *tableReader) matrix(columns, n *document.Node) {
	if !r.checkColumns(columns) || !r.checkRows(n, "matrix") {
		return
	}
	r.t.grow(len(n.Items), len(columns.Items))
	for _, column := range columns.Items {
		if !IsRowColumn(column.Text) {
			r.t.columns = append(r.t.columns, column)
		}
	}
	cells := make([]document.Member, 0, len(columns.Items))
	for _, item := range n.Items {
		if item.Shape != document.Sequence || len(item.Items) != len(columns.Items) {
			r.badRow(item, columns)
			continue
		}
		row := rowSource{node: item, cells: cells[:0]}
		for i, column := range columns.Items {
			cell := item.Items[i]
			switch column.Text {
			case "id":
				row.id = cell
			case "from":
				row.from = cell
			case "until":
				row.until = cell
			case "ramp":
				row.ramp = cell
			case valueColumn:
				row.value = cell
			default:
				row.cells = append(row.cells, document.Member{Key: column, Value: cell})
			}
		}
		r.row(&row)
	}
}

// badRow reports a row that does not have a cell for each column.
func (r *tableReader) badRow(row, columns *document.Node) {
	const limit = 12
	names := "one for each column"
	if len(columns.Items) <= limit {
		words := make([]string, len(columns.Items))
		for i, column := range columns.Items {
			words[i] = column.Text
		}
		names = strings.Join(words, ", ")
	}
	if row.Shape != document.Sequence {
		r.errs.Add(row, "a row of the matrix must be a list of %d cells (%s), this is %s", len(columns.Items), names, row.Shape)
		return
	}
	hint := ""
	for i := 1; i < len(row.Items); i++ {
		// To YAML the comma of 3,95 ends a cell.
		whole, rest := row.Items[i-1], row.Items[i]
		if isDigits(whole.Text) && isDigits(rest.Text) && rest.Pos.Line == whole.Pos.Line && rest.Pos.Column == whole.Pos.Column+len(whole.Text)+1 {
			hint = ": a comma ends a cell, write " + whole.Text + "." + rest.Text + " or " + whole.Text + rest.Text
			if len(rest.Text) != 3 {
				hint = ": a comma ends a cell, write " + whole.Text + "." + rest.Text
			}
			break
		}
	}
	r.errs.Add(row, "a row of the matrix must have %d cells (%s), this has %d%s", len(columns.Items), names, len(row.Items), hint)
}

// checkColumns checks the names of a matrix's columns.
func (r *tableReader) checkColumns(columns *document.Node) bool {
	if columns.Shape != document.Sequence || len(columns.Items) == 0 {
		r.errs.Add(columns, "columns must be a list of names that ends with value")
		return false
	}
	ok := true
	fail := func(n *document.Node, format string, args ...any) {
		r.errs.Add(n, format, args...)
		ok = false
	}
	for i, column := range columns.Items {
		name := column.Text
		slot, isField := r.m.slots[name]
		isField = isField && !r.m.isRollout(slot)
		isRow := IsRowColumn(name)
		last := i == len(columns.Items)-1
		switch {
		case column.Shape != document.Scalar:
			fail(column, "the name of a column must be text, this is %s", column.Shape)
			return false
		case slices.ContainsFunc(columns.Items[:i], func(n *document.Node) bool { return n.Text == name }):
			fail(column, "the column %q occurs twice", name)
		case last && name != valueColumn:
			fail(column, "the last column must be value, this is %q", name)
		case !last && name == valueColumn:
			fail(column, "value must be the last column")
		case isRow && isField && !last:
			fail(column, "the column %q could be the row's or the field of that name: write the table as rules", name)
		case name == "split" && !isField:
			fail(column, "a matrix has no splits: write the table as rules")
		case !isRow && !isField && name != segmentColumn && name != configColumn:
			_, ok = r.m.lookupField(column, slices.Concat(rowColumns, []string{segmentColumn, configColumn}), r.errs)
		}
	}
	return ok
}

// row decodes a row into the table.
func (r *tableReader) row(row *rowSource) {
	mistakes := r.errs.Len()
	t := r.t
	first := len(t.atoms)
	id := r.rowID(row)
	r.cells(row, false)
	if a, ref, ok := r.schedule(row); ok {
		t.atoms = append(t.atoms, a)
		t.cells = append(t.cells, ref)
	}
	// Prerequisites are last, so that a row asks only if it depends on them.
	r.cells(row, true)
	ans := answer{outcome: len(t.outcomes)}
	if row.split != nil || !row.ramp.IsNull() {
		var values []*document.Node
		ans.split, values = r.split(row)
		t.outcomes = append(t.outcomes, values...)
	} else {
		t.outcomes = append(t.outcomes, row.value)
	}
	if r.errs.Len() > mistakes {
		// The definition checks the values even so; without its conditions
		// the row itself is of no use.
		t.atoms, t.cells = t.atoms[:first], t.cells[:first]
		return
	}
	t.rows = append(t.rows, Row{ID: id, Pos: row.node.Pos})
	t.ends = append(t.ends, int32(len(t.atoms)))
	t.answers = append(t.answers, ans)
}

// cells decodes the cells of a row that are prerequisites, or all others.
func (r *tableReader) cells(row *rowSource, prerequisites bool) {
	t := r.t
	for _, cell := range row.cells {
		if (cell.Key.Text == configColumn) != prerequisites {
			continue
		}
		t.atoms = r.column(t.atoms, cell.Key, cell.Value)
		for len(t.cells) < len(t.atoms) {
			t.cells = append(t.cells, cellRef{cell.Key.Text, cell.Value})
		}
	}
}

// rowID reads a row's id, or names it by its number.
func (r *tableReader) rowID(row *rowSource) string {
	if row.id.IsNull() {
		row.id = nil
		return "row " + strconv.Itoa(len(r.t.rows)+1)
	}
	id, ok := row.id.ReadString(r.errs, "an id")
	if !ok {
		return ""
	}
	if !isName(id) || id == "default" {
		r.errs.Add(row.id, "%q can't be an id: it must have 1 to %d letters, digits and any of . _ : / -, and not be default", shorten(id), maxNameLen)
		return ""
	}
	if other := r.ids[id]; other != nil {
		r.errs.Add(row.id, "the id %q is that of another row too, at %s", id, other.Pos)
		return ""
	}
	r.ids[id] = row.id
	return id
}

// schedule decodes from and until into an atom on the instant of the request.
func (r *tableReader) schedule(row *rowSource) (atom, cellRef, bool) {
	active := span[int64]{minKey, maxKey}
	ref := cellRef{name: "until", node: row.until}
	if !row.until.IsNull() {
		t, day, ok := r.instant(row.until, "until")
		if !ok {
			return atom{}, ref, false
		}
		if day {
			t = nextDay(t)
		}
		active.hi = dateKey(t)
	}
	if !row.from.IsNull() {
		t, _, ok := r.instant(row.from, "from")
		if !ok {
			return atom{}, ref, false
		}
		active.lo = dateKey(t)
		ref = cellRef{name: "from", node: row.from}
		if !row.until.IsNull() {
			ref = cellRef{name: "from and until", node: &document.Node{
				Shape: document.Scalar, Pos: row.from.Pos, Text: row.from.Text + " to " + row.until.Text,
			}}
		}
		if active.hi <= active.lo {
			r.errs.Add(row.until, "until is not after from: the row would never be active")
		}
	}
	if active.lo == minKey && active.hi == maxKey {
		return atom{}, ref, false
	}
	return atom{op: atomSpan, slot: r.m.nowSlot(), span: active}, ref, true
}

// instant reads the date of a schedule.
func (r *tableReader) instant(n *document.Node, what string) (t time.Time, day, ok bool) {
	text, ok := n.ReadString(r.errs, what)
	if !ok {
		return t, false, false
	}
	t, day, ok = r.m.instant(text)
	if !ok {
		r.errs.Add(n, "%s must be a date such as 2026-12-01 or 2026-12-01T09:00:00+01:00, this is %q", what, shorten(text))
	}
	return t, day, ok
}
