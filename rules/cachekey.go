package rules

import (
	"encoding/binary"
	"slices"
)

// AppendKey appends all that the table's answer depends on: of the binding, the
// fields in Fields; of the time, which rows are active and how far ramps have
// come. All bindings to the same model with the same key get the same decision.
func (t *Table) AppendKey(dst []byte, b *Binding) []byte {
	if !t.tries(b) {
		return append(dst, 0)
	}
	dst = append(dst, 1)
	for _, slot := range t.rollouts {
		b.resolve(slot)
	}
	for _, slot := range t.reads {
		dst = b.appendKey(dst, slot)
	}
	now := b.values[t.model.nowSlot()].key
	for _, s := range t.timed {
		dst = s.appendSchedule(dst, now)
	}
	return dst
}

// Cacheable reports whether a decision for the binding may be reused for a
// binding with the same key. It may not if it leaves a note, which would be lost,
// if an expression reads the instant, or if the table reads a field of the gateway, of
// which AppendKey asks for the shares of rollouts alone.
func (t *Table) Cacheable(b *Binding) bool {
	return b.model == t.model && !t.readsNow && !t.gateway && !slices.ContainsFunc(t.patterned, func(slot int32) bool { return b.values[slot].long })
}

// appendKey appends the value of a declared field. No two values, and no two
// sequences of values, give the same bytes.
func (b *Binding) appendKey(dst []byte, slot int32) []byte {
	v := &b.values[slot]
	dst = append(dst, byte(v.state))
	if v.state != present {
		return dst
	}
	switch b.model.fields[slot].typ {
	case booleanField, dateField, numberField:
		return binary.BigEndian.AppendUint64(dst, uint64(v.key))
	case listField:
		dst = binary.AppendUvarint(dst, uint64(len(v.list)))
		for _, item := range v.list {
			dst = appendText(dst, item)
		}
		return dst
	}
	// The text as sent, not the key: expressions and splits see it.
	return appendText(dst, v.text)
}

func appendText(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// appendSchedule appends which of the table's own rows are active and how far
// its ramps have come.
func (t *Table) appendSchedule(dst []byte, now int64) []byte {
	if len(t.instants) > 0 {
		dst = binary.AppendUvarint(dst, uint64(above(t.instants, now)))
	}
	for _, r := range t.ramps {
		dst = binary.AppendUvarint(dst, uint64(r.at(now)))
	}
	return dst
}

// What parts of an evaluation take, in nanoseconds on one core of a small server.
const (
	costScanCell  = 3
	costColumn    = 12
	costWords     = 6 // words of a bitmap that are combined in a nanosecond
	costPattern   = 100
	costComputed  = 500
	costSegment   = 10
	costRowToTest = 15
)

// Cost estimates what Evaluate takes, in nanoseconds, for deciding whether its
// answers are worth caching. Only orders of magnitude are meant.
func (t *Table) Cost() int { return t.cost }

// maxTableCost keeps the costs of tables that ask each other over many paths
// from overflowing.
const maxTableCost = 1 << 30

// estimate works out Cost of a table that is finished but for that.
func (t *Table) estimate() int {
	m := t.model
	cost := t.estimateSearch()
	for _, slot := range t.lazy {
		if int(slot) < len(m.fields) {
			cost += costComputed
			continue
		}
		s := &m.segments[int(slot)-len(m.fields)]
		cost += costSegment * (len(s.rows) + len(s.lazy))
		for _, need := range s.lazy {
			if int(need) < len(m.fields) {
				cost += costComputed
			}
		}
	}
	for _, n := range t.nested {
		cost = min(cost+n.cost, maxTableCost)
	}
	return cost
}

// estimateSearch returns the part of Cost that finding a row takes.
func (t *Table) estimateSearch() int {
	x := t.index
	switch {
	case t.named != nil:
		return costColumn + costRowToTest*(1+len(t.named.others))
	case x == nil:
		return estimateRow(t.atoms)
	}
	cost := len(x.columns) * (costColumn + x.words/costWords)
	for i := range t.atoms {
		if t.atoms[i].looksAtText() {
			cost += costPattern
		}
	}
	for i := range x.columns {
		if x.columns[i].shift > 0 {
			cost += costRowToTest << x.columns[i].shift
		}
	}
	return cost
}

// estimateRow estimates what testing atoms one by one takes.
func estimateRow(atoms []atom) int {
	cost := len(atoms) * costScanCell
	for i := range atoms {
		if atoms[i].looksAtText() {
			cost += costPattern
		}
	}
	return cost
}

// looksAtText reports whether the time that a test takes grows with the text.
func (a *atom) looksAtText() bool {
	return a.op == atomPred && a.more.pattern
}
