package providertest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/secret"
)

// Module is the Caddy module of a provider over HTTP, of type *M.
type Module[M any] interface {
	*M
	caddyfile.Unmarshaler
	caddy.Provisioner
	caddy.CleanerUpper
	providers.Provider
}

// Provision provisions a module, and cleans it up when the test ends.
func Provision[M any, P Module[M]](t testing.TB, m P) error {
	t.Helper()
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	t.Cleanup(cancel)
	err := m.Provision(ctx)
	t.Cleanup(func() { m.Cleanup() })
	return err
}

// Provisioned provisions a valid module.
func Provisioned[M any, P Module[M]](t testing.TB, m P) P {
	t.Helper()
	if err := Provision(t, m); err != nil {
		t.Fatal(err)
	}
	return m
}

// Caddyfile is a provider's block in a Caddyfile.
type Caddyfile = struct {
	// Input is the block. Want is its adapted JSON, or Err is a part of the error.
	Input, Want, Err string
}

// CheckCaddyfile checks how the blocks of the named module are adapted: the blocks of
// tests, and mistakes in the options that providers over HTTP share. If the error is
// that a secret "must be a reference", the error must not repeat the secret, which is
// the last word of the block.
func CheckCaddyfile[M any, P Module[M]](t *testing.T, name string, tests []Caddyfile) {
	t.Helper()
	for _, option := range []string{"api_key", "token", "secret_access_key"} {
		if hasOption(reflect.TypeFor[M](), option) {
			tests = append(tests,
				Caddyfile{name + " {\n " + option + " sk-secret-literal\n}", "", "must be a reference"},
				Caddyfile{name + " {\n " + option + "\n}", "", "argument"},
				Caddyfile{name + " {\n " + option + " {env.A} {env.B}\n}", "", "argument"})
		}
	}
	if hasOption(reflect.TypeFor[M](), "base_url") {
		tests = append(tests,
			Caddyfile{name + " {\n base_url https://a\n base_url https://b\n}", "", "twice"},
			Caddyfile{name + " {\n base_url \"\"\n}", "", "empty"})
	}
	tests = append(tests,
		Caddyfile{name + " {\n apikey {env.KEY}\n}", "", ` provider option "apikey"`},
		Caddyfile{name + " {\n allow_private yes\n}", "", "argument"},
		Caddyfile{name + " sk-secret-literal", "", "argument"})
	for _, test := range tests {
		var module M
		err := P(&module).UnmarshalCaddyfile(caddyfile.NewTestDispenser(test.Input))
		if test.Err != "" {
			if err == nil || !strings.Contains(err.Error(), test.Err) {
				t.Errorf("%s\nerror %v, want %q", test.Input, err, test.Err)
			}
			words := strings.Fields(strings.Trim(test.Input, " \n}"))
			if err != nil && test.Err == "must be a reference" && strings.Contains(err.Error(), words[len(words)-1]) {
				t.Errorf("the error repeats the literal: %v", err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s\n%v", test.Input, err)
		}
		got, err := json.Marshal(module)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.Want, string(got)); diff != "" {
			t.Errorf("%s\n%s", test.Input, diff)
		}
	}
}

// hasOption reports whether a module, or a struct embedded in it, has an option.
func hasOption(module reflect.Type, option string) bool {
	for _, f := range reflect.VisibleFields(module) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name == option {
			return true
		}
	}
	return false
}

// Provisioning is a configured module of type M, with the expected result.
type Provisioning[M any] = struct {
	Name   string
	Module M
	// Err is a part of the error of the module's Provision. Unavailable is a part of the
	// reason why the provisioned module accepts no requests. Empty means no error.
	Err         string
	Unavailable string
}

// The secrets in tests of configurations: a usable one, one that does not exist yet,
// and one that is invalid in a header.
const (
	Key    = secret.Reference("{env.PROVIDERTEST_KEY}")
	NoKey  = secret.Reference("{env.PROVIDERTEST_NO_KEY}")
	BadKey = secret.Reference("{env.PROVIDERTEST_BAD_KEY}")

	keyText = "0123456789abcdef"
)

// Configured has the common options of providers over HTTP.
type Configured struct {
	Key            secret.Reference
	BaseURL, Proxy string
}

// CheckProvision checks the provisioning of configurations: the given tests, and, if configure
// is not nil, the configurations that it makes from common options. No error may contain the
// key, and a provider that reports itself unavailable must not answer req.
func CheckProvision[M any, P Module[M]](t *testing.T, req *providers.Request, configure func(Configured) M, tests []Provisioning[M]) {
	t.Setenv("PROVIDERTEST_KEY", keyText)
	t.Setenv("PROVIDERTEST_NO_KEY", "")
	t.Setenv("PROVIDERTEST_BAD_KEY", keyText+"\n"+keyText)
	if configure != nil {
		for _, c := range []Provisioning[Configured]{
			{"a key", Configured{Key: Key}, "", ""},
			{"no key yet", Configured{Key: NoKey}, "", "PROVIDERTEST_NO_KEY"},
			{"no key file yet", Configured{Key: "{file./nonexistent/key}"}, "", "/nonexistent/key"},
			{"a key that no header carries", Configured{Key: BadKey}, "", "PROVIDERTEST_BAD_KEY"},
			{"a literal", Configured{Key: keyText}, "must be a reference", ""},
			{"a reference without a name", Configured{Key: "{file.}"}, "must be a reference", ""},
			{"a base URL that is none", Configured{Key: Key, BaseURL: "localhost:11434"}, "must begin with https://", ""},
			{"a base URL with a query", Configured{Key: Key, BaseURL: "https://x.example/?key=1"}, "query", ""},
			{"a proxy that is none", Configured{Key: Key, Proxy: "proxy:1"}, "proxy", ""},
			{"a proxy with a password", Configured{Key: Key, Proxy: "http://u:p@proxy:1"}, "proxy", ""},
		} {
			tests = append(tests, Provisioning[M]{c.Name, configure(c.Module), c.Err, c.Unavailable})
		}
	}
	for _, test := range tests {
		t.Run(test.Name, func(t *testing.T) {
			m := P(&test.Module)
			err := Provision(t, m)
			if (err == nil) != (test.Err == "") || err != nil && !strings.Contains(err.Error(), test.Err) {
				t.Fatalf("error %v, want %q", err, test.Err)
			}
			if err != nil {
				if strings.Contains(err.Error(), keyText) {
					t.Errorf("the error holds the key: %v", err)
				}
				return
			}
			reason := providers.Availability(m)
			if (reason == nil) != (test.Unavailable == "") || reason != nil && !strings.Contains(reason.Error(), test.Unavailable) {
				t.Errorf("unavailable: %v, want %q", reason, test.Unavailable)
			}
			if reason != nil {
				if _, err := m.Invoke(t.Context(), req); err == nil {
					t.Error("a provider without its key answers")
				}
			}
		})
	}
}

// CheckSecretSent checks that the module that configure makes from a secret sends it in a
// header, after prefix. The secret is once in an environment variable and once in a file,
// with white space around it, as is common.
func CheckSecretSent[M any, P Module[M]](t *testing.T, req *providers.Request, reply Reply, header, prefix string, configure func(base string, secret secret.Reference) P) {
	t.Helper()
	t.Setenv("PROVIDERTEST_KEY", " "+keyText+"\n")
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(keyText+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	up := NewUpstream(t).Always(reply)
	for _, reference := range []secret.Reference{Key, secret.Reference("{file." + file + "}")} {
		s, err := Provisioned(t, configure(up.URL, reference)).Invoke(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
	}
	for _, r := range up.Requests() {
		if got := r.Header.Get(header); got != prefix+keyText {
			t.Errorf("%s %q", header, got)
		}
	}
}

// Client makes a client from a configuration with changes, and closes it when the test ends.
func Client[C any, P interface{ Close() }](t testing.TB, new func(C) (P, error), config C, change ...func(*C)) P {
	t.Helper()
	for _, f := range change {
		f(&config)
	}
	p, err := new(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// URL parses the URL of a test.
func URL(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// CheckBadConfigurations checks that an empty configuration with each of these changes is
// refused.
func CheckBadConfigurations[C, P any](t *testing.T, new func(C) (P, error), changes map[string]func(*C)) {
	t.Helper()
	for name, change := range changes {
		var config C
		change(&config)
		if _, err := new(config); err == nil {
			t.Errorf("a bad %s was taken", name)
		}
	}
}

// CheckAddress checks the address that a client calls, whose transport it replaces.
func CheckAddress(t *testing.T, p providers.Provider, transport *http.RoundTripper, req *providers.Request, want string) {
	t.Helper()
	var sent InProcess
	*transport = &sent
	if s, err := p.Invoke(t.Context(), req); err == nil {
		s.Close()
	}
	if sent.URL != want {
		t.Errorf("sent to %s, want %s", sent.URL, want)
	}
}
