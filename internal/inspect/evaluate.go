package inspect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/internal/prompt"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/valyala/fastjson"
)

// Query asks what a definition answers.
type Query struct {
	Key string
	// Kind is required if definitions of several kinds have the key.
	Kind *kind.Kind
	// Context and Variables are objects, null or nil, as a request has them. Context
	// may also have the gateway's fields, by their names.
	Context, Variables *fastjson.Value
	// At is the instant of the request, for schedules.
	At time.Time
	// Explain asks for Answer.Rows.
	Explain bool
}

// Answer is the answer that a request would get, and why.
type Answer struct {
	Kind     string `json:"kind"` // prompt, endpoint or remoteconfig
	Key      string `json:"key"`
	Version  string `json:"version"`
	Revision string `json:"revision"`
	// Value is the answer of the API; for an endpoint, the prompt that the
	// model is sent. It is empty if there is a Problem.
	Value json.RawMessage `json:"value,omitempty"`
	// Type is the type of a remote configuration.
	Type string `json:"type,omitempty"`
	// Variant is the prompt's variant, and Targets are the models an
	// endpoint would try, in order.
	Variant string   `json:"variant,omitempty"`
	Targets []Target `json:"targets,omitempty"`
	// EndpointVariant is the variant of an endpoint that would call. EndpointRow,
	// EndpointReason and EndpointPosition are the Row, Reason and Position of the
	// endpoint's own table. They are empty for an endpoint without variants.
	EndpointVariant  string `json:"endpoint_variant,omitempty"`
	EndpointRow      string `json:"endpoint_row,omitempty"`
	EndpointReason   string `json:"endpoint_reason,omitempty"`
	EndpointPosition string `json:"endpoint_position,omitempty"`
	// Row is the id of the row that answered, or "default". Position is its
	// place, file:line:column, and Reason the reason as a trace has it.
	Row      string `json:"row"`
	Reason   string `json:"reason"`
	Position string `json:"position,omitempty"`
	// Arm is the arm that a trace would have. For a configuration it is the part of the
	// split that answered, or empty if no split did.
	Arm string `json:"arm,omitempty"`
	// History says where the caller's messages go, and how many. Empty: nowhere.
	History string `json:"history,omitempty"`
	// Accept lists the members that callers may send to an endpoint.
	Accept json.RawMessage `json:"accept,omitempty"`
	// Read are the remote configurations from which variables were taken.
	Read []Read `json:"read,omitempty"`
	// Notes are remarks on the context and on the variables: "field: reason", as
	// a trace has them or, with an explanation, in sentences.
	Notes []string `json:"notes,omitempty"`
	// Problem is the reason why the gateway would refuse the request although
	// the definition exists, such as a missing variable.
	Problem string `json:"problem,omitempty"`
	// Rows explains for each row why it matches or does not. EndpointRows does so for
	// the rows of an endpoint's own table.
	Rows         []Row `json:"rows,omitempty"`
	EndpointRows []Row `json:"endpoint_rows,omitempty"`
}

// Target is a model that an endpoint would try.
type Target struct {
	Provider string `json:"provider"`
	Model    string `json:"model,omitempty"`
	// Weight is the target's weight. Targets with a weight come first, in an order
	// that is drawn for each call.
	Weight int `json:"weight,omitempty"`
}

// Read is a remote configuration from which variables were taken. Its members are
// those of an Answer.
type Read struct {
	Key      string `json:"key"`
	Version  string `json:"version"`
	Row      string `json:"row"`
	Reason   string `json:"reason"`
	Position string `json:"position,omitempty"`
}

// Row is the explanation of a row.
type Row struct {
	Row string `json:"row"`
	// Position is the place of the condition that is not met, or of the row.
	Position string `json:"position"`
	Matched  bool   `json:"matched"`
	// Field, Cell and Value are the first condition that is not met and the
	// value that it was compared with.
	Field string `json:"field,omitempty"`
	Cell  string `json:"cell,omitempty"`
	Value string `json:"value,omitempty"`
}

// KeyError is the error for a key of no definition, or of several.
type KeyError struct{ message string }

// Error returns the message, with the nearest keys.
func (e *KeyError) Error() string { return e.message }

// Evaluate answers a query. The error is a *KeyError, or a *rules.BindError
// for a context that the data model refuses.
func Evaluate(s *definition.Snapshot, q Query) (*Answer, error) {
	def, err := find(s, q.Key, q.Kind)
	if err != nil {
		return nil, err
	}
	var b rules.Binding
	if err := s.Model.Simulate(&b, q.Context, q.At); err != nil {
		return nil, err
	}
	a := &Answer{Kind: def.Kind.String(), Key: def.Key, Version: def.Version, Revision: s.Revision}
	table, decision := inspections[def.Kind].evaluate(a, s, def.Key, &b, q)
	if notes := b.Notes(); q.Explain { // the evaluation may have added some
		a.explainNotes(s.Model, q.Context, notes)
	} else {
		for _, n := range notes {
			a.Notes = append(a.Notes, n.Field+": "+n.Reason)
		}
	}
	a.Reason, a.Row, a.Position = decision.Reason.String(), rowID(table, decision), positionOf(table, decision)
	a.Arm = cmp.Or(a.Variant, table.Arm(decision))
	if q.Explain {
		a.Rows = explain(table.Explain(&b))
	}
	return a, nil
}

// render renders the variant that the context picks.
func (a *Answer) render(s *definition.Snapshot, p *definition.Prompt, b *rules.Binding, variables *fastjson.Value) (*definition.Variant, rules.Decision) {
	variant, decision := p.Select(b)
	a.Variant, a.History = variant.Key, variant.HistoryPlace()
	var values prompt.Values
	err := p.Bind(variant, variables, b, &values)
	if err == nil {
		for _, undeclared := range values.AppendUndeclared(make([][]byte, 0, values.Undeclared())) {
			name := string(undeclared)
			a.Notes = append(a.Notes, "variables."+name+": not declared, so it is not used"+document.DidYouMean(name, p.Variables().Names()))
		}
		for _, name := range values.Empty() {
			a.Notes = append(a.Notes, "variables."+name+": empty")
		}
		for _, c := range values.Read() {
			d := c.Table().EvaluateOnce(b)
			a.Read = append(a.Read, Read{c.Key, s.RemoteConfigs[c.Key].Version, rowID(c.Table(), d), d.Reason.String(), positionOf(c.Table(), d)})
		}
		a.Value, err = variant.AppendJSON(nil, &values)
	}
	if err != nil {
		a.Value, a.Problem = nil, err.Error()
	}
	return variant, decision
}

// noteSentences are the sentences for notes about more than one member of the
// context, by the reason of the note.
var noteSentences = map[string]string{
	rules.NoteRequiredMissing: "context.%s is required, and missing",
	rules.NoteComputedFailed:  "%s: its expression failed, so it counts as missing",
	rules.NoteTooLong:         "%s is longer than patterns look at, so it counts as missing for them",
}

// explainNotes adds notes of a context as sentences, also for members that the data
// model ignores.
func (a *Answer) explainNotes(model *rules.Model, context *fastjson.Value, notes []rules.Note) {
	var mistakes []*rules.BindError
	if context != nil {
		mistakes = model.CheckContext(new(rules.Binding), context)
	}
	for _, e := range mistakes {
		a.Notes = append(a.Notes, e.Message)
	}
	for _, n := range notes {
		if slices.ContainsFunc(mistakes, func(e *rules.BindError) bool { return e.Field == n.Field }) {
			continue
		}
		if sentence, ok := noteSentences[n.Reason]; ok {
			a.Notes = append(a.Notes, fmt.Sprintf(sentence, n.Field))
			continue
		}
		a.Notes = append(a.Notes, n.Field+": "+n.Reason)
	}
}

func explain(e rules.Explanation) (rows []Row) {
	for _, r := range e.Rows {
		row := Row{Row: r.ID, Position: r.Pos.String(), Matched: r.Matched}
		if f := r.Failure; f != nil {
			row.Field, row.Cell, row.Value, row.Position = f.Field, f.Cell, f.Value, f.Pos.String()
		}
		rows = append(rows, row)
	}
	return rows
}

// rowID returns the id of the row that answered.
func rowID(t *rules.Table, d rules.Decision) string {
	if d.Row < 0 {
		return "default"
	}
	return t.Rows()[d.Row].ID
}

// positionOf returns the place of the row that answered, empty for the default.
func positionOf(t *rules.Table, d rules.Decision) string {
	if d.Row < 0 {
		return ""
	}
	return t.Rows()[d.Row].Pos.String()
}

// find finds the definition that a query names by its key or an alias. A folder before
// the key stands for its kind, unless a definition has the whole name.
func find(s *definition.Snapshot, key string, k *kind.Kind) (*definition.Definition, error) {
	named := func(k *kind.Kind) bool { return s.Named(k, key) != nil }
	if folder, rest, ok := strings.Cut(key, "/"); ok && k == nil && !slices.ContainsFunc(kind.All, named) {
		if k = kind.InFolder(folder); k != nil {
			key = rest
		}
	}
	var found []*definition.Definition
	var known []string
	for _, d := range s.Definitions {
		if k != nil && d.Kind != k {
			continue
		}
		known = append(known, d.Key)
		if s.Named(d.Kind, key) == d {
			found = append(found, d)
		}
	}
	switch len(found) {
	case 0:
		what := "definition"
		if k != nil {
			what = k.String()
		}
		slices.Sort(known)
		return nil, &KeyError{fmt.Sprintf("there is no %s %q%s", what, key, document.DidYouMean(key, slices.Compact(known)))}
	case 1:
		return found[0], nil
	}
	words := make([]string, len(found))
	for i, d := range found {
		words[i] = d.Kind.String()
	}
	return nil, &KeyError{fmt.Sprintf("%q is the name of several definitions: give the kind, one of %s", key, strings.Join(words, ", "))}
}

// Counts holds the number of definitions of each kind.
type Counts struct {
	Prompts       int `json:"prompts"`
	Endpoints     int `json:"endpoints"`
	RemoteConfigs int `json:"remoteconfigs"`
	Experiments   int `json:"experiments,omitempty"`
}

// Count counts the definitions of a workspace, and its experiments.
func Count(s *definition.Snapshot) Counts {
	return Counts{len(s.Prompts), len(s.Endpoints), len(s.RemoteConfigs), len(s.Experiments)}
}

// unionKeys returns the keys of two maps in ascending order.
func unionKeys[V any](a, b map[string]V) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.SortFunc(keys, cmp.Compare)
	return slices.Compact(keys)
}
