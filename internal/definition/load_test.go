package definition

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/prompt"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fastjson"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// A machine with four times its load takes four times as long for the largest sets.
	longestLoad = max(longestLoad, 4*LoadTimeout)
	goleak.VerifyTestMain(m)
}

// workspace writes files, given as "name: content" pairs, into a new directory.
func workspace(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

func write(t testing.TB, name, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(t, os.WriteFile(name, []byte(text), 0o644))
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// opened opens a workspace until the end of the test.
func opened(t testing.TB, dir string, known ...Configuration) *Source {
	t.Helper()
	s, err := Open(dir, known...)
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func mustLoad(t testing.TB, dir string) *Snapshot {
	t.Helper()
	s, err := Load(dir)
	must(t, err)
	return s
}

// bind binds a context, given as JSON.
func bind(t testing.TB, s *Snapshot, context string) *rules.Binding {
	t.Helper()
	var b rules.Binding
	must(t, s.Model.Bind(&b, fastjson.MustParse(context), time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)))
	return &b
}

// render gives the wire form of the variant that a context picks.
func render(t testing.TB, s *Snapshot, key, context, variables string) string {
	t.Helper()
	p := s.Prompts[key]
	b := bind(t, s, context)
	v, _ := p.Select(b)
	var values prompt.Values
	must(t, p.Bind(v, fastjson.MustParse(variables), b, &values))
	out, err := v.AppendJSON(nil, &values)
	must(t, err)
	return string(out)
}

// wantErrors compares an error's lines, without the directory.
func wantErrors(t *testing.T, dir string, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if _, ok := errors.AsType[*document.MultiError](err); !ok {
		t.Errorf("the error is a %T", err)
	}
	strip := func(s string) string { return strings.ReplaceAll(s, dir+string(filepath.Separator), "") }
	got := strings.Split(strip(err.Error()), "\n")
	for i := range want {
		want[i] = strip(want[i])
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s\n%s", d, strings.Join(got, "\n"))
	}
}

func TestExamples(t *testing.T) {
	s := mustLoad(t, "../../examples/definitions")
	if len(s.Warnings) > 0 {
		t.Errorf("warnings: %v", s.Warnings)
	}
	got := render(t, s, "support_reply", `{"locale":"nl-BE"}`, `{"question":"Waar is \"mijn\" pakket?"}`)
	want := `{"name":"nl","messages":[{"role":"system","content":"Je bent de helpdesk van Acme. Antwoord in het Nederlands."},{"role":"user","content":"Waar is \"mijn\" pakket?"}],"provider":"openai","model":"gpt-6-luna","maxTokens":400,"reasoningEffort":"none"}`
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got := render(t, s, "text_to_bulletpoints", `null`, `{"text":"x"}`); !strings.HasPrefix(got, `{"name":"text_to_bulletpoints","messages":[{"role":"system","content":"You condense texts. Answer with at most 5 bullet points,\none a line`) {
		t.Error(got)
	}
	e := s.Endpoints["support_chat"]
	v, _ := e.Prompt.Select(bind(t, s, `{}`))
	targets := e.Default().Targets(v)
	if len(targets) != 2 || targets[0].Provider != "openai" || targets[1].Provider != "canned" || *targets[1].Parameters.MaxTokens != 400 {
		t.Errorf("targets %+v", targets)
	}
	if e.Log != LogContent || e.Default().MaxAttempts != 4 || *e.Default().Retry.Count != 2 || e.Default().Timeout != (Timeout{60 * time.Second, 10 * time.Second, 30 * time.Second}) {
		t.Errorf("endpoint %+v", e)
	}
	for _, tt := range []struct{ key, context, want string }{
		{"model_limits", `{"environment":"production","plan":"pro"}`, `{"rpm":300,"burst":10}`},
		{"model_limits", `null`, `{"rpm":60,"burst":10}`},
		{"banner_text", `{"locale":"nl-BE"}`, `"Welkom! Deze week gratis levering in heel België."`},
		{"new_checkout", `{"tags":"employee"}`, `true`},
		{"new_checkout", `{"plan":"free"}`, `false`},
	} {
		if got, _ := s.RemoteConfigs[tt.key].Evaluate(bind(t, s, tt.context)); string(got) != tt.want {
			t.Errorf("%s %s: got %s, want %s", tt.key, tt.context, got, tt.want)
		}
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	dir := workspace(t, map[string]string{
		"context.yaml": "fields:\n  locale: { type: string }\n",
		"prompts/a.yaml": `default: en
variants:
  en:
    temprature: 0.2
    max_tokens: 10
    maxTokens: 20
    top_p: 1.5
    messages:
      - { role: sytem, content: "{{nmae}}" }
      - { role: user }
  nl: { extends: ne }
  x: { extends: y }
  y: { extends: x }
variables: { name: { default: x } }
columns: [ locale, value ]
matrix:
  - [ nl, ln ]
`,
		"prompts/b.yaml":       "messages: [ { role: user, content: x } ]\nvariants: 7\n",
		"prompts/broken.yaml":  "a: [\n",
		"prompts/empty.yaml":   "# nothing yet\n",
		"prompts/bad key.yaml": "messages: [ { role: user, content: x } ]\n",
		"endpoints/e.yaml": `prompt: aa
retry: { count: 99, on_codes: [200, 500] }
max_attempts: 1
fallback: [ { provider: canned }, { model: x } ]
timeout: { total: 2, idel: 3s }
cache: { ttl: 10m, size: 3 }
log: all
`,
		"endpoints/to_broken.yaml":   "prompt: broken\n",
		"endpoints/no_provider.yaml": "prompt: ok\n",
		"prompts/ok.yaml":            "messages: [ { role: user, content: x } ]\n",
		"remoteconfigs/c.yaml":       "type: bolean\n",
		"remoteconfigs/d.yaml":       "type: number\ndefault: '1'\nmerge: default\nrules:\n  - { value: 012 }\n  - { value: 7 }\n",
		"remoteconfigs/e.yaml":       "key: d\ntype: list\ndefault: []\n",
		"remoteconfigs/f.yaml":       "type: object\ndefault: {rpm: x}\nschema:\n  type: object\n  properties: { rpm: { type: integer }, list: { items: { minimum: 3 } } }\nmerge: default\nrules:\n  - value: { rpm: 1, list: [5, 2] }\n",
		"remoteconfigs/g.yaml":       "type: object\ndefault: {}\nschema: { type: objct }\n",
		"remoteconfigs/h.yaml":       "type: object\ndefault: {}\nschema: { $ref: 'https://example.com/s.json' }\n",
		"remoteconfigs/i.yaml":       "- 1\n",
	})
	_, err := Load(dir)
	wantErrors(t, dir, err,
		`endpoints/e.yaml:1:9: there is no prompt "aa": did you mean "a"?`,
		`endpoints/e.yaml:2:17: count must be a whole number from 0 to 9, this is "99"`,
		`endpoints/e.yaml:2:32: an HTTP status must be a whole number from 400 to 599, this is "200"`,
		`endpoints/e.yaml:3:15: max_attempts is 1 and there are 3 targets: some could never be tried`,
		`endpoints/e.yaml:4:13: this fallback of the endpoint e: there is nothing to answer with: give extra an answer, tool_calls, fail or, to send the last message back, echo: true (an answer in the Caddyfile counts where that is known)`,
		`endpoints/e.yaml:4:35: a fallback needs a provider`,
		`endpoints/e.yaml:5:19: total must be a duration from 10ms to 1h such as 500ms, 30s or 1m30s, this is "2"`,
		`endpoints/e.yaml:5:22: unknown member "idel" in timeout: did you mean "idle"?`,
		`endpoints/e.yaml:6:20: unknown member "size" in cache (known: ttl)`,
		`endpoints/e.yaml:7:6: log must be one of none, metadata, content, this is "all"`,
		`endpoints/no_provider.yaml:1:9: the variant ok of the prompt ok (prompts/ok.yaml:1:1) names no provider, which an endpoint needs`,
		`prompts/a.yaml:4:5: unknown member "temprature" in a variant: did you mean "temperature"?`,
		`prompts/a.yaml:6:16: maxTokens is max_tokens in another spelling: give it once`,
		`prompts/a.yaml:7:12: top_p must be a number from 0 to 1, this is "1.5"`,
		`prompts/a.yaml:9:17: role must be one of system, developer, user, assistant, this is "sytem": did you mean "system"?`,
		`prompts/a.yaml:9:33: {{nmae}} is not declared under variables: did you mean "name"?`,
		`prompts/a.yaml:10:9: the content of a message must be text, or a list of parts`,
		`prompts/a.yaml:11:18: there is no variant "ne" to extend: did you mean "en"?`,
		`prompts/a.yaml:13:17: the variant x extends itself by way of this one`,
		`prompts/a.yaml:17:11: there is no variant "ln": did you mean "en"?`,
		`prompts/b.yaml:1:1: unknown member "messages" in a prompt`,
		`prompts/b.yaml:2:11: variants must be a mapping of names to variants, with one at least`,
		`prompts/bad key.yaml:1:1: "bad key" can't be a key: 1 to 256 letters, digits and . _ : / - (give one by key:)`,
		`prompts/broken.yaml:1:4: invalid YAML: the file ends here too early: a list or mapping in [ ] or { } has no end`,
		`prompts/empty.yaml:1:1: the file is empty: it should hold one prompt`,
		`remoteconfigs/c.yaml:1:1: default is missing: the value that answers when no row does`,
		`remoteconfigs/c.yaml:1:7: type must be one of boolean, string, number, list, object, this is "bolean": did you mean "boolean"?`,
		`remoteconfigs/d.yaml:2:10: default must be of type number, this is "1": leave the quotes out`,
		`remoteconfigs/d.yaml:3:8: merge needs type: object, this is type: number`,
		`remoteconfigs/d.yaml:5:14: 012 is not a JSON number: write 12 for the number or "012" for the text`,
		`remoteconfigs/e.yaml:1:6: the key "d" is taken: `+dir+`/remoteconfigs/d.yaml:1:1 is the remote configuration "d" too`,
		`remoteconfigs/f.yaml:2:16: the value breaks the schema: at '/rpm': got string, want integer`,
		`remoteconfigs/f.yaml:8:32: the value breaks the schema: at '/list/1': minimum: got 2, want 3`,
		`remoteconfigs/g.yaml:3:17: schema: at '/type': value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'`,
		`remoteconfigs/h.yaml:3:9: schema: failing loading "https://example.com/s.json": https://example.com/s.json is not read: a schema can't refer to others, only to its own $defs`,
		`remoteconfigs/i.yaml:1:1: a remote configuration must be a mapping, this is a list`,
	)
}

func TestRevisionAndVersions(t *testing.T) {
	files := map[string]string{
		"context.yaml":         "fields: { locale: { type: string }, seats: { type: number } }\n",
		"prompts/p.yaml":       "variants:\n  en:\n    max_tokens: 10\n    messages: [ { role: user, content: hi } ]\n",
		"remoteconfigs/c.yaml": "type: object\ndefault: { a: 1, b: 2 }\ncolumns: [ locale, seats, value ]\nmatrix:\n  - [ pro, 10..20, { a: 2 } ]\n",
	}
	base := mustLoad(t, workspace(t, files))
	version := func(edit func(m map[string]string)) *Snapshot {
		m := map[string]string{}
		for k, v := range files {
			m[k] = v
		}
		edit(m)
		return mustLoad(t, workspace(t, m))
	}
	same := map[string]func(m map[string]string){
		"comments and formatting": func(m map[string]string) {
			m["remoteconfigs/c.yaml"] = "# a table\ntype: 'object'\ndefault:\n  b: 2\n  a: 1\n\nmatrix:\n- [ \"pro\", 10..20, {a: 2} ] # row\ncolumns:\n- locale\n- seats\n- value\ndescription: words\ntests: [ { context: { locale: nl }, rule: default } ]\n"
		},
		"place": func(m map[string]string) {
			m["remoteconfigs/deep/x.yml"] = "key: c\n" + m["remoteconfigs/c.yaml"]
			delete(m, "remoteconfigs/c.yaml")
		},
		"JSON": func(m map[string]string) {
			m["remoteconfigs/c.json"] = `{"type": "object", "default": {"a": 1, "b": 2}, "columns": ["locale", "seats", "value"], "matrix": [["pro", "10..20", {"a": 2}]]}`
			delete(m, "remoteconfigs/c.yaml")
		},
		"spelling": func(m map[string]string) {
			m["prompts/p.yaml"] = "default: en\nvariants:\n  en:\n    maxTokens: 10\n    name: en\n    messages:\n      - content: hi\n        role: user\n"
		},
	}
	for name, edit := range same {
		if s := version(edit); s.Revision != base.Revision {
			t.Errorf("%s: the revision changed\n%s\n%s", name, base.RemoteConfigs["c"].Content(), s.RemoteConfigs["c"].Content())
		}
	}
	other := map[string]func(m map[string]string){
		"value": func(m map[string]string) {
			m["remoteconfigs/c.yaml"] = strings.Replace(files["remoteconfigs/c.yaml"], "a: 2", "a: 3", 1)
		},
		"value's type": func(m map[string]string) {
			m["remoteconfigs/c.yaml"] = strings.Replace(files["remoteconfigs/c.yaml"], "a: 2", "a: '2'", 1)
		},
		"cell": func(m map[string]string) {
			m["remoteconfigs/c.yaml"] = strings.Replace(files["remoteconfigs/c.yaml"], "10..20", "10..<20", 1)
		},
		"literal cell": func(m map[string]string) {
			m["remoteconfigs/c.yaml"] = strings.Replace(files["remoteconfigs/c.yaml"], "[ pro", "[ 'any'", 1)
		},
		"wild cell": func(m map[string]string) {
			m["remoteconfigs/c.yaml"] = strings.Replace(files["remoteconfigs/c.yaml"], "[ pro", "[ any", 1)
		},
		"model": func(m map[string]string) { m["context.yaml"] += "timezone: Europe/Brussels\n" },
		"what is recorded of a field": func(m map[string]string) {
			m["context.yaml"] = strings.Replace(files["context.yaml"], "locale: { type: string", "locale: { type: string, trace: value", 1)
		},
		"message": func(m map[string]string) {
			m["prompts/p.yaml"] = strings.Replace(files["prompts/p.yaml"], "hi", "hello", 1)
		},
		"key":     func(m map[string]string) { m["prompts/q.yaml"] = files["prompts/p.yaml"]; delete(m, "prompts/p.yaml") },
		"another": func(m map[string]string) { m["prompts/q.yaml"] = files["prompts/p.yaml"] },
		"log":     func(m map[string]string) { m["prompts/p.yaml"] += "log: none\n" },
	}
	seen := map[string]string{base.Revision: "base"}
	for name, edit := range other {
		s := version(edit)
		if dup, ok := seen[s.Revision]; ok {
			t.Errorf("%s has the revision of %s", name, dup)
		}
		seen[s.Revision] = name
	}
	aliased := version(func(m map[string]string) { m["prompts/p.yaml"] += "aliases: [ old, older ]\n" })
	if aliased.Prompts["p"].Version != base.Prompts["p"].Version || seen[aliased.Revision] != "" {
		t.Errorf("with aliases: version %s, revision %s of %s", aliased.Prompts["p"].Version, aliased.Revision, seen[aliased.Revision])
	}
	if other := version(func(m map[string]string) { m["prompts/p.yaml"] += "aliases: [ older, old ]\n" }); other.Revision != aliased.Revision {
		t.Error("the order of aliases changes the revision")
	}
	if len(base.Revision) != 12 || len(base.Prompts["p"].Version) != 12 {
		t.Errorf("revision %q, version %q", base.Revision, base.Prompts["p"].Version)
	}
	want := `{"default":"en","kind":"prompt","variables":{},"variants":{"en":{"maxTokens":10,"messages":[{"content":"hi","role":"user"}],"name":"en"}}}`
	if got := string(base.Prompts["p"].Content()); got != want {
		t.Errorf("content %s", got)
	}
	// Versions and the revision are compared between nodes and over upgrades.
	if got := base.RemoteConfigs["c"]; !strings.Contains(string(got.Content()), `,"kind":"remote configuration",`) || base.Revision != "10bfe3492ab8" {
		t.Errorf("revision %s, content %s", base.Revision, got.Content())
	}
	var kinds []string
	for _, d := range base.Definitions {
		kinds = append(kinds, d.Kind.Noun+" "+d.Key)
	}
	if d := cmp.Diff([]string{"prompt p", "remote configuration c"}, kinds); d != "" {
		t.Error(d)
	}
}
