package anthropic

import (
	"encoding/json"
	"math"
	"net/url"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// sent sends one request and returns the request that the upstream got.
func sent(t *testing.T, req *providers.Request, change ...func(*Config)) pt.Request {
	t.Helper()
	r, _ := pt.Sent(t, answer("fine", "end_turn", 1), req, func(base string) providers.Provider { return client(t, base, change...) })
	return r
}

func TestRequestBody(t *testing.T) {
	all := providers.Parameters{
		Temperature: new(0.0), MaxTokens: new(int64(400)), TopP: new(0.9), TopK: new(int64(40)),
		FrequencyPenalty: new(-0.5), PresencePenalty: new(0.25),
	}
	pt.CheckBodies(t, client, answer("fine", "end_turn", 1), false, []pt.Body[Config]{
		{"nothing set", providers.Request{Model: "m", Messages: pt.Messages("user", "a <b> & \"c\"\n")}, nil,
			`{"messages":[{"role":"user","content":"a <b> & \"c\"\n"}],"max_tokens":8192,"model":"m"}`},
		{"the provider's max_tokens", providers.Request{Model: "m", Messages: pt.Messages("user", "a")}, func(c *Config) { c.MaxTokens = 77 },
			`{"messages":[{"role":"user","content":"a"}],"max_tokens":77,"model":"m"}`},
		{"a system message", providers.Request{Model: "m", Messages: pt.Messages("system", "s", "user", "a")}, nil,
			`{"messages":[{"role":"user","content":"a"}],"system":"s","max_tokens":8192,"model":"m"}`},
		{"system messages anywhere", providers.Request{Model: "m", Messages: pt.Messages("system", "s", "user", "a", "developer", "d", "assistant", "b", "system", "e")}, nil,
			`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}],"system":[{"type":"text","text":"s"},{"type":"text","text":"d"},{"type":"text","text":"e"}],"max_tokens":8192,"model":"m"}`},
		{"roles in a row", providers.Request{Model: "m", Messages: pt.Messages("user", "a", "user", "b", "system", "s", "user", "c", "assistant", "d", "assistant", "e", "user", "f")}, nil,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"},{"type":"text","text":"c"}]},{"role":"assistant","content":[{"type":"text","text":"d"},{"type":"text","text":"e"}]},{"role":"user","content":"f"}],"system":"s","max_tokens":8192,"model":"m"}`},
		{"messages without text", providers.Request{Model: "m", Messages: pt.Messages("system", "", "user", "a", "assistant", "", "user", "b")}, nil,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],"max_tokens":8192,"model":"m"}`},
		{"all parameters", providers.Request{Model: "claude-sonnet-4-5", Messages: pt.Messages("user", "a"), Parameters: all}, nil,
			`{"messages":[{"role":"user","content":"a"}],"max_tokens":400,"model":"claude-sonnet-4-5","temperature":0,"top_k":40,"top_p":0.9}`},
		{"all parameters, a model that samples by itself", providers.Request{Model: "claude-sonnet-5", Messages: pt.Messages("user", "a"), Parameters: all}, nil,
			`{"messages":[{"role":"user","content":"a"}],"max_tokens":400,"model":"claude-sonnet-5"}`},
		{"stream", providers.Request{Model: "m", Messages: pt.Messages("user", "a"), Stream: true}, nil,
			`{"messages":[{"role":"user","content":"a"}],"max_tokens":8192,"model":"m","stream":true}`},
		{"extra wins, but not over stream", providers.Request{Model: "claude-opus-5", Messages: pt.Messages("user", "a"), Parameters: all, Extra: map[string]json.RawMessage{
			"max_tokens": json.RawMessage(`9`), "thinking": json.RawMessage(`{"type": "adaptive"}`),
			"stream": json.RawMessage(`true`), "temperature": json.RawMessage(`1`),
		}}, nil,
			`{"messages":[{"role":"user","content":"a"}],"max_tokens":9,"model":"claude-opus-5","temperature":1,"thinking":{"type":"adaptive"}}`},
	})
}

func TestUnsendableRequests(t *testing.T) {
	user := []providers.Message{{Role: "user", Content: "a"}}
	subject.CheckUnsendable(t, []pt.Unsendable{
		{"an unknown role", `message 2 has the unknown role "wizard"`, providers.Request{Messages: append(user, providers.Message{Role: "wizard"})}},
		{"no messages", "no user or assistant message", providers.Request{}},
		{"a system prompt alone", "no user or assistant message", providers.Request{Messages: []providers.Message{{Role: "system", Content: "s"}}}},
		{"no text", "no user or assistant message", providers.Request{Messages: []providers.Message{{Role: "user"}}}},
		{"no number", "cannot be written", providers.Request{Messages: user, Parameters: providers.Parameters{Temperature: new(math.NaN())}}},
		{"extra that is no JSON", "cannot be written", providers.Request{Messages: user, Extra: map[string]json.RawMessage{"x": json.RawMessage(`{`)}}},
	})
}

func TestRequestHeaders(t *testing.T) {
	for _, name := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"} {
		t.Setenv(name, "http://from-the-environment")
	}
	for _, test := range []struct {
		name   string
		stream bool
		change func(*Config)
		want   map[string]string
	}{
		{"with a key", false, func(*Config) {}, map[string]string{"X-Api-Key": testKey, "Accept": "application/json"}},
		{"without a key", true, func(c *Config) { c.Key = "" }, map[string]string{"Accept": "text/event-stream"}},
		{"with previews", false, func(c *Config) { c.Beta = []string{"context-1m-2025-08-07", "b"} }, map[string]string{
			"X-Api-Key": testKey, "Accept": "application/json", "Anthropic-Beta": "context-1m-2025-08-07,b",
		}},
		{"a base URL that ends in a slash", false, func(c *Config) { c.Upstream.BaseURL.Path += "/" }, map[string]string{"X-Api-Key": testKey, "Accept": "application/json"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := sent(t, &providers.Request{Model: "m", Messages: hello, Stream: test.stream}, test.change)
			if r.Method != "POST" || r.Path != "/v1/messages" || r.Query != "" {
				t.Errorf("%s %s?%s", r.Method, r.Path, r.Query)
			}
			test.want["Anthropic-Version"] = "2023-06-01"
			pt.CheckHeaders(t, r, test.want)
		})
	}
}

func TestARedirectIsNotFollowed(t *testing.T) { subject.CheckRedirect(t) }

func TestBadConfigurations(t *testing.T) {
	pt.CheckBadConfigurations(t, New, map[string]func(*Config){
		"key":        func(c *Config) { c.Key = "a\nb" },
		"beta":       func(c *Config) { c.Beta = []string{"a b"} },
		"beta list":  func(c *Config) { c.Beta = []string{"a,b"} },
		"empty beta": func(c *Config) { c.Beta = []string{""} },
		"max_tokens": func(c *Config) { c.MaxTokens = -1 },
		"base URL":   func(c *Config) { c.Upstream.BaseURL = &url.URL{Scheme: "ftp", Host: "x"} },
	})
}

// TestAddress checks the address that a client with nothing but a key calls.
func TestAddress(t *testing.T) {
	c := pt.Client(t, New, Config{Key: testKey})
	pt.CheckAddress(t, c, &c.HTTP.Transport, &providers.Request{Model: "claude-sonnet-4-6", Messages: hello}, "https://api.anthropic.com/v1/messages")
}

// TestAttribution checks that a caller's attribution goes first, to Anthropic's own service
// alone.
func TestAttribution(t *testing.T) {
	req := &providers.Request{Model: "m", Messages: pt.Messages("system", "s", "user", "a"), Parameters: providers.Parameters{Caller: &providers.Caller{Attribution: "x"}}}
	for base, want := range map[string]string{
		DefaultBaseURL:            `{"messages":[{"role":"user","content":"a"}],"system":[{"type":"text","text":"x"},{"type":"text","text":"s"}],"max_tokens":8192,"model":"m"}`,
		"https://models.example/": `{"messages":[{"role":"user","content":"a"}],"system":"s","max_tokens":8192,"model":"m"}`,
	} {
		c := pt.Client(t, New, Config{Key: testKey, Upstream: upstream.Config{BaseURL: pt.URL(t, base)}})
		body, leftOut, err := c.body(req)
		if err != nil || string(body) != want || (len(leftOut) == 0) != c.official {
			t.Errorf("%s: %s, left out %v, %v", base, body, leftOut, err)
		}
	}
}
