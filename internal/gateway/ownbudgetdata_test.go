package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/providers"
)

// TestABudgetLeavesOpaqueDataInPlace has a table that asks for a budget which the call
// itself uses, so that the gateway chooses twice. The data in the caller's history goes
// to its target all the same.
func TestABudgetLeavesOpaqueDataInPlace(t *testing.T) {
	t.Parallel()
	s := &scripted{content: "Fine.", result: providers.Result{FinishReason: providers.FinishStop}}
	l := &limit.Limit{Name: "cust", By: limit.ByMetadata, Member: "c", Ceilings: []limit.Ceiling{{Measure: limit.Requests, Most: 1000}, yearly(limit.Tokens, 50_000)}}
	files := conversation("")
	files["definitions/endpoints/team/talk.yaml"] = "prompt: talk\naccept: { history: true }\ndefault: usual\nvariants:\n  usual: { fallback: [ { provider: other, model: large } ] }\n  saving: {}\nrules:\n  - { id: nearly, when: { budget.cust: 80.. }, value: saving }\n"
	g := startGateway(t, files, withProvider("scripted", s), withProvider("other", s), withLimits(l))
	thought := g.seal("other/large", "signature")
	a := g.post("/v1/chat/completions", `{"model":"team/talk","metadata":{"c":"acme"},"messages":[`+user+`,{"role":"assistant","content":"No.","reasoning_details":[{"type":"reasoning.text","text":""}]},`+user+`,{"role":"assistant","content":"Yes.","reasoning_details":[{"type":"reasoning.encrypted","data":"`+g.seal("gone/x", "lost")+`"},{"type":"reasoning.encrypted","data":"`+thought+`"}]},`+user+`]}`)
	got, _ := s.last()
	if a.status != http.StatusOK || a.header.Get("Cadenza-Served-By") != "other/large" || !strings.Contains(got, `"Opaque":"signature"`) || strings.Contains(got, "lost") || strings.Contains(got, `"Kind":0`) || a.header.Get("Cadenza-Ignored") != "messages[3].reasoning_details" {
		t.Errorf("%d %s, served by %s, ignored %q:\n%s", a.status, a.body, a.header.Get("Cadenza-Served-By"), a.header.Get("Cadenza-Ignored"), got)
	}
}
