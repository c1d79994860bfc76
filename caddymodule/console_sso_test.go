package caddymodule_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// TestConsoleSSO has an auth server in front of the console sign users in, and clients say
// who they are by themselves.
func TestConsoleSSO(t *testing.T) {
	auth := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookie, err := r.Cookie("auth")
		switch {
		case err != nil:
			w.WriteHeader(http.StatusUnauthorized)
		case cookie.Value != "nobody": // whom the server lets pass without a name
			user, groups, _ := strings.Cut(cookie.Value, ".")
			w.Header().Set("Remote-User", user)
			w.Header().Set("Remote-Groups", groups)
		}
	}))
	defer auth.Close()
	g, text := consoleSite(t, "")
	site := func(options string) string {
		return strings.Replace(text, "\tcadenza_console {\n\t\tinsecure_http\n\t\t\n\t}\n", "\tvars client_ip 192.0.2.7\n\tforward_auth "+auth.URL+` {
		uri /verify
		copy_headers Remote-User Remote-Groups
	}
	cadenza_console {
		`+options+`
	}
`, 1)
	}
	const user, groups = "trusted_user {rp.header.Remote-User}\n", "trusted_role {rp.header.Remote-Groups}\nrole_of llm-ops admin\nrole_of staff viewer\nworkspace default\n"
	if err := g.loadText(site(user + groups)); err != nil {
		t.Fatal(err)
	}
	as := func(cookie string) http.Header {
		// The client claims to be somebody else.
		header := http.Header{"Remote-User": {"root"}, "Remote-Groups": {"llm-ops"}}
		if cookie != "" {
			header.Set("Cookie", "auth="+cookie)
		}
		return header
	}
	for _, test := range []struct {
		cookie, method, path, body string
		status                     int
		shows                      string
	}{
		{"", "GET", "/console/", "", 401, ""},
		{"ada.llm-ops", "GET", "/console/", "", 200, "sso:ada, admin"},
		{"ada.llm-ops", "GET", "/console/keys", "", 200, "New keys go into a keys file"},
		{"ada.llm-ops", "GET", "/console/api/traces?workspace=other", "", 404, ""},
		{"vic.staff", "GET", "/console/", "", 200, "sso:vic, viewer"},
		{"vic.staff", "GET", "/console/api/export", "", 403, "needs the role admin"},
		{"sam.sales", "GET", "/console/", "", 303, ""},
		{"sam.sales", "GET", "/console/sign-in", "", 403, "but have no role here"},
		{"sam.sales", "GET", "/console/api/status", "", 401, ""},
		{"nobody", "GET", "/console/", "", 303, ""},
		{"nobody", "GET", "/console/api/status", "", 401, ""},
		{"ada.llm-ops", "POST", "/console/sign-out", "", 303, ""},
		{"ada.llm-ops", "GET", "/console/api/status", "", 200, `"default"`},
	} {
		a := g.do(test.method, test.path, test.body, as(test.cookie))
		if a.status != test.status || !strings.Contains(string(a.body), test.shows) || strings.Contains(string(a.body), "root") {
			t.Errorf("%q %s %s: %d, want %d: %s", test.cookie, test.method, test.path, a.status, test.status, a.body)
		}
	}
	g.expectAudit(as("ada.llm-ops"), "by=sso:ada", "sso:ada admin sign_in", "sso:ada admin sign_out")
	g.expectAudit(as("ada.llm-ops"), "by=sso:root")
	// Another site's form, with the user's cookie.
	foreign := form(as("ada.llm-ops"))
	foreign.Set("Sec-Fetch-Site", "cross-site")
	if a := g.do("POST", "/console/erase", url.Values{"by": {"decision"}}.Encode(), foreign); a.status != http.StatusForbidden {
		t.Errorf("another site's form: %d", a.status)
	}
	for options, problem := range map[string]string{
		"trusted_user {header.Remote-User}\n" + groups:                           "A client sets its own headers",
		user + strings.Replace(groups, "workspace default", "", 1):               "must be one of default, other",
		user + strings.Replace(groups, "workspace default", "workspace none", 1): "must be one of default, other",
	} {
		if err := g.loadText(site(options)); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: %v, want %q", options, err, problem)
		}
	}
}
