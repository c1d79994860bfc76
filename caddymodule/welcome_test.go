package caddymodule_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestRoot checks that a browser gets a page at /, that a program gets the same JSON as
// everywhere, and that neither needs a key.
func TestRoot(t *testing.T) {
	g := startGateway(t, workspace, options)
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	for _, tt := range []struct {
		method, path, accept string
		status               int
		media, body          string
	}{
		{"GET", "/", browser, http.StatusOK, "text/html; charset=utf-8", "<td><code>/v1/prompts</code></td>"},
		{"HEAD", "/", browser, http.StatusOK, "text/html; charset=utf-8", ""},
		{"HEAD", "/", "", http.StatusOK, "text/html; charset=utf-8", ""},
		{"HEAD", "/", "*/*", http.StatusOK, "text/html; charset=utf-8", ""},
		{"HEAD", "/index.html", "*/*", http.StatusNotFound, "application/json", ""},
		{"GET", "/", "*/*", http.StatusNotFound, "application/json", `"code":"not_found"`},
		{"GET", "/", "", http.StatusNotFound, "application/json", `"code":"not_found"`},
		{"POST", "/", browser, http.StatusNotFound, "application/json", `"code":"not_found"`},
		{"GET", "/index.html", browser, http.StatusNotFound, "application/json", `"code":"not_found"`},
		{"GET", "/v1/models", browser, http.StatusUnauthorized, "application/json", `"code":"invalid_api_key"`},
	} {
		a := g.do(tt.method, tt.path, "", http.Header{"Accept": {tt.accept}})
		if a.status != tt.status || a.header.Get("Content-Type") != tt.media || !strings.Contains(string(a.body), tt.body) {
			t.Errorf("%s %s for %q: %d %s\n%s", tt.method, tt.path, tt.accept, a.status, a.header.Get("Content-Type"), a.body)
		}
	}
	page := string(g.do("GET", "/", "", http.Header{"Accept": {browser}}).body)
	if !strings.Contains(page, "curl -s http://gateway/v1/models") || strings.Contains(page, "{{") {
		t.Errorf("the page:\n%s", page)
	}
	// Where the root is another's, it answers.
	g.site(options, "handle /v1/* {\ncadenza\n}\nhandle {\nrespond 418\n}")
	if a := g.do("HEAD", "/", "", nil); a.status != http.StatusTeapot {
		t.Errorf("the site of another: %d", a.status)
	}
}
