package rules

import (
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// The form in which a field is recorded follows from its type unless the field
// sets it.
func TestTraceModes(t *testing.T) {
	m := model(t, `
fields:
  plan:    { type: string, values: [free, pro] }
  flag:    boolean
  id:      string
  seats:   { type: number, values: [1, 2] }
  tags:    { type: list, values: [a, b] }
  since:   date
  open:    { type: string, trace: value }
  secret:  { type: boolean, trace: none }
  closed:  { type: string, values: [a], trace: hash }
`)
	want := map[string]traceMode{
		"plan": traceValue, "flag": traceValue, "id": traceHash, "seats": traceHash, "tags": traceHash, "since": traceHash,
		"open": traceValue, "secret": traceNone, "closed": traceHash,
	}
	for i := range m.fields {
		if f := &m.fields[i]; f.trace != want[f.name] {
			t.Errorf("%s: %d, want %d", f.name, f.trace, want[f.name])
		}
	}
}

func TestTraceMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"fields: { a: { type: string, trace: hsah } }":                     `context.yaml:1:37: trace must be one of value, hash, none, this is "hsah": did you mean "hash"?`,
		"fields: { a: { type: string, trace: true } }":                     `context.yaml:1:37: trace must be one of value, hash, none, this is "true"`,
		"fields: { a: { type: string, trce: none } }":                      `context.yaml:1:30: unknown member "trce" in the field "a": did you mean "trace"?`,
		"fields: { a: string }\ncomputed: { b: { expr: a, trace: none } }": `context.yaml:2:34: trace does not apply to the computed field "b", of which nothing is recorded: give it to the fields that the expression reads`,
	} {
		var errs document.Errors
		DecodeModel(parseYAML(t, "context.yaml", text), nil, &errs)
		if got := mistakes(&errs); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
