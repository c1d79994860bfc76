package rules

import "time"

// FieldExamples is one value of a field for each class of values that a table's
// cells treat alike.
type FieldExamples struct {
	// Field is the name of the field, empty for the instant of the request.
	Field string
	List  bool // whether the field is a list
	// Exact is set where the classes cover all values, and every row matches
	// either all values of a class or none.
	Exact   bool
	Classes []ExampleClass
}

// ExampleClass is a set of values of a field that all cells of a table treat
// alike.
type ExampleClass struct {
	// Value is one of them: JSON, empty for a missing value, and for an
	// instant its time (RFC 3339). It is only valid where Known is set.
	Value string
	Known bool
	// Rows has bit i%64 of word i/64 set where row i could match one of them.
	Rows []uint64
}

// Examples returns a value for each class of values of the table's fields, so
// that the combinations of classes represent all contexts. It leaves out fields
// that are only read by way of segments, computed fields and prerequisites. It
// is nil for a table with too many classes. Instants are from now on.
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
