package rules

import (
	"strconv"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/valyala/fastjson"
)

// targetingKey is the member of a context by which OpenFeature's clients say whom they
// ask for.
const targetingKey = "targetingKey"

// decodeTargeting reads which field the targetingKey of a context fills.
func (m *Model) decodeTargeting(n *document.Node, errs *document.Errors) {
	if _, ok := n.ReadString(errs, "targeting_key"); !ok {
		return
	}
	slot, known := m.lookupField(n, nil, errs)
	if !known {
		return
	}
	own, taken := m.slots[targetingKey]
	switch f := &m.fields[slot]; {
	case f.typ != stringField:
		errs.Add(n, "targeting_key must name a field of type string, %s is %s", strconv.Quote(f.name), f.typ.article())
	case taken && own != slot || m.nested[targetingKey] != nil:
		errs.Add(n, "a field is read from context.%s already: leave targeting_key out", targetingKey)
	default:
		m.targeting = slot + 1
	}
}

// bindTargeting binds the targetingKey of a context to the field that it fills, unless the
// context has a value of the field.
func (b *Binding) bindTargeting(context *fastjson.Object) *BindError {
	slot := b.model.targeting - 1
	if b.values[slot].state != missing {
		return nil
	}
	v := context.Get(targetingKey)
	if v == nil || v.Type() == fastjson.TypeNull || b.model.fields[slot].name == targetingKey {
		return nil
	}
	return b.bindField(slot, v)
}

// TargetingKeyMissing reports whether the context lacks a required field that
// OpenFeature's targetingKey fills.
func (e *BindError) TargetingKeyMissing() bool { return e.reason == NoteRequiredMissing && e.targeting }
