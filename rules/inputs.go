package rules

import (
	"slices"
	"strconv"
	"time"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// maxInput is how many bytes of JSON a value has at most that is recorded as it is.
const maxInput = 256

// HashFunc appends the hash of a field's value to dst, as trace.Hasher does: some
// characters that JSON need not escape. text is only valid during the call.
type HashFunc func(dst []byte, field, text string) []byte

// hashed is the hash of a slot's value.
type hashed struct {
	slot int32
	text []byte
}

// AppendInputs appends, as a JSON object, the values of the declared fields and of the
// gateway's that the table and the tables in also read: by their cells, segments,
// computed fields and splits, but not by prerequisites, which belong into also where
// they were consulted ([Trail.Asked]). The fields that the data model has traces record
// always, and its unit, are added. Fields come in the order of the data model. A field without a value,
// or with trace: none, is left out, and one with trace: hash is {"hash": …}, as is a
// value whose JSON is longer than 256 bytes.
//
// It appends nothing where there are no such fields, and without a context unless a
// table reads a field of the gateway. All
// calls for one binding must give the same hash function: the binding keeps its
// results, since several answers often record the same field. It does not allocate
// once the binding has grown.
func (t *Table) AppendInputs(dst []byte, b *Binding, also []*Table, hash HashFunc) []byte {
	if !t.tries(b) && !slices.ContainsFunc(also, func(other *Table) bool { return other.tries(b) }) {
		return dst
	}
	slots := t.own
	if always := b.model.always; len(also)+len(always) > 0 {
		b.inputs = append(append(b.inputs[:0], slots...), always...)
		for _, other := range also {
			b.inputs = append(b.inputs, other.own...)
		}
		slices.Sort(b.inputs)
		slots = slices.Compact(b.inputs)
	}
	if len(slots) == 0 {
		return dst
	}
	dst = append(dst, '{')
	empty := len(dst)
	for _, slot := range slots {
		f := &b.model.fields[slot]
		if b.values[slot].state != present || f.trace == traceNone {
			continue
		}
		if len(dst) > empty {
			dst = append(dst, ',')
		}
		dst = append(jsontext.AppendString(dst, f.name), ':')
		start := len(dst)
		if f.trace == traceValue && !b.isLargeInput(slot) {
			if dst = b.appendJSON(dst, slot); len(dst)-start <= maxInput {
				continue
			}
		}
		dst = append(dst[:start], `{"hash":"`...)
		dst = append(b.appendHash(dst, slot, hash), `"}`...)
	}
	return append(dst, '}')
}

// isLargeInput reports whether a value is certainly longer than inputs are.
func (b *Binding) isLargeInput(slot int32) bool {
	v := &b.values[slot]
	return len(v.text) > maxInput || len(v.list) > maxInput || slices.ContainsFunc(v.list, func(s string) bool { return len(s) > maxInput })
}

// appendJSON appends the value of a field that has one as JSON.
func (b *Binding) appendJSON(dst []byte, slot int32) []byte {
	v := &b.values[slot]
	switch b.model.fields[slot].typ {
	case booleanField:
		return strconv.AppendBool(dst, v.key == 1)
	case dateField:
		return append(appendTime(append(dst, '"'), v.key, time.UTC), '"')
	case numberField:
		return appendNumber(dst, numberOf(v.key))
	case listField:
		dst = append(dst, '[')
		for i, item := range v.list {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = jsontext.AppendString(dst, item)
		}
		return append(dst, ']')
	}
	return jsontext.AppendString(dst, v.text)
}

// appendHash appends the hash of a field that has a value: of the text that splits
// hash, or for a type that they do not take, of its JSON.
func (b *Binding) appendHash(dst []byte, slot int32, hash HashFunc) []byte {
	for _, h := range b.hashes {
		if h.slot == slot {
			return append(dst, h.text...)
		}
	}
	f, start := &b.model.fields[slot], len(b.buf)
	var text string
	if f.typ == stringField {
		text = b.unit(slot)
	} else {
		b.buf = b.appendJSON(b.buf, slot)
		text = b.view(start)
	}
	from := len(dst)
	dst = hash(dst, f.name, text)
	b.buf = append(b.buf[:start], dst[from:]...)
	b.hashes = append(b.hashes, hashed{slot, b.buf[start:len(b.buf):len(b.buf)]})
	return dst
}

// unit returns the text of a string field as splits hash it.
func (b *Binding) unit(slot int32) string {
	if b.model.fields[slot].foldCase {
		return b.values[slot].str
	}
	return b.values[slot].text
}

// records reports whether traces have anything of a field, declared or computed.
func (f *field) records(m *Model) bool {
	return f.trace != traceNone && !slices.ContainsFunc(f.reads, func(slot int32) bool { return m.fields[slot].trace == traceNone })
}

// AppendUnit binds a value to a field alone, and appends the hash that the splits of traces
// have in place of it as their unit. Its error is a *BindError without a field.
func (m *Model) AppendUnit(dst []byte, b *Binding, name string, v *fastjson.Value, hash HashFunc) ([]byte, error) {
	slot, err := m.bindUnit(b, name, v)
	if err != nil {
		return dst, err
	}
	return b.appendHash(dst, slot, hash), nil
}

// RecordedUnit returns the hash of AppendUnit for a text, and the value's JSON as inputs of
// traces have it. clear reports whether they have it, or only the hash.
func (m *Model) RecordedUnit(name, text string, hash HashFunc) (unit, value string, clear bool, err error) {
	b := new(Binding)
	slot, err := m.bindUnit(b, name, fastjson.MustParseBytes(jsontext.AppendString(nil, text)))
	if err != nil {
		number, notJSON := fastjson.Parse(text) // a field without coerce takes no number as text
		if notJSON != nil {
			return "", "", false, err
		}
		if slot, err = m.bindUnit(b, name, number); err != nil {
			return "", "", false, err
		}
	}
	return string(b.appendHash(nil, slot, hash)), string(b.appendJSON(nil, slot)), m.fields[slot].trace == traceValue, nil
}

func (m *Model) bindUnit(b *Binding, name string, v *fastjson.Value) (int32, error) {
	slot, ok := m.slots[name]
	if !ok || int(slot) >= m.sent {
		message := "is not a declared field of the data model"
		if near := document.Nearest(name, m.FieldNames()); near != "" {
			message += ": did you mean " + near + "?"
		}
		return 0, &BindError{Message: message}
	}
	f := &m.fields[slot]
	switch {
	case f.typ != stringField && f.typ != numberField:
		return 0, &BindError{Message: "is " + f.kind() + ", and splits go by a string or number"}
	case f.trace == traceNone:
		return 0, &BindError{Message: "has trace: none, so nothing of its values is kept"}
	}
	b.reset(m, time.Time{})
	switch reason := b.bindValue(f, slot, v); {
	case reason == NoteValueNotAllowed:
		return 0, &BindError{Message: "has a value that its declaration does not allow: " + describeJSON(v)}
	case reason != "" || b.values[slot].state != present:
		return 0, &BindError{Message: "must be " + f.expected() + ", this is " + describeJSON(v)}
	}
	return slot, nil
}
