package rules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/google/go-cmp/cmp"
)

// fakeGateway knows some of itself, and counts how often it is asked.
type fakeGateway struct {
	budgets  map[string]int
	down     map[string]bool // by PROVIDER and PROVIDER/MODEL
	rollouts map[string]int  // their shares
	row      int64           // beyond 7, the number of the row that gave the shares
	asked    int
}

func (g *fakeGateway) Budget(limit string) (int, bool) {
	if g == nil {
		return 0, false
	}
	g.asked++
	percent, ok := g.budgets[limit]
	return percent, ok
}

func (g *fakeGateway) Rollout(name string) (int, int64, bool) {
	if g == nil {
		return 0, 0, false
	}
	g.asked++
	share, ok := g.rollouts[name]
	return share, 7 + g.row, ok
}

func (g *fakeGateway) Down(provider, model string) (bool, bool) {
	if g == nil {
		return false, false
	}
	g.asked++
	if model != "" {
		provider += "/" + model
	}
	down, ok := g.down[provider]
	return down, ok
}

func TestParseGatewayField(t *testing.T) {
	for name, want := range map[string]GatewayField{
		"budget.daily":               {Limit: "daily"},
		"budget.a_b-9":               {Limit: "a_b-9"},
		"health.openai":              {Provider: "openai"},
		"health.my.own":              {Provider: "my.own"},
		"health.openai/gpt-5.1":      {Provider: "openai", Model: "gpt-5.1"},
		"health.groq/meta/llama-3":   {Provider: "groq", Model: "meta/llama-3"},
		"budget":                     {},
		"budget.":                    {},
		"budget.Daily":               {},
		"budget.a.b":                 {},
		"health.":                    {},
		"health./m":                  {},
		"health.openai/":             {},
		"healthy.openai":             {},
		"budget." + longName(65):     {},
		"budget." + longName(64):     {Limit: longName(64)},
		"health." + longName(256-7):  {Provider: longName(256 - 7)},
		"health." + longName(257-7):  {},
		"context.health.openai":      {},
		"HEALTH.openai":              {},
		"health.openai/gpt-5/nested": {Provider: "openai", Model: "gpt-5/nested"},
		"rollout.remoteconfigs/b/c":  {Rollout: "remoteconfigs/b/c"},
		"rollout.prompts/a/b/c/d":    {Rollout: "prompts/a/b/c/d"},
		"rollout.prompts/" + longName(256) + "/" + longName(256): {Rollout: "prompts/" + longName(256) + "/" + longName(256)},
		"rollout.share":     {},
		"rollout.prompts/a": {},
	} {
		got, ok := ParseGatewayField(name)
		if ok != (want != GatewayField{}) || ok && got != want {
			t.Errorf("%s: %v %v", name, got, ok)
		}
	}
}

func longName(n int) string { return strings.Repeat("a", n) }

const gatewayTable = `
rules:
  - { id: both, when: { budget.daily: 80.., health.openai: down }, value: 1 }
  - { id: full, when: { budget.daily: 100.. }, value: 2 }
  - { id: down, when: { plan: pro, health.openai: down }, value: 3 }
  - { id: none, when: { plan: pro, budget.daily: missing }, value: 4 }
  - { id: up, when: { health.openai: not down, plan: missing }, value: 5 }
`

// Tables read the state of the gateway, without a context too, and never values that
// callers send under such names.
func TestGatewayFields(t *testing.T) {
	m := model(t, "fields: { plan: string, user: { type: string, path: budget.user } }", "budget.daily", "health.openai")
	tab := table(t, m, gatewayTable)
	if got, want := tab.Fields(), []string{"plan", "budget.daily", "health.openai"}; !slices.Equal(got, want) || !tab.ReadsGateway() {
		t.Errorf("fields %v", got)
	}
	const decoys = `"budget.daily":90,"budget":{"daily":95,"user":"x"},"health.openai":"down","health":{"openai":"down"}`
	known := func(daily int, down bool) *fakeGateway {
		return &fakeGateway{budgets: map[string]int{"daily": daily}, down: map[string]bool{"openai": down}}
	}
	for _, tt := range []struct {
		name, context string
		gateway       *fakeGateway
		row           string
		inputs        string
		asked         int
	}{
		{"no context", `{}`, known(85, true), "both", `{"budget.daily":85,"health.openai":"down"}`, 2},
		{"no context, null", `null`, known(79, true), "default", `{"budget.daily":79,"health.openai":"down"}`, 2},
		{"no context, up", `{}`, known(0, false), "up", `{"budget.daily":0,"health.openai":"up"}`, 2},
		{"above 100", `{"plan":"pro"}`, known(250, false), "full", `{"plan":{"hash":"plan~pro~"},"budget.daily":250,"health.openai":"up"}`, 2},
		{"with a context", `{"plan":"pro"}`, known(1, true), "down", `{"plan":{"hash":"plan~pro~"},"budget.daily":1,"health.openai":"down"}`, 2},
		{"unknown", `{"plan":"pro"}`, &fakeGateway{}, "none", `{"plan":{"hash":"plan~pro~"}}`, 2},
		{"unknown, no context", `{}`, &fakeGateway{}, "default", `{}`, 2},
		{"no gateway", `{"plan":"pro"}`, nil, "none", `{"plan":{"hash":"plan~pro~"}}`, 0},
		{"decoys", `{` + decoys + `}`, known(1, false), "up", `{"budget.daily":1,"health.openai":"up"}`, 2},
		{"decoys, unknown", `{"plan":"pro",` + decoys + `}`, &fakeGateway{}, "none", `{"plan":{"hash":"plan~pro~"}}`, 2},
	} {
		b := bind(t, m, tt.context)
		b.SetGateway(tt.gateway)
		d := tab.Evaluate(b)
		row := "default"
		if d.Row >= 0 {
			row = tab.Rows()[d.Row].ID
		}
		if tab.Evaluate(b) != d || row != tt.row || d.Reason == NoContext {
			t.Errorf("%s: %s (%s)", tt.name, row, d.Reason)
		}
		if got := string(tab.AppendInputs(nil, b, nil, shownHash)); got != tt.inputs {
			t.Errorf("%s: %s", tt.name, got)
		}
		if tt.gateway != nil && tt.gateway.asked != tt.asked {
			t.Errorf("%s: asked %d times", tt.name, tt.gateway.asked)
		}
		if tab.Cacheable(b) {
			t.Errorf("%s: cacheable", tt.name)
		}
	}
	// Other tables ask for nothing, and are not tried without a context.
	gateway := known(85, true)
	other := table(t, m, "rules: [{ when: { plan: missing }, value: 1 }]")
	for context, want := range map[string]Reason{"{}": NoContext, `{"budget.daily":1}`: Match} {
		b := bind(t, m, context)
		b.SetGateway(gateway)
		if d := other.Evaluate(b); d.Reason != want || gateway.asked > 0 || other.ReadsGateway() {
			t.Errorf("%s: %s, asked %d times", context, d.Reason, gateway.asked)
		}
	}
}

// A caller's member with the name of a gateway's field is one that the data model does
// not have.
func TestGatewayFieldsAreNotSent(t *testing.T) {
	for mode, refused := range map[string]bool{"warn": false, "reject": true} {
		m := model(t, "on_unknown_field: "+mode, "budget.daily")
		var b Binding
		err := m.Bind(&b, parseJSON(t, `{"budget.daily":1}`), noon)
		if (err != nil) != refused || len(b.Notes()) != 1 || b.Notes()[0] != (Note{"budget.daily", NoteUnknownField}) {
			t.Errorf("%s: %v, notes %v", mode, err, b.Notes())
		}
	}
}

// Tests and tools give the gateway's fields in the context.
func TestSimulate(t *testing.T) {
	m := model(t, "on_type_mismatch: reject\nfields: { plan: { type: string, required: true } }", "budget.daily", "health.openai")
	tab := table(t, m, gatewayTable)
	plain := table(t, m, "rules: [{ value: 1 }]")
	for _, tt := range []struct {
		context, want string
		noContext     bool
	}{
		{`{"budget.daily":85,"health.openai":"down"}`, "both: match", true},
		{`{"budget.daily":"85","health.openai":["down"]}`, "context.budget.daily must be a number, this is \"85\"", true},
		{`{"health.openai":"ill"}`, `context.health.openai has a value that its declaration does not allow: "ill"`, true},
		{`{"budget.daily":-1}`, `context.budget.daily has a value that its declaration does not allow: -1`, true},
		{`{"plan":"pro","budget.daily":50.5}`, "default", false},
		{`{"plan":"pro"}`, "none: match", false},
		{`{"other":1}`, "context.plan is required: give text", false},
		{`{}`, "default", true},
		{`null`, "default", true},
	} {
		var b Binding
		got := ""
		if err := m.Simulate(&b, parseJSON(t, tt.context), noon); err != nil {
			got = err.Error()
		} else {
			got, _, _ = strings.Cut(tab.Explain(&b).String(), ": none of")
			if reason := plain.Evaluate(&b).Reason; (reason == NoContext) != tt.noContext {
				t.Errorf("%s: another table's reason is %s", tt.context, reason)
			}
		}
		if got != tt.want || b.NoContext() != tt.noContext {
			t.Errorf("%s: %s, no context %v", tt.context, got, b.NoContext())
		}
	}
	// A real request after it knows nothing of it.
	var b Binding
	if err := m.Simulate(&b, parseJSON(t, `{"budget.daily":100}`), noon); err != nil {
		t.Fatal(err)
	}
	if err := m.Bind(&b, parseJSON(t, `{"plan":"free","budget.daily":100}`), noon); err != nil {
		t.Fatal(err)
	}
	if d := tab.Evaluate(&b); d.Row >= 0 {
		t.Errorf("row %d", d.Row)
	}
}

// By way of segments and of prerequisites, a table reads the gateway's fields, too. A
// prerequisite that reads none has its default without a context, as by itself.
func TestGatewayFieldsBehindOthers(t *testing.T) {
	m := model(t, `
fields: { plan: string }
segments:
  tight: [ { budget.daily: 80.. }, { health.openai/gpt-5: down } ]
  worse: [ { segment: tight, plan: missing } ]
`, "budget.daily", "health.openai/gpt-5")
	reader := named(t, m, "reader", "rules: [{ id: tight, when: { segment: worse }, value: 1 }]")
	plain := named(t, m, "plain", "rules: [{ id: all, value: 1 }]")
	both := named(t, m, "both", "rules: [{ id: r, when: { config: { reader: 1, plain: default } }, value: 1 }]", reader, plain)
	for _, tab := range []*Table{reader, both} {
		if want := []string{"plan", "budget.daily", "health.openai/gpt-5"}; !slices.Equal(tab.Fields(), want) {
			t.Errorf("%s: %v", tab.Name(), tab.Fields())
		}
	}
	b := bind(t, m, "{}")
	b.SetGateway(&fakeGateway{down: map[string]bool{"openai/gpt-5": true}})
	d := both.Evaluate(b)
	var trail Trail
	both.AppendTrail(&trail, b)
	if d.Row != 0 || plain.Evaluate(b).Reason != NoContext || len(trail.Asked) != 2 {
		t.Errorf("%v, asked %d", d, len(trail.Asked))
	}
	// Whichever table comes first, the inputs have all fields that were read.
	for _, tables := range [][]*Table{{both, plain, reader}, {plain, reader, both}} {
		if got := string(tables[0].AppendInputs(nil, b, tables[1:], fixedHash)); got != `{"health.openai/gpt-5":"down"}` {
			t.Errorf("inputs %s", got)
		}
	}
	if got := reader.Explain(bind(t, m, "{}")).Rows[0].String(); got != "tight: segment must be worse, is not worse (segment must be tight, is not tight)" {
		t.Error(got)
	}
}

func TestGatewayFieldMistakes(t *testing.T) {
	const names = "the fields of the gateway are budget.LIMIT, with the name of a limit, health.PROVIDER and health.PROVIDER/MODEL"
	for _, tt := range []struct{ context, table, want string }{
		{"", "rules: [{ when: { health.openai: dwn }, value: 1 }]", `"dwn" is not one of the values of health.openai: did you mean "down"?`},
		{"", "rules: [{ when: { budget.daily: 80% }, value: 1 }]", `"80%" is not a number`},
		{"", "rules: [{ when: { budget.Daily: 80.. }, value: 1 }]", `unknown field "budget.Daily": ` + names},
		{"", "columns: [health., value]\nmatrix: []", `unknown field "health.": ` + names},
		{"", "rules: [{ id: r, split: { by: budget.daily, of: [{ value: 1, share: 1% }] } }]", "by needs a field of the caller: budget.daily is the gateway's"},
		{"", "rules: [{ id: r, value: 1, ramp: { by: health.openai, start: 2026-01-01, end: 2026-01-02 } }]", "by needs a field of the caller: health.openai is the gateway's"},
		{"computed: { x: budget.daily > 80.0 }", "", "budget is no field of an expression: budget.LIMIT and health.PROVIDER are fields of cells, give them in when: or in a segment"},
		{"computed: { x: 'present(health.openai)' }", "", "present takes the name of a field"},
	} {
		var errs document.Errors
		m := DecodeModel(document.Parse("context.yaml", []byte(tt.context), &errs), []*document.Node{{Text: "budget.daily"}, {Text: "health.openai"}}, &errs)
		if tt.table != "" {
			DecodeTable(m, document.Parse("flag.yaml", []byte(tt.table), &errs), Options{Key: "flag"}, &errs)
		}
		if got := mistakes(&errs); !strings.Contains(got, tt.want) || errs.Len() != 1 {
			t.Errorf("%s%s:\n%s", tt.context, tt.table, got)
		}
	}
}

// A field of the data model with such a name is the caller's.
func TestDeclaredFieldComesFirst(t *testing.T) {
	m := model(t, "fields: { budget.daily: number }\ncomputed: { health.a: '\"x\"' }", "budget.daily", "health.a", "health.b")
	if got := m.GatewayNames(); !slices.Equal(got, []string{"health.b"}) {
		t.Error(got)
	}
	tab := table(t, m, "rules: [{ when: { budget.daily: 80.., health.a: x }, value: 1 }]")
	b := bind(t, m, `{"budget.daily":81}`)
	b.SetGateway(&fakeGateway{})
	if d := tab.Evaluate(b); d.Row != 0 || tab.ReadsGateway() {
		t.Errorf("%v", d)
	}
}

func TestGatewayFieldsOfFiles(t *testing.T) {
	for text, want := range map[string]string{
		"columns: [plan, budget.a, value]\nmatrix: [[health.no, 1, health.no]]":                                          "budget.a",
		"rules: [{ when: { budget.a: 1, health.x: up }, value: budget.no }, { when: { budget.a: 2 } }, { value: 1 }, x]": "budget.a health.x budget.a",
		"segments: { s: [{ health.x/y: up }, { plan: a }], t: x }\nfields: { budget.no: number }":                        "health.x/y",
		// A guard reads the field of its row, which no cell names.
		"rules: [{ id: a, when: { budget.a: 1, rollout.prompts/p/b: 1 }, split: { by: x, guard: {} } }, { id: b, split: { guard: x } }, { split: { guard: x } }]": "budget.a rollout.prompts/p/a rollout.prompts/p/b",
		"columns: budget.a\nrules: x\nsegments: y": "",
		"[budget.a]": "",
		"columns: [[budget.a], {budget.b: 1}, budget.A]": "",
	} {
		var names []string
		for _, n := range GatewayFields(parseYAML(t, "x.yaml", text), "prompts/p") {
			names = append(names, n.Text)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
	if GatewayFields(nil, "") != nil {
		t.Error("no document names fields")
	}
}

// The linter knows the gateway's fields: on closed values and bounds, its findings
// agree exactly with the evaluation of requests.
func TestAnalyseGatewayFields(t *testing.T) {
	const fields = "fields: { c: { type: boolean, required: true } }\n"
	models := []*Model{model(t, fields, "budget.day", "health.a"), model(t, "on_type_mismatch: reject\n"+fields, "budget.day", "health.a")}
	cells := [][]string{
		{"any", "80..", "..<80", "50..<100", "100..", "missing", "present", "[missing, ..<50]", "not 80.."},
		{"any", "up", "down", "not up", "[up, down]", "missing", "[missing, down]"},
		{"any", "true", "false", "missing", "present"},
	}
	var requests []string
	for _, budget := range []string{"", `"budget.day":0`, `"budget.day":50`, `"budget.day":80`, `"budget.day":100`, `"budget.day":130`} {
		for _, health := range []string{"", `"health.a":"up"`, `"health.a":"down"`} {
			for _, c := range []string{"", `"c":true`, `"c":false`} {
				members := slices.DeleteFunc([]string{budget, health, c}, func(s string) bool { return s == "" })
				requests = append(requests, "{"+strings.Join(members, ",")+"}")
			}
		}
	}
	found := make(map[FindingKind]int)
	for seed := range uint64(200) {
		g := generator{Rand: rand.New(rand.NewPCG(seed, 4))}
		var text strings.Builder
		text.WriteString("columns: [budget.day, health.a, c, value]\nmatrix:\n")
		rows := 1 + g.IntN(7)
		for range rows {
			fmt.Fprintf(&text, "  - [%s, %s, %s, v%d]\n", pick(g, cells[0]), pick(g, cells[1]), pick(g, cells[2]), g.IntN(3))
		}
		in := text.String()
		m := models[seed%2]
		tab := table(t, m, in)
		if !tab.ReadsGateway() {
			continue
		}
		reached, overlap, gap := make([]bool, rows), make(map[[2]int]bool), false
		for _, request := range requests {
			var b Binding
			if err := m.Simulate(&b, parseJSON(t, request), noon); err != nil {
				continue // a required field is missing
			}
			if d := tab.Evaluate(&b); d.Row >= 0 {
				reached[d.Row] = true
			} else {
				gap = gap || strings.Contains(request, `"c"`)
			}
			for i := range rows {
				for j := range i {
					if matchAll(tab.rowAtoms(i), &b) && matchAll(tab.rowAtoms(j), &b) && !equalText(tab)(i, j) {
						overlap[[2]int{i, j}] = true
					}
				}
			}
		}
		findings := tab.Analyse(Analysis{Now: noon, Equal: equalText(tab), Overlaps: true, Gaps: true})
		checkFindings(t, m, tab, findings)
		for _, f := range findings {
			found[f.Kind]++
			switch f.Kind {
			case Unreachable, Contradiction:
				if reached[f.Row] {
					t.Errorf("%s (witness %s)", f.Message, f.Witness)
				}
				reached[f.Row] = true
			case Overlap:
				if !overlap[[2]int{f.Row, f.Other}] {
					t.Error(f.Message)
				}
				delete(overlap, [2]int{f.Row, f.Other})
			case Gap:
				if !gap {
					t.Error(f.Message)
				}
				gap = false
			case Undecided:
				t.Error(f.Message)
			}
		}
		if i := slices.Index(reached, false); i >= 0 || len(overlap) > 0 || gap {
			t.Errorf("not found: row %d is not reached, overlaps %v, gap %v", i+1, overlap, gap)
		}
		if t.Failed() {
			t.Fatalf("seed %d\n%s", seed, in)
		}
	}
	if found[Unreachable] < 50 || found[Overlap] < 50 || found[Gap] < 30 {
		t.Errorf("too little to be found: %v", found)
	}
}

// Findings show the gateway's fields by their names, with values as people write them.
func TestFindingsOfGatewayFields(t *testing.T) {
	m := model(t, "", "budget.daily", "health.openai")
	tab := table(t, m, "columns: [budget.daily, health.openai, value]\nmatrix:\n  - [80.., any, a]\n  - [any, down, b]\n  - [85.., down, c]\n")
	var got []string
	for _, f := range tab.Analyse(Analysis{Now: noon, Overlaps: true, Gaps: true}) {
		got = append(got, fmt.Sprintf("%s: %s (%s)", f.Kind, f.Message, f.Witness))
	}
	want := []string{
		`unreachable: row 3 is never reached: row 1 above matches all that it matches ({"budget.daily":85,"health.openai":"down"})`,
		`overlap: row 1 and row 2 match the same context with different values ({"budget.daily":80,"health.openai":"down"})`,
		`overlap: row 1 and row 3 match the same context with different values ({"budget.daily":85,"health.openai":"down"})`,
		`overlap: row 2 and row 3 match the same context with different values ({"budget.daily":85,"health.openai":"down"})`,
		`gap: no row matches {}: the default answers ({})`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReplayOfGatewayFields(t *testing.T) {
	m := model(t, "fields: { plan: { type: string, trace: value } }", "budget.daily", "health.openai")
	tab := table(t, m, gatewayTable)
	plain := named(t, m, "plain", "rules: [{ id: all, value: 1 }]")
	for _, tt := range []struct {
		inputs, context string
		noContext       bool
		want            string
	}{
		{`{"budget.daily":85,"health.openai":"down"}`, "", true, "both"},
		{`{"budget.daily":85,"health.openai":"down"}`, `{"plan":"free"}`, false, `the input "plan" is missing, and "free" by the context`},
		{`{"budget.daily":85,"plan":"pro","health.openai":"down"}`, `{"plan":"pro","budget.daily":1}`, false, "both"},
		{`{"health.openai":"up"}`, `{}`, true, "up"},
		{`{"health.openai":"up"}`, `{}`, false, "the context is empty, and a decision was made by it"},
		{`{"health.openai":"up"}`, `{"x":1}`, true, "the trace says that there was no context, and has one"},
		{`{"health.openai":{"hash":"x"}}`, "", false, `inputs has an object of "health.openai", a field of the gateway, which is recorded as it is`},
		{`{"health.openai":"ill"}`, "", false, `the input "health.openai" is "ill", which is no value of the field (value_not_allowed)`},
		{`{"plan":"pro"}`, "", false, "none"},
	} {
		e := Evidence{Inputs: parseJSON(t, tt.inputs), Tables: []*Table{tab}, At: noon, NoContext: tt.noContext}
		if tt.context != "" {
			e.Context = parseJSON(t, tt.context)
		}
		got := ""
		r, err := m.Replay(e)
		if err != nil {
			got = err.Error()
		} else {
			v := r.Table(tab)
			if len(v.Possible) != 1 {
				t.Fatalf("%s: %v", tt.inputs, v.Possible)
			}
			got = tab.Rows()[v.Possible[0].Row].ID
			reason := Match
			if tt.noContext {
				reason = NoContext
			}
			if d := r.Table(plain).Possible[0]; d.Reason != reason {
				t.Errorf("%s: another table's reason is %s", tt.inputs, d.Reason)
			}
		}
		if got != tt.want {
			t.Errorf("%s: %s", tt.inputs, got)
		}
	}
	// A field that no consulted table reads is not known.
	r, err := m.Replay(Evidence{Tables: []*Table{plain}, At: noon})
	if err != nil {
		t.Fatal(err)
	}
	if v := r.Table(tab); len(v.Possible) < 2 || v.Doubt == nil || v.Doubt.Unseen != "budget.daily" {
		t.Errorf("%v, doubt %v", v.Possible, v.Doubt)
	}
}

// A request whose tables read none of these fields pays nothing for them.
func TestGatewayFieldsCostNothing(t *testing.T) {
	m := model(t, "fields: { plan: string }", "budget.daily", "health.openai")
	tab := table(t, m, "rules: [{ when: { plan: pro, budget.daily: 80.. }, value: 1 }]")
	context := parseJSON(t, `{"plan":"pro"}`)
	b, gateway := new(Binding), &fakeGateway{budgets: map[string]int{"daily": 81}}
	b.SetGateway(gateway)
	var inputs []byte
	if n := testing.AllocsPerRun(100, func() {
		if m.Bind(b, context, noon) != nil || tab.Evaluate(b).Row != 0 {
			t.Error("no match")
		}
		inputs = tab.AppendInputs(inputs[:0], b, nil, fixedHash)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
