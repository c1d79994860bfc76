package sequential

// Early is the part of a rate's level that Counts has, before Means may say anything: a
// difference is called if Counts returns at least 1/(Early·alpha), or by Means at the level
// (1-Early)·alpha.
const Early = 0.1

// Counts returns the evidence that units with an event are not divided as all units are: an
// e-value, which exceeds 1/alpha at some time with a probability of at most alpha if they
// are. Share is the arm's part of the units of both. The evidence of several strata is the
// product of theirs.
func Counts(control, arm int64, share float64) (e float64) {
	return 1
}

// Segment are units that were divided by the same shares.
type Segment struct {
	Units  []int64
	Shares []float64
}

// Divided returns the Bayes factor against the shares. It exceeds 1,000 at some time with a
// probability of at most 0.1 % if the units are divided by them.
func Divided(segments []Segment) (factor float64) {
	return 1
}
