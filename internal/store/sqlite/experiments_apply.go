package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// changed is a unit as it was and as it becomes.
type changed struct {
	name       string
	before, to unit
	there      bool
	shares     *shares // of the first exposure, if this step found it
}

// apply adds the events to their units, and moves the cursors.
func (k *experimentKeeper) apply(ctx context.Context, x *tracked, p *pass, traces, metrics int64) error {
	units, err := k.readUnits(ctx, x, p.events)
	if err != nil {
		return err
	}
	for i := range p.events {
		ev := &p.events[i]
		if u := units[ev.unit]; !u.there || u.before.step <= x.step { // or this step has written it
			u.apply(x, ev)
		}
	}
	if metrics == x.metrics {
		if err := k.addPending(ctx, x, units); err != nil {
			return err
		}
	}
	var all []*changed
	for _, u := range units {
		if u.to.step > x.step {
			all = append(all, u)
		}
	}
	slices.SortFunc(all, func(a, b *changed) int { return strings.Compare(a.name, b.name) })
	for len(all) > k.stepUnits {
		if err := k.write(ctx, x, all[:k.stepUnits], ", to_traces = ?, to_metrics = ?", traces, metrics); err != nil {
			return err
		}
		all = all[k.stepUnits:]
		if err := k.pause(ctx); err != nil {
			return err
		}
	}
	err = k.write(ctx, x, all, ", traces = ?, metrics = ?, to_traces = 0, to_metrics = 0, step = step + 1, counted_ms = ?, unitless = unitless + ?, answered_before = answered_before OR ?",
		traces, metrics, p.counted, p.unitless, p.before)
	x.step++
	return err
}

// readUnits reads the units of the events.
func (k *experimentKeeper) readUnits(ctx context.Context, x *tracked, events []event) (map[string]*changed, error) {
	units := make(map[string]*changed, len(events))
	for i := range events {
		if units[events[i].unit] == nil {
			units[events[i].unit] = &changed{name: events[i].unit}
		}
	}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(units)), scannedRows) {
		list, err := json.Marshal(part)
		if err != nil {
			return nil, err
		}
		if err := eachRow(ctx, k.db, func(scan func(...any) error) error {
			var u unit
			var name string
			if err := u.scan(scan, &name, k.arms); err != nil {
				return err
			}
			c := units[name]
			c.before, c.to, c.there = u, u, true
			c.to.numbers = slices.Clone(u.numbers)
			return nil
		}, "SELECT "+unitColumns+" FROM json_each(?) AS j CROSS JOIN experiment_units AS u ON u.unit = j.value WHERE u.experiment = ?", string(list), x.id); err != nil {
			return nil, err
		}
	}
	return units, nil
}

// columns returns the values of unitColumnNames.
func (c *changed) columns(x *tracked) []any {
	u := &c.to
	return []any{x.id, c.name, u.readout, u.arm, u.stratum, u.first, u.until, u.moved, u.fellBack, u.text(), u.step}
}

// apply adds an event to a unit.
func (c *changed) apply(x *tracked, ev *event) {
	u := &c.to
	switch ev.class {
	case exposes:
		c.change(x)
		switch {
		case u.readout != x.readout:
			u.readout, u.arm, u.first, u.until, u.moved, u.fellBack = x.readout, ev.arm, ev.at, 0, false, false
			if x.attribute > 0 {
				u.until = ev.at + x.attribute
			}
			for i := range u.numbers {
				if i%perNumber < atPastCount {
					u.numbers[i] = 0
				}
			}
			c.shares = ev.shares
		default:
			u.moved = u.moved || ev.arm != u.arm && ev.at < u.ends(x)
			if ev.at < u.first {
				u.arm, u.first, c.shares = ev.arm, ev.at, ev.shares
			}
		}
	case reported:
		if ev.at < x.start {
			if u.first != 0 { // else its exposure finds the report
				c.change(x)
				for _, n := range ev.numbers {
					to := u.numbers[n.place*perNumber:]
					to[atPastCount]++
					to[atPastSum] += n.value
				}
			}
			return
		}
		if ev.at < u.first {
			return
		}
	}
	if u.readout != x.readout || ev.at >= u.ends(x) {
		return
	}
	c.change(x)
	u.fellBack = u.fellBack || ev.fellBack
	for _, n := range ev.numbers {
		to := u.numbers[n.place*perNumber:]
		to[atCount]++
		to[atSum] += n.value
		if n.value > 0 {
			to[atPositive]++
		}
	}
}

// change marks the unit as one that the step writes.
func (c *changed) change(x *tracked) {
	if c.to.numbers == nil {
		c.to.numbers = make([]float64, perNumber*len(x.numbers))
	}
	c.to.step = x.step + 1
}

// addPending adds the reports on units that were counted before the step found the unit's
// exposure, or an earlier one.
func (k *experimentKeeper) addPending(ctx context.Context, x *tracked, units map[string]*changed) error {
	if x.metrics <= x.fromMetrics || !x.has(func(n metric) bool { return n.Value != "" }) {
		return nil
	}
	var names []string
	for name, u := range units {
		if u.shares != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for part := range slices.Chunk(names, scannedRows) {
		list, err := json.Marshal(part)
		if err != nil {
			return err
		}
		if err := eachRow(ctx, k.db, func(scan func(...any) error) error {
			var name string
			var m reportRow
			ev := event{class: reported}
			if err := scan(append([]any{&name, &ev.at}, m.targets()...)...); err != nil {
				return err
			}
			u := units[name]
			exposed := u.before.readout == x.readout
			if ev.at < x.start {
				if u.before.first != 0 {
					return nil // it counted when it came
				}
			} else if ev.at < u.to.first || exposed && ev.at >= u.before.first {
				return nil
			}
			m.measures(&k.pending, x, &ev)
			u.apply(x, &ev)
			return nil
		}, unitReportQuery, string(list), x.workspace, x.plan().Unit, x.past, x.metrics); err != nil {
			return err
		}
	}
	return nil
}

// write writes units in one transaction, with what they add to the sums.
func (k *experimentKeeper) write(ctx context.Context, x *tracked, all []*changed, set string, args ...any) error {
	added, strata := newSums(), map[*stratum]bool{}
	for _, c := range all {
		if c.shares != nil {
			s := x.stratumOf(c.shares.about)
			s.add(c.shares.exact, c.to.first)
			c.to.stratum, strata[s] = s.number, true
		}
		added.add(x, &c.before, -1)
		added.add(x, &c.to, 1)
	}
	err := k.transact(ctx, func(tx *sql.Tx) error {
		if err := x.own(ctx, tx, set, args...); err != nil {
			return err
		}
		if err := x.writeStrata(ctx, tx, strata); err != nil {
			return err
		}
		left := all
		for place, count := range rowsAtOnce {
			keep := tx.StmtContext(ctx, k.keepUnits[place])
			for len(left) >= count {
				var values []any
				for _, c := range left[:count] {
					values = append(values, c.columns(x)...)
				}
				if _, err := keep.ExecContext(ctx, values...); err != nil {
					return err
				}
				left = left[count:]
			}
		}
		if x.plan().Shared {
			if err := x.toShare(ctx, tx, all); err != nil {
				return err
			}
		}
		return added.write(ctx, tx, x)
	})
	x.writes++
	return err
}
