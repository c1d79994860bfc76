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

// preparing is a provider that records which requests it prepares, and which prepared
// requests its calls get.
type preparing struct {
	providers.Provider

	mu       sync.Mutex
	prepared []*providers.Request
	called   []*providers.Request // the prepared request of each call
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

// TestRequestsArePrepared checks that calls of the same definitions share a prepared
// request, and that calls of the next definitions have another one.
func TestRequestsArePrepared(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { completion(w, "fine") })
	provider := &preparing{Provider: openaiProvider(up.URL, openai.Quirks{})}
	g := startGateway(t, endpointWith("fallback: [ { provider: fake, model: other, temperature: 0.5 } ]\n"), withProvider("fake", provider))
	call := func() *providers.Request {
		t.Helper()
		g.post("/v1/endpoints", `{"key":"chat",`+question+`}`).ok(t)
		provider.mu.Lock()
		defer provider.mu.Unlock()
		return provider.called[len(provider.called)-1]
	}
	// The watcher may load the files once more after it has begun.
	var first *providers.Request
	eventually(t, "the definitions stay", func() bool {
		served := g.source.Snapshot()
		first = call()
		times := len(provider.prepared)
		same := true
		for range 3 {
			same = call() == first && same
		}
		if g.source.Snapshot() != served {
			return false
		}
		if !same || len(provider.prepared) != times {
			t.Errorf("another request was prepared for the same definitions: %d after the first call, %d after the last", times, len(provider.prepared))
		}
		return true
	})
	if first == nil || first.Model != "small" || len(first.Messages) > 0 {
		t.Fatalf("the request that was prepared is %+v", first)
	}
	if other := provider.prepared[len(provider.prepared)-1]; other.Model != "other" || *other.Parameters.Temperature != 0.5 {
		t.Errorf("the fallback's request is %+v", other)
	}
	g.write("definitions/endpoints/second.yaml", "prompt: reply\n")
	eventually(t, "the edit is served", g.said(`"added":["endpoint second"]`))
	if call() == first {
		t.Error("a request that was prepared outlives its definitions")
	}
}

// TestTargetsThatLackAParameter checks that a target that lacks a parameter of the
// definitions is logged once, when they load.
func TestTargetsThatLackAParameter(t *testing.T) {
	t.Parallel()
	files := sound()
	files["definitions/prompts/reply.yaml"] = strings.Replace(files["definitions/prompts/reply.yaml"], "    max_tokens: 400\n",
		"    max_tokens: 400\n    response_format: { json_schema: { name: n, schema: { type: object } } }\n", 1)
	files["definitions/endpoints/chat.yaml"] = "prompt: reply\nfallback:\n  - { provider: fake, model: m }\n  - { provider: fake, model: m, response_format: text }\n"
	g := startGateway(t, files, withProvider("fake", openaiProvider("http://127.0.0.1:9", openai.Quirks{NoJSONSchema: true})))
	const line = `"msg":"target lacks a parameter","provider":"fake","model":"m","endpoints":["chat"],"reason":"openai has no response_format json_schema"`
	for _, key := range []string{"first", "then"} { // the line follows the edit's line
		g.write("definitions/remoteconfigs/"+key+".yaml", "type: string\ndefault: x\n")
		eventually(t, "an unrelated edit is served", g.said(`"added":["remoteconfig `+key+`"]`))
	}
	logs := string(g.logs.Bytes())
	if n := strings.Count(logs, line); n != 1 || strings.Count(logs, "target lacks a parameter") != 1 {
		t.Errorf("logged %d times:\n%s", n, logs)
	}
}
