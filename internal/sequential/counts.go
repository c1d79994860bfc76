package sequential

import "math"

// Early is the part of a rate's level that Counts has, before Means may say anything: a
// difference is called if Counts returns at least 1/(Early·alpha), or by Means at the level
// (1-Early)·alpha.
const Early = 0.1

// ratios are those that Counts weighs against equality, and their inverses.
var ratios = [...]float64{1.1, 1.25, 1.5, 1.75, 2, 2.5, 3, 4, 5, 7, 10, 15, 20, 25}

// Counts returns the evidence that the units with an event are not divided as all units are,
// by which the rates of the arms differ: an e-value. If they do not, the probability that it
// ever reaches 1/alpha is at most alpha, of however few units and whether the rate drifts.
// Share is the arm's part of the units of both. The evidence of several strata is the
// product of theirs.
//
// An event is in the arm with the odds of its units times the ratio of the rates. The value
// is the mean of the likelihood ratios of 28 ratios from 1/25 to 25. See Lindon and Malek,
// arXiv 2011.03567, who take the mean by a continuous distribution instead, which at small
// shares finds less.
func Counts(control, arm int64, share float64) (e float64) {
	if !(share > 0 && share < 1) || control < 0 || arm < 0 {
		return 1
	}
	var more, less [len(ratios)]float64
	weigh(&more, float64(control), float64(arm), share, 1)
	weigh(&less, float64(arm), float64(control), 1-share, 1)
	return min((mean(&more)+mean(&less))/2, math.MaxFloat64)
}

// Segment are units that were divided by the same shares.
type Segment struct {
	Units  []int64
	Shares []float64
}

// concentration is how close to the shares Divided expects the true ones, if they differ.
const concentration = 1000

// Divided returns the Bayes factor against the shares, by Lindon and Malek, arXiv
// 2011.03567. The probability that it ever reaches 1,000 is at most 0.1 % if the units are
// divided by them. The factors of segments are multiplied.
func Divided(segments []Segment) (factor float64) {
	var log float64
	for _, s := range segments {
		var all, units float64
		for _, share := range s.Shares {
			all += share
		}
		for i, share := range s.Shares {
			n, p := float64(s.Units[i]), share/all
			if p > 0 {
				units += n
				log += lgamma(concentration*p+n) - lgamma(concentration*p) - n*math.Log(p)
			} else if n > 0 {
				return math.MaxFloat64 // no unit is sent there
			}
		}
		log += lgamma(concentration) - lgamma(concentration+units)
	}
	return min(math.Exp(log), math.MaxFloat64)
}

func lgamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}
