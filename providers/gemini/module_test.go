package gemini

import (
	"testing"

	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/secret"
)

func TestCaddyfile(t *testing.T) {
	pt.CheckCaddyfile[Module](t, "gemini", []pt.Caddyfile{
		{"gemini", `{}`, ""},
		{"gemini {\n api_key {env.KEY}\n}", `{"api_key":"{env.KEY}"}`, ""},
		{"gemini {\n token {file./run/token}\n project my-project\n location europe-west4\n}", `{"token":"{file./run/token}","project":"my-project","location":"europe-west4"}`, ""},
		{"gemini {\n base_url https://gemini.example/v1\n allow_private\n proxy http://proxy:3128\n}", `{"base_url":"https://gemini.example/v1","allow_private":true,"proxy":"http://proxy:3128"}`, ""},
		{"gemini {\n project a\n project b\n}", "", "twice"},
	})
}

// configured makes a module of common options.
func configured(c pt.Configured) Module {
	return Module{Options: httpmodule.Options{APIKey: c.Key, BaseURL: c.BaseURL, Connection: httpmodule.Connection{Proxy: c.Proxy}}}
}

func TestProvision(t *testing.T) {
	const key = pt.Key
	pt.CheckProvision(t, &subject.Request, configured, []pt.Provisioning[Module]{
		{"a token", Module{Token: key, Project: "p", Location: "global"}, "", ""},
		{"a token for Google AI", Module{Token: key}, "", ""},
		{"a key for Vertex AI", Module{Options: httpmodule.Options{APIKey: key}, Project: "p", Location: "global"}, "", ""},
		{"no token yet", Module{Token: pt.NoKey, Project: "p", Location: "global"}, "", "PROVIDERTEST_NO_KEY"},
		{"a token that no header carries", Module{Token: pt.BadKey, Project: "p", Location: "global"}, "", "PROVIDERTEST_BAD_KEY"},
		{"a literal token", Module{Token: "0123456789abcdef"}, "must be a reference", ""},
		{"a key and a token", Module{Options: httpmodule.Options{APIKey: key}, Token: key}, "exclude each other", ""},
		{"no key", Module{}, "api_key is required", ""},
		{"no token", Module{Project: "p", Location: "us"}, "token is required", ""},
		{"a project alone", Module{Token: key, Project: "p"}, "belong together", ""},
		{"a location alone", Module{Token: key, Location: "us"}, "belong together", ""},
		{"an odd location", Module{Token: key, Project: "p", Location: "a.b/"}, "location", ""},
		{"a project and a base URL", Module{Options: httpmodule.Options{BaseURL: "https://x.example"}, Token: key, Project: "p", Location: "us"}, "base_url excludes", ""},
		{"a local server", Module{Options: httpmodule.Options{BaseURL: "http://localhost:1/v1beta"}}, "", ""},
	})
}

func TestProvisionedModuleSendsItsSecret(t *testing.T) {
	pt.CheckSecretSent(t, &subject.Request, answer("fine", "STOP", 1), "X-Goog-Api-Key", "", func(base string, key secret.Reference) *Module {
		return &Module{Options: httpmodule.Options{APIKey: key, BaseURL: base + "/v1beta"}}
	})
	pt.CheckSecretSent(t, &subject.Request, answer("fine", "STOP", 1), "Authorization", "Bearer ", func(base string, token secret.Reference) *Module {
		return &Module{Options: httpmodule.Options{BaseURL: base + "/v1/projects/p/locations/l/publishers/google"}, Token: token}
	})
}
