package rules

import (
	"time"

	"github.com/valyala/fastjson"
)

// Held are the values that some fields of a context must have, whatever its sender
// says. It is safe for concurrent use.
type Held struct {
	fields []heldField
}

type heldField struct {
	slot int32
	path []string
	json string // the value
	key  []byte // as Binding.appendKey writes it
}

// Hold adds that a field has the value that a text stands for. An error is a
// *BindError, if the model has no such field, or the field does not take the value.
func (h *Held) Hold(m *Model, name, text string) error {
	slot, known := m.slots[name]
	if !known || int(slot) >= m.sent {
		e := &BindError{Field: name, reason: NoteUnknownField}
		e.Message = m.explain(e)
		return e
	}
	f := &m.fields[slot]
	if f.typ == listField {
		return &BindError{Field: f.member(), Message: "context." + f.member() + " is a list: only a field with one value can be held to it"}
	}
	held := heldField{slot: slot, path: f.members()}
	var arena fastjson.Arena
	value := arena.NewString(text)
	if f.typ == numberField || f.typ == booleanField {
		if v, err := fastjson.Parse(text); err == nil && v.Type() != fastjson.TypeObject && v.Type() != fastjson.TypeArray && v.Type() != fastjson.TypeNull {
			value = v
		}
	}
	held.json = string(value.MarshalTo(nil))
	strict := *m
	strict.strict = true
	var b Binding
	b.reset(&strict, time.Time{})
	if e := b.bindField(slot, value); e != nil {
		e.Message = m.explain(e)
		return e
	}
	held.key = b.appendKey(nil, slot)
	h.fields = append(h.fields, held)
	return nil
}

// Bind is Model.Bind for a context whose absent fields are filled in with the
// values that are held. It returns the context with them. Another value of such a
// field is a *BindError.
func (h *Held) Bind(m *Model, b *Binding, context *fastjson.Value, now time.Time) (*fastjson.Value, error) {
	context = h.fill(context)
	if err := m.Bind(b, context, now); err != nil {
		return context, err
	}
	// Compare the values that tables see: a member may be there twice.
	var key []byte
	for i := range h.fields {
		f := &h.fields[i]
		if key = b.appendKey(key[:0], f.slot); string(key) != string(f.key) {
			member := m.fields[f.slot].member()
			return context, &BindError{Field: member, Message: "context." + member + " must be " + f.json + ", which the API key is bound to: send that or leave it out"}
		}
	}
	return context, nil
}

// fill returns the context with the fields that it lacks, in a copy if it lacks any.
func (h *Held) fill(context *fastjson.Value) *fastjson.Value {
	copied := false
	for i := range h.fields {
		f := &h.fields[i]
		if present := context.Get(f.path...); present != nil && present.Type() != fastjson.TypeNull {
			continue
		}
		if !copied {
			text := []byte("{}")
			if context != nil {
				text = context.MarshalTo(nil)
			}
			context, copied = fastjson.MustParseBytes(text), true
		}
		at := context
		for _, name := range f.path[:len(f.path)-1] {
			next := at.Get(name)
			if next == nil || next.Type() == fastjson.TypeNull {
				next = fastjson.MustParse("{}")
				at.Set(name, next)
			}
			at = next
		}
		if at.Type() == fastjson.TypeObject {
			at.Set(f.path[len(f.path)-1], fastjson.MustParse(f.json))
		}
	}
	return context
}
