package rules

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

const (
	// scanRows is up to how many rows scanning is about as fast as the index
	// (BenchmarkScanOrIndex), which takes memory and time to make.
	scanRows = 4
	// maxColumns is the number of columns that are indexed, the ones with most
	// cells first. The cells of others are tested on the rows the index finds.
	maxColumns = 16
	// maxElements is how many known elements of bound lists are looked up.
	// With more of them the rows the index finds are tested.
	maxElements = 16
	// columnBudget is how many bytes the bitmaps of one column may take. In a
	// column that needs more, neighbouring classes share a bitmap, and the rows
	// that it finds are tested. A table with so many texts gets namedRows instead
	// if few rows name each of them.
	columnBudget = 2 << 20
)

// columnKind is how a column finds the bitmap for a value.
type columnKind uint8

const (
	intColumn     columnKind = iota // by the interval an integer key lies in
	strColumn                       // by the interval a string key lies in
	pointColumn                     // by hashing a string key
	elementColumn                   // by hashing each element of a list
	endColumn                       // by the interval a string key read backwards lies in
)

// The first bitmaps of every column.
const (
	missingClass = 0 // no value
	otherClass   = 1 // a value that no cell names; for intervals, the first one
	anyClass     = 2 // of element columns: all rows that some list could match
	firstLiteral = 2 // of point columns
	firstElement = 3 // of element columns
)

// index finds rows by bitmaps. For each column the possible values fall into
// classes: every cell of the column matches either all values of a class or
// none. Each class has a bitmap of the rows whose cell it meets; a row without
// a cell in the column is in all of them.
//
// For example, this table (an index is only made for more than scanRows rows):
//
//	columns: [ plan,        seats,  value ]
//	row 0:   [ pro,         10..20, a ]
//	row 1:   [ [pro, team], any,    b ]
//	row 2:   [ not free,    15..,   c ]
//
// has a point column for plan, whose classes are the texts that cells name:
//
//	missing   other   pro     team    free
//	{}        {2}     {0,1,2} {1,2}   {}
//
// and an interval column for seats, with a bound wherever a cell begins or
// ends (the range 10..20 ends at the next number above 20, here 20+):
//
//	missing   below 10   10..<15   15..20    from 20+
//	{1}       {1}        {0,1}     {0,1,2}   {1,2}
//
// The context {plan: team, seats: 17} is in the classes team and 15..20. One
// AND of their bitmaps, {1,2} and {0,1,2}, leaves {1,2}; the lowest bit is the
// first row that matches: row 1. Whatever the number of rows, evaluation looks
// up one class for each column and combines words of 64 rows.
//
// A cell that no set of classes describes (a regular expression, a second cell
// on the same field) is left out of the bitmaps: its row is in all of them and
// in verify, and its cells are tested when the bitmaps find it.
type index struct {
	words  int // of 64 rows
	budget int
	// maps are the bitmap of all rows and those of all columns. Each column's begin
	// at its start, and each class has one.
	maps    []uint64
	columns []column
	hasList bool // whether one of columns is of lists
	// verify are the rows that have cells that the bitmaps don't decide.
	verify []uint64
	live   []uint64 // all rows
}

// column is the index of one slot.
type column struct {
	kind     columnKind
	slot     int32
	shift    uint8 // 1<<shift neighbouring classes share a bitmap
	ints     []int64
	strs     []string
	texts    textClasses
	elements map[string]uint32 // class
	start    uint32
}

// class returns the class of a value.
func (c *column) class(v *value) uint32 {
	if v.state != present {
		return missingClass
	}
	switch c.kind {
	case intColumn:
		return otherClass + uint32(intsAbove(c.ints, v.key)>>c.shift)
	case strColumn:
		return otherClass + uint32(above(c.strs, v.str)>>c.shift)
	case endColumn:
		var end [maxEnd]byte // no bound is longer
		n := min(len(v.str), len(end))
		for i := range n {
			end[i] = v.str[len(v.str)-1-i]
		}
		return otherClass + uint32(above(c.strs, jsontext.View(end[:n]))>>c.shift)
	}
	return c.texts.find(v.str, uint64(v.key))
}

// above returns how many of the sorted bounds are at most key.
func above[K cmp.Ordered](bounds []K, key K) int {
	n, found := slices.BinarySearch(bounds, key)
	if found {
		n++ // bounds are different
	}
	return n
}

// intsAbove is above without a branch that depends on the key, because the
// processor would mispredict it every other time.
func intsAbove(bounds []int64, key int64) int {
	lo := 0
	for n := len(bounds); n > 0; {
		half := int(uint(n+1) / 2)
		var passed int // 1 when the key is past the lower half
		if bounds[lo+half-1] <= key {
			passed = 1
		}
		lo += half & -passed
		n -= half
	}
	return lo
}

// entry is a cell of a column under construction.
type entry struct {
	row  int32
	atom *atom
}

// newIndex makes the index of a table. budget is how many bytes the bitmaps of
// one column may take.
func newIndex(t *Table, budget int) *index {
	x := &index{words: (len(t.rows) + 63) / 64, budget: budget}
	x.verify = make([]uint64, x.words)
	x.live = make([]uint64, x.words)
	for row := range t.rows {
		set1(x.live, int32(row))
	}
	bySlot := make([][]entry, t.model.nowSlot()+1)
	for row := range t.rows {
		atoms := t.rowAtoms(row)
		for i := range atoms {
			a := &atoms[i]
			e := bySlot[a.slot]
			if a.op == atomEither || a.op == atomConfig || len(e) > 0 && e[len(e)-1].row == int32(row) {
				set1(x.verify, int32(row))
				continue
			}
			bySlot[a.slot] = append(e, entry{int32(row), a})
		}
	}
	var columns []*columnBuilder
	for slot, entries := range bySlot {
		columns = append(columns, x.columnsOf(t.model, int32(slot), entries)...)
	}
	slices.SortStableFunc(columns, func(a, b *columnBuilder) int { return len(b.entries) - len(a.entries) })
	for i, b := range columns {
		if i >= maxColumns {
			for _, e := range b.entries {
				set1(x.verify, e.row)
			}
			continue
		}
		b.build()
	}
	x.assemble(columns[:min(len(columns), maxColumns)])
	return x
}

// assemble sorts the columns by how few rows they let pass, so that most rows
// are excluded early, and joins their bitmaps into one slice.
func (x *index) assemble(columns []*columnBuilder) {
	size := 0
	for _, b := range columns {
		n := 0
		for _, w := range b.maps {
			n += bits.OnesCount64(w)
		}
		b.passes = float64(n) / float64(len(b.maps))
		size += len(b.maps)
	}
	slices.SortStableFunc(columns, func(a, b *columnBuilder) int { return cmp.Compare(a.passes, b.passes) })
	x.maps = append(make([]uint64, 0, len(x.live)+size), x.live...)
	for _, b := range columns {
		b.start = uint32(len(x.maps))
		x.maps = append(x.maps, b.maps...)
		x.columns = append(x.columns, b.column)
		x.hasList = x.hasList || b.kind == elementColumn
	}
}

func set1(words []uint64, row int32) { words[row>>6] |= 1 << (row & 63) }

func clear1(words []uint64, row int32) { words[row>>6] &^= 1 << (row & 63) }
