package caddymodule_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/cadenza-gateway/cadenza/providers"
)

func init() {
	caddy.RegisterModule(stubborn{})
}

// stubborn is a provider that ignores its context: it hangs until it is let go.
type stubborn struct{}

var letGo = make(chan struct{})

func (stubborn) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "cadenza.providers.test_stubborn", New: func() caddy.Module { return new(stubborn) }}
}

func (stubborn) UnmarshalCaddyfile(*caddyfile.Dispenser) error { return nil }

func (stubborn) Invoke(context.Context, *providers.Request) (providers.Stream, error) {
	<-letGo
	return nil, fmt.Errorf("too late")
}

// TestAProviderOfAnybodysHoldsNobody has a provider ignore the end of its
// context: the fallback answers, a caller without one is answered in time, and
// the log and the metrics say what goes on.
func TestAProviderOfAnybodysHoldsNobody(t *testing.T) {
	t.Cleanup(func() { close(letGo) })
	files := single()
	files["definitions/prompts/hung.yaml"] = "provider: odd\nmodel: m\nmessages: [ { role: user, content: hello } ]\n"
	files["definitions/endpoints/alone.yaml"] = "prompt: hung\ntimeout: { total: 1s }\nmax_attempts: 1\n"
	files["definitions/endpoints/helped.yaml"] = "prompt: hung\ntimeout: { first_token: 1s }\nfallback: [ { provider: canned, extra: { answer: helped } } ]\n"
	const configured = options + "provider odd test_stubborn\n"
	g := startGateway(t, files, configured)
	if err := g.loadText(strings.Replace(g.caddyfile(configured), "\tcadenza\n}", observed+"}", 1)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if a := g.post("/v1/endpoints", `{"key":"alone"}`); a.status != http.StatusGatewayTimeout {
		t.Errorf("alone: %d %s", a.status, a.body)
	}
	if a := g.post("/v1/endpoints", `{"key":"helped","stream":true}`); a.status != http.StatusOK || !strings.Contains(string(a.body), `"helped"`) {
		t.Errorf("with a fallback: %d %s", a.status, a.body)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("two calls of a second each took %s", took)
	}
	logs, err := os.ReadFile(g.logs)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(logs), "goes on with a call that has ended"); n != 2 {
		t.Errorf("%d calls that go on are logged, want 2", n)
	}
	if want := `cadenza_upstream_abandoned_total{provider="odd",workspace="default"} 2`; !strings.Contains(g.scrape(), want) {
		t.Errorf("the metrics lack %s", want)
	}
	// Nor does such a call keep the configuration from being replaced.
	if err := g.load(options); err != nil {
		t.Error(err)
	}
}

func TestOurProvidersObeyTheirContexts(t *testing.T) {
	modules := 0
	for _, info := range caddy.GetModules("cadenza.providers") {
		if strings.HasPrefix(info.ID.Name(), "test_") {
			continue
		}
		modules++
		options := `{"base_url": "http://127.0.0.1:1"}`
		switch info.ID.Name() {
		case "azure":
			options = `{"endpoint": "http://127.0.0.1:1", "api_key": "{env.CADENZA_TEST_KEY}"}`
		case "canned":
			options = `{}`
		}
		ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
		defer cancel()
		module, err := ctx.LoadModuleByID(string(info.ID), []byte(options))
		if err != nil {
			t.Errorf("%s: %v", info.ID, err)
			continue
		}
		if p, ok := module.(providers.Provider); !ok || !providers.ObeysContext(p) {
			t.Errorf("%s is called on a goroutine of its own", info.ID)
		}
	}
	if modules < 10 {
		t.Errorf("%d providers", modules)
	}
}
