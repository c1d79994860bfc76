package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
)

const (
	guardField = "rollout.remoteconfigs/flag/colours"
	guardName  = "remoteconfigs/flag/colours"
	guardTable = "rules: [ { id: colours, when: { plan: pro }, split: { by: id, guard: { new: blue, control: red } } }, { id: rest, when: { plan: pro }, value: grey } ]"
)

// TestGuard follows units of three buckets through the steps of a rollout, as traces tell it.
func TestGuard(t *testing.T) {
	m := model(t, "fields: { id: { type: string, trace: value }, plan: { type: string, trace: value } }", guardField)
	tab := table(t, m, guardTable)
	if tab.ReadsGateway() || !slices.Equal(tab.Guards(), []int{0}) || !slices.Equal(tab.Fields(), []string{"id", "plan", guardField}) {
		t.Errorf("reads the gateway: %v, guards %v, fields %v", tab.ReadsGateway(), tab.Guards(), tab.Fields())
	}
	// One unit for each way that a step may have it.
	units := map[string]string{}
	for i := 0; len(units) < 3; i++ {
		id := fmt.Sprint("u", i)
		bucket, _ := tab.answers[0].split.bucket(bind(t, m, `{"id":"`+id+`"}`))
		for name, in := range map[string][2]uint32{"new": {500, 1000}, "control": {50_500, 51_000}, "rest": {90_000, 100_000}} {
			if units[name] == "" && in[0] <= bucket && bucket < in[1] {
				units[name] = id
			}
		}
	}
	for _, tt := range []struct {
		share int // -1: not known
		want  map[string]string
	}{
		{-1, map[string]string{
			"new":  `red "arm":"control","share":1,"arms":{"new":0,"control":0},"compared":false`,
			"rest": `red "arm":"control","share":1,"arms":{"new":0,"control":0},"compared":false`,
		}},
		{0, map[string]string{
			"control": `red "arm":"control","share":1,"arms":{"new":0,"control":0},"rollout":7,"compared":false`,
		}},
		{500, map[string]string{
			"new":     `red "arm":"control","share":0.99,"arms":{"new":0.005,"control":0.005},"rollout":7,"compared":false`,
			"control": `red "arm":"control","share":0.99,"arms":{"new":0.005,"control":0.005},"rollout":7,"compared":false`,
		}},
		{1000, map[string]string{
			"new":     `blue "arm":"new","share":0.01,"arms":{"new":0.01,"control":0.01},"rollout":7`,
			"control": `red "arm":"control","share":0.01,"arms":{"new":0.01,"control":0.01},"rollout":7`,
			"rest":    `red "arm":"control","share":0.98,"arms":{"new":0.01,"control":0.01},"rollout":7,"compared":false`,
		}},
		{50_000, map[string]string{
			"new":     `blue "arm":"new","share":0.5,"arms":{"new":0.5,"control":0.5},"rollout":7`,
			"control": `red "arm":"control","share":0.5,"arms":{"new":0.5,"control":0.5},"rollout":7`,
			"rest":    `red "arm":"control","share":0.5,"arms":{"new":0.5,"control":0.5},"rollout":7`,
		}},
		// A share that is none of a step is at most half.
		{70_000, map[string]string{
			"new":  `blue "arm":"new","share":0.5,"arms":{"new":0.5,"control":0.5},"rollout":7`,
			"rest": `red "arm":"control","share":0.5,"arms":{"new":0.5,"control":0.5},"rollout":7`,
		}},
		{100_000, map[string]string{
			"new":     `blue "arm":"new","share":1,"arms":{"new":1,"control":0},"rollout":7,"compared":false`,
			"control": `blue "arm":"new","share":1,"arms":{"new":1,"control":0},"rollout":7,"compared":false`,
			"rest":    `blue "arm":"new","share":1,"arms":{"new":1,"control":0},"rollout":7,"compared":false`,
		}},
	} {
		for unit, want := range tt.want {
			b := bind(t, m, `{"plan":"pro","id":"`+units[unit]+`","`+guardField+`":5}`) // what callers send is nothing
			gateway := &fakeGateway{rollouts: map[string]int{guardName: tt.share}}
			if tt.share < 0 {
				gateway.rollouts = nil
			}
			b.SetGateway(gateway)
			key := string(tab.AppendKey(nil, b))
			d := tab.Evaluate(b)
			var trail Trail
			tab.AppendTrail(&trail, b)
			_, splits, _ := strings.Cut(string(trail.AppendSplits(nil, b, fixedHash)), `"bucket":`)
			_, splits, _ = strings.Cut(splits, ",")
			splits, _, _ = strings.Cut(splits, `,"unit"`)
			if got := outcome(tab, d) + " " + splits; got != want || d.Reason != Split {
				t.Errorf("%d, %s:\n%s, want\n%s", tt.share, unit, got, want)
			}
			inputs := `{"id":"` + units[unit] + `","plan":"pro"}`
			if tt.share >= 0 {
				inputs = strings.TrimSuffix(inputs, "}") + fmt.Sprintf(`,%q:%d}`, guardField, tt.share)
			}
			if got := string(tab.AppendInputs(nil, b, trail.Asked, fixedHash)); got != inputs {
				t.Errorf("%d: %s, want %s", tt.share, got, inputs)
			}
			exposure, hasUnit := tab.AppendExposure(nil, d, b)

			// The second answer of a request is of the same step.
			gateway.rollouts = map[string]int{guardName: 100_000 - max(tt.share, 0)}
			b.AskAgain()
			if again := tab.Evaluate(b); again != d || string(tab.AppendKey(nil, b)) != key || gateway.asked != 1 {
				t.Errorf("%d, %s: %v, then %v, asked %d times", tt.share, unit, d, again, gateway.asked)
			}
			// The next request's is not.
			other := bind(t, m, `{"plan":"pro","id":"`+units[unit]+`"}`)
			other.SetGateway(gateway)
			if string(tab.AppendKey(nil, other)) == key && tt.share != 50_000 || !tab.Cacheable(other) {
				t.Errorf("%d: the key is the same for another share", tt.share)
			}
			// An exposure is of a unit, an answer and a row.
			for row, same := range map[int64]bool{0: true, 1: tt.share < 0} {
				gateway.row, gateway.rollouts = row, nil
				if tt.share >= 0 {
					gateway.rollouts = map[string]int{guardName: tt.share}
				}
				other := bind(t, m, `{"plan":"pro","id":"`+units[unit]+`"}`)
				other.SetGateway(gateway)
				if next, _ := tab.AppendExposure(nil, tab.Evaluate(other), other); (string(next) == string(exposure)) != same || !hasUnit {
					t.Errorf("%d, row %d: exposures %q and %q, with a unit: %v", tt.share, row, exposure, next, hasUnit)
				}
			}
		}
	}
}

// A guard needs a unit: without one, and without a context, it is as any split.
func TestGuardWithoutUnit(t *testing.T) {
	m := model(t, "on_type_mismatch: reject\nfields: { id: { type: string }, plan: { type: string, required: true } }", guardField)
	tab := table(t, m, guardTable)
	gateway := &fakeGateway{rollouts: map[string]int{guardName: 100_000}}
	for context, want := range map[string]string{`{"plan":"pro"}`: "rest: match", `{}`: "default: no context was given"} {
		b := bind(t, m, context)
		b.SetGateway(gateway)
		e := tab.Explain(b)
		if e.String() != want {
			t.Errorf("%s: %s", context, e)
		}
		if len(e.Rows) > 0 && e.Rows[0].String() != "colours: split must be {by: id, guard: {new: blue, control: red}}, is id is missing" {
			t.Error(e.Rows[0])
		}
	}
	var b Binding
	if err := m.Simulate(&b, parseJSON(t, `{"plan":"pro","id":"a","`+guardField+`":100000}`), noon); err != nil || outcome(tab, tab.Evaluate(&b)) != "blue" {
		t.Error(err, tab.Explain(&b))
	}
	if err := m.Simulate(&b, parseJSON(t, `{"`+guardField+`":100000}`), noon); err != nil || !b.NoContext() {
		t.Error(err)
	}
}

// A guard takes no memory, whatever the gateway says.
func TestGuardDoesNotAllocate(t *testing.T) {
	m := model(t, "fields: { id: string, plan: string }", guardField)
	tab := table(t, m, guardTable)
	context, b := parseJSON(t, `{"plan":"pro","id":"u1"}`), new(Binding)
	b.SetGateway(&fakeGateway{rollouts: map[string]int{guardName: 100_000}})
	var key []byte
	if n := testing.AllocsPerRun(100, func() {
		if err := m.Bind(b, context, noon); err != nil || tab.Evaluate(b).Outcome != 0 {
			t.Fatal(err)
		}
		key = tab.AppendKey(key[:0], b)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Splits that a unit did not come to have what a guard says of it.
func TestGuardUnconsulted(t *testing.T) {
	m := model(t, "fields: { id: string, plan: string }", guardField)
	tab := table(t, m, "rules: [ { id: all, value: x }, { id: colours, split: { by: id, guard: { new: blue, control: red } } } ]")
	for share, want := range map[int]string{1000: `"consulted":false,"arms":{"new":0.01,"control":0.01},"rollout":7,"compared":false`, 100_000: `"consulted":false,"arms":{"new":1,"control":0},"rollout":7,"compared":false`} {
		b := bind(t, m, `{"id":"u1"}`)
		b.SetGateway(&fakeGateway{rollouts: map[string]int{guardName: share}})
		tab.Evaluate(b)
		var trail Trail
		tab.AppendTrail(&trail, b)
		trail.Rest(b)
		if got := string(trail.AppendSplits(nil, b, fixedHash)); !strings.Contains(got, want+`,"unit":`) {
			t.Errorf("%d: %s", share, got)
		}
	}
}

// A field of the data model comes before the gateway's.
func TestGuardOfDeclaredField(t *testing.T) {
	for text, want := range map[string]string{
		"fields: { id: string, plan: string, " + guardField + ": number }":                                   "blue",
		"fields: { id: string, plan: string, " + guardField + ": string }":                                   "red",
		"fields: { id: string, plan: string }\ncomputed: { " + guardField + ": '100000.0' }":                 "blue",
		"fields: { id: string, plan: string }\ncomputed: { " + guardField + ": 'plan + \"x\"' }":             "red",
		"fields: { id: string, plan: string, other: number }\ncomputed: { " + guardField + ": other / 0.0 }": "red",
	} {
		m := model(t, text, guardField)
		tab := table(t, m, guardTable)
		b := bind(t, m, `{"id":"a","plan":"pro","`+guardField+`":100000}`)
		b.SetGateway(&fakeGateway{rollouts: map[string]int{guardName: 1}})
		if got := outcome(tab, tab.Evaluate(b)); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestGuardMistakes(t *testing.T) {
	m := model(t, "fields: { id: string }", guardField)
	const itself = "a guard divides by itself: leave %s: out and give the shares of its new answer as steps, or write a split of shares without a guard"
	for _, tt := range []struct {
		row      string
		variants bool
		want     string
	}{
		{"{ id: colours, split: { by: id, guard: { new: 1, control: 2 }, of: [ { value: 1, share: 5% } ] } }", false, "flag.yaml:1:76: " + fmt.Sprintf(itself, "of")},
		{"{ id: colours, split: { by: id, guard: { new: 1, control: 2 }, coverage: 5% } }", false, "flag.yaml:1:82: " + fmt.Sprintf(itself, "coverage")},
		{"{ id: colours, split: { by: id, guard: { new: 1, control: 2 }, share: 5% } }", false, "flag.yaml:1:79: " + fmt.Sprintf(itself, "share")},
		{"{ id: colours, ramp: { start: 2026-01-01, end: 2026-01-02 }, split: { by: id, guard: { new: 1, control: 2 } } }", false, "flag.yaml:1:30: " + fmt.Sprintf(itself, "ramp")},
		{"{ id: colours, split: { by: id, guard: { new: 1, control: 2 }, slat: x } }", false, `flag.yaml:1:72: unknown member "slat" in a split: did you mean "salt"?`},
		{"{ split: { by: id, guard: { new: 1, control: 2 } } }", false, "flag.yaml:1:18: a split needs the id of its row: who falls into it is derived from the id, which therefore must not change"},
		{"{ id: colours, split: { guard: { new: 1, control: 2 } } }", false, "flag.yaml:1:31: a split needs by: the field whose values it divides, such as customer_id"},
		{"{ id: colours, split: { by: id, guard: { new: 1 } } }", false, "flag.yaml:1:48: a guard needs new, the answer that more and more units get, and control, that of all others"},
		{"{ id: colours, split: { by: id, guard: x } }", false, "flag.yaml:1:48: a guard must be a mapping such as { new: true, control: false, steps: [1%, 10%, 50%, 100%], every: 1h, need: 300 units, stop: [ { metric: error, ratio: 1.2 } ] }, this is a single value"},
		{"{ id: colours, split: { by: id, guard: { new: true, control: true } } }", false, "flag.yaml:1:70: new and control are the same answer, so that there is nothing to compare"},
		{"{ id: colours, split: { by: id, guard: { new: { a: [1] }, control: { a: [1] } } } }", false, "flag.yaml:1:76: new and control are the same answer, so that there is nothing to compare"},
		{"{ id: colours, split: { by: id, guard: { new: { a: [1] }, control: { a: [2] } } } }", false, ""},
		{"{ id: colours, split: { by: id, guard: { new: a, control: a } } }", true, "flag.yaml:1:67: new and control are the same answer, so that there is nothing to compare"},
		{"{ id: colours, when: { " + guardField + ": 5.. }, split: { by: id, guard: { new: 1, control: 2 } } }", false, `flag.yaml:1:32: "` + guardField + `" is the share of a rollout, which its split alone reads`},
		{"{ id: colours, split: { by: " + guardField + ", guard: { new: 1, control: 2 } } }", false, `flag.yaml:1:37: "` + guardField + `" is the share of a rollout, which its split alone reads`},
	} {
		var errs document.Errors
		tab := DecodeTable(m, parseYAML(t, "flag.yaml", "rules: ["+tt.row+"]"), Options{Key: "flag", Name: "remoteconfigs/flag", Variants: tt.variants}, &errs)
		if got := mistakes(&errs); got != tt.want {
			t.Errorf("%s:\n%s", tt.row, got)
		}
		tab.Evaluate(bind(t, m, `{"id":"x"}`)) // must not panic
	}
	for what, text := range map[string]string{"column": "columns: [" + guardField + ", value]\nmatrix: []", "segment": ""} {
		var errs document.Errors
		if text == "" {
			DecodeModel(parseYAML(t, "context.yaml", "segments: { s: [ { "+guardField+": 5.. } ] }"), []*document.Node{{Text: guardField}}, &errs)
		} else {
			DecodeTable(m, parseYAML(t, "flag.yaml", text), Options{Key: "flag"}, &errs)
		}
		if got := mistakes(&errs); !strings.HasSuffix(got, "is the share of a rollout, which its split alone reads") {
			t.Errorf("%s: %s", what, got)
		}
	}
}

// The analysis takes a guard to answer every unit, with either answer.
func TestAnalyseGuard(t *testing.T) {
	m := model(t, "fields: { id: string }", guardField)
	for text, want := range map[string]string{
		"rules: [ { id: colours, split: { by: id, guard: { new: 1, control: 2 } } }, { id: rest, value: 3 } ]":                                                            "without_unit",
		"rules: [ { id: colours, split: { by: id, guard: { new: 1, control: 2 } } }, { id: rest, when: { id: present }, value: 3 } ]":                                     "unreachable",
		"rules: [ { id: other, split: { by: id, salt: colours, of: [ { value: 1, share: 50% } ] } }, { id: colours, split: { by: id, guard: { new: 1, control: 2 } } } ]": "",
	} {
		tab := table(t, m, text)
		var kinds []string
		for _, f := range tab.Analyse(Analysis{Now: noon, Budget: 10_000}) {
			kinds = append(kinds, fmt.Sprint(f.Kind))
		}
		if got := strings.Join(kinds, " "); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
	d := table(t, m, guardTable2).Divide(0, noon)
	if d.Guard == nil || !slices.Equal(d.Arms, guardArms) || len(d.Parts) != 2 || d.Parts[0] != (Part{0, half, 0, "new"}) || d.Parts[1] != (Part{half, Buckets, 1, "control"}) {
		t.Errorf("%+v", d)
	}
}

const guardTable2 = "rules: [ { id: colours, split: { by: id, guard: { new: 1, control: 2 } } } ]"

// A replay by a share that is not known has both answers.
func TestReplayGuard(t *testing.T) {
	old := model(t, "fields: { id: { type: string, trace: hash }, plan: { type: string, trace: value } }")
	m := model(t, "fields: { id: { type: string, trace: hash }, plan: { type: string, trace: value } }", guardField)
	tab, before := table(t, m, guardTable), table(t, old, "rules: [ { id: colours, when: { plan: pro }, split: { by: id, of: [ { value: red, share: 100% } ] } } ]")
	texts := func(v *Verdict) (list []string) {
		for _, d := range v.Possible {
			list = append(list, outcome(tab, d))
		}
		return list
	}
	inputs := `{"id":{"hash":"x"},"plan":"pro"`
	for _, tt := range []struct {
		share  string
		bucket int // -1: not recorded
		want   string
	}{
		{`}`, -1, "[red]"},
		{`,"` + guardField + `":0}`, -1, "[red]"},
		{`,"` + guardField + `":1000}`, -1, "[blue red]"},
		{`,"` + guardField + `":100000}`, -1, "[blue]"},
		{`,"` + guardField + `":1000}`, 999, "[blue]"},
		{`,"` + guardField + `":1000}`, 1000, "[red]"},
	} {
		r, err := m.Replay(Evidence{Inputs: parseJSON(t, inputs+tt.share), Tables: []*Table{tab}, At: noon})
		if err != nil {
			t.Fatal(err)
		}
		if tt.bucket >= 0 {
			r.SetBucket(tab, 0, uint32(tt.bucket))
		}
		if got := fmt.Sprint(texts(r.Table(tab))); got != tt.want {
			t.Errorf("%s, %d: %s", tt.share, tt.bucket, got)
		}
	}
	tr := NewTransfer(old, m, []*Table{before, tab}, fixedHash)
	r, err := tr.Replay(Evidence{Inputs: parseJSON(t, inputs+"}"), Tables: []*Table{before}, At: noon, Rows: []RowEvidence{{Table: before, Row: 0, Bucket: 5}}})
	if err != nil {
		t.Fatal(err)
	}
	v := r.Table(tab)
	if got := fmt.Sprint(texts(v)); got != "[blue red]" || r.Doubt(tab, 0) == nil || r.Doubt(tab, 0).Unseen != guardField {
		t.Errorf("%s, doubt %v", got, r.Doubt(tab, 0))
	}
}
