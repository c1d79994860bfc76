package definition

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/kind"
)

// TestAliases: each kind is found by its key and by each alias, and by no alias of
// another kind.
func TestAliases(t *testing.T) {
	const prompt = "provider: canned\nextra: { answer: Hi }\nmessages: [ { role: user, content: Hi } ]\n"
	s := mustLoad(t, workspace(t, map[string]string{
		"prompts/new/reply.yaml": prompt + "aliases: [ old/reply, older.reply ]\n",
		"prompts/other.yaml":     prompt + "aliases:\n", // none
		"endpoints/chat.yaml":    "prompt: new/reply\naliases: [ old/chat, new/reply, other ]\n",
		"remoteconfigs/c.yaml":   "type: string\ndefault: x\naliases: [ old/reply ]\n",
	}))
	for name, want := range map[string][3]string{
		"new/reply":   {"new/reply", "chat", ""},
		"old/reply":   {"new/reply", "", "c"},
		"older.reply": {"new/reply", "", ""},
		"other":       {"other", "chat", ""},
		"old/chat":    {"", "chat", ""},
		"chat":        {"", "chat", ""},
		"c":           {"", "", "c"},
		"":            {},
		"old":         {},
	} {
		var got [3]string
		if p := s.Named(kind.Prompt, name); p != nil {
			got[0] = p.Key
			if p.AskedAs(name) != name {
				t.Errorf("%q is asked as %q", name, p.AskedAs(name))
			}
		}
		if e := s.Endpoint(name); e != nil {
			got[1] = e.Key
		}
		if c := s.Named(kind.RemoteConfig, name); c != nil {
			got[2] = c.Key
		}
		if got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if d := cmp.Diff([]string{"new/reply", "old/chat", "other"}, s.Endpoints["chat"].Aliases); d != "" {
		t.Error(d)
	}
	if n := s.Counts().total(); n != 4 {
		t.Errorf("%d definitions: an alias is none", n)
	}
}

// TestAliasMistakes: a name stands for one definition of a kind, and each mistake says
// where the other is. Definitions name each other by their keys.
func TestAliasMistakes(t *testing.T) {
	const prompt = "messages: [ { role: user, content: Hi } ]\n"
	const config = "type: boolean\ndefault: true\n"
	dir := workspace(t, map[string]string{
		"prompts/a.yaml":           prompt + "aliases:\n  - old/a\n  - b\n  - a\n",
		"prompts/b.yaml":           "aliases: [ older, old/a ]\n" + prompt,
		"prompts/c.yaml":           prompt + "aliases: [ twice, twice, 'no key', '', 7, [ x ] ]\n",
		"prompts/d.yaml":           prompt + "aliases: old/d\n",
		"prompts/e.yaml":           prompt + "variables: { v: { config: new/c.x }, w: { config: old/c } }\n",
		"prompts/f.yaml":           prompt + "aliasses: [ g ]\n",
		"endpoints/e.yaml":         "prompt: old/a\n",
		"remoteconfigs/new/c.yaml": config + "aliases: [ old/c, a, " + aliasesList(maxAliases-2) + " ]\n",
		"remoteconfigs/many.yaml":  config + "aliases: [ " + aliasesList(maxAliases+1) + " ]\n",
		"remoteconfigs/r.yaml":     config + "rules:\n  - { when: { config: { old/c: true } }, value: false }\n",
		"remoteconfigs/same.yaml":  "key: named\naliases: [ named, same ]\n" + config,
	})
	_, err := Load(dir)
	wantErrors(t, dir, err,
		`endpoints/e.yaml:1:9: there is no prompt "old/a": it is an alias, which is for callers only: write the key "a"`,
		`prompts/a.yaml:4:5: the alias "b" is taken: `+dir+`/prompts/b.yaml:1:1 is the prompt "b"`,
		`prompts/a.yaml:5:5: "a" is the key of this prompt: leave it out of the aliases`,
		`prompts/b.yaml:1:19: the alias "old/a" is taken: `+dir+`/prompts/a.yaml:3:5 is an alias of the prompt "a" too`,
		`prompts/c.yaml:2:19: the alias "twice" is taken: `+dir+`/prompts/c.yaml:2:12 is an alias of the prompt "c" too`,
		`prompts/c.yaml:2:26: "no key" can't be an alias: 1 to 256 letters, digits and . _ : / -`,
		`prompts/c.yaml:2:36: "" can't be an alias: 1 to 256 letters, digits and . _ : / -`,
		`prompts/c.yaml:2:43: an alias must be text, this is a list`,
		`prompts/d.yaml:2:10: aliases must be a list of names such as [old/key], this is "old/d"`,
		`prompts/e.yaml:2:27: there is no remote configuration "new/c.x": write config: new/c, path: x`,
		`prompts/e.yaml:2:51: there is no remote configuration "old/c": it is an alias, which is for callers only: write the key "new/c"`,
		`prompts/f.yaml:2:1: unknown member "aliasses" in a prompt: did you mean "aliases"?`,
		`remoteconfigs/many.yaml:3:10: the remote configuration many has 101 aliases, at most 100 are possible`,
		`remoteconfigs/r.yaml:4:25: there is no remote configuration "old/c": it is an alias, which is for callers only: write the key "new/c"`,
		`remoteconfigs/same.yaml:2:12: "named" is the key of this remote configuration: leave it out of the aliases`,
	)
}

// TestPromptIDs: an endpoint's alias may be the id of a prompt at OpenAI, whose versions
// stand for variants. They change answers, so they are part of the endpoint's version.
func TestPromptIDs(t *testing.T) {
	const prompt = "default: en\nvariants:\n  en: { provider: canned, extra: { answer: Hi }, messages: [ { role: user, content: Hi } ] }\n  nl: { extends: en }\n"
	load := func(aliases string) *Endpoint {
		s := mustLoad(t, workspace(t, map[string]string{"prompts/p.yaml": prompt, "endpoints/e.yaml": "prompt: p\n" + aliases}))
		if e := s.Endpoint("pmpt_1"); e != nil {
			return e
		}
		return s.Endpoint("e")
	}
	e := load("aliases: [ old, { id: pmpt_1, versions: { \"3\": nl, 4: en } }, { id: pmpt_2 } ]\n")
	if d := cmp.Diff([]string{"old", "pmpt_1", "pmpt_2"}, e.Aliases) + cmp.Diff(map[string]map[string]string{"pmpt_1": {"3": "nl", "4": "en"}}, e.Versions); d != "" {
		t.Error(d)
	}
	none, moved := load("aliases: [ old, pmpt_1, pmpt_2 ]\n"), load("aliases: [ old, { id: pmpt_1, versions: { \"3\": en, 4: en } }, pmpt_2 ]\n")
	if e.Version == moved.Version || e.Version == none.Version || none.Version != load("").Version {
		t.Errorf("versions %s, %s, %s, %s", e.Version, moved.Version, none.Version, load("").Version)
	}
}

func TestPromptIDMistakes(t *testing.T) {
	dir := workspace(t, map[string]string{
		"prompts/p.yaml":   "variants:\n  english: { provider: canned, extra: { answer: Hi }, messages: [ { role: user, content: Hi } ] }\ndefault: english\naliases: [ { id: pmpt_1 } ]\n",
		"endpoints/a.yaml": "prompt: p\naliases: [ { versions: { \"3\": english } }, { id: [ x ] }, { id: pmpt 1 }, { id: pmpt_1, version: { \"3\": english } } ]\n",
		"endpoints/b.yaml": "prompt: p\naliases:\n  - { id: pmpt_1, versions: { \"3\": englisch, \"4\": 7, \"a b\": english } }\n  - { id: pmpt_2, versions: english }\n  - { id: pmpt_3, versions: { " + strings.ReplaceAll(aliasesList(maxAliases+1), ",", ": english,") + ": english } }\n",
	})
	_, err := Load(dir)
	wantErrors(t, dir, err,
		`endpoints/a.yaml:2:12: id is missing: write { id: pmpt_…, versions: { "3": VARIANT } }, or the id alone`,
		`endpoints/a.yaml:2:50: id must be text, this is a list`,
		`endpoints/a.yaml:2:59: "pmpt 1" can't be an alias: 1 to 256 letters, digits and . _ : / -`,
		`endpoints/a.yaml:2:89: unknown member "version" in an alias: did you mean "versions"?`,
		`endpoints/b.yaml:3:5: the alias "pmpt_1" is taken: `+dir+`/endpoints/a.yaml:2:75 is an alias of the endpoint "a" too`,
		`endpoints/b.yaml:3:36: the prompt p has no variant "englisch": did you mean "english"?`,
		`endpoints/b.yaml:3:51: the prompt p has no variant "7" (known: english)`,
		`endpoints/b.yaml:3:54: "a b" can't be a version: 1 to 256 letters, digits and . _ : / -`,
		`endpoints/b.yaml:4:29: versions must be a mapping such as { "3": VARIANT }, this is "english"`,
		`endpoints/b.yaml:5:29: the alias pmpt_3 has 101 versions, at most 100 are possible`,
		`prompts/p.yaml:4:12: an alias must be text, this is a mapping`,
	)
}

// TestPatterns: a key counts before an alias, an alias before a pattern, and of patterns
// the longest.
func TestPatterns(t *testing.T) {
	files := map[string]string{"prompts/p.yaml": "provider: canned\nextra: { answer: Hi }\nmessages: [ { role: user, content: Hi } ]\n"}
	for key, aliases := range map[string]string{
		"claude-key": "[ other ]", "exact": "[ claude-alias ]", "all": "[ claude-* ]", "sonnet": "[ claude-sonnet-*, claude-*-v2 ]", "mini": "[ \"*-mini\", \"gpt*mini\" ]",
	} {
		files["endpoints/"+key+".yaml"] = "prompt: p\naliases: " + aliases + "\n"
	}
	s := mustLoad(t, workspace(t, files))
	named := func(s *Snapshot, name string) string {
		e := s.Endpoint(name)
		if e == nil {
			return ""
		}
		if asked := e.AskedAs(name); asked != name {
			t.Errorf("%q is asked as %q", name, asked)
		}
		return e.Key
	}
	for name, want := range map[string]string{
		"claude-key": "claude-key", "claude-alias": "exact", "claude-opus": "all", "claude-": "all", "claude-sonnet-5": "sonnet", "claude-sonnet-": "sonnet",
		"claude-opus-v2": "sonnet", "claude-mini": "all", "gpt-mini": "mini", "-mini": "mini", "gptmini": "mini", "gptmin": "", "claude": "", "claude-*": "", "claude-a b": "", "": "",
	} {
		if got := named(s, name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if s.Named(kind.Prompt, "claude-opus") != nil || s.Find(kind.Endpoint, "claude-opus") != nil {
		t.Error("a pattern names another kind, or is a key")
	}
	files["endpoints/rest.yaml"] = "prompt: p\naliases: [ \"*\" ]\n"
	if s := mustLoad(t, workspace(t, files)); named(s, "gpt") != "rest" || named(s, "claude-opus") != "all" {
		t.Error("a lone star is not for the rest")
	}
}

func TestPatternMistakes(t *testing.T) {
	dir := workspace(t, map[string]string{
		"prompts/p.yaml":    "provider: canned\nextra: { answer: Hi }\nmessages: [ { role: user, content: Hi } ]\naliases: [ p-* ]\n",
		"endpoints/a.yaml":  "prompt: p\naliases: [ claude-*, a*b, longer*b, \"*\" ]\n",
		"endpoints/b.yaml":  "prompt: p\naliases: [ claude-*, ab*, long*, \"**\", a b*, \"*\", { id: pmpt_* } ]\n",
		"endpoints/c.yaml":  "prompt: p\naliases: [ c*, c*, d*e, de* ]\n",
		"endpoints/z1.yaml": "prompt: p\naliases: [ " + strings.ReplaceAll(aliasesList(60), ",", "x*,") + "x* ]\n",
		"endpoints/z2.yaml": "prompt: p\naliases: [ " + strings.ReplaceAll(aliasesList(40), ",", "y*,") + "y* ]\n",
	})
	_, err := Load(dir)
	wantErrors(t, dir, err,
		`endpoints/b.yaml:2:12: the alias "claude-*" is taken: `+dir+`/endpoints/a.yaml:2:12 is an alias of the endpoint "a" too`,
		`endpoints/b.yaml:2:22: the alias "ab*" clashes with "a*b" of the endpoint "a" (`+dir+`/endpoints/a.yaml:2:22): both match "abb", and neither is longer`,
		`endpoints/b.yaml:2:34: "**" can't be an alias: 1 to 256 letters, digits and . _ : / - with one star at most`,
		`endpoints/b.yaml:2:40: "a b*" can't be an alias: 1 to 256 letters, digits and . _ : / - with one star at most`,
		`endpoints/b.yaml:2:46: the alias "*" is taken: `+dir+`/endpoints/a.yaml:2:37 is an alias of the endpoint "a" too`,
		`endpoints/b.yaml:2:57: "pmpt_*" can't be an id: a star is for aliases that are text`,
		`endpoints/c.yaml:2:16: the alias "c*" is taken: `+dir+`/endpoints/c.yaml:2:12 is an alias of the endpoint "c" too`,
		`endpoints/z2.yaml:2:226: the endpoints have more than 100 aliases with a star`,
		`prompts/p.yaml:4:12: "p-*" can't be an alias: 1 to 256 letters, digits and . _ : / -`,
	)
}

// aliasesList returns the elements of a list of n aliases.
func aliasesList(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i)
	}
	return strings.Join(names, ", ")
}

// TestAliasesOfAnEdit: an edit of nothing but aliases is served and reported, and
// mistakes of definitions that did not change are found again.
func TestAliasesOfAnEdit(t *testing.T) {
	const config = "type: string\ndefault: x\n"
	dir := workspace(t, map[string]string{
		"remoteconfigs/c.yaml": config,
		"remoteconfigs/d.yaml": config + "aliases: [ other ]\n",
	})
	s := opened(t, dir)
	told := 0
	defer s.Subscribe(func(*Snapshot, error) { told++ }, nil)()
	version := s.Snapshot().RemoteConfigs["c"].Version
	for _, edit := range []struct {
		aliases, mistake string
		old, other       string // the keys of the definitions with these names
	}{
		{"[ old ]", "", "c", "d"},
		{"[ other ]", `the alias "other" is taken: ` + dir + `/remoteconfigs/c.yaml:3:12 is an alias`, "c", "d"},
		{"[ d ]", `the alias "d" is taken: `, "c", "d"},
		{"[]", "", "", "d"},
	} {
		write(t, dir+"/remoteconfigs/c.yaml", config+"aliases: "+edit.aliases+"\n")
		before := told
		if err := s.Reload(); edit.mistake == "" && err != nil || edit.mistake != "" && (err == nil || !strings.Contains(err.Error(), edit.mistake)) {
			t.Errorf("%s: %v", edit.aliases, err)
		}
		if told != before+1 {
			t.Errorf("%s: %d times told", edit.aliases, told-before)
		}
		now := s.Snapshot()
		key := func(name string) string {
			if c := now.Named(kind.RemoteConfig, name); c != nil {
				return c.Key
			}
			return ""
		}
		if key("old") != edit.old || key("other") != edit.other || now.RemoteConfigs["c"].Version != version {
			t.Errorf("%s: old is %q, other is %q", edit.aliases, key("old"), key("other"))
		}
	}
}
