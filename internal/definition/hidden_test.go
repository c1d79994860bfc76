package definition

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestHiddenCharactersInNames holds that the name of a model or a provider with a
// character that nobody sees is refused, quoted or not: a provider would refuse it.
func TestHiddenCharactersInNames(t *testing.T) {
	dir := workspace(t, map[string]string{
		"prompts/p.yaml": "provider: openai\nmodel: gpt-4o\u200b\nmessages: [ { role: user, content: x } ]\n",
		"prompts/q.json": `{"provider": "open\u00adai", "model": "m", "messages": [ { "role": "user", "content": "x" } ]}`,
		"endpoints/e.yaml": "prompt: p\nfallback:\n" +
			"  - { provider: \"openai\u00a0\", model: m }\n" +
			"  - { provider: openai, model: \ufeffm }\n",
	})
	_, err := Load(dir)
	wantErrors(t, dir, err,
		`endpoints/e.yaml:3:17: provider "openai\u00a0" has a no-break space (U+00A0) in it: delete it`,
		`endpoints/e.yaml:4:32: model "\ufeffm" has a byte order mark (U+FEFF) in it: delete it`,
		`prompts/p.yaml:2:8: model "gpt-4o\u200b" has a zero-width space (U+200B) in it: delete it`,
		`prompts/q.json:1:14: provider "open\u00adai" has a soft hyphen (U+00AD) in it: delete it`,
	)
}

// TestHiddenCharactersInValues holds that a value is warned of, unless its quotes
// say that the character is meant. A space within a text is one that is meant.
func TestHiddenCharactersInValues(t *testing.T) {
	for _, test := range []struct {
		typ, def, value string
		want            []string
	}{
		{"string", "a", "pro\u200b", []string{"6:13"}},
		{"string", "pro\u00a0", "b", []string{"2:10", "5:13"}},
		{"string", "10\u00a0€", `"pro\u200b"`, nil},
		{"string", "a", "'be\u00adta'", nil},
		{"list", "[ a, \u200bb ]", "[ a, [ c\u2060 ] ]", []string{"2:15", "5:18", "6:20"}},
		{"object", "{ k: { l: a\u200b } }", "{ k: 1 }", []string{"2:20", "5:23"}},
	} {
		dir := workspace(t, map[string]string{
			"context.yaml": "fields: { plan: { type: string } }\n",
			"remoteconfigs/c.yaml": "type: " + test.typ + "\ndefault: " + test.def + "\n" +
				"columns: [ plan, value ]\nmatrix:\n  - [ free, " + test.def + " ]\n  - [ pro,  " + test.value + " ]\n",
		})
		var got []string
		for _, w := range mustLoad(t, dir).Warnings {
			if w.Kind != "hidden-character" {
				continue
			}
			if !strings.HasSuffix(w.Message, " in it: delete it, or quote the value if it is meant") {
				t.Error(w)
			}
			place, _, _ := strings.Cut(strings.TrimPrefix(w.String(), dir+"/remoteconfigs/c.yaml:"), ": ")
			got = append(got, place)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%+v: %s", test, diff)
		}
	}
}
