package inspect

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/document"
	"github.com/cadenza-gateway/cadenza/internal/kind"
	"github.com/cadenza-gateway/cadenza/rules"
)

// TestRulesAreInTheManual compares the names that findings have as their rule with
// the table of docs/tools.md.
func TestRulesAreInTheManual(t *testing.T) {
	given := regexp.MustCompile(`(?:Report|warnAt|warn|Name)\("([a-z-]+)"|(?:Kind|Rule): "([a-z-]+)"|\{"([a-z-]+)", (?:l\.|func\(\))`)
	names := map[string]bool{}
	for _, folder := range []string{"../definition", "../document", "../prompt", "../command", "../gateway", ".", "../../rules"} {
		files, err := filepath.Glob(folder + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(err, folder)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			text, err := os.ReadFile(file)
			must(t, err)
			for _, m := range given.FindAllStringSubmatch(string(text), -1) {
				names[m[1]+m[2]+m[3]] = true
			}
		}
	}
	for k := rules.FindingKind(1); k.String() != "unknown"; k++ {
		names[strings.ReplaceAll(k.String(), "_", "-")] = true
	}
	for _, name := range kind.Names() {
		names[name] = true // of what is found when a definition is built
	}
	page, err := os.ReadFile("../../docs/tools.md")
	must(t, err)
	_, table, found := strings.Cut(string(page), "| rule | findings |\n")
	table, _, ended := strings.Cut(table, "\n\n")
	if !found || !ended {
		t.Fatal("the manual has no table of rules")
	}
	described := map[string]bool{}
	for line := range strings.Lines(table) {
		for _, m := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(strings.Split(line, "|")[1], -1) {
			described[m[1]] = true
		}
	}
	for name := range names {
		if !described[name] {
			t.Errorf("docs/tools.md does not describe the rule %s", name)
		}
	}
	for name := range described {
		if !names[name] {
			t.Errorf("docs/tools.md describes the rule %s, which nothing has", name)
		}
	}
	if len(names) < 20 {
		t.Errorf("found %d rules", len(names))
	}
}

// TestEveryFindingHasARule loads mistakes that are found at each step.
func TestEveryFindingHasARule(t *testing.T) {
	const prompt = "provider: x\nmodel: m\nmessages: [ { role: user, content: x } ]\n"
	for name, files := range map[string]map[string]string{
		"files":          {"prompts/a.yaml": strings.Repeat("#", document.MaxFileBytes+1)},
		"syntax":         {"prompts/a.yaml": "a: [\n", "prompts/b.yaml": "- 1\n"},
		"data-model":     {"context.yaml": "timezone: Mars\n"},
		"remoteconfig":   {"remoteconfigs/c.yaml": "type: boolean\n"},
		"table":          {"remoteconfigs/c.yaml": "type: boolean\ndefault: true\nrules: [ { value: true, split: {} } ]\n"},
		"prompt":         {"prompts/p.yaml": "messages: 7\n"},
		"endpoint":       {"prompts/p.yaml": prompt, "endpoints/e.yaml": "prompt: p\nretry: { count: 99 }\n"},
		"test":           {"remoteconfigs/c.yaml": "type: boolean\ndefault: true\ntests: [ { value: false } ]\n"},
		"overlap":        {"context.yaml": "fields: { a: string, b: string }\n", "remoteconfigs/c.yaml": "type: boolean\ndefault: true\nhit: unique\nrules: [ { when: { a: x }, value: true }, { when: { b: x }, value: false } ]\n"},
		"unknown-member": {"prompts/p.yaml": prompt + "x: 1\n"},
		"missing-model":  {"prompts/p.yaml": "provider: x\nmessages: [ { role: user, content: x } ]\n", "endpoints/e.yaml": "prompt: p\n"},
	} {
		dir := t.TempDir()
		for file, text := range files {
			path := filepath.Join(dir, file)
			must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must(t, os.WriteFile(path, []byte(text), 0o644))
		}
		_, err := definition.Load(dir)
		list, _ := Mistakes(err)
		if len(list) == 0 || slices.ContainsFunc(list, func(f Finding) bool { return f.Rule != name && name != "files" || f.Rule == "" }) {
			t.Errorf("%s: %+v", name, list)
		}
	}
}

func TestSuggestion(t *testing.T) {
	for message, want := range map[string]string{
		`unknown member "a" in b: did you mean "c"?`:                         "c",
		`unknown "did you mean \"x\"?": did you mean "a \"b\""?`:             `a "b"`,
		`context.contry is no field: did you mean country?`:                  "country",
		`not read: did you mean context.yaml? 3 mistakes follow from it`:     "context.yaml",
		`is not a field: did you mean "x"? (unchecked_context: true allows)`: "x",
		`unknown member "a" (known: b, c)`:                                   "",
		`did you mean it so`:                                                 "",
	} {
		if got := suggestion(message); got != want {
			t.Errorf("%s\ngot %q, want %q", message, got, want)
		}
	}
}
