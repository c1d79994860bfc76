package rollout

import (
	"fmt"
	"math"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/sequential"
)

// Usual is what recorded traffic says before a rollout.
type Usual struct {
	Minutely float64 // how many units come to the split in a minute that it has not seen before
	// Number is the control's number of a guard: of Rate, and of requests that are judged by
	// unit too, the part of units with an event. Variance is that of the others, by unit.
	Number, Variance float64
}

// Usual returns what traffic says of the guard, where an arm of it is what the control will be.
func (s *Stop) Usual(t *experiment.Traffic, control string) (u Usual) {
	for _, units := range t.Units {
		u.Minutely += float64(units) / (t.Days * 24 * 60)
	}
	if units := t.Units[control]; units > 0 {
		metrics := s.metrics()
		u.Number, u.Variance = metrics[len(metrics)-1].Usual(t, units)
	}
	return u
}

// Visible is the harm that a step sees in its time, if all goes as is expected.
type Visible struct {
	Step int
	// Times is the least harm of those that are tried, as so many times the control's number;
	// 0: it sees none of them. After is how long it takes, by what the step sees alone.
	Times float64
	After time.Duration
	// Not is the largest harm that was tried and that it does not see; 0: there is none.
	Not float64
}

// Visible returns which harm a step sees of a guard that is one of the plan's.
func (p *Plan) Visible(step int, s *Stop, u Usual) Visible {
	v := Visible{Step: step}
	minutely := u.Minutely * float64(step) / Whole
	if step > Half || !(minutely > 0) {
		return v // nothing is compared
	}
	within := max(p.Every.Minutes(), float64(p.Need)/minutely)
	for _, times := range [...]float64{1.5, 2, 3, 5, 10} {
		if times <= max(s.Ratio, 1/s.Ratio) {
			continue
		}
		if s.Ratio < 1 {
			times = 1 / times
		}
		minutes := s.minutes(times, minutely, alpha/float64(len(p.Stops)), u)
		if minutes > 0 && minutes <= within {
			v.Times, v.After = times, time.Duration(minutes*float64(time.Minute))
			return v
		}
		if minutes >= 0 {
			v.Not = times
		}
	}
	return v
}

// minutes returns after how many minutes the guard sees that New's number is so many times the
// control's; 0 if never, and below 0 if that can't be.
func (s *Stop) minutes(times, minutely, alpha float64, u Usual) float64 {
	metrics := s.metrics()
	if m := metrics[len(metrics)-1]; m.As == experiment.Rate {
		if !(u.Number > 0 && u.Number*times <= 1) {
			return -1
		}
		events := sequential.NeededEvents(s.Ratio, times, 0.5, alpha/float64(len(metrics)))
		return events / (minutely * u.Number * (1 + times))
	}
	if u.Number == 0 || !(u.Variance > 0) {
		return -1
	}
	return sequential.NeededToExceed(s.Ratio, times, u.Variance/(u.Number*u.Number), alpha) / minutely
}

// Says returns a sentence without its end, such as "the 1 % step sees 5 times the control's
// error in 16 minutes, not 3 times".
func (v Visible) Says(s *Stop) string {
	step := "the " + percent(v.Step) + " step"
	number := func(times float64) string { return experiment.Number(times) + " times" }
	switch {
	case v.Times == 0 && v.Not == 0:
		return fmt.Sprintf("it is not known which harm in %s %s sees", s.Name(), step)
	case v.Times == 0:
		return fmt.Sprintf("%s does not see %s the control's %s in its time", step, number(v.Not), s.Name())
	}
	after := experiment.Number(math.Ceil(v.After.Minutes())) + " minutes"
	switch {
	case v.After > 2*time.Hour:
		after = experiment.Number(v.After.Hours()) + " hours"
	case v.After <= time.Minute:
		after = "1 minute"
	}
	says := fmt.Sprintf("%s sees %s the control's %s in %s", step, number(v.Times), s.Name(), after)
	if v.Not != 0 {
		says += ", not " + number(v.Not)
	}
	return says
}
