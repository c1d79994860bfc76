package caddymodule_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/caddymodule"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/secret"
)

// TestStaleSecretIsLogged removes and restores the file of a provider's key: calls continue
// with the last key, also after a reload, and the log has a line for each change.
func TestStaleSecretIsLogged(t *testing.T) {
	refresh := secret.Refresh
	secret.Refresh = 0
	t.Cleanup(func() { secret.Refresh = refresh })
	const key = "sk-stale-0123456789"
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		completion(w, "fine")
	})
	files := endpointWith("")
	files["key"] = key
	options := withoutFake + "provider fake openai {\nbase_url " + u.URL + "/v1\napi_key {file.{dir}/key}\n}\n"
	g := startGateway(t, files, options)
	app, err := caddy.ActiveContext().AppIfConfigured("cadenza")
	if err != nil {
		t.Fatal(err)
	}
	provider := caddymodule.ConfigOf(app.(*caddymodule.App), "default").Providers["fake"]
	call := func(stale bool) {
		t.Helper()
		for range 2 {
			g.post("/v1/endpoints", ask("?", false)).ok(t)
		}
		since, err := providers.Stale(provider)
		if (err != nil) != stale || since.IsZero() == stale {
			t.Errorf("stale: %v since %v, want %t", err, since, stale)
		}
	}
	call(false)
	if err := os.Remove(filepath.Join(g.dir, "key")); err != nil {
		t.Fatal(err)
	}
	call(true)
	// A reload while the file is gone keeps the key, too.
	if err := g.load(options + "log none\n"); err != nil {
		t.Fatal(err)
	}
	if app, err = caddy.ActiveContext().AppIfConfigured("cadenza"); err != nil {
		t.Fatal(err)
	}
	provider = caddymodule.ConfigOf(app.(*caddymodule.App), "default").Providers["fake"]
	call(true)
	g.write("key", key)
	call(false)
	logs, err := os.ReadFile(g.logs)
	if err != nil {
		t.Fatal(err)
	}
	for line, count := range map[string]int{
		`"msg":"a secret can't be read again, the last one stays","host":"` + strings.TrimPrefix(u.URL, "http://") + `","option":"api_key","secret":"{file.` + g.dir + `/key}","error":"`: 1,
		`"msg":"a secret can be read again","host":"`: 1,
		key: 0,
	} {
		if n := strings.Count(string(logs), line); n != count {
			t.Errorf("the log has %q %d times", line, n)
		}
	}
}

// TestReloadTriesRefusedKeys has a provider that refuses the key, and a reload after the
// key is corrected: the next call uses it, not only a call a minute later.
func TestReloadTriesRefusedKeys(t *testing.T) {
	var mended atomic.Bool
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		if !mended.Load() {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		completion(w, "fine")
	})
	options := withoutFake + "provider fake openai {\nbase_url " + u.URL + "/v1\napi_key {env.CADENZA_TEST_KEY}\n}\n"
	g := startGateway(t, endpointWith("fallback: [ { provider: canned, extra: { answer: later } } ]\n"), options)
	says := func(want string) {
		t.Helper()
		if a := g.post("/v1/endpoints", ask("?", false)); a.json(t)["content"] != want {
			t.Errorf("%d %s, want %q", a.status, a.body, want)
		}
	}
	says("later")
	mended.Store(true)
	says("later")
	if err := g.load(options + "log none\n"); err != nil {
		t.Fatal(err)
	}
	says("fine")
}
