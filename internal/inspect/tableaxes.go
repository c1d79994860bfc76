package inspect

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/rules"
)

// axis is a field, or the instant of the request, with its classes of values.
type axis struct {
	field   string
	classes []axisClass
}

type axisClass struct {
	value    string // JSON, empty for missing; RFC 3339 for the instant
	old, new []uint64
}

// prepare finds the classes of all fields that either table reads.
func (d *tableDiff) prepare(before, after *definition.Snapshot, models changedModel) {
	joint := slices.Concat(d.old.rows, d.new.rows)
	for _, r := range joint {
		for _, unit := range r.units() {
			if !slices.Contains(d.units, unit) {
				d.units = append(d.units, unit)
			}
		}
	}
	for _, r := range joint {
		joint = append(joint, r.moments()...)
	}
	reads := append(d.old.table.Fields(), d.new.table.Fields()...)
	joint = append(joint, auxiliaryRows(before, after, models, joint)...)
	joint = append(joint, boundaryRows(models, joint)...)
	d.joint = jointTable(jointModel(after.Model, before.Model, models.new), joint)
	d.read(d.joint, joint, reads)
	if models.any {
		d.read(jointTable(jointModel(before.Model, after.Model, models.old), joint), joint, reads)
	}
	// The axes with the fewest classes come first: that leaves least to try.
	slices.SortStableFunc(d.axes, func(a, b axis) int { return len(a.classes) - len(b.classes) })
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
	return rules.DecodeModel(doc, nodes, new(document.Errors)) // which has no mistake
}

// auxiliaryRows returns rows for the values that the tables tell apart only
// through segments, computed fields and other configurations.
func auxiliaryRows(before, after *definition.Snapshot, models changedModel, rows []rowSource) []rowSource {
	var out []rowSource
	indirect := false
	asked := make(map[string]bool)
	for queue := rows; len(queue) > 0; {
		next := []rowSource{}
		for _, r := range queue {
			for _, cell := range r.cells {
				if cell.Key.Text != "config" {
					indirect = true // it may be a segment or a computed field
					continue
				}
				for _, m := range cell.Value.Members {
					if asked[m.Key.Text] {
						continue
					}
					asked[m.Key.Text] = true
					for _, s := range []*definition.Snapshot{before, after} {
						if c := s.RemoteConfigs[m.Key.Text]; c != nil {
							_, more, _ := readRows(&c.Definition)
							next = append(next, more...)
						}
					}
				}
			}
		}
		out = append(out, next...)
		queue = next
	}
	if indirect {
		out = append(out, segmentRows(models.new)...)
		out = append(out, computedRows(models.new)...)
		if models.any {
			out = append(out, segmentRows(models.old)...)
			out = append(out, computedRows(models.old)...)
		}
	}
	return out
}

// read takes the classes of the joint table of rows. reads are the fields that
// matter.
func (d *tableDiff) read(t *rules.Table, joint []rowSource, reads []string) {
	if t == nil {
		d.exhausted = true
		return
	}
	fields := t.Examples(d.now)
	if fields == nil && len(t.Rows()) > 0 {
		d.exhausted = true
	}
	for _, f := range fields {
		if f.Field != "" && !slices.Contains(reads, f.Field) {
			continue
		}
		d.inexact = d.inexact || !f.Exact
		i := slices.IndexFunc(d.axes, func(a axis) bool { return a.field == f.Field })
		if i < 0 {
			i = len(d.axes)
			d.axes = append(d.axes, axis{field: f.Field})
		}
		a := &d.axes[i]
		for _, class := range f.Classes {
			if class.Known {
				d.add(a, class.Value, class.Rows)
			}
		}
		if f.List {
			d.lists(a, f, joint)
		}
	}
}

// add adds a class unless the axis has one with its value.
func (d *tableDiff) add(a *axis, value string, rows []uint64) {
	if slices.ContainsFunc(a.classes, func(c axisClass) bool { return c.value == value }) {
		return
	}
	n, m := len(d.old.rows), len(d.new.rows)
	c := axisClass{value: value, old: make([]uint64, (n+63)/64), new: make([]uint64, (m+63)/64)}
	for i := range n {
		if rows[i>>6]>>(i&63)&1 != 0 {
			c.old[i>>6] |= 1 << (i & 63)
		}
	}
	for i := range m {
		if j := n + i; rows[j>>6]>>(j&63)&1 != 0 {
			c.new[i>>6] |= 1 << (i & 63)
		}
	}
	// The two data models may read the rows differently: the class is one of
	// either.
	for w := range c.old {
		c.old[w] |= d.old.affected[w]
	}
	for w := range c.new {
		c.new[w] |= d.new.affected[w]
	}
	a.classes = append(a.classes, c)
}

// lists adds lists of several elements to the classes of a list field: the
// elements that cells name each alone, in pairs if they are few, all together,
// and those that one cell wants together.
func (d *tableDiff) lists(a *axis, f rules.FieldExamples, rows []rowSource) {
	i := slices.IndexFunc(f.Classes, func(c rules.ExampleClass) bool { return !c.Known })
	if i < 0 {
		return
	}
	may := f.Classes[i].Rows
	var elements []string
	for _, r := range rows {
		for _, cell := range r.cells {
			if cell.Key.Text != f.Field {
				continue
			}
			elements = appendElements(elements, cell.Value)
			if all := cell.Value.Get("all"); all != nil {
				d.addList(a, may, appendElements(nil, all)...)
			}
		}
	}
	slices.Sort(elements)
	elements = slices.Compact(elements)
	d.addList(a, may, elements...)
	for i, x := range elements {
		d.addList(a, may, x)
		if len(elements) > maxListPairs {
			continue
		}
		for _, y := range elements[:i] {
			d.addList(a, may, y, x)
		}
	}
}

func (d *tableDiff) addList(a *axis, may []uint64, elements ...string) {
	if len(elements) > 0 {
		list, _ := json.Marshal(elements) // text can't fail
		d.add(a, string(list), may)
	}
}

// appendElements appends the texts that a cell on a list names.
func appendElements(dst []string, cell *document.Node) []string {
	switch cell.Shape {
	case document.Sequence:
		for _, item := range cell.Items {
			dst = appendElements(dst, item)
		}
	case document.Mapping:
		for _, m := range cell.Members {
			if m.Key.Text != "size" && m.Key.Text != "matches" {
				dst = appendElements(dst, m.Value)
			}
		}
	default:
		text := strings.Trim(strings.TrimPrefix(cell.Text, "not "), "*")
		if text != "" && text != "any" && text != "missing" && text != "present" {
			dst = append(dst, text)
		}
	}
	return dst
}
