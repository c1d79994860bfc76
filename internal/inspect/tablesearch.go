package inspect

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/rules"
)

// prepare makes the finders, if the rows can be read together.
func (d *tableDiff) prepare(before, after *definition.Snapshot) {
	rows := slices.Concat(d.old.rows, d.new.rows)
	var probes []rowSource
	for _, r := range rows {
		for _, unit := range r.units() {
			if !slices.Contains(d.units, unit) {
				d.units = append(d.units, unit)
			}
		}
		probes = append(probes, r.moments()...)
	}
	for _, name := range append(before.Model.GatewayNames(), after.Model.GatewayNames()...) {
		if f, _ := rules.ParseGatewayField(name); f.Rollout != "" && (slices.Contains(d.old.table.Fields(), name) || slices.Contains(d.new.table.Fields(), name)) {
			d.rollouts = append(d.rollouts, name)
		}
	}
	if before.Model == after.Model {
		if moments := jointTable(after.Model, probes); moments != nil {
			d.finders[0] = rules.NewFinder(d.now, pairBudget, d.old.table, d.new.table, moments)
		}
		d.probes = len(probes)
		return
	}
	probes = append(probes, auxiliaryRows(before, after, d.models, rows)...)
	probes = append(probes, boundaryRows(d.models)...)
	d.probes = len(probes)
	rows = append(rows, probes...)
	d.old.joint = jointModel(before.Model, after.Model, d.models.old)
	d.new.joint = jointModel(after.Model, before.Model, d.models.new)
	later, earlier := jointTable(d.new.joint, rows), jointTable(d.old.joint, rows)
	if later != nil && earlier != nil {
		d.finders[0] = rules.NewFinder(d.now, pairBudget, later)
		d.finders[1] = rules.NewFinder(d.now, pairBudget, earlier)
	}
}

// pairs looks for a context for each pair of an old and a new row of which one has
// changed. It reports whether all pairs were decided. Other pairs need no look:
// unchanged rows are in the same order in both versions, so none of them answers
// in the new version what another one answered in the old.
func (d *tableDiff) pairs() bool {
	oldRows, newRows := d.changedRows()
	if len(oldRows)*len(d.new.rows)+len(newRows)*len(d.old.rows) > maxPairs {
		for _, i := range oldRows {
			d.around(d.finders[0], []int{i}, nil)
		}
		for _, j := range newRows {
			d.around(d.finders[0], []int{len(d.old.rows) + j}, nil)
		}
		return false // one example for each must suffice
	}
	// A second data model leaves open what other configurations answer.
	decided := d.finders[1] == nil || !d.old.asking && !d.new.asking
	for _, i := range oldRows {
		for j := -1; j < len(d.new.rows); j++ {
			decided = d.pair(i, j) && decided
		}
	}
	for _, j := range newRows {
		for i := -1; i < len(d.old.rows); i++ {
			if !slices.Contains(oldRows, i) {
				decided = d.pair(i, j) && decided
			}
		}
	}
	return decided && !d.exhausted
}

// changedRows returns the rows of either version that are not in the other, or
// in another order there. -1 is the default.
func (d *tableDiff) changedRows() (old, new []int) {
	if d.old.def != d.new.def || d.old.prefix != d.new.prefix {
		old, new = append(old, -1), append(new, -1)
	}
	for _, e := range DiffLists(d.old.texts, d.new.texts, maxMatched) {
		if e.Old {
			old = append(old, e.Index)
		} else {
			new = append(new, e.Index)
		}
	}
	return old, new
}

// pair looks for a context that one row answers in the old version and the other
// row in the new one. It reports whether it found a context, or a proof that there is
// no such context.
func (d *tableDiff) pair(i, j int) bool {
	n := len(d.old.rows)
	var meet, fail []int
	if i >= 0 {
		meet = append(meet, i)
	}
	if j >= 0 {
		meet = append(meet, n+j)
	}
	for range maxBlockers {
		values, at, found, decided := d.finders[0].Find(meet, fail)
		if !found || d.exhausted {
			return decided
		}
		d.try(values, at)
		a, b := d.old.last.Row, d.new.last.Row
		if d.old.divides(i) || d.new.divides(j) || d.old.divides(a) || d.new.divides(b) {
			d.divide(values, at)
			d.later(meet, fail)
			d.unsure = d.unsure || i < 0 || j < 0 || d.old.texts[i] != d.new.texts[j]
		}
		switch {
		case a >= 0 && a != i && (i < 0 || a < i) && !slices.Contains(fail, a):
			fail = append(fail, a)
		case b >= 0 && b != j && (j < 0 || b < j) && !slices.Contains(fail, n+b):
			fail = append(fail, n+b)
		default:
			return a == i && b == j || d.old.divides(i) || d.new.divides(j)
		}
	}
	return false
}

// try compares the answers to the values that a finder has found.
func (d *tableDiff) try(values map[string]string, at time.Time) {
	d.compare(d.context(values), at)
}

// later compares the answers to the callers of some rows when a ramp begins or ends.
func (d *tableDiff) later(meet, fail []int) {
	if d.finders[1] != nil {
		return // the caller tries all probes
	}
	for p := range d.probes {
		moment := len(d.old.rows) + len(d.new.rows) + p
		if values, at, found, _ := d.finders[0].Find(append(slices.Clip(meet), moment), fail); found {
			d.divide(values, at)
		}
	}
}

// probe looks for contexts on the bounds of values that the data models read
// differently. In these contexts rows that may have another meaning, and probes, match
// or fail together.
func (d *tableDiff) probe() {
	n := len(d.old.rows)
	var rows []int
	for i, affected := range slices.Concat(d.old.affected, d.new.affected) {
		if affected {
			rows = append(rows, i)
		}
	}
	for _, f := range d.finders {
		for _, r := range rows {
			d.around(f, []int{r}, nil)
			d.around(f, nil, []int{r})
			for p := n + len(d.new.rows); p < n+len(d.new.rows)+d.probes; p++ {
				if d.evaluations > maxProbes {
					return
				}
				d.around(f, []int{r, p}, nil)
				d.around(f, []int{r}, []int{p})
				d.around(f, []int{p}, []int{r})
			}
		}
	}
}

// around compares the answers to a context that matches some rows and no others,
// and to a few more that rows above do not answer.
func (d *tableDiff) around(f *rules.Finder, meet, fail []int) {
	const tries = 4
	fail = slices.Clip(fail)
	for range tries {
		values, at, found, _ := f.Find(meet, fail)
		if !found {
			return
		}
		d.try(values, at)
		a, b := d.old.last.Row, d.new.last.Row
		if d.models.any {
			d.try(otherTypes(values), at)
			d.try(otherCase(values), at)
		}
		if len(d.units) > 0 {
			d.divide(values, at)
		}
		switch {
		case a >= 0 && !slices.Contains(meet, a):
			fail = append(fail, a)
		case b >= 0 && !slices.Contains(meet, len(d.old.rows)+b):
			fail = append(fail, len(d.old.rows)+b)
		default:
			return
		}
	}
}

// divide compares the answers to several callers.
func (d *tableDiff) divide(values map[string]string, at time.Time) {
	units := slices.DeleteFunc(slices.Clone(d.units), func(name string) bool { return values[name] != "" })
	if len(units) == 0 {
		return
	}
	for i := range maxUnits {
		unit := quoteJSON(strconv.Itoa(1001 + i))
		all := maps.Clone(values)
		for _, name := range units {
			all[name] = unit
		}
		d.try(all, at)
		if len(d.rollouts) > 0 { // without a share, all have the control's answer
			for _, name := range d.rollouts {
				all[name] = strconv.Itoa(rules.Buckets)
			}
			d.try(all, at)
		}
	}
}

// otherTypes returns the values as another type that converts to the same values.
func otherTypes(values map[string]string) map[string]string {
	other := maps.Clone(values)
	for name, value := range values {
		switch c := value[0]; {
		case c == '-' || '0' <= c && c <= '9' || c == 't' || c == 'f':
			other[name] = quoteJSON(value)
		case c == '[':
			if v, err := fastjson.Parse(value); err == nil && len(v.GetArray()) == 1 {
				other[name] = v.Get("0").String()
			}
		}
	}
	return other
}

// otherCase returns the values with their texts in upper case, or in lower case.
func otherCase(values map[string]string) map[string]string {
	other := maps.Clone(values)
	for name, value := range values {
		if strings.Contains(value, `"`) && !strings.Contains(value, `\`) {
			if other[name] = strings.ToUpper(value); other[name] == value {
				other[name] = strings.ToLower(value)
			}
		}
	}
	return other
}
