package caddymodule_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestOrderOfDirectives serves sites that share their paths with other
// directives, written in several orders.
func TestOrderOfDirectives(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("the backend"))
	}))
	defer backend.Close()
	g := startGateway(t, workspace, options)

	directives := []string{"respond /healthz 200", "metrics /metrics", "@v1 path /v1/*\ncadenza @v1", "reverse_proxy " + backend.URL}
	for turn := range directives {
		g.site(options, strings.Join(append(directives[turn:len(directives):len(directives)], directives[:turn]...), "\n"))
		g.expect("GET", "/healthz", "", http.StatusOK, "")
		g.expect("GET", "/metrics", "", http.StatusOK, "cadenza_requests_total")
		g.expect("POST", "/v1/prompts", `{"keys":["hello"]}`, http.StatusOK, `"hello"`)
		g.expect("GET", "/elsewhere", "", http.StatusOK, "the backend")
	}

	// Without a matcher cadenza gets all requests that earlier handlers do not answer.
	for _, site := range []string{
		"respond /healthz 200\nmetrics /metrics\ncadenza\nreverse_proxy " + backend.URL,
		"reverse_proxy " + backend.URL + "\ncadenza\nmetrics /metrics\nrespond /healthz 200",
	} {
		g.site(options, site)
		g.expect("GET", "/healthz", "", http.StatusOK, "")
		g.expect("GET", "/metrics", "", http.StatusOK, "cadenza_requests_total")
		g.expect("POST", "/v1/prompts", `{"keys":["hello"]}`, http.StatusOK, `"hello"`)
		g.expect("POST", "/elsewhere", "", http.StatusNotFound, `"error"`)
	}

	// So do the directives of single routes, which come before cadenza.
	for name, route := range map[string]struct{ body, want string }{
		"cadenza_prompts":       {`{"keys":["hello"]}`, `"hello"`},
		"cadenza_endpoints":     {`{"key":"chat",` + question + `}`, "one two three"},
		"cadenza_remoteconfigs": {`{"keys":["checkout"]}`, `"checkout"`},
		"cadenza_decisions":     {`{"prompts":["hello"]}`, `"hello"`},
		"cadenza_metrics":       {`{}`, "no_metrics"},
		"cadenza_evaluate":      {`{"rule_key":"checkout"}`, `{"checkout":false}`},
	} {
		g.site(options+"\nlegacy\n", "reverse_proxy "+backend.URL+"\ncadenza\n"+name+" /here*\nmetrics /here/metrics\nrespond /here/healthz 200")
		status := http.StatusOK
		if name == "cadenza_metrics" {
			status = http.StatusBadRequest // the report is empty
		}
		g.expect("GET", "/here/healthz", "", http.StatusOK, "")
		g.expect("GET", "/here/metrics", "", http.StatusOK, "cadenza_requests_total")
		g.expect("POST", "/here", route.body, status, route.want)
	}
}

// expect makes a request with the test's key, and checks the answer.
func (g *gateway) expect(method, path, body string, status int, want string) {
	g.t.Helper()
	a := g.do(method, path, body, bearer(testKey))
	if a.status != status || !strings.Contains(string(a.body), want) {
		g.t.Errorf("%s %s: %d %s, want %d with %q", method, path, a.status, a.body, status, want)
	}
}
