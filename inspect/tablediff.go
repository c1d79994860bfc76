package inspect

import (
	"encoding/json"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/definition"
	"github.com/cadenza-gateway/cadenza/document"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/valyala/fastjson"
)

// The bounds of the search for contexts that get another answer.
const (
	maxEvaluations = 200_000 // contexts tried for one definition
	maxAffected    = 20_000  // of one that only the data model may have changed
	maxSteps       = 2_000_000
	maxAnswers     = 100     // changes reported for one definition
	maxUnits       = 256     // callers tried where a split divides them
	maxListPairs   = 8       // elements of lists of which pairs are tried
	maxMatched     = 300     // rows of either version that are matched with the other's
	maxBlockers    = 40      // rows above that are kept out of the way of two
	maxPairs       = 200_000 // pairs of rows of which one has changed
	pairBudget     = 2_000_000
)

// tableDiff searches the contexts that two versions of a table answer
// differently. The cells of both divide every field into classes of values
// that none of them tells apart; what differs is found by going through the
// combinations of classes, leaving out those that only meet rows that both
// versions have, in the same order. Every context found is proved by
// evaluating it on both sides.
type tableDiff struct {
	old, new side
	axes     []axis
	units    []string // fields by which splits divide callers
	now      time.Time
	noFields []byte // a context in which every field is missing

	models changedModel
	joint  *rules.Table // of the rows of both, old ones first

	evaluations, steps int
	exhausted          bool            // not all was tried
	inexact            bool            // the classes are not all there is
	affected           bool            // the data model gives rows another meaning
	unsure             bool            // only callers that were not tried could tell
	seen               map[string]bool // of search states
	found              map[string]bool // of answers
	changes            []AnswerChange
}

// side is one version of a table.
type side struct {
	model  *rules.Model
	fields []string // of the model
	table  *rules.Table
	value  func(rules.Decision) json.RawMessage
	rows   []rowSource
	def    string // what answers by default
	prefix string // of the texts of all rows, where their values depend on more
	texts  []string
	// indirect are the rows that ask for segments, computed fields or other
	// configurations, divided those that divide their callers.
	// ramped are those of the latter whose shares change with the time, and
	// affected those that the change of the data model gives another meaning.
	indirect, divided, ramped, affected []uint64
	last                                rules.Decision

	parser fastjson.Parser
	bound  rules.Binding
}

// axis is a field, or the instant of the request, with its classes.
type axis struct {
	field   string
	classes []axisClass
}

type axisClass struct {
	value    string // JSON, empty for missing; RFC 3339 for the instant
	old, new []uint64
}

// newTableDiff prepares the comparison, or returns nil for what has no table.
func newTableDiff(before, after *definition.Snapshot, kind definition.Kind, key string, models changedModel, configs bool, now time.Time) *tableDiff {
	d := &tableDiff{now: now, models: models, seen: make(map[string]bool), found: make(map[string]bool), changes: []AnswerChange{}}
	if !d.old.take(before, kind, key) || !d.new.take(after, kind, key) {
		return nil
	}
	if !d.old.read(before, kind, key) || !d.new.read(after, kind, key) {
		d.exhausted = true // the files have changed since they were loaded
		return d
	}
	configs = configs || models.reads(d.old.table.Fields()) || models.reads(d.new.table.Fields()) || len(models.segments) > 0
	old, new := d.old.mark("old", models, configs), d.new.mark("new", models, configs)
	d.affected = old || new
	d.noFields = []byte(`{"":null}`)
	if len(after.Model.FieldNames()) > 0 {
		d.noFields = []byte(after.Model.ContextJSON([]string{"null"}))
	}
	if !d.sameRows(allRows(len(d.old.rows)), allRows(len(d.new.rows))) {
		d.prepare(before, after, models)
	}
	return d
}

// take finds a version's table.
func (s *side) take(snapshot *definition.Snapshot, kind definition.Kind, key string) bool {
	s.model, s.fields = snapshot.Model, snapshot.Model.FieldNames()
	if s.table = tableOf(snapshot, kind, key); s.table == nil {
		return false
	}
	if kind == definition.KindPrompt {
		p := snapshot.Prompts[key]
		s.def = p.Default().Key
		s.value = func(rules.Decision) json.RawMessage {
			v, _ := p.Select(&s.bound)
			return json.RawMessage(quoteJSON(v.Key))
		}
		return true
	}
	c := snapshot.RemoteConfigs[key]
	s.def = string(c.Default())
	s.value = func(rules.Decision) json.RawMessage {
		v, _ := c.Evaluate(&s.bound)
		return v
	}
	return true
}

// read reads the rows as the file has them.
func (s *side) read(snapshot *definition.Snapshot, kind definition.Kind, key string) bool {
	def, rows, ok := readRows(definitions(snapshot, kind)[key])
	if !ok || len(rows) != len(s.table.Rows()) {
		return false
	}
	s.rows = rows
	s.prefix = nodeText(def.Get("type")) + ";"
	if merge := def.Get("merge"); !merge.IsNull() {
		s.prefix += s.def + ";" // rows only give what differs from the default
	}
	return true
}

// mark gives every row the text by which it is known to be in both versions.
// A row whose cells may have another meaning in the other version is not; mark
// reports whether there is one.
func (s *side) mark(version string, models changedModel, configs bool) bool {
	words := (len(s.rows) + 63) / 64
	s.indirect, s.divided = make([]uint64, words), make([]uint64, words)
	s.ramped, s.affected = make([]uint64, words), make([]uint64, words)
	marked := false
	for i := range s.rows {
		r := &s.rows[i]
		bit := uint64(1) << (i & 63)
		if len(r.units()) > 0 {
			s.divided[i>>6] |= bit
		}
		if r.ramp != nil {
			s.ramped[i>>6] |= bit
		}
		if slices.ContainsFunc(r.cells, func(c document.Member) bool { return !slices.Contains(s.fields, c.Key.Text) }) {
			s.indirect[i>>6] |= bit
		}
		text := s.prefix + r.text
		affected := models.timezone && (len(r.active) > 0 || r.ramp != nil)
		for _, cell := range r.cells {
			affected = affected || models.affects(cell, configs)
		}
		for _, unit := range r.units() {
			affected = affected || models.all || models.fields[unit]
		}
		if affected {
			text += version
			s.affected[i>>6] |= bit
			marked = true
		}
		s.texts = append(s.texts, text)
	}
	return marked
}

// allRows has a bit for each of n rows.
func allRows(n int) []uint64 {
	words := make([]uint64, (n+63)/64)
	for i := range n {
		words[i>>6] |= 1 << (i & 63)
	}
	return words
}

// sameRows tells whether the rows that are left on both sides are the same
// ones in the same order.
func (d *tableDiff) sameRows(old, new []uint64) bool {
	if d.old.def != d.new.def || d.old.prefix != d.new.prefix {
		return false
	}
	i, j := nextRow(old, 0), nextRow(new, 0)
	for i >= 0 && j >= 0 {
		if d.old.texts[i] != d.new.texts[j] {
			return false
		}
		i, j = nextRow(old, i+1), nextRow(new, j+1)
	}
	return i < 0 && j < 0
}

// nextRow is the first row from one on, or -1.
func nextRow(words []uint64, from int) int {
	for w := from >> 6; w < len(words); w++ {
		word := words[w]
		if w == from>>6 {
			word &= ^uint64(0) << (from & 63)
		}
		if word != 0 {
			return w<<6 + bits.TrailingZeros64(word)
		}
	}
	return -1
}

// prepare finds the classes of values of all fields that either table reads.
func (d *tableDiff) prepare(before, after *definition.Snapshot, models changedModel) {
	joint := slices.Concat(d.old.rows, d.new.rows)
	for _, r := range joint {
		for _, unit := range r.units() {
			if !slices.Contains(d.units, unit) {
				d.units = append(d.units, unit)
			}
		}
	}
	for _, r := range joint {
		joint = append(joint, r.moments()...)
	}
	reads := append(d.old.table.Fields(), d.new.table.Fields()...)
	joint = append(joint, auxiliaryRows(before, after, models, joint)...)
	joint = append(joint, boundaryRows(models, joint)...)
	d.joint = jointTable(after.Model, joint)
	d.read(d.joint, joint, reads)
	if models.any {
		d.read(jointTable(before.Model, joint), joint, reads)
	}
	// Few classes first: that leaves least to try.
	slices.SortStableFunc(d.axes, func(a, b axis) int { return len(a.classes) - len(b.classes) })
}

// auxiliaryRows are rows whose cells tell apart what the rows of the tables
// tell apart only by way of segments, computed fields and other
// configurations.
func auxiliaryRows(before, after *definition.Snapshot, models changedModel, rows []rowSource) []rowSource {
	var out []rowSource
	indirect := false
	asked := make(map[string]bool)
	for queue := rows; len(queue) > 0; {
		next := []rowSource{}
		for _, r := range queue {
			for _, cell := range r.cells {
				if cell.Key.Text != "config" {
					indirect = true // perhaps: a segment or a computed field
					continue
				}
				for _, m := range cell.Value.Members {
					if asked[m.Key.Text] {
						continue
					}
					asked[m.Key.Text] = true
					for _, s := range []*definition.Snapshot{before, after} {
						if c := s.RemoteConfigs[m.Key.Text]; c != nil {
							_, more, _ := readRows(&c.Definition)
							next = append(next, more...)
						}
					}
				}
			}
		}
		out = append(out, next...)
		queue = next
	}
	if indirect {
		out = append(out, segmentRows(models.new)...)
		out = append(out, computedRows(models.new)...)
		if models.any {
			out = append(out, segmentRows(models.old)...)
			out = append(out, computedRows(models.old)...)
		}
	}
	return out
}

// read takes the classes of the joint table of rows. reads are the fields that matter.
func (d *tableDiff) read(t *rules.Table, joint []rowSource, reads []string) {
	if t == nil {
		d.exhausted = true
		return
	}
	fields := t.Examples(d.now)
	if fields == nil && len(t.Rows()) > 0 {
		d.exhausted = true
	}
	for _, f := range fields {
		if f.Field != "" && !slices.Contains(reads, f.Field) {
			continue
		}
		d.inexact = d.inexact || !f.Exact
		i := slices.IndexFunc(d.axes, func(a axis) bool { return a.field == f.Field })
		if i < 0 {
			i = len(d.axes)
			d.axes = append(d.axes, axis{field: f.Field})
		}
		a := &d.axes[i]
		for _, class := range f.Classes {
			if class.Known {
				d.add(a, class.Value, class.Rows)
			}
		}
		if f.List {
			d.lists(a, f, joint)
		}
	}
}

// add adds a class unless the axis has its value.
func (d *tableDiff) add(a *axis, value string, rows []uint64) {
	if slices.ContainsFunc(a.classes, func(c axisClass) bool { return c.value == value }) {
		return
	}
	n, m := len(d.old.rows), len(d.new.rows)
	c := axisClass{value: value, old: make([]uint64, (n+63)/64), new: make([]uint64, (m+63)/64)}
	for i := range n {
		if rows[i>>6]>>(i&63)&1 != 0 {
			c.old[i>>6] |= 1 << (i & 63)
		}
	}
	for i := range m {
		if j := n + i; rows[j>>6]>>(j&63)&1 != 0 {
			c.new[i>>6] |= 1 << (i & 63)
		}
	}
	// The class is one of either data model, to which these rows mean
	// something else than to the other.
	for w := range c.old {
		c.old[w] |= d.old.affected[w]
	}
	for w := range c.new {
		c.new[w] |= d.new.affected[w]
	}
	a.classes = append(a.classes, c)
}

// lists adds what the classes of a list field leave out: lists of several
// elements. Those are the elements that cells name, alone, in pairs where they
// are few, all together, and as a cell wants them all.
func (d *tableDiff) lists(a *axis, f rules.FieldExamples, rows []rowSource) {
	i := slices.IndexFunc(f.Classes, func(c rules.ExampleClass) bool { return !c.Known })
	if i < 0 {
		return
	}
	may := f.Classes[i].Rows
	var elements []string
	for _, r := range rows {
		for _, cell := range r.cells {
			if cell.Key.Text != f.Field {
				continue
			}
			elements = appendElements(elements, cell.Value)
			if all := cell.Value.Get("all"); all != nil {
				d.addList(a, may, appendElements(nil, all)...)
			}
		}
	}
	slices.Sort(elements)
	elements = slices.Compact(elements)
	d.addList(a, may, elements...)
	for i, x := range elements {
		d.addList(a, may, x)
		if len(elements) > maxListPairs {
			continue
		}
		for _, y := range elements[:i] {
			d.addList(a, may, y, x)
		}
	}
}

func (d *tableDiff) addList(a *axis, may []uint64, elements ...string) {
	if len(elements) > 0 {
		list, _ := json.Marshal(elements) // can't fail on text
		d.add(a, string(list), may)
	}
}

// appendElements appends the texts that a cell on a list names.
func appendElements(dst []string, cell *document.Node) []string {
	switch cell.Kind {
	case document.Sequence:
		for _, item := range cell.Items {
			dst = appendElements(dst, item)
		}
	case document.Mapping:
		for _, m := range cell.Members {
			if m.Key.Text != "size" && m.Key.Text != "matches" {
				dst = appendElements(dst, m.Value)
			}
		}
	default:
		text := strings.Trim(strings.TrimPrefix(cell.Text, "not "), "*")
		if text != "" && text != "any" && text != "missing" && text != "present" {
			dst = append(dst, text)
		}
	}
	return dst
}

// run searches. undecided says that there may be other contexts than those
// found.
func (d *tableDiff) run() (changes []AnswerChange, undecided bool) {
	if d.old.rows == nil && d.new.rows == nil && d.exhausted {
		return nil, true
	}
	d.compare(nil, nil, time.Time{})
	old, new := allRows(len(d.old.rows)), allRows(len(d.new.rows))
	if d.sameRows(old, new) {
		return nil, false
	}
	d.search(0, old, new, make([]*axisClass, len(d.axes)))
	d.tryModel()
	undecided = d.exhausted
	if d.joint != nil && (d.exhausted || d.inexact || meets(old, d.old.indirect) || meets(new, d.new.indirect)) {
		undecided = !d.solve()
	}
	if len(d.changes) == 0 {
		// What changed in the data model, or of a split, has no example, which
		// is no proof that there is none.
		return nil, undecided || d.affected || d.unsure || d.splitsDiffer()
	}
	return d.changes, undecided
}

// splitsDiffer reports whether a row that divides its callers is not in both
// versions.
func (d *tableDiff) splitsDiffer() bool {
	old, new := d.changedRows()
	return slices.ContainsFunc(old, func(i int) bool { return hasBit(d.old.divided, i) }) ||
		slices.ContainsFunc(new, func(i int) bool { return hasBit(d.new.divided, i) })
}

func hasBit(words []uint64, i int) bool { return i >= 0 && words[i>>6]>>(i&63)&1 != 0 }

// solve looks for a context for each pair of rows of which one has changed. It
// reports whether all pairs were decided: since rows that are in both versions
// are in the same order there, no other pair answers the same context.
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

// changedRows are the rows of either version that are not in the other, or in
// another order. The default, which may be among them, is -1.
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
		a, b = nil, nil // too many to tell which of them are the same
		for i := first; i < m; i++ {
			old = append(old, i)
		}
		for j := first; j < n; j++ {
			new = append(new, j)
		}
		return old, new
	}
	// The longest sequence of rows that both have.
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

// pair looks for a context that one row answers in the old version and another
// one in the new. It reports whether that is decided.
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
			return true // a row that is not divided has one answer
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
	// Another way to the same rows leads to the same answers, unless a row
	// depends on more than the axes say.
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

// try compares the answers to the context of a path, and where a row divides
// its callers, to several callers.
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

// otherTypes are values as another type that conversions make the same, nil
// where none has one.
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

// tryModel compares the answers to contexts that a data model may refuse.
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

// context is a context with values of fields, where the later data model reads
// them, or the earlier one where it alone declares them all.
func (d *tableDiff) context(values map[string]string) []byte {
	if len(values) == 0 {
		return d.noFields
	}
	var context []byte
	for _, s := range []*side{&d.old, &d.new} {
		n, members := 0, make([]string, len(s.fields))
		for i, name := range s.fields {
			if members[i] = values[name]; members[i] != "" {
				n++
			}
		}
		if n == len(values) || context == nil {
			context = []byte(s.model.ContextJSON(members))
		}
	}
	return context
}

// compare evaluates a context on both sides and keeps it when the answers
// differ and no other example shows the same.
func (d *tableDiff) compare(old, new []byte, at time.Time) {
	d.evaluations++
	a, b := d.old.answer(old, at), d.new.answer(new, at)
	if a.Refused == b.Refused && sameValue(a.Value, b.Value) {
		return
	}
	id := a.Row + "\x00" + b.Row + "\x00" + string(a.Value) + "\x00" + string(b.Value) + "\x00" + a.Refused + "\x00" + b.Refused
	if d.found[id] {
		return
	}
	d.found[id] = true
	c := AnswerChange{Context: json.RawMessage("null"), Old: a, New: b}
	if new != nil {
		c.Context = new
	}
	if !at.IsZero() && (d.old.table.HasSchedule() || d.new.table.HasSchedule()) {
		c.At = &at
	}
	d.changes = append(d.changes, c)
}

// answer evaluates a context. Nil is no context.
func (s *side) answer(context []byte, at time.Time) Side {
	var v *fastjson.Value
	if context != nil {
		v, _ = s.parser.ParseBytes(context) // made of valid parts
	}
	s.last = rules.Decision{Row: -1, Outcome: -1}
	if err := s.model.Bind(&s.bound, v, at); err != nil {
		return Side{Refused: err.Error()}
	}
	decision := s.table.Evaluate(&s.bound)
	s.last = decision
	return Side{Row: rowID(s.table, decision), Value: slices.Clone(s.value(decision))}
}

func quoteJSON(s string) string {
	b, _ := json.Marshal(s) // can't fail on a string
	return string(b)
}
