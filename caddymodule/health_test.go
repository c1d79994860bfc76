package caddymodule_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestHealthOnItsSites serves both routes together with cadenza, without it, below a
// prefix and before a handler that answers everything.
func TestHealthOnItsSites(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("the backend"))
	}))
	defer backend.Close()
	g := startGateway(t, workspace, options)
	for _, test := range []struct{ name, site, prefix, elsewhere string }{
		{"beside cadenza", "cadenza\ncadenza_health", "", "not_found"},
		{"without cadenza", "cadenza_health", "", ""},
		{"before an answer to everything", "respond elsewhere\ncadenza_health", "", "elsewhere"},
		{"before a proxy", "reverse_proxy " + backend.URL + "\ncadenza_health", "", "the backend"},
		{"below a prefix", "handle_path /llm/* {\ncadenza\ncadenza_health\n}", "/llm", "not_found"},
		{"in a route", "route {\ncadenza_health\ncadenza\n}", "", "not_found"},
		{"in a group", "handle {\ncadenza\n}\nhandle /readyz {\ncadenza_health\n}\nhandle /healthz {\ncadenza_health\n}", "", "not_found"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g.t = t
			g.site(options, test.site)
			for path, want := range map[string]string{
				"/healthz": `{"status":"ok"}`,
				"/readyz":  `"degraded":[{"code":"provider_unavailable","since":`, // "fake" is not configured
			} {
				a := g.do("GET", test.prefix+path, "", nil)
				if a.status != http.StatusOK || !strings.Contains(string(a.body), want) || a.header.Get("Content-Type") != "application/json" {
					t.Errorf("%s: %d %s", path, a.status, a.body)
				}
				if a := g.do("HEAD", test.prefix+path, "", nil); a.status != http.StatusOK || len(a.body) > 0 {
					t.Errorf("HEAD %s: %d %s", path, a.status, a.body)
				}
			}
			if a := g.do("GET", test.prefix+"/elsewhere", "", nil); !strings.Contains(string(a.body), test.elsewhere) || strings.Contains(string(a.body), "degraded") {
				t.Errorf("elsewhere: %d %s", a.status, a.body)
			}
		})
	}
	g.t = t
	// A handler that refuses requests refuses these, too.
	g.site(options, "@local path /readyz\nerror @local 403\ncadenza_health\ncadenza")
	g.expect("GET", "/readyz", "", http.StatusForbidden, "")
	g.expect("GET", "/healthz", "", http.StatusOK, "ok")
}

// TestHealthNeedsTheApp checks that a configuration without a cadenza block is refused.
func TestHealthNeedsTheApp(t *testing.T) {
	err := loadCaddyfile("{\n\tadmin off\n\tpersist_config off\n}\nhttp://127.0.0.1:0 {\n\tcadenza_health\n}\n")
	if err == nil || !strings.Contains(err.Error(), "no workspace is configured") {
		t.Errorf("%v", err)
	}
}

// TestHealthOfAListenerThatCloses reloads with another listener: the previous one is not
// ready during its shutdown_delay, while the process continues.
func TestHealthOfAListenerThatCloses(t *testing.T) {
	g := startGateway(t, workspace, options)
	config := strings.Replace(g.caddyfile(options), "\tcadenza\n}\n", "\tcadenza_health\n}\n", 1)
	if err := g.loadText(strings.Replace(config, "admin off", "admin off\nshutdown_delay 5s", 1)); err != nil {
		t.Fatal(err)
	}
	g.expect("GET", "/readyz", "", http.StatusOK, "degraded")
	loaded := make(chan error, 1)
	go func() { loaded <- loadCaddyfile(strings.ReplaceAll(config, g.socket, g.socket+"2")) }()
	eventually(t, "the former listener is not ready", func() bool {
		return g.do("GET", "/readyz", "", nil).status == http.StatusServiceUnavailable
	})
	g.expect("GET", "/healthz", "", http.StatusOK, "ok")
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
}
