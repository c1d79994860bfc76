package caddymodule_test

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/cadenza-gateway/cadenza/providers"
)

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
