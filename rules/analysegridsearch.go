package rules

import "slices"

// choice is the classes of one axis to choose from, each with the rows that stay
// in question when it is chosen.
type choice struct {
	axis    int
	classes []*class
	rows    [][]uint64
}

func (c *choice) add(cl *class, rows []uint64) {
	c.classes = append(c.classes, cl)
	c.rows = append(c.rows, rows)
}

// search looks for a choice of one class from each axis that leaves no row in
// question. Depth first, each class chosen takes rows out of question by an AND
// of bitmaps. For example, with the rows 0 and 1 in question and the axes
//
//	plan    pro {0,1}     team {1}
//	seats   10.. {0}      below {1}    missing {}
//
// the search goes: pro leaves {0,1}; with 10.., {0}; with below, {1}; with
// missing, {}: found. Had seats only the first two, it would go on with team,
// which leaves {1}. Of what one class left, a class that leaves the same or
// more need not be tried: if team had left {0,1} as pro did, it would lead
// nowhere, as pro did.
type search struct {
	*analyser
	order []choice
	path  []*class // chosen, by axis
}

// run searches with the rows alive in question.
func (s *search) run(alive []uint64) (found, decided bool) {
	// Axes with few classes come first: their branches are cut off early.
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
		// A class leads nowhere if it leaves all rows that one left which led
		// nowhere.
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
