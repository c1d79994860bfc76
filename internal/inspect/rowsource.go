package inspect

import (
	"regexp"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/regular"
	"github.com/cadenza-gateway/cadenza/rules"
)

// rowSource is a row of a table as the file has it, in the layout of a matrix or
// of rules.
type rowSource struct {
	cells []document.Member
	// active has the members from and until, if they are given.
	active []document.Member
	split  *document.Node
	ramp   *document.Node
	// text is equal for rows with the same conditions and the same answer.
	text string
}

// readRows reads the rows of a definition from its file.
func readRows(d *definition.Definition) (def *document.Node, rows []rowSource, ok bool) {
	data, err := regular.ReadFile(d.Pos.File, document.MaxFileBytes)
	if err != nil {
		return nil, nil, false
	}
	var errs document.Errors
	def = document.Parse(d.Pos.File, data, &errs)
	if def == nil {
		return nil, nil, false
	}
	if n := def.Get("rules"); n != nil {
		for _, item := range n.Items {
			var r rowSource
			if when := item.Get("when"); when != nil {
				r.cells = when.Members
			}
			for _, m := range item.Members {
				r.take(m, item.Get("id"))
			}
			rows = append(rows, r)
		}
		return def, rows, true
	}
	columns, matrix := def.Get("columns"), def.Get("matrix")
	if columns == nil || matrix == nil {
		return def, nil, true
	}
	for _, item := range matrix.Items {
		var r rowSource
		var id *document.Node
		for i, column := range columns.Items {
			if i >= len(item.Items) {
				break
			}
			m := document.Member{Key: column, Value: item.Items[i]}
			switch column.Text {
			case "id":
				id = m.Value
			case "from", "until", "ramp":
			case "value":
				if i == len(columns.Items)-1 {
					break
				}
				fallthrough
			default:
				r.cells = append(r.cells, m)
			}
		}
		for i, column := range columns.Items {
			if i < len(item.Items) {
				r.take(document.Member{Key: column, Value: item.Items[i]}, id)
			}
		}
		rows = append(rows, r)
	}
	return def, rows, true
}

// take reads a member of a row. The id is part of the text of a row with a
// split: the split depends on it.
func (r *rowSource) take(m document.Member, id *document.Node) {
	switch m.Key.Text {
	case "from", "until":
		if m.Value.IsNull() {
			return
		}
		r.active = append(r.active, m)
	case "split":
		r.split = m.Value
		r.text += nodeText(id)
	case "ramp":
		if m.Value.IsNull() {
			return
		}
		r.ramp = m.Value
		r.text += nodeText(id)
	case "id":
		return
	}
	r.text += nodeText(m.Key) + "=" + nodeText(m.Value) + ";"
}

// units returns the fields by which a row divides its callers.
func (r *rowSource) units() []string {
	var names []string
	for _, n := range []*document.Node{r.split, r.ramp} {
		if by := n.Get("by"); by != nil {
			names = append(names, by.Text)
		}
	}
	return names
}

// rule returns the row as a rule that only has conditions.
func (r *rowSource) rule() *document.Node {
	n := &document.Node{Shape: document.Mapping, Members: []document.Member{
		member("when", &document.Node{Shape: document.Mapping, Members: r.cells}),
		member("value", scalar("x")),
	}}
	n.Members = append(n.Members, r.active...)
	return n
}

func scalar(text string) *document.Node { return &document.Node{Shape: document.Scalar, Text: text} }

func member(key string, value *document.Node) document.Member {
	return document.Member{Key: scalar(key), Value: value}
}

// moments returns rows that become active when a ramp begins and when it ends.
func (r *rowSource) moments() []rowSource {
	var rows []rowSource
	for _, name := range []string{"start", "end"} {
		if at := r.ramp.Get(name); at != nil {
			rows = append(rows, rowSource{active: []document.Member{member("from", at)}})
		}
	}
	return rows
}

// segmentRows returns the rows of a data model's segments.
func segmentRows(model *document.Node) []rowSource {
	var rows []rowSource
	segments := model.Get("segments")
	if segments == nil {
		return nil
	}
	for _, m := range segments.Members {
		for _, item := range m.Value.Items {
			rows = append(rows, rowSource{cells: item.Members})
		}
	}
	return rows
}

// boundaryRows returns rows that tell apart the values on which two data models
// may differ: those within the bounds of a field in one version alone, and texts
// that only differ by case.
func boundaryRows(models changedModel, rows []rowSource) []rowSource {
	var out []rowSource
	add := func(field, cell string, quoted bool) {
		value := &document.Node{Shape: document.Scalar, Text: cell, Quoted: quoted}
		out = append(out, rowSource{cells: []document.Member{member(field, value)}})
	}
	for _, model := range []*document.Node{models.old, models.new} {
		fields := model.Get("fields")
		if !models.any || fields == nil {
			continue
		}
		for _, m := range fields.Members {
			if !models.fields[m.Key.Text] {
				continue
			}
			if n := m.Value.Get("max"); n != nil {
				add(m.Key.Text, ".."+n.Text, false)
			}
			if n := m.Value.Get("min"); n != nil {
				add(m.Key.Text, n.Text+"..", false)
			}
			if n := m.Value.Get("values"); n != nil {
				for _, item := range n.Items {
					add(m.Key.Text, item.Text, true)
				}
			}
		}
	}
	for _, r := range rows {
		for _, cell := range r.cells {
			if !models.any || !models.fields[cell.Key.Text] {
				continue
			}
			for _, text := range appendElements(nil, cell.Value) {
				add(cell.Key.Text, strings.ToUpper(text), true)
				add(cell.Key.Text, strings.ToLower(text), true)
			}
		}
	}
	return out
}

// literal is a number or a text in an expression.
var literal = regexp.MustCompile(`-?\d+(?:\.\d+)?|"[^"\\]*"|'[^'\\]*'`)

// computedRows returns rows that compare every field with every literal of the
// computed fields' expressions. The caller finds out which of them make sense.
func computedRows(model *document.Node) []rowSource {
	computed, fields := model.Get("computed"), model.Get("fields")
	if computed == nil || fields == nil {
		return nil
	}
	var rows []rowSource
	add := func(field, cell string, quoted bool) {
		value := &document.Node{Shape: document.Scalar, Text: cell, Quoted: quoted}
		rows = append(rows, rowSource{cells: []document.Member{member(field, value)}})
	}
	for _, m := range computed.Members {
		for _, text := range literal.FindAllString(m.Value.Text, -1) {
			for _, field := range fields.Members {
				if text[0] == '"' || text[0] == '\'' {
					add(field.Key.Text, text[1:len(text)-1], true)
					continue
				}
				add(field.Key.Text, text, false)
			}
		}
	}
	// An expression may ask for no more than the presence of a field.
	for _, field := range fields.Members {
		add(field.Key.Text, "present", false)
	}
	return rows
}

// jointTable compiles rows into one table. Its examples tell apart all values
// that any of the rows tells apart. A cell that the data model does not
// understand counts as any.
func jointTable(model *rules.Model, rows []rowSource) *rules.Table {
	compile := func(rows []rowSource) (*rules.Table, bool) {
		list := &document.Node{Shape: document.Sequence}
		for i := range rows {
			list.Items = append(list.Items, rows[i].rule())
		}
		def := &document.Node{Shape: document.Mapping, Members: []document.Member{member("rules", list)}}
		var errs document.Errors
		t := rules.DecodeTable(model, def, rules.Options{Config: anyConfig(model)}, &errs)
		return t, errs.Len() == 0
	}
	if t, ok := compile(rows); ok {
		return t
	}
	fit := make([]rowSource, len(rows))
	for i, r := range rows {
		if _, ok := compile(rows[i : i+1]); ok {
			fit[i] = r
			continue
		}
		for _, cell := range r.cells {
			if _, ok := compile([]rowSource{{cells: []document.Member{cell}}}); ok {
				fit[i].cells = append(fit[i].cells, cell)
			}
		}
		for _, when := range r.active {
			if _, ok := compile([]rowSource{{active: []document.Member{when}}}); ok {
				fit[i].active = append(fit[i].active, when)
			}
		}
		if _, ok := compile(fit[i : i+1]); !ok {
			fit[i] = rowSource{}
		}
	}
	t, ok := compile(fit)
	if !ok {
		return nil
	}
	return t
}

// anyConfig resolves a condition on another configuration to a condition that
// may or may not be met.
func anyConfig(model *rules.Model) func(key, value *document.Node, errs *document.Errors) *rules.Prerequisite {
	empty := emptyTable(model)
	return func(_, _ *document.Node, _ *document.Errors) *rules.Prerequisite {
		return &rules.Prerequisite{Table: empty, AcceptDefault: true}
	}
}

// emptyTable returns a table without rows.
func emptyTable(model *rules.Model) *rules.Table {
	return rules.DecodeTable(model, &document.Node{Shape: document.Mapping}, rules.Options{}, new(document.Errors))
}
