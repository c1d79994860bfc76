package rules

import "time"

// Finder finds contexts by the rows of tables that they match.
type Finder struct {
	solver *solver
	left   int
}

// NewFinder makes a finder for tables of one data model. Their rows are counted on
// from one table to the next. budget bounds the work of all its questions together,
// in the steps of Analysis.Budget. The instants that it finds are from now on.
func NewFinder(now time.Time, budget int, tables ...*Table) *Finder {
	t := tables[0]
	if len(tables) > 1 {
		t = joined(tables)
	}
	f := &Finder{left: budget}
	f.solver = newSolver(t, now, &f.left)
	return f
}

// joined returns a table with the conditions of the rows of several tables, one
// after the other, for a solver.
func joined(tables []*Table) *Table {
	t := &Table{model: tables[0].model}
	for _, other := range tables {
		for _, end := range other.ends {
			t.ends = append(t.ends, int32(len(t.atoms))+end)
		}
		t.atoms = append(t.atoms, other.atoms...)
		t.lazy = append(t.lazy, other.lazy...)
		t.gateway = t.gateway || other.gateway
	}
	return t
}

// Find looks for a context, given by the values of its fields as JSON, and an
// instant that match all rows of meet and none of fail, without regard to
// splits. Where none is found, decided reports whether none exists.
func (f *Finder) Find(meet, fail []int) (values map[string]string, at time.Time, found, decided bool) {
	rows := func(list []int) [][]atom {
		atoms := make([][]atom, len(list))
		for i, row := range list {
			atoms[i] = f.solver.t.rowAtoms(row)
		}
		return atoms
	}
	switch f.solver.find(rows(meet), rows(fail)) {
	case met:
		values = make(map[string]string)
		for i, value := range f.solver.members {
			if value != "" {
				values[f.solver.m.fields[i].name] = value
			}
		}
		return values, f.solver.at, true, true
	case empty:
		return nil, time.Time{}, false, true
	}
	return nil, time.Time{}, false, false
}
