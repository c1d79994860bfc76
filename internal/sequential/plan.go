package sequential

// Needed returns how many units both arms need together for the difference to be found in
// 80 % of runs. Base and variance are those of the control's units (see Sums.Mean and
// Sums.Ratio), share is the arm's part of the units of both. It returns 0 if that can't be
// said.
func Needed(base, variance, difference float64, share, alpha float64) int64 {
	return 0
}

// Levels returns the level of each comparison by the primary metric and by each other one,
// of several arms with the control, so that 5 % are shared by all.
func Levels(arms, metrics int) (primary, other float64) {
	return 0.05, 0.05
}
