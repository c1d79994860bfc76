package openai

import (
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
	"github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client makes a client of a test's upstream.
func client(t testing.TB, base string, change ...func(*Config)) *Client {
	t.Helper()
	u, err := url.Parse(base + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	config := Config{Key: "sk-test-0123456789abcdef", Upstream: upstream.Config{BaseURL: u}}
	for _, f := range change {
		f(&config)
	}
	c, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestContract(t *testing.T) {
	providertest.Run(t, func(t *testing.T, b providertest.Behaviour, _ *providers.Request) providers.Provider {
		up := providertest.NewUpstream(t)
		up.Play(b, func(r providertest.Request) providertest.Reply {
			return providertest.OpenAIBehaviour(b, strings.Contains(r.Body, `"stream":true`))
		})
		if b.Key != "" {
			m := &Module{Options: httpmodule.Options{APIKey: b.Key, BaseURL: up.URL + "/v1"}}
			if err := provision(t, m); err != nil {
				t.Fatal(err)
			}
			return m
		}
		return client(t, up.URL)
	})
}
