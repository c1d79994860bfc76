package gateway_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/providers"
)

// spansOf makes a request with a recording span, and returns the other spans that ended,
// in the order in which they ended.
func (g *gateway) spansOf(path, body string) []sdk.ReadOnlySpan {
	g.t.Helper()
	recorder := tracetest.NewSpanRecorder()
	ctx, span := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder)).Tracer("test").Start(g.t.Context(), "request")
	request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)).WithContext(ctx)
	request.Header.Set("Authorization", "Bearer "+testKey)
	func() {
		defer func() { _ = recover() }() // a cut stream panics
		g.serve(&discard{header: make(http.Header)}, request)
	}()
	ended := recorder.Ended()
	span.End()
	return ended
}

// attributeOf returns an attribute of a span as text.
func attributeOf(span sdk.ReadOnlySpan, name attribute.Key) string {
	for _, a := range span.Attributes() {
		if a.Key == name {
			return a.Value.String()
		}
	}
	return ""
}

// TestSpansOfAHedge checks that an attempt that lost is no failure of its provider, and
// that a retry that was not made has no span.
func TestSpansOfAHedge(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(call int64, w http.ResponseWriter, r *http.Request) {
		if call == 1 {
			w.Header().Set("Retry-After", "5")
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		_, _ = new(bytes.Buffer).ReadFrom(r.Body) // otherwise the server does not notice that the client leaves
		<-r.Context().Done()
	})
	g := startGateway(t, endpointWith("retry: { count: 1 }\nhedge: { after: 2s }\nfallback: [ { provider: canned, extra: { answer: fine } } ]\n"), fakeProvider(u.URL))
	for _, first := range []string{"rate_limit", "superseded"} {
		if first == "superseded" {
			g.memory["default"] = nil // the target cools down
			g.load(fakeProvider(u.URL))
		}
		spans := g.spansOf("/v1/endpoints", ask("q?", false))
		if len(spans) != 3 || spans[0].Name() != "cadenza.decide" {
			t.Fatalf("%s: %v", first, spans)
		}
		if got := attributeOf(spans[1], "error.type"); got != first || (spans[1].Status().Code == codes.Error) != (first == "rate_limit") {
			t.Errorf("%s: error.type %s, %v", first, got, spans[1].Status())
		}
		if got := attributeOf(spans[2], "cadenza.attempt.cause"); got != "hedge" || attributeOf(spans[2], "error.type") != "" || attributeOf(spans[2], "gen_ai.response.finish_reasons") != `["stop"]` {
			t.Errorf("%s: the hedge has %v", first, spans[2].Attributes())
		}
	}
}

// TestSpansOfAPanic checks that a provider's panic ends its span.
func TestSpansOfAPanic(t *testing.T) {
	t.Parallel()
	files := single()
	files["definitions/prompts/now.yaml"] = "provider: faulty\nmodel: now\nmessages: [ { role: user, content: hello } ]\n"
	files["definitions/endpoints/now.yaml"] = "prompt: now\nmax_attempts: 1\n"
	g := startGateway(t, files, withProvider("faulty", panicking{}))
	spans := g.spansOf("/v1/endpoints", `{"key":"now"}`)
	if len(spans) != 2 || spans[1].Name() != "chat now" || attributeOf(spans[1], "error.type") != "internal" || spans[1].Status().Code != codes.Error {
		t.Fatalf("%d spans: %s, %v", len(spans), attributeOf(spans[1], "error.type"), spans[1].Status())
	}
}

// TestSpanOfAnEndpointWithATable checks that the decisions of the endpoint and of its
// prompt are two events.
func TestSpanOfAnEndpointWithATable(t *testing.T) {
	t.Parallel()
	files := endpointWith("")
	files["definitions/endpoints/chat.yaml"] = "prompt: reply\ndefault: usual\nvariants: { usual: {}, patient: { timeout: { total: 20s } } }\ncolumns: [ plan, value ]\nmatrix: [ [ pro, patient ] ]\n"
	g := startGateway(t, files)
	spans := g.spansOf("/v1/endpoints", `{"key":"chat","context":{"plan":"pro"},`+question+`}`)
	if len(spans) != 1 || len(spans[0].Events()) != 2 {
		t.Fatalf("%v", spans)
	}
	for n, want := range []string{"prompt reply en default", "endpoint chat patient targeting_match"} {
		has := make(map[attribute.Key]string)
		for _, a := range spans[0].Events()[n].Attributes {
			has[a.Key] = a.Value.String()
		}
		if got := has["cadenza.kind"] + " " + has["feature_flag.key"] + " " + has["feature_flag.result.variant"] + " " + has["feature_flag.result.reason"]; got != want {
			t.Errorf("event %d: %s, want %s", n, got, want)
		}
	}
}

// TestSpansOfProviders checks that a provider has the conventions' name, whatever its name
// in a Caddyfile.
func TestSpansOfProviders(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { completion(w, "Hello.") })
	for _, test := range [][2]string{{"azure", "azure.ai.openai"}, {"bedrock", "aws.bedrock"}, {"gemini", "gcp.gemini"}, {"mistral", "mistral_ai"}, {"xai", "x_ai"}, {"groq", "groq"}, {"anthropic", "anthropic"}, {"openai", "fake"}, {"", "fake"}} {
		g := startGateway(t, single(), fakeProvider(u.URL), with(func(c *gw.WorkspaceConfig) { c.Modules = map[string]string{"fake": test[0]} }))
		spans := g.spansOf("/v1/endpoints", ask("q?", false))
		if len(spans) != 2 || attributeOf(spans[1], "gen_ai.provider.name") != test[1] || attributeOf(spans[1], "cadenza.provider") != "fake" {
			t.Errorf("%s: %v", test[0], spans)
		}
	}
}

// TestContentOfSpans checks that messages have the conventions' form, that media are only
// named, and that long texts are cut between characters.
func TestContentOfSpans(t *testing.T) {
	t.Parallel()
	files := single()
	files["definitions/prompts/talk.yaml"] = "provider: fake\nmodel: small\nmessages: [ { history: true } ]\n"
	files["definitions/endpoints/chat.yaml"] = "prompt: talk\nlog: content\naccept: { history: true, tools: true }\n"
	g := startGateway(t, files, withProvider("fake", &scripted{content: "Hello.", result: providers.Result{
		FinishReason: providers.FinishToolCalls, ToolCalls: []providers.ToolCall{{ID: "c2", Name: "sit", Arguments: `{"on":1}`}},
	}}))
	long := strings.Repeat("ü", 20<<10) // bytes: twice that
	body := fmt.Sprintf(`{"key":"chat","messages":[
		{"role":"user","content":[{"type":"text","text":"what is this?"},{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]},
		{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}}]},
		{"role":"tool","tool_call_id":"c1","content":"a cat"},
		{"role":"user","content":"%s"},{"role":"user","content":"not any more"}]}`, long)
	spans := g.spansOf("/v1/endpoints", body)
	if len(spans) != 2 {
		t.Fatalf("%v", spans)
	}
	input, output := attributeOf(spans[1], "gen_ai.input.messages"), attributeOf(spans[1], "gen_ai.output.messages")
	if len(input) > 34<<10 || !strings.HasSuffix(input, `ü…"}]}]`) || strings.Contains(input, "\ufffd") || strings.Contains(input, "not any more") {
		t.Errorf("%d bytes, which end in %q", len(input), input[max(0, len(input)-40):])
	}
	for _, part := range []string{
		`{"role":"user","parts":[{"type":"text","content":"what is this?"},{"type":"image"}]}`,
		`{"type":"tool_call","id":"c1","name":"look","arguments":"{}"}`, `{"type":"tool_call_response","id":"c1","response":`,
	} {
		if !strings.Contains(input, part) {
			t.Errorf("no %s in %.900s", part, input)
		}
	}
	if want := `[{"role":"assistant","parts":[{"type":"text","content":"Hello."},{"type":"tool_call","id":"c2","name":"sit","arguments":"{\"on\":1}"}],"finish_reason":"tool_calls"}]`; output != want {
		t.Errorf("%s", output)
	}
}
