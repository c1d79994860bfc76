package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/providers/openai"
)

// uses returns the used amount and the amount set aside for each ceiling of a limit.
func (g *gateway) uses(workspace string, l *limit.Limit, subject string) (list [][2]int64) {
	for _, s := range g.store.Limiter().AppendStandings(nil, workspace, time.Now(), limit.Ask{Limit: l, Subject: subject}) {
		list = append(list, [2]int64{s.Used, s.Reserved})
	}
	return list
}

// holdUses waits until a subject has used these amounts and nothing is set aside.
func (g *gateway) holdUses(what string, l *limit.Limit, subject string, want ...int64) {
	g.t.Helper()
	var wanted [][2]int64
	for _, n := range want {
		wanted = append(wanted, [2]int64{n, 0})
	}
	eventually(g.t, what+": "+fmt.Sprint(wanted), func() bool {
		return fmt.Sprint(g.uses("default", l, subject)) == fmt.Sprint(wanted)
	})
}

// The cost of gatewaytest.Completion's usage, by the prices of the model "small".
const completionCost = 7*2_000 + 3*10_000

const askChat = `{"key":"chat","variables":{"question":"Why?"}}`

// TestALimitOfRequests tests a limit that needs nothing from the body.
func TestALimitOfRequests(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { completion(w, "fine") })
	l := &limit.Limit{Name: "fair", Ceilings: []limit.Ceiling{yearly(limit.Requests, 2), {Measure: limit.InFlight, Most: 100}}}
	g := startGateway(t, single(), fakeProvider(u.URL), withLimits(l), withWorkspace("partner", map[string]string{"other": otherKey}), withLimits(l), fakeProvider(u.URL))
	for n, path := range []string{"/v1/endpoints", "/v1/chat/completions"} {
		body := map[string]string{"/v1/endpoints": askChat, "/v1/chat/completions": `{"model":"chat","variables":{"question":"Why?"},"messages":[]}`}[path]
		a := g.post(path, body)
		if want := fmt.Sprintf(`"fair";r=%d;t=`, 1-n); !strings.HasPrefix(a.header.Get("RateLimit"), want) || a.header.Get("RateLimit-Policy") != `"fair";q=2;w=31622400` {
			t.Errorf("%s: %d %s, headers %v", path, a.status, a.body, a.header)
		}
		if got := a.header.Get("X-Ratelimit-Remaining-Requests"); (got == "0") != (n == 1) {
			t.Errorf("%s: x-ratelimit-remaining-requests %q", path, got)
		}
	}
	a := g.post("/v1/endpoints", askChat)
	checkError(t, a, "rate_limited", "")
	message := a.json(t)["message"].(string)
	if !strings.HasPrefix(message, "The limit fair (requests 2/366d by api_key) is used up. There is room again in ") || !strings.HasSuffix(message, "Z.") ||
		a.header.Get("X-Should-Retry") != "false" || a.header.Get("Retry-After") == "1" || a.header.Get("Connection") == "close" ||
		!strings.HasPrefix(a.header.Get("RateLimit"), `"fair";r=0;t=`) || a.header.Get("Cadenza-Trace-Id") != "" {
		t.Errorf("%s, headers %v", message, a.header)
	}
	// A request of 1 MiB is refused before its body is sent.
	connection, reader := g.dial(t)
	fmt.Fprintf(connection, "POST /v1/endpoints HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 1000000\r\n\r\n", testKey)
	response, err := http.ReadResponse(reader, nil)
	if err != nil || response.StatusCode != http.StatusTooManyRequests {
		t.Errorf("without its body: %v, %v", response, err)
	}
	// Another workspace has its own counters, and other routes do not count.
	g.postAs(otherKey, "/v1/endpoints", askChat).ok(t, "another workspace")
	if a := g.post("/v1/prompts", `{"keys":["hello"]}`); a.status != http.StatusOK || a.header.Get("RateLimit") != "" {
		t.Errorf("prompts: %d %s, headers %v", a.status, a.body, a.header)
	}
	g.holdUses("refused requests don't count", l, "test", 2, 0)
	if scraped := g.scrape(); !strings.Contains(scraped, `cadenza_limit_refused_total{limit="fair",measure="requests",workspace="default"} 2`+"\n") ||
		!strings.Contains(scraped, `cadenza_limit_refused_total{limit="fair",measure="in_flight",workspace="partner"} 0`+"\n") ||
		!strings.Contains(scraped, `cadenza_limit_used_ratio{limit="fair",workspace="default"} 1`+"\n") {
		t.Error(scraped)
	}
	if u.Calls.Load() != 3 {
		t.Errorf("%d calls", u.Calls.Load())
	}
}

// TestWhatALimitCountsBy tests limits that need members of the body.
func TestWhatALimitCountsBy(t *testing.T) {
	t.Parallel()
	customers := &limit.Limit{Name: "customers", By: limit.ByMetadata, Member: "customer", Ceilings: []limit.Ceiling{yearly(limit.Requests, 1)},
		Routes: []string{"endpoints", "chat", "prompts", "remoteconfigs", "decisions"}}
	users := &limit.Limit{Name: "users", By: limit.ByMetadata, Member: "user", Ceilings: []limit.Ceiling{yearly(limit.Requests, 1)}, Routes: []string{"chat"}}
	endpoints := &limit.Limit{Name: "endpoints", By: limit.ByEndpoint, Ceilings: []limit.Ceiling{yearly(limit.Requests, 6)}}
	keys := &limit.Limit{Name: "keys", Ceilings: []limit.Ceiling{yearly(limit.Requests, 100)}}
	files := single()
	files["definitions/endpoints/other.yaml"] = "prompt: hello\n"
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { completion(w, "fine") })
	g := startGateway(t, files, fakeProvider(u.URL), withLimits(customers, users, endpoints, keys))
	metadata := func(m string) string { return `,"metadata":` + m }
	for _, test := range []struct {
		path, body, metadata string
		refused              string
	}{
		{"/v1/endpoints", `{"key":"chat","variables":{"question":"Why?"}`, `{"customer":"acme"}`, ""},
		{"/v1/endpoints", `{"key":"chat","variables":{"question":"Why?"}`, `{"customer":"acme"}`, "The limit customers (requests 1/366d by metadata.customer) is used up."},
		{"/v1/prompts", `{"keys":["hello"]`, `{"customer":"acme"}`, "The limit customers"},
		{"/v1/remoteconfigs", `{"keys":["x","checkout"]`, `{"customer":"acme"}`, "The limit customers"},
		{"/v1/decisions", `{"prompts":["hello"]`, `{"customer":"acme"}`, "The limit customers"},
		{"/v1/prompts", `{"keys":["hello"]`, `{"customer":7}`, ""},
		{"/v1/decisions", `{"prompts":["hello"]`, `{"customer":"7"}`, "The limit customers"},
		{"/v1/decisions", `{"prompts":["hello"]`, `{}`, ""},
		{"/v1/prompts", `{"keys":["hello"]`, `{"other":1}`, "Requests without metadata.customer are counted together."},
		// OpenAI's user is the trace's metadata.user.
		{"/v1/chat/completions", `{"model":"chat","user":"u1","messages":[],"variables":{"question":"Why?"}`, `{"customer":"b"}`, ""},
		{"/v1/chat/completions", `{"model":"chat","user":"u1","messages":[],"variables":{"question":"Why?"}`, `{"customer":"c"}`, "The limit users (requests 1/366d by metadata.user) is used up."},
		// A request that one limit refuses does not count for the others.
		{"/v1/chat/completions", `{"model":"chat","user":"u2","messages":[],"variables":{"question":"Why?"}`, `{"customer":"c"}`, ""},
	} {
		a := g.post(test.path, test.body+metadata(test.metadata)+"}")
		switch {
		case test.refused == "" && (a.status != http.StatusOK || a.header.Get("RateLimit") == ""):
			t.Errorf("%s %s: %d %s", test.path, test.metadata, a.status, a.body)
		case test.refused != "":
			checkError(t, a, "rate_limited", "")
			if !strings.Contains(string(a.body), test.refused) {
				t.Errorf("%s %s: %s", test.path, test.metadata, a.body)
			}
		}
	}
	// A request without an existing definition counts for its API key. It makes no subject
	// of the names in it.
	subjects := g.store.Limiter().Stats().Subjects
	for path, body := range map[string]string{
		"/v1/endpoints": `{"key":"nothing"`, "/v1/prompts": `{"keys":["nothing"]`, "/v1/remoteconfigs": `{"keys":["nothing"]`,
		"/v1/decisions": `{"prompts":["nothing"],"remoteconfigs":["nothing"]`, "/v1/chat/completions": `{"model":"nothing","messages":[]`,
	} {
		if a := g.post(path, body+`,"metadata":{"customer":"made up for `+path+`"}}`); a.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if got := g.store.Limiter().Stats().Subjects; got > subjects+1 { // one for unknown endpoints
		t.Errorf("%d subjects, there were %d", got, subjects)
	}
	g.holdUses("by endpoint", endpoints, "chat", 3)
	g.holdUses("by endpoint", endpoints, "other", 0)
	g.holdUses("what another limit refused", keys, "test", 5)
}

// TestMistakesCount checks that invalid requests count for every limit whose subject is
// known. If their definition does not exist, only the API key is known: their metadata
// may be invented.
func TestMistakesCount(t *testing.T) {
	t.Parallel()
	routes := []string{"endpoints", "chat", "messages", "count_tokens"}
	ceiling := []limit.Ceiling{yearly(limit.Requests, 5)}
	keys := &limit.Limit{Name: "keys", Routes: routes, Ceilings: []limit.Ceiling{yearly(limit.Requests, 100)}}
	customers := &limit.Limit{Name: "customers", By: limit.ByMetadata, Member: "customer", Routes: routes, Ceilings: ceiling}
	endpoints := &limit.Limit{Name: "endpoints", By: limit.ByEndpoint, Routes: routes, Ceilings: ceiling}
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { completion(w, "fine") })
	g := startGateway(t, single(), fakeProvider(u.URL), withLimits(keys, customers, endpoints))
	const acme = `,"metadata":{"customer":"acme"}}`
	for i, test := range []struct {
		path, body string
		status     int
	}{
		{"/v1/endpoints", `{"key":"nosuch"` + acme, http.StatusNotFound},
		{"/v1/chat/completions", `{"model":"nosuch","messages":[]` + acme, http.StatusNotFound},
		{"/v1/messages/count_tokens", `{"model":"nosuch","messages":[{"role":"user","content":"hi"}]` + acme, http.StatusNotFound},
		{"/v1/endpoints", `{"key":"chat","messages":[{"role":"user","content":"hi"}]` + acme, http.StatusBadRequest}, // takes none
		{"/v1/endpoints", `{"key":"chat","context":7` + acme, http.StatusBadRequest},
	} {
		a := g.post(test.path, test.body)
		counted := strings.Contains(a.header.Get("RateLimit"), `"customers";r=4;`)
		if a.status != test.status || counted != (i == 3) {
			t.Errorf("%s %s: %d %s, headers %v", test.path, test.body, a.status, a.body, a.header)
		}
	}
	// A body that can't be parsed has no metadata, and names no endpoint.
	for _, body := range []string{`{"key":`, `[]`} {
		if a := g.post("/v1/endpoints", body); a.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}
	if a := g.do(http.MethodPost, "/v1/endpoints", askChat, http.Header{"Authorization": {"Bearer " + testKey}, "Cadenza-Log": {"nonsense"}}); a.status != http.StatusBadRequest {
		t.Errorf("%d %s", a.status, a.body)
	}
	g.holdUses("by customer", customers, "acme", 1)
	g.holdUses("by endpoint", endpoints, "chat", 1)
	g.holdUses("unknown endpoints", endpoints, "", 3)
	g.holdUses("by key", keys, "test", 8)
	// At the limit they are refused like other requests.
	for range 2 {
		g.post("/v1/endpoints", `{"key":"nosuch"}`)
	}
	a := g.post("/v1/endpoints", `{"key":"another"}`)
	checkError(t, a, "rate_limited", "")
	if !strings.Contains(string(a.body), "Requests for unknown endpoints are counted together.") {
		t.Errorf("%s", a.body)
	}
}

// TestATokenBudget checks that calls are settled with their actual use, which replaces
// their maximum use.
func TestATokenBudget(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(call int64, w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, chunk("fine", "")+chunk("", "stop")+
				`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"small-1","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`+"\n\ndata: [DONE]\n\n")
			return
		}
		completion(w, "fine")
	})
	budget := &limit.Limit{Name: "budget", By: limit.ByWorkspace, Ceilings: []limit.Ceiling{yearly(limit.Tokens, 10_000), yearly(limit.Money, limit.Dollar), yearly(limit.Requests, 100)}}
	g := startGateway(t, single(), fakeProvider(u.URL), withLimits(budget))
	calls := int64(0)
	for _, path := range []string{"/v1/endpoints", "/v1/chat/completions", "/v1/responses", "/v1/messages"} {
		for _, stream := range []bool{false, true} {
			body := map[string]string{
				"/v1/endpoints":        `{"key":"chat","variables":{"question":"Why?"},`,
				"/v1/chat/completions": `{"model":"chat","messages":[],"variables":{"question":"Why?"},`,
				"/v1/responses":        `{"model":"chat","variables":{"question":"Why?"},`,
				"/v1/messages":         `{"model":"chat","messages":[],"variables":{"question":"Why?"},`,
			}[path] + fmt.Sprintf(`"stream":%t}`, stream)
			a := g.post(path, body).ok(t, path)
			// The call is settled before the caller has its answer.
			calls++
			if got, want := g.uses("default", budget, ""), [][2]int64{{10 * calls, 0}, {completionCost * calls, 0}, {calls, 0}}; fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s, stream %t: %v, want %v", path, stream, got, want)
			}
			if name := map[string]string{"/v1/chat/completions": "X-Ratelimit-Remaining-Tokens", "/v1/responses": "X-Ratelimit-Remaining-Tokens", "/v1/messages": "Anthropic-Ratelimit-Tokens-Remaining"}[path]; name != "" && !stream &&
				a.header.Get(name) != fmt.Sprint(10_000-10*calls) {
				t.Errorf("%s: %s is %q", path, name, a.header.Get(name))
			}
		}
	}
	// After an edit of the limit, the used amount stays.
	tight := *budget
	tight.Ceilings = []limit.Ceiling{yearly(limit.Tokens, 300), yearly(limit.Money, limit.Dollar), yearly(limit.Requests, 100)}
	g.load(fakeProvider(u.URL), withLimits(&tight))
	a := g.post("/v1/endpoints", askChat)
	checkError(t, a, "rate_limited", "")
	if message := a.json(t)["message"].(string); !strings.Contains(message, "The limit budget (tokens 300/366d by workspace) never has room for this call, which may use 4") || a.header.Get("X-Should-Retry") != "false" {
		t.Error(message)
	}
	tight.Ceilings = []limit.Ceiling{yearly(limit.Tokens, 460)}
	g.load(fakeProvider(u.URL), withLimits(&tight))
	if message := g.post("/v1/endpoints", askChat).json(t)["message"].(string); !strings.Contains(message, "has no room left for what this call may use, 4") || !strings.Contains(message, "A call with fewer max_tokens may fit.") {
		t.Error(message)
	}
	g.holdUses("refused calls use nothing", &tight, "", 10*calls)
}

// TestWrongUsage has a provider that reports impossible usage, or almost none.
func TestWrongUsage(t *testing.T) {
	t.Parallel()
	var usage atomic.Pointer[string]
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"c1","object":"chat.completion","created":1,"model":"small-1","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"stop"}],"usage":`+*usage.Load()+`}`)
	})
	customers := &limit.Limit{Name: "customers", By: limit.ByMetadata, Member: "customer", Ceilings: []limit.Ceiling{yearly(limit.Tokens, 1_000_000), yearly(limit.Money, 1000*limit.Dollar)}}
	g := startGateway(t, single(), fakeProvider(u.URL), withLimits(customers))
	for name, test := range map[string]struct {
		usage         string
		tokens, money int64
	}{
		"a sum alone":  {`{"total_tokens":60}`, 60, 0},
		"a text":       {`{"prompt_tokens":10,"completion_tokens":"50","total_tokens":60}`, 60, 10*2_000 + 50*10_000},
		"a rich model": {`{"prompt_tokens":10,"completion_tokens":50,"total_tokens":60,"cost":1e12}`, 60, 1<<53 - 1},
		"below zero":   {`{"prompt_tokens":10,"completion_tokens":50,"total_tokens":60,"cost":-3}`, 60, 10*2_000 + 50*10_000},
	} {
		usage.Store(&test.usage)
		g.post("/v1/endpoints", fmt.Sprintf(`{"key":"chat","variables":{"question":"Why?"},"metadata":{"customer":%q}}`, name)).ok(t, name)
		g.holdUses(name, customers, name, test.tokens, test.money)
	}
	// No caller can make such a call fit.
	message := g.post("/v1/endpoints", `{"key":"chat","variables":{"question":"Why?"},"metadata":{"customer":"a rich model"}}`).json(t)["message"].(string)
	if !strings.HasPrefix(message, "The limit customers (money 1000usd/366d by metadata.customer) is used up. There is room again in ") || strings.Contains(message, "max_tokens") {
		t.Error(message)
	}
}

// TestNoOvershoot makes a thousand concurrent calls that compete for the remaining part
// of a budget.
func TestNoOvershoot(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	gate := make(chan struct{})
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked.Add(1)
		<-gate
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"id":"c1","object":"chat.completion","created":1,"model":"small-1","choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"length"}],"usage":{"prompt_tokens":10,"completion_tokens":400,"total_tokens":410}}`)
	})
	open := sync.OnceFunc(func() { close(gate) })
	t.Cleanup(open) // the upstream ends only after its calls
	const cost = 10*2_000 + 400*10_000
	budget := &limit.Limit{Name: "budget", Ceilings: []limit.Ceiling{yearly(limit.Money, 10*cost)}}
	g := startGateway(t, single(), fakeProvider(u.URL), withLimits(budget))
	var group sync.WaitGroup
	var answered, refused, failed atomic.Int64
	for range 300 {
		group.Go(func() {
			a := g.post("/v1/endpoints", askChat)
			switch a.status {
			case http.StatusOK:
				answered.Add(1)
			case http.StatusTooManyRequests:
				if refused.Add(1) == 1 && (a.header.Get("Retry-After") != "1" || !strings.Contains(string(a.body), "as long as others are under way")) {
					t.Errorf("%s, headers %v", a.body, a.header)
				}
			default:
				failed.Add(1)
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	eventually(t, "all are asked or refused", func() bool { return asked.Load()+refused.Load()+failed.Load() >= 300 })
	open()
	group.Wait()
	n := answered.Load()
	if n < 5 || n > 10 || n+refused.Load() != 300 {
		t.Errorf("%d were answered, %d refused", n, refused.Load())
	}
	g.holdUses("exact", budget, "test", n*cost)
}

// TestAttemptsWithinABudget tests attempts after the first.
func TestAttemptsWithinABudget(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(body), `"large"`):
			completion(w, "by the large one")
		case strings.Contains(string(body), "wait"):
			time.Sleep(500 * time.Millisecond)
			completion(w, "at last")
		default:
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	// Enough for the small model, whose answers have 400 tokens, but not for both.
	budget := &limit.Limit{Name: "budget", By: limit.ByEndpoint, Ceilings: []limit.Ceiling{yearly(limit.Money, 10_000_000)}}
	files := endpointWith("fallback: [ { provider: fake, model: large } ]\nretry: { count: 0 }\n")
	files["definitions/endpoints/hedged.yaml"] = "prompt: reply\nhedge: { after: 50ms }\nfallback: [ { provider: fake, model: large } ]\n"
	g := startGateway(t, files, fakeProvider(u.URL), withLimits(budget))
	a := g.post("/v1/endpoints", askChat)
	checkError(t, a, "upstream_error", "")
	id := a.header.Get("Cadenza-Trace-Id")
	eventually(t, "the trace says why", func() bool {
		record, found := g.trace("data/cadenza.db", id)
		return found && len(record.Attempts) == 1 && strings.Contains(fmt.Sprint(record.Notes), "skipped fake/large: the budget has no room for what an attempt may cost")
	})
	a = g.post("/v1/endpoints", `{"key":"hedged","variables":{"question":"wait"}}`)
	if a.status != http.StatusOK || !strings.Contains(string(a.body), "at last") || a.header.Get("Cadenza-Attempts") != "1" {
		t.Errorf("hedged: %d %s", a.status, a.body)
	}
	g.holdUses("a hedge that was not made", budget, "hedged", completionCost)
	if u.Calls.Load() != 2 {
		t.Errorf("%d calls", u.Calls.Load())
	}
}

// TestABudgetKnowsExtra has definitions whose provider-specific parameters bound the
// answer, and ask for several answers.
func TestABudgetKnowsExtra(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { completion(w, "fine") })
	budget := &limit.Limit{Name: "budget", Ceilings: []limit.Ceiling{yearly(limit.Tokens, 5000)}}
	g := startGateway(t, map[string]string{
		"definitions/endpoints/chat.yaml": "prompt: reply\n",
		"definitions/prompts/reply.yaml": "provider: fake\nmodel: small\nmax_tokens: 1\nextra: { max_completion_tokens: 900, n: 7 }\n" +
			"messages: [ { role: user, content: hi } ]\n",
	}, fakeProvider(u.URL), withLimits(budget))
	a := g.post("/v1/endpoints", `{"key":"chat"}`)
	checkError(t, a, "rate_limited", "")
	if !strings.Contains(string(a.body), "never has room for this call, which may use 63") || u.Calls.Load() != 0 {
		t.Errorf("%s, %d calls", a.body, u.Calls.Load())
	}
}

// TestRememberedAnswersUseNothing tests cached answers, callers that wait for the same
// answer, and idempotency keys.
func TestRememberedAnswersUseNothing(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	u := newUpstream(t, func(call int64, w http.ResponseWriter, _ *http.Request) {
		if call == 1 {
			<-gate
		}
		completion(w, "fine")
	})
	// Enough for one call at a time.
	budget := &limit.Limit{Name: "budget", By: limit.ByWorkspace, Ceilings: []limit.Ceiling{yearly(limit.Tokens, 700), yearly(limit.Requests, 1000)}}
	files := endpointWith("cache: { ttl: 1h }\n")
	files["definitions/endpoints/once.yaml"] = "prompt: reply\nidempotency: true\n"
	g := startGateway(t, files, fakeProvider(u.URL), withLimits(budget))
	c := newCrowd(g)
	for range 20 {
		c.add(testKey, askChat)
	}
	eventually(t, "all wait", func() bool { return g.uses("default", budget, "")[1][1] == 20 })
	// Another question does not fit, and is not recorded.
	a := g.post("/v1/endpoints", `{"key":"chat","variables":{"question":"How?"}}`)
	checkError(t, a, "rate_limited", "")
	if a.header.Get("Cadenza-Trace-Id") != "" || !strings.Contains(string(a.body), "as long as others are under way") {
		t.Errorf("%s, headers %v", a.body, a.header)
	}
	close(gate)
	if statuses := c.wait(); statuses[http.StatusOK] != 20 {
		t.Errorf("statuses %v", statuses)
	}
	g.post("/v1/endpoints", askChat)
	g.holdUses("one call", budget, "", 10, 21)
	for range 3 {
		g.keyed("one", "/v1/endpoints", `{"key":"once","variables":{"question":"Why?"}}`).ok(t)
	}
	g.holdUses("a repetition counts as a request", budget, "", 20, 24)
}

// TestEveryEndingIsSettled ends calls in all unusual ways.
func TestEveryEndingIsSettled(t *testing.T) {
	t.Parallel()
	files := single()
	for _, name := range []string{"now", "hangs"} {
		files["definitions/prompts/"+name+".yaml"] = "provider: " + name + "\nmodel: small\nmax_tokens: 100\nmessages: [ { role: user, content: hello } ]\n"
		files["definitions/endpoints/"+name+".yaml"] = "prompt: " + name + "\nmax_attempts: 1\n"
	}
	hang := newHanging(t)
	budget := &limit.Limit{Name: "budget", By: limit.ByEndpoint, Ceilings: []limit.Ceiling{yearly(limit.Tokens, 1000), yearly(limit.Requests, 1000), {Measure: limit.InFlight, Most: 5}, yearly(limit.Money, limit.Dollar)}}
	g := startGateway(t, files, withLimits(budget), withProvider("now", panicking{}),
		withProvider("hangs", openaiProvider(hang.URL, openai.Quirks{})))
	// Invalid requests count as requests, and use no tokens.
	g.post("/v1/endpoints", `{"key":"now","variables":7}`)
	g.post("/v1/endpoints", `{"key":"now","context":{"locale":"nl"},"variables":{},"remoteconfigs":"x y"}`)
	if a := g.post("/v1/endpoints", `{"key":"now"}`); a.status != http.StatusInternalServerError {
		t.Errorf("a panic: %d %s", a.status, a.body)
	}
	eventually(t, "a panic counts as all that the call may use", func() bool {
		used := g.uses("default", budget, "now")
		return used[0][0] > 100 && used[0][1] == 0 && used[1][0] == 1 && used[2][0] == 0
	})
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		if response, err := g.send(ctx, http.MethodPost, "/v1/endpoints", `{"key":"hangs"}`, bearer(testKey)); err == nil {
			response.Body.Close()
		}
	})
	eventually(t, "the call is under way", func() bool {
		used := g.uses("default", budget, "hangs")
		return used[0][1] > 100 && used[2][0] == 1
	})
	cancel()
	group.Wait()
	eventually(t, "the caller is gone", func() bool {
		used := g.uses("default", budget, "hangs")
		return used[0][1] == 0 && used[1] == [2]int64{1, 0} && used[2][0] == 0
	})
	// Shutdown.
	group.Go(func() { g.post("/v1/endpoints", `{"key":"hangs"}`) })
	eventually(t, "another is under way", func() bool { return g.uses("default", budget, "hangs")[2][0] == 1 })
	g.current.Load().EndCalls()
	group.Wait()
	eventually(t, "the gateway stops", func() bool {
		used := g.uses("default", budget, "hangs")
		return used[0][1] == 0 && used[1] == [2]int64{2, 0} && used[2][0] == 0
	})
}

// TestRequestsUnderWay tests a limit of in_flight, which counts a request until its answer
// is sent.
func TestRequestsUnderWay(t *testing.T) {
	t.Parallel()
	l := &limit.Limit{Name: "few", Ceilings: []limit.Ceiling{{Measure: limit.InFlight, Most: 1}}}
	g := startGateway(t, workspace, withLimits(l), withWorkspace("partner", map[string]string{"other": otherKey}))
	connection, reader := g.dial(t)
	// A request counts as soon as its headers have come.
	fmt.Fprintf(connection, "POST /v1/endpoints HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", testKey, len(askChat))
	eventually(t, "the request is under way", func() bool { return g.uses("default", l, "test")[0][0] == 1 })
	a := g.post("/v1/endpoints", askChat)
	checkError(t, a, "rate_limited", "")
	if a.header.Get("Retry-After") != "1" || a.header.Get("X-Should-Retry") != "" || a.header.Get("RateLimit-Policy") != `"few";q=1;qu="concurrent-requests"` || a.header.Get("RateLimit") != `"few";r=0` ||
		!strings.Contains(string(a.body), "The limit few (in_flight 1 by api_key) has as many requests under way as it may have.") {
		t.Errorf("%s, headers %v", a.body, a.header)
	}
	fmt.Fprint(connection, askChat)
	response, err := http.ReadResponse(bufio.NewReader(reader), nil)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", response, err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	eventually(t, "it has ended", func() bool { return g.uses("default", l, "test")[0][0] == 0 })
	g.post("/v1/endpoints", askChat).ok(t)
}

// TestABudgetAsAField has a table that reads the used share of a limit before the request,
// which itself counts for the limit.
func TestABudgetAsAField(t *testing.T) {
	t.Parallel()
	l := &limit.Limit{Name: "fair", Ceilings: []limit.Ceiling{yearly(limit.Requests, 2), {Measure: limit.InFlight, Most: 1}}, Routes: []string{"remoteconfigs"}}
	files := single()
	files["definitions/remoteconfigs/used.yaml"] = "type: string\ndefault: none\ncolumns: [ budget.fair, value ]\nmatrix:\n  - [ 100.., all ]\n  - [ 50.., half ]\n"
	g := startGateway(t, files, withLimits(l))
	for _, want := range []string{"none", "half"} {
		if a := g.post("/v1/remoteconfigs", `{"keys":["used"]}`); a.status != http.StatusOK || !strings.Contains(string(a.body), `"value":"`+want+`"`) {
			t.Errorf("%d %s, want %s", a.status, a.body, want)
		}
	}
}
