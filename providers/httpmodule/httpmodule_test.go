package httpmodule_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
	"github.com/cadenza-gateway/cadenza/secret"
)

// module is one of somebody else, with an option of each type.
type module struct {
	httpmodule.Options

	Token  secret.Reference `json:"token,omitempty"`
	Region string           `json:"region,omitempty"`
	Limit  int64            `json:"limit,omitempty"`
	Beta   []string         `json:"beta,omitempty"`
	Plain  bool             `json:"plain,omitempty"`
	Hidden string           `json:"-"`
}

func TestUnmarshal(t *testing.T) {
	for _, test := range []struct{ input, want, err string }{
		{"acme", `{}`, ""},
		{"acme {\n allow_private\n allow_private\n proxy http://p:1\n}", `{"allow_private":true,"proxy":"http://p:1"}`, ""},
		{"acme {\n plain\n beta a b\n limit 7\n region eu\n token {file./t}\n base_url http://a\n api_key {env.A}\n}",
			`{"api_key":"{env.A}","base_url":"http://a","token":"{file./t}","region":"eu","limit":7,"beta":["a","b"],"plain":true}`, ""},
		{"acme a", "", "acme takes no arguments: its options are in a block"},
		{"acme {\n region eu us\n}", "", "region takes one argument, this has 2, at Testfile:2"},
		{"acme {\n region\n}", "", "region takes one argument, this has 0"},
		{"acme {\n plain yes\n}", "", "plain takes no argument"},
		{"acme {\n beta\n}", "", "beta takes one argument or more"},
		{"acme {\n api_key {env.A} a-literal\n}", "", "api_key takes one argument"},
		{"acme {\n base_url https://a.example/v1/chat/completions\n}", "", "base_url must end before /chat/completions: the gateway adds the rest itself, at Testfile:2"},
		{"acme {\n base_url a.example\n}", "", "base_url must begin with https:// or http://, at Testfile:2"},
		{"acme {\n region \"\"\n}", "", "region is empty"},
		{"acme {\n region eu\n region us\n}", "", "region is configured twice"},
		{"acme {\n beta a\n beta b\n}", "", "beta is configured twice"},
		{"acme {\n limit 0\n}", "", `limit must be a whole number of at least 1, not "0"`},
		{"acme {\n limit 1.5\n}", "", `limit must be a whole number of at least 1, not "1.5"`},
		{"acme {\n token a-literal\n}", "", "token: "},
		{"acme {\n api-key {env.A}\n}", "", `unrecognized acme provider option "api-key", did you mean "api_key"?`},
		{"acme {\n colour red\n}", "", `unrecognized acme provider option "colour", known: api_key, base_url, allow_private, proxy, token, region, limit, beta, plain`},
		{"acme {\n hidden a\n}", "", "unrecognized"},
		{"acme {\n - a\n}", "", "unrecognized"},
	} {
		var m module
		err := httpmodule.Unmarshal(caddyfile.NewTestDispenser(test.input), &m)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "a-literal") {
				t.Errorf("%s\nerror %v, want %q", test.input, err, test.err)
			}
			continue
		}
		got, _ := json.Marshal(m)
		if err != nil || string(got) != test.want {
			t.Errorf("%s\ngot  %s\nwant %s\nerror %v", test.input, got, test.want, err)
		}
	}
}

func newContext(t *testing.T) caddy.Context {
	ctx, cancel := caddy.NewContext(caddy.Context{Context: context.Background()})
	t.Cleanup(cancel)
	return ctx
}

func TestPrepare(t *testing.T) {
	t.Setenv("HTTPMODULE_TEST_KEY", "k-0123456789")
	const key = "{env.HTTPMODULE_TEST_KEY}"
	for _, test := range []struct {
		name, service string
		options       httpmodule.Options
		base, key     string
		err           string
	}{
		{"a key", "Acme", httpmodule.Options{APIKey: key}, "https://api.acme.example/v1", "k-0123456789", ""},
		{"a key and an address", "Acme", httpmodule.Options{APIKey: key, BaseURL: "https://a.example"}, "https://a.example", "k-0123456789", ""},
		{"no key elsewhere", "Acme", httpmodule.Options{BaseURL: "https://a.example"}, "https://a.example", "", ""},
		{"no key at the service", "Acme", httpmodule.Options{}, "", "", "api_key is required: Acme answers nothing without one"},
		{"no key at its host", "Acme", httpmodule.Options{BaseURL: "https://api.acme.example/v2"}, "", "", "api_key is required"},
		{"a service without keys", "", httpmodule.Options{}, "https://api.acme.example/v1", "", ""},
		{"a literal", "Acme", httpmodule.Options{APIKey: "k-0123456789"}, "", "", "api_key: "},
		{"no URL", "Acme", httpmodule.Options{APIKey: key, BaseURL: "a.example"}, "", "", "base_url"},
		{"its address without the path", "Acme", httpmodule.Options{APIKey: key, BaseURL: "https://api.acme.example/"}, "", "", "base_url must end in /v1 at api.acme.example, or be left out"},
		{"its address with the path", "Acme", httpmodule.Options{APIKey: key, BaseURL: "https://api.acme.example/v1/"}, "https://api.acme.example/v1/", "k-0123456789", ""},
		{"its host at another port", "Acme", httpmodule.Options{APIKey: key, BaseURL: "https://api.acme.example:8443"}, "https://api.acme.example:8443", "k-0123456789", ""},
		{"no proxy", "Acme", httpmodule.Options{APIKey: key, Connection: httpmodule.Connection{Proxy: "p:1"}}, "", "", "proxy"},
	} {
		config, get, err := test.options.Prepare(newContext(t), test.service, "https://api.acme.example/v1")
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "k-0123456789") {
				t.Errorf("%s: error %v, want %q", test.name, err, test.err)
			}
			continue
		}
		var got string
		if err == nil && get != nil {
			got, err = get()
		}
		if err != nil || config.BaseURL.String() != test.base || got != test.key || (get == nil) != (test.key == "") {
			t.Errorf("%s: %s with the key %q, %v", test.name, config.BaseURL, got, err)
		}
	}
}

// client is a provider that notes that it was closed.
type client struct{ closed bool }

func (c *client) Invoke(context.Context, *providers.Request) (providers.Stream, error) {
	return nil, errors.New("not today")
}
func (c *client) Host() string { return "api.acme.example:443" }
func (c *client) Close()       { c.closed = true }

func TestServe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	m := module{Options: httpmodule.Options{APIKey: secret.Reference("{file." + file + "}")}}
	if err := m.Cleanup(); err != nil {
		t.Error(err)
	}
	if _, _, err := m.Prepare(newContext(t), "Acme", "https://api.acme.example"); err != nil {
		t.Fatal(err)
	}
	failed := errors.New("no client")
	if err := m.Serve((*client)(nil), failed); err != failed {
		t.Errorf("error %v", err)
	}
	var c client
	if err := m.Serve(&c, nil); err != nil {
		t.Fatal(err)
	}
	if err := providers.Availability(&m); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("unavailable: %v", err)
	}
	if host, ok := providers.Host(&m); host != c.Host() || !ok {
		t.Errorf("host %q", host)
	}
	if _, err := m.Invoke(t.Context(), nil); err == nil || err.Error() != "not today" {
		t.Errorf("error %v", err)
	}
	if err := m.Cleanup(); err != nil || !c.closed {
		t.Errorf("closed %v, %v", c.closed, err)
	}

	if err := os.WriteFile(file, []byte("a key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var other httpmodule.Connection
	for check, want := range map[string]bool{"any": true, "header": false} {
		f := map[string]func(string) error{"header": upstream.CheckKey}[check]
		value, err := other.Secret("token", secret.Reference("{file."+file+"}"), f)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := value(); (err == nil) != want || want && got != "a key" {
			t.Errorf("%s: %q, %v", check, got, err)
		}
	}
	if err := other.Unavailable(); err == nil {
		t.Error("available without one of its secrets")
	}
}
