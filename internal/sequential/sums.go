// Package sequential compares arms of an experiment by statistics that hold however often
// one looks at them.
package sequential

import "math"

// Unit is what a unit did.
type Unit struct {
	// Y is its number: 0 or 1 for a rate, its mean or total, or the numerator of a ratio.
	Y float64
	// D is the denominator of a ratio; 0 for others.
	D float64
	// Past is its number before the experiment, if HasPast is set.
	Past    float64
	HasPast bool
}

// Sums are the sums over units, in any order. A unit whose numbers change is removed
// and added again.
type Sums struct {
	N             int64 // units
	Positive      int64 // those whose Y is not 0
	Partial       int64 // those whose Y is not D: of a ratio of answers, not all were positive
	Y, YY         float64
	D, DD, YD     float64
	H             int64 // units with a past
	C, CC, YC, YH float64
}

// Add adds a unit.
func (s *Sums) Add(u Unit) { s.add(u, 1) }

// Remove removes a unit that was added with the same numbers.
func (s *Sums) Remove(u Unit) { s.add(u, -1) }

func (s *Sums) add(u Unit, times int64) {
	t := float64(times)
	s.N += times
	if u.Y != 0 {
		s.Positive += times
	}
	if u.Y != u.D {
		s.Partial += times
	}
	s.Y += t * u.Y
	s.YY += t * u.Y * u.Y
	s.D += t * u.D
	s.DD += t * u.D * u.D
	s.YD += t * u.Y * u.D
	if u.HasPast {
		s.H += times
		s.C += t * u.Past
		s.CC += t * u.Past * u.Past
		s.YC += t * u.Y * u.Past
		s.YH += t * u.Y
	}
}

// Merge adds the units of o.
func (s *Sums) Merge(o *Sums) {
	s.N += o.N
	s.Positive += o.Positive
	s.Partial += o.Partial
	s.Y += o.Y
	s.YY += o.YY
	s.D += o.D
	s.DD += o.DD
	s.YD += o.YD
	s.H += o.H
	s.C += o.C
	s.CC += o.CC
	s.YC += o.YC
	s.YH += o.YH
}

// line is what is subtracted from a unit's Y: d times its D, c times its past, and h if it
// has a past.
type line struct{ d, c, h float64 }

// mean returns the mean of Y less l.
func (s *Sums) mean(l line) float64 {
	return (s.Y - l.d*s.D - l.c*s.C - l.h*float64(s.H)) / float64(s.N)
}

// squares returns the sum of the squares of Y less l, around their mean. Sums of squares
// hide a spread that is much smaller than the mean. Squares adds the most that rounding can
// have taken, two units in the last place for each unit, so that intervals may become wider
// and never too narrow: of a million units whose mean is a thousand standard deviations by
// a ten thousandth, of usual ones by nothing. If the rounding of removed units took more, it
// may be below zero, which is no variance, and nothing is said.
func (s *Sums) squares(l line) float64 {
	n, h := float64(s.N), float64(s.H)
	sum := n * s.mean(l)
	size := s.YY + l.d*l.d*s.DD + l.c*l.c*s.CC + l.h*l.h*h
	products := l.d*s.YD + l.c*s.YC + l.h*s.YH - l.c*l.h*s.C
	return size - 2*products - sum*sum/n + 0x1p-52*n*size
}

// Mean returns the mean of the units and their variance, less what their past explains: what
// Needed asks for. They are 0 before there are two units.
func (s *Sums) Mean() (mean, variance float64) {
	if s.N < 2 {
		return 0, 0
	}
	return finite(s.Y/float64(s.N), s.squares(explained(s))/float64(s.N-1))
}

// Ratio returns the sum of Y by the sum of D, and the variance that a mean over as many units
// would need to be as uncertain: what Needed asks for. They are 0 before there are two units
// and a denominator.
func (s *Sums) Ratio() (ratio, variance float64) {
	if s.N < 2 || s.D == 0 {
		return 0, 0
	}
	ratio, d := s.Y/s.D, s.D/float64(s.N)
	return finite(ratio, s.squares(line{d: ratio})/float64(s.N-1)/(d*d))
}

// finite returns its arguments, or zeros if one can't be said.
func finite(mean, variance float64) (float64, float64) {
	if math.IsNaN(mean) || math.IsInf(mean, 0) || !(variance >= 0) || math.IsInf(variance, 0) {
		return 0, 0
	}
	return mean, variance
}

// explained returns by how much units differ because their past does, in all of the cells:
// the regression of Y on the past and on whether there is one, by the differences within
// each cell (CUPED, Deng, Xu, Kohavi and Walker, WSDM 2013).
func explained(cells ...*Sums) line {
	var cc, hh, ch, yc, yh float64
	for _, s := range cells {
		n, h := float64(s.N), float64(s.H)
		cc += s.CC - s.C*s.C/n
		hh += h - h*h/n
		ch += s.C - s.C*h/n
		yc += s.YC - s.Y*s.C/n
		yh += s.YH - s.Y*h/n
	}
	// Where the one says what the other does, up to rounding, one of them is left.
	if det := cc*hh - ch*ch; det > 1e-9*cc*hh {
		return line{c: (yc*hh - yh*ch) / det, h: (yh*cc - yc*ch) / det}
	}
	if cc > 0 && hh == 0 {
		return line{c: yc / cc}
	}
	if hh > 0 {
		return line{h: yh / hh}
	}
	return line{}
}
