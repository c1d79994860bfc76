package definition

import (
	"strings"
	"testing"
)

// everything is a workspace with all rare features.
var everything = map[string]string{
	"context.yaml": `
timezone: Europe/Brussels
fields:
  plan: string
  tags: list
  seats: { type: number, min: 0 }
  app: { type: string, format: semver }
computed: { big: seats > 10 }
segments: { few: [ { seats: ..2 }, { plan: "any" } ] }
`,
	"prompts/single.yaml": "log: none\nname: Other\nvariables: { a: { default: '007' }, b: { required: true }, c: {} }\nmessages:\n  - role: user\n    content: |+\n      {{a}} {{b}}\n\n        indented\n\n\n",
	"prompts/several.yaml": `
default: b
variables: { a: {} }
columns: [plan, value]
matrix: [[pro, a]]
variants:
  a:
    provider: openai
    model: "4o"
    max_tokens: 5
    top_p: 1
    stop: ["\n", END]
    response_format: { json_schema: { name: s, strict: true, schema: { type: object, properties: { z: {}, a: { minimum: 1.0 } } } } }
    tools:
      - { name: look, description: "a: b # c", parameters: { type: object, required: [], properties: { z: {}, y: {} } } }
    tool_choice: { name: look }
    extra: { deep: [ { n: 1.50, none: null, text: "null", "a key": true } ] }
    messages: [ { role: system, content: "- {{a}}\u2028\u0085" } ]
  b: { extends: a, tools: [], stop: [], name: B, messages: [ { role: user, content: "  two\nlines {{a}}" } ] }
`,
	"prompts/one.yaml":   "variants: { other: { messages: [ { role: user, content: x } ] } }\n",
	"endpoints/bare.yml": "prompt: several\n",
	"endpoints/full.yaml": `
prompt: several
log: content
retry: { count: 0, on_codes: [] }
max_attempts: 7
weight: 3
fallback:
  - { provider: canned, model: m, weight: 1, temperature: 0.25, stop: x, extra: { answer: "" } }
  - { provider: azure, model: x, tools: [], tool_choice: none }
timeout: { total: 10ms, first_token: 1h }
hedge: { after: 15ms }
cache: { ttl: 36h }
idempotency: true
`,
	"prompts/reading.yaml": "variables: { all: { config: rules }, z: { config: rules, path: z, default: 'no: ne' } }\nmessages: [ { role: user, content: \"{{all}} {{z}}\" } ]\n",
	"endpoints/tabled.yaml": `
prompt: called
timeout: { total: 30s }
cache: { ttl: 1m }
variants:
  base: { max_attempts: 3, retry: { count: 1 }, fallback: [ { provider: canned, extra: { answer: x }, weight: 2 } ], weight: 1 }
  fast: { extends: base, fallback: [], weight: ~, cache: ~, timeout: { idle: 1s }, description: not stored }
default: fast
rules:
  - { id: half, when: { plan: "any" }, split: { by: plan, of: [ { value: base, share: 50% } ] } }
`,
	"prompts/called.yaml": "provider: openai\nmodel: m\nmessages: [ { role: user, content: x } ]\n",
	"remoteconfigs/cells.yaml": `
type: string
hit: first
default: "010"
columns: [plan, tags, seats, app, segment, config, until, id, value]
matrix:
  - [pro, "any", 1.10, ^2.1, few, { flag: on }, 2030-01-01, r1, 010]
  - ["10..20", "*x*", "5", "2.1", not few, null, ~, "2", 'null']
  - [{ none: [ "a b", c* ], is: "\"q\"" }, { size: 1.. }, ~, any, any, any, null, "3", "a: b"]
  - [present, missing, any, any, any, any, ~, ~, "\u2028\ufeff"]
  - [/^a+/, {matches: 'x{2}'}, any, any, any, any, ~, ~, a  b]
`,
	"remoteconfigs/rules.yaml": `
type: object
default: { z: 1, a: { b: [1.50, -0, 1E5], "": "" } }
merge: default
schema: { $schema: "https://json-schema.org/draft/2020-12/schema", type: object }
rules:
  - id: s
    when: { plan: plain text
        over lines, tags: [ "x", y ] }
    split: { by: plan, coverage: 50%, salt: "1", of: [ { value: { a: null }, share: 0.125% }, { value: { "k y": "true" }, share: 20% } ] }
  - { id: r, when: null, ramp: { by: plan, from: 1%, start: 2026-01-01, end: 2026-02-01T00:00:00Z }, value: { list: [] } }
  - value: {}
    when:
      plan: one

        two
`,
	"remoteconfigs/flag.json":   `{"type": "string", "default": "on", "rules": [{"when": {"plan": "*.be", "seats": "5", "tags": ["a: b", "x", "any"]}, "value": "off"}, {"when": {"seats": 5}, "value": "null"}]}`,
	"remoteconfigs/empty.yaml":  "type: list\ndefault: []\nmerge:\nrules:\n",
	"remoteconfigs/.skip.yaml":  "",
	"remoteconfigs/key1.yaml":   "key: a.yaml/b\ntype: boolean\ndefault: true\n",
	"remoteconfigs/key2.yaml":   "key: ../../up\ntype: number\ndefault: 1.0\n",
	"remoteconfigs/key3.yaml":   "key: a:b//c\ntype: boolean\ndefault: false\n",
	"remoteconfigs/key4.yaml":   "key: FLAG\ntype: boolean\ndefault: false\n",
	"remoteconfigs/key5.yaml":   "key: .hidden\ntype: boolean\ndefault: false\n",
	"remoteconfigs/key6.yaml":   "key: \"" + strings.Repeat("x", 256) + "\"\ntype: boolean\ndefault: false\n",
	"remoteconfigs/nest/a.yaml": "type: boolean\ndefault: false\n",
}

// TestVersionsStay holds the versions of contents that stores have.
func TestVersionsStay(t *testing.T) {
	want := map[string]string{
		"prompt one":         "d3a38984f7f5",
		"prompt several":     "0dce09189cd5",
		"prompt single":      "8de83095964a",
		"endpoint bare":      "78ca4b58aad1",
		"endpoint full":      "6eccc2083c71",
		"remoteconfig cells": "6b473e90c5ac",
		"remoteconfig empty": "a76917af1e7a",
		"remoteconfig flag":  "b6b87b8d036c",
		"remoteconfig rules": "0da65d6b756c",
	}
	s := mustLoad(t, workspace(t, everything))
	for _, d := range s.Definitions {
		name := d.Kind.String() + " " + d.Key
		if v, ok := want[name]; ok && v != d.Version {
			t.Errorf("%s has version %s and not %s", name, d.Version, v)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("there is no %v", want)
	}
	if s.Revision != "030487e620f6" {
		t.Errorf("revision %s", s.Revision)
	}
}
