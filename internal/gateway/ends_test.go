package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/price"
)

// on parses a day.
func on(text string) price.Day {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		panic(err)
	}
	return price.Day{Time: t}
}

// TestHeadersOfTheEnd checks that the answers of an endpoint have the date of its end only if
// every target ends, and the date since which that is known only if each target has one.
func TestHeadersOfTheEnd(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { completion(w, "hello") })
	ending := price.Model{Deprecated: on("2026-10-14"), Shutdown: on("2027-01-14")}
	const alone, second = "", "fallback: [ { provider: fake, model: large } ]\n"
	for _, test := range []struct {
		name, endpoint      string
		small, large        price.Model
		deprecation, sunset string
	}{
		{"its model ends", alone, ending, price.Model{}, "@1791936000", "Thu, 14 Jan 2027 00:00:00 GMT"},
		{"the end was not announced to us", alone, price.Model{Shutdown: on("2027-04-01")}, price.Model{}, "", "Thu, 01 Apr 2027 00:00:00 GMT"},
		{"a fallback stays", second, ending, price.Model{ContextWindow: 1}, "", ""},
		{"its first target stays", second, price.Model{}, ending, "", ""},
		{"both end", second, price.Model{Deprecated: on("2026-11-01"), Shutdown: on("2026-12-11")}, ending, "@1793491200", "Thu, 14 Jan 2027 00:00:00 GMT"},
		{"canned stays", "fallback: [ { provider: canned, extra: { answer: Later. } } ]\n", ending, price.Model{}, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := startGateway(t, endpointWith(test.endpoint), fakeProvider(u.URL), with(func(c *gw.WorkspaceConfig) {
				c.Prices = map[string]*price.Price{"small": {Model: test.small}, "large": {Model: test.large}}
			}))
			a := g.post("/v1/endpoints", `{"key":"chat",`+question+`}`)
			if got := [...]string{a.header.Get("Deprecation"), a.header.Get("Sunset")}; a.status != http.StatusOK || got != [...]string{test.deprecation, test.sunset} {
				t.Errorf("%d %s: %q", a.status, a.body, got)
			}
		})
	}
}

// TestTargetsEnd checks that a target and a metric have the day on which the provider
// ceases to serve the model.
func TestTargetsEnd(t *testing.T) {
	t.Parallel()
	g, _ := startScripted(t, "", with(func(c *gw.WorkspaceConfig) {
		c.Prices = map[string]*price.Price{"scripted/small": {Model: price.Model{Shutdown: on("2027-01-14"), Successor: "next"}}}
	}))
	for _, target := range g.current.Load().Workspace("default").Targets() {
		ends := target.Target == "scripted/small"
		if (target.Shutdown == on("2027-01-14")) != ends || (target.Successor == "next") != ends {
			t.Errorf("%+v", target)
		}
	}
	const metric = "\ncadenza_model_shutdown_timestamp_seconds"
	if scrape := g.scrape(); strings.Count(scrape, metric) != 1 || !strings.Contains(scrape, metric+`{model="small",provider="scripted",workspace="default"} 1.7998848e+09`+"\n") {
		_, series, _ := strings.Cut(scrape, metric)
		t.Errorf("%.100s", series)
	}
}

// TestHeadersOfTheEndEverywhere checks the headers of each API: in whole answers, streams,
// repeated answers and errors, but not in answers with prompts.
func TestHeadersOfTheEndEverywhere(t *testing.T) {
	t.Parallel()
	ending := &price.Price{Model: price.Model{Deprecated: on("2026-10-14"), Shutdown: on("2027-01-14")}}
	g, s := startScripted(t, "idempotency: true\n", with(func(c *gw.WorkspaceConfig) {
		c.Prices = map[string]*price.Price{"small": ending, "klein": ending, "large": ending}
	}))
	check := func(what string, a answer, status int, want string) {
		t.Helper()
		if got := a.header.Get("Sunset"); a.status != status || got != want || (a.header.Get("Deprecation") == "") != (want == "") {
			t.Errorf("%s: %d %s, %q", what, a.status, a.body, got)
		}
	}
	const ends = "Thu, 14 Jan 2027 00:00:00 GMT"
	for path, body := range map[string]string{
		"/v1/endpoints":        `{"key":"team/talk","messages":[` + user + `]`,
		"/v1/chat/completions": `{"model":"team/talk","messages":[` + user + `]`,
		"/v1/responses":        `{"model":"team/talk","store":false,"input":[` + user + `]`,
		"/v1/messages":         `{"model":"team/talk","max_tokens":50,"messages":[` + user + `]`,
	} {
		check(path, g.post(path, body+"}"), http.StatusOK, ends)
		check(path+" as a stream", g.post(path, body+`,"stream":true}`), http.StatusOK, ends)
	}
	const body = `{"key":"team/talk","messages":[` + user + `]}`
	for _, what := range []string{"the first", "again"} {
		check(what, g.keyed("once", "/v1/endpoints", body), http.StatusOK, ends)
	}
	s.mu.Lock()
	s.fail = true
	s.mu.Unlock()
	check("an error", g.post("/v1/endpoints", body), http.StatusBadGateway, ends)
	check("a prompt", g.post("/v1/prompts", `{"keys":["talk"]}`), http.StatusOK, "")
	check("another endpoint", g.post("/v1/endpoints", `{"key":"none"}`), http.StatusNotFound, "")
}
