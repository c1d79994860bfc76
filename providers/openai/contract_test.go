package openai

import (
	"io"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testKey = "sk-test-0123456789abcdef"

// client makes a client of a test's upstream.
func client(t testing.TB, base string, change ...func(*Config)) *Client {
	return pt.Client(t, New, Config{Key: testKey, Upstream: upstream.Config{BaseURL: pt.URL(t, base+"/v1")}}, change...)
}

// subject is the client as the checks of its wire format see it.
var subject = pt.Subject{
	Name:    "openai",
	Connect: func(t testing.TB, base string) providers.Provider { return client(t, base) },
	Open: func(body io.ReadCloser) providers.Stream {
		return newStream(upstream.Call{Provider: "openai", Secrets: [2]string{testKey}}, body, nil)
	},
	Request: providers.Request{Model: "m"},
}

func TestContract(t *testing.T) { pt.Run(t, service(Quirks{})) }

// service makes providers of the contract with a service's quirks.
func service(q Quirks) pt.Factory {
	return func(t *testing.T, b pt.Behaviour, _ *providers.Request) providers.Provider {
		if b.Thought != nil && q.Thoughts != reasoningDetails {
			return nil
		}
		up := pt.NewUpstream(t)
		up.Play(b, func(r pt.Request) pt.Reply {
			return pt.OpenAIBehaviour(b, strings.Contains(r.Body, `"stream":true`))
		})
		if b.Key != "" {
			return pt.Provisioned(t, &Module{Options: httpmodule.Options{APIKey: b.Key, BaseURL: up.URL + "/v1"}})
		}
		return client(t, up.URL, func(c *Config) { c.Quirks = q })
	}
}

// TestTableOfParts has the services one by one, with the documentation's words on
// them.
func TestTableOfParts(t *testing.T) {
	for _, s := range services {
		t.Run(s.Name, func(t *testing.T) {
			quirks := s.Quirks
			if s.Name == "openai" {
				quirks = officialQuirks
			}
			pt.CheckTable(t, s.Name, service(quirks))
		})
	}
}

// TestPrefix checks each service. One without tools whose turns alternate has the system's
// messages as one.
func TestPrefix(t *testing.T) {
	for _, s := range append(services, Service{Name: "official", Quirks: officialQuirks}) {
		t.Run(s.Name, func(t *testing.T) {
			own := subject
			own.Connect = func(t testing.TB, base string) providers.Provider {
				return client(t, base, func(c *Config) { c.Quirks = s.Quirks })
			}
			own.CheckPrefix(t, pt.OpenAIAnswer("fine", 1), "messages", !s.Quirks.NoTools)
		})
	}
}
