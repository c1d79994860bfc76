package gateway

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/providers"
)

// TestRoomForOneAttempt checks that the amount of an attempt that is not made is available
// to the next one, and that no lane gets an amount after the request has ended.
func TestRoomForOneAttempt(t *testing.T) {
	t.Parallel()
	messages := []providers.Message{{Content: "hi"}}
	five := int64(5)
	targets := []invoke.Target{{Model: "m", Parameters: providers.Parameters{MaxTokens: &five}}}
	for _, measure := range []limit.Measure{limit.Tokens, limit.Money} {
		// A token costs a nanodollar, so that the two measures are the same.
		capacity := invoke.MostTokens(messages, nil) + five
		l := &limit.Limit{Name: "one", By: limit.ByWorkspace, Ceilings: []limit.Ceiling{{Measure: measure, Most: capacity + capacity/2, Window: limit.Window{Length: time.Hour}}}}
		limiter := limit.Open(limit.Options{})
		store := new(Store)
		store.limiter.Store(limiter)
		g := &Gateway{metrics: newMetrics()}
		w := &Workspace{
			WorkspaceConfig: WorkspaceConfig{Name: "w", Store: store}, gateway: g,
			prices:     price.NewTable(map[string]*price.Price{"m": {Prompt: 0.001, Completion: 0.001}}),
			callLimits: newCallLimits([]*limit.Limit{l}),
		}
		to, _ := find("/v1/endpoints")
		c := callOf(incoming{workspace: w, gateway: g, route: to, began: time.Now(), w: httptest.NewRecorder(), r: new(http.Request)})
		if err := c.admitEarly(); err != nil {
			t.Fatal(err)
		}
		if err := c.afford(targets, messages); err != nil {
			t.Fatal(err)
		}
		purse := c.meter.purse()
		for n := range 3 {
			if !purse.Take(0) || purse.Take(0) {
				t.Fatalf("%s, round %d: there is not room for one attempt", measure, n)
			}
			purse.Return(0)
		}
		c.meter.settle()
		if purse.Take(0) {
			t.Errorf("%s: an attempt after the request's end", measure)
		}
	}
}
