package gateway_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/secret"
	"github.com/cadenza-gateway/cadenza/trace"
)

// decidingFiles are definitions whose decisions depend on many inputs: splits that
// pass units on, a ramp, prerequisites, segments and computed fields.
func decidingFiles() map[string]string {
	files := maps.Clone(workspace)
	files["definitions/context.yaml"] += `  user:     { type: string }
  customer: { type: number, trace: value }
  email:    { type: string, trace: value }
  secret:   { type: string, trace: none }
  since:    { type: date }
computed:
  instant: string(now)
  big: seats > 100.0
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
    split: { by: user, of: [ { value: blue, share: 40%, name: cold }, { value: green, share: 60% } ] }
  - id: staff
    when: { segment: staff }
    value: black
`
	files["definitions/remoteconfigs/banner.yaml"] = `
type: boolean
default: false
rules:
  - id: cold
    when: { environment: production, config: { colour: [ blue, green ] } }
    ramp: { by: customer, from: 0%, to: 100%, start: 2020-01-01, end: 2020-01-02 }
    value: true
`
	files["definitions/remoteconfigs/quiet.yaml"] = `
type: boolean
default: false
rules:
  - id: half
    when: { big: false, since: "2020-01-01.." }
    split: { by: secret, of: [ { value: true, share: 100% } ] }
  - id: mail
    when: { email: present }
    value: true
`
	files["definitions/prompts/reply.yaml"] = strings.Replace(files["definitions/prompts/reply.yaml"], "columns:", `# columns:`, 1)
	files["definitions/prompts/reply.yaml"] = strings.Replace(strings.Replace(files["definitions/prompts/reply.yaml"], "matrix:", `rules:
  - { id: dutch, when: { locale: nl }, value: nl }
  - id: half
    when: { config: { banner: true } }
    split: { by: user, of: [ { value: en, share: 50% }, { value: nl, share: 50% } ] }
`, 1), "  - [ nl, nl ]\n", "", 1)
	files["definitions/prompts/limited.yaml"] = `
provider: fake
model: small
variables: { colour: { config: colour }, unused: { config: quiet } }
messages: [ { role: user, content: "In {{colour}}." } ]
`
	files["definitions/endpoints/varied.yaml"] = `
prompt: limited
fallback: [ { provider: canned, extra: { answer: yes, pace: 1ms } } ]
default: calm
variants: { calm: { max_attempts: 2 }, eager: { max_attempts: 3 } }
rules:
  - id: some
    when: { big: true }
    split: { by: user, of: [ { value: calm, share: 50% }, { value: eager, share: 50% } ] }
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

// TestReasonsAreRecorded checks the reasons of prompts, endpoints and configurations.
func TestReasonsAreRecorded(t *testing.T) {
	t.Parallel()
	g := startGateway(t, decidingFiles(), options)
	for _, test := range []struct{ path, key, context, reason, row, arm string }{
		{"/v1/prompts", "reply", `{"locale":"nl"}`, "match", "dutch", "nl"},
		{"/v1/prompts", "reply", `{"locale":"fr"}`, "default", "", "en"},
		{"/v1/prompts", "reply", `{}`, "no_context", "", "en"},
		{"/v1/endpoints", "chat", `{"locale":"nl"}`, "match", "dutch", "nl"},
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

// keyOfTraces is a trace key whose hashes the tests know.
const keyOfTraces = "8f41c07be2d95a36a1b0"

func withTraceKey(g *gateway, c *gw.Config) {
	g.write("key", keyOfTraces)
	c.Workspaces[0].TraceKey = secret.Reference("{file." + filepath.Join(g.dir, "key") + "}")
}

// hashOf returns the hash that replaces the value of a field.
func hashOf(t *testing.T, field, text string) string {
	t.Helper()
	hasher, err := trace.NewHasher([]byte(keyOfTraces), "default")
	if err != nil {
		t.Fatal(err)
	}
	return string(hasher.Append(nil, field, text))
}

// decidingArms are the shares of arms of the splits of decidingFiles that have several.
var decidingArms = map[string]string{
	"remoteconfigs/colour colours": `{"cold":0.4,"2":0.6}`, "prompts/reply half": `{"en":0.5,"nl":0.5}`, "endpoints/varied some": `{"calm":0.5,"eager":0.5}`,
}

// splitOf returns a split in the form of a trace. arm is empty if the unit was passed on, and
// of one that was not consulted share are the arms.
func splitOf(t *testing.T, definition, rule, salt, arm, share, field, unit string) string {
	t.Helper()
	key := definition[strings.Index(definition, "/")+1:]
	text := fmt.Sprintf(`{"experiment":{"definition":%q,"rule":%q,"salt":%q},"bucket":%d`, definition, rule, salt, xxhash.Sum64String(key+"\x00"+salt+"\x00"+unit)%100_000)
	if arm != "" {
		text += fmt.Sprintf(`,"arm":%q`, arm)
	}
	if strings.HasPrefix(share, "{") {
		text += `,"consulted":false,"arms":` + share
	} else if text += `,"share":` + share; decidingArms[definition+" "+rule] != "" {
		text += `,"arms":` + decidingArms[definition+" "+rule]
	}
	if field != "" {
		text += fmt.Sprintf(`,"unit":%q`, hashOf(t, field, unit))
	}
	return text + `}`
}

// TestEvidenceOfDecisions checks that traces have the basis of their decisions.
func TestEvidenceOfDecisions(t *testing.T) {
	t.Parallel()
	g := startGateway(t, decidingFiles(), withTraceKey)
	versions := make(map[string]string)
	for _, key := range []string{"colour", "banner"} {
		versions[key] = g.decided(t, "/v1/remoteconfigs", key, `{}`).Version
	}
	split := func(definition, rule, salt, arm, share, field, unit string) string {
		return splitOf(t, definition, rule, salt, arm, share, field, unit)
	}
	hash := func(field, text string) string { return `{"hash":"` + hashOf(t, field, text) + `"}` }
	eager := split("endpoints/varied", "some", "some", "eager", "0.5", "user", "ada")
	readColour := `{"remoteconfigs/colour":"` + versions["colour"] + `"}`
	passed := split("remoteconfigs/colour", "nobody", "s0", "", "0", "user", "ada")
	// The hashes of units decide, and never change: ada gets the first part of colour
	// and the second part of reply, joe the others.
	colour := split("remoteconfigs/colour", "colours", "colours", "cold", "0.4", "user", "ada")
	banner := split("remoteconfigs/banner", "cold", "cold", "1", "1", "customer", "17")
	for _, test := range []struct {
		path, key, context        string
		reason, arm, splits, read string
		inputs                    string
	}{
		{"/v1/remoteconfigs", "colour", `{}`, "no_context", "", "", "", ""},
		{"/v1/remoteconfigs", "colour", `{"locale":"nl"}`, "default", "", "", "", "{}"},
		{
			"/v1/remoteconfigs", "colour", `{"plan":"pro","user":"ada","locale":"nl"}`,
			"split", "cold", `[` + passed + `,` + colour + `]`, "",
			`{"plan":"pro","user":` + hash("user", "ada") + `}`,
		},
		{
			"/v1/remoteconfigs", "colour", `{"plan":"pro","user":"joe"}`, "split", "2",
			`[` + split("remoteconfigs/colour", "nobody", "s0", "", "0", "user", "joe") + `,` + split("remoteconfigs/colour", "colours", "colours", "2", "0.6", "user", "joe") + `]`, "",
			`{"plan":"pro","user":` + hash("user", "joe") + `}`,
		},
		{
			"/v1/remoteconfigs", "colour", `{"plan":"pro","tags":["employee","x"]}`, "match", "", "", "",
			`{"plan":"pro","tags":` + hash("tags", `["employee","x"]`) + `}`,
		},
		{
			"/v1/remoteconfigs", "banner", `{"environment":"production","plan":"pro","user":"ada","customer":17}`, "split", "1",
			`[` + passed + `,` + colour + `,` + banner + `]`, readColour,
			`{"environment":"production","plan":"pro","user":` + hash("user", "ada") + `,"customer":17}`,
		},
		{
			"/v1/remoteconfigs", "banner", `{"environment":"staging","plan":"pro","user":"ada","customer":17}`, "default", "",
			`[` + split("remoteconfigs/banner", "cold", "cold", "", `{"1":1}`, "customer", "17") + `]`, "", `{"environment":"staging","customer":17}`,
		},
		{
			"/v1/remoteconfigs", "quiet", `{"seats":3,"secret":"canary","since":"2026-01-31T10:00:00.250Z","email":"ada@example.com"}`, "split", "1",
			`[` + split("remoteconfigs/quiet", "half", "half", "1", "1", "", "canary") + `]`, "",
			`{"seats":` + hash("seats", "3") + `,"email":"ada@example.com","since":` + hash("since", `"2026-01-31T10:00:00.25Z"`) + `}`,
		},
		{
			"/v1/remoteconfigs", "quiet", `{"email":"` + strings.Repeat("a", 260) + `"}`, "match", "", "", "",
			`{"email":` + hash("email", strings.Repeat("a", 260)) + `}`,
		},
		{
			"/v1/prompts", "reply", `{"environment":"production","plan":"pro","user":"ada","customer":17}`, "split", "nl",
			`[` + passed + `,` + colour + `,` + banner + `,` + split("prompts/reply", "half", "half", "nl", "0.5", "user", "ada") + `]`,
			`{"remoteconfigs/banner":"` + versions["banner"] + `","remoteconfigs/colour":"` + versions["colour"] + `"}`,
			`{"environment":"production","plan":"pro","user":` + hash("user", "ada") + `,"customer":17}`,
		},
		{
			"/v1/prompts", "reply", `{"locale":"nl","user":"ada"}`, "match", "nl",
			`[` + split("prompts/reply", "half", "half", "", decidingArms["prompts/reply half"], "user", "ada") + `]`, "",
			`{"locale":` + hash("locale", "nl") + `,"user":` + hash("user", "ada") + `}`,
		},
		{
			"/v1/endpoints", "chat", `{"environment":"production","plan":"pro","user":"ada","customer":17}`, "split", "nl",
			`[` + passed + `,` + colour + `,` + banner + `,` + split("prompts/reply", "half", "half", "nl", "0.5", "user", "ada") + `]`,
			`{"remoteconfigs/banner":"` + versions["banner"] + `","remoteconfigs/colour":"` + versions["colour"] + `"}`,
			`{"environment":"production","plan":"pro","user":` + hash("user", "ada") + `,"customer":17}`,
		},
		{"/v1/prompts", "limited", `{}`, "no_context", "limited", "", readColour, ""},
		{
			"/v1/prompts", "limited", `{"plan":"pro","user":"ada"}`, "default", "limited",
			`[` + passed + `,` + colour + `]`, readColour, `{"plan":"pro","user":` + hash("user", "ada") + `}`,
		},
		{
			"/v1/endpoints", "varied", `{"plan":"pro","user":"ada","seats":200}`, "default", "limited",
			`[` + eager + `,` + passed + `,` + colour + `]`, readColour,
			`{"plan":"pro","seats":` + hash("seats", "200") + `,"user":` + hash("user", "ada") + `}`,
		},
	} {
		t.Run(test.key+" in "+test.context[:min(60, len(test.context))], func(t *testing.T) {
			r := g.decided(t, test.path, test.key, test.context)
			if r.Reason != test.reason || r.Arm != test.arm {
				t.Errorf("%s, arm %q, want %s, arm %q", r.Reason, r.Arm, test.reason, test.arm)
			}
			for name, pair := range map[string][2]string{
				"splits": {string(r.Splits), test.splits}, "read": {string(r.Read), test.read}, "inputs": {string(r.Inputs), test.inputs},
			} {
				if pair[0] != pair[1] {
					t.Errorf("%s\n%s, want\n%s", name, pair[0], pair[1])
				}
			}
		})
	}
}

// TestCachedDecisionsAreRecordedAlike checks that a decision from the cache has the same
// record as an evaluated one.
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
		cached.ID, cached.Decision, cached.Time, cached.Latency, cached.Seal = first.ID, first.Decision, first.Time, first.Latency, first.Seal
		if got, want := string(cached.AppendJSON(nil)), string(first.AppendJSON(nil)); got != want {
			t.Errorf("%s: cached\n%s\nevaluated\n%s", user, got, want)
		}
		if want := map[string]string{"half-1": "split", "u3-1": "match", "else": "default"}[user]; first.Reason != want {
			t.Errorf("%s: %s, want %s", user, first.Reason, want)
		}
	}
}

// TestInstantOfADecision checks that tables use the instant in the trace, so that a
// decision that reads the time can be repeated.
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

// TestEvidenceOfEachKey checks that each trace of one request has its own evidence.
func TestEvidenceOfEachKey(t *testing.T) {
	t.Parallel()
	g := startGateway(t, decidingFiles(), options)
	const context = `{"environment":"production","plan":"pro","user":"ada","customer":17,"locale":"nl","seats":3}`
	alone := make(map[string]string)
	evidence := func(r *trace.Record) string { return fmt.Sprintf("%s %s %s", r.Splits, r.Read, r.Inputs) }
	for _, key := range []string{"banner", "limits", "colour"} {
		alone[key] = evidence(g.decided(t, "/v1/remoteconfigs", key, context))
	}
	alone["limited"] = evidence(g.decided(t, "/v1/prompts", "limited", context))
	ids := idsOf(t, g.post("/v1/remoteconfigs", `{"keys":["banner","limits","colour"],"context":`+context+`}`))
	ids["limited"] = idsOf(t, g.post("/v1/prompts", `{"keys":["hello","limited","reply"],"context":`+context+`,"variables":{"question":"?"}}`))["limited"]
	alone["varied"] = evidence(g.decided(t, "/v1/endpoints", "varied", context))
	a := g.post("/v1/endpoints", `{"key":"varied","remoteconfigs":["banner","limits"],"context":`+context+`}`)
	ids["varied"] = a.header.Get("Cadenza-Trace-Id")
	for key, value := range a.json(t)["remoteconfigs"].(map[string]any) {
		if got := evidence(g.ended(t, value.(map[string]any)["trace_id"].(string))); got != alone[key] {
			t.Errorf("%s beside an endpoint: %s, want %s", key, got, alone[key])
		}
	}
	for key, want := range alone {
		if got := evidence(g.ended(t, ids[key])); got != want {
			t.Errorf("%s beside others: %s, want %s", key, got, want)
		}
	}
	if alone["limits"] == alone["colour"] || strings.Contains(alone["limits"], "bucket") {
		t.Errorf("limits: %s", alone["limits"])
	}
}

// TestEvidenceOfCalls checks that the trace of a running call has the evidence, also
// after the call broke off, and that each call that shares an answer has it.
func TestEvidenceOfCalls(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(text), "break") {
			<-release
			completion(w, "the answer")
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, chunk("half of", ""))
		w.(http.Flusher).Flush()
		<-release
	})
	files := decidingFiles()
	files["definitions/endpoints/chat.yaml"] = "prompt: reply\nmax_attempts: 1\ncache: { ttl: 1h }\n"
	g := startGateway(t, files, all(fakeProvider(u.URL), withTraceKey))
	body := func(user, question string, stream bool) string {
		return fmt.Sprintf(`{"key":"chat","stream":%t,"context":{"environment":"production","plan":"pro","customer":17,"user":%q},"variables":{"question":%q}}`, stream, user, question)
	}
	check := func(r *trace.Record, user string) {
		t.Helper()
		if r.Reason != "split" || r.Row != "half" || r.Arm != "nl" || r.Decision.IsZero() || len(r.Read) == 0 ||
			!strings.HasSuffix(string(r.Splits), splitOf(t, "prompts/reply", "half", "half", "nl", "0.5", "user", user)+"]") ||
			!strings.Contains(string(r.Inputs), `"user":{"hash":"`+hashOf(t, "user", user)+`"}`) {
			t.Errorf("%s: %s", user, r.AppendJSON(nil))
		}
	}
	response, err := g.send(t.Context(), "POST", "/v1/endpoints", body("ada", "break", true), bearer(testKey))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	id := response.Header.Get("Cadenza-Trace-Id")
	begun, ok := g.running(id)
	if !ok {
		t.Fatal("the call is not under way")
	}
	if begun.State != trace.StateStarted {
		t.Errorf("%s", begun.State)
	}
	check(begun, "ada")

	users := []string{"ada", "eve", "tom", "kim"} // all get the same variant
	answers := make(chan answer)
	for _, user := range users {
		go func() { answers <- g.post("/v1/endpoints", body(user, "shared", false)) }()
	}
	eventually(t, "the shared question is asked", func() bool { return u.Calls.Load() == 2 })
	close(release)
	_, _ = io.Copy(io.Discard, response.Body)
	broken := g.ended(t, id)
	if broken.Code != "upstream_interrupted" || string(broken.Splits) != string(begun.Splits) || string(broken.Inputs) != string(begun.Inputs) {
		t.Errorf("%s", broken.AppendJSON(nil))
	}
	check(broken, "ada")
	byUnit := make(map[string]*trace.Record)
	for range users {
		a := <-answers
		if a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
		r := g.ended(t, a.header.Get("Cadenza-Trace-Id"))
		byUnit[string(r.Inputs)] = r
		for _, user := range users {
			if strings.Contains(string(r.Inputs), hashOf(t, "user", user)) {
				check(r, user)
			}
		}
	}
	if len(byUnit) != len(users) || u.Calls.Load() != 2 {
		t.Errorf("%d units, %d calls", len(byUnit), u.Calls.Load())
	}
}
