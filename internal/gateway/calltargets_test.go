package gateway_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/openai"
)

// preparing is a provider that notes which requests it prepares and which of them
// come back.
type preparing struct {
	providers.Provider

	mu       sync.Mutex
	prepared []*providers.Request
	called   []*providers.Request // what came back with each call
}

func (p *preparing) PrepareRequests(req *providers.Request) (any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prepared = append(p.prepared, req)
	return req, nil
}

func (p *preparing) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	p.mu.Lock()
	prepared, _ := req.Prepared.(*providers.Request)
	p.called = append(p.called, prepared)
	p.mu.Unlock()
	return p.Provider.Invoke(ctx, req)
}

// TestRequestsArePrepared holds that calls of the same definitions share what their
// provider has prepared, and that those of the next definitions don't.
func TestRequestsArePrepared(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { completion(w, "fine") })
	provider := &preparing{Provider: openaiProvider(up.URL, openai.Quirks{})}
	g := startGateway(t, endpointWith("fallback: [ { provider: fake, model: other, temperature: 0.5 } ]\n"), withProvider("fake", provider))
	call := func() *providers.Request {
		t.Helper()
		if a := g.post("/v1/endpoints", `{"key":"chat",`+question+`}`); a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
		provider.mu.Lock()
		defer provider.mu.Unlock()
		return provider.called[len(provider.called)-1]
	}
	first := call()
	if first == nil || first.Model != "small" || len(first.Messages) > 0 {
		t.Fatalf("the request that was prepared is %+v", first)
	}
	times := len(provider.prepared)
	if other := provider.prepared[times-1]; other.Model != "other" || *other.Parameters.Temperature != 0.5 {
		t.Errorf("the fallback's request is %+v", other)
	}
	for range 3 {
		if call() != first {
			t.Error("another request was prepared for the same definitions")
		}
	}
	if len(provider.prepared) != times {
		t.Errorf("%d requests are prepared after the first call, %d after the last", times, len(provider.prepared))
	}
	g.write("definitions/endpoints/second.yaml", "prompt: reply\n")
	eventually(t, "the edit is served", g.said(`"added":["endpoint second"]`))
	if call() == first {
		t.Error("a request that was prepared outlives its definitions")
	}
}

// TestTargetsThatLackAParameter holds that a target which can't be called as
// definitions want it is logged when they load, once.
func TestTargetsThatLackAParameter(t *testing.T) {
	t.Parallel()
	files := sound()
	files["definitions/prompts/reply.yaml"] = strings.Replace(files["definitions/prompts/reply.yaml"], "    max_tokens: 400\n",
		"    max_tokens: 400\n    response_format: { json_schema: { name: n, schema: { type: object } } }\n", 1)
	files["definitions/endpoints/chat.yaml"] = "prompt: reply\nfallback:\n  - { provider: fake, model: m }\n  - { provider: fake, model: m, response_format: text }\n"
	g := startGateway(t, files, withProvider("fake", openaiProvider("http://127.0.0.1:9", openai.Quirks{NoJSONSchema: true})))
	const line = `"msg":"target lacks a parameter","provider":"fake","model":"m","endpoints":["chat"],"reason":"openai has no response_format json_schema"`
	for _, key := range []string{"first", "then"} { // the line comes after that of the edit
		g.write("definitions/remoteconfigs/"+key+".yaml", "type: string\ndefault: x\n")
		eventually(t, "an unrelated edit is served", g.said(`"added":["remoteconfig `+key+`"]`))
	}
	logs := string(g.logs.Bytes())
	if n := strings.Count(logs, line); n != 1 || strings.Count(logs, "target lacks a parameter") != 1 {
		t.Errorf("logged %d times:\n%s", n, logs)
	}
}
