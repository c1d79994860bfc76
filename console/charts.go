package console

// bar is a step of a chart: a height of barHeight and, of a stave, the mark of a week ago.
type bar struct {
	X, Y, Height, Mark int
	Class, Path        string
}

// barHeight is the height of the bars of a chart.
const barHeight = 60

// barsOf returns the bars of values, of which the highest that is shown is most; 0: the
// greatest of them.
func barsOf(values []float64, most float64) []bar {
	if most == 0 {
		most = greatest(values)
	}
	bars := make([]bar, len(values))
	for i, value := range values {
		bars[i].X = 10 * i
		if value > 0 {
			bars[i].Height = min(max(int(value/most*barHeight), 1), barHeight)
		}
		bars[i].Y = barHeight - bars[i].Height
	}
	return bars
}

// greatest returns the greatest of some values, at least zero.
func greatest(values []float64) (most float64) {
	for _, value := range values {
		most = max(most, value)
	}
	return most
}

// chartWidth returns the width of a chart's picture.
func chartWidth(bars []bar) int { return 10 * len(bars) }
