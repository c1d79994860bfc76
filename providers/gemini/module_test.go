package gemini

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/secret"
)

func TestCaddyfile(t *testing.T) {
	pt.CheckCaddyfile(t, func(input string) (any, error) {
		var m Module
		err := m.UnmarshalCaddyfile(caddyfile.NewTestDispenser(input))
		return m, err
	}, []pt.Caddyfile{
		{"gemini", `{}`, ""},
		{"gemini {\n api_key {env.KEY}\n}", `{"api_key":"{env.KEY}"}`, ""},
		{"gemini {\n token {file./run/token}\n project my-project\n location europe-west4\n}", `{"token":"{file./run/token}","project":"my-project","location":"europe-west4"}`, ""},
		{"gemini {\n base_url https://gemini.example/v1\n allow_private\n proxy http://proxy:3128\n}", `{"base_url":"https://gemini.example/v1","allow_private":true,"proxy":"http://proxy:3128"}`, ""},
		{"gemini {\n api_key AIza-secret-literal\n}", "", "must be a reference"},
		{"gemini {\n token ya29.secret-literal\n}", "", "must be a reference"},
		{"gemini {\n apikey {env.KEY}\n}", "", ` provider option "apikey"`},
		{"gemini {\n api_key\n}", "", "argument"},
		{"gemini {\n api_key {env.A} {env.B}\n}", "", "argument"},
		{"gemini {\n project a\n project b\n}", "", "twice"},
		{"gemini {\n base_url \"\"\n}", "", "empty"},
		{"gemini {\n allow_private yes\n}", "", "argument"},
		{"gemini AIza-secret-literal", "", "argument"},
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
	const key, empty, bad = secret.Reference("{env.GEMINI_TEST_KEY}"), secret.Reference("{env.GEMINI_TEST_EMPTY}"), secret.Reference("{env.GEMINI_TEST_BAD}")
	t.Setenv("GEMINI_TEST_KEY", "AIza-0123456789")
	t.Setenv("GEMINI_TEST_EMPTY", "")
	t.Setenv("GEMINI_TEST_BAD", "AIza-\n0123456789")
	pt.CheckProvision(t, "AIza-0123456789", &providers.Request{Model: "m", Messages: hello}, provision, []pt.Provisioning[Module]{
		{"a key", Module{Options: httpmodule.Options{APIKey: key}}, "", ""},
		{"no key yet", Module{Options: httpmodule.Options{APIKey: empty}}, "", "GEMINI_TEST_EMPTY"},
		{"no key file yet", Module{Options: httpmodule.Options{APIKey: "{file./nonexistent/key}"}}, "", "/nonexistent/key"},
		{"a key that no header carries", Module{Options: httpmodule.Options{APIKey: bad}}, "", "GEMINI_TEST_BAD"},
		{"a token", Module{Token: key, Project: "p", Location: "global"}, "", ""},
		{"a token for Google AI", Module{Token: key}, "", ""},
		{"a key for Vertex AI", Module{Options: httpmodule.Options{APIKey: key}, Project: "p", Location: "global"}, "", ""},
		{"no token yet", Module{Token: empty, Project: "p", Location: "global"}, "", "GEMINI_TEST_EMPTY"},
		{"a token that no header carries", Module{Token: bad, Project: "p", Location: "global"}, "", "GEMINI_TEST_BAD"},
		{"a literal key", Module{Options: httpmodule.Options{APIKey: "AIza-0123456789"}}, "must be a reference", ""},
		{"a literal token", Module{Token: "AIza-0123456789"}, "must be a reference", ""},
		{"a key and a token", Module{Options: httpmodule.Options{APIKey: key}, Token: key}, "exclude each other", ""},
		{"no key", Module{}, "api_key is required", ""},
		{"no token", Module{Project: "p", Location: "us"}, "token is required", ""},
		{"a project alone", Module{Token: key, Project: "p"}, "belong together", ""},
		{"a location alone", Module{Token: key, Location: "us"}, "belong together", ""},
		{"an odd location", Module{Token: key, Project: "p", Location: "a.b/"}, "location", ""},
		{"a project and a base URL", Module{Options: httpmodule.Options{BaseURL: "https://x.example"}, Token: key, Project: "p", Location: "us"}, "base_url excludes", ""},
		{"a local server", Module{Options: httpmodule.Options{BaseURL: "http://localhost:1/v1beta"}}, "", ""},
		{"a base URL that is none", Module{Options: httpmodule.Options{BaseURL: "localhost:11434"}}, "base_url", ""},
		{"a base URL with a query", Module{Options: httpmodule.Options{BaseURL: "https://x.example/?key=1"}}, "base_url", ""},
		{"a proxy that is none", Module{Options: httpmodule.Options{BaseURL: "http://localhost", Connection: httpmodule.Connection{Proxy: "proxy:1"}}}, "proxy", ""},
		{"a proxy with a password", Module{Options: httpmodule.Options{BaseURL: "http://localhost", Connection: httpmodule.Connection{Proxy: "http://u:p@proxy:1"}}}, "proxy", ""},
	})
}

func TestProvisionedModuleSendsItsSecret(t *testing.T) {
	t.Setenv("GEMINI_TEST_KEY", " AIza-0123456789\n")
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("ya29.token\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	up := pt.NewUpstream(t).Always(answer("fine", "STOP", 1))
	for _, m := range []Module{
		{Options: httpmodule.Options{APIKey: "{env.GEMINI_TEST_KEY}", BaseURL: up.URL + "/v1beta"}},
		{Options: httpmodule.Options{BaseURL: up.URL + "/v1/projects/p/locations/l/publishers/google"}, Token: secret.Reference("{file." + file + "}")},
	} {
		if err := provision(t, &m); err != nil {
			t.Fatal(err)
		}
		s, err := m.Invoke(t.Context(), &providers.Request{Model: "m", Messages: hello})
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
	requests := up.Requests()
	if got := requests[0].Header.Get("X-Goog-Api-Key"); got != "AIza-0123456789" || requests[0].Header.Get("Authorization") != "" {
		t.Errorf("x-goog-api-key %q", got)
	}
	if got := requests[1].Header.Get("Authorization"); got != "Bearer ya29.token" || requests[1].Header.Get("X-Goog-Api-Key") != "" {
		t.Errorf("Authorization %q", got)
	}
	if got := requests[1].Path; got != "/v1/projects/p/locations/l/publishers/google/models/m:generateContent" {
		t.Errorf("path %q", got)
	}
}
