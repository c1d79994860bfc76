package rules

import (
	"reflect"
	"testing"
	"time"

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

// TestDivision: a row's arms are all that it has, each once, whichever have units now.
func TestDivision(t *testing.T) {
	m := model(t, "fields: { u: string, hidden: { type: string, trace: none } }\ncomputed: { c: hidden + u }")
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const text = `
rules:
  - { id: split, split: { by: u, coverage: 50%, of: [ { value: x, share: 0%, name: none }, { value: y, share: 40% }, { value: x, share: 20%, name: blue } ] } }
  - { id: ramp, ramp: { by: hidden, start: 2026-02-01, end: 2026-02-02 }, value: v }
  - { id: computed, split: { by: c, salt: s, of: [ { value: x, share: 100% } ] } }
  - { value: z }
`
	for _, tt := range []struct {
		options Options
		text    string
		want    []Division
	}{
		{Options{Key: "k"}, text, []Division{
			{By: "u", Salt: "split", Recorded: true, Arms: []string{"none", "2", "blue"}, Parts: []Part{{0, 20_000, 1, "2"}, {40_000, 50_000, 2, "blue"}}},
			{By: "hidden", Salt: "ramp", Ramp: true, Arms: []string{"1"}},
			{By: "c", Salt: "s", Arms: []string{"1"}, Parts: []Part{{0, Buckets, 4, "1"}}},
			{Parts: []Part{{0, Buckets, 5, ""}}},
		}},
		{Options{Key: "k", Variants: true}, "rules: [ { id: s, split: { by: u, of: [ { value: en, share: 10% }, { value: nl, share: 10% }, { value: en, share: 10% } ] } } ]", []Division{
			{By: "u", Salt: "s", Recorded: true, Arms: []string{"en", "nl"}, Parts: []Part{{0, 10_000, 0, "en"}, {10_000, 20_000, 1, "nl"}, {20_000, 30_000, 2, "en"}}},
		}},
	} {
		tab, err := ParseTable(m, "t.yaml", []byte(tt.text), tt.options)
		if err != nil {
			t.Fatal(err)
		}
		for row, want := range tt.want {
			if got := tab.Divide(row, at); !reflect.DeepEqual(got, want) {
				t.Errorf("row %d: %+v, want %+v", row, got, want)
			}
		}
	}
}
