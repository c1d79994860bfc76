package caddymodule_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// TestDocumentedCORS serves the manual's site for calls from browsers.
func TestDocumentedCORS(t *testing.T) {
	manual, err := os.ReadFile("../docs/caddyfile.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(manual), "### Calls from browsers\n")
	_, section, opens := strings.Cut(section, "```caddyfile\ngateway.example.com {\n")
	site, _, closes := strings.Cut(section, "\n}\n```")
	if !found || !opens || !closes {
		t.Fatal("docs/caddyfile.md has no site for calls from browsers")
	}
	g := startGateway(t, single(), options)
	g.site(options, site)

	const page = "https://app.example.com"
	list := func(a answer, name string) map[string]bool {
		words := make(map[string]bool)
		for _, word := range strings.Split(a.header.Get(name), ",") {
			words[strings.TrimSpace(word)] = true
		}
		return words
	}
	preflight := g.do(http.MethodOptions, "/v1/prompts", "", http.Header{
		"Origin": {page}, "Access-Control-Request-Method": {"POST"}, "Access-Control-Request-Headers": {"authorization,content-type"},
	})
	if preflight.status != http.StatusNoContent || len(preflight.body) != 0 || preflight.header.Get("Access-Control-Allow-Origin") != page ||
		!list(preflight, "Access-Control-Allow-Methods")["POST"] {
		t.Errorf("preflight: %d %s %v", preflight.status, preflight.body, preflight.header)
	}
	for _, name := range []string{"Authorization", "Content-Type", wire.HeaderIdempotencyKey, wire.HeaderLog} {
		if !list(preflight, "Access-Control-Allow-Headers")[name] {
			t.Errorf("the preflight answer does not allow %s", name)
		}
	}
	for _, test := range []struct {
		body, key string
		status    int
	}{
		{`{"keys":["hello"]}`, testKey, http.StatusOK},
		{`{"keys":["nothing"]}`, testKey, http.StatusNotFound},
		{`{"keys":["hello"]}`, "cadenza-no-such-key", http.StatusUnauthorized},
	} {
		header := bearer(test.key)
		header.Set("Origin", page)
		a := g.do(http.MethodPost, "/v1/prompts", test.body, header)
		if a.status != test.status || a.header.Get("Access-Control-Allow-Origin") != page || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s %v", test.body, a.status, a.body, a.header)
		}
		for _, name := range []string{
			wire.HeaderTraceID, wire.HeaderDecisionID, wire.HeaderRevision, wire.HeaderUnknownKeys, wire.HeaderAttempts,
			wire.HeaderServedBy, wire.HeaderCacheStatus, wire.HeaderDeprecation, wire.HeaderSunset, wire.HeaderIdempotentReplayed, "Retry-After",
		} {
			if !list(a, "Access-Control-Expose-Headers")[name] {
				t.Errorf("%d: %s is not exposed", a.status, name)
			}
		}
	}
	// Without such a site, cadenza answers a preflight request.
	g.site(options, "cadenza")
	if a := g.do(http.MethodOptions, "/v1/prompts", "", nil); a.status != http.StatusMethodNotAllowed {
		t.Errorf("a preflight without CORS: %d %v", a.status, a.header)
	}
}
