package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/price"
)

// hold sets amounts of a limit aside for other calls, until the test ends.
func (g *gateway) hold(l *limit.Limit, subject string, amounts limit.Amounts) *limit.Reservation {
	g.t.Helper()
	reservation, refusal := g.store.Limiter().Reserve("default", time.Now(), []limit.Ask{{Limit: l, Subject: subject}}, amounts)
	if refusal != nil {
		g.t.Fatalf("refused: %+v", refusal)
	}
	return reservation
}

// TestABudgetBesideALimitOfRequests checks that all limits of a request bound it, in any
// order.
func TestABudgetBesideALimitOfRequests(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { completion(w, "fine") })
	budget := &limit.Limit{Name: "budget", Ceilings: []limit.Ceiling{yearly(limit.Tokens, 300)}}
	requests := &limit.Limit{Name: "requests", Ceilings: []limit.Ceiling{yearly(limit.Requests, 100)}}
	for _, limits := range [][]*limit.Limit{{budget, requests}, {requests, budget}} {
		g := startGateway(t, single(), fakeProvider(u.URL), withLimits(limits...))
		a := g.post("/v1/endpoints", askChat)
		checkError(t, a, "rate_limited", "")
		if !strings.Contains(string(a.body), "The limit budget (tokens 300/366d by api_key) never has room") {
			t.Errorf("%s", a.body)
		}
	}
	if u.Calls.Load() != 0 {
		t.Errorf("%d calls", u.Calls.Load())
	}
}

// TestTheCheapestTargetIsEnough checks that a call whose first target does not fit uses
// the next one, which is cheaper or has shorter answers.
func TestTheCheapestTargetIsEnough(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { completion(w, "fine") })
	for _, test := range []struct {
		name, files string
		ceiling     limit.Ceiling
		used        int64
	}{
		{"money", "provider: fake\nmodel: large\nmax_tokens: 400\n", yearly(limit.Money, 10_000_000), completionCost},
		{"tokens", "provider: fake\nmodel: large\nmax_tokens: 400\n", yearly(limit.Tokens, 300), 10},
	} {
		files := single()
		files["definitions/prompts/dear.yaml"] = test.files + "messages: [ { role: user, content: hi } ]\n"
		files["definitions/endpoints/dear.yaml"] = "prompt: dear\nretry: { count: 0 }\nfallback: [ { provider: fake, model: small, max_tokens: 20 } ]\n"
		budget := &limit.Limit{Name: "budget", By: limit.ByWorkspace, Ceilings: []limit.Ceiling{test.ceiling}}
		g := startGateway(t, files, fakeProvider(u.URL), withLimits(budget))
		calls := u.Calls.Load()
		if a := g.post("/v1/endpoints", `{"key":"dear"}`); a.status != http.StatusOK || u.Calls.Load() != calls+1 {
			t.Errorf("%s: %d %s, %d calls", test.name, a.status, a.body, u.Calls.Load()-calls)
		}
		g.holdUses(test.name, budget, "", test.used)
	}
}

// TestWhoseRoomIsMissing checks that a call with several budgets is refused by the budget
// in which it does not fit, and never by its own share of another one.
func TestWhoseRoomIsMissing(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { completion(w, "fine") })
	for _, measure := range []limit.Measure{limit.Tokens, limit.Money} {
		// Enough for one call and not for two: some 420 tokens, or 4,040,000 nanodollars.
		capacity := map[limit.Measure]int64{limit.Tokens: 700, limit.Money: 7_000_000}[measure]
		own := &limit.Limit{Name: "own", Ceilings: []limit.Ceiling{yearly(measure, capacity)}}
		other := &limit.Limit{Name: "other", By: limit.ByEndpoint, Ceilings: []limit.Ceiling{yearly(measure, capacity)}}
		later := &limit.Limit{Name: "later", By: limit.ByWorkspace, Ceilings: []limit.Ceiling{{Measure: measure, Most: capacity, Window: limit.Window{Length: 2 * year.Length}}}}
		g := startGateway(t, single(), fakeProvider(u.URL), withLimits(own, other, later))
		amounts := limit.Amounts{limit.Tokens: 400, limit.Money: 5_000_000}
		held := g.hold(other, "chat", amounts)
		a := g.post("/v1/endpoints", askChat)
		checkError(t, a, "rate_limited", "")
		if !strings.Contains(string(a.body), "The limit other ") || !strings.Contains(string(a.body), "as long as others are under way") || a.header.Get("Retry-After") != "1" {
			t.Errorf("%s, headers %v", a.body, a.header)
		}
		held.Settle(time.Now(), amounts)
		all := limit.Amounts{limit.Tokens: capacity, limit.Money: capacity}
		g.hold(later, "", all).Settle(time.Now(), all)
		// If two budgets are full, the one that stays full longest is named.
		a = g.post("/v1/endpoints", askChat)
		checkError(t, a, "rate_limited", "")
		if !strings.Contains(string(a.body), "The limit later ") || !strings.Contains(string(a.body), " is used up. There is room again in ") {
			t.Errorf("%s", a.body)
		}
	}
	if u.Calls.Load() != 0 {
		t.Errorf("%d calls", u.Calls.Load())
	}
}

// TestACallThatNeverFits checks that the answer says not to repeat the call, however soon
// the window ends.
func TestACallThatNeverFits(t *testing.T) {
	t.Parallel()
	l := &limit.Limit{Name: "few", Ceilings: []limit.Ceiling{{Measure: limit.Tokens, Most: 100, Window: limit.Window{Length: 10 * time.Second}}}}
	g := startGateway(t, single(), fakeProvider("http://127.0.0.1:9"), withLimits(l))
	a := g.post("/v1/endpoints", askChat)
	checkError(t, a, "rate_limited", "")
	if a.header.Get("X-Should-Retry") != "false" || !strings.Contains(string(a.body), "never has room") {
		t.Errorf("%s, headers %v", a.body, a.header)
	}
}

// TestHeadersNameTheFullest checks that callers see the fullest ceiling of a limit, and of
// several limits, including the amounts set aside for other calls.
func TestHeadersNameTheFullest(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { completion(w, "fine") })
	wide := &limit.Limit{Name: "wide", Ceilings: []limit.Ceiling{yearly(limit.Requests, 1000), yearly(limit.Tokens, 10_000), {Measure: limit.InFlight, Most: 1000}}}
	narrow := &limit.Limit{Name: "narrow", By: limit.ByWorkspace, Ceilings: []limit.Ceiling{yearly(limit.Requests, 50), yearly(limit.Tokens, 100_000)}}
	g := startGateway(t, single(), fakeProvider(u.URL), withLimits(wide, narrow))
	g.hold(wide, "test", limit.Amounts{limit.Tokens: 5000})
	for n, path := range []string{"/v1/chat/completions", "/v1/messages"} {
		a := g.post(path, `{"model":"chat","messages":[],"variables":{"question":"Why?"}}`).ok(t, path)
		// Less than 5000: the amounts that the call itself may use or has used are set aside.
		var left int64
		if _, err := fmt.Sscanf(a.header.Get("RateLimit"), `"wide";r=%d;t=`, &left); err != nil || left < 4000 || left >= 5000 || !strings.Contains(a.header.Get("RateLimit"), fmt.Sprintf(`, "narrow";r=%d;t=`, 49-n)) {
			t.Errorf("%s: RateLimit %s", path, a.header.Get("RateLimit"))
		}
		if got := a.header.Get("RateLimit-Policy"); !strings.HasPrefix(got, `"wide";q=10000;qu="tokens";w=31622400, "narrow";q=50;w=`) {
			t.Errorf("%s: RateLimit-Policy %s", path, got)
		}
		for name, want := range map[string]string{
			"Ratelimit-Limit-Requests": "50", "Ratelimit-Remaining-Requests": fmt.Sprint(49 - n), "Ratelimit-Limit-Tokens": "10000", "Ratelimit-Remaining-Tokens": fmt.Sprint(left),
		} {
			if path == "/v1/messages" {
				_, what, _ := strings.Cut(name, "-")
				kind, measure, _ := strings.Cut(what, "-")
				name = "Anthropic-Ratelimit-" + measure + "-" + kind
			} else {
				name = "X-" + name
			}
			if got := a.header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %s", path, name, got, want)
			}
		}
	}
}

// TestATableReadsAnotherLimit checks that a request counts only for the limits of its
// route, so the share of another limit is not reduced by the request's own part.
func TestATableReadsAnotherLimit(t *testing.T) {
	t.Parallel()
	fair := &limit.Limit{Name: "fair", Ceilings: []limit.Ceiling{yearly(limit.Requests, 2)}, Routes: []string{"endpoints"}}
	own := &limit.Limit{Name: "own", Ceilings: []limit.Ceiling{yearly(limit.Requests, 10)}, Routes: []string{"remoteconfigs"}}
	files := single()
	files["definitions/remoteconfigs/used.yaml"] = "type: string\ndefault: none\ncolumns: [ budget.fair, value ]\nmatrix:\n  - [ 100.., all ]\n  - [ 50.., half ]\n"
	g := startGateway(t, files, withLimits(fair, own))
	g.hold(fair, "test", limit.Amounts{limit.Requests: 1})
	if a := g.post("/v1/remoteconfigs", `{"keys":["used"]}`); !strings.Contains(string(a.body), `"value":"half"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestWhichTargetsAreBounded checks that a limit of tokens needs no prices, and that
// provider-specific parameters bound an answer, too.
func TestWhichTargetsAreBounded(t *testing.T) {
	t.Parallel()
	const messages = "messages: [ { role: user, content: hi } ]\n"
	budget := &limit.Limit{Name: "budget", Ceilings: []limit.Ceiling{yearly(limit.Tokens, 1000)}}
	g := startGateway(t, map[string]string{
		"definitions/prompts/free.yaml":    "provider: fake\nmodel: unknown\nmax_tokens: 5\n" + messages,
		"definitions/endpoints/free.yaml":  "prompt: free\n",
		"definitions/prompts/lost.yaml":    "provider: absent\nmodel: none\n" + messages,
		"definitions/endpoints/lost.yaml":  "prompt: lost\n",
		"definitions/prompts/extra.yaml":   "provider: fake\nmodel: own\nextra: { max_completion_tokens: 900 }\n" + messages,
		"definitions/endpoints/extra.yaml": "prompt: extra\n",
		"definitions/prompts/open.yaml":    "default: a\nvariants:\n  a: { provider: fake, model: open, " + strings.TrimSpace(messages) + " }\n  b: { extends: a, temperature: 0.5 }\n",
		"definitions/endpoints/open.yaml":  "prompt: open\n",
	}, fakeProvider("http://127.0.0.1:9"), with(func(c *gw.WorkspaceConfig) {
		c.CallLimits = []*limit.Limit{budget}
		c.Prices = map[string]*price.Price{}
	}))
	logs := string(g.logs.Bytes())
	if n := strings.Count(logs, "target is not bounded by limits"); n != 1 || !strings.Contains(logs, `"model":"open","endpoints":["open"],"reason":"it has no max_tokens`) {
		t.Errorf("%d warnings", n)
	}
}
