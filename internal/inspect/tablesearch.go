package inspect

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/rules"
)

// solve looks for a context for each pair of an old and a new row of which one
// has changed. It reports whether all pairs were decided. Other pairs need no
// look: unchanged rows are in the same order in both versions, so none of them
// answers in the new version what another one answered in the old.
func (d *tableDiff) solve() bool {
	oldRows, newRows := d.changedRows()
	if len(oldRows)*len(d.new.rows)+len(newRows)*len(d.old.rows) > maxPairs {
		return false
	}
	f := d.joint.NewFinder(d.now, pairBudget)
	decided := true
	try := func(i, j int) {
		if len(d.changes) < maxAnswers {
			decided = d.pair(f, i, j) && decided
		}
	}
	for _, i := range oldRows {
		for j := -1; j < len(d.new.rows); j++ {
			try(i, j)
		}
	}
	for _, j := range newRows {
		for i := -1; i < len(d.old.rows); i++ {
			if !slices.Contains(oldRows, i) {
				try(i, j)
			}
		}
	}
	return decided
}

// changedRows returns the rows of either version that are not in the other, or
// in another order there. -1 is the default.
func (d *tableDiff) changedRows() (old, new []int) {
	if d.old.def != d.new.def || d.old.prefix != d.new.prefix {
		old, new = append(old, -1), append(new, -1)
	}
	a, b := d.old.texts, d.new.texts
	first := 0
	for first < len(a) && first < len(b) && a[first] == b[first] {
		first++
	}
	m, n := len(a), len(b)
	for m > first && n > first && a[m-1] == b[n-1] {
		m, n = m-1, n-1
	}
	a, b = a[first:m], b[first:n]
	if len(a) > maxMatched || len(b) > maxMatched {
		a, b = nil, nil // they are too many to be matched
		for i := first; i < m; i++ {
			old = append(old, i)
		}
		for j := first; j < n; j++ {
			new = append(new, j)
		}
		return old, new
	}
	// The rows of the longest common subsequence are unchanged.
	longest := make([][]int, len(a)+1)
	longest[len(a)] = make([]int, len(b)+1)
	for i := len(a) - 1; i >= 0; i-- {
		longest[i] = make([]int, len(b)+1)
		for j := len(b) - 1; j >= 0; j-- {
			longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			if a[i] == b[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && longest[i+1][j] >= longest[i][j+1]:
			old = append(old, first+i)
			i++
		default:
			new = append(new, first+j)
			j++
		}
	}
	return old, new
}

// pair looks for a context that one row answers in the old version and the other
// row in the new one. It reports whether there is one or none for certain.
func (d *tableDiff) pair(f *rules.Finder, i, j int) bool {
	n := len(d.old.rows)
	var meet, fail []int
	if i >= 0 {
		meet = append(meet, i)
	}
	if j >= 0 {
		meet = append(meet, n+j)
	}
	for range maxBlockers {
		values, at, found, decided := f.Find(meet, fail)
		if !found {
			return decided
		}
		d.compare(d.context(values), d.context(values), at)
		a, b := d.old.last.Row, d.new.last.Row
		divided := hasBit(d.old.divided, i) || hasBit(d.new.divided, j)
		switch {
		case divided || hasBit(d.old.divided, a) || hasBit(d.new.divided, b):
			d.divide(values, at)
			d.unsure = d.unsure || i < 0 || j < 0 || d.old.texts[i] != d.new.texts[j]
			return true
		case a == i && b == j:
			return true // a row without a split has one answer
		case a >= 0 && a != i && !slices.Contains(fail, a):
			fail = append(fail, a)
		case b >= 0 && b != j && !slices.Contains(fail, n+b):
			fail = append(fail, n+b)
		default:
			return false
		}
	}
	return false
}

// search goes through the classes of the axes from depth on. old and new are
// the rows that match so far.
func (d *tableDiff) search(depth int, old, new []uint64, path []*axisClass) {
	if d.exhausted || d.sameRows(old, new) {
		return
	}
	if d.steps++; d.steps > maxSteps || d.evaluations > maxEvaluations || d.affected && d.evaluations > maxAffected || len(d.changes) >= maxAnswers {
		d.exhausted = true
		return
	}
	// Another combination that matches the same rows has the same answers,
	// unless a row depends on more than the axes.
	if !meets(old, d.old.indirect) && !meets(new, d.new.indirect) && !meets(old, d.old.affected) && !meets(new, d.new.affected) {
		state := string(appendState(strconv.AppendInt(nil, int64(depth), 10), old, new))
		if meets(old, d.old.ramped) || meets(new, d.new.ramped) {
			for i, a := range d.axes[:depth] {
				if a.field == "" {
					state += path[i].value
				}
			}
		}
		if d.seen[state] {
			return
		}
		d.seen[state] = true
	}
	if depth == len(d.axes) {
		d.try(old, new, path)
		return
	}
	for i := range d.axes[depth].classes {
		c := &d.axes[depth].classes[i]
		path[depth] = c
		d.search(depth+1, and(old, c.old), and(new, c.new), path)
	}
}

func and(a, b []uint64) []uint64 {
	out := make([]uint64, len(a))
	for i := range a {
		out[i] = a[i] & b[i]
	}
	return out
}

func appendState(dst []byte, sets ...[]uint64) []byte {
	for _, words := range sets {
		dst = append(dst, ':')
		for _, w := range words {
			dst = strconv.AppendUint(append(dst, ','), w, 36)
		}
	}
	return dst
}

// try compares the answers to the context of a path, and to several callers if a
// row divides its callers.
func (d *tableDiff) try(old, new []uint64, path []*axisClass) {
	at := d.now
	values := make(map[string]string)
	for i, c := range path {
		switch field := d.axes[i].field; {
		case field == "":
			if t, err := time.Parse(time.RFC3339Nano, c.value); err == nil {
				at = t
			}
		default:
			if c.value != "" {
				values[field] = c.value
			}
		}
	}
	d.compare(d.context(values), d.context(values), at)
	if d.models.any {
		if other := otherTypes(values); other != nil {
			d.compare(d.context(other), d.context(other), at)
		}
	}
	if meets(old, d.old.divided) || meets(new, d.new.divided) {
		d.divide(values, at)
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
		d.compare(d.context(all), d.context(all), at)
	}
}

// otherTypes returns the values as another type, which conversions make the
// same. It returns nil if no value has another type.
func otherTypes(values map[string]string) map[string]string {
	other := maps.Clone(values)
	changed := false
	for name, value := range values {
		switch c := value[0]; {
		case c == '-' || '0' <= c && c <= '9' || c == 't' || c == 'f':
			other[name], changed = quoteJSON(value), true
		case c == '[':
			if v, err := fastjson.Parse(value); err == nil && len(v.GetArray()) == 1 {
				other[name], changed = v.Get("0").String(), true
			}
		}
	}
	if !changed {
		return nil
	}
	return other
}

// tryModel compares the answers to contexts that one data model may refuse.
func (d *tableDiff) tryModel() {
	if !d.models.any {
		return
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(append(d.old.table.Fields(), d.new.table.Fields()...)))) {
		context := d.context(map[string]string{name: "{}"})
		d.compare(context, context, d.now)
	}
	const unknown = "no field of this name"
	context := []byte("{" + quoteJSON(unknown) + ":1}")
	d.compare(context, context, d.now)
}

// meets reports whether two sets of rows have one in common.
func meets(a, b []uint64) bool {
	for i := range a {
		if a[i]&b[i] != 0 {
			return true
		}
	}
	return false
}
