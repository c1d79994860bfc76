package definition

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/prompt"
	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fastjson"
)

// configured is a workspace whose prompt p reads remote configurations. declared
// are its variables, and text is its only message, of the variant a. The variant b,
// for the plan pro, reads q alone.
func configured(t testing.TB, declared, text string) *Snapshot {
	t.Helper()
	return mustLoad(t, workspace(t, map[string]string{
		"context.yaml":            "fields:\n  plan: { type: string, values: [free, pro, team] }\n  seats: { type: number }\n",
		"remoteconfigs/text.yaml": "type: string\ndefault: \"say \\\"hi\\\" {{q}}\"\ncolumns: [plan, value]\nmatrix:\n  - [team, '']\n",
		"remoteconfigs/on.yaml":   "type: boolean\ndefault: false\ncolumns: [plan, value]\nmatrix:\n  - [team, true]\n",
		"remoteconfigs/list.yaml": "type: list\ndefault: [1, two]\n",
		"remoteconfigs/limits.yaml": `type: object
default: { rpm: 60, name: none, deep: { at: "*" }, gone: 1 }
merge: default
columns: [plan, seats, value]
matrix:
  - [team, 10.., { rpm: 6.50e3, name: "a \"team\"", deep: { at: { x: [1, "\t"] } }, gone: null }]
  - [team, any,  { rpm: 600, extra: true, name: "" }]
`,
		"prompts/p.yaml": "default: a\nvariables:\n  q: {}\n" + declared + `variants:
  a: { messages: [ { role: user, content: "` + text + `" } ] }
  b: { messages: [ { role: user, content: "{{q}}" } ] }
columns: [plan, value]
matrix:
  - [pro, b]
`,
	}))
}

func TestConfiguredVariables(t *testing.T) {
	s := configured(t, `  whole: { config: limits }
  text: { config: text }
  on: { config: "on" }
  list: { config: list }
  rpm: { config: limits, path: rpm }
  name: { config: limits, path: name }
  at: { config: limits, path: deep.at }
  gone: { config: limits, path: gone }
  extra: { config: limits, path: extra, default: [none] }
`, "{{text}}|{{on}}|{{list}}|{{rpm}}|{{name}}|{{at}}|{{gone}}|{{extra}}|{{whole}}|{{rpm}}|{{q}}")
	p := s.Prompts["p"]
	var values prompt.Values
	for _, tt := range []struct {
		context, variables string
		want               string
		read, empty        []string
	}{
		// The text of a configuration is not a template.
		{`{"plan":"free"}`, `{"q":"{{rpm}}"}`, `say "hi" {{q}}|false|[1,"two"]|60|none|*|1|["none"]|{"rpm":60,"name":"none","deep":{"at":"*"},"gone":1}|60|{{rpm}}`, []string{"limits", "text", "on", "list"}, nil},
		{`null`, `{"q":""}`, `say "hi" {{q}}|false|[1,"two"]|60|none|*|1|["none"]|{"rpm":60,"name":"none","deep":{"at":"*"},"gone":1}|60|`, []string{"limits", "text", "on", "list"}, nil},
		{`{"plan":"team","seats":10}`, `{"q":""}`, "|true|[1,\"two\"]|6.50e3|a \"team\"|{\"x\":[1,\"\\t\"]}||[\"none\"]|{\"rpm\":6.50e3,\"name\":\"a \\\"team\\\"\",\"deep\":{\"at\":{\"x\":[1,\"\\t\"]}}}|6.50e3|", []string{"limits", "text", "on", "list"}, []string{"gone"}},
		{`{"plan":"team"}`, `null`, `|true|[1,"two"]|600||*|1|true|{"rpm":600,"name":"","deep":{"at":"*"},"gone":1,"extra":true}|600|`, []string{"limits", "text", "on", "list"}, []string{"q"}},
		// The caller's value wins, and then the configuration is not read. Null
		// counts as not supplied.
		{`{"plan":"team","seats":10}`, `{"q":"","text":"mine","on":[],"list":"","rpm":1,"name":null,"at":"","gone":"x","extra":"y","whole":"w"}`, `mine|[]||1|a "team"||x|y|w|1|`, []string{"limits"}, nil},
		{`{"plan":"team"}`, `{"q":"","text":"","on":"","list":"","rpm":"","name":"","at":"","gone":"","extra":"","whole":""}`, `||||||||||`, nil, nil},
		// Nor is it where the variant does not read the variable.
		{`{"plan":"pro"}`, `{"q":"x"}`, `x`, nil, nil},
	} {
		b := bind(t, s, tt.context)
		v, _ := p.Select(b)
		must(t, p.Bind(v, fastjson.MustParse(tt.variables), b, &values))
		answer, err := v.AppendJSON(nil, &values)
		must(t, err)
		messages, err := v.Messages(&values, nil)
		if err != nil || messages[0].Content.Plain() != tt.want {
			t.Errorf("%s %s: %q, %v, want %q", tt.context, tt.variables, messages[0].Content, err, tt.want)
		}
		if got := fastjson.MustParseBytes(answer).Get("messages", "0", "content").GetStringBytes(); string(got) != tt.want {
			t.Errorf("%s %s: %q in the answer, want %q", tt.context, tt.variables, got, tt.want)
		}
		if size, err := v.Size(&values); size != len(answer) || err != nil {
			t.Errorf("%s %s: a size of %d, want %d, %v", tt.context, tt.variables, size, len(answer), err)
		}
		var read []string
		for _, c := range values.Read() {
			if read = append(read, c.Key); c.Table() != s.RemoteConfigs[c.Key].Table() {
				t.Errorf("%s has another table", c.Key)
			}
		}
		if d := cmp.Diff(tt.read, read); d != "" {
			t.Errorf("%s %s: read %s", tt.context, tt.variables, d)
		}
		if d := cmp.Diff(tt.empty, values.Empty()); d != "" {
			t.Errorf("%s %s: empty %s", tt.context, tt.variables, d)
		}
	}
	values.Reset()
	if values.Read() != nil {
		t.Error("what was read is kept")
	}
	want := []string{
		`warning: the variable q is neither required nor has a default: not supplied, it is the empty string`,
		`warning: the remote configuration limits has no gone in 1 of its 3 values (first: remoteconfigs/limits.yaml:6:18): there the variable is the empty string, unless it has a default too`,
	}
	var got []string
	for _, w := range s.Warnings {
		message := "warning: " + w.Message
		if at := strings.Index(message, "(first: "); at >= 0 {
			end := strings.Index(message, "remoteconfigs/")
			message = message[:at+len("(first: ")] + message[end:]
		}
		got = append(got, message)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestConfiguredSize checks that the texts of a configuration count towards the
// size limit.
func TestConfiguredSize(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	s := mustLoad(t, workspace(t, map[string]string{
		"remoteconfigs/long.yaml": "type: string\ndefault: " + long + "\n",
		"prompts/p.yaml":          "variables: { v: { config: long } }\nmessages: [ { role: user, content: \"{{v}}{{v}}\" } ]\n",
		"prompts/q.yaml":          "variables: { v: { config: long } }\nmessages: [ { role: user, content: \"{{v}}{{v}}.\" } ]\n",
	}))
	b := bind(t, s, `{}`)
	var values prompt.Values
	for key, want := range map[string]string{"p": "<nil>", "q": fmt.Sprintf("the rendered messages would have %d bytes, at most %d are allowed: send shorter variables", 2<<20+1, 2<<20)} {
		p := s.Prompts[key]
		must(t, p.Bind(p.fallback, nil, b, &values))
		_, err := p.fallback.Size(&values)
		if _, also := p.fallback.Messages(&values, nil); fmt.Sprint(err) != want || fmt.Sprint(also) != want {
			t.Errorf("%s: %v, %v", key, err, also)
		}
	}
}

// TestConfiguredVersions: a prompt has a version of its own, whatever the
// configuration answers; the revision has both.
func TestConfiguredVersions(t *testing.T) {
	files := map[string]string{
		"remoteconfigs/c.yaml": "type: object\ndefault: { a: 1, b: 2 }\n",
		"prompts/p.yaml":       "variables: { v: { config: c, path: a, default: x } }\nmessages: [ { role: user, content: \"{{v}}\" } ]\n",
	}
	first := mustLoad(t, workspace(t, files))
	if content := string(first.Prompts["p"].Content()); !strings.Contains(content, `"variables":{"v":{"config":"c","default":"x","path":"a"}}`) {
		t.Error(content)
	}
	files["remoteconfigs/c.yaml"] = "type: object\ndefault: { a: 3, b: 2 }\n"
	if s := mustLoad(t, workspace(t, files)); s.Prompts["p"].Version != first.Prompts["p"].Version || s.Revision == first.Revision {
		t.Error("an edit of the configuration changes the prompt's version, or not the revision")
	}
	for _, edit := range []string{"config: c, path: b, default: x", "config: c", "config: c, path: a", "default: x"} {
		files["prompts/p.yaml"] = "variables: { v: { " + edit + " } }\nmessages: [ { role: user, content: \"{{v}}\" } ]\n"
		if s := mustLoad(t, workspace(t, files)); s.Prompts["p"].Version == first.Prompts["p"].Version {
			t.Errorf("%s has the version of another declaration", edit)
		}
	}
}

func TestConfiguredMistakes(t *testing.T) {
	const limits = "type: object\ndefault: { rpm: 60, deep: { at: 1, on: 2 }, none: null, rows: [1], \"a.b\": 1 }\ncolumns: [plan, value]\nmatrix:\n  - [pro, { rpm: 1, burst: 2, deep: { by: text } }]\n"
	for _, tt := range []struct{ declared, want string }{
		{`{ config: limit }`, `prompts/p.yaml:1:27: there is no remote configuration "limit": did you mean "limits"?`},
		{`{ config: [limits] }`, `prompts/p.yaml:1:27: config must be text, this is a list`},
		{`{ config: limits, path: rmp }`, `prompts/p.yaml:1:41: no value of the remote configuration limits has rmp: did you mean "rpm"?`},
		{`{ config: limits, path: brst }`, `prompts/p.yaml:1:41: no value of the remote configuration limits has brst: did you mean "burst"?`},
		{`{ config: limits, path: dep.at }`, `prompts/p.yaml:1:41: no value of the remote configuration limits has dep.at: did you mean "deep.at"?`},
		{`{ config: limits, path: deep.atx }`, `prompts/p.yaml:1:41: no value of the remote configuration limits has deep.atx: did you mean "deep.at"?`},
		{`{ config: limits, path: deep.seconds }`, `prompts/p.yaml:1:41: no value of the remote configuration limits has deep.seconds (known: at, by, on)`},
		{`{ config: limits, path: deep.at.x }`, `prompts/p.yaml:1:41: no value of the remote configuration limits has deep.at.x: deep.at has no members`},
		{`{ config: limits, path: none }`, `prompts/p.yaml:1:41: no value of the remote configuration limits has none (known: burst, deep, rows, rpm)`},
		{`{ config: limits, path: a.b }`, `prompts/p.yaml:1:41: no path leads to the member "a.b" of the remote configuration limits, because its name has a dot: rename it, or leave the path out`},
		{`{ config: limits, path: a.b.c }`, `prompts/p.yaml:1:41: no path leads to the member "a.b" of the remote configuration limits, because its name has a dot: rename it, or leave the path out`},
		{`{ config: limits, path: deep.by.x }`, `prompts/p.yaml:1:41: no value of the remote configuration limits has deep.by.x: deep.by has no members`},
		{`{ config: limits, path: rows.0 }`, `prompts/p.yaml:1:41: no value of the remote configuration limits has rows.0: rows has no members`},
		{`{ config: limits, path: rpm. }`, `prompts/p.yaml:1:41: a path must name members with dots between them, such as limits.rpm, this is "rpm."`},
		{`{ config: limits, path: [rpm] }`, `prompts/p.yaml:1:41: path must be text, this is a list`},
		{`{ config: text, path: rpm }`, `prompts/p.yaml:1:39: the values of the remote configuration text are of type string, so no path leads into them: leave it out`},
		{`{ path: rpm }`, `prompts/p.yaml:1:25: path needs config, the key of the remote configuration in whose value it leads`},
		{`{ config: limits, required: true }`, `prompts/p.yaml:1:27: the variable v is required, so each request supplies it and no configuration is read: remove one of the two`},
		{`{ config: text, default: x }`, `prompts/p.yaml:1:42: the whole value of a configuration is never missing, so the default of the variable v is never used: remove one of the two, or add a path`},
		{`{ config: limits, pth: rpm }`, `prompts/p.yaml:1:35: unknown member "pth" in the variable v: did you mean "path"?`},
		// A configuration with a mistake has no other that follows from it.
		{`{ config: broken, path: rpm }`, ``},
		{`{ config: typed, path: rpm }`, ``},
	} {
		files := map[string]string{
			"context.yaml":              "fields: { plan: { type: string } }\n",
			"remoteconfigs/limits.yaml": limits,
			"remoteconfigs/text.yaml":   "type: string\ndefault: x\n",
			"prompts/p.yaml":            "variables: { v: " + tt.declared + " }\nmessages: [ { role: user, content: \"{{v}}\" } ]\n",
		}
		var others []string
		if strings.Contains(tt.declared, "broken") {
			files["remoteconfigs/broken.yaml"] = "type: [\n"
		}
		if strings.Contains(tt.declared, "typed") {
			files["remoteconfigs/typed.yaml"] = "type: object\ndefault: 1\n"
		}
		dir := workspace(t, files)
		_, err := Load(dir)
		if err == nil {
			t.Errorf("%s: no error", tt.declared)
			continue
		}
		lines := strings.Split(strings.ReplaceAll(err.Error(), dir+"/", ""), "\n")
		lines = slices.DeleteFunc(lines, func(line string) bool {
			other := strings.HasPrefix(line, "remoteconfigs/")
			if other {
				others = append(others, line)
			}
			return other
		})
		if got := strings.Join(lines, "\n"); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.declared, got, tt.want)
		}
		if (tt.want == "") != (len(others) == 1) {
			t.Errorf("%s: other mistakes %q", tt.declared, others)
		}
	}
}
