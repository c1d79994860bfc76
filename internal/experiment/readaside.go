package experiment

import (
	"fmt"
	"slices"
	"strings"
)

// changes returns what was edited after the start, the oldest first.
func (d *Data) changes() (all []Change) {
	for i := 1; i < len(d.Plans); i++ {
		before, after, at := &d.Plans[i-1].Plan, &d.Plans[i].Plan, d.Plans[i].Since
		if at.Before(before.Start) {
			continue
		}
		for _, edit := range Edits(before, after) {
			all = append(all, Change{at, edit})
		}
	}
	for _, at := range d.Anew[min(1, len(d.Anew)):] {
		all = append(all, Change{at, "the numbers begin anew: what an arm answers with, or the salt, was edited"})
	}
	slices.SortStableFunc(all, func(a, b Change) int { return a.Time.Compare(b.Time) })
	return all
}

// exclude says what does not count.
func (r *reading) exclude() {
	for _, arm := range r.arms {
		var moved int64
		for i := range r.d.Strata {
			moved += r.d.Strata[i].Arm(arm).Moved
		}
		if moved > 0 {
			r.Excluded = append(r.Excluded, Excluded{"units first seen in " + arm + ", and later in another arm", moved})
		}
	}
	if r.d.Unitless > 0 {
		r.Excluded = append(r.Excluded, Excluded{"answers without a unit: the traces have no " + r.p.Unit, r.d.Unitless})
	}
}

const (
	// saturated is the part of units with an event from which on a rate of what answers do
	// says more of how much units ask than of the arms.
	saturated = 0.3
	// movedMuch is the part of units in several arms from which on they are missed.
	movedMuch = 0.01
)

// warn says what else to know before one believes the numbers.
func (r *reading) warn() {
	warn := func(format string, args ...any) { r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...)) }
	if n := len(r.d.Strata); n > 0 && r.d.Strata[0].Begin.Before(r.d.Plans[0].Since) {
		warn("the experiment was served first at %s, after its first units: who wrote it may have seen their numbers", instant(r.d.Plans[0].Since))
	}
	if !r.now.Before(r.End) {
		warn("the experiment is over since %s: units that came later do not count", instant(r.End))
	}
	if n := len(r.d.Strata); n > 1 {
		before, after := &r.d.Strata[n-2], &r.d.Strata[n-1]
		var shares []string
		for _, arm := range r.arms {
			if before.Shares[arm] != after.Shares[arm] {
				shares = append(shares, fmt.Sprintf("%s %s -> %s", arm, percent(before.Shares[arm]), percent(after.Shares[arm])))
			}
		}
		times := ""
		if n > 2 {
			times = fmt.Sprintf(" %d times, the last time", n-1)
		}
		warn("the shares changed%s at %s: %s; units that came before and after are compared apart, and then together", times, instant(after.Begin), strings.Join(shares, ", "))
	}
	for i := range r.Metrics {
		m := &r.Metrics[i]
		if value := m.Arms[0].Value; m.As == Rate && m.Measure != "" && value != nil && *value > saturated {
			warn("%s has an event in %s of the units of %s: one of many answers is enough, so that the arms differ less than their answers do; as: ratio counts answers", m.Name, percent(*value), r.Control)
		}
	}
	var units, moved int64
	for i := range r.d.Strata {
		for _, name := range r.arms {
			arm := r.d.Strata[i].Arm(name)
			units += arm.Units
			moved += arm.Moved
		}
	}
	if part := float64(moved) / float64(max(units+moved, 1)); part > movedMuch {
		warn("%s of the units were seen in several arms and do not count: those that come often are missed the most", percent(part))
	}
	if r.Pending > 0 {
		warn("about %d traces and reports are not counted yet", r.Pending)
	}
}
