package gateway

import (
	"bytes"
	"context"
	_ "embed"
	"html/template"
	"net/http"
	"strconv"
	"strings"
)

//go:embed welcome.html
var welcomeText string

var welcome = template.Must(template.New("welcome").Parse(welcomeText))

// isVisitAtRoot reports whether somebody opened the gateway's address in a browser, or asks
// by HEAD whether there is something, as Claude Code does before its first call. Other
// programs get the JSON of an unknown route. A site whose root is not the gateway's never
// comes here: its routes have other paths.
func isVisitAtRoot(r *http.Request) bool {
	return r.URL.Path == "/" && (r.Method == http.MethodHead ||
		r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html"))
}

// writeWelcome answers with a page that names the product and its routes. The page shows
// nothing of the configuration, because the request has no key.
func writeWelcome(w http.ResponseWriter, r *http.Request) {
	type listed struct{ Method, Path string }
	page := struct {
		Origin  string
		Console bool
		Routes  []listed
	}{Origin: "http://" + r.Host, Console: r.Context().Value(consoleKey{}) != nil}
	if r.TLS != nil {
		page.Origin = "https://" + r.Host
	}
	for _, to := range routes[1:] {
		page.Routes = append(page.Routes, listed{to.method, to.path})
	}
	var body bytes.Buffer
	_ = welcome.Execute(&body, page) // never fails: the page has these members
	h := w.Header()
	h["Content-Type"] = []string{"text/html; charset=utf-8"}
	h["Content-Length"] = []string{strconv.Itoa(body.Len())}
	h["Cache-Control"] = []string{"no-store"}
	h["Content-Security-Policy"] = []string{"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	_, _ = w.Write(body.Bytes()) // a browser that left has no use for the error
}

// consoleKey marks the requests of a site that serves the console.
type consoleKey struct{}

// WithConsole has the page at the root link to the console, which the site of the request
// serves at /console/.
func WithConsole(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), consoleKey{}, true))
}
