package sequential

import "math"

// Pair are the two arms in a stratum.
type Pair struct{ Control, Arm Sums }

// Interval has the true difference at all times at once, with the probability of its level.
type Interval struct{ Difference, Low, High float64 }

// The least of which an interval is said: units in each arm, and among them those with an
// event and those without. For less, the variance is not known well enough: without such a
// rule up to 92 % of experiments that compare the same with the same find a difference.
const (
	LeastUnits  = 300
	LeastEvents = 10
)

// Means returns how much larger the mean of the arm's units is than that of the control's,
// and the same as a part of the control's. The probability that an interval ever misses the
// truth is at most alpha. An interval is nil before it may be said: the first one before
// each arm has 300 units, 10 of them with a Y other than 0 and, if it is 0 or 1, 10 with 0;
// the second one also while the control's mean may be zero. n is the planned size, see
// Planned.
//
// The intervals are the asymptotic confidence sequences of Waudby-Smith, Arbour, Sinha,
// Kennedy and Ramdas, arXiv 2103.06476. What the past of the units explains is subtracted
// (CUPED), by one regression for all strata and both arms. The one for the quotient has all
// quotients q for which mean(arm) - q·mean(control) may be zero (Fieller), so that both
// intervals have zero, or none has.
//
// Of numbers that are not all 0 or 1, the variance of an arm in a stratum is no less than that
// within both of the stratum's arms. A small arm often has none of the numbers that are rare
// and far from the others, as of scores that are nearly always 5, or of costs. Its mean and
// its variance are then wrong together, and the error of the other arm does not make up for
// it: with its own variance, up to 11 % of experiments that compare the same with the same
// call a difference at an alpha of 5 %. A rate is not said before such numbers were there.
//
// Of strata the differences are combined by a·c/(a+c), a and c being their units in the two
// arms, and not by their units: after 10,000 units each at shares of 1, 5 and 50 % the
// interval is half as wide, and a stratum that has few units in an arm can do no harm. The
// sum of these weights, which is what is known, is also what the interval takes for the
// number of units, four of which have the weight 1 if the arms are halves. With the number
// itself, an edit of the shares would take the sequence to a place at which it has not been.
func Means(strata []Pair, n, alpha float64) (absolute, relative *Interval) {
	return compare(strata, n, alpha, false)
}

// Ratios is Means of the sum of Y by the sum of D, by the delta method on the units' sums
// (Deng, Knoblich and Lu, arXiv 1803.06336). Each arm needs 10 units whose Y is not 0 and 10
// whose Y is not their D. The variance of an arm is always at least that within both. Of
// strata the two sums are combined, and then divided.
func Ratios(strata []Pair, n, alpha float64) (absolute, relative *Interval) {
	return compare(strata, n, alpha, true)
}

func compare(strata []Pair, n, alpha float64, ratio bool) (absolute, relative *Interval) {
	control, arm, known := sides(strata)
	if !control.enough(ratio) || !arm.enough(ratio) {
		return nil, nil
	}
	f := boundary(4*known, n, alpha)
	if ratio {
		vary(control, arm, line{d: control.ratio().value}, line{d: arm.ratio().value})
		return between(control.ratio(), arm.ratio(), 0, f)
	}
	var pasts side
	var cells []*Sums
	for i := range control {
		past := control[i]
		past.Merge(&arm[i].Sums)
		past.Y, past.YY, past.YC, past.YH = 0, 0, 0, 0
		pasts = append(pasts, past)
		cells = append(cells, &control[i].Sums, &arm[i].Sums)
	}
	past := explained(cells...)
	if !control.rate() || !arm.rate() {
		vary(control, arm, past, past)
	}
	usual := pasts.mean(past)
	c, a := control.mean(past), arm.mean(past)
	return between(estimate{c.value - usual.value, c.variance}, estimate{a.value - usual.value, a.variance}, usual.variance, f)
}

// sides returns the strata in which both arms have units, and the sum of their weights.
func sides(strata []Pair) (control, arm side, known float64) {
	for _, p := range strata {
		if p.Control.N <= 0 || p.Arm.N <= 0 {
			continue
		}
		c, a := float64(p.Control.N), float64(p.Arm.N)
		weight := c * a / (c + a)
		known += weight
		control = append(control, cell{Sums: p.Control, weight: weight})
		arm = append(arm, cell{Sums: p.Arm, weight: weight})
	}
	return control, arm, known
}

// vary lets no arm vary less in a stratum than both of its arms do, of which c and a are
// subtracted, see Means.
func vary(control, arm side, c, a line) {
	for i := range control {
		least := (control[i].squares(c) + arm[i].squares(a)) / max(1, float64(control[i].N+arm[i].N-2))
		control[i].least, arm[i].least = least, least
	}
}

// boundary returns how many standard errors an interval reaches to each side.
func boundary(units, n, alpha float64) float64 {
	x := units * optimum(alpha) / n
	return math.Sqrt(2 * (x + 1) / x * math.Log(math.Sqrt(x+1)/alpha))
}

// optimum returns N·r² of arXiv 2103.06476 at the planned size N, at which the interval is
// about the narrowest that it can be.
func optimum(alpha float64) float64 {
	return -2*math.Log(alpha) + math.Log(1-2*math.Log(alpha))
}

// estimate is a number and its variance.
type estimate struct{ value, variance float64 }

// between returns the intervals of arm - control and of arm/control - 1 that reach f
// standard errors. Shared is the variance of what was added to both.
func between(control, arm estimate, shared, f float64) (absolute, relative *Interval) {
	d := arm.value - control.value
	width := f * math.Sqrt(control.variance+arm.variance)
	absolute = &Interval{d, d - width, d + width}
	if !absolute.finite() {
		return nil, nil
	}

	// Those q with (arm - q·control)² ≤ f²·(its variance) are between the roots of a
	// quadratic, unless the control may be zero: then they have no end. The terms are such
	// that no two large ones are subtracted.
	ff, v, w := f*f, control.variance, arm.variance
	a := control.value*control.value - ff*(v+shared)
	middle := control.value*d + ff*v
	root := f * math.Sqrt(max(0, w*control.value*control.value+v*arm.value*arm.value+shared*d*d-ff*(v*w+shared*(v+w))))
	q := Interval{d / control.value, (middle - root) / a, (middle + root) / a}
	if control.value < 0 {
		q = Interval{-q.Difference, -q.High, -q.Low}
	}
	if !(a > 0) || !q.finite() {
		return absolute, nil
	}
	return absolute, &q
}

// finite reports whether the interval can be said: it can't for numbers that are too large
// to be squared, and where n or alpha make no sense.
func (i Interval) finite() bool { return i.High-i.Low < math.Inf(1) }

// cell is an arm in a stratum, and the stratum's weight.
type cell struct {
	Sums
	weight float64
	least  float64 // what its variance is at least, see Means
}

// side is an arm in all strata in which both arms have units.
type side []cell

// units returns how many units in one stratum would make the mean as certain as it is.
func (s side) units() float64 {
	var weights, squares float64
	for _, c := range s {
		weights += c.weight
		squares += c.weight * c.weight / float64(c.N)
	}
	return weights * weights / squares
}

// rate reports whether all numbers are 0 or 1: those that are not 0 are all 1 if and only if
// both their sum and that of their squares are how many they are.
func (s side) rate() bool {
	for _, c := range s {
		if c.Y != float64(c.Positive) || c.YY != c.Y {
			return false
		}
	}
	return true
}

// enough reports whether the variance of the side is known.
func (s side) enough(ratio bool) bool {
	units := s.units() * (1 + 1e-9) // and what rounding took
	events := s.average(func(c *Sums) float64 { return float64(c.Positive) / float64(c.N) })
	others := s.average(func(c *Sums) float64 {
		if ratio {
			return float64(c.Partial) / float64(c.N)
		}
		return 1 - float64(c.Positive)/float64(c.N)
	})
	return units >= LeastUnits && units*events >= LeastEvents && (units*others >= LeastEvents || !ratio && !s.rate())
}

// average returns the weighted average of f over the strata.
func (s side) average(f func(*Sums) float64) float64 {
	var sum, weights float64
	for i := range s {
		sum += s[i].weight * f(&s[i].Sums)
		weights += s[i].weight
	}
	return sum / weights
}

// mean returns the mean of Y less l.
func (s side) mean(l line) estimate {
	var squares, freedom float64
	for i := range s {
		squares += s[i].squares(l)
		freedom += float64(s[i].N - 1)
	}
	var variance, weights float64
	for i := range s {
		c, n := &s[i], float64(s[i].N)
		v := squares / freedom // of one unit nothing is known but what all strata say
		if c.N > 1 {
			v = c.squares(l) / (n - 1)
		}
		variance += c.weight * c.weight * max(v, c.least) / n
		weights += c.weight
	}
	return estimate{
		s.average(func(c *Sums) float64 { return c.mean(l) }),
		variance / (weights * weights),
	}
}

func (s side) ratio() estimate {
	d := s.average(func(c *Sums) float64 { return c.D / float64(c.N) })
	r := s.mean(line{}).value / d
	return estimate{r, s.mean(line{d: r}).variance / (d * d)}
}
