package rules

import (
	"encoding/binary"
	"strconv"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// decodeUnit reads which field has the units where no split decides.
func (m *Model) decodeUnit(n *document.Node, errs *document.Errors) {
	if _, ok := n.ReadString(errs, "unit"); !ok {
		return
	}
	slot, known := m.lookupField(n, nil, errs)
	if !known {
		return
	}
	if f := &m.fields[slot]; f.typ != stringField && f.typ != numberField {
		errs.Add(n, "unit must name a field of type string or number, %s is %s", strconv.Quote(f.name), f.typ.article())
		return
	}
	m.unit = slot + 1
}

// Unit returns the name of the field that has the units where no split decides, or "".
func (m *Model) Unit() string {
	if m.unit == 0 {
		return ""
	}
	return m.fields[m.unit-1].name
}

// AppendExposure appends what makes two answers of the table the same for a unit: the row,
// the outcome, the reason and the unit, which is the value of the field of the split that decided, or
// else of the data model's unit. Of a guarded split it is the number of its rollout's row, too:
// at another share the unit may be compared. It reports whether there is a unit.
func (t *Table) AppendExposure(dst []byte, d Decision, b *Binding) (_ []byte, ok bool) {
	dst = binary.AppendVarint(dst, int64(d.Row))
	dst = append(binary.AppendVarint(dst, int64(d.Outcome)), byte(d.Reason))
	slot := t.model.unit - 1
	if d.Row >= 0 && t.answers[d.Row].split != nil {
		s := t.answers[d.Row].split
		if slot = s.by; s.guarded {
			dst = binary.AppendVarint(dst, b.rolloutRow(s.rollout))
		}
	}
	if slot < 0 || b.model != t.model || b.values[slot].state != present {
		return append(dst, 0), false
	}
	v := &b.values[slot]
	dst = binary.AppendUvarint(dst, 1+uint64(slot))
	if t.model.fields[slot].typ == numberField {
		return binary.BigEndian.AppendUint64(dst, uint64(v.key)), true
	}
	return append(dst, b.unit(slot)...), true
}
