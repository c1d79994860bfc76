package sequential

import "math"

// Pair are the two arms in a stratum.
type Pair struct{ Control, Arm Sums }

// Interval has the true difference at all times at once.
type Interval struct{ Difference, Low, High float64 }

// Means returns how much larger the mean of the arm's units is than that of the control's,
// and the same as a part of the control's. An interval is nil before it may be said. That
// it ever misses the truth has at most the probability alpha. n is the planned size: how
// many units both arms need together if they are halves, see Needed.
func Means(strata []Pair, n, alpha float64) (absolute, relative *Interval) {
	return compare(strata, n, alpha, false)
}

// Ratios is Means of the sum of Y by the sum of D.
func Ratios(strata []Pair, n, alpha float64) (absolute, relative *Interval) {
	return compare(strata, n, alpha, true)
}

func compare(strata []Pair, n, alpha float64, ratio bool) (absolute, relative *Interval) {
	return nil, nil
}

// boundary returns how many standard errors an interval reaches to each side.
func boundary(units, n, alpha float64) float64 {
	r2 := optimum(alpha) / n
	x := units * r2
	return math.Sqrt(2 * (x + 1) / x * math.Log(math.Sqrt(x+1)/alpha))
}

// optimum returns units·r² at the size at which the interval is the narrowest.
func optimum(alpha float64) float64 {
	return -2*math.Log(alpha) + math.Log(1-2*math.Log(alpha))
}
