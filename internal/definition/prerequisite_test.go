package definition

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/valyala/fastjson"
)

// chain is a workspace of flags of which each asks for the one before in every
// one of its rows.
func chain(links, rows int) map[string]string {
	files := map[string]string{
		"context.yaml":          "fields: { country: { type: string }, beta: { type: boolean } }\n",
		"remoteconfigs/f0.yaml": "type: boolean\ndefault: false\nrules: [ { when: { beta: true }, value: true } ]\n",
	}
	for i := 1; i < links; i++ {
		var text strings.Builder
		fmt.Fprint(&text, "type: boolean\ndefault: false\ncolumns: [country, config, value]\nmatrix:\n")
		for row := range rows {
			fmt.Fprintf(&text, "  - [c%d, { f%d: true }, true]\n", row, i-1)
		}
		files[fmt.Sprintf("remoteconfigs/f%d.yaml", i)] = text.String()
	}
	return files
}

// A chain of prerequisites takes as long as its tables together, however many
// rows ask for the link before: to load, to check and to evaluate.
func TestChainOfPrerequisites(t *testing.T) {
	dir := workspace(t, chain(30, 20))
	var s *Snapshot
	loaded := make(chan error, 1)
	go func() {
		var err error
		s, err = Load(dir)
		loaded <- err
	}()
	select {
	case err := <-loaded:
		must(t, err)
	case <-time.After(time.Minute):
		t.Fatal("loading takes more than a minute")
	}
	var b rules.Binding
	last := s.RemoteConfigs["f29"]
	for context, want := range map[string]string{
		`{"country":"c19","beta":true}`:  "true",
		`{"country":"c19","beta":false}`: "false",
		`{"country":"x","beta":true}`:    "false",
	} {
		// Thousands in the time that one would take by trying every path.
		for range 1000 {
			must(t, s.Model.Bind(&b, fastjson.MustParse(context), time.Now()))
			if got, _ := last.Evaluate(&b); string(got) != want {
				t.Fatalf("%s for %s, want %s", got, context, want)
			}
		}
	}
}

// A prerequisite is asked for by value, whatever other values there are, and
// however it is written.
func TestPrerequisiteValues(t *testing.T) {
	dir := workspace(t, map[string]string{
		"context.yaml":            "fields: { plan: { type: string } }\n",
		"remoteconfigs/tier.yaml": "type: number\ndefault: 1\ncolumns: [plan, value]\nmatrix: [[a, 2], [b, 3], [c, 2.0], [d, 1]]\n",
		"remoteconfigs/word.yaml": "type: string\ndefault: none\ncolumns: [plan, value]\nmatrix: [[a, \"1.10\"], [b, 1.10], [c, 1.1]]\n",
		"remoteconfigs/by_tier.yaml": `
type: string
default: other
rules:
  - { when: { config: { tier: [3, 4] } }, value: three }
  - { when: { config: { tier: 2 } }, value: two }
  - { when: { config: { tier: 1.0 } }, value: one }
`,
		"remoteconfigs/by_word.yaml": `
type: string
default: other
rules:
  - { when: { config: { word: 1.10 } }, value: hit }
  - { when: { config: { word: none } }, value: default of word }
`,
	})
	s, err := Load(dir)
	must(t, err)
	var b rules.Binding
	for _, tt := range [][3]string{
		{"a", `"two"`, `"hit"`}, {"b", `"three"`, `"hit"`}, {"c", `"two"`, `"other"`},
		{"d", `"one"`, `"default of word"`}, {"e", `"one"`, `"default of word"`},
	} {
		must(t, s.Model.Bind(&b, fastjson.MustParse(fmt.Sprintf(`{"plan":%q}`, tt[0])), time.Now()))
		for i, key := range []string{"by_tier", "by_word"} {
			if got, _ := s.RemoteConfigs[key].Evaluate(&b); string(got) != tt[1+i] {
				t.Errorf("%s for plan %s: %s, want %s", key, tt[0], got, tt[1+i])
			}
		}
	}
}

func TestPrerequisitesNestedTooDeep(t *testing.T) {
	_, err := Load(workspace(t, chain(maxPrerequisites+2, 1)))
	want := fmt.Sprintf("remote configurations depend on each other over more than %d steps", maxPrerequisites)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("got %v, want %q", err, want)
	}
	if _, err := Load(workspace(t, chain(maxPrerequisites+1, 1))); err != nil {
		t.Fatal(err)
	}
}
