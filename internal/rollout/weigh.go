package rollout

import (
	"fmt"
	"math"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/sequential"
)

// alpha is the probability that a rollout which does no harm is ever stopped. Its guards
// share it.
const alpha = 0.05

// Experiment returns what a store counts for the guards, from a time on. Its name begins with
// "rollout ", which no definition's does.
func (p *Plan) Experiment(since time.Time) experiment.Plan {
	x := experiment.Plan{
		Name: "rollout " + p.Name(), On: p.On, Rule: p.Rule, Salt: p.Salt, Arms: []string{p.New, p.Control}, Control: p.Control, Unit: p.Unit,
		Start: since, End: since.AddDate(1, 0, 0), Rollout: true,
	}
	for i := range p.Stops {
		x.Metrics = append(x.Metrics, p.Stops[i].metrics()...)
	}
	return x
}

// metrics returns what is counted for the guard. What a request does or does not is counted
// for each unit too: of that the evidence is exact, and there from the first event on. If the
// requests of one arm fail at most so many times as often as those of the other, so do the
// units that see one fail.
func (s *Stop) metrics() []experiment.Metric {
	m := experiment.Metric{
		Name: s.Name(), Role: experiment.Guardrail, Value: s.Value, Measure: s.Measure, As: s.As, Over: s.Over,
		Up: s.Ratio < 1, Smallest: math.Abs(s.Ratio - 1), Relative: true,
	}
	if m.As != experiment.Ratio || !m.IsPart() {
		return []experiment.Metric{m}
	}
	units := m
	units.Name, units.As = m.Name+" by unit", experiment.Rate
	return []experiment.Metric{m, units}
}

// Weigh returns what the guards see in the numbers of Plan.Experiment.
func (p *Plan) Weigh(d *experiment.Data) *Evidence {
	e := &Evidence{Through: d.Through}
	if n := len(d.Plans); n > 0 {
		e.Since = d.Plans[n-1].Plan.Start
	}
	for i := range d.Strata {
		e.Units += d.Strata[i].Arm(p.New).Units
		e.Control += d.Strata[i].Arm(p.Control).Units
	}
	_, undivided := d.Undivided([]string{p.New, p.Control})
	e.Mismatch = undivided != ""
	index := 0
	for i := range p.Stops {
		s := &p.Stops[i]
		metrics := s.metrics()
		of := weighing{Plan: p, stop: s, strata: d.Strata, alpha: alpha / float64(len(p.Stops)*len(metrics))}
		g := of.guard(metrics, index)
		if s.As == experiment.Mean && d.Lopsided(index, p.New, p.Control) {
			e.Mismatch, g.Harm = true, false
			g.Says += "; but units of one have a number more often than those of the other, so that the mean is of others"
		}
		e.Guards = append(e.Guards, g)
		index += len(metrics)
	}
	return e
}

// weighing is a guard while it is weighed.
type weighing struct {
	*Plan
	stop   *Stop
	strata []experiment.Stratum
	alpha  float64 // of each of its judgements
}

// guard returns what the guard sees in its metrics, the first of which is that of its number.
func (w *weighing) guard(metrics []experiment.Metric, index int) Guard {
	g := Guard{Name: w.stop.Name(), Ratio: w.stop.Ratio}
	arm, control := w.sums(index, w.New), w.sums(index, w.Control)
	if arm.Reported+control.Reported == 0 {
		g.Says = "no unit has a number for it yet"
		return g
	}
	as := metrics[0].As
	g.New, g.Control = number(arm, as), number(control, as)
	said := false
	for i := range metrics {
		strength, ok := w.strength(metrics[i].As, index+i)
		g.Strength, said = max(g.Strength, strength), said || ok
	}
	g.Harm = g.Strength >= 1
	tolerated := "more"
	if g.Ratio < 1 {
		tolerated = "less"
	}
	tolerated += " than " + experiment.Number(g.Ratio) + " times the control's"
	switch {
	case g.New == nil:
		g.Says = w.New + " has no number yet"
	case g.Control == nil:
		g.Says = w.Control + " has no number yet"
	default:
		g.Says = fmt.Sprintf("%s has %s, %s %s", w.New, experiment.Number(*g.New), w.Control, experiment.Number(*g.Control))
	}
	switch {
	case g.Harm:
		g.Says += ": " + tolerated
	case !said:
		g.Says += fmt.Sprintf(": each needs %d units with a number, %d of them other than 0", sequential.LeastUnits, sequential.LeastEvents)
	default:
		g.Says += ": not known to be " + tolerated
	}
	return g
}

// sums returns those of a metric in an arm, of all strata. The arms are equally large in each.
func (w *weighing) sums(index int, arm string) (all experiment.Sums) {
	for i := range w.strata {
		s := w.strata[i].Sums(arm, index, false)
		all.Merge(&s.Sums)
		all.Reported += s.Reported
	}
	return all
}

// number returns a metric's number, nil if there is none.
func number(s experiment.Sums, as experiment.As) *float64 {
	by := float64(s.N)
	if as == experiment.Ratio {
		by = s.D
	}
	if by == 0 {
		return nil
	}
	return new(s.Y / by)
}

// strength returns the evidence that a metric exceeds what is tolerated, as a part of what is
// needed. ok is false before any may be said.
func (w *weighing) strength(as experiment.As, index int) (part float64, ok bool) {
	var events []sequential.Events
	var pairs []sequential.Pair
	for i := range w.strata {
		s := &w.strata[i]
		arm, control := s.Sums(w.New, index, false), s.Sums(w.Control, index, false)
		share := s.Shares[w.New] / (s.Shares[w.New] + s.Shares[w.Control])
		events = append(events, sequential.Events{Control: control.Positive, Arm: arm.Positive, Share: share})
		pairs = append(pairs, sequential.Pair{Control: control.Sums, Arm: arm.Sums})
	}
	switch as {
	case experiment.Rate:
		return math.Log(sequential.RateExceeds(events, w.stop.Ratio)) / -math.Log(w.alpha), true
	case experiment.Ratio:
		return sequential.RatioExceeds(pairs, w.stop.Ratio, w.alpha)
	default:
		return sequential.MeanExceeds(pairs, w.stop.Ratio, w.alpha)
	}
}
