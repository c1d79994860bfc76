package rules

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/valyala/fastjson"
)

// CheckContext returns the mistakes in the context of a test: members that are no
// field, and values that their field does not take. A request with them is
// answered, unless the model asks for strictness, so a test with them passes and
// says nothing. A required field may be missing. There is one error at most for
// each member of the context. The context may have the gateway's fields that tables
// read, as in Simulate. CheckContext binds it to b.
func (m *Model) CheckContext(b *Binding, context *fastjson.Value) []*BindError {
	object, err := context.Object()
	if err != nil {
		return nil // which Bind refuses
	}
	strict := *m
	strict.onUnknown, strict.strict = rejectPolicy, true
	b.reset(&strict, time.Time{})
	b.simulated = true
	var list []*BindError
	object.Visit(func(name []byte, v *fastjson.Value) {
		if e := b.bindMember(name, v); e != nil {
			e.Message = m.explain(e)
			list = append(list, e)
		}
	})
	return list
}

// Unknown reports whether the error is about a member that is no field.
func (e *BindError) Unknown() bool { return e.reason == NoteUnknownField }

// explain returns the message of a BindError with the data model's advice to
// mend it.
func (m *Model) explain(e *BindError) string {
	what := "context." + e.Field
	switch e.reason {
	case NoteUnknownField:
		if slot, known := m.slots[e.Field]; known && int(slot) >= m.declared {
			return what + " is computed by the data model: a request does not send it"
		} else if known {
			return what + " is not where the field is: it is read from context." + m.fields[slot].member()
		}
		members := make([]string, m.declared)
		for i := range members {
			members[i] = m.fields[i].member()
		}
		if e.Field+"." == budgetWord || e.Field+"." == healthWord {
			for _, name := range m.GatewayNames() {
				if strings.HasPrefix(name, e.Field+".") {
					return what + " is not a field of the data model: a field of the gateway is one member, such as " + name
				}
			}
		}
		if _, ok := ParseGatewayField(e.Field); ok {
			return what + " is a field of the gateway that no table reads" + document.DidYouMean(e.Field, members)
		}
		return what + " is not a field of the data model" + document.DidYouMean(e.Field, members)
	case NoteValueNotAllowed:
		switch f := e.of; {
		case f.allowed != nil:
			verb := " must be"
			if f.typ == listField {
				verb = " must be a list of"
			}
			return what + verb + valuesText(f.allowed) + ", this is " + describeJSON(e.value) + nearestTo(e.value, f.allowed)
		case f.typ == numberField:
			return what + " must be a number" + f.bounds() + ", this is " + describeJSON(e.value)
		}
	}
	return e.Message
}

// valuesText returns the text for closed values, of which it lists some.
func valuesText(values []string) string {
	const limit = 12
	if len(values) > limit {
		return " one of " + strings.Join(values[:limit], ", ") + ", …"
	}
	return " one of " + strings.Join(values, ", ")
}

// nearestTo returns the question for the closed value that a text is nearest to.
func nearestTo(v *fastjson.Value, values []string) string {
	text, err := v.StringBytes()
	if err != nil {
		return ""
	}
	if best := document.Nearest(string(text), values); best != "" {
		return ": did you mean " + strconv.Quote(best) + "?"
	}
	return ""
}

// bounds returns the text for the bounds of a number.
func (f *field) bounds() string {
	text := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	switch {
	case math.IsInf(f.min, -1):
		return " up to " + text(f.max)
	case math.IsInf(f.max, 1):
		return " from " + text(f.min)
	}
	return " from " + text(f.min) + " to " + text(f.max)
}
