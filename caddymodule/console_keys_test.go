package caddymodule_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/internal/adminapi"
	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
)

// form are the headers of a form that is sent in a session.
func form(session http.Header) http.Header {
	header := session.Clone()
	if header == nil {
		header = make(http.Header)
	}
	header.Set("Content-Type", "application/x-www-form-urlencoded")
	return header
}

// withKeysFile starts a console whose first workspace has a keys file, too.
func withKeysFile(t *testing.T) (g *gateway, text string) {
	t.Helper()
	g, text = consoleSite(t, "edit files")
	g.write("keys.json", "[\n\t"+keyOf("filed", consoleKey("filed"), `, "role": "viewer"`)+"\n]\n")
	text = strings.Replace(text, "log content\n", "log content\nkeys "+filepath.Join(g.dir, "keys.json")+"\n", 1)
	if err := g.loadText(text); err != nil {
		t.Fatal(err)
	}
	return g, text
}

// keys returns the keys that the API shows.
func (g *gateway) keys(session http.Header) map[string]gw.KeyInfo {
	g.t.Helper()
	body := g.do("GET", "/console/api/keys", "", session).ok(g.t).body
	if strings.Contains(string(body), "sha256") {
		g.t.Errorf("digests of keys are shown: %s", body)
	}
	var answer adminapi.Keys
	if err := json.Unmarshal(body, &answer); err != nil {
		g.t.Fatal(err)
	}
	all := make(map[string]gw.KeyInfo)
	for _, key := range answer.Keys {
		all[key.Name] = key
	}
	return all
}

// TestConsoleMakesKeys makes a key in the page, signs in by it, calls by it, and revokes it.
func TestConsoleMakesKeys(t *testing.T) {
	g, _ := withKeysFile(t)
	admin, viewer := g.signIn("our_admin"), g.signIn("our_viewer")
	before, err := os.ReadFile(filepath.Join(g.dir, "keys.json"))
	if err != nil {
		t.Fatal(err)
	}
	made := url.Values{"name": {"<b>new</b>"}, "role": {"viewer"}, "app": {"on"}, "not_after": {"2099-12-31"}}.Encode()
	if a := g.do("POST", "/console/keys", made, form(viewer)); a.status != http.StatusForbidden {
		t.Errorf("a viewer makes a key: %d", a.status)
	}
	page := string(g.do("POST", "/console/keys", made, form(admin)).ok(t).body)
	_, key, _ := strings.Cut(page, "<code>"+gw.KeyPrefix)
	key, _, found := strings.Cut(key, "<")
	key = gw.KeyPrefix + key
	if !found || strings.Contains(page, "<b>new</b>") {
		t.Fatalf("no key, or markup: %s", page)
	}
	after, err := os.ReadFile(filepath.Join(g.dir, "keys.json"))
	if err != nil || !strings.HasPrefix(string(after), strings.TrimSuffix(string(before), "\n]\n")+",\n\t{") || strings.Contains(string(after), key) {
		t.Errorf("the keys file became %s, %v", after, err)
	}
	if page := string(g.do("GET", "/console/keys", "", admin).ok(t).body); strings.Contains(page, key) || !strings.Contains(page, "&lt;b&gt;new") {
		t.Errorf("the next page: %s", page)
	}
	shown := g.keys(viewer)
	if k := shown["<b>new</b>"]; k.Role != "viewer" || !k.App || !k.LastUsed.IsZero() || k.File == "" || !k.NotAfter.Equal(time.Date(2099, 12, 31, 23, 59, 59, 0, time.UTC)) {
		t.Errorf("%+v", k)
	}
	if k := shown["our_admin"]; k.File != "" || time.Since(k.LastUsed) > 2*time.Minute {
		t.Errorf("%+v", k)
	}
	// The key opens both at once.
	g.do("POST", "/v1/remoteconfigs", `{"keys":["checkout"]}`, bearer(key)).ok(t)
	signIn := g.do("POST", "/console/sign-in", url.Values{"key": {key}}.Encode(), form(nil))
	session := http.Header{"Cookie": {strings.Split(signIn.header.Get("Set-Cookie"), ";")[0]}}
	g.do("GET", "/console/api/status", "", session).ok(t)
	if k := g.keys(viewer)["<b>new</b>"]; time.Since(k.LastUsed) > 2*time.Minute {
		t.Errorf("used at %s", k.LastUsed)
	}

	for _, test := range []struct {
		form    url.Values
		problem string
	}{
		{url.Values{"name": {"<b>new</b>"}}, "already"},
		{url.Values{"name": {"our_admin"}}, "already"},
		{url.Values{"name": {"sso:ada"}}, "sso:"},
		{url.Values{"name": {"x"}, "loopback": {"on"}}, "loopback is about a role"},
		{url.Values{"name": {"x"}, "not_after": {"soon"}}, "must be a date"},
		{url.Values{"name": {"x"}, "not_after": {"2020-01-01"}}, "has passed"},
		{url.Values{"revoke": {"our_admin"}}, "is in the configuration"},
		{url.Values{"revoke": {"nobody"}}, "there is no key"},
	} {
		if a := g.do("POST", "/console/keys", test.form.Encode(), form(admin)); a.status != 200 || !strings.Contains(string(a.body), test.problem) {
			t.Errorf("%v: %d %s", test.form, a.status, a.body)
		}
	}
	if a := g.do("POST", "/console/api/keys", `{"name":"x"}`, g.signIn("their_admin")); a.status != http.StatusConflict || !strings.Contains(string(a.body), "has no keys file") {
		t.Errorf("a workspace without a keys file: %d %s", a.status, a.body)
	}

	if a := g.do("POST", "/console/keys", url.Values{"revoke": {"<b>new</b>"}}.Encode(), form(admin)); a.status != http.StatusSeeOther {
		t.Errorf("revoking: %d %s", a.status, a.body)
	}
	if a := g.do("POST", "/v1/remoteconfigs", `{"keys":["checkout"]}`, bearer(key)); a.status != http.StatusUnauthorized {
		t.Errorf("a revoked key calls: %d", a.status)
	}
	if a := g.do("GET", "/console/api/status", "", session); a.status != http.StatusUnauthorized {
		t.Errorf("a revoked key's session: %d", a.status)
	}
	if k := g.keys(viewer)["<b>new</b>"]; !k.Revoked {
		t.Errorf("%+v", k)
	}
	g.expectAudit(admin, "action=make_key", "our_admin admin make_key <b>new</b> >viewer, app, until 2099-12-31T23:59:59Z")
	g.expectAudit(admin, "action=revoke_key", "our_admin admin revoke_key <b>new</b> viewer, app, until 2099-12-31T23:59:59Z>revoked")
}

// TestLastUseOutlivesARestart stops the gateway within the minute of a use.
func TestLastUseOutlivesARestart(t *testing.T) {
	g, text := withKeysFile(t)
	g.post("/v1/remoteconfigs", `{"keys":["checkout"]}`).ok(t)
	used := g.keys(g.signIn("our_viewer"))
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := g.loadText(text); err != nil {
		t.Fatal(err)
	}
	again := g.keys(g.signIn("our_viewer"))
	for _, name := range []string{"test", "our_viewer", "filed"} {
		if was, is := used[name].LastUsed, again[name].LastUsed; was.IsZero() != (name == "filed") || is.Before(was) {
			t.Errorf("%s: used at %s, after a restart %s", name, was, is)
		}
	}
}
