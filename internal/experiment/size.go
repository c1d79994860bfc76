package experiment

import (
	"fmt"
	"math"
)

// Traffic is what was recorded of a split before its experiment.
type Traffic struct {
	Days  float64          // how long
	Units map[string]int64 // by the arm
	// Of the control: its answers, the failed ones of them, and by the name of a number the
	// units that reported it.
	Answers, Errors int64
	Values          map[string]Reported
}

// Reported are the means of a number by unit.
type Reported struct {
	Units           int64
	Mean, Deviation float64
}

// Sizes returns what traffic says of how many units each metric needs in a comparison, and
// of how long that takes, in words.
func (p *Plan) Sizes(t *Traffic) (needed []int64, says []string) {
	// The arms that are not there yet get as many units as the control.
	control := t.Units[p.Control]
	arm := control
	for _, name := range p.Treatments() {
		if units := t.Units[name]; units > 0 {
			arm = min(arm, units)
		}
	}
	daily := float64(control+arm) / t.Days
	for i := range p.Metrics {
		m := &p.Metrics[i]
		var units int64
		if control > 0 {
			base, variance := m.Usual(t, control)
			units = m.needed(base, variance, float64(arm)/float64(control+arm), p.alpha(m))
		}
		needed = append(needed, units)
		if units == 0 {
			says = append(says, fmt.Sprintf("how many units %s needs is not known: the last %s days have not enough of its numbers of %s", m.Name, Number(t.Days), p.Control))
			continue
		}
		has := Number(p.End.Sub(p.Start).Hours() / 24)
		says = append(says, fmt.Sprintf("%s needs about %d units for a difference of %s: %s days of the %s that it has, at %s units a day", m.Name, units, m.SmallestText(), Number(math.Ceil(float64(units)/daily)), has, Number(daily)))
	}
	return needed, says
}

// Usual returns a metric's number of the control and its variance by unit, or zeros where
// traffic does not say. Answers of a unit are taken to fail each for itself, so that errors
// may need more than is said.
func (m *Metric) Usual(t *Traffic, units int64) (base, variance float64) {
	v := t.Values[m.Value]
	perUnit := float64(t.Answers) / float64(units)
	switch failing := float64(t.Errors) / float64(max(t.Answers, 1)); {
	case m.Measure == Error && m.As == Ratio:
		return failing, failing * (1 - failing) / perUnit
	case m.Measure == Error && m.As == Rate:
		base = 1 - math.Pow(1-failing, perUnit)
		return base, base * (1 - base)
	case m.Value != "" && m.As == Rate:
		base = v.Mean * float64(v.Units) / float64(units)
		return base, base * (1 - base)
	case m.Value != "" && (m.As == Mean || m.As == Ratio):
		return v.Mean, v.Deviation * v.Deviation
	}
	return 0, 0
}
