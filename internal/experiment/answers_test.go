package experiment_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/experiment"
	"github.com/cadenza-gateway/cadenza/internal/kind"
)

const replyPrompt = `
default: warm
variants:
  warm: { provider: x, model: m, messages: [ { role: user, content: "warm {{max}}" } ] }
  brief: { extends: warm, messages: [ { role: user, content: "brief {{max}}" } ] }
variables: { max: { default: 3 } }
rules:
  - id: wording
    split: { by: customer_id, of: [ { value: warm, share: 50% }, { value: brief, share: 50% } ] }
`

// contentOf loads a file beside the prompt reply, and returns the content of its definition.
func contentOf(t *testing.T, file, text string) []byte {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"context.yaml": "fields: { customer_id: { type: string }, plan: { type: string, values: [free, pro] } }\n", "prompts/reply.yaml": replyPrompt}
	files[file] = text
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := definition.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	folder, key, _ := strings.Cut(strings.TrimSuffix(file, ".yaml"), "/")
	return s.Find(kind.InFolder(folder), key).Content()
}

// TestAnswers: what the arms answer with has one name however it is written, also beside
// other edits, and another one as soon as it is another.
func TestAnswers(t *testing.T) {
	const text = `
type: string
default: grey
rules:
  - { id: pro, when: { plan: pro }, value: gold }
  - id: colours
    split: { by: customer_id, of: [ { name: blue, value: "10", share: 50% }, { name: green, value: plain words, share: 50% } ] }
`
	const numbers = `
type: number
default: 1
rules: [ { id: r, split: { by: customer_id, salt: s, of: [ { value: 10, share: 20% }, { value: 2, share: 20% } ] } } ]
`
	const objects = `
type: object
merge: default
default: { a: 1, b: { c: [1, 2.50], d: x }, gone: true }
rules: [ { id: r, split: { by: customer_id, of: [ { name: one, value: { b: { c: [3] }, gone: null }, share: 20% }, { name: two, value: { a: "1" }, share: 20% } ] } } ]
`
	const endpoint = `
prompt: reply
default: slow
variants: { slow: { timeout: { total: 30s } }, fast: { timeout: { total: 3s } } }
rules: [ { id: patience, split: { by: customer_id, of: [ { value: slow, share: 50% }, { value: fast, share: 50% } ] } } ]
`
	for _, of := range []struct {
		file, rule, text string
		same, other      [][]string // edits: what is replaced, and by what
	}{
		{"remoteconfigs/c.yaml", "colours", text, [][]string{
			{"share: 50%", "share: 5%"}, {"of: [", "coverage: 20%, of: ["}, {"of: [", "salt: colours, of: ["}, {"of: [", "salt: 'colours', of: ["},
			{"value: gold", "value: silver"}, {"default: grey", "default: red"}, {`"10"`, "10"}, {`"10"`, "'10'"}, {"plain words", `"plain words"`}, {"id: colours", "id: 'colours'"},
			{`{ name: blue, value: "10", share: 50% }, { name: green, value: plain words, share: 50% }`, `{ share: 50%, name: green, value: plain words }, { name: blue, value: "10", share: 50% }`},
			{"split: { by: customer_id, of:", "when: { plan: free }\n    from: 2126-01-01\n    split:\n      by: customer_id\n      of:", " ] }", " ]"},
		}, [][]string{
			{`"10"`, "11"}, {"plain words", "Plain words"}, {"by: customer_id", "by: plan"}, {"of: [", "salt: x, of: ["}, {"name: blue", "name: azure"},
			{"share: 50% } ]", "share: 40% }, { value: red, share: 10% } ]"},
			{`value: "10"`, "value: plain words"},
		}},
		{"remoteconfigs/n.yaml", "r", numbers, [][]string{{"value: 10,", "value: 10.0,"}, {"value: 2,", "value: 2e0,"}, {"default: 1", "default: 3"}}, [][]string{{"value: 10,", "value: 10.5,"}, {"value: 10,", "value: 2,", "value: 2,", "value: 10,"}}},
		{"remoteconfigs/o.yaml", "r", objects, [][]string{
			{"c: [3]", "c: [3.0]"}, {"c: [1, 2.50], d: x", "d: x, c: [1.0, 2.5]"},
		}, [][]string{{"d: x", "d: y"}, {"gone: true", "gone: false"}, {"{ a: 1, b", "{ a: 2, b"}, {"gone: null", "gone: 1"}, {`a: "1"`, "a: 1"}, {"2.50", "2.6"}}},
		{"prompts/reply.yaml", "wording", replyPrompt, [][]string{{"share: 50%", "share: 20%"}, {"{ value: warm, share: 50% }, { value: brief, share: 50% }", "{ value: brief, share: 50% }, { value: warm, share: 50% }"}, {"warm: {", "other: { provider: x, model: m, messages: [ { role: user, content: other } ] }\n  warm: { name: Warm,"}, {"variables:", "log: content\nvariables:"}},
			[][]string{{"brief {{max}}", "Brief {{max}}"}, {"model: m", "model: n"}, {"provider: x", "temperature: 1, provider: x"}}},
		{"endpoints/e.yaml", "patience", endpoint, [][]string{{"share: 50%", "share: 20%"}}, [][]string{{"total: 3s", "total: 4s"}}},
	} {
		answersOf := func(edit ...string) string {
			t.Helper()
			name, ok := experiment.Answers(contentOf(t, of.file, strings.NewReplacer(edit...).Replace(of.text)), of.rule, "blue")
			if !ok || len(name) != 12 {
				t.Errorf("%s: %q", of.file, name)
			}
			return name
		}
		first := answersOf()
		for _, edit := range of.same {
			if answersOf(edit...) != first {
				t.Errorf("%s: %q changes what the arms answer with", of.file, edit)
			}
		}
		for _, edit := range of.other {
			if strings.NewReplacer(edit...).Replace(of.text) == of.text || answersOf(edit...) == first {
				t.Errorf("%s: %q leaves what the arms answer with as it was", of.file, edit)
			}
		}
	}
	for _, content := range []string{"", "null", "[]", `{"rules":1}`, `{"rules":[{"id":"a"},{"id":null,"split":{}},1,{"split":{}}]}`} {
		for _, rule := range []string{"a", ""} {
			if name, ok := experiment.Answers([]byte(content), rule, experiment.PassedOn); ok || name != "" || len(experiment.ArmAnswers([]byte(content), rule)) > 0 {
				t.Errorf("%q of %s: %q", rule, content, name)
			}
		}
	}
}

// TestAnswersOfPassedOn: where the units that the split leaves are the control, what the rows
// below and the default answer with is part of the name; what is above is not, nor are shares.
func TestAnswersOfPassedOn(t *testing.T) {
	const config = `
type: string
default: grey
rules:
  - { id: above, when: { plan: pro }, value: gold }
  - { id: colours, split: { by: customer_id, of: [ { name: blue, value: "10", share: 20% } ] } }
  - { id: free, when: { plan: free }, value: tin }
  - { id: metals, split: { by: customer_id, of: [ { name: a, value: lead, share: 30% } ] } }
`
	const prompt = `
default: plain
variants:
  plain: { provider: x, model: m, messages: [ { role: user, content: plain } ] }
  warm: { provider: x, model: m, messages: [ { role: user, content: warm } ] }
  brief: { provider: x, model: m, messages: [ { role: user, content: brief } ] }
  above: { provider: x, model: m, messages: [ { role: user, content: above } ] }
rules:
  - { id: top, when: { plan: pro }, value: above }
  - { id: wording, split: { by: customer_id, of: [ { value: warm, share: 20% } ] } }
  - { id: low, when: { plan: free }, value: brief }
`
	for _, of := range []struct {
		file, rule, text string
		same, other      [][]string
	}{
		{"remoteconfigs/c.yaml", "colours", config,
			[][]string{{"share: 20%", "share: 5%"}, {"gold", "silver"}, {"id: free", "id: gratis"}, {"plan: pro", "plan: free"}, {"value: tin", `value: "tin"`}},
			[][]string{{"tin", "zinc"}, {"grey", "red"}, {"plan: free", "plan: pro"}, {"lead", "iron"}, {"share: 30%", "share: 40%"}, {"id: metals", "id: ores"}, {`"10"`, "11"}}},
		{"prompts/reply.yaml", "wording", prompt,
			[][]string{{"share: 20%", "share: 5%"}, {"content: above", "content: Above"}, {"plain: {", "plain: { name: Plain,"}},
			[][]string{{"content: plain", "content: Plain"}, {"content: brief", "content: Brief"}, {"default: plain", "default: brief"}, {"content: warm", "content: Warm"}}},
	} {
		answersOf := func(control string, edit ...string) string {
			t.Helper()
			text := strings.NewReplacer(edit...).Replace(of.text)
			if len(edit) > 0 && text == of.text {
				t.Errorf("%q edits nothing", edit)
			}
			name, ok := experiment.Answers(contentOf(t, of.file, text), of.rule, control)
			if !ok || len(name) != 12 {
				t.Errorf("%s: %q", of.file, name)
			}
			return name
		}
		first := answersOf(experiment.PassedOn)
		for _, edit := range of.same {
			if answersOf(experiment.PassedOn, edit...) != first {
				t.Errorf("%s: %q changes what is compared", of.file, edit)
			}
		}
		for _, edit := range of.other {
			if answersOf(experiment.PassedOn, edit...) == first {
				t.Errorf("%s: %q leaves what is compared as it was", of.file, edit)
			}
		}
	}
}

// TestArmAnswers: arms with the same answer have the same text, by whichever name.
func TestArmAnswers(t *testing.T) {
	answers := experiment.ArmAnswers(contentOf(t, "remoteconfigs/o.yaml", `
type: object
merge: default
default: { a: 1 }
rules: [ { id: r, split: { by: customer_id, of: [ { value: { a: 1.0 }, share: 20% }, { name: none, value: {}, share: 20% }, { name: text, value: { a: "1", b: { c: { d: 1, e: null } } }, share: 20% } ] } } ]
`), "r")
	if len(answers) != 3 || answers["1"] != `{"a":1}` || answers["none"] != answers["1"] || answers["text"] != `{"a":"1","b":{"c":{"d":1}}}` {
		t.Errorf("%q", answers)
	}
	answers = experiment.ArmAnswers(contentOf(t, "prompts/reply.yaml", strings.ReplaceAll(replyPrompt, "brief {{", "warm {{")), "wording")
	if len(answers) != 2 || answers["warm"] != answers["brief"] || !strings.Contains(answers["warm"], "warm {{max}}") {
		t.Errorf("%q", answers)
	}
}

// TestAnswersOfGuard: a guard answers with what a split of the arms new and control does, or of
// the variants that they name, and its steps and stops are no part of the answers.
func TestAnswersOfGuard(t *testing.T) {
	split := regexp.MustCompile(`"split":\{.*?\],"salt":"s"\}`)
	for _, of := range []struct{ file, rule, text, new, control string }{
		{"remoteconfigs/c.yaml", "colours", `
type: string
default: grey
rules: [ { id: colours, split: { by: customer_id, salt: s, of: [ { name: new, value: "10", share: 50% }, { name: control, value: plain words, share: 50% } ] } } ]
`, `"\"10\""`, `"plain words"`},
		{"remoteconfigs/o.yaml", "r", `
type: object
merge: default
default: { a: 1 }
rules: [ { id: r, split: { by: customer_id, salt: s, of: [ { name: new, value: { b: 2 }, share: 20% }, { name: control, value: {}, share: 20% } ] } } ]
`, `{"b":"2"}`, `{}`},
		{"prompts/reply.yaml", "wording", strings.Replace(replyPrompt, "of:", "salt: s, of:", 1), `"brief"`, `"warm"`},
	} {
		content := string(contentOf(t, of.file, of.text))
		guarded := func(by, new, control, more string) []byte {
			guard := `"split":{"by":"` + by + `","salt":"s","guard":{"new":` + new + `,"control":` + control + more + `}}`
			if !split.MatchString(content) {
				t.Fatalf("no split in %s", content)
			}
			return []byte(split.ReplaceAllLiteralString(content, guard))
		}
		for _, more := range []string{"", `,"steps":["1%","100%"],"every":"1h","stop":[{"measure":"error","ratio":"1.2"}]`} {
			guard := guarded("customer_id", of.new, of.control, more)
			name, ok := experiment.Answers(guard, of.rule, "control")
			want, _ := experiment.Answers([]byte(content), of.rule, "control")
			if !ok || name != want {
				t.Errorf("%s: %s is called %q, want %q", of.file, guard, name, want)
			}
			if diff := cmp.Diff(experiment.ArmAnswers([]byte(content), of.rule), experiment.ArmAnswers(guard, of.rule)); diff != "" {
				t.Errorf("%s: %s", of.file, diff)
			}
			others := [][]byte{guarded("plan", of.new, of.control, more), guarded("customer_id", of.new, of.new, more)}
			if !strings.HasPrefix(of.file, "prompts") { // arms that are variants are called by them
				others = append(others, guarded("customer_id", of.control, of.new, more))
			}
			for _, other := range others {
				if name, _ := experiment.Answers(other, of.rule, "control"); name == want {
					t.Errorf("%s: %s is called the same", of.file, other)
				}
			}
		}
	}
}
