package inspect

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/rules"
)

// Questions about a workspace give the gateway's fields by their names in the context.
func TestEvaluateGatewayFields(t *testing.T) {
	s := load(t, workspace(t, "context.yaml", "fields: { plan: { type: string, required: true } }\non_type_mismatch: reject\n",
		"remoteconfigs/on.yaml", "type: boolean\ndefault: true\nrules:\n  - { id: off, when: { budget.daily: 80.., health.openai: down }, value: false }\n",
		"remoteconfigs/plain.yaml", "type: boolean\ndefault: true\nrules:\n  - { value: false }\n"))
	for _, tt := range []struct{ key, context, want string }{
		{"on", `{"budget.daily":80,"health.openai":"down"}`, "false off (match) off: true"},
		{"on", `{"budget.daily":80,"health.openai":"up","plan":"x"}`, "true default (default) off: health.openai must be down, is \"up\""},
		{"on", `{}`, "true default (default) off: budget.daily must be 80.., is missing"},
		{"plain", `{"budget.daily":80}`, "true default (no_context)"},
	} {
		a, err := Evaluate(s, Query{Key: tt.key, Context: fastjson.MustParse(tt.context), At: now, Explain: true})
		if err != nil || len(a.Notes) > 0 {
			t.Fatalf("%s: %v, notes %v", tt.context, err, a.Notes)
		}
		got := fmt.Sprintf("%s %s (%s)", a.Value, a.Row, a.Reason)
		for _, r := range a.Rows {
			got += " " + r.Row + ": "
			if r.Matched {
				got += "true"
			} else {
				got += r.Field + " must be " + r.Cell + ", is " + r.Value
			}
		}
		if got != tt.want {
			t.Errorf("%s %s: %s", tt.key, tt.context, got)
		}
	}
	a, err := Evaluate(s, Query{Key: "on", Context: fastjson.MustParse(`{"plan":"x","budget.dayly":1}`), At: now, Explain: true})
	if err != nil || len(a.Notes) != 1 || a.Notes[0] != `context.budget.dayly is a field of the gateway that no table reads: did you mean "budget.daily"?` {
		t.Errorf("%v, notes %q", err, a.Notes)
	}
}

// A comparison shows for which share and health a version answers differently, also
// where only one of the versions reads them.
func TestCompareGatewayFields(t *testing.T) {
	config := func(rules string) string {
		return workspace(t, "context.yaml", "fields: { plan: { type: string, values: [free, pro] } }\nsegments: { tight: [ { budget.day: 80.. } ] }\n",
			"remoteconfigs/c.yaml", "type: number\ndefault: 0\nrules:\n  - { when: { plan: pro }, value: 5 }\n"+rules)
	}
	for _, tt := range []struct{ name, before, after, want string }{
		{"added", "", "  - { when: { budget.daily: 80.. }, value: 1 }\n",
			"  {\"budget.daily\":80}: 0 (default) -> 1 (row 2)\n"},
		{"removed", "  - { when: { health.a: down }, value: 1 }\n", "",
			"  {\"health.a\":\"down\"}: 1 (row 2) -> 0 (default)\n"},
		{"bound", "  - { when: { budget.daily: 80.. }, value: 1 }\n", "  - { when: { budget.daily: 90.. }, value: 1 }\n",
			"  {\"budget.daily\":80}: 1 (row 2) -> 0 (default)\n"},
		{"another", "  - { when: { budget.daily: 80.. }, value: 1 }\n", "  - { when: { budget.weekly: 80.. }, value: 1 }\n",
			"  {\"budget.daily\":80}: 1 (row 2) -> 0 (default)\n  {\"budget.weekly\":80}: 0 (default) -> 1 (row 2)\n"},
		{"segment", "  - { when: { segment: tight }, value: 1 }\n", "",
			"  {\"budget.day\":80}: 1 (row 2) -> 0 (default)\n"},
		{"nothing", "  - { when: { budget.daily: 80.. }, value: 1 }\n", "  - { when: { budget.daily: [80..] }, value: 1 }\n", ""},
	} {
		c := compareDirs(t, config(tt.before), config(tt.after))
		_, got, _ := strings.Cut(summary(c), "\n")
		if diff := cmp.Diff(tt.want, got); diff != "" || len(c.Definitions) != 1 || c.Definitions[0].Undecided {
			t.Errorf("%s: %s\n%s", tt.name, diff, summary(c))
		}
	}
}

// TestCompareRandomGatewayFields holds comparisons of random tables against all
// requests of a grid.
func TestCompareRandomGatewayFields(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	row := func() string {
		return fmt.Sprintf("  - { when: { %s }, value: %d }\n", strings.Trim(strings.Join([]string{
			pick("", "plan: free, ", "plan: not pro, ", "plan: missing, "),
			pick("", "budget.day: 80.., ", "budget.day: ..<50, ", "budget.day: missing, ", "budget.day: 50..80, "),
			pick("", "", "health.a: down", "health.a: up", "health.a: not up", "health.b/m: down"),
		}, ""), ", "), random.IntN(3))
	}
	dir := func(rows []string) string {
		return workspace(t, "context.yaml", "fields: { plan: { type: string, values: [free, pro] } }\n",
			"remoteconfigs/c.yaml", "type: number\ndefault: 0\nrules:\n"+strings.Join(rows, ""))
	}
	requests := []string{"null"}
	for _, plan := range []string{"", `,"plan":"free"`, `,"plan":"pro"`} {
		for _, budget := range []string{"", `,"budget.day":0`, `,"budget.day":50`, `,"budget.day":80`, `,"budget.day":81`} {
			for _, health := range []string{"", `,"health.a":"up"`, `,"health.a":"down"`} {
				for _, other := range []string{"", `,"health.b/m":"down"`} {
					all := plan + budget + health + other
					requests = append(requests, "{"+strings.TrimPrefix(all, ",")+"}", `{"other":1`+all+"}")
				}
			}
		}
	}
	differed := 0
	for range 80 {
		var rows []string
		for range 1 + random.IntN(5) {
			rows = append(rows, row())
		}
		edited := append([]string(nil), rows...)
		edited[random.IntN(len(edited))] = row()
		oldDir, newDir := dir(rows), dir(edited)
		c := compareDirs(t, oldDir, newDir)
		found := len(c.Definitions) > 0 && len(c.Definitions[0].Answers) > 0
		witness := answersDiffer(t, oldDir, newDir, requests, (*rules.Model).Simulate)
		if found != (witness != "") || len(c.Definitions) > 0 && c.Definitions[0].Undecided {
			t.Errorf("found %t, but %q differs:\n%s\n%s\n%s", found, witness, strings.Join(rows, ""), strings.Join(edited, ""), summary(c))
		}
		if found {
			differed++
		}
	}
	if differed < 20 {
		t.Errorf("%d pairs of tables differed", differed)
	}
}

// A proof takes the gateway's fields from the inputs, and what the trace says of a
// context.
func TestProveGatewayFields(t *testing.T) {
	s := load(t, workspace(t, "context.yaml", "fields: { plan: { type: string, trace: value } }\n",
		"prompts/p.yaml", "default: a\nvariants:\n  a: { provider: canned, extra: { answer: x }, messages: [ { role: user, content: x } ] }\n  b: { extends: a }\nrules:\n  - { when: { plan: missing }, value: b }\n",
		"endpoints/e.yaml", "prompt: p\ndefault: x\nvariants: { x: { timeout: { total: 9s } }, y: { timeout: { total: 8s } } }\nrules:\n  - { id: full, when: { budget.daily: 80.. }, value: y }\n",
		"remoteconfigs/plain.yaml", "type: boolean\ndefault: true\nrules:\n  - { id: off, value: false }\n",
		"remoteconfigs/on.yaml", "type: boolean\ndefault: true\nrules:\n  - { id: off, when: { health.openai: down, config: { plain: true } }, value: false }\n"))
	e, p, on, plain := s.Endpoints["e"], s.Prompts["p"], s.RemoteConfigs["on"], s.RemoteConfigs["plain"]
	none := []string{rules.NoteNoContext}
	endpoint := Traced{Kind: "endpoint", Key: "e", Version: e.Version, Revision: s.Revision, Prompt: "p", PromptVersion: p.Version, Time: now}
	config := Traced{Kind: "remoteconfig", Key: "on", Version: on.Version, Revision: s.Revision, Time: now, Read: map[string]string{"remoteconfigs/plain": plain.Version}}
	for _, tt := range []struct {
		name    string
		traced  Traced
		inputs  string
		notes   []string
		decided Decided
		want    string
	}{
		{"endpoint", endpoint, `{"budget.daily":85}`, none, Decided{"no_context", "", "a", "y", "full"}, Same},
		{"endpoint below", endpoint, `{"budget.daily":79}`, none, Decided{"no_context", "", "a", "x", ""}, Same},
		{"endpoint, another share", endpoint, `{"budget.daily":79}`, none, Decided{"no_context", "", "a", "y", "full"}, Differs},
		{"endpoint, no inputs", endpoint, ``, none, Decided{"no_context", "", "a", "y", "full"}, Unknown},
		{"endpoint, context", endpoint, `{"plan":"pro","budget.daily":85}`, nil, Decided{"default", "", "a", "y", "full"}, Same},
		{"endpoint, none said", endpoint, `{"budget.daily":85}`, nil, Decided{"no_context", "", "a", "y", "full"}, Same},
		{"endpoint, context after all", endpoint, `{"budget.daily":85}`, nil, Decided{"match", "row 1", "b", "y", "full"}, Same},
		{"endpoint, context denied", endpoint, `{"budget.daily":85}`, none, Decided{"match", "row 1", "b", "y", "full"}, Differs},
		{"config", config, `{"health.openai":"down"}`, none, Decided{"match", "off", "", "", ""}, Same},
		{"config with a context", config, `{"health.openai":"down"}`, nil, Decided{"match", "off", "", "", ""}, Differs},
		{"config up", config, `{"health.openai":"up"}`, none, Decided{"match", "off", "", "", ""}, Differs},
		{"config says no context", config, `{"health.openai":"down"}`, none, Decided{"no_context", "", "", "", ""}, Differs},
		{"config hidden", config, `{"health.openai":{"hash":"x"}}`, none, Decided{"match", "off", "", "", ""}, Differs},
	} {
		traced := tt.traced
		traced.Decided, traced.Notes = tt.decided, tt.notes
		if tt.inputs != "" {
			traced.Inputs = json.RawMessage(tt.inputs)
		}
		if traced.Kind == "endpoint" {
			traced.Variant = traced.Arm
		}
		if got := Prove(s, &traced); got.Result != tt.want {
			t.Errorf("%s: %s: %v, missing %v", tt.name, got.Result, got.Differences, got.Missing)
		}
	}
}
