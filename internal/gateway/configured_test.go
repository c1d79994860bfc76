package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/trace"
	"github.com/valyala/fastjson"
)

// configured are definitions whose prompts read configurations.
func configured() map[string]string {
	return map[string]string{
		"definitions/context.yaml": "fields:\n  plan: { type: string, values: [free, pro] }\n",
		"definitions/remoteconfigs/limits.yaml": `
type: object
default: { rpm: 60, tone: "calm\n" }
rules:
  - { id: pros, when: { plan: pro }, value: { rpm: 6000 } }
`,
		"definitions/prompts/notice.yaml": `
provider: fake
model: small
variables:
  rpm:  { config: limits, path: rpm }
  tone: { config: limits, path: tone }
messages: [ { role: user, content: "{{rpm}}, {{tone}}: {{rpm}}" } ]
`,
		"definitions/prompts/whole.yaml": `
variables: { limits: { config: limits } }
messages: [ { role: user, content: "{{limits}}" } ]
`,
		"definitions/endpoints/notice.yaml": "prompt: notice\nmax_attempts: 1\ncache: { ttl: 1h }\n",
	}
}

// contents returns, by key, the content of the first message of each prompt of an answer,
// and the notes of its trace.
func contents(t *testing.T, g *gateway, a answer) (text, notes map[string]string) {
	t.Helper()
	if a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	text, notes = make(map[string]string), make(map[string]string)
	fastjson.MustParseBytes(a.body).GetObject().Visit(func(key []byte, v *fastjson.Value) {
		text[string(key)] = string(v.GetStringBytes("value", "messages", "0", "content"))
		id := string(v.GetStringBytes("trace_id"))
		var record *trace.Record
		eventually(t, "the trace", func() (found bool) { record, found = g.trace("data/cadenza.db", id); return found })
		notes[string(key)] = strings.Join(record.Notes, "; ")
	})
	return text, notes
}

// TestVariablesFromConfigurations checks that prompts get the values of a configuration
// for the request's context, that the caller's values override them, and that missing
// ones are noted.
func TestVariablesFromConfigurations(t *testing.T) {
	t.Parallel()
	g := startGateway(t, configured(), options)
	for _, tt := range []struct{ request, notice, notes, whole, other string }{
		{``, "60, calm\n: 60", "", `{"rpm":60,"tone":"calm\n"}`, ""},
		{`"context":{"plan":"free"}`, "60, calm\n: 60", "", `{"rpm":60,"tone":"calm\n"}`, ""},
		{`"context":{"plan":"pro"}`, "6000, : 6000", "variables.tone: empty", `{"rpm":6000}`, ""},
		{`"context":{"plan":"pro"},"variables":{"tone":"{{rpm}}","rpm":[1]}`, "[1], {{rpm}}: [1]", "", `{"rpm":6000}`, "2 undeclared variables: tone, rpm"},
	} {
		request := `{"keys":["notice","whole"]`
		if tt.request != "" {
			request += "," + tt.request
		}
		request += "}"
		a := g.post("/v1/prompts", request)
		text, notes := contents(t, g, a)
		if text["notice"] != tt.notice || text["whole"] != tt.whole {
			t.Errorf("%s: %q and %q", tt.request, text["notice"], text["whole"])
		}
		if notes["notice"] != tt.notes || notes["whole"] != tt.other {
			t.Errorf("%s: notes %q", tt.request, notes)
		}
		// The values of a configuration count in the size of the answer.
		for less, want := range []int{http.StatusOK, http.StatusBadRequest} {
			g.load(with(func(c *gw.WorkspaceConfig) { c.MaxAnswerSize = int64(len(a.body) - less) }))
			if got := g.post("/v1/prompts", request); got.status != want {
				t.Errorf("%s: an answer of %d bytes, %d less are allowed: %d", tt.request, len(a.body), less, got.status)
			}
		}
		g.load()
	}
}

// TestCachedAnswerHasItsConfiguration checks that the model is asked again if the context
// selects another value, or if the configuration is edited.
func TestCachedAnswerHasItsConfiguration(t *testing.T) {
	t.Parallel()
	var asked []string
	u := newUpstream(t, func(call int64, w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, string(fastjson.MustParseBytes(body).GetStringBytes("messages", "0", "content")))
		completion(w, fmt.Sprint("answer ", call))
	})
	g := startGateway(t, configured(), fakeProvider(u.URL))
	post := func(plan string) string {
		t.Helper()
		a := g.post("/v1/endpoints", `{"key":"notice","context":{"plan":"`+plan+`"}}`).ok(t)
		return string(fastjson.MustParseBytes(a.body).GetStringBytes("content"))
	}
	got := []string{post("free"), post("pro"), post("free"), post("pro")}
	g.write("definitions/remoteconfigs/limits.yaml", strings.Replace(configured()["definitions/remoteconfigs/limits.yaml"], "6000", "7000", 1))
	if err := g.source.Reload(); err != nil {
		t.Fatal(err)
	}
	got = append(got, post("free"), post("pro"))
	if want := []string{"answer 1", "answer 2", "answer 1", "answer 2", "answer 1", "answer 3"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if want := []string{"60, calm\n: 60", "6000, : 6000", "7000, : 7000"}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

// TestConfigurationsThatVariablesReadAreRecorded checks that the trace of an answer has
// the versions, splits and inputs of the configurations that its variables read, and of
// their prerequisites, and of no others.
func TestConfigurationsThatVariablesReadAreRecorded(t *testing.T) {
	t.Parallel()
	files := configured()
	files["definitions/context.yaml"] = "fields:\n  plan: { type: string, values: [free, pro] }\n  user: { type: string, trace: value }\n  seats: { type: number, trace: value }\n  beta: { type: boolean }\n"
	files["definitions/remoteconfigs/big.yaml"] = "type: boolean\ndefault: false\nrules: [ { when: { seats: 10.. }, value: true } ]\n"
	files["definitions/remoteconfigs/tone.yaml"] = `
type: object
default: { words: calm }
rules:
  - id: half
    when: { config: { big: true } }
    split: { by: user, of: [ { name: warm, value: { words: warm }, share: 100% } ] }
`
	files["definitions/prompts/notice.yaml"] = `
default: quiet
variables:
  tone: { config: tone, path: words }
  more: { config: tone, path: words }
variants:
  told:  { provider: fake, model: small, messages: [ { role: user, content: "{{tone}} {{more}}" } ] }
  quiet: { provider: fake, model: small, messages: [ { role: user, content: hello } ] }
rules:
  - { id: beta, when: { beta: true }, value: told }
`
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { completion(w, "answer") })
	g := startGateway(t, files, fakeProvider(u.URL))
	snapshot := g.source.Snapshot()
	version := func(key string) string { return snapshot.RemoteConfigs[key].Version }
	both := fmt.Sprintf(`{"remoteconfigs/tone":%q,"remoteconfigs/big":%q}`, version("tone"), version("big"))
	for _, tt := range []struct{ context, variables, arms, read, inputs string }{
		{`{"beta":true,"seats":20,"user":"ada"}`, `{}`, "half warm", both, `{"user":"ada","seats":20,"beta":true}`},
		{`{"beta":true,"seats":20,"user":"ada"}`, `{"tone":"mine"}`, "half warm", both, `{"user":"ada","seats":20,"beta":true}`},
		{`{"beta":true,"seats":20,"user":"ada"}`, `{"tone":"mine","more":"mine"}`, "", "", `{"beta":true}`},
		{`{"beta":true,"seats":2,"user":"ada"}`, `{}`, "half ", both, `{"user":"ada","seats":2,"beta":true}`},
		{`{"beta":false,"seats":20,"user":"ada"}`, `{}`, "", "", `{"beta":false}`},
	} {
		for _, body := range []string{`{"keys":["notice"]`, `{"key":"notice"`} {
			path := "/v1/prompts"
			if !strings.Contains(body, "keys") {
				path = "/v1/endpoints"
			}
			a := g.post(path, body+`,"context":`+tt.context+`,"variables":`+tt.variables+`}`).ok(t)
			r := g.ended(t, a.header.Get("Cadenza-Trace-Id"))
			arms := ""
			if len(r.Splits) > 0 {
				for _, split := range fastjson.MustParseBytes(r.Splits).GetArray() {
					arms += string(split.GetStringBytes("experiment", "rule")) + " " + string(split.GetStringBytes("arm"))
				}
			}
			if arms != tt.arms || string(r.Read) != tt.read || string(r.Inputs) != tt.inputs {
				t.Errorf("%s %s %s:\nsplits %q, read %s, inputs %s\nwant   %q, read %s, inputs %s", path, tt.context, tt.variables, arms, r.Read, r.Inputs, tt.arms, tt.read, tt.inputs)
			}
		}
	}
	// Without a context, too, the default of a configuration is read.
	a := g.post("/v1/prompts", `{"keys":["notice"],"context":{"beta":true}}`)
	if r := g.ended(t, a.header.Get("Cadenza-Trace-Id")); string(r.Read) != both || r.Splits != nil {
		t.Errorf("without a unit: splits %s, read %s", r.Splits, r.Read)
	}
	a = g.do(http.MethodPost, "/v1/prompts", `{"keys":["notice"],"context":{"beta":true}}`, http.Header{"Authorization": {"Bearer " + testKey}, "Cadenza-Log": {"none"}}).ok(t)
	// The next request's trace has nothing of the previous request.
	a = g.post("/v1/prompts", `{"keys":["notice"],"context":{"beta":false}}`)
	if r := g.ended(t, a.header.Get("Cadenza-Trace-Id")); len(r.Read) > 0 {
		t.Errorf("read %s", r.Read)
	}
}
