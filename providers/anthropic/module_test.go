package anthropic

import (
	"testing"

	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/secret"
)

func TestCaddyfile(t *testing.T) {
	pt.CheckCaddyfile[Module](t, "anthropic", []pt.Caddyfile{
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
		{"anthropic {\n max_tokens 0\n}", "", "whole number"},
		{"anthropic {\n max_tokens many\n}", "", "whole number"},
		{"anthropic {\n beta\n}", "", "argument"},
	})
}

// configured makes a module of common options.
func configured(c pt.Configured) Module {
	return Module{Options: httpmodule.Options{APIKey: c.Key, BaseURL: c.BaseURL, Connection: httpmodule.Connection{Proxy: c.Proxy}}}
}

func TestProvision(t *testing.T) {
	local := httpmodule.Options{BaseURL: "http://localhost:11434/v1"}
	pt.CheckProvision(t, &subject.Request, configured, []pt.Provisioning[Module]{
		{"no key option", Module{}, "api_key is required", ""},
		{"a local server", Module{Options: local}, "", ""},
		{"negative max_tokens", Module{Options: local, MaxTokens: -1}, "max_tokens", ""},
		{"an odd preview", Module{Options: local, Beta: []string{"a b"}}, "beta", ""},
	})
}

func TestProvisionedModuleSendsItsKey(t *testing.T) {
	pt.CheckSecretSent(t, &subject.Request, answer("fine", "end_turn", 1), "X-Api-Key", "", func(base string, key secret.Reference) *Module {
		return &Module{Options: httpmodule.Options{APIKey: key, BaseURL: base + "/v1"}}
	})
}
