package sequential

import "math"

// Events are the units with an event of a stratum.
type Events struct {
	Control, Arm int64
	Share        float64 // the arm's part of the units of both
}

// RateExceeds returns the evidence that the arm's rate of units with an event is more than
// ratio times the control's, or less where ratio is below 1: an e-value. If it is not, the
// probability that the value ever reaches 1/alpha is at most alpha, of however few units,
// whether the rate drifts and however the share changes from one stratum to the next.
//
// An event is in the arm with the odds of its units times the ratio of the rates. The value
// is the mean of the likelihood ratios of 14 ratios that are 1.1 to 25 times the tolerated
// one, each of which is multiplied over the strata first. See Counts.
func RateExceeds(strata []Events, ratio float64) (e float64) {
	var logs [len(ratios)]float64
	for _, s := range strata {
		if s.Share > 0 && s.Share < 1 && s.Control >= 0 && s.Arm >= 0 {
			weigh(&logs, float64(s.Control), float64(s.Arm), s.Share, ratio)
		}
	}
	return min(mean(&logs), math.MaxFloat64)
}

// weigh adds the logarithms of the likelihood ratios of events.
func weigh(logs *[len(ratios)]float64, control, arm, share, ratio float64) {
	if ratio < 1 {
		control, arm, share, ratio = arm, control, 1-share, 1/ratio
	}
	tolerated := odds(share, ratio)
	for i, r := range ratios {
		logs[i] += arm*math.Log(r) - (arm+control)*math.Log(1+tolerated*(r-1))
	}
}

// odds returns the part of the events that is in an arm with this share of the units and so
// many times the control's rate.
func odds(share, times float64) float64 { return share * times / (share*times + 1 - share) }

// mean returns the mean of the likelihood ratios, which may be infinite.
func mean(logs *[len(ratios)]float64) (e float64) {
	for _, log := range logs {
		e += math.Exp(log)
	}
	return e / float64(len(ratios))
}

// MeanExceeds returns how far the mean of the arm's units is above ratio times that of the
// control's, or below where ratio is below 1, as a part of what an interval reaches: from 1
// on it is. The probability that it ever is said wrongly is at most alpha. ok is false before
// that may be said, for which the rule is that of Means.
//
// The interval is the one-sided confidence sequence of arXiv 2103.06476 for the mean of the
// arm less ratio times that of the control, whose variance is no less than in Means. Below
// zero, 1.2 times the control's mean is less than it, which would be to tolerate nothing: so
// the mean has to exceed 2-ratio times the control's too.
func MeanExceeds(strata []Pair, ratio, alpha float64) (part float64, ok bool) {
	return exceeds(strata, ratio, alpha, false)
}

// RatioExceeds is MeanExceeds of the sum of Y by the sum of D, see Ratios.
func RatioExceeds(strata []Pair, ratio, alpha float64) (part float64, ok bool) {
	return exceeds(strata, ratio, alpha, true)
}

func exceeds(strata []Pair, tolerated, alpha float64, ratio bool) (part float64, ok bool) {
	control, arm, known := sides(strata)
	if !control.enough(ratio) || !arm.enough(ratio) {
		return 0, false
	}
	if tolerated < 1 {
		control, arm, tolerated = arm, control, 1/tolerated
	}
	f := bound(4*known, Planned, alpha)
	part = math.Inf(1)
	for _, times := range [2]float64{tolerated, 2 - tolerated} {
		most, is := control.times(times), side.ratio
		if ratio {
			vary(most, arm, line{d: most.ratio().value}, line{d: arm.ratio().value})
		} else {
			vary(most, arm, line{}, line{})
			is = func(s side) estimate { return s.mean(line{}) }
		}
		c, a := is(most), is(arm)
		part = min(part, (a.value-c.value)/(f*math.Sqrt(c.variance+a.variance)))
	}
	if math.IsNaN(part) || math.IsInf(part, 0) { // numbers that are too large to be squared
		return 0, false
	}
	return part, true
}

// bound returns how many standard errors an interval reaches to its only side.
func bound(units, n, alpha float64) float64 {
	x := units * optimum(2*alpha) / n
	return math.Sqrt(2 * (x + 1) / x * math.Log(1+math.Sqrt(x+1)/(2*alpha)))
}

// times returns the side with all numbers multiplied.
func (s side) times(x float64) side {
	s = append(side(nil), s...)
	for i := range s {
		c := &s[i]
		c.Y, c.YY, c.YD = c.Y*x, c.YY*x*x, c.YD*x
	}
	return s
}
