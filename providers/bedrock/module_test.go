package bedrock

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

func TestCaddyfile(t *testing.T) {
	pt.CheckCaddyfile(t, func(input string) (any, error) {
		var m Module
		err := m.UnmarshalCaddyfile(caddyfile.NewTestDispenser(input))
		return m, err
	}, []pt.Caddyfile{
		{"bedrock {\n region us-east-1\n api_key {env.KEY}\n}", `{"region":"us-east-1","api_key":"{env.KEY}"}`, ""},
		{`bedrock {
			region eu-central-1
			access_key_id {env.ID}
			secret_access_key {file./run/secrets/aws}
			session_token {env.TOKEN}
			base_url https://vpce-1.example
			allow_private
			proxy http://proxy:3128
		}`, `{"region":"eu-central-1","base_url":"https://vpce-1.example","allow_private":true,"proxy":"http://proxy:3128","access_key_id":"{env.ID}","secret_access_key":"{file./run/secrets/aws}","session_token":"{env.TOKEN}"}`, ""},
		{"bedrock {\n secret_access_key wJalrXUtnFEMI\n}", "", "must be a reference"},
		{"bedrock {\n apikey {env.KEY}\n}", "", ` provider option "apikey"`},
		{"bedrock {\n region\n}", "", "argument"},
		{"bedrock {\n region us-east-1 us-east-2\n}", "", "argument"},
		{"bedrock {\n region a\n region b\n}", "", "twice"},
		{"bedrock {\n region \"\"\n}", "", "empty"},
		{"bedrock {\n allow_private yes\n}", "", "argument"},
		{"bedrock us-east-1", "", "argument"},
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
	t.Setenv("BEDROCK_TEST_KEY", "0123456789")
	t.Setenv("BEDROCK_TEST_EMPTY", "")
	pt.CheckProvision(t, "ABSK", request(false), provision, []pt.Provisioning[Module]{
		{"an API key", Module{Options: httpmodule.Options{APIKey: "{env.BEDROCK_TEST_KEY}"}, Region: "us-east-1"}, "", ""},
		{"an access key", Module{Region: "us-east-1", AccessKeyID: "{env.BEDROCK_TEST_KEY}", SecretAccessKey: "{env.BEDROCK_TEST_KEY}"}, "", ""},
		{"no API key yet", Module{Options: httpmodule.Options{APIKey: "{env.BEDROCK_TEST_EMPTY}"}, Region: "us-east-1"}, "", "BEDROCK_TEST_EMPTY"},
		{"no session token yet", Module{Region: "us-east-1", AccessKeyID: "{env.BEDROCK_TEST_KEY}", SecretAccessKey: "{env.BEDROCK_TEST_KEY}", SessionToken: "{file./nonexistent}"}, "", "/nonexistent"},
		{"a literal", Module{Options: httpmodule.Options{APIKey: "ABSKQmVkcm9jaw"}, Region: "us-east-1"}, "must be a reference", ""},
		{"no region", Module{Options: httpmodule.Options{APIKey: "{env.BEDROCK_TEST_KEY}"}}, "region", ""},
		{"no region's name", Module{Options: httpmodule.Options{APIKey: "{env.BEDROCK_TEST_KEY}"}, Region: "Frankfurt"}, "region", ""},
		{"nothing", Module{Region: "us-east-1"}, "api_key is required", ""},
		{"half an access key", Module{Region: "us-east-1", AccessKeyID: "{env.BEDROCK_TEST_KEY}"}, "secret_access_key", ""},
		{"a session token alone", Module{Region: "us-east-1", SessionToken: "{env.BEDROCK_TEST_KEY}"}, "secret_access_key", ""},
		{"both", Module{Options: httpmodule.Options{APIKey: "{env.BEDROCK_TEST_KEY}"}, Region: "us-east-1", AccessKeyID: "{env.BEDROCK_TEST_KEY}"}, "not both", ""},
		{"a base URL that is none", Module{Options: httpmodule.Options{APIKey: "{env.BEDROCK_TEST_KEY}", BaseURL: "localhost:1"}, Region: "us-east-1"}, "base_url", ""},
		{"a proxy that is none", Module{Options: httpmodule.Options{APIKey: "{env.BEDROCK_TEST_KEY}", Connection: httpmodule.Connection{Proxy: "proxy:1"}}, Region: "us-east-1"}, "proxy", ""},
	})
}

func TestProvisionedModuleCallsTheModel(t *testing.T) {
	up := pt.NewUpstream(t).Always(streamed(wholeStream("a", "b")...))
	dir := t.TempDir()
	for name, content := range map[string]string{"id": "AKIAIOSFODNN7EXAMPLE\n", "secret": "s3cret\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := new(Module)
	config := "bedrock {\n region us-west-2\n base_url " + up.URL + "\n access_key_id {file." + dir + "/id}\n secret_access_key {file." + dir + "/secret}\n}"
	if err := m.UnmarshalCaddyfile(caddyfile.NewTestDispenser(config)); err != nil {
		t.Fatal(err)
	}
	if err := provision(t, m); err != nil {
		t.Fatal(err)
	}
	s, err := m.Invoke(t.Context(), request(true))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if o := pt.Read(s); o.Text != "ab" || o.Err != nil {
		t.Errorf("text %q, error %v", o.Text, o.Err)
	}
	if got := up.Requests()[0].Header.Get("Authorization"); !strings.Contains(got, "Credential=AKIAIOSFODNN7EXAMPLE/") || !strings.Contains(got, "/us-west-2/bedrock/") {
		t.Errorf("Authorization %q", got)
	}
}
