package console

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/cadenza-gateway/cadenza/internal/gateway"
)

const goodKey = "a-key-of-the-console"

// keys is an app with two keys. One of them counts on this machine alone.
type keys struct{}

func (keys) SignIn(key string, _ time.Time) (gateway.Visitor, bool) {
	return gateway.Visitor{Workspace: "w", Key: "ops", Role: gateway.RoleAdmin, Loopback: strings.HasPrefix(key, "local")}, strings.HasSuffix(key, goodKey)
}

func (keys) NewSession(v gateway.Visitor, _ time.Time) (string, bool) {
	if v.Loopback {
		return "local", true
	}
	return "sealed", true
}

func (keys) Session(sealed string, _ time.Time) (gateway.Visitor, bool) {
	return gateway.Visitor{Workspace: "w", Key: "ops", Role: gateway.RoleAdmin, Loopback: sealed == "local"}, sealed == "sealed" || sealed == "local"
}

func (keys) WorkspaceNamed(name string) (string, error) {
	if name == "missing" {
		return "", errors.New("there is no workspace missing")
	}
	return "w", nil
}

func (keys) ServeConsole(*caddyhttp.Server) {}

// newHandler returns a console and forgets the attempts of other tests.
func newHandler(t *testing.T) *Handler {
	t.Cleanup(func() { clear(tries.byName) })
	clear(tries.byName)
	h := &Handler{app: keys{}, logger: zap.NewNop()}
	h.mux = h.routes()
	return h
}

// serve answers a request that came by a way, with Caddy's variables.
func serve(t *testing.T, h *Handler, r *http.Request, vars map[string]any) *httptest.ResponseRecorder {
	t.Helper()
	if vars == nil {
		vars = make(map[string]any)
	}
	if vars[caddyhttp.ClientIPVarKey] == nil {
		vars[caddyhttp.ClientIPVarKey] = "192.0.2.1"
	}
	w := httptest.NewRecorder()
	next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) error {
		w.WriteHeader(http.StatusTeapot)
		return nil
	})
	if err := h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, vars)), next); err != nil {
		t.Fatal(err)
	}
	return w
}

func form(key, to string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "http://localhost/console/sign-in", strings.NewReader(url.Values{"key": {key}, "to": {to}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.RemoteAddr = "127.0.0.1:4711"
	return r
}

// TestWaysOfKeys has keys come every way that a request can come.
func TestWaysOfKeys(t *testing.T) {
	for _, test := range []struct {
		name, key, peer, host string
		header, value         string
		tls, trusted, option  bool
		cookie                string // its name; empty: the sign-in is refused
	}{
		{"loopback", goodKey, "127.0.0.1:1", "localhost:8080", "", "", false, false, false, plainCookie},
		{"loopback by IPv6", goodKey, "[::1]:1", "[::1]:8080", "", "", false, false, false, plainCookie},
		{"loopback by a name below localhost", goodKey, "127.0.0.1:1", "cadenza.localhost", "", "", false, false, false, plainCookie},
		{"loopback by a strange host", goodKey, "127.0.0.1:1", "evil.example:8080", "", "", false, false, false, ""},
		{"loopback by a host that ends alike", goodKey, "127.0.0.1:1", "notlocalhost", "", "", false, false, false, ""},
		{"loopback behind a proxy", goodKey, "127.0.0.1:1", "localhost", "X-Forwarded-For", "192.0.2.1", false, false, false, ""},
		{"loopback behind another proxy", goodKey, "127.0.0.1:1", "localhost", "Via", "1.1 proxy", false, false, false, ""},
		{"loopback behind a proxy that adds to an empty header", goodKey, "127.0.0.1:1", "localhost", "X-Forwarded-For", "|192.0.2.1", false, false, false, ""},
		{"loopback behind a CDN", goodKey, "127.0.0.1:1", "localhost", "CF-Connecting-IP", "192.0.2.1", false, false, false, ""},
		{"plain HTTP", goodKey, "192.0.2.1:1", "localhost", "", "", false, false, false, ""},
		{"plain HTTP, allowed", goodKey, "192.0.2.1:1", "gateway", "", "", false, false, true, plainCookie},
		{"HTTPS", goodKey, "192.0.2.1:1", "gateway.example.com", "", "", true, false, false, secureCookie},
		{"HTTPS at a trusted proxy", goodKey, "192.0.2.1:1", "gateway.example.com", "X-Forwarded-Proto", "https", false, true, false, secureCookie},
		{"HTTPS at a proxy that is not trusted", goodKey, "192.0.2.1:1", "gateway.example.com", "X-Forwarded-Proto", "https", false, false, false, ""},
		{"HTTP at a trusted proxy", goodKey, "192.0.2.1:1", "gateway.example.com", "X-Forwarded-Proto", "http", false, true, false, ""},
		{"a local role on loopback", "local-" + goodKey, "127.0.0.1:1", "localhost", "", "", false, false, false, plainCookie},
		{"a local role over HTTPS", "local-" + goodKey, "192.0.2.1:1", "gateway.example.com", "", "", true, false, false, ""},
		{"a local role, allowed in plain", "local-" + goodKey, "192.0.2.1:1", "gateway", "", "", false, false, true, ""},
		{"a wrong key", "another-key-of-16", "127.0.0.1:1", "localhost", "", "", false, false, false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHandler(t)
			h.InsecureHTTP = test.option
			way := func(r *http.Request) *http.Request {
				r.RemoteAddr, r.Host = test.peer, test.host
				if test.header != "" {
					r.Header[http.CanonicalHeaderKey(test.header)] = strings.Split(test.value, "|")
				}
				if test.tls {
					r.TLS = new(tls.ConnectionState)
				}
				return r
			}
			vars := map[string]any{caddyhttp.TrustedProxyVarKey: test.trusted}
			w := serve(t, h, way(form(test.key, "/console/traces?key=a")), vars)
			cookies := w.Result().Cookies()
			if test.cookie == "" {
				if w.Code != http.StatusForbidden || len(cookies) > 0 {
					t.Fatalf("%d, %v", w.Code, cookies)
				}
				// A session that was made elsewhere is of no use here.
				for _, name := range []string{plainCookie, secureCookie} {
					r := way(httptest.NewRequest(http.MethodGet, "http://x/console/api/status", http.NoBody))
					r.AddCookie(&http.Cookie{Name: name, Value: map[bool]string{true: "local", false: "sealed"}[strings.HasPrefix(test.key, "local")]})
					if w := serve(t, h, r, vars); w.Code != http.StatusUnauthorized && test.key != "another-key-of-16" {
						t.Errorf("a session in %s: %d", name, w.Code)
					}
				}
				return
			}
			if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/console/traces?key=a" || len(cookies) != 1 {
				t.Fatalf("%d, %v", w.Code, w.Header())
			}
			c := cookies[0]
			if c.Name != test.cookie || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Secure != (test.cookie == secureCookie) || c.MaxAge != 12*60*60 {
				t.Errorf("%+v", c)
			}
		})
	}
}

// TestAttemptsAreBounded has an address try wrong keys, and then the right one.
func TestAttemptsAreBounded(t *testing.T) {
	h := newHandler(t)
	from := func(address string) map[string]any { return map[string]any{caddyhttp.ClientIPVarKey: address} }
	for range triesAtOnce {
		if w := serve(t, h, form("another-key-of-16", ""), from("2001:db8::1")); w.Code != http.StatusForbidden {
			t.Fatal(w.Code)
		}
	}
	if w := serve(t, h, form(goodKey, ""), from("2001:db8::2")); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" || len(w.Result().Cookies()) > 0 {
		t.Errorf("the same network: %d %v", w.Code, w.Header())
	}
	if w := serve(t, h, form(goodKey, ""), from("2001:db9::1")); w.Code != http.StatusSeeOther {
		t.Errorf("another network: %d", w.Code)
	}
}

// TestLocalPath has links to the form that want to lead elsewhere.
func TestLocalPath(t *testing.T) {
	for text, want := range map[string]string{
		"/console/traces?key=a%26b":     "/console/traces?key=a%26b",
		"/console/":                     "/console/",
		"":                              "/console/",
		"https://evil.example/console/": "/console/",
		"//evil.example/console/":       "/console/",
		"/console/sign-out":             "/console/",
		"/elsewhere":                    "/console/",
		`/\evil.example`:                "/console/",
		"javascript:alert(1)":           "/console/",
		"/console/%zz":                  "/console/",
		"/console/../evil":              "/console/",
		"/console/a/../../evil":         "/console/",
		"/console/definitions/a/b":      "/console/definitions/a/b",
	} {
		if got := localPath(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestOtherSites has another site's page send forms.
func TestOtherSites(t *testing.T) {
	h := newHandler(t)
	for _, path := range []string{"sign-in", "sign-out", "api/evaluate"} {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/console/"+path, strings.NewReader("key="+goodKey))
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		r.AddCookie(&http.Cookie{Name: plainCookie, Value: "sealed"})
		if w := serve(t, h, r, nil); w.Code != http.StatusForbidden || len(w.Result().Cookies()) > 0 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// TestPathsWithoutASession opens paths as a stranger.
func TestPathsWithoutASession(t *testing.T) {
	h := newHandler(t)
	for path, want := range map[string]int{
		"/console": http.StatusPermanentRedirect, "/console/": http.StatusSeeOther, "/console/traces?key=a": http.StatusSeeOther,
		"/console/traces/01a2220a-abf8-85dc-834a-b077b92a0c8d": http.StatusSeeOther,
		"/console/sign-in": http.StatusOK, "/console/static/console.css": http.StatusOK, "/console/static/": http.StatusNotFound,
		"/console/api/status": http.StatusUnauthorized, "/console/nothing": http.StatusNotFound, "/consoles": http.StatusTeapot, "/v1/prompts": http.StatusTeapot,
	} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, http.NoBody)
		r.RemoteAddr = "127.0.0.1:1"
		w := serve(t, h, r, nil)
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
		if strings.HasPrefix(path, "/console/") && w.Header().Get("Content-Security-Policy") != policy {
			t.Errorf("%s has no policy", path)
		}
		if path == "/console/traces?key=a" && w.Header().Get("Location") != "/console/sign-in?to=%2Fconsole%2Ftraces%3Fkey%3Da" {
			t.Errorf("%s: %s", path, w.Header().Get("Location"))
		}
	}
}
