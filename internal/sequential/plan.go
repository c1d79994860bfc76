package sequential

import "math"

// Planned is the planned size of every experiment, however many units the smallest difference
// that matters needs. An interval that is planned for a hundred times the units that there are
// is three times as wide as it could be, so that a large difference is not seen for long. One
// that is planned for a hundredth of them is 17 % wider. And what is fixed can't follow the
// numbers that it judges.
const Planned = 5_000

// Needed returns how many units both arms need together for the difference to be found in
// 80 % of runs, one looking all the time; at least so many that Means may say anything. Base
// and variance are those of the control's units (see Sums.Mean and Sums.Ratio), share is the
// arm's part of the units of both. It returns 0 if that can't be said, such as for a variance
// of 0.
func Needed(base, variance, difference float64, share, alpha float64) int64 {
	// By how many standard errors the true difference exceeds the reach of the interval at
	// the end. A look at the end alone would need 0.84: some runs find it earlier and would
	// not find it then. Simulated, for levels from 0.2 to 5 %.
	const beyond = 0.58
	if !(variance > 0 && difference != 0 && share > 0 && share < 1 && alpha > 0 && alpha < 1) {
		return 0
	}
	// How many they would be if they were halves, which intervals are planned for. How far an
	// interval reaches depends on it but little, so this comes to rest soon.
	halves := float64(Planned)
	for range 20 {
		reach := boundary(halves, Planned, alpha) + beyond
		halves = reach * reach * variance / (difference * difference * 0.25)
	}
	units := halves * 0.25 / (share * (1 - share))
	// At least this part of the units is not zero, by Cauchy and Schwarz, and of a rate
	// exactly this part. The same of those that are not one.
	events := base * base / (variance + base*base)
	others := (1 - base) * (1 - base) / (variance + (1-base)*(1-base))
	if base < 0 || base > 1 {
		others = 1
	}
	units = max(units, max(LeastUnits, LeastEvents/events, LeastEvents/others)/min(share, 1-share))
	if !(units < math.MaxInt64) {
		return 0
	}
	return int64(math.Ceil(units))
}

// NeededEvents returns after about how many units with an event, in both arms, RateExceeds
// reaches 1/alpha at a ratio in half of the runs, if the arm's rate is truth times the control's.
// It returns 0 for never.
func NeededEvents(ratio, truth, share, alpha float64) float64 {
	// If the events are divided as expected, more are needed: half of the runs have had better
	// luck at some time before. Simulated, for harms from 1.25 to 5 times what is tolerated.
	const lucky = 0.77
	arm := odds(share, truth)
	return lucky * least(func(events float64) bool {
		var logs [len(ratios)]float64
		weigh(&logs, events*(1-arm), events*arm, share, ratio)
		return mean(&logs) >= 1/alpha
	})
}

// NeededToExceed returns after how many units in each arm MeanExceeds says that ratio is
// exceeded, if the arm's numbers are truth times the control's, whose variance is given as a
// part of the square of their mean, and chance has no part in it. It returns 0 for never.
func NeededToExceed(ratio, truth, variance, alpha float64) float64 {
	return least(func(n float64) bool {
		sums := func(mean float64) Sums {
			return Sums{N: int64(n), Positive: int64(n), Y: n * mean, YY: n * mean * mean * (1 + variance)}
		}
		part, ok := MeanExceeds([]Pair{{sums(1), sums(truth)}}, ratio, alpha)
		return ok && part >= 1
	})
}

// least returns about the least number that is enough if all larger ones are, 0 for none.
func least(enough func(float64) bool) float64 {
	high := 1.0
	for !enough(high) {
		if high *= 2; high > 1<<50 {
			return 0
		}
	}
	low := 0.0
	for high-low > 1e-4*high {
		if middle := (low + high) / 2; enough(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// Levels returns the alpha of each comparison by the primary metric and by each other one,
// of the arms besides the control and the metrics with the primary one, so that they share
// 5 %: preferential Bonferroni, which gives the primary metric half.
func Levels(arms, metrics int) (primary, other float64) {
	const alpha, preferred = 0.05, 0.5
	k, m := float64(max(arms, 1)), float64(metrics)
	if metrics < 2 {
		return alpha / k, alpha / k
	}
	return alpha * preferred / k, alpha * (1 - preferred) / (k * (m - 1))
}
