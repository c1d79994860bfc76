package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// TestPlaysLeaveNothing checks that calls of the playground ask the model each time, leave
// no prepared targets and no leases behind, and have the values that the visitor's key is
// bound to.
func TestPlaysLeaveNothing(t *testing.T) {
	t.Parallel()
	upstream := gatewaytest.NewUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		gatewaytest.Completion(w, string(body))
	})
	g := startGateway(t, map[string]string{
		"definitions/context.yaml": "fields: { plan: { type: string } }\n",
		"definitions/prompts/chat.yaml": `
default: plain
variables: { question: { required: true } }
variants:
  plain: { provider: fake, model: small, messages: [ { role: user, content: "{{question}}" } ] }
  paid:  { provider: fake, model: large, messages: [ { role: system, content: "Be kind." }, { role: user, content: "{{question}}" } ] }
columns: [ id, plan, value ]
matrix: [ [ payers, pro, paid ] ]
`,
		"definitions/endpoints/chat.yaml": "prompt: chat\ncache: { ttl: 1h }\n",
	}, fakeProvider(upstream.URL), with(func(c *gw.WorkspaceConfig) {
		c.APIKeys[0].Access, c.APIKeys[0].Context = gw.Access{Role: gw.RoleEditor, App: true}, map[string]string{"plan": "pro"}
	}))
	w := g.current.Load().Workspace("default")
	play := func(p gw.Play) gw.Played {
		t.Helper()
		p.Endpoint, p.Variables = "chat", json.RawMessage(`{"question":"Why?"}`)
		played, err := w.Play(t.Context(), httptest.NewRecorder(), "test", &p)
		if err != nil || played.Error != "" {
			t.Fatalf("%+v, %+v", played, err)
		}
		return played
	}
	g.post("/v1/endpoints", `{"key":"chat","variables":{"question":"Why?"}}`).ok(t)
	before := w.Prepared()
	for range 2 {
		if a := play(gw.Play{}); a.Variant != "paid" || a.Row != "payers" || !strings.Contains(a.Content, "Be kind.") {
			t.Errorf("%+v", a)
		}
	}
	text := "Be brief."
	if a := play(gw.Play{Variant: "paid", Texts: []*string{&text}, Target: "fake/small"}); a.Target != "fake/small" || !strings.Contains(a.Content, "Be brief.") {
		t.Errorf("%+v", a)
	}
	play(gw.Play{DryRun: true})
	if calls := upstream.Calls.Load(); calls != 4 {
		t.Errorf("%d calls of the model", calls)
	}
	// A loading of the same files, as the watcher's first, forgets all lists.
	if after := w.Prepared(); after > before {
		t.Errorf("%d lists of targets, before %d", after, before)
	}
	if leases := g.store.Leases(); leases != 0 {
		t.Errorf("%d leases", leases)
	}
	_, err := w.Play(t.Context(), httptest.NewRecorder(), "test", &gw.Play{Endpoint: "chat", Context: json.RawMessage(`{"plan":"free"}`), Variables: json.RawMessage(`{"question":"Why?"}`)})
	if err == nil || err.Param != "context.plan" {
		t.Errorf("another value than the key's: %+v", err)
	}
}
