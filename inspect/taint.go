package inspect

import (
	"github.com/cadenza-gateway/cadenza/document"
)

// changedModel is what differs between two data models.
type changedModel struct {
	any bool
	// all tells that a cell on any field may have another meaning.
	all    bool
	fields map[string]bool
	// segments tells that a segment may hold for other contexts.
	segments bool
	old, new *document.Node
}

// modelChanges compares two data models, either of which may be nil.
func modelChanges(before, after *document.Node) changedModel {
	c := changedModel{fields: make(map[string]bool), old: before, new: after}
	if c.any = nodeText(before) != nodeText(after); !c.any {
		return c
	}
	for _, name := range []string{"timezone", "coerce", "on_unknown_field", "on_type_mismatch"} {
		c.all = c.all || nodeText(c.old.Get(name)) != nodeText(c.new.Get(name))
	}
	for _, name := range []string{"fields", "computed"} {
		c.differing(c.old.Get(name), c.new.Get(name))
		c.differing(c.new.Get(name), c.old.Get(name))
	}
	if len(c.fields) > 0 {
		// Expressions and segments may read a field that differs.
		for _, side := range []*document.Node{c.old, c.new} {
			if computed := side.Get("computed"); computed != nil {
				for _, m := range computed.Members {
					c.fields[m.Key.Text] = true
				}
			}
		}
	}
	c.segments = c.all || len(c.fields) > 0 || nodeText(c.old.Get("segments")) != nodeText(c.new.Get("segments"))
	return c
}

// differing adds the members of a that b has not, or has otherwise.
func (c *changedModel) differing(a, b *document.Node) {
	if a == nil {
		return
	}
	for _, m := range a.Members {
		if nodeText(m.Value) != nodeText(b.Get(m.Key.Text)) {
			c.fields[m.Key.Text] = true
		}
	}
}

// affects tells whether a cell on a column may have another meaning. configs
// tells that the values of other configurations may.
func (c *changedModel) affects(column string, configs bool) bool {
	switch column {
	case "segment":
		return c.segments
	case "config":
		return configs || c.any
	}
	return c.all || c.fields[column]
}

// nodeText is a text that two nodes share only when they say the same.
func nodeText(n *document.Node) string { return string(appendNode(nil, n)) }

func appendNode(dst []byte, n *document.Node) []byte {
	if n == nil {
		return append(dst, '-')
	}
	switch n.Kind {
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
