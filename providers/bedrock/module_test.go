package bedrock

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

func TestCaddyfile(t *testing.T) {
	pt.CheckCaddyfile[Module](t, "bedrock", []pt.Caddyfile{
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
		{"bedrock {\n region\n}", "", "argument"},
		{"bedrock {\n region us-east-1 us-east-2\n}", "", "argument"},
		{"bedrock {\n region a\n region b\n}", "", "twice"},
		{"bedrock {\n region \"\"\n}", "", "empty"},
	})
}

// configured makes a module of common options.
func configured(c pt.Configured) Module {
	return Module{Region: "us-east-1", Options: httpmodule.Options{APIKey: c.Key, BaseURL: c.BaseURL, Connection: httpmodule.Connection{Proxy: c.Proxy}}}
}

func TestProvision(t *testing.T) {
	pt.CheckProvision(t, request(false), configured, []pt.Provisioning[Module]{
		{"an access key", Module{Region: "us-east-1", AccessKeyID: pt.Key, SecretAccessKey: pt.Key}, "", ""},
		{"no session token yet", Module{Region: "us-east-1", AccessKeyID: pt.Key, SecretAccessKey: pt.Key, SessionToken: "{file./nonexistent}"}, "", "/nonexistent"},
		{"no region", Module{Options: httpmodule.Options{APIKey: pt.Key}}, "region", ""},
		{"no region's name", Module{Options: httpmodule.Options{APIKey: pt.Key}, Region: "Frankfurt"}, "region", ""},
		{"nothing", Module{Region: "us-east-1"}, "api_key is required", ""},
		{"half an access key", Module{Region: "us-east-1", AccessKeyID: pt.Key}, "secret_access_key", ""},
		{"a session token alone", Module{Region: "us-east-1", SessionToken: pt.Key}, "secret_access_key", ""},
		{"both", Module{Options: httpmodule.Options{APIKey: pt.Key}, Region: "us-east-1", AccessKeyID: pt.Key}, "not both", ""},
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
	s, err := pt.Provisioned(t, m).Invoke(t.Context(), request(true))
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
