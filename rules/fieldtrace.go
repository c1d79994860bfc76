package rules

import (
	"slices"
	"strconv"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// traceMode is the form in which a trace records a field that a decision read.
type traceMode uint8

const (
	traceValue traceMode = iota + 1 // the value
	traceHash                       // a keyed hash of it
	traceNone                       // nothing
)

// traceModes are the modes' words, in the order of the constants.
var traceModes = []string{"value", "hash", "none"}

// decodeTrace reads the form in which a trace records the field.
func (f *field) decodeTrace(n *document.Node, errs *document.Errors) {
	if n == nil {
		return
	}
	if word, ok := n.ReadWord(errs, "trace", traceModes...); ok {
		f.trace = traceMode(slices.Index(traceModes, word) + 1)
	}
}

// decodeAlways reads the fields that every trace records, and takes over the slots behind
// them. The unit of the data model is one of them: without it, nobody can tell whether a
// trace is of a unit. It follows the computed fields, of which traces have what they read.
func (m *Model) decodeAlways(n *document.Node, errs *document.Errors) {
	if unit := m.unit - 1; unit >= 0 && m.fields[unit].trace != traceNone {
		m.always = append(m.always, unit)
	}
	if n == nil || !n.CheckMembers(errs, "trace", "always") {
		return
	}
	always := n.Get("always")
	if always.IsNull() {
		return
	}
	if always.Shape != document.Sequence {
		errs.Add(always, "trace.always must be a list of fields such as [customer_id, plan], this is %s", always.Shape)
		return
	}
	for _, item := range always.Items {
		name, ok := item.ReadString(errs, "a field of trace.always")
		if !ok {
			continue
		}
		slot, known := m.lookupField(item, nil, errs)
		switch {
		case !known:
		case m.isGateway(slot):
			errs.Add(item, "%s is a field of the gateway, which a trace has where a table read it: trace.always takes declared and computed fields", strconv.Quote(name))
		case !m.fields[slot].records(m):
			errs.Add(item, "trace.always has %s, of which trace: none records nothing: give the field, or those that its expression reads, trace: hash or value, or leave it out", strconv.Quote(name))
		default:
			m.fields[slot].always = true
			m.always = append(m.always, m.readsOf(slot)...)
		}
	}
	slices.Sort(m.always)
	m.always = slices.Compact(m.always)
}

// defaultTrace returns the mode of a field that gives none. Only values that the
// data model itself lists can't identify a person.
func (f *field) defaultTrace() traceMode {
	if f.typ == booleanField || f.typ == stringField && f.allowed != nil {
		return traceValue
	}
	return traceHash
}
