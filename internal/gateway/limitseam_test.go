package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/invoke"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/trace"
)

// TestAShareAtTheSeam has another request that begins the next minute before the first
// request reads the share of its own minute.
func TestAShareAtTheSeam(t *testing.T) {
	l := &limit.Limit{Name: "fair", Ceilings: []limit.Ceiling{{Most: 10, Window: limit.Window{Length: time.Minute}}}}
	limiter := limit.Open(limit.Options{})
	store := new(Store)
	store.limiter.Store(limiter)
	w := &Workspace{WorkspaceConfig: WorkspaceConfig{Name: "w", Store: store}, callLimits: newCallLimits([]*limit.Limit{l})}
	to, _ := find("/v1/endpoints")
	began := time.Date(2026, 1, 1, 12, 0, 59, 0, time.UTC)
	admit := func(began time.Time) *call {
		c := callOf(incoming{workspace: w, key: &principal{name: "app"}, gateway: &Gateway{metrics: newMetrics()}, route: to, began: began, w: httptest.NewRecorder(), r: new(http.Request)})
		if err := c.admitEarly(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	share := func(c *call) int { return c.evaluation.shareBefore(limiter, limit.Ask{Limit: l, Subject: "app"}) }
	c := admit(began)
	if got := share(c); got != 0 {
		t.Errorf("%d %% before", got)
	}
	later := admit(began.Add(2 * time.Second))
	if got := share(c); got != 0 {
		t.Errorf("%d %% with another request under way", got)
	}
	later.meter.settle()
	if got := share(c); got != 10 {
		t.Errorf("%d %% with another request that has ended, not 10", got)
	}
}

// TestTheTightBound has a limit that fits a tokenizer's count, but not the looser bound.
func TestTheTightBound(t *testing.T) {
	messages := []providers.Message{{Content: providers.Escape(strings.Repeat("The quick brown fox jumps over the lazy dog. ", 40))}}
	tight, loose := invoke.TightTokens(messages, nil), invoke.MostTokens(messages, nil)
	one := int64(1)
	tools := []providers.Tool{{Name: "look", Description: messages[0].Content.Plain()}}
	targets := []invoke.Target{{Model: "m", Parameters: providers.Parameters{MaxTokens: &one, Tools: tools}}}
	targets[0].Bounds = invoke.BoundsOf(&targets[0])
	tight, loose = tight+targets[0].Beside(invoke.TightTokens), loose+targets[0].Beside(invoke.MostTokens)
	for _, test := range []struct {
		ceiling int64
		fits    bool
	}{{loose, true}, {tight + 1, true}, {tight, false}} {
		limiter := limit.Open(limit.Options{})
		store := new(Store)
		store.limiter.Store(limiter)
		l := &limit.Limit{Name: "few", By: limit.ByWorkspace, Ceilings: []limit.Ceiling{{Measure: limit.Tokens, Most: test.ceiling}}}
		g := &Gateway{metrics: newMetrics()}
		w := &Workspace{WorkspaceConfig: WorkspaceConfig{Name: "w", Store: store}, gateway: g, prices: price.NewTable(nil), callLimits: newCallLimits([]*limit.Limit{l})}
		to, _ := find("/v1/endpoints")
		c := callOf(incoming{workspace: w, gateway: g, route: to, began: time.Now(), w: httptest.NewRecorder(), r: new(http.Request)})
		if err := c.admitEarly(); err != nil {
			t.Fatal(err)
		}
		if err := c.afford(targets, messages); (err == nil) != test.fits {
			t.Errorf("%d tokens (%d to %d): %v", test.ceiling, tight, loose, err)
		}
		c.meter.settle()
	}
}

// TestTheSeamOfAMonth uses up a budget in the last second of January. A call counts in
// the month in which it began.
func TestTheSeamOfAMonth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &limit.Limit{Name: "month", By: limit.ByWorkspace, Ceilings: []limit.Ceiling{{Measure: limit.Money, Most: 5 * limit.Dollar}}}
		limiter := limit.Open(limit.Options{})
		store := new(Store)
		store.limiter.Store(limiter)
		dollar := 1e6 // a token
		g := &Gateway{metrics: newMetrics()}
		w := &Workspace{
			WorkspaceConfig: WorkspaceConfig{Name: "w", Store: store},
			gateway:         g,
			prices:          price.NewTable(map[string]*price.Price{"m": {Completion: dollar}}),
			callLimits:      newCallLimits([]*limit.Limit{l}),
		}
		to, _ := find("/v1/endpoints")
		maxTokens := int64(3)
		targets := []invoke.Target{{Model: "m", Parameters: providers.Parameters{MaxTokens: &maxTokens}}}
		begin := func() (*call, string, string) {
			t.Helper()
			c := callOf(incoming{workspace: w, gateway: g, route: to, began: time.Now(), w: httptest.NewRecorder(), r: new(http.Request)})
			if err := c.admitEarly(); err != nil {
				t.Fatal(err)
			}
			if err := c.afford(targets, []providers.Message{{Content: "hi"}}); err != nil {
				return c, err.Message, err.RetryAfter.String()
			}
			return c, "", ""
		}
		used := func() int64 {
			return limiter.AppendStandings(nil, "w", time.Now(), limit.Ask{Limit: l})[0].Used / limit.Dollar
		}
		time.Sleep(time.Until(time.Date(2000, 1, 31, 23, 59, 58, 500_000_000, time.UTC)))
		last, refusal, _ := begin()
		if refusal != "" {
			t.Fatal(refusal)
		}
		if _, refusal, after := begin(); refusal != "The limit month (money 5usd/1mo by workspace) has no room for what this call may use, 3 US dollars, as long as others are under way. Send the request again when one of them has ended." || after != "1s" {
			t.Errorf("%s %s", refusal, after)
		}
		spend := func(c *call, dollars float64) {
			c.meter.spend(&invoke.Result{Attempts: []invoke.Attempt{{Attempt: trace.Attempt{Cost: dollars}}}})
		}
		spend(last, 3)
		c, refusal, after := begin()
		if refusal != "The limit month (money 5usd/1mo by workspace) has no room left for what this call may use, 3 US dollars. There is room again in 2 s, at 2000-02-01T00:00:00Z. A call with fewer max_tokens may fit." || after != "1.5s" {
			t.Errorf("%s %s", refusal, after)
		}
		if got := c.w.Header().Get("RateLimit-Policy") + c.w.Header().Get("RateLimit"); got != `"month";q=100;qu="percent";w=2678400"month";r=40;t=2` {
			t.Error(got)
		}
		maxTokens = 2
		last, refusal, _ = begin()
		if refusal != "" {
			t.Error(refusal)
		}
		maxTokens = 5
		time.Sleep(1500 * time.Millisecond)
		c, refusal, _ = begin() // in February
		if refusal != "" {
			t.Error(refusal)
		}
		spend(last, 2) // it began in January
		if got := used(); got != 0 {
			t.Errorf("%d dollars are used in February", got)
		}
		spend(c, 4)
		if got := used(); got != 4 {
			t.Errorf("%d dollars are used in February, not 4", got)
		}
	})
}
