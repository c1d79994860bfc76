package definition

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestCausesWithoutConsequences holds that a mistake is reported, and not what
// follows from it.
func TestCausesWithoutConsequences(t *testing.T) {
	const (
		model    = "fields:\n  plan: { type: string }\n  seats: { type: number }\nsegments: { staff: [ { plan: pro } ] }\ncomputed: { many: seats > 1.0 }\n"
		prompt   = "provider: openai\nmodel: m\nmessages: [ { role: user, content: x } ]\n"
		endpoint = "prompt: p\n"
		table    = "type: boolean\ndefault: false\nrules:\n" +
			"  - { when: { plan: free }, value: true }\n  - { when: { segment: staff, many: true }, value: true }\n  - { id: a, split: { by: plan, of: [ { value: true, share: 1% } ] } }\n"
	)
	sound := map[string]string{"context.yaml": model, "prompts/p.yaml": prompt, "endpoints/e.yaml": endpoint, "remoteconfigs/c.yaml": table}
	mustLoad(t, workspace(t, sound))
	for name, test := range map[string]struct {
		old, new, text string // a file that is taken away, one that is written
		want           []string
		warnings       []string
	}{
		"a misnamed data model": {old: "context.yaml", new: "contxt.yaml", text: model,
			want: []string{`contxt.yaml:1:1: not read: did you mean "context.yaml"? 4 mistakes follow from its absence`}},
		"a misnamed folder": {old: "prompts/p.yaml", new: "prompt/p.yaml", text: prompt,
			want: []string{`prompt:1:1: not read: did you mean "prompts"? a mistake follows from its absence`}},
		"a misnamed folder beside another mistake": {old: "endpoints/e.yaml", new: "endpoint/e.yaml", text: "prompt: [\n",
			want: nil, warnings: []string{`endpoint: not read, a workspace has context.yaml and the folders prompts, endpoints, remoteconfigs and experiments: did you mean endpoints?`}},
		"a data model that can't be parsed": {new: "context.yaml", text: "fields: [\n",
			want: []string{`context.yaml:1:9: invalid YAML: the file ends here too early: a list or mapping in [ ] or { } has no end`}},
		"a field of no type": {new: "context.yaml", text: strings.Replace(model, "type: number", "type: integer", 1),
			want: []string{`context.yaml:3:18: the type of the field "seats" must be one of boolean, date, list, number, string, this is "integer"`}},
		"a prompt that can't be parsed": {new: "prompts/p.yaml", text: "messages: [\n",
			want: []string{`prompts/p.yaml:1:11: invalid YAML: the file ends here too early: a list or mapping in [ ] or { } has no end`}},
		"a prompt with a key that can't be parsed": {old: "prompts/p.yaml", new: "prompts/other.yaml", text: "key: p\nmessages: [\n",
			want: []string{`prompts/other.yaml:2:11: invalid YAML: the file ends here too early: a list or mapping in [ ] or { } has no end`}},
		"another prompt that can't be parsed": {old: "prompts/p.yaml", new: "prompts/other.yaml", text: "messages: [\n",
			want: []string{
				`endpoints/e.yaml:1:9: there is no prompt "p"`,
				`prompts/other.yaml:1:11: invalid YAML: the file ends here too early: a list or mapping in [ ] or { } has no end`,
			}},
		"a prompt whose key is no text": {new: "prompts/p.yaml", text: "key: []\n" + prompt,
			want: []string{`prompts/p.yaml:1:6: key must be text, this is a list`}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := workspace(t, sound)
			if test.old != "" {
				must(t, os.Remove(filepath.Join(dir, test.old)))
				_ = os.Remove(filepath.Dir(filepath.Join(dir, test.old))) // if it is empty now
			}
			write(t, filepath.Join(dir, test.new), test.text)
			s, err := Load(dir)
			if test.want == nil {
				must(t, err)
				var got []string
				for _, w := range s.Warnings {
					got = append(got, strings.ReplaceAll(w.String(), dir+string(filepath.Separator), ""))
				}
				if d := cmp.Diff(test.warnings, got); d != "" {
					t.Error(d)
				}
				return
			}
			wantErrors(t, dir, err, test.want...)
		})
	}
}

// TestUnreadableFilesAreTheOnlyMistake holds that what a file or folder may hold
// that can't be read is not missed.
func TestUnreadableFilesAreTheOnlyMistake(t *testing.T) {
	for _, link := range []string{"prompts/shop/p.yaml", "prompts/shop", "prompts", "context.yaml"} {
		dir := workspace(t, map[string]string{
			"context.yaml":     "fields: { plan: { type: string } }\n",
			"endpoints/e.yaml": "prompt: shop/p\n",
			"prompts/shop/p.yaml": "default: a\nvariants: { a: { provider: x, model: m, messages: [ { role: user, content: x } ] } }\n" +
				"columns: [ plan, value ]\nmatrix: [ [ pro, a ] ]\n",
		})
		mustLoad(t, dir)
		file := filepath.Join(dir, link)
		must(t, os.RemoveAll(file))
		must(t, os.Symlink("/nowhere", file))
		_, err := Load(dir)
		if err == nil || strings.Count(err.Error(), "\n") > 0 || !strings.Contains(err.Error(), link+": the link ") {
			t.Errorf("%s: %v", link, err)
		}
	}
}

// TestWarningsBesideMistakes holds that what may be the cause of a mistake is in
// its error.
func TestWarningsBesideMistakes(t *testing.T) {
	dir := workspace(t, map[string]string{
		"prompts/p.yaml": "provider: 1\nmodel: m\nvariables: { a: {} }\nmessages: [ { role: usr, content: '{{a}}' } ]\n",
		"prompts/p.txt":  "",
	})
	_, err := Load(dir)
	e, ok := errors.AsType[*LoadError](err)
	if !ok {
		t.Fatalf("%T %v", err, err)
	}
	got := strings.ReplaceAll(fmt.Sprint(e.Warnings), dir+string(filepath.Separator), "")
	want := "[prompts/p.txt: not read, definitions are .yaml, .yml or .json files prompts/p.yaml:3:14: the variable a is neither required nor has a default: not supplied, it is the empty string]"
	if len(e.Mistakes.List) != 1 || got != want {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestUnusedPartsOfTheModel(t *testing.T) {
	model := "fields: { plan: { type: string }, n: { type: number } }\n" +
		"computed:\n  low: n < 3.0\n  lower: low && n < 2.0\n  tested: lower\n  idle: low\n" +
		"segments:\n  inner: [ { tested: true } ]\n  outer: [ { segment: inner } ]\n  lost: [ { idle: true } ]\n"
	dir := workspace(t, map[string]string{"context.yaml": model})
	if s := mustLoad(t, dir); len(s.Warnings) != 1 {
		t.Errorf("without definitions: %v", s.Warnings)
	}
	table := func(when string) string {
		return "type: boolean\ndefault: false\nrules: [ { when: { " + when + " }, value: true } ]\n"
	}
	write(t, filepath.Join(dir, "remoteconfigs/c.yaml"), table("segment: { none: [outer] }"))
	want := []string{"context.yaml:6:9: no table uses the computed field idle", "context.yaml:10:3: no table uses the segment lost"}
	var got []string
	for _, w := range mustLoad(t, dir).Warnings {
		got = append(got, strings.ReplaceAll(w.String(), dir+string(filepath.Separator), ""))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	write(t, filepath.Join(dir, "remoteconfigs/d.yaml"), table("segment: lost"))
	if s := mustLoad(t, dir); len(s.Warnings) > 0 {
		t.Error(s.Warnings)
	}
	write(t, filepath.Join(dir, "context.yaml"), "trace: { always: [idle] }\n"+strings.Replace(model, "  lost: [ { idle: true } ]\n", "", 1))
	write(t, filepath.Join(dir, "remoteconfigs/d.yaml"), table("segment: outer"))
	if s := mustLoad(t, dir); len(s.Warnings) > 0 {
		t.Errorf("traces have it: %v", s.Warnings)
	}
	// What only a split reads is used, too.
	write(t, filepath.Join(dir, "context.yaml"), "fields: { n: { type: number } }\ncomputed: { unit: n * 2.0 }\n")
	write(t, filepath.Join(dir, "remoteconfigs/d.yaml"), "type: boolean\ndefault: false\nrules: [ { id: a, split: { by: unit, of: [ { value: true, share: 5% } ] } } ]\n")
	write(t, filepath.Join(dir, "remoteconfigs/c.yaml"), "type: boolean\ndefault: false\n")
	if s := mustLoad(t, dir); len(s.Warnings) > 0 {
		t.Error(s.Warnings)
	}
}
