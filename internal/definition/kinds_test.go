package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/prompt"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/valyala/fastjson"
)

func TestPrompt(t *testing.T) {
	s := mustLoad(t, workspace(t, map[string]string{
		"context.yaml": "fields: { locale: { type: string } }\n",
		"prompts/full.yaml": `
default: base
variables: { q: { required: true }, w: { default: { a: 1 } } }
log: content
variants:
  base:
    name: Base "1"
    provider: openai
    model: m
    temperature: 0
    maxTokens: 7
    topP: 0.5
    top_k: 40
    frequencyPenalty: -1.5
    presence_penalty: 2
    extra: { seed: 7, stop: [a], nested: { x: 1.50 } }
    messages:
      - { role: system, content: "{{w}}\n\u2028" }
      - { role: user, content: "{{q}}" }
  child:
    extends: base
    temperature: 1
    extra: { seed: 8 }
  grandchild:
    extends: child
    model: other
    messages: [ { role: developer, content: '{"a": 1}' }, { role: assistant, content: "" } ]
columns: [ locale, value ]
matrix:
  - [ nl, child ]
  - [ fr, grandchild ]
`,
		"prompts/a/b.yaml": "messages: [ { role: user, content: x } ]\nname: Short\n",
	}))
	for _, tt := range []struct{ key, context, want string }{
		{"full", `{"locale":"en"}`, `{"name":"Base \"1\"","messages":[{"role":"system","content":"{\"a\":1}\n\u2028"},{"role":"user","content":"hi"}],"provider":"openai","model":"m","temperature":0,"maxTokens":7,"topP":0.5,"topK":40,"frequencyPenalty":-1.5,"presencePenalty":2}`},
		{"full", `{"locale":"nl"}`, `{"name":"child","messages":[{"role":"system","content":"{\"a\":1}\n\u2028"},{"role":"user","content":"hi"}],"provider":"openai","model":"m","temperature":1,"maxTokens":7,"topP":0.5,"topK":40,"frequencyPenalty":-1.5,"presencePenalty":2}`},
		{"full", `{"locale":"fr"}`, `{"name":"grandchild","messages":[{"role":"developer","content":"{\"a\": 1}"},{"role":"assistant","content":""}],"provider":"openai","model":"other","temperature":1,"maxTokens":7,"topP":0.5,"topK":40,"frequencyPenalty":-1.5,"presencePenalty":2}`},
		{"a/b", `null`, `{"name":"Short","messages":[{"role":"user","content":"x"}]}`},
	} {
		got := render(t, s, tt.key, tt.context, `{"q":"hi"}`)
		// The line separator is escaped in the answer.
		if d := cmp.Diff(strings.ReplaceAll(tt.want, "\u2028", `\u2028`), got); d != "" {
			t.Errorf("%s %s\n%s", tt.key, tt.context, d)
		}
		if !json.Valid([]byte(got)) {
			t.Errorf("invalid JSON %s", got)
		}
	}
	p := s.Prompts["full"]
	child, d := p.Select(bind(t, s, `{"locale":"nl"}`))
	if child.Key != "child" || d != (rules.Decision{Row: 0, Outcome: 0, Reason: rules.Match}) {
		t.Errorf("%s %+v", child.Key, d)
	}
	if d := cmp.Diff(map[string]json.RawMessage{"seed": []byte("8"), "stop": []byte(`["a"]`), "nested": []byte(`{"x":1.50}`)}, child.Extra); d != "" {
		t.Error(d)
	}
	if string(p.fallback.Extra["seed"]) != "7" {
		t.Error("a variant changed what it inherited")
	}
	if p.Log != LogContent || len(p.Variants()) != 3 {
		t.Errorf("%v %d", p.Log, len(p.Variants()))
	}
	var values prompt.Values
	must(t, p.Variables().Bind(fastjson.MustParse(`{"q":"{{w}}"}`), nil, nil, &values))
	messages, err := p.fallback.Messages(&values, nil)
	if d := cmp.Diff([]providers.Message{{Role: "system", Content: `{\"a\":1}\n\u2028`}, {Role: "user", Content: "{{w}}"}}, messages); d != "" || err != nil {
		t.Error(d, err)
	}
}

func TestRenderedSizeIsBounded(t *testing.T) {
	s := mustLoad(t, workspace(t, map[string]string{
		"prompts/p.yaml": "variables: { q: { required: true } }\nmessages:\n" + strings.Repeat("  - { role: user, content: \"{{q}}{{q}}\" }\n", 10),
	}))
	p := s.Prompts["p"]
	for q, fits := range map[string]bool{
		strings.Repeat("x", prompt.MaxRendered/20):   true,
		strings.Repeat("x", prompt.MaxRendered/20+1): false,
		// What JSON writes with six bytes counts as one.
		strings.Repeat(`\u0001`, prompt.MaxRendered/20):   true,
		strings.Repeat(`\u0001`, prompt.MaxRendered/20+1): false,
	} {
		var values prompt.Values
		vars := fastjson.MustParse(`{"q":"` + q + `"}`)
		must(t, p.Variables().Bind(vars, nil, nil, &values))
		answer, err := p.fallback.AppendJSON(nil, &values)
		if size, _ := p.fallback.Size(&values); size != len(answer) {
			t.Errorf("an answer of %d bytes, want %d", size, len(answer))
		}
		_, err2 := p.fallback.Messages(&values, nil)
		var tooLarge *prompt.TooLargeError
		if fits != (err == nil) || fits != (err2 == nil) || !fits && !errors.As(err, &tooLarge) {
			t.Errorf("%d: %v, %v", len(q), err, err2)
		}
	}
}

func TestEndpoint(t *testing.T) {
	s := mustLoad(t, workspace(t, map[string]string{
		"prompts/p.yaml":       "provider: a\nmodel: m\ntemperature: 1\nmax_tokens: 9\nextra: { seed: 1 }\nmessages: [ { role: user, content: x } ]\n",
		"endpoints/plain.yaml": "prompt: p\n",
		"endpoints/many.yaml": "prompt: p\nretry: { count: 0, on_codes: [503, 429, 503] }\ntimeout: { total: 5s }\nfallback:\n" +
			"  - { provider: b, model: n, temperature: 0.5, extra: { k: [1] } }\n" + strings.Repeat("  - { provider: c, model: o }\n", 5),
	}))
	e := s.Endpoints["plain"]
	if e.Default().MaxAttempts != 4 || e.Default().Retry.Count != nil || e.Default().Retry.OnCodes != nil || e.Log != Unset ||
		e.Default().Timeout != (Timeout{120 * time.Second, 20 * time.Second, 30 * time.Second}) || e.Prompt != s.Prompts["p"] {
		t.Errorf("%+v", e)
	}
	e = s.Endpoints["many"]
	if e.Default().MaxAttempts != 7 || *e.Default().Retry.Count != 0 || e.Default().Timeout != (Timeout{5 * time.Second, 5 * time.Second, 5 * time.Second}) {
		t.Errorf("%+v", e)
	}
	if d := cmp.Diff([]int{429, 503}, e.Default().Retry.OnCodes); d != "" {
		t.Error(d)
	}
	one, half, nine := 1.0, 0.5, int64(9)
	want := []Target{
		{Provider: "a", Model: "m", Parameters: providers.Parameters{Temperature: &one, MaxTokens: &nine}, Extra: map[string]json.RawMessage{"seed": []byte("1")}},
		{Provider: "b", Model: "n", Parameters: providers.Parameters{Temperature: &half, MaxTokens: &nine}, Extra: map[string]json.RawMessage{"k": []byte("[1]")}},
	}
	targets := e.fallback.Targets(e.Prompt.fallback)
	if d := cmp.Diff(want, targets[:2], cmpopts.IgnoreUnexported(Target{})); d != "" || len(targets) != 7 {
		t.Error(len(targets), d)
	}
}

func TestRemoteConfig(t *testing.T) {
	s := mustLoad(t, workspace(t, map[string]string{
		"context.yaml":             "fields: { plan: { type: string }, unit: { type: string } }\n",
		"remoteconfigs/bool.yaml":  "type: boolean\ndefault: False\nrules: [ { when: { plan: pro }, value: true } ]\n",
		"remoteconfigs/text.yaml":  "type: string\ndefault: 1.10\nrules: [ { when: { plan: pro }, value: \"a\\n\\\"b\\\"\" }, { when: { plan: free }, value: yes } ]\n",
		"remoteconfigs/num.yaml":   "type: number\ndefault: 1.50\nrules: [ { when: { plan: pro }, value: -2e3 } ]\n",
		"remoteconfigs/list.yaml":  "type: list\ndefault: []\nrules: [ { when: { plan: pro }, value: [1, x, { a: ~ }] } ]\n",
		"remoteconfigs/obj.yaml":   "type: object\nmerge: default\ndefault: { a: 1, b: { c: 2, d: 3 }, e: [1] }\nrules: [ { when: { plan: pro }, value: { b: { c: ~, x: { y: ~, z: 1 } }, e: [2], f: 4 } }, { when: { plan: free }, value: {} } ]\n",
		"remoteconfigs/split.yaml": "type: number\ndefault: 0\nrules: [ { id: s, split: { by: unit, of: [ { value: 1, share: 50% }, { value: 2, share: 50% } ] } } ]\n",
		"remoteconfigs/needs.yaml": "type: string\ndefault: off\nrules: [ { when: { config: { bool: true, num: [-2000, 7] } }, value: on } ]\n",
	}))
	for _, tt := range []struct{ key, context, want string }{
		{"bool", `null`, "false"}, {"bool", `{"plan":"pro"}`, "true"},
		{"text", `null`, `"1.10"`}, {"text", `{"plan":"pro"}`, `"a\n\"b\""`}, {"text", `{"plan":"free"}`, `"yes"`},
		{"num", `{}`, "1.50"}, {"num", `{"plan":"pro"}`, "-2e3"},
		{"list", `{}`, "[]"}, {"list", `{"plan":"pro"}`, `[1,"x",{"a":null}]`},
		{"obj", `{"plan":"x"}`, `{"a":1,"b":{"c":2,"d":3},"e":[1]}`},
		{"obj", `{"plan":"pro"}`, `{"a":1,"b":{"d":3,"x":{"z":1}},"e":[2],"f":4}`},
		{"obj", `{"plan":"free"}`, `{"a":1,"b":{"c":2,"d":3},"e":[1]}`},
		{"split", `{"plan":"x"}`, "0"},
		{"needs", `{"plan":"pro"}`, `"on"`}, {"needs", `{"plan":"free"}`, `"off"`},
	} {
		if got, _ := s.RemoteConfigs[tt.key].Evaluate(bind(t, s, tt.context)); string(got) != tt.want {
			t.Errorf("%s %s: got %s, want %s", tt.key, tt.context, got, tt.want)
		}
	}
	seen := map[string]int{}
	for i := range 100 {
		got, d := s.RemoteConfigs["split"].Evaluate(bind(t, s, fmt.Sprintf(`{"unit":"u%d"}`, i)))
		if d.Reason != rules.Split {
			t.Fatalf("%+v", d)
		}
		seen[string(got)]++
	}
	if seen["1"]+seen["2"] != 100 || seen["1"] < 30 || seen["2"] < 30 {
		t.Error(seen)
	}
}

func TestPrerequisites(t *testing.T) {
	dir := workspace(t, map[string]string{
		"remoteconfigs/a.yaml":       "type: boolean\ndefault: false\nrules: [ { when: { config: { b: true } }, value: true } ]\n",
		"remoteconfigs/b.yaml":       "type: boolean\ndefault: false\nrules: [ { when: { config: { c: true } }, value: true } ]\n",
		"remoteconfigs/c.yaml":       "type: boolean\ndefault: false\nrules: [ { when: { config: { a: true } }, value: true } ]\n",
		"remoteconfigs/self.yaml":    "type: boolean\ndefault: false\nrules: [ { when: { config: { self: true } }, value: true } ]\n",
		"remoteconfigs/unknown.yaml": "type: boolean\ndefault: false\nrules: [ { when: { config: { slef: true } }, value: true } ]\n",
		"remoteconfigs/wrong.yaml":   "type: boolean\ndefault: false\nrules: [ { when: { config: { self: maybe } }, value: true } ]\n",
	})
	_, err := Load(dir)
	wantErrors(t, dir, err,
		`remoteconfigs/c.yaml:3:30: remote configurations depend on each other in a circle: a -> b -> c -> a`,
		`remoteconfigs/self.yaml:3:30: remote configurations depend on each other in a circle: self -> self`,
		`remoteconfigs/unknown.yaml:3:30: there is no remote configuration "slef": did you mean "self"?`,
		`remoteconfigs/wrong.yaml:3:36: the value of self must be true or false, this is "maybe"`,
	)
}

func TestTestsAreRun(t *testing.T) {
	dir := workspace(t, map[string]string{
		"context.yaml": "fields: { locale: { type: string }, seats: { type: number } }\non_type_mismatch: reject\n",
		"prompts/p.yaml": `default: en
variables: { q: { required: true } }
variants:
  en: { messages: [ { role: user, content: "{{q}}" } ] }
  nl: { extends: en }
columns: [ locale, value ]
matrix: [ [ nl, nl ] ]
tests:
  - { context: { locale: nl }, variant: nl, rule: row 1 }
  - { context: { locale: nl }, variant: en }
  - { context: { locale: fr }, rule: row 1, value: en }
  - { variant: en, variables: { x: 1 } }
  - { context: { locale: nl } }
  - { context: { locale: nl }, varient: nl }
  - { context: [ nl ], variant: nl }
  - { context: { seats: many }, variant: en }
  - { context: { seats: many }, unchecked_context: true, variant: en }
`,
		"remoteconfigs/r.yaml": `type: object
default: { a: 1, b: [ 1 ] }
columns: [ locale, value ]
matrix: [ [ nl, { a: 2 } ] ]
tests:
  - { value: { b: [ 1.0 ], a: 1 }, rule: default }
  - { context: { locale: nl }, value: { a: 1 } }
`,
		"remoteconfigs/s.yaml": `type: boolean
default: false
rules: [ { id: x, from: 2026-12-01, value: true } ]
tests:
  - { context: { locale: nl }, value: false }
  - { context: { locale: nl }, at: 2026-12-01, value: true }
  - { context: { locale: nl }, at: tomorrow, value: true }
  - { context: { locale: nl }, at: 2026-11-30T23:59:59Z, value: true }
`,
	})
	_, err := Load(dir)
	wantErrors(t, dir, err,
		`prompts/p.yaml:10:41: test failed: expected the variant "en", got "nl" (row 1)`,
		`prompts/p.yaml:11:38: test failed: expected rule "row 1", got "default"`,
		`prompts/p.yaml:12:31: test failed: the required variable "q" is missing: send it under variables`,
		`prompts/p.yaml:13:5: the test expects nothing: add variant or rule`,
		`prompts/p.yaml:14:32: unknown member "varient" in a test: did you mean "variant"?`,
		`prompts/p.yaml:15:16: context must be a mapping, this is a list`,
		`prompts/p.yaml:16:25: context.seats must be a number, this is "many" (unchecked_context: true allows it)`,
		`prompts/p.yaml:17:16: test failed: the data model refuses the context: context.seats must be a number, this is "many"`,
		`remoteconfigs/r.yaml:7:39: test failed: expected {"a":1}, got {"a":2} (row 1)`,
		`remoteconfigs/s.yaml:5:5: this table has a schedule, so its tests need an instant, at: 2026-01-31T09:00:00Z: without one they would break on the day`,
		`remoteconfigs/s.yaml:7:36: at must be a time such as 2026-01-31T09:00:00Z (RFC 3339), this is "tomorrow"`,
		`remoteconfigs/s.yaml:8:65: test failed: expected true, got false (default)`,
	)
}

func TestWarnings(t *testing.T) {
	dir := workspace(t, map[string]string{
		"prompts/p.yaml":    "variables: { a: {}, b: { default: x } }\nmessages: [ { role: user, content: \"{{a}}\" } ]\n",
		"prompts/p.txt":     "x",
		"prompts/README.md": "x",
		"prompt/x.yaml":     "x",
		"contxt.yaml":       "x",
		"README.md":         "x",
		"endpoints/e.yaml":  "prompt: q\ntimeout: { total: 1s, idle: 2s }\n",
		"prompts/q.yaml":    "provider: x\nmodel: m\nmessages: [ { role: user, content: x } ]\n",
	})
	var got []string
	for _, w := range mustLoad(t, dir).Warnings {
		got = append(got, strings.ReplaceAll(w.String(), dir+"/", ""))
	}
	want := []string{
		"contxt.yaml: not read, a workspace has context.yaml and the folders prompts, endpoints, remoteconfigs and experiments: did you mean context.yaml?",
		"endpoints/e.yaml:2:29: idle (2s) is longer than total (1s), which ends the request first",
		"prompt: not read, a workspace has context.yaml and the folders prompts, endpoints, remoteconfigs and experiments: did you mean prompts?",
		"prompts/p.txt: not read, definitions are .yaml, .yml or .json files",
		"prompts/p.yaml:1:14: the variable a is neither required nor has a default: not supplied, it is the empty string",
		"prompts/p.yaml:1:21: no message uses the variable b",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
