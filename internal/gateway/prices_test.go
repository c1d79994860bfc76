package gateway_test

import (
	"math"
	"net/http"
	"testing"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
)

func TestCostIsThatOfTheTokens(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { completion(w, "hello") })
	for _, test := range []struct {
		name   string
		prices map[string]gw.Price
		want   float64 // of 7 prompt and 3 completion tokens
	}{
		{"by the model", map[string]gw.Price{"small": {Prompt: 2, Completion: 10}}, 44e-6},
		{"by the provider's model", map[string]gw.Price{"small": {Prompt: 2, Completion: 10}, "fake/small": {Prompt: 1}}, 7e-6},
		{"of another model", map[string]gw.Price{"large": {Prompt: 2, Completion: 10}}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := startGateway(t, workspace, fakeProvider(u.URL), with(func(c *gw.WorkspaceConfig) { c.Prices = test.prices }))
			a := g.post("/v1/endpoints", `{"key":"chat",`+question+`}`)
			if a.status != http.StatusOK {
				t.Fatalf("%d %s", a.status, a.body)
			}
			id := a.header.Get("Cadenza-Trace-Id")
			eventually(t, "the call's end is stored", func() bool {
				record, ok := g.trace("data/cadenza.db", id)
				return ok && record.HasUsage
			})
			record, _ := g.trace("data/cadenza.db", id)
			if math.Abs(record.Cost-test.want) > 1e-12 {
				t.Errorf("cost %v, want %v", record.Cost, test.want)
			}
		})
	}
}
