package definition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// compiledSchemas are the schemas by name, as an editor uses them.
func compiledSchemas(t testing.TB, model *document.Node) map[string]*jsonschema.Schema {
	t.Helper()
	compiled := make(map[string]*jsonschema.Schema)
	for _, s := range Schemas(model) {
		if bytes.Contains(s.Schema, []byte("$include")) {
			t.Errorf("%s: a member $include, which editors do not know, is left", s.Name)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(s.Schema))
		if err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		c := jsonschema.NewCompiler()
		must(t, c.AddResource(s.Name, doc))
		if compiled[s.Name], err = c.Compile(s.Name); err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
	}
	return compiled
}

// validate checks a YAML text as an editor would: typed by YAML's core schema.
func validate(t testing.TB, s *jsonschema.Schema, text string) error {
	t.Helper()
	var errs document.Errors
	n := document.Parse("x.yaml", []byte(text), &errs)
	raw := n.AppendJSON(nil, &errs)
	must(t, errs.Err())
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	must(t, err)
	return s.Validate(v)
}

// schemaNames are the names of the schemas by folder.
var schemaNames = map[string]string{"prompts": "prompt", "endpoints": "endpoint", "remoteconfigs": "remoteconfig", "experiments": "experiment"}

// TestSchemasAcceptWorkspaces validates whole workspaces that load.
func TestSchemasAcceptWorkspaces(t *testing.T) {
	for _, dir := range []string{"../../examples/definitions", "../command/starter/definitions"} {
		mustLoad(t, dir)
		model, err := ReadDataModel(dir)
		must(t, err)
		for _, schemas := range []map[string]*jsonschema.Schema{compiledSchemas(t, model), compiledSchemas(t, nil)} {
			files := 0
			err := fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
				if err != nil || entry.IsDir() {
					return err
				}
				files++
				schema := schemas["context"]
				if folder, _, ok := strings.Cut(name, "/"); ok {
					schema = schemas[schemaNames[folder]]
				}
				text, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil {
					return err
				}
				if err := validate(t, schema, string(text)); err != nil {
					t.Errorf("%s/%s: %v", dir, name, err)
				}
				return nil
			})
			if err != nil || files < 5 {
				t.Fatal(files, err)
			}
		}
	}
}

// TestSchemasAndLoading holds schemas and loading to the same judgement.
func TestSchemasAndLoading(t *testing.T) {
	const model = "timezone: UTC\ncoerce: true\non_unknown_field: warn\non_type_mismatch: missing\nfields:\n  plan: { type: string, path: user.plan, values: [free, pro], ignore_case: true, required: false, coerce: true, trace: value }\n  seats: { type: number, min: 0, max: 100, values: [1, 2] }\n  tags: list\n  v: { type: string, format: semver }\n  l: { type: string, match: language-range }\n  id: string\ncomputed: { many: seats > 1 }\nsegments: { s: [ { plan: pro, tags: { all: [a, b], size: 1.. } } ] }\n"
	const rc, rule, variant = "type: number\ndefault: 0\n", "type: number\ndefault: 0\nrules:\n", "messages: [ { role: user, content: hi } ]\n"
	const guard = "{ new: 1, control: 2, steps: [5%], every: 7d, need: 0, stop: [ { metric: error, ratio: 2 } ] }"
	var errs document.Errors
	schemas := compiledSchemas(t, document.Parse("context.yaml", []byte(model), &errs))
	for _, test := range []struct {
		kind, text string
		good       bool
	}{
		{"context", model, true},
		{"context", "targeting_key: id\nfields: { id: string }\n", true},
		{"context", "unit: id\nfields: { id: number }\n", true},
		{"context", "unit: [id]\nfields: { id: number }\n", false},
		{"context", "targeting_key: [id]\nfields: { id: string }\n", false},
		{"context", "trace: { always: [id, twice] }\nfields: { id: string }\ncomputed: { twice: id + id }\n", true},
		{"context", "trace: { always: id }\nfields: { id: string }\n", false},
		{"context", "trace: { never: [id] }\nfields: { id: string }\n", false},
		{"context", "field: {}\n", false},
		{"context", "fields: { a: { type: text } }\n", false},
		{"context", "fields: { a: {} }\n", false},
		{"context", "fields: { segment: string }\n", false},
		{"context", "fields: { a: { type: string, value: [x] } }\n", false},
		{"context", "fields: { a: string }\nsegments: { s: { a: x } }\n", false},
		{"context", "fields: { a: { type: string, trace: text } }\n", false},
		{"context", "on_unknown_field: fail\n", false},

		{"experiment", started + resolved, true},
		{"experiment", started + resolved + "key: x\nattribution: 7d\nothers: [ { measure: latency, over: 3s, smallest: 0.1 }, { measure: score, as: total, name: s, goal: down, smallest: 5 % } ]\nguardrails: []\n", true},
		{"experiment", started, false},
		{"experiment", resolved, false},
		{"experiment", strings.ReplaceAll(started, "remoteconfigs/button", "button") + resolved, false},
		{"experiment", started + resolved + "log: none\n", false},
		{"experiment", started + "primary: { smallest: 1 }\n", false},
		{"experiment", started + "primary: { measure: cost }\n", false},
		{"experiment", started + "primary: { value: a, smallest: 1 }\n", false},
		{"experiment", started + "primary: { value: a, measure: cost, as: mean, goal: up, smallest: 1 }\n", false},
		{"experiment", started + "primary: { measure: costs, smallest: 1 }\n", false},
		{"experiment", started + "primary: { measure: cost, over: 3s, smallest: 1 }\n", false},
		{"experiment", started + "primary: { measure: latency, as: mean, smallest: 1 }\n", false},
		{"experiment", started + "primary: { measure: cost, smallest: 0 }\n", false},
		{"experiment", started + "primary: { measure: cost, smallest: some }\n", false},
		{"experiment", started + resolved + "others: { measure: cost, smallest: 1 }\n", false},

		{"remoteconfig", rc, true},
		{"remoteconfig", rc + "aliases: [old/key, older]\n", true},
		{"remoteconfig", rc + "aliases:\n", true},
		{"remoteconfig", rc + "aliases: old/key\n", false},
		{"remoteconfig", rc + "aliases: [old key]\n", false},
		{"remoteconfig", rc + "aliases: [old, old]\n", false},
		{"remoteconfig", rc + "aliases: [ { id: pmpt_1 } ]\n", false},
		{"remoteconfig", "default: 0\n", false},
		{"remoteconfig", "type: number\n", false},
		{"remoteconfig", "type: int\ndefault: 0\n", false},
		{"remoteconfig", rc + "defualt: 1\n", false},
		{"remoteconfig", rc + "log: all\n", false},
		{"remoteconfig", rc + "hit: any\n", false},
		{"remoteconfig", rc + "key: a b\n", false},
		{"remoteconfig", rc + "columns: [ plan, value ]\n", false},
		{"remoteconfig", rc + "matrix: [ [ pro, 1 ] ]\n", false},
		{"remoteconfig", rc + "matrix: limits.csv\n", true},
		{"remoteconfig", rc + "matrix: limits.txt\n", false},
		{"remoteconfig", rc + "columns: [ plan, value ]\nmatrix: limits.csv\n", false},
		{"remoteconfig", rc + "columns: [ plann, value ]\nmatrix: [ [ pro, 1 ] ]\n", false},
		{"remoteconfig", rc + "columns: [ plan, plan, value ]\nmatrix: [ [ pro, pro, 1 ] ]\n", false},
		{"remoteconfig", rc + "columns: [ plan, many, segment, from, until, value ]\nmatrix: [ [ [pro], true, s, 2026-01-01, null, 1 ], [ not pro, any, any, null, 2099-01-01, 2 ] ]\n", true},
		{"remoteconfig", rule + "- { id: a, when: { plan: pro, tags: { none: [x] }, v: ^2.1, l: nl }, value: 1 }\n", true},
		{"remoteconfig", rule + "- { id: a, split: { by: id, coverage: 50%, salt: x, of: [ { value: 1, share: 20% } ] } }\n", true},
		{"remoteconfig", rule + "- { id: a, split: { by: id, of: [ { value: 1, share: 20%, name: blue/2 }, { value: 2, share: 20% } ] } }\n", true},
		{"remoteconfig", rule + "- { id: a, split: { by: id, of: [ { value: 1, share: 20%, name: a b } ] } }\n", false},
		{"remoteconfig", rule + "- { id: a, split: { by: id, of: [ { value: 1, share: 20%, name: '2' } ] } }\n", false},
		{"remoteconfig", rule + "- { id: a, split: { by: id, of: [ { value: 1, share: 20%, nam: a } ] } }\n", false},
		{"remoteconfig", rule + "- { id: a, split: { by: id, salt: x, guard: { new: 1, control: 2, steps: [0.5%, 50%, 100%], every: 1h30m, need: 1 unit, stop: [ { metric: latency, over: 3s, ratio: 1.2 }, { value: solved, as: rate, ratio: 0.5 } ], then: back } } }\n", true},
		{"remoteconfig", rule + "- { id: a, split: { by: id, guard: " + guard + " } }\n", true},
		{"remoteconfig", rule + "- { id: a, split: { by: id, guard: " + guard + ", coverage: 5% } }\n", false},
		{"remoteconfig", rule + "- { id: a, split: { by: id, guard: " + guard + ", of: [ { value: 1, share: 20% } ] } }\n", false},
		{"remoteconfig", rule + "- { id: a, split: { by: id } }\n", false},
		{"remoteconfig", rule + "- { id: a, split: { by: id, guard: { new: 1, control: 2 } } }\n", false},
		{"remoteconfig", rule + "- { id: a, split: { by: id, guard: " + strings.Replace(guard, "7d", "7", 1) + " } }\n", false},
		{"remoteconfig", rule + "- { id: a, split: { by: id, guard: " + strings.Replace(guard, "need: 0", "need: some", 1) + " } }\n", false},
		{"remoteconfig", rule + "- { id: a, split: { by: id, guard: " + strings.Replace(guard, "need", "needs", 1) + " } }\n", false},
		{"remoteconfig", rule + "- { id: a, split: { by: id, guard: " + strings.Replace(guard, "need: 0", "then: stop", 1) + " } }\n", false},
		{"remoteconfig", rule + "- { id: a, split: { by: id, guard: " + strings.Replace(guard, "metric: error", "metric: errors", 1) + " } }\n", false},
		{"remoteconfig", rule + "- { id: a, split: { by: id, guard: " + strings.Replace(guard, "metric: error", "metric: error, over: 1s", 1) + " } }\n", false},
		{"remoteconfig", rule + "- { id: a, split: { by: id, guard: " + strings.Replace(guard, "metric: error", "metric: error, as: mean", 1) + " } }\n", false},
		{"remoteconfig", rule + "- { id: a, split: { by: id, guard: " + strings.Replace(guard, "metric: error", "value: x", 1) + " } }\n", false},
		{"remoteconfig", rule + "- { id: a, split: { by: id, guard: " + strings.Replace(guard, "ratio: 2", "ratio: 1", 1) + " } }\n", false},
		{"remoteconfig", rule + "- { id: a, split: { by: id, guard: " + strings.Replace(guard, ", ratio: 2", "", 1) + " } }\n", false},
		{"remoteconfig", rule + "- { id: a, ramp: { by: id, from: 5%, to: 100%, start: 2026-01-01, end: 2099-01-01 }, value: 1 }\n", true},
		{"remoteconfig", rule + "- { value: 1, split: { by: id, of: [ { value: 1, share: 20% } ] } }\n", false},
		{"remoteconfig", rule + "- { when: { plan: pro } }\n", false},
		{"remoteconfig", rule + "- { when: { plann: pro }, value: 1 }\n", false},
		{"remoteconfig", rule + "- { when: { plan: { anyy: [pro] } }, value: 1 }\n", false},
		{"remoteconfig", rule + "- { when: { plan: [] }, value: 1 }\n", false},
		{"remoteconfig", rule + "- { id: a, split: { of: [ { value: 1, share: 20% } ] } }\n", false},
		{"remoteconfig", rule + "- { id: a, ramp: { by: id, start: 2026-01-01 }, value: 1 }\n", false},
		{"remoteconfig", rule + "- { value: 1 }\ncolumns: [ value ]\nmatrix: [ [ 1 ] ]\n", false},
		{"remoteconfig", rc + "tests: [ { context: { seats: 1 }, value: 0 }, { context: { plan: pro }, unchecked_context: true, value: 0 } ]\n", true},
		{"remoteconfig", rc + "tests: [ { context: { seats: 1 }, unchecked_context: 1, value: 0 } ]\n", false},
		{"remoteconfig", rc + "record: exposures\nwindow: 1h\n", true},
		{"remoteconfig", rc + "record: all\n", false},
		{"remoteconfig", rc + "record: exposures\nwindow: [1h]\n", false},
		{"remoteconfig", rc + "tests: [ { contxt: {}, value: 0 } ]\n", false},

		{"prompt", variant + "max_tokens: 5\ntop_k: 0\n", true},
		{"prompt", variant + "maxTokens: 5\nextra: { seed: 1 }\n", true},
		{"prompt", variant + "seed: 1\nstop: [a, b]\nreasoning_effort: none\nresponse_format: json\ntools: [ { name: f, description: d, strict: true, parameters: { type: object } }, { name: g } ]\ntool_choice: { name: g }\n", true},
		{"prompt", variant + "stop: a\nreasoningEffort: high\nresponseFormat: { jsonSchema: { name: n, strict: false, schema: { type: object, required: [a] } } }\ntools: []\n", true},
		{"prompt", variant + "seed: -1\n", false},
		{"prompt", variant + "stop: [a, b, c, d, e]\n", false},
		{"prompt", variant + "reasoning_effort: lots\n", false},
		{"prompt", variant + "response_format: yaml\n", false},
		{"prompt", variant + "response_format: { json_schema: { name: n } }\n", false},
		{"prompt", variant + "response_format: { json_schema: { name: n, schema: { type: array } } }\n", false},
		{"prompt", variant + "tools: [ { description: d } ]\n", false},
		{"prompt", variant + "tools: [ { name: a b } ]\n", false},
		{"prompt", variant + "tools: [ { name: a, parameters: {} } ]\n", false},
		{"prompt", variant + "tools: [ { name: a } ]\ntool_choice: any\n", false},
		{"prompt", variant + "temperature: 3\n", false},
		{"prompt", variant + "max_tokens: 1.5\n", false},
		{"prompt", "default: a\n", false},
		{"prompt", "messages: []\n", false},
		{"prompt", "messages: [ { role: robot, content: hi } ]\n", false},
		{"prompt", "messages: [ { role: user } ]\n", false},
		{"prompt", "messages: [ { role: user, content: \"{{a}} {{b}}\" } ]\nvariables: { a: { default: 1 }, b: { required: true } }\n", true},
		{"prompt", "messages: [ { history: true }, { role: user, content: hi } ]\n", true},
		{"prompt", "messages: [ { history: true, roles: [user, assistant, tool], max_messages: 20, max_bytes: 64KiB } ]\n", true},
		{"prompt", "variables: { a: { required: true } }\nmessages: [ { role: user, content: [ { text: \"{{a}}\" }, { image: \"{{a}}\", detail: low, type: image/png }, { audio: \"{{a}}\", type: audio/wav }, { file: \"{{a}}\", name: n, type: a/b } ] } ]\n", true},
		{"prompt", "messages: [ { role: user, content: [] } ]\n", false},
		{"prompt", "messages: [ { role: user, content: [ hi ] } ]\n", false},
		{"prompt", "messages: [ { role: user, content: [ { type: text, text: hi } ] } ]\n", false},
		{"prompt", "messages: [ { role: user, content: [ { image: \"https://x.test\", detail: lots } ] } ]\n", false},
		{"prompt", "messages: [ { role: user, content: [ { file: \"https://x.test\", detail: low } ] } ]\n", false},
		{"prompt", "messages: [ { role: user, content: [ { file: \"https://x.test\", type: png } ] } ]\n", false},
		{"prompt", "messages: [ { history: false } ]\n", false},
		{"prompt", "messages: [ { history: true, content: hi } ]\n", false},
		{"prompt", "messages: [ { history: true, roles: [usr] } ]\n", false},
		{"prompt", "messages: [ { history: true, max_messages: 0 } ]\n", false},
		{"prompt", variant + "variables: { 1a: {} }\n", false},
		{"prompt", variant + "variables: { a: { config: limits, path: rpm, default: 1, description: d }, b: { config: limits } }\n", true},
		{"prompt", variant + "variables: { a: { path: rpm } }\n", false},
		{"prompt", variant + "variables: { a: { config: [limits] } }\n", false},
		{"prompt", variant + "variables: { a: { config: limits, path: [rpm] } }\n", false},
		{"prompt", "default: a\nvariants: { a: { messages: [ { role: user, content: hi } ] }, b: { extends: a, model: m } }\n", true},
		{"prompt", "variants: { a: { message: hi } }\n", false},
		{"prompt", "default: a\nvariants: { a: { messages: [ { role: user, content: hi } ] } }\nrules: [ { id: r, split: { by: id, of: [ { value: a, share: 50% } ] } } ]\n", true},
		{"prompt", "default: a\nvariants: { a: { messages: [ { role: user, content: hi } ] } }\nrules: [ { id: r, split: { by: id, of: [ { value: a, share: 50%, name: b } ] } } ]\n", false},

		{"endpoint", "prompt: p\n", true},
		{"endpoint", "prompt: p\naliases: [ old/p, { id: pmpt_1 }, { id: pmpt_2, versions: { \"3\": p } } ]\n", true},
		{"endpoint", "prompt: p\naliases: [ { id: pmpt_2, version: { \"3\": p } } ]\n", false},
		{"endpoint", "prompt: p\naliases: [ claude-*, \"*\", \"*-mini\" ]\n", true},
		{"endpoint", "prompt: p\naliases: [ claude-*-* ]\n", false},
		{"endpoint", "prompt: p\naliases: [ { id: pmpt_* } ]\n", false},
		{"remoteconfig", rc + "aliases: [ old-* ]\n", false},
		{"endpoint", "prompt: p\naliases: [ { versions: { \"3\": p } } ]\n", false},
		{"endpoint", "prompt: p\naliases: [ { id: pmpt_2, versions: { \"3\": [p] } } ]\n", false},
		{"endpoint", "prompt: p\nretry: { count: 2, on_codes: [429] }\nmax_attempts: 4\nfallback: [ { provider: x, model: m, extra: { a: 1 } } ]\ntimeout: { total: 60s, first_token: 1.5s, idle: 1m30s }\n", true},
		{"endpoint", "prompt: p\ncache: { ttl: 10m }\n", true},
		{"endpoint", "prompt: p\nidempotency: true\n", true},
		{"endpoint", "prompt: p\nidempotency: ~\n", true},
		{"endpoint", "prompt: p\nidempotency: { ttl: 10m }\n", false},
		{"endpoint", "prompt: p\naccept: { history: false, tools: true, variants: true, max_body_size: 16MiB, parameters: [ temperature, maxTokens, { top_p: 0..<1, presence_penalty: -1..1 }, { seed: true } ] }\n", true},
		{"endpoint", "prompt: p\naccept: { parameters: { max_tokens: ..800, reasoningEffort: [low], response_format: json, stop: true, parallel_tool_calls: false }, unknown: refuse, max_body_size: 1000 }\n", true},
		{"endpoint", "prompt: p\naccept: { unknown: true }\n", false},
		{"endpoint", "prompt: p\naccept: { tools: { hosted: refuse } }\n", true},
		{"endpoint", "prompt: p\naccept: { tools: { hosted: [web_search] } }\n", true},
		{"endpoint", "prompt: p\naccept: { tools: { hosted: [mcp] } }\n", false},
		{"endpoint", "prompt: p\naccept: { tools: { hosted: [] } }\n", false},
		{"endpoint", "prompt: p\naccept: ~\n", true},
		{"endpoint", "prompt: p\naccept: true\n", false},
		{"endpoint", "prompt: p\naccept: { system: true }\n", false},
		{"endpoint", "prompt: p\naccept: { parameters: [ max_token ] }\n", false},
		{"endpoint", "prompt: p\naccept: { parameters: { max_tokens: 800 } }\n", false},
		{"endpoint", "prompt: p\naccept: { parameters: { stop: ..2 } }\n", false},
		{"endpoint", "prompt: p\naccept: { parameters: { reasoning_effort: [lots] } }\n", false},
		{"endpoint", "prompt: p\nvariants: { a: { accept: {} } }\n", false},
		{"endpoint", "prompt: p\nfallback: [ { provider: x, model: m, seed: 1, stop: [], response_format: text, tools: [ { name: a } ], tool_choice: required } ]\n", true},
		{"endpoint", "prompt: p\nfallback: [ { provider: x, model: m, tools: a } ]\n", false},
		{"endpoint", "prompt: p\ncache: {}\n", false},
		{"endpoint", "max_attempts: 2\n", false},
		{"endpoint", "prompt: p\nmax_attempts: 11\n", false},
		{"endpoint", "prompt: p\nretry: { count: 10 }\n", false},
		{"endpoint", "prompt: p\nretry: { on_codes: [200] }\n", false},
		{"endpoint", "prompt: p\nretry: { on_codes: [] }\n", true},
		{"endpoint", "prompt: p\nfallback: [ { model: x } ]\n", false},
		{"endpoint", "prompt: p\ntimeout: { total: 60 }\n", false},
		{"endpoint", "prompt: p\nvariants: { a: {}, b: { extends: a, description: d, weight: 0, max_attempts: ~, retry: ~, fallback: ~, timeout: ~, hedge: ~, cache: { ttl: 1h } } }\ndefault: a\ncolumns: [ plan, value ]\nmatrix: [ [ pro, b ] ]\ntests: [ { name: n, context: { user: { plan: pro } }, variant: b, value: b, rule: row 1 } ]\n", true},
		{"endpoint", "prompt: p\nvariants: { a: { cache: { ttl: 1h } }, b: {} }\ndefault: a\nhit: unique\nrules: [ { id: r, split: { by: id, of: [ { value: a, share: 50% }, { value: b, share: 50% } ] } } ]\n", true},
		{"endpoint", "prompt: p\nvariants: { a: { cache: { ttl: 1h } }, b: {} }\ndefault: a\ncolumns: [ plan, budget.per-day_1, health.x, health.x/m/n, value ]\nmatrix: [ [ pro, 80.., down, not up, b ] ]\n", true},
		{"endpoint", "prompt: p\nvariants: { a: { cache: { ttl: 1h } }, b: {} }\ndefault: a\ncolumns: [ budget.Day, value ]\nmatrix: [ [ 80.., b ] ]\n", false},
		{"prompt", variant + "rules: [ { when: { plan: pro, budget.day: 80.., health.a.b: missing, health.a/m: [up, down] }, value: x } ]\n", true},
		{"prompt", variant + "rules: [ { when: { health.a/: up }, value: x } ]\n", false},
		{"prompt", variant + "rules: [ { when: { budget.: 1 }, value: x } ]\n", false},
		{"context", "fields: { plan: string }\nsegments: { s: [ { health.a: down, budget.b: 1..2 } ] }\n", true},
		{"endpoint", "prompt: p\nvariants: {}\n", false},
		{"endpoint", "prompt: p\nvariants: { a: ~ }\n", false},
		{"endpoint", "prompt: p\nvariants: { a b: {} }\n", false},
		{"endpoint", "prompt: p\nvariants: { a: { log: none } }\n", false},
		{"endpoint", "prompt: p\nvariants: { a: { model: m } }\n", false},
		{"endpoint", "prompt: p\nvariants: { a: { weight: 1001 } }\n", false},
		{"endpoint", "prompt: p\nvariants: { a: {} }\ncolumns: [ plan, value ]\n", false},
		{"endpoint", "prompt: p\nvariants: { a: {} }\ncolumns: [ plann, value ]\nmatrix: [ [ pro, a ] ]\n", false},
		{"endpoint", "prompt: p\nvariants: { a: {} }\ntests: [ { variables: {}, variant: a } ]\n", false},
		{"endpoint", "prompt: p\ncolumns: [ plan, value ]\nmatrix: [ [ pro, a ] ]\n", false},
		{"endpoint", "prompt: p\nrules: [ { value: a } ]\n", false},
		{"endpoint", "prompt: p\ndefault: a\n", false},
		{"endpoint", "prompt: p\nweight: 0\n", false},
		{"endpoint", "prompt: p\ntests: [ { variant: a } ]\n", false},
		{"endpoint", "prompt: p\ntask: chat\n", true},
		{"endpoint", "prompt: p\ntask: image\n", false},
		{"endpoint", "prompt: p\ntargets: [ { provider: x, model: m, space: s } ]\n", false},
		{"endpoint", "task: embedding\nbatch: 96\nretry: { count: 1 }\nmax_attempts: 3\ntimeout: { total: 10s }\nlog: none\ntargets: [ { provider: x, model: m, space: s, weight: 2, extra: { a: 1 } }, { provider: y, model: m, space: s } ]\n", true},
		{"endpoint", "task: embedding\n", false},
		{"endpoint", "task: embedding\ntargets: []\n", false},
		{"endpoint", "task: embedding\ntargets: [ { provider: x, model: m } ]\n", false},
		{"endpoint", "task: embedding\ntargets: [ { model: m, space: s } ]\n", false},
		{"endpoint", "task: embedding\nbatch: 0\ntargets: [ { provider: x, model: m, space: s } ]\n", false},
		{"endpoint", "task: embedding\nprompt: p\ntargets: [ { provider: x, model: m, space: s } ]\n", false},
		{"endpoint", "task: embedding\ncache: { ttl: 1h }\ntargets: [ { provider: x, model: m, space: s } ]\n", false},
	} {
		files := map[string]string{"context.yaml": model, "remoteconfigs/limits.yaml": "type: object\ndefault: { rpm: 1 }\n", "prompts/p.yaml": "provider: x\nmodel: m\n" + variant}
		name := test.kind + "s/x.yaml"
		if test.kind == "context" {
			name = "context.yaml"
		}
		if test.kind == "remoteconfig" {
			files["remoteconfigs/limits.csv"] = "plan,value\npro,1\n"
		}
		if test.kind == "experiment" {
			files["remoteconfigs/button.yaml"] = strings.ReplaceAll(experimented["remoteconfigs/button.yaml"], "customer_id", "id")
		}
		files[name] = test.text
		_, loading := Load(workspace(t, files))
		schema := validate(t, schemas[test.kind], test.text)
		if (loading == nil) != test.good || (schema == nil) != test.good {
			t.Errorf("%s:\n%swant good %t\nloading: %v\nschema:  %v", test.kind, test.text, test.good, loading, schema)
		}
	}
}

// TestSchemasAreComplete compares the members of the schemas with those that
// are read.
func TestSchemasAreComplete(t *testing.T) {
	members := func(name string, path ...string) []string {
		t.Helper()
		i := slices.IndexFunc(Schemas(nil), func(s FileSchema) bool { return s.Name == name })
		var node map[string]any
		must(t, json.Unmarshal(Schemas(nil)[i].Schema, &node))
		for _, step := range append(path, "properties") {
			next, ok := node[step].(map[string]any)
			if !ok {
				t.Fatalf("%s has no %v", name, path)
			}
			node = next
		}
		return slices.Collect(maps.Keys(node))
	}
	for what, pair := range map[string][2][]string{
		"prompt":        {members("prompt"), slices.Concat(commonMembers, recordMembers, promptMembers, variantMembers, rules.TableMembers)},
		"variant":       {members("prompt", "$defs", "variant"), slices.Concat([]string{"extends", "description"}, variantMembers)},
		"remoteconfig":  {members("remoteconfig"), slices.Concat(commonMembers, recordMembers, configMembers, rules.TableMembers)},
		"endpoint":      {members("endpoint"), slices.Concat(commonMembers, rules.TableMembers, policyMembers, endpointMembers, []string{"targets", "batch"})},
		"experiment":    {members("experiment"), experimentMembers},
		"metric":        {members("experiment", "$defs", "metric"), metricMembers},
		"guard":         {members("remoteconfig", "$defs", "guard"), guardMembers},
		"stop":          {members("prompt", "$defs", "guardStop"), stopMembers},
		"a way to call": {members("endpoint", "$defs", "variant"), slices.Concat([]string{"extends", "description"}, policyMembers)},
	} {
		if diff := cmp.Diff(pair[1], pair[0], cmpopts.SortSlices(strings.Compare)); diff != "" {
			t.Errorf("%s: members read (-), members in the schema (+):\n%s", what, diff)
		}
	}
}

// The parts of a schema that refer to others more than once multiply what a
// check takes: one that takes too much is refused, whatever words it uses.
func TestSchemaSteps(t *testing.T) {
	if raceEnabled {
		t.Skip("one goroutine checks values for as many steps as it may")
	}
	for name, part := range map[string]string{
		"allOf":   `"allOf":[{"$ref":"#/$defs/NEXT"},{"$ref":"#/$defs/NEXT"}]`,
		"anyOf":   `"anyOf":[{"$ref":"#/$defs/NEXT"},{"$ref":"#/$defs/NEXT"}]`,
		"oneOf":   `"oneOf":[{"$ref":"#/$defs/NEXT"},{"not":{"$ref":"#/$defs/NEXT"}}]`,
		"not":     `"not":{"anyOf":[{"$ref":"#/$defs/NEXT"},{"$ref":"#/$defs/NEXT"}]}`,
		"if":      `"if":{"$ref":"#/$defs/NEXT"},"then":{"$ref":"#/$defs/NEXT"},"else":{"$ref":"#/$defs/NEXT"}`,
		"formats": `"format":"regex","anyOf":[{"format":"regex","$ref":"#/$defs/NEXT"},{"format":"regex","$ref":"#/$defs/NEXT"}]`,
	} {
		for _, draft := range []string{
			"https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#",
		} {
			for _, leaf := range []string{`{"type":"string"}`, `{"enum":[1]}`} {
				schema := func(depth int) string {
					var b strings.Builder
					fmt.Fprintf(&b, `{"$schema":%q,"allOf":[{"$ref":"#/$defs/a0"}],"$defs":{`, draft)
					for i := range depth {
						fmt.Fprintf(&b, `"a%d":{%s},`, i, strings.ReplaceAll(part, "NEXT", fmt.Sprint("a", i+1)))
					}
					fmt.Fprintf(&b, `"a%d":%s}}`, depth, leaf)
					return b.String()
				}
				load := func(depth int) error {
					_, err := Load(workspace(t, map[string]string{"remoteconfigs/c.json": `{"type":"string","default":"x","schema":` + schema(depth) + `}`}))
					return err
				}
				if err := load(30); err == nil || !strings.Contains(err.Error(), "c.json:1:28: the value can't be checked in 100000 steps") {
					// One side may decide for the other.
					if name == "allOf" || err != nil && !strings.Contains(err.Error(), "breaks the schema") {
						t.Errorf("%s, %s, %s: %.300v", name, draft, leaf, err)
					}
				}
				if err := load(3); err != nil && strings.Contains(err.Error(), "steps") {
					t.Errorf("%s, %s, %s: %v", name, draft, leaf, err)
				}
			}
		}
	}
}
