package gateway_test

import (
	"math"
	"net/http"
	"testing"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/trace"
)

func TestCostIsThatOfTheTokens(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { completion(w, "hello") })
	for _, test := range []struct {
		name   string
		prices map[string]*price.Price
		want   float64 // the cost of 7 prompt and 3 completion tokens
	}{
		{"by the model", map[string]*price.Price{"small": {Prompt: 2, Completion: 10}}, 44e-6},
		{"by the provider's model", map[string]*price.Price{"small": {Prompt: 2, Completion: 10}, "fake/small": {Prompt: 1}}, 7e-6},
		{"of another model", map[string]*price.Price{"large": {Prompt: 2, Completion: 10}}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := startGateway(t, workspace, fakeProvider(u.URL), with(func(c *gw.WorkspaceConfig) { c.Prices = test.prices }))
			a := g.post("/v1/endpoints", `{"key":"chat",`+question+`}`).ok(t)
			record := g.ended(t, a.header.Get("Cadenza-Trace-Id"))
			if math.Abs(record.Cost-test.want) > 1e-12 {
				t.Errorf("cost %v, want %v", record.Cost, test.want)
			}
		})
	}
}

// public is a provider that reports its host.
type public struct {
	*scripted
	host string
}

func (p public) Host() string { return p.host }

func TestCostOfAnAttempt(t *testing.T) {
	t.Parallel()
	usage := func(change func(u *providers.Usage)) providers.Usage {
		u := providers.Usage{PromptTokens: 1000, CachedTokens: 800, CompletionTokens: 100, TotalTokens: 1100}
		if change != nil {
			change(&u)
		}
		return u
	}
	says := func(cost float64) func(u *providers.Usage) {
		return func(u *providers.Usage) { u.Cost, u.HasCost = cost, true }
	}
	read, openAI := 0.25, "api.openai.com:443"
	given := map[string]*price.Price{"small": {Prompt: 2.5, Completion: 10, Parts: price.Parts{CacheRead: &read}}}
	const list = (200*2.5 + 800*0.25 + 100*10) / 1e6
	for _, test := range []struct {
		name   string
		host   string
		prices map[string]*price.Price
		served string
		change func(u *providers.Usage)
		want   trace.Attempt // its costs
	}{
		{"by all parts of its tokens", "", given, "", nil, trace.Attempt{Cost: list}},
		{"the provider's own", "", given, "", says(0.5), trace.Attempt{Cost: 0.5, ListCost: list}},
		{"the provider's own, as foreseen", "", given, "", says(list), trace.Attempt{Cost: list}},
		{"the provider's own, without a price", "", nil, "", says(0.5), trace.Attempt{Cost: 0.5}},
		{"nothing, as the provider says", "", given, "", says(0), trace.Attempt{ListCost: list, Free: true}},
		{"not less than nothing", "", given, "", says(-1), trace.Attempt{Cost: list}},
		{"not without end", "", given, "", says(math.Inf(1)), trace.Attempt{Cost: list}},
		{"not a number", "", given, "", says(math.NaN()), trace.Attempt{Cost: list}},
		{"a price of nothing", "", map[string]*price.Price{"small": {}}, "", nil, trace.Attempt{Free: true}},
		{"without a price", "llm.example:443", nil, "", nil, trace.Attempt{}},
		{"without a price, of a provider that calls no host", "", nil, "", nil, trace.Attempt{Free: true}},
		{"the shipped price of the model that served", openAI, nil, "gpt-4o-mini-2024-07-18", nil, trace.Attempt{Cost: (200*0.15 + 800*0.075 + 100*0.6) / 1e6}},
		{"the price given for the model asked for", openAI, given, "gpt-4o-mini-2024-07-18", nil, trace.Attempt{Cost: list}},
		{"no shipped price at a private host", "localhost:8000", nil, "gpt-4o-mini-2024-07-18", nil, trace.Attempt{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			answers := &scripted{content: "hello", result: providers.Result{Model: test.served, FinishReason: providers.FinishStop, Usage: usage(test.change)}}
			g := startGateway(t, workspace, withProvider("fake", public{answers, test.host}), with(func(c *gw.WorkspaceConfig) { c.Prices = test.prices }))
			a := g.post("/v1/endpoints", `{"key":"chat",`+question+`}`).ok(t)
			record := g.ended(t, a.header.Get("Cadenza-Trace-Id"))
			if len(record.Attempts) != 1 || record.Cost != record.Attempts[0].Cost {
				t.Fatalf("%d attempts, cost %v", len(record.Attempts), record.Cost)
			}
			got := record.Attempts[0]
			if math.Abs(got.Cost-test.want.Cost) > 1e-12 || math.Abs(got.ListCost-test.want.ListCost) > 1e-12 || got.Free != test.want.Free {
				t.Errorf("cost %v, list %v, free %v; want %v, %v, %v", got.Cost, got.ListCost, got.Free, test.want.Cost, test.want.ListCost, test.want.Free)
			}
		})
	}
}
