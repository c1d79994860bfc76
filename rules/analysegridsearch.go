package rules

import "slices"

// choice are the classes of one axis to choose from, each with the rows that
// stay in question when it is chosen.
type choice struct {
	axis    int
	classes []*class
	rows    [][]uint64
}

func (c *choice) add(cl *class, rows []uint64) {
	c.classes = append(c.classes, cl)
	c.rows = append(c.rows, rows)
}

// search looks for a choice of classes that leaves no row in question.
type search struct {
	*analyser
	order []choice
	path  []*class // chosen, by axis
}

// run searches with the rows alive in question.
func (s *search) run(alive []uint64) (found, decided bool) {
	// Few classes first: they leave least to try.
	slices.SortStableFunc(s.order, func(a, b choice) int { return len(a.classes) - len(b.classes) })
	for _, c := range s.order {
		s.path[c.axis] = c.classes[0]
	}
	return s.try(0, alive)
}

// try goes through the classes of the axes from depth on.
func (s *search) try(depth int, alive []uint64) (found, decided bool) {
	if !anySet(alive) {
		return true, true
	}
	if depth == len(s.order) {
		return false, true
	}
	c := &s.order[depth]
	var tried [][]uint64
	for i := range c.classes {
		if s.left -= 1 + (1+len(tried)/8)*(1+len(alive)/64); s.left < 0 {
			return false, false
		}
		next := make([]uint64, len(alive))
		for w := range next {
			next[w] = alive[w] & c.rows[i][w]
		}
		// A class that leaves as many rows as one that led nowhere, or more,
		// leads nowhere too.
		if slices.ContainsFunc(tried, func(t []uint64) bool { return isSubset(t, next) }) {
			continue
		}
		s.path[c.axis] = c.classes[i]
		if found, decided := s.try(depth+1, next); found || !decided {
			return found, decided
		}
		tried = append(tried, next)
	}
	return false, true
}

func anySet(words []uint64) bool {
	for _, w := range words {
		if w != 0 {
			return true
		}
	}
	return false
}

// isSubset reports whether all bits of a are in b.
func isSubset(a, b []uint64) bool {
	for i, w := range a {
		if w&^b[i] != 0 {
			return false
		}
	}
	return true
}
