package gateway_test

import (
	"fmt"
	"math"
	"net/http"
	"sync"
	"testing"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/providers"
)

// described records the placeholders of the last request.
type described struct {
	mu   sync.Mutex
	last func(string) (any, bool)
}

// describing is a setting that records the placeholders of requests in d.
func (d *described) describing(_ *gateway, c *gw.Config) {
	c.Describe = func(_ *http.Request, placeholder func(string) (any, bool)) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.last = placeholder
	}
}

// check compares placeholders of the last request, as texts.
func (d *described) check(t *testing.T, want map[string]string) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, value := range want {
		if got, known := d.last("cadenza." + name); !known || fmt.Sprint(got) != value {
			t.Errorf("{cadenza.%s} is %v (%t), want %s", name, got, known, value)
		}
	}
}

// twoTries returns files of an endpoint whose first target returns half of the requested
// JSON, so that the second one answers.
func twoTries() map[string]string {
	files := single()
	files["definitions/prompts/reply.yaml"] = `
default: only
variables: { question: {} }
variants:
  only:
    provider: first
    model: small
    max_tokens: 50
    response_format: json
    messages: [ { role: user, content: "{{question}}" } ]
`
	files["definitions/endpoints/chat.yaml"] = `
prompt: reply
log: metadata
retry: { count: 0 }
default: usual
variants:
  usual: {}
  patient: { fallback: [ { provider: second, model: large } ] }
rules:
  - { id: pro, when: { plan: pro }, value: patient }
`
	return files
}

const askPro = `{"key":"chat","context":{"plan":"pro"},"variables":{"question":"Why?"}}`

// TestEachAttemptCounts checks each output that shows the use of a call's two attempts. All
// numbers are different.
func TestEachAttemptCounts(t *testing.T) {
	t.Parallel()
	half := &scripted{content: `{"a":`, result: providers.Result{Model: "small-as-served", FinishReason: providers.FinishLength, Usage: allUsage}}
	// It reports no total of its tokens.
	whole := &scripted{content: `{"a":1}`, result: providers.Result{
		Model: "large-as-served", FinishReason: providers.FinishStop,
		Usage: providers.Usage{PromptTokens: 700, CompletionTokens: 9, CachedTokens: 200, CacheWriteTokens: 80, ReasoningTokens: 3, WebSearches: 2, FileSearches: 3},
	}}
	budget := &limit.Limit{Name: "budget", By: limit.ByWorkspace, Ceilings: []limit.Ceiling{yearly(limit.Tokens, 1_000_000), yearly(limit.Money, limit.Dollar)}}
	const first, second = 100*2e-6 + 20*10e-6, 700*5e-6 + 9*20e-6
	var d described
	g := startGateway(t, twoTries(), withProvider("first", public{half, "first.example:443"}), withProvider("second", public{whole, "second.example:443"}), d.describing, with(func(c *gw.WorkspaceConfig) {
		c.CallLimits = []*limit.Limit{budget}
		// The model name in the second one's answer has its own price.
		c.Prices = map[string]*price.Price{"small": {Prompt: 2, Completion: 10}, "large": {Prompt: 900}, "large-as-served": {Prompt: 5, Completion: 20}}
	}))
	a := g.post("/v1/endpoints", askPro)
	if a.status != http.StatusOK || a.header.Get("Cadenza-Attempts") != "2" {
		t.Fatalf("%d %s, headers %v", a.status, a.body, a.header)
	}
	d.check(t, map[string]string{
		"tokens.prompt": "800", "tokens.completion": "29", "tokens.total": "829", "tokens.cached": "230", "tokens.cache_write": "120", "tokens.reasoning": "8", "tokens.estimated": "false",
		"cost": fmt.Sprint(math.Round((first+second)*1e12) / 1e12), "attempts": "2", "provider": "second", "model": "large", "endpoint_variant": "patient", "endpoint_row": "pro", "row": "",
		"revision": a.header.Get("Cadenza-Revision"), "decision_id": a.header.Get("Cadenza-Decision-Id"),
	})
	g.holdUses("both count", budget, "", 829, int64(math.Round((first+second)*limit.Dollar)))
	g.expect(map[string]float64{
		`cadenza_cost_usd_total{definition="chat",model="small",provider="first"}`:             first,
		`cadenza_cost_usd_total{definition="chat",model="large",provider="second"}`:            second,
		`cadenza_tokens_total{model="small",provider="first",type="cached"}`:                   30,
		`cadenza_tokens_total{model="large",provider="second",type="cached"}`:                  200,
		`cadenza_provider_tool_uses_total{model="large",provider="second",tool="web_search"}`:  2,
		`cadenza_provider_tool_uses_total{model="large",provider="second",tool="file_search"}`: 3,
		`cadenza_answers_total{definition="chat",kind="endpoint",variant="only"}`:              1,
	})
	record := g.ended(t, a.header.Get("Cadenza-Trace-Id"))
	if len(record.Attempts) != 2 || math.Abs(record.Attempts[0].Cost-first) > 1e-12 || math.Abs(record.Attempts[1].Cost-second) > 1e-12 || math.Abs(record.Cost-first-second) > 1e-12 {
		t.Errorf("attempts %+v of %v", record.Attempts, record.Cost)
	}

	// Usage that an attempt does not report is estimated.
	half.result.Usage = providers.Usage{}
	g.post("/v1/endpoints", askPro).ok(t)
	d.check(t, map[string]string{"tokens.estimated": "true", "tokens.cached": "200"})

	// A call that fails has no answer to count, but shows its last attempt.
	half.mu.Lock()
	half.fail = true
	half.mu.Unlock()
	if a := g.post("/v1/endpoints", `{"key":"chat","variables":{"question":"Why?"}}`); a.status != http.StatusBadGateway {
		t.Errorf("%d %s", a.status, a.body)
	}
	d.check(t, map[string]string{"provider": "first", "model": "small", "attempts": "1", "endpoint_variant": "usual", "endpoint_row": ""})
	g.expect(map[string]float64{`cadenza_answers_total{definition="chat",kind="endpoint",variant="only"}`: 2})
}

// TestPlaceholdersOfKeys checks the arm of a split, and whether a cache has answered.
func TestPlaceholdersOfKeys(t *testing.T) {
	t.Parallel()
	files := single()
	files["definitions/remoteconfigs/half.yaml"] = "type: string\ndefault: one\nrules:\n  - { id: half, split: { by: plan, of: [ { value: two, share: 100% } ] } }\n"
	var d described
	g := startGateway(t, files, d.describing)
	a := g.post("/v1/remoteconfigs", `{"keys":["half"],"context":{"plan":"pro"}}`).ok(t)
	d.check(t, map[string]string{"row": "half", "variant": "", "arm": "1", "revision": a.header.Get("Cadenza-Revision")})

	g = startGateway(t, decidingFiles(), d.describing)
	for _, cache := range []string{"miss", "hit"} {
		eventually(t, "a "+cache, func() bool {
			before := lookups(g, "decisions", cache)
			g.post("/v1/remoteconfigs", `{"keys":["team"],"context":{"user":"u3-1"}}`)
			return lookups(g, "decisions", cache) > before
		})
		d.check(t, map[string]string{"cache": cache})
	}
}
