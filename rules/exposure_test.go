package rules

import (
	"strings"
	"testing"
	"time"

	"github.com/valyala/fastjson"
)

// TestExposures compares answers by what makes them the same.
func TestExposures(t *testing.T) {
	t.Parallel()
	const fields = "fields: { customer_id: string, seat: number, plan: string }\n"
	const table = `rules:
- { id: half, when: { plan: pro }, split: { by: customer_id, of: [ { value: 1, share: 50% }, { value: 2, share: 50% } ] } }
- { id: team, when: { plan: team }, split: { by: seat, of: [ { value: 1, share: 100% } ] } }
- { id: free, when: { plan: free }, value: 3 }
`
	for _, test := range []struct {
		unit, one, other string
		same, known      bool
	}{
		{"customer_id", `{"plan":"free","customer_id":"a"}`, `{"plan":"free","customer_id":"a","seat":2}`, true, true},
		{"customer_id", `{"plan":"free","customer_id":"a"}`, `{"plan":"free","customer_id":"b"}`, false, true},
		{"customer_id", `{"plan":"free","customer_id":"a"}`, `{"customer_id":"a"}`, false, true},
		{"customer_id", `{"plan":"free"}`, `{"plan":"free","seat":1}`, true, false},
		{"customer_id", `{"plan":"free"}`, `{}`, false, false},
		{"", `{"plan":"free","customer_id":"a"}`, `{"plan":"free","customer_id":"b"}`, true, false},
		// Without a context no row was tried, and by default each.
		{"", `{}`, `{"plan":"other"}`, false, false},
		// The split's field comes first, also without a unit of the data model.
		{"", `{"plan":"pro","customer_id":"a"}`, `{"plan":"pro","customer_id":"a","seat":2}`, true, true},
		{"seat", `{"plan":"pro","customer_id":"a","seat":1}`, `{"plan":"pro","customer_id":"a","seat":2}`, true, true},
		{"customer_id", `{"plan":"team","customer_id":"a","seat":1}`, `{"plan":"team","customer_id":"a","seat":2}`, false, true},
		{"customer_id", `{"plan":"team","customer_id":"a","seat":1}`, `{"plan":"team","customer_id":"b","seat":1.0}`, true, true},
		{"seat", `{"customer_id":"a","seat":1}`, `{"customer_id":"b","seat":1}`, true, true},
		// A text and a number, of two fields, are not the same unit.
		{"seat", `{"plan":"pro","customer_id":"1","seat":1}`, `{"customer_id":"1","seat":1}`, false, true},
	} {
		model := fields
		if test.unit != "" {
			model += "unit: " + test.unit + "\n"
		}
		m, err := ParseModel("context.yaml", []byte(model))
		if err != nil {
			t.Fatal(model, err)
		}
		tab, err := ParseTable(m, "t.yaml", []byte(table), Options{})
		if err != nil {
			t.Fatal(err)
		}
		exposure := func(context string) string {
			var b Binding
			if err := m.Bind(&b, fastjson.MustParse(context), time.Time{}); err != nil {
				t.Fatal(err)
			}
			key, known := tab.AppendExposure(nil, tab.Evaluate(&b), &b)
			if known != test.known {
				t.Errorf("unit: %s, %s: known %v", test.unit, context, known)
			}
			return string(key)
		}
		if same := exposure(test.one) == exposure(test.other); same != test.same {
			t.Errorf("unit: %s, %s and %s: the same %v", test.unit, test.one, test.other, same)
		}
	}
}

// TestExposureArms: the arms of a split are not the same.
func TestExposureArms(t *testing.T) {
	t.Parallel()
	m, err := ParseModel("context.yaml", []byte("fields: { id: string }\n"))
	if err != nil {
		t.Fatal(err)
	}
	tab, err := ParseTable(m, "t.yaml", []byte("rules: [ { id: a, split: { by: id, of: [ { value: 1, share: 50% }, { value: 2, share: 50% } ] } } ]\n"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b Binding
	if err := m.Bind(&b, fastjson.MustParse(`{"id":"x"}`), time.Time{}); err != nil {
		t.Fatal(err)
	}
	first, _ := tab.AppendExposure(nil, Decision{Row: 0, Outcome: 0, Reason: Split}, &b)
	second, _ := tab.AppendExposure(nil, Decision{Row: 0, Outcome: 1, Reason: Split}, &b)
	if string(first) == string(second) {
		t.Error("two arms are the same exposure")
	}
}

func TestUnitMistakes(t *testing.T) {
	t.Parallel()
	for model, want := range map[string]string{
		"unit: nobody\nfields: { id: string }\n": `unknown field "nobody"`,
		"unit: when\nfields: { when: date }\n":   "unit must name a field of type string or number",
		"unit: [id]\nfields: { id: string }\n":   "unit must be",
		"unit: big\nfields: { id: number }\ncomputed: { big: { expression: id > 1.0, type: boolean } }\n": `unknown field "big"`,
	} {
		if _, err := ParseModel("context.yaml", []byte(model)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s%v, want %s", model, err, want)
		}
	}
}
