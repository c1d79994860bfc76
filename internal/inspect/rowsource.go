package inspect

import (
	"regexp"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
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

// readRows reads the rows of a definition as its file has them. The id is part of the
// text of a row with a split: the split depends on it.
func readRows(def *document.Node) (rows []rowSource) {
	g := sourceOf(def)
	for _, n := range g.rows {
		var r rowSource
		id := ""
		for _, c := range g.cells(n) {
			m := document.Member{Key: c.column, Value: c.value}
			switch name := c.column.Text; {
			case !c.own:
				r.cells = append(r.cells, m)
				r.text += "when "
			case name == "id":
				id = nodeText(m.Value)
				continue
			case name == "split":
				r.split = m.Value
			case name != "value" && m.Value.IsNull():
				continue
			case name == "ramp":
				r.ramp = m.Value
			case name != "value":
				r.active = append(r.active, m)
			}
			r.text += nodeText(m.Key) + "=" + nodeText(m.Value) + ";"
		}
		if r.split != nil || r.ramp != nil {
			r.text += id
		}
		rows = append(rows, r)
	}
	return rows
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

// cellRow returns a row with one condition.
func cellRow(field, cell string, quoted bool) rowSource {
	value := &document.Node{Shape: document.Scalar, Text: cell, Quoted: quoted}
	return rowSource{cells: []document.Member{member(field, value)}}
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

// auxiliaryRows returns rows for the values that the tables tell apart only
// through computed fields and other configurations.
func auxiliaryRows(before, after *definition.Snapshot, models changedModel, rows []rowSource) []rowSource {
	var out []rowSource
	indirect := false
	asked := make(map[string]bool)
	for queue := rows; len(queue) > 0; {
		next := []rowSource{}
		for _, r := range queue {
			for _, cell := range r.cells {
				if cell.Key.Text != "config" {
					indirect = true // it may be a computed field
					continue
				}
				for _, m := range cell.Value.Members {
					if asked[m.Key.Text] {
						continue
					}
					asked[m.Key.Text] = true
					for _, s := range []*definition.Snapshot{before, after} {
						if c := s.RemoteConfigs[m.Key.Text]; c != nil {
							next = append(next, readRows(c.Node())...)
						}
					}
				}
			}
		}
		out = append(out, next...)
		queue = next
	}
	if indirect {
		out = append(out, computedRows(models.new)...)
		if models.any {
			out = append(out, computedRows(models.old)...)
		}
	}
	return out
}

// boundaryRows returns rows that tell apart the values on which two data models
// may differ: the values within the bounds of a field in only one version.
func boundaryRows(models changedModel) []rowSource {
	var out []rowSource
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
				out = append(out, cellRow(m.Key.Text, ".."+n.Text, false))
			}
			if n := m.Value.Get("min"); n != nil {
				out = append(out, cellRow(m.Key.Text, n.Text+"..", false))
			}
			if n := m.Value.Get("values"); n != nil {
				for _, item := range n.Items {
					out = append(out, cellRow(m.Key.Text, item.Text, true))
				}
			}
		}
	}
	return out
}

// literal matches a number or a text in an expression.
var literal = regexp.MustCompile(`-?\d+(?:\.\d+)?|"[^"\\]*"|'[^'\\]*'`)

// computedRows returns rows that compare every field with every literal of the
// computed fields' expressions. The caller finds out which of them make sense.
func computedRows(model *document.Node) []rowSource {
	computed, fields := model.Get("computed"), model.Get("fields")
	if computed == nil || fields == nil {
		return nil
	}
	var rows []rowSource
	for _, m := range computed.Members {
		for _, text := range literal.FindAllString(m.Value.Text, -1) {
			quoted := text[0] == '"' || text[0] == '\''
			if quoted {
				text = text[1 : len(text)-1]
			}
			for _, field := range fields.Members {
				rows = append(rows, cellRow(field.Key.Text, text, quoted))
			}
		}
	}
	// An expression may ask only for the presence of a field.
	for _, field := range fields.Members {
		rows = append(rows, cellRow(field.Key.Text, "present", false))
	}
	return rows
}

// jointModel returns a data model, as its file has it, that also knows the fields of
// the gateway which the tables of the other version name.
func jointModel(model, other *rules.Model, doc *document.Node) *rules.Model {
	names := append(model.GatewayNames(), other.GatewayNames()...)
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == len(model.GatewayNames()) {
		return model
	}
	nodes := make([]*document.Node, len(names))
	for i, name := range names {
		nodes[i] = scalar(name)
	}
	return rules.DecodeModel(doc, nodes, new(document.Errors)) // the model has no mistake
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
