package console

import (
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/gateway"
)

func buildExperiments(v *visit) (any, error) {
	v.Command = "caddy cadenza experiment"
	p := new(adminapi.Experiments)
	return p, v.ask("experiments", nil, p)
}

// experimentPage is the readout of one experiment.
type experimentPage struct {
	experiment.Readout
	Metrics []metricView
	Over    bool                   // the experiment has ended
	Rollout *gateway.RolloutStatus // of the same split
}

// metricView is what can be said of a metric, with its intervals by the day.
type metricView struct {
	experiment.MetricReadout
	Charts []intervalChart
}

func buildExperiment(v *visit) (any, error) {
	v.Title, v.Command = "Experiment "+v.id, "caddy cadenza experiment "+shellWord(v.id)
	p := new(experimentPage)
	if err := v.ask("experiments/"+v.id, nil, &p.Readout); err != nil {
		return nil, err
	}
	p.Rollout = v.rolloutOf(p.On, p.Rule)
	p.fill(v.Now)
	return p, nil
}

// fill makes of the readout what the page shows.
func (p *experimentPage) fill(now time.Time) {
	p.Over = now.After(p.End)
	for _, m := range p.Readout.Metrics {
		view := metricView{MetricReadout: m}
		for i := range m.Comparisons {
			if chart := chartOf(&view.Metric, m.Comparisons[i].Arm, p.Days); chart != nil {
				view.Charts = append(view.Charts, *chart)
			}
		}
		p.Metrics = append(p.Metrics, view)
	}
}

// readsLink returns the address of the page of a definition, which is named by its folder and
// its key.
func readsLink(on string) string {
	folder, key, _ := strings.Cut(on, "/")
	return definitionLink(strings.TrimSuffix(folder, "s"), key)
}

// Units returns how many units all arms have.
func (p *experimentPage) Units() (n int64) {
	for _, arm := range p.Arms {
		n += arm.Units
	}
	return n
}

// Compared reports whether any interval may be said.
func (m *metricView) Compared() bool {
	return slices.ContainsFunc(m.Comparisons, func(c experiment.Comparison) bool { return c.Absolute != nil || c.Relative != nil })
}

// Comparison returns the comparison of an arm with the control, or nil for the control.
func (m *metricView) Comparison(arm string) *experiment.Comparison {
	i := slices.IndexFunc(m.Comparisons, func(c experiment.Comparison) bool { return c.Arm == arm })
	if i < 0 {
		return nil
	}
	return &m.Comparisons[i]
}

// AsServed returns the difference of units that no fallback answered, or nil where it is the
// same as that of all.
func (m *metricView) AsServed(c experiment.Comparison) *experiment.Interval {
	if c.Served != nil && c.Absolute != nil && *c.Served == *c.Absolute {
		return nil
	}
	return c.Served
}

// Kind says in words what of the metric is compared.
func (m *metricView) Kind() string {
	text := string(m.As) + " of " + m.Value + string(m.Measure)
	switch {
	case m.Measure != experiment.Latency && m.Measure != experiment.FirstToken:
	case m.Over == 0:
		text += " over the control's 95th percentile of the week before"
	default:
		text += " over " + took(m.Over)
	}
	if m.Up {
		return text + ", more is better"
	}
	return text + ", less is better"
}

// Matters returns the smallest difference that matters.
func (m *metricView) Matters() string {
	if m.Relative {
		return share(m.Smallest) + " of the control's"
	}
	return differenceOf(&m.Metric, m.Smallest)[1:] // without its sign
}

// Number returns a number of the metric as people read it.
func (m *metricView) Number(value float64) template.HTML {
	return data(value, numberOf(&m.Metric, value))
}

func numberOf(m *experiment.Metric, value float64) string {
	switch {
	case m.IsPart():
		return digits(100*value) + " %"
	case m.Measure == experiment.Cost:
		return dollars(value)
	}
	return digits(value)
}

// Difference returns a difference between two numbers of the metric, with its sign.
func (m *metricView) Difference(value float64) template.HTML {
	return data(value, differenceOf(&m.Metric, value))
}

func differenceOf(m *experiment.Metric, value float64) string {
	text := numberOf(m, math.Abs(value))
	if m.IsPart() {
		text = digits(100*math.Abs(value)) + " points"
	}
	return sign(value) + text
}

// relative returns a difference as a part of the control's number, with its sign.
func relative(value float64) template.HTML {
	return data(value, sign(value)+digits(100*math.Abs(value))+" %")
}

func sign(value float64) string {
	if value < 0 {
		return "−"
	}
	return "+"
}

// digits returns a number with three digits, or as a whole one with commas.
func digits(value float64) string {
	if math.Abs(value) >= 1000 {
		return count(int64(math.Round(value)))
	}
	return experiment.Number(value)
}

// stateWord returns a state in words.
func stateWord(state experiment.State) string {
	return strings.ReplaceAll(string(state), "_", " ")
}

// stateShape returns the name of a state's shape.
func stateShape(state experiment.State) string {
	return map[experiment.State]string{experiment.Better: "good", experiment.Worse: "bad", experiment.Mismatch: "bad"}[state]
}

// intervalChart has the interval of a difference by the day.
type intervalChart struct {
	Arm  string
	Bars []intervalBar
	// Zero is the height of no difference, and Matter are those of the smallest differences
	// that matter, as far as they are in the picture.
	Zero        int
	Matter      []int
	Top, Bottom string // the numbers at the edges
	Days        []experiment.Day
}

// intervalBar is a day: the interval from Y down, and the height of the difference.
type intervalBar struct {
	X, Width, Y, Height, Difference int
	Class                           string
}

const (
	chartHeight = 120
	dayWidth    = 24
	mostDays    = 120 // of a chart, the last ones
)

// Width returns the width of the picture.
func (c *intervalChart) Width() int { return dayWidth * max(len(c.Bars), 10) }

// chartOf draws the intervals of a metric and an arm, or returns nil if there is none. The
// picture has the last interval in its middle: those of the first days are wider, and cut.
func chartOf(m *experiment.Metric, arm string, days []experiment.Day) *intervalChart {
	c := &intervalChart{Arm: arm}
	var last *experiment.Day
	for i := range days {
		if d := &days[i]; d.Metric == m.Name && d.Arm == arm {
			c.Days = append(c.Days, *d)
			if d.Difference != nil && d.Low != nil && d.High != nil {
				last = d
			}
		}
	}
	if last == nil {
		return nil
	}
	c.Days = c.Days[max(len(c.Days)-mostDays, 0):]
	beside := max((*last.High-*last.Low)/2, 1e-9)
	low, high := min(*last.Low, 0)-beside, max(*last.High, 0)+beside
	at := func(value float64) int {
		return int(math.Round(chartHeight * (high - min(max(value, low), high)) / (high - low)))
	}
	c.Zero, c.Top, c.Bottom = at(0), differenceOf(m, high), differenceOf(m, low)
	if !m.Relative {
		for _, value := range []float64{m.Smallest, -m.Smallest} {
			if value > low && value < high {
				c.Matter = append(c.Matter, at(value))
			}
		}
	}
	for i := range c.Days {
		d := &c.Days[i]
		if d.Difference == nil || d.Low == nil || d.High == nil {
			c.Bars = append(c.Bars, intervalBar{}) // nothing may be said yet
			continue
		}
		bar := intervalBar{X: dayWidth * i, Width: dayWidth - 4, Y: at(*d.High), Difference: min(at(*d.Difference), chartHeight-2)}
		bar.Height = max(at(*d.Low)-bar.Y, 1)
		switch up := *d.Low > 0; {
		case !up && *d.High >= 0: // it may be none
		case up == m.Up:
			bar.Class = "good"
		default:
			bar.Class = "bad"
		}
		c.Bars = append(c.Bars, bar)
	}
	return c
}
