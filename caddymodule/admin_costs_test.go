package caddymodule_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAdminCosts asks a gateway for the costs of calls of an upstream with OpenAI's format.
func TestAdminCosts(t *testing.T) {
	upstream := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), `"broken"`) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		completion(w, "Hello.")
	})
	recorded := fakeProvider(upstream.URL) + "price small 1 2\n"
	g := startGateway(t, map[string]string{
		"definitions/context.yaml":          workspace["definitions/context.yaml"],
		"definitions/prompts/reply.yaml":    workspace["definitions/prompts/reply.yaml"],
		"definitions/prompts/draft.yaml":    strings.ReplaceAll(workspace["definitions/prompts/hello.yaml"], "model: small", "model: unheard-of"),
		"definitions/prompts/broken.yaml":   strings.ReplaceAll(workspace["definitions/prompts/hello.yaml"], "model: small", "model: broken"),
		"definitions/endpoints/chat.yaml":   "prompt: reply\n",
		"definitions/endpoints/safe.yaml":   "prompt: broken\nretry: { count: 0 }\nfallback: [{ provider: canned, extra: { answer: Later. } }]\n",
		"definitions/endpoints/draft.yaml":  "prompt: draft\n",
		"definitions/endpoints/secret.yaml": "prompt: reply\nlog: none\n",
	}, recorded)
	address := adminOf(t, g, recorded)
	for _, body := range []string{
		`{"key":"chat","metadata":{"customer":"acme"},"variables":{"question":"Hi?"}}`,
		`{"key":"chat","metadata":{"customer":7},"context":{"locale":"nl"},"variables":{"question":"Hoi?"}}`,
		`{"key":"draft","metadata":{"customer":"acme"}}`,
		`{"key":"secret","variables":{"question":"Hi?"}}`,
		`{"key":"safe","metadata":{"customer":"globex"}}`,
	} {
		g.post("/v1/endpoints", body).ok(t, body)
	}
	costs := func(query string) map[string]any {
		status, answer := callAdmin(t, "GET", address, "/cadenza/costs?"+query, "")
		if status != http.StatusOK {
			t.Fatalf("%s: %d %v", query, status, answer)
		}
		return answer
	}
	eventually(t, "all calls are stored", func() bool { return costs("")["total"].(map[string]any)["calls"] == 4.0 })

	row := func(by map[string]any, calls, cost float64) map[string]any {
		row := map[string]any{"by": by, "calls": calls, "attempts": calls, "prompt_tokens": 7 * calls, "completion_tokens": 3 * calls, "cost_usd": cost}
		if cost == 0 {
			row["unpriced"], row["unpriced_tokens"] = calls, 10*calls
		}
		return row
	}
	for query, want := range map[string][]any{
		"since=1h&metadata.customer=acme&by=key": {row(map[string]any{"key": "chat"}, 1, 0.000013), row(map[string]any{"key": "draft"}, 1, 0)},
		"since=1h&api_key=test&key=chat":         {row(map[string]any{"key": "chat"}, 2, 0.000026)},
		"by=provider,model&workspace=default&provider=fake": {
			row(map[string]any{"provider": "fake", "model": "small"}, 2, 0.000026), row(map[string]any{"provider": "fake", "model": "unheard-of"}, 1, 0),
			map[string]any{"by": map[string]any{"provider": "fake", "model": "broken"}, "calls": 1.0, "attempts": 1.0, "unanswered": 1.0, "prompt_tokens": 0.0, "completion_tokens": 0.0, "cost_usd": 0.0},
		},
		"by=metadata.customer&model=small": {row(map[string]any{"metadata.customer": "7"}, 1, 0.000013), row(map[string]any{"metadata.customer": "acme"}, 1, 0.000013)},
		"by=variant&metadata.customer=7":   {row(map[string]any{"variant": "nl"}, 1, 0.000013)},
		"by=api_key&top=1&until=1h":        {},
	} {
		answer := costs(query)
		if diff := cmp.Diff(want, answer["rows"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
		if diff := cmp.Diff([]any{"secret"}, answer["unlogged"]); diff != "" || answer["oldest"] == nil {
			t.Errorf("%s: %v", query, answer)
		}
	}
	// An answer of canned is known to cost nothing.
	canned := costs("by=provider&provider=canned")["total"].(map[string]any)
	if canned["attempts"] != 1.0 || canned["completion_tokens"] == 0.0 || canned["cost_usd"] != 0.0 || canned["unpriced"] != nil {
		t.Errorf("canned: %v", canned)
	}
	for query, want := range map[string]string{
		"by=colour": "colour", "top=0": "top must be", "top=20000": "1 to 10000", "since=soon": "since must be", "status=ok": "no parameter",
		"workspace=x": "no workspace", "by=metadata.": "metadata.NAME",
	} {
		status, answer := callAdmin(t, "GET", address, "/cadenza/costs?"+query, "")
		if message, _ := answer["error"].(string); status < 400 || status >= 500 || !strings.Contains(message, want) {
			t.Errorf("%s: %d %v", query, status, answer)
		}
	}
}
