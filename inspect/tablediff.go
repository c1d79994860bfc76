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
	maxSteps       = 2_000_000
	maxAnswers     = 100 // changes reported for one definition
	maxUnits       = 256 // callers tried where a split divides them
	maxListPairs   = 8   // elements of lists of which pairs are tried
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

	evaluations, steps int
	exhausted          bool
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
	indirect, divided []uint64

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
	d := &tableDiff{now: now, seen: make(map[string]bool), found: make(map[string]bool), changes: []AnswerChange{}}
	if !d.old.take(before, kind, key) || !d.new.take(after, kind, key) {
		return nil
	}
	if !d.old.read(before, kind, key) || !d.new.read(after, kind, key) {
		d.exhausted = true // the files have changed since they were loaded
		return d
	}
	d.old.mark("old", models, configs)
	d.new.mark("new", models, configs)
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
// A row whose cells may have another meaning in the other version is not.
func (s *side) mark(version string, models changedModel, configs bool) {
	s.indirect, s.divided = make([]uint64, (len(s.rows)+63)/64), make([]uint64, (len(s.rows)+63)/64)
	for i := range s.rows {
		r := &s.rows[i]
		if len(r.units()) > 0 {
			s.divided[i>>6] |= 1 << (i & 63)
		}
		if slices.ContainsFunc(r.cells, func(c document.Member) bool { return !slices.Contains(s.fields, c.Key.Text) }) {
			s.indirect[i>>6] |= 1 << (i & 63)
		}
		text := s.prefix + r.text
		affected := models.all && len(r.active) > 0
		for _, cell := range r.cells {
			affected = affected || models.affects(cell.Key.Text, configs)
		}
		for _, unit := range r.units() {
			affected = affected || models.affects(unit, configs)
		}
		if affected {
			text += version
		}
		s.texts = append(s.texts, text)
	}
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
	d.read(jointTable(after.Model, joint), joint, reads)
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

// run searches. undecided tells that not all of the contexts were tried.
func (d *tableDiff) run() (changes []AnswerChange, undecided bool) {
	if d.old.rows == nil && d.new.rows == nil && d.exhausted {
		return nil, true
	}
	d.compare(nil, nil, time.Time{})
	old, new := allRows(len(d.old.rows)), allRows(len(d.new.rows))
	d.search(0, old, new, make([]*axisClass, len(d.axes)))
	if len(d.changes) == 0 {
		return nil, d.exhausted
	}
	return d.changes, d.exhausted
}

// search goes through the classes of the axes from depth on. old and new are
// the rows that match so far.
func (d *tableDiff) search(depth int, old, new []uint64, path []*axisClass) {
	if d.exhausted || d.sameRows(old, new) {
		return
	}
	if d.steps++; d.steps > maxSteps || d.evaluations > maxEvaluations || len(d.changes) >= maxAnswers {
		d.exhausted = true
		return
	}
	// Another way to the same rows leads to the same answers, unless a row
	// depends on more than the axes say.
	if !meets(old, d.old.indirect) && !meets(new, d.new.indirect) {
		state := string(appendState(strconv.AppendInt(nil, int64(depth), 10), old, new))
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
	given := make(map[string]bool)
	for i, c := range path {
		switch field := d.axes[i].field; {
		case field == "":
			if t, err := time.Parse(time.RFC3339Nano, c.value); err == nil {
				at = t
			}
		default:
			given[field] = true
			if c.value != "" {
				values[field] = c.value
			}
		}
	}
	d.compare(d.context(values), d.context(values), at)
	if !meets(old, d.old.divided) && !meets(new, d.new.divided) {
		return
	}
	units := slices.DeleteFunc(slices.Clone(d.units), func(name string) bool { return given[name] })
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

// meets tells whether two sets of rows have one in common.
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
	if err := s.model.Bind(&s.bound, v, at); err != nil {
		return Side{Refused: err.Error()}
	}
	decision := s.table.Evaluate(&s.bound)
	return Side{Row: rowID(s.table, decision), Value: slices.Clone(s.value(decision))}
}

func quoteJSON(s string) string {
	b, _ := json.Marshal(s) // can't fail on a string
	return string(b)
}
