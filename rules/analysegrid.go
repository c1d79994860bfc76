package rules

import (
	"cmp"
	"encoding/json"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxGridBytes bounds the bitmaps of an analysis.
const maxGridBytes = 64 << 20

// grid is the space of bindings that a table can meet: an axis for each slot,
// divided into classes of values that every cell on the axis treats alike. For
//
//	columns: [ plan, seats ]
//	row 0:   [ pro,  any ]
//	row 1:   [ any,  10.. ]
//	row 2:   [ pro,  5..20 ]
//
// the axes have these classes, each with the rows whose cell it meets:
//
//	plan    missing {1}   texts below pro {1}   pro {0,1,2}   texts above pro {1}
//	seats   missing {0}   below 5 {0}   5..<10 {0,2}   10..20 {0,1,2}   above 20 {0,1}
//
// A point of the grid is a choice of one class from each axis. It represents
// all contexts with such values, and the AND of its classes' rows are the rows
// that match them: (pro, 5..<10) is matched by the rows 0 and 2. So questions
// about all contexts become questions about 4 times 5 points.
//
// Where values can't be divided so (patterns, lists, segments that depend on
// each other), a class has the rows that all of its values match apart from
// those that some could match, and the grid has points that no context has.
// That a row is reached nowhere on it is still proof; an example has to be
// tried on the table.
type grid struct {
	t     *Table
	words int
	axes  []axis
	// certain are the rows that answer wherever all their cells match. Rows
	// with splits, prerequisites or a choice of segments are not certain.
	certain []uint64
}

// axis is one slot of the grid.
type axis struct {
	slot    int32
	classes []class
	entries []entry
	// fuzzy is set where some class has values that meet different cells, and
	// unknown where no class has a witness because the value follows from
	// fields.
	fuzzy, unknown bool
}

// atomOf returns a row's cell on the axis, or nil.
func (x *axis) atomOf(row int) *atom {
	i, ok := slices.BinarySearchFunc(x.entries, int32(row), func(e entry, row int32) int { return cmp.Compare(e.row, row) })
	if !ok {
		return nil
	}
	return x.entries[i].atom
}

// class is a set of values of one slot that all cells treat alike.
type class struct {
	// must are the rows whose cell every value of the class meets, may are
	// those whose cell some value could meet.
	must, may []uint64
	// witness is a value of the class: JSON, empty for no value. It is only
	// valid where known is set.
	witness string
	known   bool
}

// newGrid makes the grid of a table. It returns nil for a grid that would be
// too large or cost more than what is left of the budget, before it makes it.
func newGrid(t *Table, now time.Time, left *int) *grid {
	g := &grid{t: t, words: (len(t.rows) + 63) / 64}
	g.certain = make([]uint64, g.words)
	bySlot := make([][]entry, t.model.nowSlot()+1)
	for row := range t.rows {
		if t.answers[row].split == nil {
			set1(g.certain, int32(row))
		}
		atoms := t.rowAtoms(row)
		for i := range atoms {
			a := &atoms[i]
			e := bySlot[a.slot]
			if a.op == atomEither || a.op == atomConfig || len(e) > 0 && e[len(e)-1].row == int32(row) {
				clear1(g.certain, int32(row))
				continue
			}
			bySlot[a.slot] = append(e, entry{int32(row), a})
		}
	}
	size := 0
	for slot, entries := range bySlot {
		if len(entries) == 0 {
			continue
		}
		b := axisBuilder{grid: g, axis: axis{slot: int32(slot), entries: entries, unknown: true}, now: now, left: maxGridBytes - size, budget: left}
		if !b.build() {
			return nil
		}
		size += len(b.classes) * g.words * 16
		g.axes = append(g.axes, b.axis)
	}
	return g
}

// axisBuilder makes the classes of one slot.
type axisBuilder struct {
	*grid
	axis
	now  time.Time
	left int // bytes
	// budget is the rest of Analysis.Budget, in steps.
	budget *int
	field  *field
}

func (b *axisBuilder) build() bool {
	m := b.t.model
	if int(b.slot) < len(m.fields) {
		b.field = &m.fields[b.slot]
	}
	if b.field != nil && !b.t.insists(b.field) {
		test := func(i int) (bool, bool) { return b.entries[i].atom.onMissing, b.entries[i].atom.onMissing }
		if !b.add(test, "", b.field.program == nil) {
			return false
		}
	}
	switch {
	case b.field != nil && b.field.typ == listField:
		return b.lists()
	case b.field != nil && b.field.typ == stringField:
		return b.texts()
	}
	return b.integers()
}

// add makes a class. test reports whether all values of the class meet the cell
// of an entry, and whether some do.
func (b *axisBuilder) add(test func(i int) (all, some bool), witness string, known bool) bool {
	if b.left -= b.words * 16; b.left < 0 {
		return false
	}
	*b.budget -= b.classCost()
	c := class{must: make([]uint64, b.words), may: make([]uint64, b.words), witness: witness, known: known}
	for row := range b.t.rows {
		set1(c.must, int32(row))
	}
	copy(c.may, c.must)
	for i, e := range b.entries {
		all, some := test(i)
		if !all {
			clear1(c.must, e.row)
		}
		if !some {
			clear1(c.may, e.row)
		}
		b.fuzzy = b.fuzzy || all != some
	}
	b.unknown = b.unknown && !known
	b.classes = append(b.classes, c)
	return true
}

// classCost is what making a class takes, in steps of the budget.
func (b *axisBuilder) classCost() int { return 1 + len(b.entries)/8 + b.words/16 }

// affords reports whether the budget is enough for so many classes more.
func (b *axisBuilder) affords(classes int) bool { return classes <= *b.budget/b.classCost() }

// integers makes the classes of booleans, numbers, dates, segments and time.
func (b *axisBuilder) integers() bool {
	space := intDomain.all()
	switch {
	case b.slot == b.t.model.nowSlot():
		space = intSet{{dateKey(b.now), maxKey}}
	case b.field == nil: // a segment
		space = intSet{{0, 2}}
	case b.field.typ != dateField:
		space = b.field.space()
	}
	cells := setsOf(b.entries, intsOf)
	spans := elementary(cells, intDomain, space)
	if !b.affords(len(spans)) {
		return false
	}
	for _, s := range spans {
		witness, known := b.integerWitness(s)
		test := func(i int) (bool, bool) {
			c := &cells[i]
			in := c.ok && intDomain.contains(c.set, s.lo)
			return in, in || !c.ok
		}
		if !b.add(test, witness, known) {
			return false
		}
	}
	return true
}

// cellSet is the set of keys that meet a cell, if it has one.
type cellSet[K cmp.Ordered] struct {
	set set[K]
	ok  bool
}

func setsOf[K cmp.Ordered](entries []entry, setOf func(*atom) (set[K], bool)) []cellSet[K] {
	cells := make([]cellSet[K], len(entries))
	for i, e := range entries {
		cells[i].set, cells[i].ok = setOf(e.atom)
	}
	return cells
}

// elementary divides a space at the ends of all cells' spans: at 5, 10 and 20+
// for the cells 10.. and 5..20.
func elementary[K cmp.Ordered](cells []cellSet[K], d domain[K], space set[K]) set[K] {
	var cuts []K
	for _, c := range cells {
		for _, sp := range c.set {
			cuts = append(cuts, sp.lo)
			if sp.hi != d.open {
				cuts = append(cuts, sp.hi)
			}
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	var out set[K]
	for _, s := range space {
		for _, cut := range cuts[above(cuts, s.lo):] {
			if s.hi != d.open && cut >= s.hi {
				break
			}
			out = append(out, span[K]{s.lo, cut})
			s.lo = cut
		}
		out = append(out, s)
	}
	return out
}

// integerWitness finds a readable value in a span.
func (b *axisBuilder) integerWitness(s span[int64]) (string, bool) {
	switch {
	case b.slot == b.t.model.nowSlot():
		// Time: the later of now and the beginning of the span.
		return string(appendTime(nil, max(s.lo, dateKey(b.now)), time.UTC)), true
	case b.field == nil, b.field.program != nil:
		return "", false // a segment or a computed field: it follows from fields
	}
	return b.field.integerIn(b.t.model, s, b.now)
}

// integerIn finds a readable boolean, number or date in a span: JSON.
func (f *field) integerIn(m *Model, s span[int64], now time.Time) (string, bool) {
	in := func(k int64) bool { return s.lo <= k && k < s.hi }
	switch f.typ {
	case booleanField:
		return strconv.FormatBool(s.lo == 1), true
	case dateField:
		for _, k := range []int64{s.lo, dateKey(now), s.hi - 1} {
			if in(k) && minDate <= k && k <= maxDate {
				return strconv.Quote(string(appendTime(nil, k, m.location))), true
			}
		}
		return "", false
	}
	lo, hi := numberOf(s.lo), numberOf(s.hi)
	candidates := []float64{lo, hi - 1, 0}
	if !in(numberKey(math.Trunc(lo))) || lo != math.Trunc(lo) {
		candidates = []float64{math.Ceil(lo), lo + 1, math.Floor(hi), hi - 1, 0, (lo + hi) / 2, lo}
	}
	for _, v := range candidates {
		if v-v == 0 && in(numberKey(v)) && f.allowsNumber(v) {
			return string(appendNumber(nil, v)), true
		}
	}
	return "", false
}

// texts makes the classes of text, versions and addresses.
func (b *axisBuilder) texts() bool {
	space := strDomain.all()
	var names map[string]string
	if f := b.field; f.texts != nil {
		names = make(map[string]string, len(f.allowed))
		space = nil
		for _, text := range f.allowed {
			key, _ := f.textKey(text)
			names[key] = text
			space = append(space, point(key))
		}
	}
	cells := setsOf(b.entries, strsOf)
	spans := elementary(cells, strDomain, space)
	if !b.affords(len(spans)) {
		return false
	}
	for _, s := range spans {
		single := isPoint(s)
		test := func(i int) (bool, bool) {
			c := &cells[i]
			switch {
			case c.ok:
				in := strDomain.contains(c.set, s.lo)
				return in, in
			case single:
				in := b.entries[i].atom.more.pred.matchText(s.lo)
				return in, in
			}
			return false, true
		}
		witness, known := names[s.lo]
		if !known {
			witness, known = b.field.textIn(s)
		}
		if b.field.program != nil {
			known = false
		}
		if !b.add(test, quoteJSON(witness), known) {
			return false
		}
	}
	return true
}

// lists makes classes of lists: one for each named element alone, one for an
// element no cell names, and one for all other lists, of which less is known.
func (b *axisBuilder) lists() bool {
	elements := []string{"other"}
	for _, e := range b.entries {
		if texts, ok := elementsOf(e.atom); ok {
			elements = append(elements, texts...)
		}
	}
	slices.Sort(elements)
	elements = slices.Compact(elements)
	if !b.affords(len(elements) + 1) {
		return false
	}
	if b.field.program == nil {
		for _, s := range elements {
			if !b.field.allowsText(s) {
				continue
			}
			v := &value{state: present, key: numberKey(1), list: []string{s}}
			test := func(i int) (bool, bool) {
				a := b.entries[i].atom
				in := a.op == atomAlways || a.op == atomPred && a.more.pred.match(v)
				return in, in
			}
			if !b.add(test, "["+quoteJSON(s)+"]", true) {
				return false
			}
		}
	}
	test := func(i int) (bool, bool) {
		a := b.entries[i].atom
		return a.op == atomAlways, a.op != atomNever
	}
	return b.add(test, "", false)
}

// textIn finds a readable text whose key is in a span.
func (f *field) textIn(s span[string]) (string, bool) {
	set := strSet{s}
	var candidates []string
	switch f.format {
	case semverText:
		candidates = versionsNear(s.lo)
	case addressText:
		candidates = addressesNear(s.lo)
	default:
		stem := strings.TrimRight(s.lo, "\x00")
		candidates = []string{"other", stem, stem + "x", stem + "-x", stem + "0"}
		if stem == "" {
			candidates = []string{"other", "x", "zz", "a", "A", "0", " ", ""}
		}
	}
	for _, c := range candidates {
		if key, ok := f.textKey(c); ok && strDomain.contains(set, key) {
			return c, true
		}
	}
	return "", false
}

// versionsNear returns candidates for a version in a span that begins at a key,
// which may be cut short: those of the key of 2.1 are 2.1.0, 2.1.1, 2.2.0, 3.0.0,
// 2.1.0-0 and 2.1.1-0.
func versionsNear(key string) []string {
	var n [3]int
	for i := range n {
		if key == "" || len(key) <= int(key[0]) {
			key = ""
			break
		}
		digits := key[1 : 1+key[0]]
		key = key[1+len(digits):]
		// A key that bounds a range may have a digit one above 9.
		for _, c := range []byte(digits) {
			n[i] = n[i]*10 + int(c-'0')
		}
		if n[i] > math.MaxInt32 {
			return nil
		}
	}
	format := func(a, b, c int) string {
		return strconv.Itoa(a) + "." + strconv.Itoa(b) + "." + strconv.Itoa(c)
	}
	version := format(n[0], n[1], n[2])
	list := []string{version, format(n[0], n[1], n[2]+1), format(n[0], n[1]+1, 0), format(n[0]+1, 0, 0)}
	if ids := prereleaseOf(key); ids != "" {
		version += "-" + ids
		list = append(list, version, version+".0", version+"0", version+"-", version+"a")
	} else {
		list = append(list, version+"-0")
	}
	return append(list, format(n[0], n[1], n[2]+1)+"-0")
}

// prereleaseOf returns the pre-release at the end of a version's key. A key that
// is cut short gives the identifiers that are whole.
func prereleaseOf(key string) string {
	var ids []string
	for key != "" {
		kind := key[0]
		key = key[1:]
		var id string
		switch {
		case kind == identifierNumber && key != "" && int(key[0]) < len(key):
			id, key = key[1:1+key[0]], key[1+key[0]:]
		case kind == identifierText:
			id, key, _ = strings.Cut(key, string(rune(identifierEnd)))
		default:
			key = ""
		}
		if id != "" {
			ids = append(ids, id)
		}
	}
	return strings.Join(ids, ".")
}

// addressesNear returns candidates for an address in a span that begins at a key,
// which may be cut short.
func addressesNear(key string) []string {
	if key == "" {
		return []string{"0.0.0.0"}
	}
	var a netip.Addr
	switch rest := []byte(key[1:]); {
	case key[0] <= 4:
		a, _ = netip.AddrFromSlice(append(rest, make([]byte, 4)...)[:4])
	default:
		a, _ = netip.AddrFromSlice(append(rest, make([]byte, 16)...)[:16])
	}
	return []string{a.String(), a.Next().String(), "::", "2001:db8::1"}
}

// context returns a context with a value of each class, and the instant for it.
func (z *analyser) context(tuple []*class) (string, time.Time) {
	m := z.t.model
	now := z.a.Now
	members := make([]string, m.declared)
	for i, c := range tuple {
		switch slot := z.axes[i].slot; {
		case slot == m.nowSlot():
			if t, err := time.Parse(time.RFC3339Nano, c.witness); err == nil {
				now = t
			}
		case c.known && int(slot) < m.declared:
			members[slot] = c.witness
		}
	}
	z.solver.complete(members)
	return z.t.contextJSON(members), now
}

// quoteJSON returns a text as a JSON string.
func quoteJSON(s string) string {
	b, _ := json.Marshal(s) // can't fail on a string
	return string(b)
}
