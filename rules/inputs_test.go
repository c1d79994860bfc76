package rules

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/google/go-cmp/cmp"
)

// shownHash is a hash that shows its text.
func shownHash(dst []byte, field, text string) []byte {
	return append(append(append(append(dst, field...), '~'), strings.NewReplacer(`"`, "'", "\n", "¶").Replace(shorten(text))...), '~')
}

// fixedHash is a hash that takes no time.
func fixedHash(dst []byte, _, _ string) []byte { return append(dst, "0123456789abcdef"...) }

const inputsModel = `
fields:
  plan:    { type: string, values: [Free, Pro], ignore_case: true }
  flag:    boolean
  id:      { type: string, ignore_case: true }
  seats:   { type: number, trace: value }
  cents:   number
  tags:    { type: list, trace: value }
  words:   list
  since:   { type: date, trace: value }
  until:   date
  version: { type: string, format: semver, trace: value }
  secret:  { type: string, trace: none }
  path:    { type: string, path: user.name, trace: value }
  unread:  boolean
computed:
  big:    seats > 10 && flag
  masked: secret + "x"
segments:
  s: [ { tags: a } ]
`

// Inputs are the fields that the tables read, in the model's order and by what each
// says of traces.
func TestInputs(t *testing.T) {
	m := model(t, inputsModel)
	all := table(t, m, `
rules:
  - { when: { plan: pro, id: x, cents: 1, words: a, since: present, until: present, version: ^1.0, secret: a, path: b }, value: 1 }
  - { when: { big: true }, value: 2 }
  - { when: { segment: s }, value: 3 }
`)
	long := strings.Repeat("é", 127) // with its quotes 256 bytes
	for _, tt := range []struct{ context, want string }{
		{`{"plan":"PRO","id":"C-1","seats":12.50,"cents":1e21,"tags":["a","b\""],"words":["a",1],"since":"2026-01-31","until":1767225600123.5,"version":"v1.2","secret":"s","user":{"name":"n"},"flag":"true","unread":true}`,
			`{"plan":"PRO","flag":true,"id":{"hash":"id~c-1~"},"seats":12.5,"cents":{"hash":"cents~1e+21~"},"tags":["a","b\""],"words":{"hash":"words~['a','1']~"},` +
				`"since":"2026-01-31T00:00:00Z","until":{"hash":"until~'2026-01-01T00:00:00.1235Z'~"},"version":"v1.2","path":"n"}`},
		{`{"secret":"s","other":1}`, `{}`},
		{`{"user":{"name":"` + long + `"}}`, `{"path":"` + long + `"}`},
		{`{"user":{"name":"` + long + `e"}}`, `{"path":{"hash":"path~` + shorten(long) + `~"}}`},
		{`{"user":{"name":"\n` + long[:252] + `"}}`, `{"path":"\n` + long[:252] + `"}`},
		{`{"user":{"name":"\n` + long + `"}}`, `{"path":{"hash":"path~¶` + shorten("1" + long)[1:] + `~"}}`},
		{`{"tags":["` + long[:124] + `","` + long[:124] + `"]}`, `{"tags":["` + long[:124] + `","` + long[:124] + `"]}`},
		{`{"tags":["` + long[:124] + `","` + long[:126] + `"]}`, `{"tags":{"hash":"tags~` + shorten("['"+long) + `~"}}`},
		{`{}`, ``},
	} {
		b := bind(t, m, tt.context)
		for range 2 { // again from the binding's cache
			got := string(all.AppendInputs([]byte("x"), b, nil, shownHash))
			if diff := cmp.Diff("x"+tt.want, got); diff != "" {
				t.Errorf("%s: %s", tt.context, diff)
			}
			if tt.want != "" && !json.Valid([]byte(got[1:])) {
				t.Errorf("%s: not JSON: %s", tt.context, got)
			}
		}
	}
	if got := table(t, m, "rules: [{ value: 1 }]").AppendInputs(nil, bind(t, m, `{"flag":true}`), nil, shownHash); got != nil {
		t.Errorf("a table without fields has inputs: %s", got)
	}
}

// Fields that the data model has traces record always are inputs of all tables.
func TestInputsAlways(t *testing.T) {
	t.Parallel()
	m := model(t, inputsModel+"trace: { always: [seats, big, id] }\n")
	none := table(t, m, "rules: [{ value: 1 }]")
	byUnit := table(t, model(t, inputsModel+"unit: id\n"), "rules: [{ value: 1 }]")
	unrecorded := table(t, model(t, inputsModel+"unit: secret\n"), "rules: [{ value: 1 }]")
	asked := named(t, m, "asked", "rules: [{ when: { cents: 1 }, value: on }]")
	tab := named(t, m, "top", "rules: [{ when: { plan: pro, config: { asked: on } }, value: 1 }]", asked)
	const context = `{"plan":"pro","seats":1,"id":"C","cents":2,"flag":true,"unread":true}`
	for _, tt := range []struct {
		table         *Table
		also          []*Table
		context, want string
	}{
		{none, nil, context, `{"flag":true,"id":{"hash":"id~c~"},"seats":1}`},
		{none, nil, `{"id":"C"}`, `{"id":{"hash":"id~c~"}}`},
		{none, nil, `{"unread":true}`, `{}`},
		{none, nil, `{}`, ``},
		{byUnit, nil, context, `{"id":{"hash":"id~c~"}}`},
		{byUnit, nil, `{"plan":"pro"}`, `{}`},
		{unrecorded, nil, `{"secret":"x"}`, ``},
		{tab, []*Table{asked}, context, `{"plan":"pro","flag":true,"id":{"hash":"id~c~"},"seats":1,"cents":{"hash":"cents~2~"}}`},
	} {
		got := string(tt.table.AppendInputs(nil, bind(t, tt.table.model, tt.context), tt.also, shownHash))
		if got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.context, got, tt.want)
			continue
		}
		if got == "" {
			continue
		}
		e := Evidence{Inputs: parseJSON(t, got), Tables: append(tt.also, tt.table), At: noon}
		if _, err := tt.table.model.Replay(e); err != nil {
			t.Errorf("%s: its inputs can't be replayed: %v", tt.context, err)
		}
	}
}

// What no trace records can't be recorded always.
func TestAlwaysMistakes(t *testing.T) {
	t.Parallel()
	for always, want := range map[string]string{
		"always: [secret]":       `trace.always has "secret", of which trace: none records nothing`,
		"always: [masked]":       `trace.always has "masked", of which trace: none records nothing`,
		"always: [paln]":         `unknown field "paln"`,
		"always: [budget.daily]": `unknown field "budget.daily"`,
		"always: plan":           "trace.always must be a list of fields",
		"always: [[plan]]":       "a field of trace.always",
		"aways: [plan]":          "aways",
	} {
		var errs document.Errors
		DecodeModel(document.Parse("context.yaml", []byte(inputsModel+"trace: { "+always+" }\n"), &errs), nil, &errs)
		if errs.Len() != 1 || !strings.Contains(errs.List()[0].Error(), want) {
			t.Errorf("%s: got %v, want %s", always, errs.Err(), want)
		}
	}
	var errs document.Errors
	gateway := document.Parse("a.yaml", []byte("budget.daily: 1"), &errs).Members[0].Key
	DecodeModel(document.Parse("context.yaml", []byte(inputsModel+"trace: { always: [budget.daily] }\n"), &errs), []*document.Node{gateway}, &errs)
	if errs.Len() != 1 || !strings.Contains(errs.List()[0].Error(), "is a field of the gateway, which a trace has where a table read it") {
		t.Errorf("got %v", errs.Err())
	}
}

// A prerequisite's fields are inputs if it was asked, each field once.
func TestInputsOfPrerequisites(t *testing.T) {
	m := model(t, inputsModel)
	asked := named(t, m, "asked", "rules: [{ when: { seats: 1, plan: pro }, value: on }]")
	tab := named(t, m, "top", "rules: [{ when: { plan: pro, config: { asked: on } }, value: 1 }, { id: s, split: { by: path, of: [{ value: 1, share: 1% }] } }]", asked)
	b := bind(t, m, `{"plan":"Pro","seats":1,"flag":true,"user":{"name":"n"}}`)
	if got, want := string(tab.AppendInputs(nil, b, nil, shownHash)), `{"plan":"Pro","path":"n"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	flag := table(t, m, "rules: [{ when: { flag: true }, value: on }]")
	if got, want := string(tab.AppendInputs(nil, b, []*Table{asked, flag}, shownHash)), `{"plan":"Pro","flag":true,"seats":1,"path":"n"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The unit of a split has the hash of the same field in the inputs, is left out
// if the field is not to be recorded, as are the fields computed from it.
func TestSplitsJSON(t *testing.T) {
	m := model(t, inputsModel)
	other := model(t, "fields: { a: string }")
	split := func(by, coverage string) string {
		return fmt.Sprintf(`{ id: %s, split: { by: %s, salt: "s\"", coverage: %s, of: [{ value: 1, share: 20.002%% }, { value: 2, share: 79.998%%, name: b }] } }`, by, by, coverage)
	}
	tab := named(t, m, `n"1`, "rules: ["+split("id", "0%")+","+split("cents", "10%")+","+split("secret", "0%")+","+split("masked", "100%")+"]")
	b := bind(t, m, `{"id":"C-2","cents":1.50,"secret":"q"}`)
	var tr Trail
	tab.AppendTrail(&tr, b)
	experiment := func(rule string) string {
		return `{"experiment":{"definition":"n\"1","rule":"` + rule + `","salt":"s\""},`
	}
	want := "[" + experiment("id") + `"bucket":49712,"share":0,"arms":{"1":0,"b":0},"unit":"id~c-2~"},` + experiment("cents") + `"bucket":42794,"share":0.09999,"arms":{"1":0.02,"b":0.07999},"unit":"cents~1.5~"},` +
		experiment("secret") + `"bucket":15583,"share":0,"arms":{"1":0,"b":0}},` + experiment("masked") + `"bucket":9412,"arm":"1","share":0.20002,"arms":{"1":0.20002,"b":0.79998}}]`
	if diff := cmp.Diff(want, string(tr.AppendSplits(nil, b, shownHash))); diff != "" {
		t.Error(diff)
	}
	if got, want := string(tab.AppendInputs(nil, b, nil, shownHash)), `{"id":{"hash":"id~c-2~"},"cents":{"hash":"cents~1.5~"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	foreign := bind(t, other, `{"a":"b"}`)
	tr.Reset()
	tab.AppendTrail(&tr, foreign)
	if got := tr.AppendSplits(nil, foreign, shownHash); got != nil || tab.AppendInputs(nil, foreign, nil, shownHash) != nil {
		t.Errorf("of a context of another model: %s", got)
	}
}

// The shares of arms are those of the instant, and of one arm they are the share. A split
// that was not consulted has no arm and no share.
func TestArmsJSON(t *testing.T) {
	t.Parallel()
	m := model(t, "fields: { u: string, n: { type: number, trace: none } }")
	ramp := "ramp: { from: 0%, to: 100%, start: 2026-06-01T11:00:00Z, end: 2026-06-01T13:00:00Z }"
	tab := named(t, m, "t", `rules:
  - { id: one, when: { n: 1 }, split: { by: u, of: [{ value: a, share: 20% }] } }
  - { id: three, when: { n: missing }, split: { by: u, coverage: 50%, of: [{ value: a, share: 1% }, { value: b, share: 0%, name: none }, { value: c, share: 2% }] } }
  - { id: grows, split: { by: u, of: [{ value: a, share: 1% }, { value: b, share: 99%, name: b }] }, `+ramp+` }
  - { id: silent, when: { u: x }, split: { by: n, of: [{ value: a, share: 0.001% }] } }
`) // noon is in the middle of the ramp
	m2 := model(t, "fields: { u: string }")
	var errs document.Errors
	variants := DecodeTable(m2, parseYAML(t, "v.yaml", `rules: [{ id: v, split: { by: u, of: [{ value: en, share: 20% }, { value: nl, share: 30% }, { value: en, share: 10% }] } }]`), Options{Key: "v", Name: "v", Variants: true}, &errs)
	if err := errs.Err(); err != nil {
		t.Fatal(err)
	}
	experiment := func(name, rule string) string {
		return `{"experiment":{"definition":"` + name + `","rule":"` + rule + `","salt":"` + rule + `"},`
	}
	for _, tt := range []struct {
		table         *Table
		context, want string
	}{
		{tab, `{"u":"c-1"}`, "[" + experiment("t", "three") + `"bucket":39564,"share":0.015,"arms":{"1":0.005,"none":0,"3":0.01},"unit":"u~c-1~"},` +
			experiment("t", "grows") + `"bucket":10210,"arm":"b","share":0.495,"arms":{"1":0.005,"b":0.495},"unit":"u~c-1~"},` +
			experiment("t", "one") + `"bucket":66657,"consulted":false,"arms":{"1":0.2},"unit":"u~c-1~"}]`},
		{tab, `{"u":"c-1","n":1}`, "[" + experiment("t", "one") + `"bucket":66657,"share":0.2,"unit":"u~c-1~"},` +
			experiment("t", "grows") + `"bucket":10210,"arm":"b","share":0.495,"arms":{"1":0.005,"b":0.495},"unit":"u~c-1~"},` +
			experiment("t", "three") + `"bucket":39564,"consulted":false,"arms":{"1":0.005,"none":0,"3":0.01},"unit":"u~c-1~"},` +
			experiment("t", "silent") + `"bucket":43753,"consulted":false,"arms":{"1":0.00001}}]`},
		{variants, `{"u":"c-1"}`, "[" + experiment("v", "v") + `"bucket":16182,"arm":"en","share":0.2,"arms":{"en":0.3,"nl":0.3},"unit":"u~c-1~"}]`},
	} {
		b := bind(t, tt.table.model, tt.context)
		var tr Trail
		tt.table.AppendTrail(&tr, b)
		tr.Rest(b)
		got := string(tr.AppendSplits(nil, b, shownHash))
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.context, diff)
		}
	}
}

// A value is hashed once for a request, for all its records, and again for the
// next.
func TestValuesAreHashedOnce(t *testing.T) {
	m := model(t, inputsModel)
	tab := table(t, m, "rules: [{ id: s, when: { words: present, plan: pro }, split: { by: id, of: [{ value: 1, share: 1% }] } }]")
	calls := 0
	hash := func(dst []byte, field, text string) []byte {
		calls++
		return shownHash(dst, field, text)
	}
	var (
		b  Binding
		tr Trail
	)
	for i, context := range []string{`{"id":"A","words":[1,2],"plan":"PRO"}`, `{"id":"b","words":["x"],"plan":"pro"}`} {
		if err := m.Bind(&b, parseJSON(t, context), noon); err != nil {
			t.Fatal(err)
		}
		want := [][2]string{{"id~a~", "words~['1','2']~"}, {"id~b~", "words~['x']~"}}[i]
		d := tab.Evaluate(&b)
		for range 3 {
			tr.Reset()
			tab.AppendTrail(&tr, &b)
			inputs, splits := string(tab.AppendInputs(nil, &b, nil, hash)), string(tr.AppendSplits(nil, &b, hash))
			if !strings.Contains(inputs, `{"hash":"`+want[0]+`"}`) || !strings.Contains(inputs, `{"hash":"`+want[1]+`"}`) || !strings.Contains(splits, `"unit":"`+want[0]+`"`) {
				t.Errorf("%s: %s, %s", context, inputs, splits)
			}
		}
		if calls != 2*(i+1) {
			t.Errorf("%d calls for %d requests of two fields", calls, i+1)
		}
		if got := tab.Evaluate(&b); got != d {
			t.Errorf("after it was recorded the decision is %v, not %v", got, d)
		}
	}
}
