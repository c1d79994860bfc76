package gateway_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/inspect"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/rules"
	"github.com/cadenza-gateway/cadenza/trace"
)

// selfAware returns definitions whose tables read the gateway's own fields.
func selfAware() map[string]string {
	files := endpointWith("default: large\nvariants:\n  large: { timeout: { total: 20s } }\n" +
		"  small: { weight: 0, fallback: [ { provider: canned, weight: 1, extra: { answer: small } } ] }\n" +
		"rules:\n  - { id: dear, when: { budget.daily: 80.. }, value: small }\nlog: metadata\n")
	files["definitions/endpoints/chat.yaml"] = strings.Replace(files["definitions/endpoints/chat.yaml"], "log: metadata\n", "", 1)
	files["definitions/prompts/greeting.yaml"] = "default: long\nvariants:\n  long: { messages: [ { role: user, content: A long greeting } ] }\n  short: { messages: [ { role: user, content: Hi } ] }\n" +
		"columns: [health.fake/small, value]\nmatrix: [[down, short]]\n"
	files["definitions/remoteconfigs/assistant.yaml"] = "type: boolean\ndefault: true\nrules:\n  - { id: off, when: { health.fake: down }, value: false }\n"
	files["definitions/remoteconfigs/share.yaml"] = "type: string\ndefault: unknown\nrules:\n  - { id: full, when: { budget.daily: 80.. }, value: full }\n  - { id: some, when: { budget.daily: present }, value: some }\n"
	return files
}

// withLimit configures a limit of requests. In these tests no request counts for it; the
// tests use it directly.
func withLimit(l *limit.Limit) setting {
	return with(func(c *gw.WorkspaceConfig) { c.CallLimits = append(c.CallLimits, l) })
}

// daily returns the limit of the tests.
func daily(by limit.By, window time.Duration) *limit.Limit {
	return &limit.Limit{
		Name: "daily", By: by, Member: "customer", Routes: []string{"metrics"},
		Ceilings: []limit.Ceiling{{Measure: limit.Requests, Most: 100, Window: limit.Window{Length: window}}},
	}
}

// use counts requests of a subject for a limit of 100 requests.
func (g *gateway) use(l *limit.Limit, subject string, requests int64) {
	g.t.Helper()
	reservation, refusal := g.store.Limiter().Reserve("default", time.Now(), []limit.Ask{{Limit: l, Subject: subject}}, limit.Amounts{limit.Requests: requests})
	if refusal != nil {
		g.t.Fatalf("refused: %+v", refusal)
	}
	reservation.Settle(time.Now(), limit.Amounts{limit.Requests: requests})
}

// decoys is a context that tries to set the gateway's fields, in every form.
const decoys = `{"budget.daily":100,"budget":{"daily":100},"budget.daily.":1,"health.fake":"down","health":{"fake":"down","fake/small":"down"},"health.fake/small":"down"}`

// A table selects a small model when most of a caller's budget is used, and the large one
// again when the window has ended.
func TestBudgetInTables(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { completion(w, "large") })
	l := daily(limit.ByAPIKey, year.Length)
	g := startGateway(t, selfAware(), fakeProvider(u.URL), withLimit(l))
	body := `{"key":"chat","context":` + decoys + `,` + question + `}`
	ask := func(body, want string) *trace.Record {
		t.Helper()
		a := g.post("/v1/endpoints", body)
		if a.status != http.StatusOK || a.json(t)["content"] != want {
			t.Fatalf("%d %s, want %s", a.status, a.body, want)
		}
		return variantOf(t, g, a)
	}
	record := ask(body, "large")
	if string(record.Inputs) != `{"budget.daily":0}` || record.EndpointVariant != "large" {
		t.Errorf("%s, variant %s", record.Inputs, record.EndpointVariant)
	}
	g.use(l, "other", 100)
	g.use(l, "test", 79)
	ask(body, "large")
	g.use(l, "test", 6)
	for context, reason := range map[string]string{decoys: "default", "{}": "no_context"} {
		record = ask(`{"key":"chat","context":`+context+`,`+question+`}`, "small")
		if string(record.Inputs) != `{"budget.daily":85}` || record.EndpointVariant != "small" || record.EndpointRow != "dear" || record.Reason != reason {
			t.Errorf("%s, variant %s by %s, reason %s", record.Inputs, record.EndpointVariant, record.EndpointRow, record.Reason)
		}
		if noted := slices.Contains(record.Notes, rules.NoteNoContext); noted != (context == "{}") {
			t.Errorf("%s: notes %v", context, record.Notes)
		}
		g.prove(record)
	}

	// The same with a window that ends.
	l = daily(limit.ByAPIKey, time.Second)
	g.load(fakeProvider(u.URL), withLimit(l))
	eventually(t, "the small model answers", func() bool {
		standings := g.store.Limiter().AppendStandings(nil, "default", time.Now(), limit.Ask{Limit: l, Subject: "test"})
		if share := standings[0].Share(); share < 85 {
			g.use(l, "test", int64(85-share))
		}
		a := g.post("/v1/endpoints", body)
		return a.status == http.StatusOK && a.json(t)["content"] == "small"
	})
	eventually(t, "the large model answers again", func() bool {
		a := g.post("/v1/endpoints", body)
		return a.status == http.StatusOK && a.json(t)["content"] == "large"
	})
}

// prove checks that the definitions decide as recorded, and that another share or health
// would not prove the record.
func (g *gateway) prove(record *trace.Record) {
	g.t.Helper()
	traced := new(inspect.Traced)
	if err := json.Unmarshal(record.AppendJSON(nil), traced); err != nil {
		g.t.Fatal(err)
	}
	if proof := inspect.Prove(g.source.Snapshot(), traced); proof.Result != inspect.Same {
		g.t.Errorf("%s", ofProof(proof))
	}
	traced.Inputs = json.RawMessage(strings.NewReplacer(":85", ":0", `"down"`, `"up"`).Replace(string(traced.Inputs)))
	if proof := inspect.Prove(g.source.Snapshot(), traced); proof.Result == inspect.Same {
		g.t.Errorf("%s is proved, too", traced.Inputs)
	}
}

// The subject of a budget is the request's subject. Without one, the field is missing.
func TestSubjectsOfBudgetsInTables(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		by      limit.By
		subject string
		path    string
		body    string
		want    string
	}{
		{limit.ByAPIKey, "test", "/v1/remoteconfigs", `{"keys":["share"]}`, "full"},
		{limit.ByAPIKey, "other", "/v2/remoteconfigs", `{"keys":["share"]}`, "some"},
		{limit.ByWorkspace, "", "/v2/remoteconfigs", `{"keys":["share"],"context":null}`, "full"},
		{limit.ByMetadata, "acme", "/v1/remoteconfigs", `{"keys":["share"],"metadata":{"customer":"acme"}}`, "full"},
		{limit.ByMetadata, "acme", "/v1/remoteconfigs", `{"keys":["share"],"metadata":{"customer":"other"}}`, "some"},
		{limit.ByMetadata, "acme", "/v1/remoteconfigs", `{"keys":["share"],"context":` + decoys + `}`, "unknown"},
		{limit.ByMetadata, "acme", "/v1/decisions", `{"remoteconfigs":["share"],"metadata":{"customer":"acme"}}`, "full"},
		{limit.ByMetadata, "acme", "/v1/endpoints", `{"key":"chat","remoteconfigs":["share"],"metadata":{"customer":"acme"},` + question + `}`, "full"},
		{limit.ByEndpoint, "chat", "/v1/endpoints", `{"key":"chat","remoteconfigs":["share"],` + question + `}`, "full"},
		{limit.ByEndpoint, "other", "/v1/endpoints", `{"key":"chat","remoteconfigs":["share"],` + question + `}`, "some"},
		{limit.ByEndpoint, "chat", "/v1/remoteconfigs", `{"keys":["share"]}`, "unknown"},
	} {
		l := daily(tt.by, year.Length)
		files := selfAware()
		files["definitions/prompts/reply.yaml"] = strings.Replace(files["definitions/prompts/reply.yaml"], "provider: fake\n    model: small", "provider: canned\n    extra: { answer: large }", 1)
		g := startGateway(t, files, withLimit(l))
		g.use(l, tt.subject, 90)
		a := g.post(tt.path, tt.body)
		answers := a.json(t)
		if under, ok := answers["remoteconfigs"].(map[string]any); ok {
			answers = under
		}
		if got, _ := answers["share"].(map[string]any); a.status != http.StatusOK || got["value"] != tt.want {
			t.Errorf("%s by %d of %s: %d %s", tt.path, tt.by, tt.subject, a.status, a.body)
		}
		if content, ok := a.json(t)["content"]; ok && content != map[string]string{"full": "small", "some": "large"}[tt.want] {
			t.Errorf("%s: %s", tt.body, content)
		}
	}
}

// While a provider cools down, a prompt is shorter and a feature is off, on any route and
// also without a context. Afterwards both are as before.
func TestHealthInTables(t *testing.T) {
	t.Parallel()
	var limited atomic.Pointer[string] // for how long; nil: it is not
	long, short := "60", "1"
	limited.Store(&long)
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		after := limited.Load()
		if after == nil {
			completion(w, "fine")
			return
		}
		w.Header().Set("Retry-After", *after)
		w.WriteHeader(http.StatusTooManyRequests)
	})
	files := selfAware()
	files["definitions/endpoints/chat.yaml"] = "prompt: reply\nretry: { count: 0 }\nfallback: [ { provider: canned, extra: { answer: fallback } } ]\n"
	g := startGateway(t, files, fakeProvider(u.URL))
	value := func(answers any, key string) string {
		member, _ := answers.(map[string]any)[key].(map[string]any)
		text, _ := json.Marshal(member["value"])
		return string(text)
	}
	all := func(context string) string {
		t.Helper()
		got := make(map[string]bool)
		ask := func(path, body string, read func(map[string]any) (prompt, config string)) {
			a := g.post(path, body).ok(t, path)
			prompt, config := read(a.json(t))
			said := "long"
			if !strings.Contains(prompt, "A long greeting") {
				said = "short"
			}
			if config == "" {
				config = map[string]string{"long": "true", "short": "false"}[said]
			}
			got[fmt.Sprint(said, " ", config)] = true
		}
		for _, version := range []string{"/v1", "/v2"} {
			ask(version+"/prompts", `{"keys":["greeting"],"context":`+context+`}`, func(a map[string]any) (string, string) { return value(a, "greeting"), "" })
			ask(version+"/remoteconfigs", `{"keys":["assistant"],"context":`+context+`}`, func(a map[string]any) (string, string) {
				on := value(a, "assistant")
				return map[string]string{"true": "A long greeting"}[on], on
			})
		}
		ask("/v1/decisions", `{"prompts":["greeting"],"remoteconfigs":["assistant"],"context":`+context+`}`, func(a map[string]any) (string, string) {
			return value(a["prompts"], "greeting"), value(a["remoteconfigs"], "assistant")
		})
		return strings.Join(slices.Sorted(maps.Keys(got)), ", ")
	}
	contexts := []string{"null", `{"plan":"free"}`, decoys}
	for _, context := range contexts {
		if got := all(context); got != "long true" {
			t.Errorf("at first: %s for %s", got, context)
		}
	}
	if a := g.post("/v1/endpoints", `{"key":"chat",`+question+`}`); a.json(t)["content"] != "fallback" {
		t.Fatalf("%s", a.body)
	}
	for _, context := range contexts {
		if got := all(context); got != "short false" {
			t.Errorf("left alone: %s for %s", got, context)
		}
	}
	record := variantOf(t, g, g.post("/v1/remoteconfigs", `{"keys":["assistant"]}`))
	if string(record.Inputs) != `{"health.fake":"down"}` || record.Reason != "match" || record.Row != "off" || !slices.Contains(record.Notes, rules.NoteNoContext) {
		t.Errorf("%s %s %s %v", record.Inputs, record.Reason, record.Row, record.Notes)
	}
	g.prove(record)

	// The same with a time that ends.
	limited.Store(&short)
	g.memory["default"] = nil // what is known of the target
	g.load(fakeProvider(u.URL))
	eventually(t, "left alone once more", func() bool {
		g.post("/v1/endpoints", `{"key":"chat",`+question+`}`).ok(t)
		return all("null") == "short false"
	})
	limited.Store(nil)
	eventually(t, "the provider is up again", func() bool { return all("null") == "long true" })
}

// An unavailable provider is down. A provider none of whose models is called has no health.
// If a provider has several models, one that answers is enough.
func TestHealthOfProviders(t *testing.T) {
	t.Parallel()
	files := selfAware()
	files["definitions/endpoints/chat.yaml"] = "prompt: reply\nfallback: [ { provider: fake, model: tall }, { provider: keyless, model: m }, { provider: canned, extra: { answer: x } } ]\nretry: { count: 0 }\n"
	names := []string{"health.fake", "health.fake/small", "health.fake/tall", "health.fake/none", "health.keyless", "health.keyless/m", "health.canned", "health.absent"}
	for i, name := range names {
		files[fmt.Sprintf("definitions/remoteconfigs/h%d.yaml", i)] = "type: string\ndefault: unknown\ncolumns: [" + name + ", value]\nmatrix: [[up, up], [down, down]]\n"
	}
	var broken atomic.Pointer[string]
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		var request struct{ Model string }
		if json.NewDecoder(r.Body).Decode(&request) != nil || strings.Contains(*broken.Load(), request.Model) {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		completion(w, "fine")
	})
	g := startGateway(t, files, fakeProvider(u.URL), withProvider("keyless", noKey{}))
	for _, step := range []struct{ broken, want string }{
		{"", "up up up unknown down down up unknown"},
		{"small", "up down up unknown down down up unknown"},
		{"small tall", "down down down unknown down down up unknown"},
	} {
		broken.Store(&step.broken)
		g.post("/v1/endpoints", `{"key":"chat",`+question+`}`)
		keys := make([]string, len(names))
		for i := range names {
			keys[i] = fmt.Sprintf(`"h%d"`, i)
		}
		answers := g.post("/v1/remoteconfigs", `{"keys":[`+strings.Join(keys, ",")+`]}`).json(t)
		var got []string
		for i := range names {
			got = append(got, answers[fmt.Sprintf("h%d", i)].(map[string]any)["value"].(string))
		}
		if text := strings.Join(got, " "); text != step.want {
			t.Errorf("%q: %s, want %s", step.broken, text, step.want)
		}
	}
}

// A table that reads these fields needs no allocation.
func BenchmarkGatewayFields(b *testing.B) {
	files := selfAware()
	l := daily(limit.ByAPIKey, year.Length)
	g := startGateway(b, files, withLimit(l), withProvider("fake", failing{}))
	g.use(l, "test", 90)
	g.post("/v1/endpoints", `{"key":"chat",`+question+`}`)
	known := g.current.Load().Workspace("default").Known("test")
	b.Run("budget", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if percent, ok := known.Budget("daily"); percent != 90 || !ok {
				b.Fatal(percent, ok)
			}
		}
	})
	b.Run("health", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if down, ok := known.Down("fake", ""); down || !ok {
				b.Fatal(down, ok)
			}
		}
	})
}

func TestGatewayFieldsAllocateNothing(t *testing.T) {
	l := daily(limit.ByAPIKey, year.Length)
	g := startGateway(t, selfAware(), withLimit(l), withProvider("fake", failing{}))
	g.use(l, "test", 90)
	known := g.current.Load().Workspace("default").Known("test")
	if n := testing.AllocsPerRun(100, func() {
		percent, _ := known.Budget("daily")
		down, _ := known.Down("fake", "small")
		if _, ok := known.Budget("none"); ok || percent != 90 || down {
			t.Error(ok, percent, down)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
