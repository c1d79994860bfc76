package anthropic

import (
	"context"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

func TestCaddyfile(t *testing.T) {
	pt.CheckCaddyfile(t, func(input string) (any, error) {
		var m Module
		err := m.UnmarshalCaddyfile(caddyfile.NewTestDispenser(input))
		return m, err
	}, []pt.Caddyfile{
		{"anthropic", `{}`, ""},
		{"anthropic {\n api_key {env.KEY}\n}", `{"api_key":"{env.KEY}"}`, ""},
		{`anthropic {
			api_key {file./run/secrets/key}
			base_url https://claude.example/v1
			max_tokens 2000
			beta context-1m-2025-08-07 interleaved-thinking-2025-05-14
			allow_private
			proxy http://proxy:3128
		}`, `{"api_key":"{file./run/secrets/key}","base_url":"https://claude.example/v1","allow_private":true,"proxy":"http://proxy:3128","max_tokens":2000,"beta":["context-1m-2025-08-07","interleaved-thinking-2025-05-14"]}`, ""},
		{"anthropic {\n api_key sk-ant-secret-literal\n}", "", "must be a reference"},
		{"anthropic {\n apikey {env.KEY}\n}", "", ` provider option "apikey"`},
		{"anthropic {\n api_key\n}", "", "argument"},
		{"anthropic {\n api_key {env.A} {env.B}\n}", "", "argument"},
		{"anthropic {\n base_url https://a\n base_url https://b\n}", "", "twice"},
		{"anthropic {\n base_url \"\"\n}", "", "empty"},
		{"anthropic {\n allow_private yes\n}", "", "argument"},
		{"anthropic {\n max_tokens 0\n}", "", "whole number"},
		{"anthropic {\n max_tokens many\n}", "", "whole number"},
		{"anthropic {\n beta\n}", "", "argument"},
		{"anthropic sk-ant-secret-literal", "", "argument"},
	})
}

func provision(t *testing.T, m *Module) error {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	err := m.Provision(ctx)
	t.Cleanup(func() { m.Cleanup() })
	return err
}

func TestProvision(t *testing.T) {
	t.Setenv("ANTHROPIC_TEST_KEY", "sk-ant-0123456789")
	t.Setenv("ANTHROPIC_TEST_EMPTY", "")
	t.Setenv("ANTHROPIC_TEST_BAD", "sk-ant-\n0123456789")
	pt.CheckProvision(t, "sk-ant-0123456789", &providers.Request{}, provision, []pt.Provisioning[Module]{
		{"a key", Module{Options: httpmodule.Options{APIKey: "{env.ANTHROPIC_TEST_KEY}"}}, "", ""},
		{"no key yet", Module{Options: httpmodule.Options{APIKey: "{env.ANTHROPIC_TEST_EMPTY}"}}, "", "ANTHROPIC_TEST_EMPTY"},
		{"no key file yet", Module{Options: httpmodule.Options{APIKey: "{file./nonexistent/key}"}}, "", "/nonexistent/key"},
		{"a key that no header carries", Module{Options: httpmodule.Options{APIKey: "{env.ANTHROPIC_TEST_BAD}"}}, "", "ANTHROPIC_TEST_BAD"},
		{"a literal", Module{Options: httpmodule.Options{APIKey: "sk-ant-0123456789"}}, "must be a reference", ""},
		{"no key option", Module{}, "api_key is required", ""},
		{"a local server", Module{Options: httpmodule.Options{BaseURL: "http://localhost:11434/v1"}}, "", ""},
		{"a base URL that is none", Module{Options: httpmodule.Options{BaseURL: "localhost:11434"}}, "base_url", ""},
		{"a base URL with a query", Module{Options: httpmodule.Options{BaseURL: "https://x.example/?key=1"}}, "base_url", ""},
		{"a proxy that is none", Module{Options: httpmodule.Options{BaseURL: "http://localhost", Connection: httpmodule.Connection{Proxy: "proxy:1"}}}, "proxy", ""},
		{"a proxy with a password", Module{Options: httpmodule.Options{BaseURL: "http://localhost", Connection: httpmodule.Connection{Proxy: "http://u:p@proxy:1"}}}, "proxy", ""},
		{"negative max_tokens", Module{Options: httpmodule.Options{BaseURL: "http://localhost"}, MaxTokens: -1}, "max_tokens", ""},
		{"an odd preview", Module{Options: httpmodule.Options{BaseURL: "http://localhost"}, Beta: []string{"a b"}}, "beta", ""},
	})
}

func TestProvisionedModuleSendsItsKey(t *testing.T) {
	t.Setenv("ANTHROPIC_TEST_KEY", " sk-ant-0123456789\n")
	up := pt.NewUpstream(t).Always(answer("fine", "end_turn", 1))
	m := Module{Options: httpmodule.Options{APIKey: "{env.ANTHROPIC_TEST_KEY}", BaseURL: up.URL + "/v1"}}
	if err := provision(t, &m); err != nil {
		t.Fatal(err)
	}
	s, err := m.Invoke(t.Context(), &providers.Request{Model: "m", Messages: hello})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if got := up.Requests()[0].Header.Get("X-Api-Key"); got != "sk-ant-0123456789" {
		t.Errorf("x-api-key %q", got)
	}
}
