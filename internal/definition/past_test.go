package definition

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/trace"
	"pgregory.net/rapid"
)

// pastOf returns the set of a directory as a store keeps it.
func pastOf(t testing.TB, dir string) *Past {
	t.Helper()
	source, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	s := source.Snapshot()
	p := &Past{Revision: s.Revision, Context: s.Context}
	for d := range s.All() {
		p.Definitions = append(p.Definitions, PastDefinition{d.Kind, d.Key, d.Version, d.Content()})
	}
	return p
}

// comesBack checks that a directory's set comes back from what a store keeps of it.
func comesBack(t testing.TB, dir string) *Past {
	t.Helper()
	p := pastOf(t, dir)
	s, err := p.Load()
	if err != nil {
		t.Fatal(err)
	}
	for d := range s.All() {
		i := slices.IndexFunc(p.Definitions, func(e PastDefinition) bool { return e.Kind == d.Kind && e.Key == d.Key })
		if i < 0 || !bytes.Equal(p.Definitions[i].Content, d.Content()) {
			t.Errorf("%s %s comes back as %s", d.Kind, d.Key, d.Content())
		}
	}
	return p
}

func TestPastComesBack(t *testing.T) {
	for _, dir := range []string{"../../examples/definitions", "../../testdata/mistakes/base/definitions", "../command/starter/definitions"} {
		comesBack(t, dir)
	}
	text, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string]string)
	for _, block := range regexp.MustCompile("(?ms)^```yaml\n(# (\\S+)\n.*?)^```").FindAllStringSubmatch(string(text), -1) {
		files[block[2]] = block[1]
	}
	if len(files) < 7 {
		t.Fatalf("the manual has %d files", len(files))
	}
	comesBack(t, workspace(t, files))
}

// everything is a workspace of what is rare.
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

func TestPastOfEverything(t *testing.T) {
	p := comesBack(t, workspace(t, everything))
	dir := filepath.Join(t.TempDir(), "below", "past")
	if written, err := p.WriteTo(dir); err != nil || !written {
		t.Fatal(written, err)
	}
	if s := mustLoad(t, dir); s.Revision != p.Revision {
		t.Errorf("the folder loads as revision %s, not %s", s.Revision, p.Revision)
	}
	if written, err := p.WriteTo(dir); err != nil || written {
		t.Errorf("a second time: %t, %v", written, err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "remoteconfigs/nest/a.yaml")); err != nil || !strings.HasPrefix(string(got), "type: boolean\n") {
		t.Errorf("%s: %v", got, err)
	}
	names, _ := filepath.Glob(filepath.Join(dir, "remoteconfigs/flag-*.json")) // beside FLAG
	if len(names) != 1 {
		t.Fatalf("the definition of JSON is in %v", names)
	}
	if text, err := os.ReadFile(names[0]); err != nil || !strings.Contains(string(text), `"*.be"`) {
		t.Errorf("quotes of JSON: %s %v", text, err)
	}
	// A data model in JSON is one.
	files := maps.Clone(everything)
	delete(files, "context.yaml")
	files["context.json"] = `{"fields": {"plan": "string", "tags": "list", "seats": "number", "app": {"type": "string", "format": "semver"}}, "segments": {"few": [{"plan": "*.be"}]}}`
	comesBack(t, workspace(t, files))
}

func TestPastIsReadable(t *testing.T) {
	p := comesBack(t, "../../examples/definitions")
	for _, d := range p.Definitions {
		if d.Key != "model_limits" {
			continue
		}
		_, data, err := writeContent(d.Kind, d.Key, "", d.Content)
		if want := `type: object
default: { burst: 10, rpm: 60 }
merge: default
schema:
  type: object
  additionalProperties: false
  properties: { burst: { type: integer, minimum: 1 }, rpm: { type: integer, minimum: 1 } }
  required: [rpm, burst]
columns: [ environment, plan,           seats,    value ]
matrix:
  - [ production,       enterprise,     100..,    { burst: 600, rpm: 6000 } ]
  - [ production,       enterprise,     any,      { burst: 300, rpm: 3000 } ]
  - [ production,       [pro, starter], 10..<100, { burst: 60, rpm: 600 } ]
  - [ production,       not free,       any,      { rpm: 300 } ]
  - [ staging,          any,            any,      { rpm: 30 } ]
`; err != nil || string(data) != want {
			t.Errorf("%v\n%s", err, data)
		}
		return
	}
	t.Error("there is no model_limits")
}

func TestPastLeavesNoHalf(t *testing.T) {
	dir := workspace(t, map[string]string{"remoteconfigs/a.yaml": "type: boolean\ndefault: true\n"})
	p := pastOf(t, dir)
	parent := t.TempDir()
	into := filepath.Join(parent, "past")
	for name, break_ := range map[string]func(p *Past){
		"another revision": func(p *Past) { p.Revision = "000000000000" },
		"another version":  func(p *Past) { p.Definitions[0].Version = "000000000000" },
		"another content":  func(p *Past) { p.Definitions[0].Content = []byte(`{"kind":"remote configuration","type":"boolean"}`) },
		"no content":       func(p *Past) { p.Definitions[0].Content = []byte(`7`) },
		"no JSON":          func(p *Past) { p.Definitions[0].Content = nil },
		"a data model":     func(p *Past) { p.Context = []byte("fields: { a: string }") },
		"a missing one":    func(p *Past) { p.Definitions = nil },
	} {
		broken := *p
		broken.Definitions = slices.Clone(p.Definitions)
		break_(&broken)
		if written, err := broken.WriteTo(into); err == nil || written {
			t.Errorf("%s: %t, %v", name, written, err)
		}
		if entries, _ := os.ReadDir(parent); len(entries) > 0 {
			t.Fatalf("%s leaves %v", name, entries)
		}
	}
	write(t, filepath.Join(into, "note.txt"), "mine")
	if _, err := p.WriteTo(into); err == nil || !strings.Contains(err.Error(), "not empty") {
		t.Errorf("a folder with a file: %v", err)
	}
	if entries, _ := os.ReadDir(into); len(entries) != 1 {
		t.Errorf("the folder has %v", entries)
	}
	empty := filepath.Join(parent, "empty")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	if written, err := p.WriteTo(empty); err != nil || !written {
		t.Errorf("an empty folder: %t, %v", written, err)
	}
	if entries, _ := os.ReadDir(parent); len(entries) != 2 {
		t.Errorf("beside it are %v", entries)
	}
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
	p := pastOf(t, workspace(t, everything))
	for _, d := range p.Definitions {
		name := d.Kind.String() + " " + d.Key
		if v, ok := want[name]; ok && v != d.Version {
			t.Errorf("%s has version %s and not %s", name, d.Version, v)
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("there is no %v", want)
	}
	if p.Revision != "030487e620f6" {
		t.Errorf("revision %s", p.Revision)
	}
}

// drawText draws text that is hard on writers of YAML.
func drawText(t *rapid.T) string {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", "null", "~", "true", "any", "missing", "10..20", "*", "a: b", "a #b", "- x", "? y", "010", "1e5", "'", `"`, `"q"`, "\\n", "{{", "[", "]", "x, y", "not a", "\n", "a\n\nb\n", " x", "x ", "\t", "yes", "%", "@", "|", ">", "&a", "!x", "# c", "…", "\u2028", "\x7f", "\ue001", "😀"}),
		rapid.StringOf(rapid.SampledFrom([]rune("ab:#-,{}[]\"'*&!|>%@ \n\t?~0.1/_é"))),
	).Draw(t, "text")
}

// drawCell draws a cell as the file of a format has it.
func drawCell(t *rapid.T, asJSON bool, depth int) string {
	quoted := func(s string) string { return yamlQuoted(s) }
	switch n := rapid.IntRange(0, 9).Draw(t, "cell"); {
	case n == 0 && depth > 0:
		return "[" + drawCell(t, asJSON, depth-1) + ", " + drawCell(t, asJSON, depth-1) + "]"
	case n == 1 && depth > 0:
		return `{"any": [` + drawCell(t, asJSON, depth-1) + "]}"
	case n == 2:
		return `{"is": ` + quoted("v"+drawText(t)) + "}"
	case n <= 4 && !asJSON:
		return rapid.SampledFrom([]string{"any", "pro", "10", "1.10", "x*", "not pro", "/a+/", "~", "null", "missing", "a b", "a:b", "é", "yes", "2026-01-01", "-1", "<3", "=x", "a#b", "it's"}).Draw(t, "plain")
	case n == 5:
		return rapid.SampledFrom([]string{"12", "true", "null", "1.50"}).Draw(t, "bare")
	}
	return quoted("v" + drawText(t))
}

// TestPastOfAnything: sets of random definitions come back.
func TestPastOfAnything(t *testing.T) {
	loaded := 0
	parent := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		asJSON := rapid.Bool().Draw(t, "JSON")
		ext := ".yaml"
		if asJSON {
			ext = ".json"
		}
		quoted := func() string { return yamlQuoted(drawText(t)) }
		var rows []string
		for i := range rapid.IntRange(0, 4).Draw(t, "rows") {
			value := quoted()
			if rapid.Bool().Draw(t, "number") {
				value = `"07"`
			}
			rows = append(rows, fmt.Sprintf(`{"id": "r%d", "when": {"f": %s, "l": %s}, "value": %s}`, i, drawCell(t, asJSON, 2), drawCell(t, asJSON, 1), value))
		}
		key := rapid.StringMatching(`[A-Za-z0-9._:/-]{1,12}`).Draw(t, "key")
		files := map[string]string{
			"context.yaml":          "fields: { f: string, l: list }\n",
			"remoteconfigs/a" + ext: fmt.Sprintf(`{"key": %q, "type": "string", "default": %s, "rules": [%s]}`, key, quoted(), strings.Join(rows, ", ")),
			"remoteconfigs/o" + ext: fmt.Sprintf(`{"type": "object", "default": {%s: [%s, 1.50, null], "z": {}}, "rules": [{"value": {"x": %s, %s: true}}]}`, yamlQuoted("k"+drawText(t)), quoted(), quoted(), yamlQuoted("k"+drawText(t))),
			"prompts/" + "p" + ext:  fmt.Sprintf(`{"stop": [%s], "extra": {"x": %s}, "messages": [{"role": "user", "content": %s}]}`, yamlQuoted("s"+drawText(t)), quoted(), quoted()),
		}
		dir, err := os.MkdirTemp(parent, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		for name, text := range files {
			name = filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, err := Load(dir)
		if err != nil {
			return // not every cell is valid
		}
		loaded++
		p := &Past{Revision: s.Revision, Context: []byte(files["context.yaml"])}
		for d := range s.All() {
			p.Definitions = append(p.Definitions, PastDefinition{d.Kind, d.Key, d.Version, d.Content()})
		}
		if _, err := p.Load(); err != nil {
			t.Fatal(err)
		}
	})
	if loaded == 0 {
		t.Error("no set was valid")
	}
}

func TestFileNames(t *testing.T) {
	for key, want := range map[string]string{
		"a": "prompts/a", "a/b.c_D-9": "prompts/a/b.c_D-9", "a.yaml": "prompts/a.yaml",
		"a:b": "", ".a": "", "a/.b": "", "a//b": "", "/a": "", "a/": "", "..": "", "a/../b": "", "x.tmp": "", "x.yaml/y": "", "a.": "", "a./b": "",
		strings.Repeat("a", 101): "", strings.Repeat("a/", 32) + "a": "",
	} {
		got, named := fileName(trace.KindPrompt, key)
		if named != (want != "") || named && got != want {
			t.Errorf("%s is %s, %t", key, got, named)
		}
		if !named && !regexp.MustCompile(`^prompts/[A-Za-z0-9_-]+-[0-9a-f]{12}$`).MatchString(got) {
			t.Errorf("%s is %s", key, got)
		}
	}
}
