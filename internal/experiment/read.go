package experiment

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/sequential"
)

// mismatch is the Bayes factor against the shares from which on nothing is said of arms.
const mismatch = 1000

// reading is an experiment while it is read.
type reading struct {
	*Readout
	d    *Data
	p    *Plan
	arms []string // the control first
	now  time.Time

	undivided string // why nothing is said of arms; empty: their units are divided as the split says
}

// Read says what can be said now of an experiment, by the last one of its plans.
func Read(d *Data, now time.Time) *Readout {
	p := &d.Plans[len(d.Plans)-1].Plan
	r := &reading{d: d, p: p, now: now, arms: append([]string{p.Control}, p.Treatments()...), Readout: &Readout{
		Name: p.Name, On: p.On, Rule: p.Rule, Unit: p.Unit, Control: p.Control, Hypothesis: p.Hypothesis, Owner: p.Owner,
		Start: p.Start, End: p.End, Begun: p.Start, Through: d.Through, Pending: d.Pending, Changes: d.changes(), over: p.End.Add(p.Attribution),
	}}
	if n := len(d.Anew); n > 0 && d.Anew[n-1].After(p.Start) {
		r.Begun = d.Anew[n-1]
	}
	r.divide()
	for i := range p.Metrics {
		r.Metrics = append(r.Metrics, r.metric(i))
	}
	r.State = r.whole()
	r.Says = r.sentence()
	if !d.Gone.IsZero() {
		r.Says += " Its definition is gone since " + instant(d.Gone) + ": nothing is counted any more."
		r.Pending = 0
	}
	r.exclude()
	r.warn()
	today := r.Today(now)
	for _, day := range d.Days {
		i := slices.IndexFunc(p.Metrics, func(m Metric) bool { return m.Name == day.Metric })
		if i >= 0 && slices.Contains(r.arms[1:], day.Arm) && !day.Day.Before(dayOf(r.since(&p.Metrics[i]))) && (len(today) == 0 || day.Day.Before(today[0].Day)) {
			r.Days = append(r.Days, day)
		}
	}
	r.Days = append(r.Days, today...)
	return r.Readout
}

// divide says how many units the arms have, and whether the split divided them so.
func (r *reading) divide() {
	seen := make([]Seen, len(r.arms))
	var all float64
	for i := range r.d.Strata {
		s := &r.d.Strata[i]
		var units float64
		for _, arm := range r.arms {
			units += float64(s.Arm(arm).Units)
		}
		for j, share := range s.sharesOf(r.arms) {
			arm := s.Arm(r.arms[j])
			seen[j].Units += arm.Units
			seen[j].FellBack += arm.FellBack
			seen[j].Expected += share * units
		}
		all += units
	}
	for i, name := range r.arms {
		seen[i].Arm = name
		if all > 0 {
			seen[i].Expected /= all
		} else {
			seen[i].Expected = r.share(name, r.arms)
		}
	}
	r.Arms = seen
	r.Split.Factor, r.undivided = r.d.Undivided(r.arms)
	r.Split.Mismatch = r.undivided != ""
}

// Undivided compares the units of arms with their shares. It returns the Bayes factor against
// these, and if that is a mismatch why nothing is said of the arms. Units that moved later
// count by their first arm: the split divided them, and which of them return to another arm
// is not its doing. But they are in no metric, so what is left is compared with the shares
// too: after an edit that gives a part of the control's units to an arm, the control lacks
// those that come often, and the arm does not.
func (d *Data) Undivided(arms []string) (factor float64, why string) {
	var first, left []sequential.Segment
	for i := range d.Strata {
		s := &d.Strata[i]
		segment := sequential.Segment{Shares: s.sharesOf(arms)}
		rest := segment
		for _, name := range arms {
			arm := s.Arm(name)
			segment.Units = append(segment.Units, arm.Units+arm.Moved)
			rest.Units = append(rest.Units, arm.Units)
		}
		first, left = append(first, segment), append(left, rest)
	}
	if factor = sequential.Divided(first); factor >= mismatch {
		return factor, "the units are not divided as the split says"
	}
	if factor := sequential.Divided(left); factor >= mismatch {
		return factor, "units that were seen in several arms are missing from some arms more than from others"
	}
	return factor, ""
}

// sharesOf returns the shares of arms, as parts of all of theirs.
func (s *Stratum) sharesOf(arms []string) []float64 {
	shares, all := make([]float64, len(arms)), 0.0
	for i, arm := range arms {
		shares[i] = s.Shares[arm]
		all += shares[i]
	}
	if all > 0 {
		for i := range shares {
			shares[i] /= all
		}
	}
	return shares
}

// Arm returns what is known of an arm, which may be nothing.
func (s *Stratum) Arm(name string) *Arm {
	if arm := s.Arms[name]; arm != nil {
		return arm
	}
	return new(Arm)
}

// Sums returns those of a metric in an arm: of all units, or of those that no fallback
// answered.
func (s *Stratum) Sums(arm string, metric int, served bool) *Sums {
	of := s.Arm(arm).Decided
	if served {
		of = s.Arm(arm).Served
	}
	if metric < len(of) {
		return &of[metric]
	}
	return new(Sums)
}

// share returns the present share of an arm among some. It is 0 where no stratum says it.
func (r *reading) share(arm string, among []string) float64 {
	i, n := slices.Index(among, arm), len(r.d.Strata)
	if n == 0 || i < 0 {
		return 0
	}
	return r.d.Strata[n-1].sharesOf(among)[i]
}

// whole returns the state of the primary metric, of several arms that of the best one.
func (r *reading) whole() State {
	best := NoData
	order := []State{Worse, NoEffect, NoData, Collecting, Better, Mismatch}
	for i, c := range r.Metrics[0].Comparisons {
		if i == 0 || slices.Index(order, c.State) > slices.Index(order, best) {
			best = c.State
		}
	}
	return best
}

// sentence returns the whole in a sentence.
func (r *reading) sentence() string {
	m := &r.Metrics[0]
	i := slices.IndexFunc(m.Comparisons, func(c Comparison) bool { return c.State == r.State })
	if i < 0 {
		return "The split has no arm beside the control: there is nothing to compare."
	}
	c, text := &m.Comparisons[i], ""
	for j := i + 1; j < len(m.Comparisons); j++ { // of several the one with the largest difference
		other := &m.Comparisons[j]
		if other.State == r.State && other.Absolute != nil && c.Absolute != nil && (other.Absolute.Difference > c.Absolute.Difference) == m.Up {
			c = other
		}
	}
	switch r.State {
	case Mismatch:
		if text = m.Name + ": " + c.Why; !r.Split.Mismatch {
			return text + "."
		}
		text = strings.ToUpper(r.undivided[:1]) + r.undivided[1:]
		for i, arm := range r.Arms {
			text += fmt.Sprintf("%s %s has %d for %s", []string{":", ","}[min(i, 1)], arm.Arm, arm.Units, percent(arm.Expected))
		}
		return text + ". Nothing is said of any arm until that is understood."
	case NoData:
		if r.now.Before(r.Start) {
			return "It starts at " + instant(r.Start) + "."
		}
		if len(r.d.Strata) == 0 && r.Pending > 0 {
			return fmt.Sprintf("Nothing is known yet: about %d traces and reports are being counted.", r.Pending)
		}
		text = "Nothing is known: " + c.Why + "."
	case Collecting:
		text = "Nothing can be said yet of " + m.Name + ": " + c.Why + "."
	case NoEffect:
		text = fmt.Sprintf("%s differs from %s by less than %s in %s%s.", c.Arm, r.Control, m.SmallestText(), m.Name, c.found(&m.Metric))
	default:
		text = fmt.Sprintf("%s is %s than %s in %s%s.", c.Arm, r.State, r.Control, m.Name, c.found(&m.Metric))
	}
	for i := range r.Metrics {
		for _, c := range r.Metrics[i].Comparisons {
			if r.Metrics[i].Role == Guardrail && c.State == Worse {
				text += fmt.Sprintf(" But the guardrail %s is worse in %s%s.", r.Metrics[i].Name, c.Arm, c.found(&r.Metrics[i].Metric))
			}
		}
	}
	return text
}

// found returns the interval of a verdict and since when it holds.
func (c *Comparison) found(m *Metric) (text string) {
	switch {
	case m.Relative && c.Relative != nil:
		text = fmt.Sprintf(": %s (%s to %s) of the control's", signed(percent(c.Relative.Difference)), signed(percent(c.Relative.Low)), signed(percent(c.Relative.High)))
	case c.Absolute != nil:
		text = fmt.Sprintf(": %s (%s to %s)", signed(Number(c.Absolute.Difference)), signed(Number(c.Absolute.Low)), signed(Number(c.Absolute.High)))
	}
	if text += ", since " + instant(c.Since); c.Why != "" {
		text += "; " + c.Why
	}
	return text
}

// Verdicts returns what is said of metrics and arms, with when it was said first.
func (r *Readout) Verdicts() (all []Verdict) {
	r.compared(func(m *MetricReadout, c *Comparison, units int64) {
		if !c.Since.IsZero() {
			all = append(all, Verdict{Metric: m.Name, Arm: c.Arm, State: c.State, Time: c.Since, Units: units})
		}
	})
	return all
}

// Today returns the intervals as they are now, which are those of the end of the day if
// nothing comes any more. After the end they are those of its day.
func (r *Readout) Today(now time.Time) (rows []Day) {
	if now.Before(r.Begun) {
		return nil
	}
	if now.After(r.over) {
		now = r.over
	}
	r.compared(func(m *MetricReadout, c *Comparison, units int64) {
		day := Day{Day: dayOf(now), Metric: m.Name, Arm: c.Arm, Units: units}
		if i := c.Absolute; i != nil {
			day.Difference, day.Low, day.High = &i.Difference, &i.Low, &i.High
		}
		rows = append(rows, day)
	})
	return rows
}

// compared calls each with the comparisons of all metrics, and the units of both arms.
func (r *Readout) compared(each func(m *MetricReadout, c *Comparison, units int64)) {
	for i := range r.Metrics {
		m := &r.Metrics[i]
		for j := range m.Comparisons {
			each(m, &m.Comparisons[j], m.Arms[0].Units+m.Arms[j+1].Units)
		}
	}
}

func dayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

func instant(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Number returns a number of three digits, or whole from 1,000 on.
func Number(x float64) string {
	if math.Abs(x) >= 1000 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 3, 64), 64) // FormatFloat's text
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// percent returns a part in percent.
func percent(x float64) string { return Number(100*x) + " %" }

// signed returns the text of a number with its sign.
func signed(text string) string {
	if text[0] == '-' {
		return text
	}
	return "+" + text
}
