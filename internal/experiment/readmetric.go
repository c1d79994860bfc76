package experiment

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/sequential"
)

// guardrails is the probability that any guardrail of an experiment is said to be worse, or
// better, while it is not. They share it, apart from the other metrics.
const guardrails = 0.05

// alpha returns the probability that an interval of the metric is wrong at any time. Of a rate
// that leaves a part for counts before there are intervals, see counted.
func (p *Plan) alpha(m *Metric) float64 {
	arms, guarded := len(p.Treatments()), 0
	for i := range p.Metrics {
		if p.Metrics[i].Role == Guardrail {
			guarded++
		}
	}
	alpha, other := sequential.Levels(arms, len(p.Metrics)-guarded)
	switch m.Role {
	case Other:
		alpha = other
	case Guardrail:
		alpha = guardrails / float64(guarded*arms)
	}
	if m.counted() {
		alpha *= 1 - sequential.Early
	}
	return alpha
}

// metric reads the metric of an index.
func (r *reading) metric(index int) MetricReadout {
	out := MetricReadout{Metric: r.p.Metrics[index]}
	m := &out.Metric
	if m.Over == 0 {
		m.Over = r.d.Thresholds[index]
	}
	for _, arm := range r.arms {
		out.Arms = append(out.Arms, r.number(index, arm))
	}
	alpha := r.p.alpha(m)
	out.Needed = r.needed(index, alpha)
	for i := range r.arms[1:] {
		out.Comparisons = append(out.Comparisons, r.compare(index, &out, i+1, alpha))
	}
	return out
}

// number returns a metric's number in an arm. Strata have the weights that intervals give
// them (see sequential.Means), so that two arms differ by what the interval says.
func (r *reading) number(index int, arm string) ArmReadout {
	out := ArmReadout{Arm: arm}
	var weights, y, d float64
	for i := range r.d.Strata {
		s := &r.d.Strata[i]
		sums := s.Sums(arm, index, false)
		out.Units += sums.N
		out.Reported += sums.Reported
		var parts float64
		for _, name := range r.arms {
			if n := s.Sums(name, index, false).N; n > 0 {
				parts += 1 / float64(n)
			}
		}
		if n := float64(sums.N); n > 0 {
			weights += 1 / parts
			y += sums.Y / n / parts
			d += sums.D / n / parts
		}
	}
	if r.p.Metrics[index].As != Ratio {
		d = weights
	}
	if d > 0 && out.Reported > 0 {
		out.Value = new(y / d)
	}
	return out
}

// needed returns how many units a comparison needs by the control's numbers now.
func (r *reading) needed(index int, alpha float64) int64 {
	m := &r.p.Metrics[index]
	var control sequential.Sums
	for i := range r.d.Strata {
		control.Merge(&r.d.Strata[i].Sums(r.p.Control, index, false).Sums)
	}
	if control.N < sequential.LeastUnits || control.Positive < sequential.LeastEvents {
		return 0
	}
	base, variance := control.Mean()
	if m.As == Ratio {
		base, variance = control.Ratio()
	}
	var most int64
	for _, arm := range r.arms[1:] {
		most = max(most, m.needed(base, variance, r.share(arm, []string{r.p.Control, arm}), alpha))
	}
	return most
}

// needed returns how many units the control and an arm need together for the smallest
// difference that matters to be found, by the control's number and its variance. share is
// the arm's of both. It is 0 where they do not say.
func (m *Metric) needed(base, variance, share, alpha float64) int64 {
	difference := m.Smallest
	if m.Relative {
		difference *= math.Abs(base)
	}
	return sequential.Needed(base, variance, difference, share, alpha)
}

// since returns from when on the metric is what it is now.
func (r *reading) since(m *Metric) time.Time {
	since := r.Begun
	for i := len(r.d.Plans) - 1; i > 0; i-- {
		before := &r.d.Plans[i-1].Plan
		same := slices.ContainsFunc(before.Metrics, func(old Metric) bool { return old == *m })
		if !same || before.On != r.p.On || before.Rule != r.p.Rule || before.Salt != r.p.Salt || before.Unit != r.p.Unit ||
			before.Control != r.p.Control || before.Attribution != r.p.Attribution || !before.Start.Equal(r.p.Start) {
			if r.d.Plans[i].Since.After(since) {
				since = r.d.Plans[i].Since
			}
			break
		}
	}
	return since
}

// compare compares the arm of an index with the control.
func (r *reading) compare(index int, out *MetricReadout, arm int, alpha float64) Comparison {
	m := &out.Metric
	c := Comparison{Arm: r.arms[arm], Level: 1 - alpha, State: Collecting}
	var kept *Verdict
	for i := range r.d.Verdicts {
		if v := &r.d.Verdicts[i]; kept == nil && v.Metric == m.Name && v.Arm == c.Arm && !v.Time.Before(r.since(&r.p.Metrics[index])) {
			kept = v
		}
	}
	if r.Split.Mismatch {
		c.State, c.Why = Mismatch, r.undivided
		if kept != nil {
			c.Why += fmt.Sprintf("; %s was said at %s", kept.State, instant(kept.Time))
		}
		return c
	}
	units := out.Arms[0].Units + out.Arms[arm].Units
	absolute, relative := r.interval(index, c.Arm, alpha, false)
	switch {
	case m.measuresTime() && m.Over == 0:
		c.State, c.Why = NoData, "the control had no answers in the week before the start, so that there is no threshold: give over"
	case out.Arms[0].Reported+out.Arms[arm].Reported == 0:
		c.State, c.Why = NoData, fmt.Sprintf("no unit of %s and %s has a number for %s", r.p.Control, c.Arm, m.Name)
	case m.As == Mean && r.d.Lopsided(index, c.Arm, r.p.Control):
		c.State, c.Why = Mismatch, fmt.Sprintf("units of one arm have a number more often than those of the other: %d of %s and %d of %s, so that a mean is of others", out.Arms[0].Reported, r.p.Control, out.Arms[arm].Reported, c.Arm)
	case absolute != nil:
		c.Absolute, c.Relative = absolute, relative
		c.Served, _ = r.interval(index, c.Arm, alpha, true)
		if c.State = m.judge(absolute, relative); c.State != Collecting {
			break
		}
		c.Why = fmt.Sprintf("about %d units are needed, %d are there", out.Needed, units)
		if out.Needed > 0 && units >= out.Needed {
			c.Why += ", and the difference may still be none"
		}
	default:
		c.Why = fmt.Sprintf("each arm needs %d units, %d of them with a number other than 0", sequential.LeastUnits, sequential.LeastEvents)
		if m.counted() {
			c.Why = fmt.Sprintf("each arm needs %d units, %d of them with an event and %d without", sequential.LeastUnits, sequential.LeastEvents, sequential.LeastEvents)
			c.State = r.count(index, c.Arm, alpha/(1-sequential.Early)*sequential.Early)
		}
		if c.State != Collecting {
			c.Why = "by counts of units with an event: for an interval " + c.Why
		}
	}
	switch {
	case kept != nil:
		switch {
		case c.State == Collecting && absolute != nil:
			c.Why = "the interval now leaves it open"
		case c.State != kept.State:
			c.Why = "now it is " + cmp.Or(words[c.State], string(c.State))
		}
		c.State, c.Since = kept.State, kept.Time
	case c.State != Collecting && c.State != NoData:
		c.Since = r.now.UTC().Truncate(time.Second)
	}
	return c
}

func (m *Metric) measuresTime() bool { return m.Measure == Latency || m.Measure == FirstToken }

// words are the states that differ from their words.
var words = map[State]string{NoData: "no data", Collecting: "open", NoEffect: "no effect that matters"}

// interval returns those of the difference between an arm and the control.
func (r *reading) interval(index int, arm string, alpha float64, served bool) (absolute, relative *Interval) {
	var strata []sequential.Pair
	for i := range r.d.Strata {
		s := &r.d.Strata[i]
		strata = append(strata, sequential.Pair{Control: s.Sums(r.p.Control, index, served).Sums, Arm: s.Sums(arm, index, served).Sums})
	}
	between := sequential.Means
	if r.p.Metrics[index].As == Ratio {
		between = sequential.Ratios
	}
	a, b := between(strata, sequential.Planned, alpha)
	return (*Interval)(a), (*Interval)(b)
}

// judge returns what the interval of a difference says. The relative one is nil while the
// control's number may be zero.
func (m *Metric) judge(absolute, relative *Interval) State {
	of := absolute
	if m.Relative {
		of = relative
	}
	if of == nil {
		return Collecting
	}
	low, high := of.Low, of.High
	if !m.Up {
		low, high = -high, -low
	}
	switch guardrail := m.Role == Guardrail; {
	case high < 0 && !guardrail && low <= -m.Smallest, high < -m.Smallest && guardrail:
		return Worse
	case low > 0 && (guardrail || high >= m.Smallest):
		return Better
	case low > -m.Smallest && (guardrail || high < m.Smallest):
		return NoEffect
	}
	return Collecting
}

// counted reports whether the units with an event say something of the metric before there is
// an interval: of a rate, and of a part of answers. If the answers of one arm fail at most so
// many times as often as those of another, so do the units that see one fail.
func (m *Metric) counted() bool {
	return m.IsPart() && m.As != Mean
}

// count returns what the counts of units with an event say, before there is an interval.
func (r *reading) count(index int, arm string, alpha float64) State {
	m := &r.p.Metrics[index]
	tolerated := 1.0 // the ratio of rates that the counts are held against
	if m.Role == Guardrail {
		tolerated += m.Smallest
		if m.Up {
			tolerated = 2 - tolerated
		}
		if !m.Relative || tolerated <= 0 {
			return Collecting // a difference is no ratio
		}
	}
	evidence, found, expected := r.d.counts(index, arm, r.p.Control, tolerated, func(s *Sums) int64 { return s.Positive })
	switch {
	case evidence < 1/alpha:
		return Collecting
	case (found > expected) == m.Up && m.Role != Guardrail:
		return Better
	case (found > expected) != m.Up:
		return Worse
	}
	return Collecting
}

// Lopsided reports whether units of an arm have a number of a metric more often, or less, than
// those of the control. A mean of those that have one then compares others with others: an arm
// that makes the unhappy silent has the happier mean.
func (d *Data) Lopsided(metric int, arm, control string) bool {
	evidence, _, _ := d.counts(metric, arm, control, 1, func(s *Sums) int64 { return s.Reported })
	return evidence >= mismatch
}

// counts returns the evidence that units with something are not divided between an arm and the
// control as all their units are, the arm having so many times the control's rate of it. found
// are those of the arm, and expected how many they would be.
func (d *Data) counts(metric int, arm, control string, times float64, of func(*Sums) int64) (evidence, found, expected float64) {
	evidence = 1
	for i := range d.Strata {
		s := &d.Strata[i]
		share := s.sharesOf([]string{arm, control})[0]
		if !(share > 0 && share < 1) {
			continue
		}
		some, others := of(s.Sums(arm, metric, false)), of(s.Sums(control, metric, false))
		share = share * times / (share*times + 1 - share)
		evidence *= sequential.Counts(others, some, share)
		found += float64(some)
		expected += share * float64(some+others)
	}
	return evidence, found, expected
}
