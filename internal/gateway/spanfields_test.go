package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/canned"
)

// textOf returns attributes as texts, by their names.
func textOf(list []attribute.KeyValue) map[attribute.Key]string {
	all := make(map[attribute.Key]string)
	for _, a := range list {
		all[a.Key] = a.Value.String()
	}
	return all
}

// checkSpan compares attributes of a span. An empty text means that it is absent.
func checkSpan(t *testing.T, span sdk.ReadOnlySpan, want map[attribute.Key]string) {
	t.Helper()
	got := textOf(span.Attributes())
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: %s is %q, want %q", span.Name(), name, got[name], value)
		}
	}
}

// allUsage has a different number for each kind of tokens.
var allUsage = providers.Usage{PromptTokens: 100, CompletionTokens: 20, CachedTokens: 30, CacheWriteTokens: 40, ReasoningTokens: 5, TotalTokens: 120}

// TestSpansSayWhatWasUsed checks that each kind of tokens has its attribute of the
// OpenTelemetry conventions, and that the provider's model name is redacted.
// https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/
func TestSpansSayWhatWasUsed(t *testing.T) {
	t.Parallel()
	files := single()
	files["definitions/prompts/reply.yaml"] = "provider: fake\nmodel: small\ntop_p: 0.25\ntemperature: 0.5\nmessages: [ { role: user, content: hi } ]\n"
	answers := &scripted{content: "hello", result: providers.Result{Model: "small of " + testKey, FinishReason: providers.FinishStop, Usage: allUsage}}
	prices := with(func(c *gw.WorkspaceConfig) {
		c.Prices = map[string]*price.Price{"small": {Prompt: 1000, Completion: 10_000}}
	})
	g := startGateway(t, files, withProvider("fake", public{answers, "llm.example:8443"}), prices)
	spans := g.spansOf("/v1/endpoints", ask("q?", false))
	if len(spans) != 2 {
		t.Fatalf("%v", spans)
	}
	checkSpan(t, spans[1], map[attribute.Key]string{
		"gen_ai.usage.input_tokens": "100", "gen_ai.usage.output_tokens": "20", "gen_ai.usage.cache_read.input_tokens": "30",
		"gen_ai.usage.cache_creation.input_tokens": "40", "gen_ai.usage.reasoning.output_tokens": "5",
		"cadenza.cost": "0.3", "cadenza.usage.estimated": "false", "gen_ai.response.model": "small of [redacted:api_key]",
		"gen_ai.request.top_p": "0.25", "gen_ai.request.temperature": "0.5", "gen_ai.request.max_tokens": "",
		"server.address": "llm.example", "server.port": "8443", "cadenza.attempt.wait": "",
	})

	answers.result.Usage = providers.Usage{}
	spans = g.spansOf("/v1/endpoints", ask("q?", false))
	checkSpan(t, spans[1], map[attribute.Key]string{"cadenza.usage.estimated": "true", "gen_ai.usage.reasoning.output_tokens": ""})
}

// noting records the time of its first read.
type noting struct {
	io.Reader
	at time.Time
}

func (n *noting) Read(p []byte) (int, error) {
	if n.at.IsZero() {
		n.at = time.Now()
	}
	return n.Reader.Read(p)
}

// TestTimesOfSpans checks that a decision begins with its request, that an attempt ends
// with its own answer and not with the call's, and that waits are in seconds.
func TestTimesOfSpans(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(call int64, w http.ResponseWriter, _ *http.Request) {
		if call == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, chunk("fine", "stop")+"data: [DONE]\n\n")
	})
	g := startGateway(t, endpointWith("retry: { count: 1 }\n"), fakeProvider(u.URL))
	recorder := tracetest.NewSpanRecorder()
	ctx, span := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("test").Start(t.Context(), "request")
	body := &noting{Reader: strings.NewReader(ask("q?", true))}
	request := httptest.NewRequest(http.MethodPost, "/v1/endpoints", body).WithContext(ctx)
	request.Header.Set("Authorization", "Bearer "+testKey)
	g.serve(&discard{header: make(http.Header)}, request)
	spans := recorder.Ended()
	span.End()
	if len(spans) != 3 {
		t.Fatalf("%v", spans)
	}
	if spans[0].StartTime().After(body.at) {
		t.Errorf("the decision began at %v, after the body was read at %v", spans[0].StartTime(), body.at)
	}
	pause := spans[2].StartTime().Sub(spans[1].EndTime())
	if pause < 0 {
		t.Errorf("the retry began %v before the attempt before it had ended", -pause)
	}
	wait, err := strconv.ParseFloat(attributeOf(spans[2], "cadenza.attempt.wait"), 64)
	if err != nil || wait <= 0 || wait > pause.Seconds()+0.001 {
		t.Errorf("a wait of %v s (%v), of %v between the attempts", wait, err, pause)
	}
	first, err := strconv.ParseFloat(attributeOf(spans[2], "gen_ai.response.time_to_first_chunk"), 64)
	if took := spans[2].EndTime().Sub(spans[2].StartTime()); err != nil || first <= 0 || first > took.Seconds()+0.001 {
		t.Errorf("the first chunk came after %v s (%v), of %v", first, err, took)
	}
}

// TestDecisionsInSpans checks that a decision's event has the version of its definition,
// the id of its trace and the conventions' word for the reason.
func TestDecisionsInSpans(t *testing.T) {
	t.Parallel()
	files := endpointWith("")
	files["definitions/endpoints/chat.yaml"] = "prompt: reply\ndefault: usual\nvariants: { usual: {}, patient: { timeout: { total: 20s } } }\ncolumns: [ plan, value ]\nmatrix: [ [ pro, patient ] ]\n"
	files["definitions/remoteconfigs/plain.yaml"] = "type: string\ndefault: one\n"
	files["definitions/remoteconfigs/shared.yaml"] = "type: string\ndefault: one\nrules:\n  - { id: half, split: { by: plan, of: [ { value: one, share: 50% }, { value: two, share: 50% } ] } }\n"
	g := startGateway(t, files)
	spans := g.spansOf("/v1/endpoints", `{"key":"chat","context":{"plan":"pro"},"remoteconfigs":["plain","shared"],`+question+`}`)
	if len(spans) != 1 || len(spans[0].Events()) != 4 {
		t.Fatalf("%v", spans)
	}
	snapshot := g.source.Snapshot()
	var ids []string
	for n, want := range []struct{ key, version, reason string }{
		{"reply", snapshot.Prompts["reply"].Version, "default"},
		{"chat", snapshot.Endpoints["chat"].Version, "targeting_match"},
		{"plain", snapshot.RemoteConfigs["plain"].Version, "static"},
		{"shared", snapshot.RemoteConfigs["shared"].Version, "split"},
	} {
		has := textOf(spans[0].Events()[n].Attributes)
		if has["feature_flag.key"] != want.key || has["feature_flag.version"] != want.version || has["feature_flag.result.reason"] != want.reason {
			t.Errorf("event %d: %v, want %v", n, has, want)
		}
		if _, has := has["cadenza.row"]; has != (want.reason == "targeting_match" || want.reason == "split") {
			t.Errorf("event %d, of %s: a row %t", n, want.key, has)
		}
		ids = append(ids, has["cadenza.trace_id"])
	}
	// The tables of a call have its trace; each configuration has its own.
	if ids[0] == "" || ids[1] != ids[0] || ids[2] == ids[0] || ids[3] == ids[2] {
		t.Errorf("trace ids %q", ids)
	}
}

// hosted is a provider that calls a host.
type hosted struct {
	*canned.Provider
	host string
}

func (h hosted) Host() string { return h.host }

// TestNamesOfProvidersInSpans checks that a module for several services has the name of
// the service that its provider is named after, and another module its own name.
func TestNamesOfProvidersInSpans(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ provider, module, host, name, span string }{
		{"mistral", "openai", "", "mistral_ai", "chat small"},
		{"mistral", "canned", "", "canned", "chat small"},
		{"gemini", "canned", "", "canned", "chat"},
		{"europe", "openai", "eu.api.openai.com:443", "openai", "chat small"},
	} {
		files := single()
		model := strings.TrimPrefix(test.span, "chat")
		files["definitions/prompts/named.yaml"] = "provider: " + test.provider + "\nextra: { answer: hi }\nmessages: [ { role: user, content: hello } ]\n"
		if model != "" {
			files["definitions/prompts/named.yaml"] += "model:" + model + "\n"
		}
		files["definitions/endpoints/named.yaml"] = "prompt: named\n"
		g := startGateway(t, files, withProvider(test.provider, hosted{&canned.Provider{}, test.host}), with(func(c *gw.WorkspaceConfig) { c.Modules = map[string]string{test.provider: test.module} }))
		spans := g.spansOf("/v1/endpoints", `{"key":"named"}`)
		if len(spans) != 2 || spans[1].Name() != test.span || attributeOf(spans[1], "gen_ai.provider.name") != test.name {
			t.Errorf("%s of %s: %v", test.provider, test.module, spans)
		}
	}
}

// TestSecretsInContentOfSpans checks that an answer is redacted like its record, and that
// the last failed attempt has its request and no answer.
func TestSecretsInContentOfSpans(t *testing.T) {
	t.Parallel()
	files := single()
	files["definitions/prompts/talk.yaml"] = "provider: fake\nmodel: small\nmessages: [ { history: true } ]\n"
	files["definitions/endpoints/chat.yaml"] = "prompt: talk\nlog: content\naccept: { history: true, tools: true }\nmax_attempts: 1\n"
	answers := &scripted{content: "Your key is " + testKey, result: providers.Result{
		FinishReason: providers.FinishToolCalls, ToolCalls: []providers.ToolCall{{ID: "c2", Name: "use", Arguments: `{"key":"` + testKey + `"}`}},
	}}
	g := startGateway(t, files, withProvider("fake", answers))
	const body = `{"key":"chat","messages":[{"role":"user","content":"one"},{"role":"assistant","content":"two"},{"role":"user","content":"three"}]}`
	const input = `[{"role":"user","parts":[{"type":"text","content":"one"}]},{"role":"assistant","parts":[{"type":"text","content":"two"}]},{"role":"user","parts":[{"type":"text","content":"three"}]}]`
	spans := g.spansOf("/v1/endpoints", body)
	checkSpan(t, spans[len(spans)-1], map[attribute.Key]string{
		"gen_ai.input.messages":  input,
		"gen_ai.output.messages": `[{"role":"assistant","parts":[{"type":"text","content":"Your key is [redacted:api_key]"},{"type":"tool_call","id":"c2","name":"use","arguments":"{\"key\":\"[redacted:api_key]\"}"}],"finish_reason":"tool_calls"}]`,
	})
	answers.fail = true
	spans = g.spansOf("/v1/endpoints", body)
	if spans[len(spans)-1].Status().Code != codes.Error {
		t.Fatal("the attempt did not fail")
	}
	checkSpan(t, spans[len(spans)-1], map[attribute.Key]string{"gen_ai.input.messages": input, "gen_ai.output.messages": ""})

	// Several texts share the space of one.
	long := strings.Repeat("x", 20<<10)
	spans = g.spansOf("/v1/endpoints", `{"key":"chat","messages":[{"role":"user","content":"`+long+`"},{"role":"user","content":"`+long+`"}]}`)
	if got := attributeOf(spans[len(spans)-1], "gen_ai.input.messages"); len(got) > 34<<10 || !strings.HasSuffix(got, `x…"}]}]`) {
		t.Errorf("%d bytes of messages", len(got))
	}
}
