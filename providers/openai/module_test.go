package openai

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
		{"openai", `{}`, ""},
		{"openai {\n api_key {env.KEY}\n}", `{"api_key":"{env.KEY}"}`, ""},
		{`openai {
			api_key {file./run/secrets/key}
			base_url https://api.groq.com/openai/v1
			allow_private
			no_stream_options
			organization org-1
			project proj-1
			proxy http://proxy:3128
		}`, `{"api_key":"{file./run/secrets/key}","base_url":"https://api.groq.com/openai/v1","allow_private":true,"proxy":"http://proxy:3128","no_stream_options":true,"organization":"org-1","project":"proj-1"}`, ""},
		{"openai {\n api_key sk-secret-literal\n}", "", "must be a reference"},
		{"openai {\n apikey {env.KEY}\n}", "", ` provider option "apikey"`},
		{"openai {\n api_key\n}", "", "argument"},
		{"openai {\n api_key {env.A} {env.B}\n}", "", "argument"},
		{"openai {\n base_url https://a\n base_url https://b\n}", "", "twice"},
		{"openai {\n base_url \"\"\n}", "", "empty"},
		{"openai {\n allow_private yes\n}", "", "argument"},
		{"openai sk-secret-literal", "", "argument"},
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
	t.Setenv("OPENAI_TEST_KEY", "sk-0123456789")
	t.Setenv("OPENAI_TEST_EMPTY", "")
	t.Setenv("OPENAI_TEST_BAD", "sk-\n0123456789")
	pt.CheckProvision(t, "sk-0123456789", &providers.Request{}, provision, []pt.Provisioning[Module]{
		{"a key", Module{Options: httpmodule.Options{APIKey: "{env.OPENAI_TEST_KEY}"}}, "", ""},
		{"no key yet", Module{Options: httpmodule.Options{APIKey: "{env.OPENAI_TEST_EMPTY}"}}, "", "OPENAI_TEST_EMPTY"},
		{"no key file yet", Module{Options: httpmodule.Options{APIKey: "{file./nonexistent/key}"}}, "", "/nonexistent/key"},
		{"a key that no header carries", Module{Options: httpmodule.Options{APIKey: "{env.OPENAI_TEST_BAD}"}}, "", "OPENAI_TEST_BAD"},
		{"a literal", Module{Options: httpmodule.Options{APIKey: "sk-0123456789"}}, "must be a reference", ""},
		{"no key option", Module{}, "api_key is required", ""},
		{"a reference without a name", Module{Options: httpmodule.Options{APIKey: "{file.}"}}, "must be a reference", ""},
		{"a local server", Module{Options: httpmodule.Options{BaseURL: "http://localhost:11434/v1"}}, "", ""},
		{"a base URL that is none", Module{Options: httpmodule.Options{BaseURL: "localhost:11434"}}, "base_url", ""},
		{"a base URL with a query", Module{Options: httpmodule.Options{BaseURL: "https://x.example/?key=1"}}, "base_url", ""},
		{"a proxy that is none", Module{Options: httpmodule.Options{BaseURL: "http://localhost", Connection: httpmodule.Connection{Proxy: "proxy:1"}}}, "proxy", ""},
		{"a proxy with a password", Module{Options: httpmodule.Options{BaseURL: "http://localhost", Connection: httpmodule.Connection{Proxy: "http://u:p@proxy:1"}}}, "proxy", ""},
		{"an odd organization", Module{Options: httpmodule.Options{APIKey: "{env.OPENAI_TEST_KEY}"}, Organization: "a b"}, "organization", ""},
	})
}

func TestProvisionedModuleSendsItsKey(t *testing.T) {
	t.Setenv("OPENAI_TEST_KEY", " sk-0123456789\n")
	up := pt.NewUpstream(t).Always(pt.OpenAIAnswer("fine", 1))
	m := Module{Options: httpmodule.Options{APIKey: "{env.OPENAI_TEST_KEY}", BaseURL: up.URL + "/v1"}}
	if err := provision(t, &m); err != nil {
		t.Fatal(err)
	}
	s, err := m.Invoke(t.Context(), &providers.Request{Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	if got := up.Requests()[0].Header.Get("Authorization"); got != "Bearer sk-0123456789" {
		t.Errorf("Authorization %q", got)
	}
}
