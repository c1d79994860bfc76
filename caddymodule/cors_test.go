package caddymodule_test

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/internal/wire"
)

const page1, page2 = "https://app.example.com", "https://keys.example.com"

// corsHeaders are the headers that CORS adds to answers.
var corsHeaders = []string{
	"Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Access-Control-Allow-Methods",
	"Access-Control-Allow-Headers", "Access-Control-Max-Age",
}

// words returns the words of a header that is a list.
func words(a answer, name string) map[string]bool {
	found := make(map[string]bool)
	for _, word := range strings.Split(a.header.Get(name), ",") {
		found[strings.ToLower(strings.TrimSpace(word))] = true
	}
	return found
}

// hasNone reports whether an answer has no header of CORS.
func hasNone(a answer) bool {
	for _, name := range corsHeaders {
		if a.header[name] != nil {
			return false
		}
	}
	return true
}

// from returns the headers of a request of a page.
func from(origin, key string) http.Header {
	header := bearer(key)
	header.Set("Origin", origin)
	return header
}

// preflight asks for the leave to call a route.
func (g *gateway) preflight(origin, path, method string) answer {
	g.t.Helper()
	return g.do(http.MethodOptions, path, "", http.Header{
		"Origin": {origin}, "Access-Control-Request-Method": {method}, "Access-Control-Request-Headers": {"authorization,content-type"},
	})
}

// TestCORS calls routes of apps as pages do: of an origin that cors names, of one that a key
// has, and of others.
func TestCORS(t *testing.T) {
	g := startGateway(t, single(), options)
	withConsole := strings.Replace(g.caddyfile(options), "\tcadenza\n}\n", "\tcadenza_console {\n\t\tinsecure_http\n\t}\n\tcadenza\n}\n", 1)

	// Without cors nothing is sent, and OPTIONS is no method.
	if a := g.preflight(page1, "/v1/prompts", "POST"); a.status != http.StatusMethodNotAllowed || !hasNone(a) || a.header["Vary"] != nil {
		t.Errorf("a preflight without cors: %d %v", a.status, a.header)
	}
	if a := g.do(http.MethodPost, "/v1/prompts", `{"keys":["hello"]}`, from(page1, testKey)); a.status != http.StatusOK || !hasNone(a) || a.header["Vary"] != nil {
		t.Errorf("an answer without cors: %d %v", a.status, a.header)
	}

	g.write("keys.json", keyList(keyOf("web", otherKey, `,"kind":"client","origins":["`+page2+`"]`)))
	configured := strings.Replace(withConsole, "cadenza {", "cadenza {\n\t\tcors "+page1+"\n\t\tkeys "+g.dir+"/keys.json", 1)
	if err := g.loadText(configured); err != nil {
		t.Fatal(err)
	}
	for path, method := range map[string]string{
		"/v1/prompts": "POST", "/v1/endpoints": "POST", "/v1/chat/completions": "POST", "/v1/messages": "POST", "/v1/remoteconfigs": "POST",
		"/v1/models": "GET", "/v1/models/chat": "GET", "/v2/prompts/0193c1a0-7b00-8223-a456-0123456789ab/metrics": "POST",
	} {
		for _, origin := range []string{page1, page2} {
			a := g.preflight(origin, path, method)
			if a.status != http.StatusNoContent || len(a.body) != 0 || a.header.Get("Access-Control-Allow-Origin") != origin ||
				a.header.Get("Access-Control-Allow-Methods") != method || a.header.Get("Access-Control-Max-Age") != "7200" || a.header.Get("Vary") != "Origin" {
				t.Errorf("%s: %d %v %s", path, a.status, a.header, a.body)
			}
			for _, name := range []string{"Authorization", "X-API-Key", "Content-Type", "If-None-Match", wire.HeaderIdempotencyKey, wire.HeaderLog, "*"} {
				if !words(a, "Access-Control-Allow-Headers")[strings.ToLower(name)] {
					t.Errorf("%s: the preflight answer does not allow %s", path, name)
				}
			}
		}
		for _, origin := range []string{"https://other.example", "null", strings.ToUpper(page1), page1 + ".evil.example"} {
			if a := g.preflight(origin, path, method); a.status != http.StatusNoContent || !hasNone(a) || a.header.Get("Vary") != "Origin" {
				t.Errorf("%s of %s: %d %v", path, origin, a.status, a.header)
			}
		}
	}
	for _, test := range []struct {
		method, path, body, key, origin string
		status                          int
	}{
		{"POST", "/v1/prompts", `{"keys":["hello"]}`, testKey, page1, 200},
		{"POST", "/v1/prompts", `{"keys":["nothing"]}`, testKey, page1, 404},
		{"POST", "/v1/prompts", `{`, testKey, page2, 400},
		{"POST", "/v1/prompts", `{"keys":["hello"]}`, "cadenza-no-such-key", page1, 401},
		{"POST", "/v1/prompts", `{"keys":["hello"]}`, otherKey, page2, 403},
		{"POST", "/v1/remoteconfigs", `{"keys":["checkout"]}`, otherKey, page2, 404},
		{"POST", "/v1/remoteconfigs", `{"keys":["checkout"]}`, otherKey, page1, 403}, // cors names the page, the key does not
		{"GET", "/v1/prompts", "", testKey, page1, 405},
		{"OPTIONS", "/v1/prompts", "", testKey, page1, 405}, // no preflight: it asks for no method
		{"GET", "/v1/models", "", testKey, page1, 200},
		{"POST", "/v1/messages", `{}`, testKey, page1, 400},
		{"POST", "/v1/endpoints", `{"key":"chat",` + question + `}`, testKey, page1, 502},
	} {
		a := g.do(test.method, test.path, test.body, from(test.origin, test.key))
		if a.status != test.status && test.status != 502 || a.header.Get("Access-Control-Allow-Origin") != test.origin || a.header.Get("Vary") != "Origin" || a.header.Get("Content-Type") != "application/json" {
			t.Errorf("%+v: %d %s %v", test, a.status, a.body, a.header)
		}
		for _, name := range []string{
			"ETag", "Retry-After", wire.HeaderTraceID, wire.HeaderDecisionID, wire.HeaderRevision, wire.HeaderUnknownKeys, wire.HeaderAttempts,
			wire.HeaderServedBy, wire.HeaderIgnored, wire.HeaderUsage, wire.HeaderCacheStatus, wire.HeaderDeprecation, wire.HeaderSunset, wire.HeaderIdempotentReplayed, wire.HeaderShouldRetry,
		} {
			if !words(a, "Access-Control-Expose-Headers")[strings.ToLower(name)] {
				t.Errorf("%s %d: %s is not exposed", test.path, a.status, name)
			}
		}
		other := g.do(test.method, test.path, test.body, from("https://other.example", test.key))
		if !hasNone(other) || other.header.Get("Vary") != "Origin" {
			t.Errorf("%s for another origin: %v", test.path, other.header)
		}
	}
	if a := g.post("/v1/prompts", `{"keys":["hello"]}`); a.status != http.StatusOK || !hasNone(a) || a.header.Get("Vary") != "Origin" {
		t.Errorf("without an origin: %d %v", a.status, a.header)
	}
	// What is no route of apps has none.
	for _, path := range []string{"/console/", "/console/signin", "/console/api/status", "/nothing", "/", "/cadenza/status"} {
		for _, method := range []string{"GET", "POST"} {
			if a := g.do(method, path, "", from(page1, testKey)); !hasNone(a) {
				t.Errorf("%s %s: %d %v", method, path, a.status, a.header)
			}
		}
		if a := g.preflight(page1, path, "GET"); a.status < 400 || !hasNone(a) {
			t.Errorf("a preflight of %s: %d %v", path, a.status, a.header)
		}
	}

	// A page whose key is revoked is no longer named, and one whose key is added is.
	g.write("keys.json", keyList(keyOf("web", otherKey, `,"revoked":true,"origins":["`+page2+`"]`), keyOf("new", "cadenza-key-of-new-pages", `,"origins":["https://new.example"]`)))
	eventually(t, "the key's page is gone", func() bool { return hasNone(g.preflight(page2, "/v1/prompts", "POST")) })
	if a := g.preflight("https://new.example", "/v1/prompts", "POST"); hasNone(a) {
		t.Errorf("a new key's page: %v", a.header)
	}
	// All pages.
	if err := g.loadText(strings.Replace(configured, "cors "+page1, "cors *", 1)); err != nil {
		t.Fatal(err)
	}
	for _, a := range []answer{
		g.preflight("null", "/v1/prompts", "POST"), g.do(http.MethodPost, "/v1/prompts", `{"keys":["hello"]}`, from("https://any.example", testKey)),
	} {
		if a.header.Get("Access-Control-Allow-Origin") != "*" || a.header.Get("Vary") != "Origin" {
			t.Errorf("all pages: %d %v", a.status, a.header)
		}
	}
	if a := g.preflight(page1, "/console/", "GET"); !hasNone(a) {
		t.Errorf("the console for all pages: %v", a.header)
	}
}

// TestCORSOfStreams checks the headers of a stream, and of one that a 403 refuses.
func TestCORSOfStreams(t *testing.T) {
	files := single()
	files["definitions/prompts/say.yaml"] = "provider: canned\nextra: { answer: one two three }\nmessages: [ { role: user, content: Hi. } ]\n"
	files["definitions/endpoints/say.yaml"] = "prompt: say\n"
	g := startGateway(t, files, "cors "+page1+options)
	a := g.do(http.MethodPost, "/v1/endpoints", `{"key":"say","stream":true}`, from(page1, testKey)).ok(t, "a stream")
	if !strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") || a.header.Get("Access-Control-Allow-Origin") != page1 ||
		!words(a, "Access-Control-Expose-Headers")["cadenza-trace-id"] || !strings.Contains(string(a.body), "three") {
		t.Errorf("%v %s", a.header, a.body)
	}
	if a := g.do(http.MethodPost, "/v1/endpoints", `{"key":"say","stream":true}`, from("https://other.example", testKey)); a.status != http.StatusOK || !hasNone(a) {
		t.Errorf("%d %v", a.status, a.header)
	}
}

// TestDocumentedCORS serves the manual's site for calls from browsers.
func TestDocumentedCORS(t *testing.T) {
	manual, err := os.ReadFile("../docs/caddyfile.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(manual), "### Calls from browsers\n")
	_, section, opens := strings.Cut(section, "\t\tdefinitions ./definitions\n")
	block, _, closes := strings.Cut(section, "\n\t}\n}\n")
	if !found || !opens || !closes {
		t.Fatal("docs/caddyfile.md has no options for calls from browsers")
	}
	t.Setenv("CADENZA_API_KEY", "cadenza-manual-key-of-apps")
	t.Setenv("CADENZA_WEB_KEY", otherKey)
	files := single()
	files["definitions/remoteconfigs/shown.yaml"] = "type: number\nclient: true\ndefault: 7\n"
	g := startGateway(t, files, options+block)
	for origin, status := range map[string]int{page1: 200, "https://admin.example.com:8443": 403} {
		if a := g.preflight(origin, "/v1/remoteconfigs", "POST"); a.status != http.StatusNoContent || a.header.Get("Access-Control-Allow-Origin") != origin {
			t.Errorf("%s: %d %v", origin, a.status, a.header)
		}
		a := g.do(http.MethodPost, "/v1/remoteconfigs", `{"keys":["shown"]}`, from(origin, otherKey))
		if a.status != status || a.header.Get("Access-Control-Allow-Origin") != origin {
			t.Errorf("%s: %d %s %v", origin, a.status, a.body, a.header)
		}
		if status == http.StatusForbidden {
			gatewaytest.CheckError(t, gatewaytest.Answer{Status: a.status, Header: a.header, Body: a.body}, "key_not_allowed", "")
		}
	}
}
