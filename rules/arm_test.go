package rules

import (
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

// The arm of a configuration is the name of the part of a split, else its number
// in the file: a part without buckets counts, so that giving it some changes no
// other's number.
func TestArm(t *testing.T) {
	m := model(t, "fields: { plan: string, u: string }")
	const text = `
rules:
  - { id: plain, when: { plan: a }, value: x }
  - { id: first, when: { plan: b }, split: { by: u, of: [{ value: x, share: 0%, name: none }, { value: y, share: 0% }, { value: x, share: 100% }] } }
  - { id: named, when: { plan: c }, split: { by: u, salt: s, of: [{ value: z, share: 0% }, { value: x, share: 100%, name: blue }] } }
  - { id: ramp, when: { plan: d }, ramp: { by: u, start: 2026-01-01, end: 2026-01-02 }, value: v }
`
	tab := table(t, m, text)
	for _, tt := range []struct{ plan, arm, salt string }{{"a", "", ""}, {"b", "3", "first"}, {"c", "blue", "s"}, {"d", "1", "ramp"}, {"e", "", ""}} {
		d := tab.Evaluate(bind(t, m, `{"u":"1","plan":"`+tt.plan+`"}`))
		if got := tab.Arm(d); got != tt.arm {
			t.Errorf("%s: arm %q, want %q", tt.plan, got, tt.arm)
		}
		if again := tab.Again(d.Row, d.Outcome); again != d {
			t.Errorf("%s: %v again is %v", tt.plan, d, again)
		}
		if d.Row >= 0 && tab.Salt(d.Row) != tt.salt {
			t.Errorf("%s: salt %q, want %q", tt.plan, tab.Salt(d.Row), tt.salt)
		}
	}
}

// In a table of variants each row has an arm: the variant. A part of a split has no
// name of its own there.
func TestArmOfVariants(t *testing.T) {
	m := model(t, "fields: { plan: string, u: string }")
	opts := Options{Key: "reply", Name: "prompts/reply", Variants: true}
	tab, err := ParseTable(m, "reply.yaml", []byte("rules: [{ when: { plan: a }, value: en }, { id: s, split: { by: u, of: [{ value: nl, share: 100% }] } }]"), opts)
	if err != nil {
		t.Fatal(err)
	}
	for context, want := range map[string]string{`{"plan":"a"}`: "en", `{"u":"1"}`: "nl", `{"plan":"b"}`: "", "{}": ""} {
		if got := tab.Arm(tab.Evaluate(bind(t, m, context))); got != want {
			t.Errorf("%s: %q, want %q", context, got, want)
		}
	}
	if tab.Name() != "prompts/reply" {
		t.Error(tab.Name())
	}
	var errs document.Errors
	DecodeTable(m, parseYAML(t, "reply.yaml", "rules: [{ id: s, split: { by: u, of: [{ value: nl, share: 100%, name: dutch }] } }]"), opts, &errs)
	if got, want := mistakes(&errs), "reply.yaml:1:71: a share of variants has no name: traces call it by the key of its variant"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
