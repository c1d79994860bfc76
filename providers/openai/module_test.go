package openai

import (
	"testing"

	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/secret"
)

func TestCaddyfile(t *testing.T) {
	pt.CheckCaddyfile[Module](t, "openai", []pt.Caddyfile{
		{"openai", `{}`, ""},
		{"openai {\n api_key {env.KEY}\n}", `{"api_key":"{env.KEY}"}`, ""},
		{`openai {
			api_key {file./run/secrets/key}
			base_url https://api.groq.com/openai/v1
			allow_private
			no_stream_options
			api responses
			organization org-1
			project proj-1
			proxy http://proxy:3128
		}`, `{"api_key":"{file./run/secrets/key}","base_url":"https://api.groq.com/openai/v1","allow_private":true,"proxy":"http://proxy:3128","no_stream_options":true,"api":"responses","organization":"org-1","project":"proj-1"}`, ""},
	})
}

// configured makes a module of common options.
func configured(c pt.Configured) Module {
	return Module{Options: httpmodule.Options{APIKey: c.Key, BaseURL: c.BaseURL, Connection: httpmodule.Connection{Proxy: c.Proxy}}}
}

func TestProvision(t *testing.T) {
	pt.CheckProvision(t, &subject.Request, configured, []pt.Provisioning[Module]{
		{"no key option", Module{}, "api_key is required", ""},
		{"no key of a region", Module{Options: httpmodule.Options{BaseURL: "https://eu.api.openai.com/v1"}}, "api_key is required", ""},
		{"a local server", Module{Options: httpmodule.Options{BaseURL: "http://localhost:11434/v1"}}, "", ""},
		{"an API that is none", Module{Options: httpmodule.Options{APIKey: pt.Key}, API: "completions"}, `api is chat or responses, not "completions"`, ""},
		{"an odd organization", Module{Options: httpmodule.Options{APIKey: pt.Key}, Organization: "a b"}, "organization", ""},
	})
}

func TestProvisionedModuleSendsItsKey(t *testing.T) {
	pt.CheckSecretSent(t, &subject.Request, pt.OpenAIAnswer("fine", 1), "Authorization", "Bearer ", func(base string, key secret.Reference) *Module {
		return &Module{Options: httpmodule.Options{APIKey: key, BaseURL: base + "/v1"}}
	})
}
