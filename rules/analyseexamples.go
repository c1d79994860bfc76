package rules

import "time"

// FieldExamples are values of one field that a table tells apart.
type FieldExamples struct {
	// Field is the name of the field, empty for the instant of the request.
	Field string
	List  bool // whether the field is a list
	// Exact is whether the classes are all there are, and whether a row
	// matches all of one or none.
	Exact   bool
	Classes []ExampleClass
}

// ExampleClass is a set of values of a field that no cell of the table tells
// apart.
type ExampleClass struct {
	// Value is one of them: JSON, empty for a missing value, and for an
	// instant its time (RFC 3339). It is of use where Known is true.
	Value string
	Known bool
	// Rows has bit i%64 of word i/64 set where row i could match one of them.
	Rows []uint64
}

// Examples gives a value for each of the classes that the table's cells divide
// its fields into, so that the classes' combinations stand for all contexts.
// What fields are read by way of segments, computed fields and prerequisites
// is not among them. It is nil for a table that has too many classes. Nothing
// lies before now.
func (t *Table) Examples(now time.Time) []FieldExamples {
	left := DefaultBudget
	g := newGrid(t, now, &left)
	if g == nil {
		return nil
	}
	fields := make([]FieldExamples, 0, len(g.axes))
	for _, x := range g.axes {
		f := FieldExamples{Classes: make([]ExampleClass, len(x.classes)), Exact: !x.fuzzy}
		switch i := int(x.slot); {
		case i < len(t.model.fields):
			f.Field, f.List = t.model.fields[i].name, t.model.fields[i].typ == listField
		case x.slot != t.model.nowSlot():
			continue
		}
		for i, c := range x.classes {
			f.Exact = f.Exact && c.known
			f.Classes[i] = ExampleClass{Value: c.witness, Known: c.known, Rows: c.may}
		}
		fields = append(fields, f)
	}
	return fields
}
