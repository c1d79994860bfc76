package caddymodule_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/caddymodule"
	"github.com/cadenza-gateway/cadenza/internal/freeport"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// bundleSource is a web server with a bundle.
type bundleSource struct{ *gatewaytest.BundleSource }

func newBundleSource(t *testing.T) bundleSource { return bundleSource{gatewaytest.NewBundleSource(t)} }

// has has the server have a bundle with a banner of this text.
func (s bundleSource) has(keys gatewaytest.BundleKeys, serial int64, banner string) {
	s.Has(keys, serial, map[string]string{
		"context.yaml": "fields:\n  plan: { type: string }\n", "prompts/p.yaml": "provider: canned\nmodel: m\nmessages: [ { role: user, content: hello } ]\n",
		"remoteconfigs/banner.yaml": "type: string\ndefault: " + banner + "\n",
	})
}

// options returns the options of a workspace that follows the source, with more in the
// bundle's block.
func (s bundleSource) options(more string) string {
	return `
	definitions bundle ` + s.URL + `/b.tar.gz?token=hidden {
		public_key {dir}/bundle.pem
		scope shops
		poll 1s
		` + more + `
	}
	store sqlite {dir}/data/cadenza.db
	api_key test {env.CADENZA_TEST_KEY}
	provider canned
`
}

// operated has a gateway answer over TCP: where a load fails in Start after the server has
// begun, Caddy closes the file of a Unix socket for good. Beside cadenza are the routes of
// operators. load loads options, and the admin API is at the address.
func (g *gateway) operated(t *testing.T) (load func(options string) error, address string) {
	site, address := freeport.Address(t), freeport.Address(t)
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", site)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	g.client = &http.Client{Transport: transport}
	_, port, _ := net.SplitHostPort(site)
	return func(options string) error {
		text := strings.Replace(withAdmin(g, options, address), "http:// {\n\tbind unix/"+g.socket+"\n", "http://:"+port+" {\n\tbind 127.0.0.1\n\tcadenza_health\n\tmetrics /metrics\n", 1)
		return g.loadText(text)
	}, address
}

// banner returns the banner that is served, or the code of the error.
func (g *gateway) banner() string {
	a := g.post("/v1/remoteconfigs", `{"keys":["banner"]}`)
	var answer struct {
		Banner struct{ Value string }
		Error  struct{ Code string }
	}
	if err := json.Unmarshal(a.body, &answer); err != nil {
		g.t.Fatalf("%v: %s", err, a.body)
	}
	if answer.Error.Code != "" {
		if a.status == http.StatusServiceUnavailable && a.header.Get("Retry-After") == "" {
			g.t.Error("no Retry-After")
		}
		return answer.Error.Code
	}
	return answer.Banner.Value
}

// conditions returns the messages of the conditions by their codes, and the state of the
// source.
func conditions(t *testing.T, address string) (map[string]string, map[string]any) {
	t.Helper()
	_, answer := callAdmin(t, "GET", address, "/cadenza/status", "")
	w := answer["workspaces"].(map[string]any)["default"].(map[string]any)
	found := make(map[string]string)
	for _, c := range w["degraded"].([]any) {
		found[c.(map[string]any)["code"].(string)] = c.(map[string]any)["message"].(string)
	}
	source, _ := w["definitions"].(map[string]any)["source"].(map[string]any)
	return found, source
}

// TestBundle follows a source: an edit, what is refused, reloads, and a start with everything
// away.
func TestBundle(t *testing.T) {
	s := newBundleSource(t)
	s.has(s.Keys, 1, "one")
	t.Setenv("CADENZA_TEST_BEARER", "a-token-of-the-source")
	options := s.options("bearer {env.CADENZA_TEST_BEARER}\nmax_age 1h unready")
	g := startGateway(t, map[string]string{"bundle.pem": s.Keys.Public}, options)
	if got := g.banner(); got != "one" {
		t.Fatal(got) // a start that may not be blank waits
	}
	if got := s.Asked().Get("Authorization"); got != "Bearer a-token-of-the-source" {
		t.Error(got)
	}
	load, address := g.operated(t)
	if err := load(options); err != nil {
		t.Fatal(err)
	}
	served := caddymodule.ConfigOf(activeApp(t), "default").Source
	snapshot := served.Snapshot()
	revisionsStored(t, address, "default", 1)

	s.has(s.Keys, 2, "two")
	eventually(t, "the edit is served", func() bool { return g.banner() == "two" })
	if prompt := served.Snapshot().Prompts["p"]; prompt != snapshot.Prompts["p"] {
		t.Error("what did not change is compiled again")
	}
	var found map[string]string
	var source map[string]any
	eventually(t, "the status has the edit", func() bool { found, source = conditions(t, address); return source["serial"] == 2.0 })
	if len(found) != 0 || source["url"] != s.URL+"/b.tar.gz" || source["bundle"] != "commit-2" {
		t.Errorf("%v %v", found, source)
	}
	revisionsStored(t, address, "default", 2)
	eventually(t, "the age is a metric", func() bool {
		return strings.Contains(g.scrape(), `cadenza_definitions_source_age_seconds{workspace="default"} `)
	})

	// Refused: a signature, and a mistake. The last good one stays, and says that it is old.
	stale := func() bool {
		return strings.Contains(string(g.post("/ofrep/v1/evaluate/flags/banner", `{"context":{}}`).body), `"STALE"`)
	}
	s.has(gatewaytest.NewBundleKeys(t), 3, "three")
	eventually(t, "a foreign signature is refused", func() bool { found, _ := conditions(t, address); return found["definitions_invalid"] != "" })
	if got := g.banner(); got != "two" || !stale() {
		t.Error(got)
	}
	status, answer := callAdmin(t, "POST", address, "/cadenza/pull", "")
	if status != 200 || answer["result"] != "refused" || answer["refused"] == "" || answer["serial"] != 2.0 {
		t.Errorf("%d %v", status, answer)
	}
	s.has(s.Keys, 4, "[ broken")
	eventually(t, "a mistake has its place", func() bool {
		found, _ := conditions(t, address)
		return strings.Contains(found["definitions_invalid"], s.URL+"/b.tar.gz/remoteconfigs/banner.yaml:2:")
	})
	if strings.Contains(g.scrape(), `cadenza_definitions_valid{workspace="default"} 1`) || !stale() {
		t.Error("the metric says that all is well")
	}
	s.has(s.Keys, 2, "two")
	eventually(t, "the bundle that is served is the newest again", func() bool { found, _ := conditions(t, address); return len(found) == 0 && !stale() })
	s.has(s.Keys, 5, "five")
	status, answer = callAdmin(t, "POST", address, "/cadenza/pull?workspace=default", "")
	if status != 200 || answer["serial"] != 5.0 || g.banner() != "five" {
		t.Errorf("%d %v", status, answer) // the gateway itself may have been faster
	}

	// Nothing is edited here; past sets are there.
	for _, test := range [][2]string{{"GET", "/cadenza/edit?file=remoteconfigs/banner.yaml"}, {"POST", "/cadenza/revisions/" + served.Snapshot().Revision + "?dry_run=true"}} {
		status, answer := callAdmin(t, test[0], address, test[1], `{"base":""}`)
		if text := fmt.Sprint(answer["error"]); status != http.StatusConflict || !strings.Contains(text, "edit them where the bundle is built") {
			t.Errorf("%v: %d %v", test, status, answer)
		}
	}
	revisionsStored(t, address, "default", 3)

	// A reload keeps the set and its loop; another scope is another source, of which there is
	// nothing.
	if err := load(options); err != nil {
		t.Fatal(err)
	}
	if now := caddymodule.ConfigOf(activeApp(t), "default").Source; now != served {
		t.Error("a reload makes another source")
	}
	err := load(strings.Replace(options, "scope shops", "scope others", 1))
	if err == nil || !strings.Contains(err.Error(), "others") || g.banner() != "five" {
		t.Error(err, g.banner())
	}
	// Other options with the same bundle on the disk: no source is needed.
	s.HasNothing()
	s.CloseClientConnections()
	if err := load(strings.Replace(options, "poll 1s", "poll 1s..2s", 1)); err != nil || g.banner() != "five" {
		t.Fatal(err, g.banner())
	}

	// With everything away a start serves what is on the disk.
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(stacks(), "download.(*Downloader).Run"); n != 0 {
		t.Errorf("%d downloads are left", n)
	}
	if err := load(options); err != nil || g.banner() != "five" {
		t.Fatal(err, g.banner())
	}
	if a := g.do("GET", "/readyz", "", nil); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
	if status, answer := callAdmin(t, "POST", address, "/cadenza/pull", ""); status != http.StatusBadGateway || !strings.Contains(fmt.Sprint(answer["error"]), "503") {
		t.Errorf("%d %v", status, answer)
	}
	// Older than it may be: ready no more, and nothing else is different.
	if err := load(strings.Replace(options, "max_age 1h", "max_age 1ms", 1)); err != nil || g.banner() != "five" {
		t.Fatal(err, g.banner())
	}
	if a := g.do("GET", "/readyz", "", nil); a.status != http.StatusServiceUnavailable || !strings.Contains(string(a.body), `"unready"`) || !strings.Contains(string(a.body), `"definitions_stale"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if logs, err := os.ReadFile(g.logs); err != nil || strings.Contains(string(logs), "hidden") || strings.Contains(string(logs), "a-token-of-the-source") {
		t.Error("a secret is in the log", err)
	}
	if files, _ := filepath.Glob(filepath.Join(g.dir, "data", "cadenza.db-bundle-default*")); len(files) != 1 {
		t.Error(files)
	}
}

// TestNoBundleYet starts without any definitions: requests wait for the source, and so does
// readiness.
func TestNoBundleYet(t *testing.T) {
	defer caddymodule.RunsAs("run")()
	s := newBundleSource(t)
	g := startGateway(t, map[string]string{"bundle.pem": s.Keys.Public, "keys.json": keyList(keyOf("listed", otherKey, `,"context":{"plan":"pro"}`))}, s.options("")+"\nkeys {dir}/keys.json\n")
	load, address := g.operated(t)
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := load(s.options("")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/v1/remoteconfigs", "/v1/prompts", "/v1/endpoints", "/v1/decisions", "/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/embeddings", "/ofrep/v1/evaluate/flags", "/ofrep/v1/evaluate/flags/banner", "/v1/metrics"} {
		a := g.post(path, `{"keys":["banner"]}`)
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := g.do("GET", "/v1/models", "", http.Header{"Authorization": {"Bearer " + testKey}}); a.status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", a.status, a.body)
	}
	a := g.do("GET", "/readyz", "", nil)
	if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || !strings.Contains(string(a.body), `"definitions_awaited"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := g.do("GET", "/healthz", "", nil); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
	eventually(t, "the reason is in the status", func() bool {
		found, _ := conditions(t, address)
		return strings.Contains(found["definitions_awaited"], "503")
	})
	for _, path := range []string{"definitions", "targets", "models", "limits", "words?file=prompts/p.yaml", "play", "revisions", "keys", "costs"} {
		if status, answer := callAdmin(t, "GET", address, "/cadenza/"+path, ""); status != http.StatusOK {
			t.Errorf("%s: %d %v", path, status, answer)
		}
	}
	if status, answer := callAdmin(t, "POST", address, "/cadenza/evaluate", `{"kind":"remoteconfig","key":"banner"}`); status == 200 || status >= 500 {
		t.Errorf("%d %v", status, answer)
	}
	metrics := g.scrape()
	if !strings.Contains(metrics, `cadenza_definitions_valid{workspace="default"} 0`) || strings.Contains(metrics, "cadenza_definitions_source_age_seconds{") {
		t.Error(metrics)
	}
	// The same source again: the gateway is no blanker than before.
	if err := load(s.options("") + "\nlog none\n"); err != nil {
		t.Error(err)
	}
	// Another one must have something.
	if err := load(s.options("poll 2s")); err == nil {
		t.Error("poll is configured twice")
	}
	if err := load(strings.Replace(s.options(""), "poll 1s", "poll 2s", 1)); err == nil || !strings.Contains(err.Error(), "503") {
		t.Error(err)
	}

	s.has(s.Keys, 1, "one")
	eventually(t, "the source's bundle is served", func() bool { return g.banner() == "one" })
	if a := g.do("GET", "/readyz", "", nil); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
	revisionsStored(t, address, "default", 1)

	// strict: a start with nothing fails, and one with something on the disk does not.
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	s.HasNothing()
	if err := load(s.options("strict")); err != nil || g.banner() != "one" {
		t.Fatal(err)
	}
	if err := caddy.Stop(); err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(g.dir, "data", "cadenza.db-bundle-default")
	if err := os.Remove(kept); err != nil {
		t.Fatal(err)
	}
	if err := load(s.options("strict")); err == nil || !strings.Contains(err.Error(), "503") {
		t.Error(err)
	}
	// What is there can't be used, since the start.
	if err := os.WriteFile(kept, []byte("{}\nno bundle"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := load(s.options("")); err != nil {
		t.Fatal(err)
	}
	if a := g.do("GET", "/readyz", "", nil); !strings.Contains(string(a.body), "definitions_unsaved") || strings.Contains(string(a.body), "0001-") {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestBundleOptions refuses options that can't be meant.
func TestBundleOptions(t *testing.T) {
	keys := gatewaytest.NewBundleKeys(t)
	dir, err := os.MkdirTemp("", "cadenza")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a store may still be closing
	gatewaytest.Write(t, dir, "bundle.pem", keys.Public)
	gatewaytest.Write(t, dir, "empty.pem", "")
	for _, test := range []struct{ options, want string }{
		{`definitions bundle ftp://host/b { public_key {dir}/bundle.pem }`, "http:// or https://"},
		{`definitions bundle http://host/b {
			public_key {dir}/bundle.pem
			mirror //host
		}`, "mirror must be"},
		{`definitions bundle http://host/b`, "public_key takes"},
		{`definitions bundle http://host/b {
			public_key {dir}/empty.pem
		}`, "empty.pem"},
		{`definitions bundle http://host/b {
			public_key {dir}/none.pem
		}`, "none.pem"},
		{`definitions bundle http://host/b {
			public_key {dir}/bundle.pem
			tls_client_auth {dir}/bundle.pem {dir}/bundle.pem
		}`, "tls_client_auth"},
		{`definitions bundle http://host/b {
			public_key {dir}/bundle.pem
			tls_trusted_ca_certs {dir}/empty.pem
		}`, "no certificate"},
		{`definitions bundle http://host/b {
			public_key {dir}/bundle.pem
			poll 30s..10s
		}`, "the shortest first"},
		{`definitions bundle http://host/b {
			public_key {dir}/bundle.pem
			bearer {env.CADENZA_TEST_UNSET}
		}`, "bearer"},
	} {
		options := strings.ReplaceAll(strings.Replace(test.options, "{ public_key {dir}/bundle.pem }", "{\npublic_key {dir}/bundle.pem\n}", 1), "{dir}", dir)
		err := loadCaddyfile("{\nadmin off\npersist_config off\ncadenza {\n" + options + "\nstore sqlite " + dir + "/c.db\napi_key test {env.CADENZA_TEST_KEY}\n}\n}\nhttp://127.0.0.1:0 {\ncadenza\n}\n")
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", options, err)
		}
	}
}

// TestBundleByCertificate follows a source that asks for a certificate, from its mirror, and
// takes an older serial where that is allowed.
func TestBundleByCertificate(t *testing.T) {
	s := newBundleSource(t)
	secured := httptest.NewUnstartedServer(s)
	secured.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	secured.StartTLS()
	t.Cleanup(secured.Close)
	certificate := secured.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	away := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(away.Close)
	inPEM := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	s.has(s.Keys, 2, "two")
	next := gatewaytest.NewBundleKeys(t)
	g := startGateway(t, map[string]string{
		"bundle.pem": s.Keys.Public, "next.pem": next.Public, "ca.pem": inPEM("CERTIFICATE", secured.Certificate().Raw),
		"client.pem": inPEM("CERTIFICATE", certificate.Certificate[0]), "client.key": inPEM("PRIVATE KEY", key),
	}, strings.Replace(s.options("tls_client_auth {dir}/client.pem {dir}/client.key\ntls_trusted_ca_certs {dir}/ca.pem\nallow_rollback\npublic_key {dir}/next.pem\nmirror "+secured.URL), s.URL, away.URL, 1))
	if got := g.banner(); got != "two" {
		t.Fatal(got)
	}
	s.has(next, 1, "one")
	eventually(t, "an older bundle is served", func() bool { return g.banner() == "one" })
}

// TestConsoleOfABundle opens each page while no definitions have come, and afterwards. None
// has a place to edit.
func TestConsoleOfABundle(t *testing.T) {
	defer caddymodule.RunsAs("run")()
	s := newBundleSource(t)
	t.Setenv("our_admin", consoleKey("our_admin"))
	options := s.options("") + "\napi_key our_admin {env.our_admin} {\nrole admin\n}\n"
	g := startGateway(t, map[string]string{"bundle.pem": s.Keys.Public}, options)
	g.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	g.site(options, "\tcadenza_console {\n\t\tinsecure_http\n\t\tedit files\n\t}\n\tcadenza")
	session := g.signIn("our_admin")
	for _, banner := range []string{"", "one"} {
		if banner != "" {
			s.has(s.Keys, 1, banner)
			eventually(t, "the source's bundle is served", func() bool { return g.banner() == banner })
		}
		for _, page := range []string{"", "traces", "refused", "definitions", "try", "playground", "revisions", "costs", "limits", "models", "keys", "erase", "audit"} {
			a := g.do("GET", "/console/"+page, "", session)
			if a.status != http.StatusOK || strings.Contains(string(a.body), "/console/edit?") || strings.Contains(string(a.body), s.URL+"/b.tar.gz</code>") {
				t.Errorf("%q, %s: %d %s", banner, page, a.status, a.body)
			}
		}
		a := g.do("GET", "/console/edit?file=remoteconfigs/banner.yaml", "", session)
		if !strings.Contains(string(a.body), "edit them where the bundle is built") {
			t.Errorf("%q: %d %s", banner, a.status, a.body)
		}
		if a := g.do("GET", "/console/definitions", "", session); strings.Contains(string(a.body), "No bundle with definitions has come yet") != (banner == "") {
			t.Errorf("%q: %s", banner, a.body)
		}
	}
	a := g.do("GET", "/console/definitions/remoteconfig/banner", "", session)
	if body := string(a.body); a.status != http.StatusOK || !strings.Contains(body, "banner.yaml") || strings.Contains(body, "/console/edit?") || strings.Contains(body, "Same as") {
		t.Errorf("%d %s", a.status, a.body)
	}
}
