// Package document reads definition files (YAML, JSON or CSV) into a tree that keeps the
// text of every scalar and its position.
//
// YAML's own typing is not applied: it would turn 1.10 into 1.1 and 012 into 10 before the
// type of the field is known. The decoder of a node knows the type and reads the text
// accordingly. Only free JSON values, such as a remote configuration's, are typed here, by
// AppendJSON.
package document

import (
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Shape is the kind of a node's content: one value, elements or members.
type Shape uint8

// The shapes a node can have.
const (
	Scalar Shape = iota + 1
	Sequence
	Mapping
)

// String returns the shape's name in error messages.
func (s Shape) String() string {
	switch s {
	case Scalar:
		return "a single value"
	case Sequence:
		return "a list"
	case Mapping:
		return "a mapping"
	}
	return "nothing"
}

// Position is a place in a file. Line and Column count from 1; a Line of 0 means the
// whole file, or a folder.
type Position struct {
	File   string
	Line   int
	Column int
}

// String returns file:line:column, which editors can jump to, or the file alone.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Node is one value of a document. A Node is immutable once parsed.
type Node struct {
	Shape Shape
	// Quoted reports whether the scalar was quoted or a block, so that it is text
	// even if it looks like a number.
	Quoted bool
	// JSON reports whether the scalar is in a JSON file. All text is quoted there,
	// so the quotes say nothing about its meaning: "10..20" may be a range.
	JSON bool
	Pos  Position
	// Text is a scalar's text with quotes and escapes resolved.
	Text string
	// Items are a sequence's elements.
	Items []*Node
	// Members are a mapping's members in the order of the file. Keys are
	// unique.
	Members []Member
}

// Member is one key of a mapping with its value.
type Member struct {
	Key   *Node
	Value *Node
}

// Get returns the value of a mapping's member, or nil when n is nil, is not a
// mapping or has no such member.
func (n *Node) Get(name string) *Node {
	if n == nil {
		return nil
	}
	for i := range n.Members {
		if n.Members[i].Key.Text == name {
			return n.Members[i].Value
		}
	}
	return nil
}

// IsNull reports whether n is absent or an unquoted null, ~ or empty.
func (n *Node) IsNull() bool {
	if n == nil {
		return true
	}
	if n.Shape != Scalar || n.Quoted {
		return false
	}
	switch n.Text {
	case "", "~", "null", "Null", "NULL":
		return true
	}
	return false
}

// Error is one mistake in a document.
type Error struct {
	Pos     Position
	Message string
	// Rule is a stable name for mistakes of this kind, for tools; empty if the
	// reporter gave none.
	Rule string
}

// Error is file:line:column: message.
func (e *Error) Error() string { return e.Pos.String() + ": " + e.Message }

// Errors collects the mistakes of a set of documents, so that all can be reported at
// once. The zero value is ready to use.
type Errors struct {
	list []*Error
}

// Add reports a mistake at a node. The message names the value found, the value
// expected and the nearest valid name, if any.
func (e *Errors) Add(n *Node, format string, args ...any) {
	var pos Position
	if n != nil {
		pos = n.Pos
	}
	e.AddAt(pos, format, args...)
}

// AddAt reports a mistake at a position.
func (e *Errors) AddAt(pos Position, format string, args ...any) {
	e.list = append(e.list, &Error{Pos: pos, Message: fmt.Sprintf(format, args...)})
}

// Report reports a mistake at a position by the stable name of its kind.
func (e *Errors) Report(rule string, pos Position, format string, args ...any) {
	e.list = append(e.list, &Error{Pos: pos, Message: fmt.Sprintf(format, args...), Rule: rule})
}

// Name gives the mistakes that have no rule this one.
func (e *Errors) Name(rule string) {
	for _, m := range e.list {
		if m.Rule == "" {
			m.Rule = rule
		}
	}
}

// Drop removes the mistakes of these rules and returns how many there were.
func (e *Errors) Drop(rules []string) int {
	before := len(e.list)
	e.list = slices.DeleteFunc(e.list, func(m *Error) bool { return slices.Contains(rules, m.Rule) })
	return before - len(e.list)
}

// Merge adds the mistakes of another collection, so that files can be read in
// parallel, each with a collection of its own.
func (e *Errors) Merge(other *Errors) { e.list = append(e.list, other.list...) }

// Len returns the number of mistakes so far. It has grown after a step that found
// one.
func (e *Errors) Len() int { return len(e.list) }

// List returns the mistakes in the order of files and lines.
func (e *Errors) List() []*Error {
	sort.SliceStable(e.list, func(i, j int) bool {
		a, b := e.list[i].Pos, e.list[j].Pos
		if a.File != b.File {
			return a.File < b.File
		}
		if a.Line != b.Line {
			return a.Line < b.Line
		}
		return a.Column < b.Column
	})
	return e.list
}

// Err returns nil when nothing was reported, otherwise a *MultiError.
func (e *Errors) Err() error {
	if len(e.list) == 0 {
		return nil
	}
	return &MultiError{List: e.List()}
}

// MultiError is one or more mistakes as a single error.
type MultiError struct {
	List []*Error
}

// maxPrinted is how many mistakes an error's text lists.
const maxPrinted = 100

// Error returns the first hundred mistakes, each on a line.
func (m *MultiError) Error() string {
	var b strings.Builder
	for i, e := range m.List {
		if i > 0 {
			b.WriteByte('\n')
		}
		if i == maxPrinted {
			fmt.Fprintf(&b, "and %d more", len(m.List)-i)
			break
		}
		b.WriteString(e.Error())
	}
	return b.String()
}
