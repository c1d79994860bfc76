package bedrock

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

func TestCaddyfile(t *testing.T) {
	for _, test := range []struct{ input, want, err string }{
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
	} {
		var m Module
		err := m.UnmarshalCaddyfile(caddyfile.NewTestDispenser(test.input))
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s\nerror %v, want %q", test.input, err, test.err)
			}
			if err != nil && strings.Contains(err.Error(), "wJalrXUtnFEMI") {
				t.Errorf("the error repeats the literal: %v", err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s\n%v", test.input, err)
		}
		got, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, string(got)); diff != "" {
			t.Errorf("%s\n%s", test.input, diff)
		}
	}
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
	for _, test := range []struct {
		name        string
		module      Module
		err         string
		unavailable string
	}{
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
	} {
		t.Run(test.name, func(t *testing.T) {
			err := provision(t, &test.module)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("error %v, want %q", err, test.err)
			}
			if err != nil && strings.Contains(err.Error(), "ABSK") {
				t.Errorf("the error holds the key: %v", err)
			}
			if err != nil {
				return
			}
			reason := providers.Availability(&test.module)
			if (reason == nil) != (test.unavailable == "") || reason != nil && !strings.Contains(reason.Error(), test.unavailable) {
				t.Errorf("unavailable: %v, want %q", reason, test.unavailable)
			}
			if reason != nil {
				if _, err := test.module.Invoke(t.Context(), request(false)); err == nil {
					t.Error("a provider without its key answers")
				}
			}
		})
	}
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
	if o := drain(s); o.text != "ab" || o.err != nil {
		t.Errorf("text %q, error %v", o.text, o.err)
	}
	if got := up.Requests()[0].Header.Get("Authorization"); !strings.Contains(got, "Credential=AKIAIOSFODNN7EXAMPLE/") || !strings.Contains(got, "/us-west-2/bedrock/") {
		t.Errorf("Authorization %q", got)
	}
}
