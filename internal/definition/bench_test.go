package definition

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/prompt"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/valyala/fastjson"
)

// large writes a workspace of 10,000 definitions, each with a table.
func large(b *testing.B) (dir string) {
	dir = workspace(b, map[string]string{"context.yaml": `fields:
  environment: { type: string, values: [production, staging, development] }
  plan: { type: string, values: [free, starter, pro, enterprise] }
  locale: { type: string, match: language-range }
  seats: { type: number }
`})
	for i := range 5000 {
		write(b, filepath.Join(dir, "remoteconfigs", fmt.Sprintf("g%02d/c%d.yaml", i%50, i)), fmt.Sprintf(`type: object
default: { rpm: %d, burst: 10 }
merge: default
columns: [ environment, plan, locale, seats, value ]
matrix:
  - [ production, enterprise, any, 100.., { rpm: 6000, burst: 600 } ]
  - [ production, [pro, starter], any, 10..<100, { rpm: 600 } ]
  - [ production, not free, nl, any, { rpm: 300 } ]
tests:
  - { context: { environment: production, plan: free }, rule: default }
`, i))
		write(b, filepath.Join(dir, "prompts", fmt.Sprintf("g%02d/p%d.yaml", i%50, i)), fmt.Sprintf(`default: en
variables: { company: { default: Acme%d }, question: { required: true } }
variants:
  en:
    provider: openai
    model: gpt-4o-mini
    temperature: 0.2
    messages:
      - { role: system, content: "You are the support agent of {{company}}. Answer in English." }
      - { role: user, content: "{{question}}" }
  nl:
    extends: en
    messages:
      - { role: system, content: "Je bent de helpdesk van {{company}}. Antwoord in het Nederlands." }
      - { role: user, content: "{{question}}" }
columns: [ locale, value ]
matrix:
  - [ nl, nl ]
`, i))
	}
	return dir
}

// BenchmarkLoad loads a large workspace, as at startup.
func BenchmarkLoad(b *testing.B) {
	dir := large(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Load(dir); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReload loads a large workspace again after one file was edited.
func BenchmarkReload(b *testing.B) {
	dir := large(b)
	s, err := Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	file := filepath.Join(dir, "remoteconfigs", "g00", "c0.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		write(b, file, strings.Replace(string(text), "rpm: 0", fmt.Sprintf("rpm: %d", i+1), 1))
		if err := s.Reload(); err != nil {
			b.Fatal(err)
		}
		if got := string(s.Snapshot().RemoteConfigs["g00/c0"].Default()); got != fmt.Sprintf(`{"rpm":%d,"burst":10}`, i+1) {
			b.Fatal(got)
		}
	}
}

// BenchmarkPrompt measures one key of a prompts request after parsing:
// the context bound, the variant picked, the variables bound, the answer built.
func BenchmarkPrompt(b *testing.B) {
	s := mustLoad(b, "../../examples/definitions")
	p := s.Prompts["support_reply"]
	context := fastjson.MustParse(`{"locale":"nl-BE","environment":"production","plan":"pro"}`)
	variables := fastjson.MustParse(`{"question":"Waar is mijn pakket?"}`)
	now := time.Now()
	var binding rules.Binding
	var values prompt.Values
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Model.Bind(&binding, context, now); err != nil {
			b.Fatal(err)
		}
		v, _ := p.Select(&binding)
		err := p.Bind(v, variables, &binding, &values)
		if err == nil {
			dst, err = v.AppendJSON(dst[:0], &values)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkConfiguredPrompt is BenchmarkPrompt of a prompt with a variable that reads a
// remote configuration.
func BenchmarkConfiguredPrompt(b *testing.B) {
	s := configured(b, "  rpm: { config: limits, path: rpm }\n  name: { config: limits, path: name }\n", "{{q}} {{rpm}} {{name}}")
	p := s.Prompts["p"]
	context := fastjson.MustParse(`{"plan":"team","seats":50}`)
	variables := fastjson.MustParse(`{"q":"How many?"}`)
	now := time.Now()
	var binding rules.Binding
	var values prompt.Values
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Model.Bind(&binding, context, now); err != nil {
			b.Fatal(err)
		}
		v, _ := p.Select(&binding)
		err := p.Bind(v, variables, &binding, &values)
		if err == nil {
			dst, err = v.AppendJSON(dst[:0], &values)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRemoteConfig evaluates a configuration for a bound context.
func BenchmarkRemoteConfig(b *testing.B) {
	s := mustLoad(b, "../../examples/definitions")
	c := s.RemoteConfigs["model_limits"]
	binding := bind(b, s, `{"environment":"production","plan":"pro","seats":50}`)
	b.ReportAllocs()
	for b.Loop() {
		if value, _ := c.Evaluate(binding); len(value) == 0 {
			b.Fatal("no value")
		}
	}
}
