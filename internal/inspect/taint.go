package inspect

import (
	"regexp"
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// changedModel is the difference between two data models, with the parts that it affects.
type changedModel struct {
	any bool
	// all reports whether a cell on any field may have another meaning, and timezone
	// whether a cell on a date, and a schedule, may.
	all, timezone bool
	// fields and segments may have other values for the same context. Computed
	// fields are among the fields.
	fields, segments map[string]bool
	old, new         *document.Node
}

// modelChanges compares two data models, either of which may be nil.
func modelChanges(before, after *document.Node) changedModel {
	c := changedModel{fields: make(map[string]bool), segments: make(map[string]bool), old: before, new: after}
	if c.any = nodeText(before) != nodeText(after); !c.any {
		return c
	}
	c.timezone = nodeText(c.old.Get("timezone")) != nodeText(c.new.Get("timezone"))
	for _, name := range []string{"coerce", "on_unknown_field", "on_type_mismatch"} {
		c.all = c.all || nodeText(c.old.Get(name)) != nodeText(c.new.Get(name))
	}
	if before, after := c.old.Get("targeting_key"), c.new.Get("targeting_key"); nodeText(before) != nodeText(after) {
		for _, n := range []*document.Node{before, after} {
			if n != nil {
				c.fields[n.Text] = true
			}
		}
	}
	for _, name := range []string{"fields", "computed"} {
		differing(c.fields, c.old.Get(name), c.new.Get(name))
		differing(c.fields, c.new.Get(name), c.old.Get(name))
	}
	differing(c.segments, c.old.Get("segments"), c.new.Get("segments"))
	differing(c.segments, c.new.Get("segments"), c.old.Get("segments"))
	for _, side := range []*document.Node{c.old, c.new} {
		c.follow(side)
	}
	return c
}

// identifier matches what may be the name of a field in an expression.
var identifier = regexp.MustCompile(`[\pL_][\pL\pN_]*`)

// follow adds the computed fields and segments of a data model that read a
// changed field or segment.
func (c *changedModel) follow(model *document.Node) {
	if c.timezone {
		if fields := model.Get("fields"); fields != nil {
			for _, m := range fields.Members {
				if m.Value.Text == "date" || nodeText(m.Value.Get("type")) == nodeText(scalar("date")) {
					c.fields[m.Key.Text] = true
				}
			}
		}
	}
	if computed := model.Get("computed"); computed != nil {
		// An expression only reads computed fields above it.
		for _, m := range computed.Members {
			reads := slices.ContainsFunc(identifier.FindAllString(m.Value.Text, -1), func(n string) bool { return c.fields[n] })
			if reads || c.all {
				c.fields[m.Key.Text] = true
			}
		}
	}
	segments := model.Get("segments")
	if segments == nil {
		return
	}
	for before := -1; before < len(c.segments); { // they may refer to each other in any order
		before = len(c.segments)
		for _, m := range segments.Members {
			for _, row := range m.Value.Items {
				for _, cell := range row.Members {
					if c.affects(cell, false) {
						c.segments[m.Key.Text] = true
					}
				}
			}
		}
	}
}

// differing adds the members of a that b lacks, or has with another value.
func differing(to map[string]bool, a, b *document.Node) {
	if a == nil {
		return
	}
	for _, m := range a.Members {
		if nodeText(m.Value) != nodeText(b.Get(m.Key.Text)) {
			to[m.Key.Text] = true
		}
	}
}

// affects reports whether a cell may have another meaning. configs reports whether
// the values of other configurations may differ.
func (c *changedModel) affects(cell document.Member, configs bool) bool {
	switch cell.Key.Text {
	case "segment":
		return c.names(cell.Value)
	case "config":
		return configs
	}
	return c.all || c.fields[cell.Key.Text]
}

// names reports whether a cell names a segment that has changed.
func (c *changedModel) names(cell *document.Node) bool {
	if cell == nil {
		return false
	}
	text := cell.Text
	for more := true; more; {
		text, more = strings.CutPrefix(strings.TrimSpace(text), "not ")
	}
	return cell.Shape == document.Scalar && c.segments[text] ||
		slices.ContainsFunc(cell.Items, c.names) ||
		slices.ContainsFunc(cell.Members, func(m document.Member) bool { return c.names(m.Value) })
}

// reads reports whether any of some fields has changed.
func (c *changedModel) reads(fields []string) bool {
	return c.all || c.timezone || slices.ContainsFunc(fields, func(f string) bool { return c.fields[f] })
}

// nodeText returns a text that is equal for two nodes only if the nodes are.
func nodeText(n *document.Node) string { return string(appendNode(nil, n)) }

func appendNode(dst []byte, n *document.Node) []byte {
	if n == nil {
		return append(dst, '-')
	}
	switch n.Shape {
	case document.Sequence:
		dst = append(dst, '[')
		for _, item := range n.Items {
			dst = append(appendNode(dst, item), ',')
		}
		return append(dst, ']')
	case document.Mapping:
		dst = append(dst, '{')
		for _, m := range n.Members {
			dst = append(appendNode(dst, m.Key), ':')
			dst = append(appendNode(dst, m.Value), ',')
		}
		return append(dst, '}')
	}
	quote := byte('\'')
	if n.Quoted {
		quote = '"'
	}
	dst = append(dst, quote)
	for _, c := range []byte(n.Text) {
		if c == quote || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return append(dst, quote)
}
