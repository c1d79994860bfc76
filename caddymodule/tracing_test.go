package caddymodule_test

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// span is a received span.
type span struct {
	*otlp.Span
	schema string // of its scope
}

// attributes returns attributes as texts, by their names.
func attributes(list []*common.KeyValue) map[string]string {
	all := make(map[string]string)
	for _, a := range list {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			all[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			all[a.Key] = fmt.Sprint(v.IntValue)
		case *common.AnyValue_DoubleValue:
			all[a.Key] = fmt.Sprint(v.DoubleValue)
		case *common.AnyValue_BoolValue:
			all[a.Key] = fmt.Sprint(v.BoolValue)
		case *common.AnyValue_ArrayValue:
			for _, one := range v.ArrayValue.Values {
				all[a.Key] += one.GetStringValue() + ";"
			}
		}
	}
	return all
}

func (s *span) id() string { return hex.EncodeToString(s.SpanId) }

// check compares attributes of the span. An empty text means that it is absent.
func (s *span) check(t *testing.T, want map[string]string) {
	t.Helper()
	got := attributes(s.Attributes)
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: %s is %q, want %q", s.Name, name, got[name], value)
		}
	}
}

// events returns the attributes of the span's events with a name.
func (s *span) events(name string) (all []map[string]string) {
	for _, e := range s.Span.Events {
		if e.Name == name {
			all = append(all, attributes(e.Attributes))
		}
	}
	return all
}

// receiver is an OTLP receiver.
type receiver struct {
	mu    sync.Mutex
	spans []span
}

// startReceiver starts a receiver, and makes Caddy's `tracing` send spans to it.
func startReceiver(t *testing.T) *receiver {
	r := new(receiver)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		var sent collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &sent); err != nil || request.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", request.URL.Path, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, resource := range sent.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				for _, s := range scope.Spans {
					r.spans = append(r.spans, span{s, scope.SchemaUrl})
				}
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10") // ms
	return r
}

// spansOf waits for the request's span, which ends last, and returns the spans of a distributed
// trace in the order of their start.
func (r *receiver) spansOf(t *testing.T, traceID string) (server span, others []span) {
	t.Helper()
	eventually(t, "the request's span has come", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		others = nil
		for _, s := range r.spans {
			switch {
			case hex.EncodeToString(s.TraceId) != traceID:
			case s.Kind == otlp.Span_SPAN_KIND_SERVER:
				server = s
			default:
				others = append(others, s)
			}
		}
		return server.Span != nil
	})
	for n := range others {
		if hex.EncodeToString(others[n].ParentSpanId) != server.id() {
			t.Errorf("%s is no child of the request's span", others[n].Name)
		}
		if others[n].schema != "https://opentelemetry.io/schemas/1.41.0" {
			t.Errorf("%s has the schema %q", others[n].Name, others[n].schema)
		}
		if others[n].EndTimeUnixNano < others[n].StartTimeUnixNano || others[n].EndTimeUnixNano > server.EndTimeUnixNano+1e6 {
			t.Errorf("%s: from %d to %d, of a request until %d", others[n].Name, others[n].StartTimeUnixNano, others[n].EndTimeUnixNano, server.EndTimeUnixNano)
		}
	}
	return server, others
}

// tracing adds Caddy's tracing to the tests' site.
func (g *gateway) tracing(options string) string {
	return strings.Replace(g.caddyfile(options), "\tcadenza\n}", "\ttracing\n\tcadenza\n}", 1)
}

// Trace contexts of a caller. The second one is not sampled.
const (
	tracedID, sampledOutID = "0af7651916cd43dd8448eb211c80319c", "5bd66ef5095369c7b0d1f8f4bd33716a"
	tracedCaller           = "00-" + tracedID + "-b7ad6b7169203331-01"
	sampledOutCaller       = "00-" + sampledOutID + "-b7ad6b7169203331-00"
)

// postTraced sends a request as a part of a caller's trace.
func (g *gateway) postTraced(parent, path, body string) answer {
	g.t.Helper()
	return g.do(http.MethodPost, path, body, http.Header{
		"Authorization": {"Bearer " + testKey}, "Traceparent": {parent}, "Tracestate": {"vendor=state"}, "Baggage": {"customer=c-1"},
	})
}

// heard records the trace context headers that an upstream got.
type heard struct {
	mu      sync.Mutex
	parents []string
	others  []string
}

// add records a request, and returns the number of earlier ones.
func (h *heard) add(r *http.Request) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.parents = append(h.parents, r.Header.Get("Traceparent"))
	h.others = append(h.others, r.Header.Get("Tracestate")+r.Header.Get("Baggage"))
	return len(h.parents) - 1
}

// clear deletes the recorded headers.
func (h *heard) clear() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.parents, h.others = nil, nil
}

func id(n int) string { return fmt.Sprintf("%032x", n+1) }

func TestTracing(t *testing.T) {
	r := startReceiver(t)
	var h heard
	next := make(chan struct{})
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, request *http.Request) {
		before := h.add(request)
		body, _ := io.ReadAll(request.Body)
		switch {
		case strings.Contains(string(body), "cut once") && before == 0:
			panic(http.ErrAbortHandler)
		case strings.Contains(string(body), "refuse"):
			w.WriteHeader(http.StatusServiceUnavailable)
		case strings.Contains(string(body), `"stream":true`):
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, chunk("before", ""))
			w.(http.Flusher).Flush()
			select {
			case <-next:
				io.WriteString(w, chunk(" after", "stop")+"data: [DONE]\n\n")
			case <-request.Context().Done():
			}
		default:
			gatewaytest.Completion(w, "Hello.")
		}
	})
	files := gatewaytest.EndpointWith("retry: { count: 1 }\nfallback: [ { provider: canned, extra: { answer: one } } ]\n")
	files["definitions/endpoints/open.yaml"] = "prompt: reply\nlog: content\n"
	g := startGateway(t, files, fakeProvider(u.URL))
	if a := g.postTraced(tracedCaller, "/v1/endpoints", ask("plain?", false)); a.status != http.StatusOK || h.parents[0] != "" || h.others[0] != "" {
		t.Errorf("without tracing: %d, the upstream got %q and %q", a.status, h.parents, h.others)
	}
	if err := g.loadText(g.tracing(fakeProvider(u.URL))); err != nil {
		t.Fatal(err)
	}
	parent := func(s *span) string { return "00-" + hex.EncodeToString(s.TraceId) + "-" + s.id() + "-01" }
	n := 0
	call := func(path, body string) (answer, string) {
		t.Helper()
		n++
		h.clear()
		return g.postTraced("00-"+id(n)+"-b7ad6b7169203331-01", path, body), id(n)
	}

	t.Run("a call", func(t *testing.T) {
		a, trace := call("/v1/endpoints", `{"key":"chat","context":{"locale":"nl-BE"},"remoteconfigs":["limits"],`+question+`}`)
		_, spans := r.spansOf(t, trace)
		if a.status != http.StatusOK || len(spans) != 2 || spans[0].Name != "cadenza.decide" || spans[1].Name != "chat small" {
			t.Fatalf("%d, spans %v", a.status, spans)
		}
		if len(h.parents) != 1 || h.parents[0] != parent(&spans[1]) || h.others[0] != "vendor=state" {
			t.Errorf("the upstream got %q and %q", h.parents, h.others)
		}
		traceID := a.json(t)["trace_id"].(string)
		spans[0].check(t, map[string]string{
			"cadenza.workspace": "default", "cadenza.route": "endpoints",
			"cadenza.decision_id": a.header.Get("Cadenza-Decision-Id"), "cadenza.revision": a.header.Get("Cadenza-Revision"),
		})
		evaluated := spans[0].events("feature_flag.evaluation")
		if len(evaluated) != 2 || evaluated[0]["feature_flag.key"] != "reply" || evaluated[0]["feature_flag.result.variant"] != "nl" || evaluated[0]["feature_flag.result.reason"] != "targeting_match" ||
			evaluated[0]["cadenza.row"] != "row 1" || evaluated[0]["cadenza.trace_id"] != traceID || evaluated[0]["feature_flag.provider.name"] != "Cadenza" {
			t.Errorf("%v", evaluated)
		}
		entry := a.json(t)["remoteconfigs"].(map[string]any)["limits"].(map[string]any)
		if len(evaluated) == 2 && (evaluated[1]["feature_flag.key"] != "limits" || evaluated[1]["cadenza.trace_id"] != entry["trace_id"] || evaluated[1]["feature_flag.result.variant"] != "default") {
			t.Errorf("%v, answered %v", evaluated[1], entry)
		}
		if spans[1].Kind != otlp.Span_SPAN_KIND_CLIENT || spans[1].Status.GetCode() != otlp.Status_STATUS_CODE_UNSET {
			t.Errorf("kind %v, status %v", spans[1].Kind, spans[1].Status)
		}
		host, port, _ := strings.Cut(strings.TrimPrefix(u.URL, "http://"), ":")
		spans[1].check(t, map[string]string{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "fake", "gen_ai.request.model": "small", "gen_ai.request.stream": "false",
			"gen_ai.request.max_tokens": "400", "gen_ai.request.temperature": "0.2", "gen_ai.prompt.name": "reply",
			"gen_ai.response.model": "small-1", "gen_ai.response.finish_reasons": "stop;", "gen_ai.usage.input_tokens": "7", "gen_ai.usage.output_tokens": "3",
			"server.address": host, "server.port": port, "http.response.status_code": "200", "error.type": "",
			"cadenza.key": "chat", "cadenza.trace_id": traceID, "cadenza.attempt.cause": "",
			"gen_ai.input.messages": "", "gen_ai.output.messages": "",
		})
	})

	t.Run("retry and fallback", func(t *testing.T) {
		a, trace := call("/v1/endpoints", ask("refuse", false))
		_, spans := r.spansOf(t, trace)
		if a.status != http.StatusOK || len(spans) != 4 || len(h.parents) != 2 || h.parents[0] != parent(&spans[1]) || h.parents[1] != parent(&spans[2]) {
			t.Fatalf("%d, spans %v, the upstream got %q", a.status, spans, h.parents)
		}
		spans[1].check(t, map[string]string{"error.type": "transient", "http.response.status_code": "503", "cadenza.attempt.cause": ""})
		spans[2].check(t, map[string]string{"error.type": "transient", "cadenza.attempt.cause": "retry"})
		spans[3].check(t, map[string]string{"error.type": "", "gen_ai.provider.name": "canned", "cadenza.attempt.cause": "fallback", "server.address": ""})
		if spans[1].Status.GetCode() != otlp.Status_STATUS_CODE_ERROR || spans[1].Status.Message == "" {
			t.Errorf("the status of a failed attempt: %v", spans[1].Status)
		}
	})

	t.Run("a repeat of the HTTP client", func(t *testing.T) {
		a, trace := call("/v1/endpoints", ask("cut once", false))
		_, spans := r.spansOf(t, trace)
		if a.status != http.StatusOK || len(spans) != 3 || len(h.parents) != 2 || h.parents[0] != parent(&spans[1]) || h.parents[1] != parent(&spans[2]) {
			t.Fatalf("%d, spans %v, the upstream got %q", a.status, spans, h.parents)
		}
		spans[1].check(t, map[string]string{"error.type": "connect"})
		spans[2].check(t, map[string]string{"error.type": "", "cadenza.attempt.cause": "retry"})
	})

	t.Run("sampled out", func(t *testing.T) {
		h.clear()
		a := g.postTraced(sampledOutCaller, "/v1/endpoints", ask("hidden?", false))
		if a.status != http.StatusOK || len(h.parents) != 1 || !strings.HasPrefix(h.parents[0], "00-"+sampledOutID+"-") || !strings.HasSuffix(h.parents[0], "-00") {
			t.Errorf("%d, the upstream got %q", a.status, h.parents)
		}
		_, trace := call("/v1/prompts", `{"keys":["hello"]}`)
		r.spansOf(t, trace)
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, s := range r.spans {
			if hex.EncodeToString(s.TraceId) == sampledOutID {
				t.Errorf("a span of a request that is sampled out: %v", s)
			}
		}
	})

	t.Run("content", func(t *testing.T) {
		_, trace := call("/v1/endpoints", strings.Replace(ask("my key is "+testKey, false), `"chat"`, `"open"`, 1))
		_, spans := r.spansOf(t, trace)
		spans[len(spans)-1].check(t, map[string]string{
			"gen_ai.input.messages":  `[{"role":"system","parts":[{"type":"text","content":"You answer for Acme."}]},{"role":"user","parts":[{"type":"text","content":"my key is [redacted:api_key]"}]}]`,
			"gen_ai.output.messages": `[{"role":"assistant","parts":[{"type":"text","content":"Hello."}],"finish_reason":"stop"}]`,
		})
	})

	t.Run("keys and a report", func(t *testing.T) {
		a, trace := call("/v1/decisions", `{"prompts":["hello"],"remoteconfigs":["checkout","limits"],"context":{"tags":"employee"}}`)
		_, spans := r.spansOf(t, trace)
		if len(spans) != 1 || len(spans[0].events("feature_flag.evaluation")) != 3 {
			t.Fatalf("%v", spans)
		}
		configs := a.json(t)["remoteconfigs"].(map[string]any)
		checkout := spans[0].events("feature_flag.evaluation")[1]
		if checkout["feature_flag.key"] != "checkout" || checkout["feature_flag.result.variant"] != "staff" || checkout["cadenza.kind"] != "remoteconfig" ||
			checkout["cadenza.trace_id"] != configs["checkout"].(map[string]any)["trace_id"] {
			t.Errorf("%v", checkout)
		}
		decision := a.header.Get("Cadenza-Decision-Id")
		_, trace = call("/v1/metrics", `{"decision_id":"`+decision+`","score":90,"values":{"helpful":0.5}}`)
		server, spans := r.spansOf(t, trace)
		scores := server.events("gen_ai.evaluation.result")
		if len(spans) != 0 || len(scores) != 2 || scores[0]["gen_ai.evaluation.name"] != "score" || scores[0]["gen_ai.evaluation.score.value"] != "90" ||
			scores[1]["gen_ai.evaluation.name"] != "helpful" || scores[1]["cadenza.decision_id"] != decision {
			t.Errorf("%v, %v", spans, scores)
		}
	})

	t.Run("streams", func(t *testing.T) {
		open := func() (*http.Response, *bufio.Reader, context.CancelFunc) {
			t.Helper()
			n++
			h.clear()
			ctx, cancel := context.WithCancel(t.Context())
			response, err := g.send(ctx, "POST", "/v1/endpoints", ask("q?", true), http.Header{
				"Authorization": {"Bearer " + testKey}, "Traceparent": {"00-" + id(n) + "-b7ad6b7169203331-01"},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { response.Body.Close() })
			reader := bufio.NewReader(response.Body)
			if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "before") {
				t.Fatalf("%q, %v", line, err)
			}
			return response, reader, cancel
		}
		// The caller leaves.
		_, _, cancel := open()
		cancel()
		_, spans := r.spansOf(t, id(n))
		if len(spans) != 2 || spans[1].Status.GetCode() != otlp.Status_STATUS_CODE_UNSET {
			t.Fatalf("%v", spans)
		}
		spans[1].check(t, map[string]string{"error.type": "client_gone", "gen_ai.request.stream": "true"})

		// Caddy reloads its configuration.
		_, reader, cancel := open()
		defer cancel()
		if err := g.loadText(g.tracing(fakeProvider(u.URL) + "max_body_size 10KiB\n")); err != nil {
			t.Fatal(err)
		}
		close(next)
		if rest := events(t, reader); rest[len(rest)-1] != "[DONE]" {
			t.Errorf("the rest of the stream is %q", rest)
		}
		_, spans = r.spansOf(t, id(n))
		if len(spans) != 2 || h.parents[0] != parent(&spans[1]) {
			t.Fatalf("%v", spans)
		}
		spans[1].check(t, map[string]string{"error.type": "", "gen_ai.response.finish_reasons": "stop;"})
		if attributes(spans[1].Attributes)["gen_ai.response.time_to_first_chunk"] == "" {
			t.Error("the span of a stream has no time to its first chunk")
		}
	})
}
