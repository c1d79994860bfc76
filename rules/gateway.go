package rules

import (
	"slices"
	"strings"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// Gateway is the state of the gateway at the instant of a request. A binding
// asks for each value once at most, and only where a table reads it; for budgets again
// after AskAgain.
type Gateway interface {
	// Budget returns the share of a limit that the request's subject has used, in
	// percent, and false where the request has no such subject.
	Budget(limit string) (percent int, ok bool)
	// Down reports whether the calls of a provider, or of one model of it, are
	// left alone, and false for ok if no definition calls it.
	Down(provider, model string) (down, ok bool)
	// Rollout returns how many of the Buckets the new answer of a guarded split has, and
	// the number of the row that says so. ok is false where that is not known. The name is
	// that of the split's definition and the id of its row, as in
	// remoteconfigs/button/colours.
	Rollout(name string) (share int, row int64, ok bool)
}

// The words that the names of the gateway's fields begin with.
const (
	budgetWord  = "budget."
	healthWord  = "health."
	rolloutWord = "rollout."
)

// The values of the fields that begin with health.
const (
	healthUp   = "up"
	healthDown = "down"
)

// GatewayField is the meaning of the name of a field of the gateway.
type GatewayField struct {
	// Limit is the name of a limit; empty for the others.
	Limit string
	// Provider and Model are the target whose health it is. Without a model, it is
	// that of all models of the provider.
	Provider, Model string
	// Rollout is the name of a rollout.
	Rollout string
}

// ParseGatewayField takes the name of a field apart, and reports whether it is the
// gateway's: budget.LIMIT, health.PROVIDER, health.PROVIDER/MODEL or
// rollout.FOLDER/KEY/ID, which the split of that row alone reads.
func ParseGatewayField(name string) (f GatewayField, ok bool) {
	if rollout, ok := strings.CutPrefix(name, rolloutWord); ok {
		f.Rollout = rollout
		return f, strings.Count(rollout, "/") > 1
	}
	if len(name) > maxNameLen {
		return f, false
	}
	if limit, ok := strings.CutPrefix(name, budgetWord); ok {
		f.Limit = limit
		return f, isLimit(limit)
	}
	rest, ok := strings.CutPrefix(name, healthWord)
	if !ok {
		return f, false
	}
	provider, model, one := strings.Cut(rest, "/")
	f.Provider, f.Model = provider, model
	return f, provider != "" && one == (model != "")
}

// isLimit reports whether s can be the name of a limit: 1 to 64 small letters, digits
// and any of _ -.
func isLimit(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// GatewayFields returns the names of the gateway's fields in the table of a definition, or
// in the segments of a data model, each time that it occurs, and those that its guarded
// splits read. name is the definition's name in traces.
func GatewayFields(def *document.Node, name string) []*document.Node {
	var names, guards []*document.Node
	keys := func(cells *document.Node) {
		if cells != nil {
			for _, m := range cells.Members {
				names = append(names, m.Key)
			}
		}
	}
	if columns := def.Get("columns"); columns != nil {
		names = append(names, columns.Items...)
	}
	if rules := def.Get("rules"); rules != nil {
		for _, rule := range rules.Items {
			keys(rule.Get("when"))
			if guard, id := rule.Get("split").Get("guard"), rule.Get("id"); guard != nil && id != nil {
				guards = append(guards, &document.Node{Shape: document.Scalar, Pos: guard.Pos, Text: rolloutField(name, id.Text)})
			}
		}
	}
	if segments := def.Get("segments"); segments != nil {
		for _, segment := range segments.Members {
			for _, row := range segment.Value.Items {
				keys(row)
			}
		}
	}
	names = slices.DeleteFunc(names, func(name *document.Node) bool {
		f, ok := ParseGatewayField(name.Text)
		return !ok || f.Rollout != "" || name.Shape != document.Scalar
	})
	return append(names, guards...)
}

// rolloutField returns the name of the field that the guarded split of a row reads.
func rolloutField(definition, id string) string { return rolloutWord + definition + "/" + id }

// addGateway gives the model the gateway's fields that tables name. Fields that the
// data model declares or computes under such a name come first: a table then reads
// what callers send.
func (m *Model) addGateway(names []*document.Node, computed *document.Node, errs *document.Errors) {
	for _, name := range names {
		self, ok := ParseGatewayField(name.Text)
		if _, taken := m.slots[name.Text]; !ok || taken || computed.Get(name.Text) != nil {
			continue
		}
		if len(m.fields)-m.sent == maxFields {
			errs.Add(name, "the tables read more than %d fields of the gateway", maxFields)
			return
		}
		f := newField(name.Text, name, false)
		f.gateway, f.trace = &self, traceValue
		switch {
		case self.Limit != "":
			f.typ, f.min = numberField, 0
		case self.Rollout != "":
			f.typ, f.min, f.max = numberField, 0, Buckets
		default:
			f.allowed = []string{healthUp, healthDown}
			f.texts = map[string]struct{}{healthUp: {}, healthDown: {}}
		}
		m.slots[f.name] = int32(len(m.fields))
		m.fields = append(m.fields, f)
	}
}

// isGateway reports whether a slot is that of a field of the gateway.
func (m *Model) isGateway(slot int32) bool { return int(slot) >= m.sent && int(slot) < m.declared }

// isRollout reports whether a slot is that of a rollout's share, which no cell names.
func (m *Model) isRollout(slot int32) bool {
	return m.isGateway(slot) && m.fields[slot].gateway.Rollout != ""
}

// NoteNoContext is the note in traces for an answer to a request without a context, if
// a table reads a field of the gateway and so was tried.
const NoteNoContext = "context: none"

// SetGateway gives the binding the state of the gateway. Bind leaves it as
// it is; without one these fields are missing.
func (b *Binding) SetGateway(g Gateway) { b.gateway = g }

// AskAgain makes the binding forget the budgets and the decisions based on them, so
// that the next table asks the gateway again. The share of a rollout stays as it was: two
// answers of one binding are of the same step.
func (b *Binding) AskAgain() {
	m := b.model
	for slot := range b.values[:m.nowSlot()] {
		if slot >= len(m.fields) || m.fields[slot].gateway != nil && m.fields[slot].gateway.Limit != "" {
			b.values[slot] = value{state: pending} // a segment may have read one
		}
	}
	clear(b.decisions)
}

// ask binds a field of the gateway.
func (b *Binding) ask(f *field, slot int32) {
	switch self := f.gateway; {
	case b.gateway == nil:
	case self.Limit != "":
		if percent, ok := b.gateway.Budget(self.Limit); ok {
			b.setNumber(f, slot, float64(percent))
		}
	case self.Rollout != "":
		if share, row, ok := b.gateway.Rollout(self.Rollout); ok && b.setNumber(f, slot, float64(share)) == "" {
			b.rollouts = append(b.rollouts, rolloutRow{slot, row})
		}
	default:
		down, ok := b.gateway.Down(self.Provider, self.Model)
		switch {
		case ok && down:
			b.setText(f, slot, healthDown)
		case ok:
			b.setText(f, slot, healthUp)
		}
	}
}

// rolloutRow is the number of the row that gave a rollout its share.
type rolloutRow struct {
	slot   int32
	number int64
}

// rolloutRow returns the number of the row that gave the slot of a rollout its share, and 0
// where that is not known.
func (b *Binding) rolloutRow(slot int32) int64 {
	for _, r := range b.rollouts {
		if r.slot == slot {
			return r.number
		}
	}
	return 0
}

// ReadsGateway reports whether the table reads the budget of a limit or the health of a
// target, also by way of segments and prerequisites. Such a table is tried without a
// context, too: the fields of the caller are then missing. The share of a rollout is no
// reason to: without a context there is no unit to divide.
func (t *Table) ReadsGateway() bool { return t.gateway }

// tries reports whether the table's rows are tried for a binding.
func (t *Table) tries(b *Binding) bool { return (b.hasContext || t.gateway) && b.model == t.model }

// contextJSON is ContextJSON for requests that come to the table: to one that reads a
// field of the gateway, requests without a context included.
func (t *Table) contextJSON(members []string) string {
	if t.gateway && !isGiven(members) {
		return "{}"
	}
	return t.model.ContextJSON(members)
}

// isGiven reports whether some of the values of fields are there.
func isGiven(members []string) bool {
	return slices.ContainsFunc(members, func(v string) bool { return v != "" })
}

// insists reports whether requests without a field do not come to the table. Those
// without a context are not refused, and come to a table that reads the gateway's.
func (t *Table) insists(f *field) bool { return f.required && t.model.strict && !t.gateway }
