package rules

import (
	"slices"
	"time"

	"cel.dev/cel-go/cel"
	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
)

// valueState is the state of a slot.
type valueState uint8

const (
	missing valueState = iota
	present
	pending // a field of the gateway, a computed one or a segment that no table has read yet
)

// value is the value of a slot.
type value struct {
	state valueState
	long  bool     // the text, or an element of the list, is too long for patterns
	key   int64    // boolean (0, 1), number, date, segment (0, 1); of a list, its size; of a string, str's hash
	str   string   // string: the key it is compared by
	text  string   // string: as it was sent
	list  []string // list: its elements' keys
}

// Binding is one request's context bound to a model: a typed value or nothing
// per field. It is made for reuse (the zero value is ready) and not safe for
// concurrent use. Its strings are views of the fastjson value it was bound
// from and die with that value's parser.
type Binding struct {
	model      *Model
	hasContext bool
	// simulated reports whether the context has the gateway's fields, too.
	simulated bool
	gateway   Gateway // nil: its fields are missing
	rollouts  []rolloutRow
	values    []value
	notes     []Note
	// buf and items hold what could not be a view. When they grow, earlier
	// strings and lists keep the array that they were made on.
	buf   []byte
	items []string
	// unions are the rows that lists find in the tables that are being evaluated.
	unions []uint64
	// decisions are the answers of prerequisites, each decided once for all
	// rows and tables of the request.
	decisions map[*Table]Decision
	// trail is what evaluations append to while a table is gone through again.
	trail *Trail
	// hashes are those made for traces, in buf, and inputs the slots recorded last.
	hashes []hashed
	inputs []int32
	// computed is the cost of the computed fields so far.
	computed uint64
	// activation shows the binding to CEL. It is part of the binding so that
	// it need not be allocated.
	activation activation
}

// maxNotes bounds the notes that one context can add to a trace.
const maxNotes = 32

// Note is one observation of a binding.
type Note struct {
	Field  string
	Reason string // one of the Note constants
}

// The reasons of notes.
const (
	// NoteTypeMismatch: the value has the wrong type and counts as missing.
	NoteTypeMismatch = "type_mismatch"
	// NoteValueNotAllowed: the value is outside the field's values, min or
	// max and counts as missing; of a list, the element is left out.
	NoteValueNotAllowed = "value_not_allowed"
	// NoteTooLong: the value is longer than patterns look at and counts as
	// missing for cells that have one.
	NoteTooLong = "too_long_for_patterns"
	// NoteRequiredMissing: a required field has no value.
	NoteRequiredMissing = "required_missing"
	// NoteUnknownField: the data model does not have this field.
	NoteUnknownField = "unknown_field"
	// NoteComputedFailed: the expression of a computed field failed though
	// all fields it reads have a value.
	NoteComputedFailed = "computed_failed"
)

// BindError is a context that the model refuses.
type BindError struct {
	Field   string // the member of context, or the path to it
	Message string // the problem and how to mend it

	reason string // one of the Note constants, if it is about a value or a field
	// targeting reports whether targetingKey fills the field.
	targeting bool

	of    *field          // of a value
	value *fastjson.Value // of a value
}

// Error returns the message.
func (e *BindError) Error() string { return e.Message }

// Bind binds a context to the model, replacing what b held. A nil context,
// null or {} is no context. now is the instant at which schedules are evaluated.
// An error is a *BindError with a message for the caller of the API. Apart from
// a context that is no object, it occurs only where the model asks for
// strictness (on_unknown_field: reject, on_type_mismatch: reject).
//
// The fields of the gateway are not bound from the context, whatever it has.
func (m *Model) Bind(b *Binding, context *fastjson.Value, now time.Time) error {
	b.reset(m, now)
	return b.bind(context)
}

// Simulate is Bind for tests and tools: where the context has members with the names
// of the gateway's fields, these give them their values. The others are missing. A
// context with no other member is none, as it would be for the gateway.
func (m *Model) Simulate(b *Binding, context *fastjson.Value, now time.Time) error {
	b.reset(m, now)
	b.simulated = true
	return b.bind(context)
}

func (b *Binding) bind(context *fastjson.Value) error {
	m := b.model
	if context == nil || context.Type() == fastjson.TypeNull {
		return nil
	}
	object, err := context.Object()
	if err != nil {
		return &BindError{Message: "context must be an object"}
	}
	b.hasContext = object.Len() > 0 && !b.simulated
	var refused *BindError
	object.Visit(func(name []byte, v *fastjson.Value) {
		if e := b.bindMember(name, v); e != nil && refused == nil {
			refused = e
		}
	})
	if !b.hasContext {
		if refused != nil {
			return refused // a value that is none of the gateway's
		}
		return nil
	}
	if m.targeting > 0 {
		if e := b.bindTargeting(object); refused == nil {
			refused = e
		}
	}
	for i := range m.fields[:m.sent] {
		if f := &m.fields[i]; f.required && b.values[i].state == missing {
			if m.strict && refused == nil {
				refused = &BindError{Field: f.member(), Message: "context." + f.member() + " is required: give " + f.expected(), reason: NoteRequiredMissing}
				refused.targeting = int32(i) == m.targeting-1 || f.member() == targetingKey
			}
			b.note(f.name, NoteRequiredMissing)
		}
	}
	if refused != nil {
		return refused
	}
	return nil
}

// reset makes b an empty binding to m.
func (b *Binding) reset(m *Model, now time.Time) {
	b.model = m
	b.hasContext, b.simulated = false, false
	b.notes = b.notes[:0]
	b.buf = b.buf[:0]
	b.items = b.items[:0]
	b.unions = b.unions[:0]
	b.hashes = b.hashes[:0]
	b.rollouts = b.rollouts[:0]
	b.trail = nil // of a request that panicked
	clear(b.decisions)
	b.computed = 0
	n := int(m.nowSlot()) + 1
	if cap(b.values) < n {
		b.values = make([]value, n)
	} else {
		b.values = b.values[:n]
		clear(b.values)
	}
	for i := m.sent; i < n-1; i++ {
		b.values[i].state = pending
	}
	b.values[n-1] = value{state: present, key: dateKey(now)}
	b.activation.binding = b
}

// NoContext reports whether the context was absent, null or {}.
func (b *Binding) NoContext() bool { return !b.hasContext }

// Notes returns what binding observed (a value of the wrong type, an unknown
// field under warn), for the trace. Nil for most requests. A later Bind
// overwrites them.
func (b *Binding) Notes() []Note {
	if len(b.notes) == 0 {
		return nil
	}
	return b.notes
}

func (b *Binding) note(field, reason string) {
	if len(b.notes) < maxNotes {
		b.notes = append(b.notes, Note{Field: field, Reason: reason})
	}
}

// noteLong notes, once, that a slot's value is longer than patterns look at.
func (b *Binding) noteLong(slot int32) {
	n := Note{Field: b.model.fields[slot].name, Reason: NoteTooLong}
	if !slices.Contains(b.notes, n) {
		b.note(n.Field, n.Reason)
	}
}

// bindMember binds one member of the context.
func (b *Binding) bindMember(name []byte, v *fastjson.Value) *BindError {
	m := b.model
	slot, ok := m.slots[string(name)]
	if ok && b.simulated && m.isGateway(slot) {
		b.values[slot] = value{}
		return b.bindField(slot, v)
	}
	b.hasContext = true
	if !ok || int(slot) >= m.sent {
		slot = -1
	}
	if len(m.nested) > 0 {
		return b.bindObject(slot, name, v)
	}
	if slot < 0 {
		return b.bindUnknown(name)
	}
	return b.bindField(slot, v)
}

// bindObject binds one member of a context in which fields have paths: the
// member may be a field, and lead to others.
func (b *Binding) bindObject(slot int32, name []byte, v *fastjson.Value) *BindError {
	if slot >= 0 && b.model.fields[slot].path != nil {
		slot = -1
	}
	nested := b.model.nested[string(name)]
	if slot < 0 && nested == nil {
		return b.bindUnknown(name)
	}
	var refused *BindError
	if slot >= 0 {
		refused = b.bindField(slot, v)
	}
	if nested != nil {
		if e := b.bindNested(nested, v); refused == nil {
			refused = e
		}
	}
	return refused
}

// bindField binds a value to a declared field.
func (b *Binding) bindField(slot int32, v *fastjson.Value) *BindError {
	f := &b.model.fields[slot]
	if reason := b.bindValue(f, slot, v); reason != "" {
		return b.mismatch(f, v, reason)
	}
	return nil
}

// mismatch notes or refuses a value that its field does not take.
func (b *Binding) mismatch(f *field, v *fastjson.Value, reason string) *BindError {
	b.note(f.name, reason)
	if !b.model.strict {
		return nil
	}
	message := "context." + f.member() + " must be " + f.expected() + ", this is " + describeJSON(v)
	if reason == NoteValueNotAllowed {
		message = "context." + f.member() + " has a value that its declaration does not allow: " + describeJSON(v)
	}
	return &BindError{Field: f.member(), Message: message, reason: reason, of: f, value: v}
}

// bindUnknown notes or refuses a member that is no field, where the model asks
// for that. It ignores targetingKey: OpenFeature's clients send it unasked.
func (b *Binding) bindUnknown(name []byte) *BindError {
	if b.model.onUnknown == ignorePolicy || string(name) == targetingKey {
		return nil
	}
	return b.unknownField(string(name))
}

// unknownField notes or refuses a member of the context by its path.
func (b *Binding) unknownField(field string) *BindError {
	if len(field) > maxNameLen {
		field = field[:maxNameLen]
	}
	b.note(field, NoteUnknownField)
	if b.model.onUnknown != rejectPolicy {
		return nil
	}
	message := "context." + field + " is not a field of the data model"
	if near := nearestField(b.model, field); near != "" {
		message += ": did you mean " + near + "?"
	}
	return &BindError{Field: field, Message: message, reason: NoteUnknownField}
}

// resolve works out a slot on demand: a field of the gateway, a computed one or a
// segment.
func (b *Binding) resolve(slot int32) {
	if b.values[slot].state != pending {
		return
	}
	m := b.model
	if i := int(slot); i < len(m.fields) {
		b.values[slot] = value{}
		if f := &m.fields[i]; f.gateway != nil {
			b.ask(f, slot)
		} else {
			b.compute(f, slot)
		}
		return
	}
	s := &m.segments[int(slot)-len(m.fields)]
	for _, need := range s.lazy {
		b.resolve(need)
	}
	v := value{state: present}
	if s.match(b) {
		v.key = 1
	}
	b.values[slot] = v
}

// decision returns a table's decision for the binding, evaluated once.
func (b *Binding) decision(t *Table) Decision {
	d, ok := b.decisions[t]
	if !ok {
		trail := b.trail
		b.trail = nil
		d = t.Evaluate(b)
		b.trail = trail
		if b.decisions == nil {
			b.decisions = make(map[*Table]Decision)
		}
		b.decisions[t] = d
	}
	if b.trail != nil {
		b.trail.ask(t, b)
	}
	return d
}

// EvaluateOnce is Evaluate, whose decision the binding keeps for all prerequisites
// and variables that ask for it.
func (t *Table) EvaluateOnce(b *Binding) Decision { return b.decision(t) }

// view returns b.buf from start on as a string.
func (b *Binding) view(start int) string { return jsontext.View(b.buf[start:]) }

// activation shows a binding's fields to CEL programs.
type activation struct{ binding *Binding }

var _ cel.Activation = (*activation)(nil)

// Parent is nil: there are no other variables.
func (a *activation) Parent() cel.Activation { return nil }
