package gateway_test

import (
	"net/http"
	"testing"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/limit"
)

// TestOrderOfWork sends a request with every possible mistake, and corrects one at a time:
// the answer always names the first remaining one. So an earlier, cheaper check saves the
// later work: the gateway reads no body for an unknown key, parses no JSON for a used-up
// limit, sets no tokens aside for a missing variable, and asks a model last.
func TestOrderOfWork(t *testing.T) {
	t.Parallel()
	const freeKey, consoleKey = "cadenza-free-key-0003", "cadenza-console-key-4"
	perKey := &limit.Limit{Name: "few", Ceilings: []limit.Ceiling{yearly(limit.Requests, 1)}}
	tokens := &limit.Limit{Name: "short", By: limit.ByWorkspace, Ceilings: []limit.Ceiling{yearly(limit.Tokens, 1)}}
	up := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { completion(w, "Hi") })
	g := startGateway(t, workspace, withLimits(perKey),
		withWorkspace("metered", map[string]string{"test": otherKey}), with(func(c *gw.WorkspaceConfig) {
			if c.Name == "metered" {
				c.CallLimits = []*limit.Limit{tokens}
			}
		}),
		withWorkspace("free", map[string]string{"console": consoleKey, "test": freeKey}),
		withAccess(map[string]gw.Access{"console": {Role: gw.RoleAdmin}}), fakeProvider(up.URL))
	if a := g.post("/v1/endpoints", "{"); a.status != http.StatusBadRequest { // it counts
		t.Fatal(a)
	}

	method, path, body := http.MethodGet, "/v1/nothing", `{`
	header := http.Header{"Cadenza-Log": {"loud"}, "Content-Encoding": {"gzip"}}
	for _, step := range []struct {
		code, param string
		mend        func()
	}{
		{"not_found", "", func() { path = "/v1/endpoints" }},
		{"method_not_allowed", "", func() { method = http.MethodPost }},
		{"invalid_api_key", "", func() { header.Set("Authorization", "Bearer "+consoleKey) }},
		{"key_not_allowed", "", func() { header.Set("Authorization", "Bearer "+testKey) }},
		{"rate_limited", "", func() { header.Set("Authorization", "Bearer "+otherKey) }},
		{"invalid_request", "Cadenza-Log", func() { header.Del("Cadenza-Log") }},
		{"unsupported_encoding", "", func() { header.Del("Content-Encoding") }},
		{"invalid_json", "", func() { body = `{"key":"nothing","metadata":3}` }},
		{"invalid_request", "metadata", func() { body = `{"key":"nothing"}` }},
		{"unknown_endpoint", "key", func() { body = `{"key":"chat"}` }},
		{"missing_variable", "variables.question", func() { body = `{"key":"chat",` + question + `}` }},
		{"rate_limited", "", func() { header.Set("Authorization", "Bearer "+freeKey) }},
	} {
		a := g.do(method, path, body, header)
		problem, _ := a.json(t)["error"].(map[string]any)
		param, _ := problem["param"].(string)
		if problem["code"] != step.code || param != step.param {
			t.Errorf("%s %q instead of %s %q: %s", problem["code"], param, step.code, step.param, a.body)
		}
		if n := up.Calls.Load(); n != 0 {
			t.Fatalf("%d calls of a model before %s", n, step.code)
		}
		step.mend()
	}
	if a := g.do(method, path, body, header); a.status != http.StatusOK || up.Calls.Load() != 1 {
		t.Errorf("%v after %d calls", a, up.Calls.Load())
	}
}
