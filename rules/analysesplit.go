package rules

import (
	"fmt"
	"slices"
)

// unitKey is what gives a unit its bucket in the splits of a table.
type unitKey struct {
	by   int32
	salt string
}

// groupSplits finds the rows whose splits take every unit, and the rows whose
// splits give a unit the same bucket.
func (z *analyser) groupSplits() {
	z.reaches, z.alike = make([]bool, len(z.t.rows)), make(map[unitKey][]int)
	for row := range z.t.rows {
		s := z.t.answers[row].split
		if s == nil || z.past[row] {
			continue
		}
		if s.full(dateKey(z.a.Now)) {
			z.full = append(z.full, row)
		}
		z.alike[unitKey{s.by, s.salt}] = append(z.alike[unitKey{s.by, s.salt}], row)
	}
}

// sharing returns the rows above a row whose splits give a unit the same bucket as
// its own does.
func (z *analyser) sharing(row int) []int {
	s := z.t.answers[row].split
	if s == nil {
		return nil
	}
	rows := z.alike[unitKey{s.by, s.salt}]
	n, _ := slices.BinarySearch(rows, row)
	return rows[:n]
}

// needs returns the conditions that a context must meet for a row to answer it.
// If the row has a split, one of them is that the context has a unit.
func (z *analyser) needs(row int) []atom {
	if s := z.t.answers[row].split; s != nil {
		return withUnit(z.t.rowAtoms(row), s)
	}
	return z.t.rowAtoms(row)
}

// withUnit returns conditions, and with them that a split has a unit.
func withUnit(atoms []atom, s *split) []atom {
	return append(slices.Clip(atoms), atom{op: atomAlways, slot: s.by})
}

// takes returns the conditions under which a row above leaves nothing to a row, and
// false where its split may leave something. Of the splits
//
//	row 0: { by: id, salt: x, of: [ {value: a, share: 50%} ] }
//	row 1: { by: id, salt: x, of: [ {value: b, share: 20%} ] }
//	row 2: { by: id, of: [ {value: c, share: 40%}, {value: d, share: 60%} ] }
//
// row 0 leaves nothing to row 1, whose units have the buckets 0..<20000, and row 2
// leaves nothing to any row below if the context has an id.
func (z *analyser) takes(other, row int) ([]atom, bool) {
	s, own, now := z.t.answers[other].split, z.t.answers[row].split, dateKey(z.a.Now)
	switch {
	case s == nil:
		return z.t.rowAtoms(other), true
	case s.full(now), own != nil && s.over(own, now, nil):
		return withUnit(z.t.rowAtoms(other), s), true
	}
	return nil, false
}

// takesText describes how a row takes all that a row below matches, if it does so
// by its split.
func (z *analyser) takesText(other int) string {
	switch s := z.t.answers[other].split; {
	case s == nil:
		return ""
	case s.full(dateKey(z.a.Now)):
		return ", and its split takes all"
	}
	return ", and its split, which has the same salt, takes all units of this one's"
}

// lowest returns the lowest coverage that a split has from an instant on.
func (s *split) lowest(now int64) uint32 {
	switch {
	case s.ramp == nil:
		return s.coverage
	case now >= s.ramp.end:
		return s.ramp.to
	}
	return 0
}

// highest returns the highest coverage that a split can have.
func (s *split) highest() uint32 {
	if s.ramp != nil {
		return s.ramp.to
	}
	return s.coverage
}

// units returns how many buckets a split takes with a coverage.
func (s *split) units(coverage uint32) (n uint32) {
	for i := range s.shares {
		n += s.shares[i].covered(coverage)
	}
	return n
}

// full reports whether a split takes every unit from an instant on.
func (s *split) full(now int64) bool { return s.units(s.lowest(now)) == Buckets }

// over reports whether a split takes all units of another one from an instant on:
// both give a unit the same bucket, and the other one's are among its own. each, if
// it is not nil, gets the outcomes that both have for some unit.
func (s *split) over(other *split, now int64, each func(own, others int)) bool {
	low, high := s.lowest(now), other.highest()
	if s.by != other.by || s.salt != other.salt || other.units(high) == 0 {
		return false
	}
	for i := range other.shares {
		sh := &other.shares[i]
		for at, end := sh.from, sh.from+sh.covered(high); at < end; {
			part := s.part(at, low)
			if part < 0 {
				return false
			}
			if each != nil {
				each(s.shares[part].outcome, sh.outcome)
			}
			at = s.shares[part].from + s.shares[part].covered(low)
		}
	}
	return true
}

// withoutUnit finds rows that are reached, but only where a field has no value: a
// split above divides by the field and takes all units.
func (z *analyser) withoutUnit() {
	t, n := z.t, 0
	for row := range t.rows {
		if own := t.answers[row].split; !z.reaches[row] || own != nil && own.units(own.highest()) == 0 {
			continue
		}
		var tried []int32
		for _, other := range z.full {
			s := t.answers[other].split
			if other >= row || z.left < 0 || n == maxFindings || slices.Contains(tried, s.by) {
				continue
			}
			tried = append(tried, s.by)
			b := blocked{row: row, cover: -1}
			if z.reach(&b, withUnit(z.needs(row), s)) != empty {
				continue
			}
			i := slices.IndexFunc(b.by, func(o blocker) bool {
				above := t.answers[o.row].split
				return above != nil && above.by == s.by
			})
			if i < 0 || z.reach(&blocked{row: row, cover: -1}, z.needs(row)) != met {
				continue // the row's own cells leave the field without a value
			}
			by, field := t.rows[b.by[i].row].ID, t.model.fields[s.by].name
			f := Finding{Kind: WithoutUnit, Row: row, Other: b.by[i].row, Pos: t.rows[row].Pos, Witness: z.solver.context, At: z.solver.at, Message: fmt.Sprintf(
				"%s is only reached without %s, because the split of %s above takes all that have one: write %s: missing in it if that is meant",
				t.rows[row].ID, field, by, field)}
			z.found(f)
			n++
		}
	}
}

// sameUnits finds rows whose splits get no unit of the contexts that a row above
// matches, because both have the same salt. It is no mistake if the units get the
// same value from the row above.
func (z *analyser) sameUnits() {
	t, now, n := z.t, dateKey(z.a.Now), 0
	for row := range t.rows {
		if !z.reaches[row] {
			continue
		}
		own := t.answers[row].split
		for _, other := range z.sharing(row) {
			s, same := t.answers[other].split, z.a.Equal != nil
			each := func(a, b int) { same = same && z.a.Equal(a, b) }
			if z.left--; z.left < 0 || n == maxFindings || s.full(now) || !s.over(own, now, each) || same {
				continue
			}
			if z.solver.find([][]atom{z.needs(row), t.rowAtoms(other)}, nil) != met {
				continue
			}
			z.found(Finding{Kind: SameUnits, Row: row, Other: other, Pos: own.node.Pos, Witness: z.solver.context, At: z.solver.at, Message: fmt.Sprintf(
				"%s gets no units of what %s above matches too: both have the salt %q, so the %s of the units that it takes are among the %s that %s takes; give it another salt",
				t.rows[row].ID, t.rows[other].ID, own.salt, shareText(own.units(own.highest())), shareText(s.units(s.lowest(now))), t.rows[other].ID)})
			n++
		}
	}
}
