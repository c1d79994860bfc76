package console

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/cadenza-gateway/cadenza/internal/gateway"
)

func TestSSOOptions(t *testing.T) {
	const user, role = "trusted_user {http.reverse_proxy.header.remote-user}\n", "trusted_role {http.auth.user.groups}\n"
	for options, problem := range map[string]string{
		user + role: "",
		user + role + "role_of ops admin\nrole_of staff viewer\nworkspace w": "",
		"":                                "",
		user + role + "workspace missing": "there is no workspace missing",
		user:                              "trusted_role must be",
		role:                              "go with trusted_user",
		"role_of ops admin":               "go with trusted_user",
		"workspace w":                     "go with trusted_user",
		user + role + "role_of ops owner": "role_of ops",
		user + role + "role_of ops":       "role_of takes 2 arguments",
		user + "trusted_role admin":       "trusted_role must be",
		"trusted_user\n":                  "trusted_user takes 1 argument",
		"trust me":                        "there is no option",
		"insecure_http yes":               "insecure_http takes 0 arguments",
		"trusted_user {http.request.header.Remote-User}\n" + role:      "A client sets its own headers",
		"trusted_user {http.request.cookie.user}\n" + role:             "A client sets its own headers",
		"trusted_user {http.request.uri.query.user}\n" + role:          "A client sets its own headers",
		"trusted_user {http.vars.user}\n" + role:                       "A client sets its own headers",
		"trusted_user {http.reverse_proxy.header.}\n" + role:           "A client sets its own headers",
		"trusted_user a{http.auth.user.id}\n" + role:                   "A client sets its own headers",
		user + "trusted_role {http.request.header.Remote-Groups}\n":    "A client sets its own headers",
		user + "trusted_role {http.reverse_proxy.status_code.admin}\n": "A client sets its own headers",
	} {
		h := &Handler{app: keys{}}
		err := h.UnmarshalCaddyfile(caddyfile.NewTestDispenser("cadenza_console {\n" + options + "\n}"))
		if err == nil {
			err = h.provisionSSO()
		}
		if (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: %v, want %q", options, err, problem)
		}
		if options == user+role && h.TrustedUser != "{http.reverse_proxy.header.Remote-User}" {
			t.Error(h.TrustedUser)
		}
	}
}

// TestSSOIsNoted notes who comes, again with another role or from elsewhere.
func TestSSOIsNoted(t *testing.T) {
	h := newHandler(t)
	core, lines := observer.New(zap.InfoLevel)
	h.logger = zap.New(core)
	h.TrustedUser, h.TrustedRole, h.Workspace = "{http.auth.user.id}", "{http.auth.user.groups}", "noted"
	for _, test := range []struct {
		user, role, from string
		noted            int
	}{
		{"eve", "viewer", "192.0.2.1", 1},
		{"eve", "viewer", "192.0.2.1", 1},
		{"eve", "admin", "192.0.2.1", 2},
		{"eve", "admin", "192.0.2.9", 3},
		{"bob", "admin", "192.0.2.9", 4},
		{"eve", "viewer", "192.0.2.1", 4},
	} {
		replacer := caddy.NewEmptyReplacer()
		replacer.Set("http.auth.user.id", test.user)
		replacer.Set("http.auth.user.groups", test.role)
		r := httptest.NewRequest("GET", "http://gateway.example.com/console/sign-in", http.NoBody)
		serve(t, h, r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, replacer)), map[string]any{caddyhttp.ClientIPVarKey: test.from})
		if got := lines.FilterMessage("signed in").Len(); got != test.noted {
			t.Errorf("%+v: %d lines", test, got)
		}
	}
}

func TestSSO(t *testing.T) {
	h := newHandler(t)
	h.TrustedUser, h.TrustedRole, h.Workspace = "{http.auth.user.id}", "{http.auth.user.groups}", "w"
	groups := map[string]gateway.Role{"ops": gateway.RoleAdmin, "staff": gateway.RoleViewer}
	for _, test := range []struct {
		user, given string
		mapped      bool
		role        gateway.Role // none: there is no visitor
	}{
		{"ada", "viewer", false, gateway.RoleViewer},
		{"ada", "editor, viewer", false, gateway.RoleEditor},
		{"ada", "viewer|admin|owner", false, gateway.RoleAdmin},
		{"ada", "", false, gateway.RoleNone},
		{"ada", "Admin", false, gateway.RoleNone},
		{"ada", "staff", false, gateway.RoleNone},
		{"ada", "sales,staff", true, gateway.RoleViewer},
		{"ada", "staff ops", true, gateway.RoleAdmin},
		{"ada", "admin", true, gateway.RoleNone},
		{"a\nda", "viewer", false, gateway.RoleNone},
		{strings.Repeat("a", 201), "viewer", false, gateway.RoleNone},
	} {
		h.RoleOf = nil
		if test.mapped {
			h.RoleOf = groups
		}
		replacer := caddy.NewEmptyReplacer()
		replacer.Set("http.auth.user.id", test.user)
		replacer.Set("http.auth.user.groups", test.given)
		request := func(method, path string) *http.Request {
			r := httptest.NewRequest(method, "http://gateway.example.com/console/"+path, http.NoBody)
			// A session of a key doesn't count beside a user.
			r.AddCookie(&http.Cookie{Name: plainCookie, Value: "sealed"})
			return r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, replacer))
		}
		visitor := h.visitorOf(request("GET", ""))
		if (visitor != nil) != (test.role != gateway.RoleNone) || visitor != nil && (visitor.Role != test.role || visitor.Key != "sso:"+test.user || visitor.Workspace != "w") {
			t.Errorf("%+v: %+v", test, visitor)
		}
		want := http.StatusForbidden
		if visitor != nil {
			want = http.StatusSeeOther
		}
		if w := serve(t, h, request("GET", "sign-in"), nil); w.Code != want {
			t.Errorf("%+v: the form answers %d, want %d", test, w.Code, want)
		}
		r := request("POST", "keys")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		if w := serve(t, h, r, nil); w.Code != http.StatusForbidden {
			t.Errorf("another site's form: %d", w.Code)
		}
	}
	if h.visitorOf(httptest.NewRequest("GET", "http://gateway.example.com/console/", http.NoBody)) != nil {
		t.Error("a visitor without a user")
	}
}

// TestSeen notes a user once in a session's time.
func TestSeen(t *testing.T) {
	ada := seen.of([4]string{"w", "ada"})
	now := time.Now()
	for _, step := range []struct {
		after time.Duration
		first bool
	}{{0, true}, {time.Hour, false}, {sessionTime - time.Second, false}, {sessionTime, true}} {
		if got := ada.AllowN(now.Add(step.after), 1); got != step.first {
			t.Errorf("after %s: %t", step.after, got)
		}
	}
}
