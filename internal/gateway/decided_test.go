package gateway_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/trace"
)

// decidingFiles are definitions in which a decision rests on much: splits that
// pass units on, a ramp, prerequisites, segments and computed fields.
func decidingFiles() map[string]string {
	files := maps.Clone(workspace)
	files["definitions/context.yaml"] += `  user:     { type: string }
  customer: { type: number }
computed:
  instant: string(now)
segments:
  staff:
    - { tags: { any: [employee] } }
`
	files["definitions/remoteconfigs/colour.yaml"] = `
type: string
default: grey
rules:
  - id: nobody
    when: { plan: pro }
    split: { by: user, salt: s0, coverage: 0%, of: [ { value: red, share: 50% } ] }
  - id: colours
    when: { plan: pro }
    split: { by: user, of: [ { value: blue, share: 40% }, { value: green, share: 60% } ] }
  - id: staff
    when: { segment: staff }
    value: black
`
	files["definitions/remoteconfigs/precise.yaml"] = `
type: boolean
default: false
columns: [ instant, value ]
matrix:
  - [ { matches: '[.][0-9]{4,}Z$' }, true ]
`
	// Costly enough for the cache of decisions.
	costly := &strings.Builder{}
	costly.WriteString("type: string\ndefault: nobody\nrules:\n")
	for i := range 20 {
		fmt.Fprintf(costly, "  - { when: { user: { matches: '^u%d-[0-9]+$' } }, value: team-%d }\n", i, i)
	}
	costly.WriteString("  - { id: half, when: { user: { matches: '^half' } }, split: { by: user, of: [ { value: one, share: 100% } ] } }\n")
	files["definitions/remoteconfigs/team.yaml"] = costly.String()
	return files
}

// decided asks for a key in a context, and returns its record once it is stored.
func (g *gateway) decided(t *testing.T, path, key, context string) *trace.Record {
	t.Helper()
	body := `{"keys":["` + key + `"],"context":` + context + `,"variables":{"question":"Hi?"}}`
	a := g.post(path, body)
	if a.status != http.StatusOK {
		t.Fatalf("%s %s: %d %s", path, body, a.status, a.body)
	}
	return g.ended(t, a.header.Get("Cadenza-Trace-Id"))
}

// TestReasonsAreRecorded for prompts, endpoints and configurations.
func TestReasonsAreRecorded(t *testing.T) {
	t.Parallel()
	g := startGateway(t, decidingFiles(), options)
	for _, test := range []struct{ path, key, context, reason, row, arm string }{
		{"/v1/prompts", "reply", `{"locale":"nl"}`, "match", "row 1", "nl"},
		{"/v1/prompts", "reply", `{"locale":"fr"}`, "default", "", "en"},
		{"/v1/prompts", "reply", `{}`, "no_context", "", "en"},
		{"/v1/endpoints", "chat", `{"locale":"nl"}`, "match", "row 1", "nl"},
		{"/v1/endpoints", "chat", `null`, "no_context", "", "en"},
		{"/v1/remoteconfigs", "limits", `{"environment":"production","plan":"pro"}`, "match", "row 1", ""},
		{"/v1/remoteconfigs", "limits", `{"plan":"free"}`, "default", "", ""},
		{"/v1/remoteconfigs", "limits", `{}`, "no_context", "", ""},
	} {
		r := g.decided(t, test.path, test.key, test.context)
		if r.Reason != test.reason || r.Row != test.row || r.Arm != test.arm {
			t.Errorf("%s %s in %s: %s by %q, arm %q", test.path, test.key, test.context, r.Reason, r.Row, r.Arm)
		}
	}
}

// TestCachedDecisionsAreRecordedAlike: a decision from the cache has the record of
// one that was evaluated.
func TestCachedDecisionsAreRecordedAlike(t *testing.T) {
	t.Parallel()
	g := startGateway(t, decidingFiles(), options)
	for _, user := range []string{"half-1", "u3-1", "else"} {
		context := `{"user":"` + user + `"}`
		first := g.decided(t, "/v1/remoteconfigs", "team", context)
		var cached *trace.Record
		eventually(t, "the decision for "+user+" is cached", func() bool {
			hits := lookups(g, "decisions", "hit")
			cached = g.decided(t, "/v1/remoteconfigs", "team", context)
			return lookups(g, "decisions", "hit") > hits
		})
		cached.ID, cached.Decision, cached.Time, cached.Latency = first.ID, first.Decision, first.Time, first.Latency
		if got, want := string(cached.AppendJSON(nil)), string(first.AppendJSON(nil)); got != want {
			t.Errorf("%s: cached\n%s\nevaluated\n%s", user, got, want)
		}
		if want := map[string]string{"half-1": "split", "u3-1": "match", "else": "default"}[user]; first.Reason != want {
			t.Errorf("%s: %s, want %s", user, first.Reason, want)
		}
	}
}

// TestInstantOfADecision: tables see the instant that the trace has, so that what
// reads the time can be decided again.
func TestInstantOfADecision(t *testing.T) {
	t.Parallel()
	g := startGateway(t, decidingFiles(), options)
	for range 5 {
		r := g.decided(t, "/v1/remoteconfigs", "precise", `{"plan":"pro"}`)
		if r.Reason != "default" {
			t.Errorf("a table saw more than milliseconds of %s", r.Time.Format(time.RFC3339Nano))
		}
	}
}
