package sqlite

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
)

// changed is a unit as it was and as it becomes.
type changed struct {
	name       string
	before, to unit
	shares     *shares // of the first exposure, if this step found it
}

// applyTo adds the events to their units, and moves the cursors. It goes through the units by
// their names: what is read of a page of them is written before the page is forgotten.
func (k *experimentKeeper) applyTo(ctx context.Context, x *tracked, p *pass) error {
	exist, err := queryInt(ctx, k.db, "SELECT EXISTS (SELECT 1 FROM experiment_units WHERE experiment = ?)", x.id)
	if err != nil {
		return err
	}
	for left := byUnit(p.events); ; {
		var some []*changed
		if some, left, err = k.change(x, p, left, exist > 0); err != nil {
			return err
		}
		if len(left) == 0 {
			err := k.write(x, some, ", traces = ?, metrics = ?, to_traces = 0, to_metrics = 0, step = step + 1, counted_ms = ?, unitless = unitless + ?, answered_before = answered_before OR ?",
				p.to.traces, p.to.metrics, p.counted, p.unitless, p.before)
			x.step++
			return err
		}
		if err := k.write(x, some, ", to_traces = ?, to_metrics = ?", p.to.traces, p.to.metrics); err != nil {
			return err
		}
		if k.wrote(); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// change adds events to the next units, of which it returns those that change, and what is
// left. It reads in one transaction: beginning one costs more than reading a unit.
func (k *experimentKeeper) change(x *tracked, p *pass, left []placed, exist bool) (some []*changed, _ []placed, err error) {
	if err := k.units.repeat("BEGIN"); err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, k.units.repeat("COMMIT")) }()
	for len(left) > 0 && len(some) < k.stepUnits {
		c := &changed{name: p.events[left[0].index].unit}
		if exist {
			if err := k.readUnit(x, c); err != nil {
				return nil, nil, err
			}
		}
		written := c.before.step > x.step // by this step, which was broken off
		for ; len(left) > 0 && p.events[left[0].index].unit == c.name; left = left[1:] {
			if !written {
				c.apply(x, &p.events[left[0].index])
			}
		}
		if written || c.to.step <= x.step {
			continue
		}
		if err := k.addPending(x, c, p.from.metrics); err != nil {
			return nil, nil, err
		}
		some = append(some, c)
	}
	return some, left, nil
}

// placed is an event by its unit, which begins with start, and by its index.
type placed struct {
	start uint64
	index int
}

// byUnit returns the places of the events in the order of their units' names, and of each
// unit in the order in which they are.
func byUnit(events []event) []placed {
	all := make([]placed, len(events))
	for i := range events {
		var start [8]byte
		copy(start[:], events[i].unit)
		all[i] = placed{binary.BigEndian.Uint64(start[:]), i}
	}
	slices.SortFunc(all, func(a, b placed) int {
		if a.start != b.start {
			return cmp.Compare(a.start, b.start)
		}
		return cmp.Or(strings.Compare(events[a.index].unit, events[b.index].unit), cmp.Compare(a.index, b.index))
	})
	return all
}

// readUnit reads the unit of a name, if there is one.
func (k *experimentKeeper) readUnit(x *tracked, c *changed) error {
	return k.units.each("SELECT "+unitColumns+" FROM experiment_units AS u WHERE u.experiment = ? AND u.unit = ?", func(row *statement) error {
		err := c.before.read(row, k.arms)
		c.to = c.before
		c.to.numbers = slices.Clone(c.before.numbers)
		return err
	}, integerValue(x.id), textValue(c.name))
}

// columns returns the values of unitColumnNames.
func (c *changed) columns(x *tracked) []value {
	u := &c.to
	return []value{
		integerValue(x.id), textValue(c.name), integerValue(u.readout), textValue(u.arm), integerValue(u.stratum), integerValue(u.first), integerValue(u.until),
		boolValue(u.moved), boolValue(u.fellBack), u.text(), integerValue(u.step),
	}
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

// addPending adds the reports on a unit, up to a seq, that were counted before the step found
// the unit's exposure, or an earlier one.
func (k *experimentKeeper) addPending(x *tracked, c *changed, until int64) error {
	if c.shares == nil || until <= x.fromMetrics || !x.has(func(n metric) bool { return n.Value != "" }) {
		return nil
	}
	exposed := c.before.readout == x.readout
	return k.units.each(unitReportQuery, func(row *statement) error {
		ev := event{class: reported, at: row.integer(0)}
		if ev.at < x.start {
			if c.before.first != 0 {
				return nil // it counted when it came
			}
		} else if ev.at < c.to.first || exposed && ev.at >= c.before.first {
			return nil
		}
		m := reportOf(row, 1)
		m.measures(&k.pending, x, &ev)
		c.apply(x, &ev)
		return nil
	}, textValue(x.workspace), textValue(x.plan().Unit), textValue(c.name), integerValue(x.past), integerValue(until))
}

// write writes units in one transaction, with what they add to the sums.
func (k *experimentKeeper) write(x *tracked, all []*changed, set string, args ...any) error {
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
	err := k.shared.transact(k.units.repeat, func() error {
		if err := x.own(k.units.exec, set, args...); err != nil {
			return err
		}
		if err := x.writeStrata(k.units.exec, strata); err != nil {
			return err
		}
		left := all
		for _, count := range rowsAtOnce {
			keep, err := k.units.prepare(insertSQL("INSERT OR REPLACE", "experiment_units", unitColumnNames, count))
			if err != nil {
				return err
			}
			for len(left) >= count {
				var values []value
				for _, c := range left[:count] {
					values = append(values, c.columns(x)...)
				}
				if err := keep.run(values...); err != nil {
					return err
				}
				left = left[count:]
			}
		}
		if x.plan().Shared {
			if err := x.toShare(k.units.exec, all); err != nil {
				return err
			}
		}
		return added.write(k.units.exec, x)
	})
	x.writes++
	return err
}
