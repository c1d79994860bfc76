package gemini

import (
	"encoding/json"
	"errors"
	"math"
	"net/url"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// sent sends one request and returns the request that the upstream got.
func sent(t *testing.T, req *providers.Request, change ...func(*Config)) pt.Request {
	t.Helper()
	r, _ := pt.Sent(t, answer("fine", "STOP", 1), req, func(base string) providers.Provider { return client(t, base, change...) })
	return r
}

func TestRequestBody(t *testing.T) {
	all := providers.Parameters{
		Temperature: new(0.0), MaxTokens: new(int64(400)), TopP: new(0.9), TopK: new(int64(40)),
		FrequencyPenalty: new(-0.5), PresencePenalty: new(0.25),
	}
	pt.CheckBodies(t, client, answer("fine", "STOP", 1), false, []pt.Body[Config]{
		{"nothing set", providers.Request{Model: "m", Messages: pt.Messages("user", "a <b> & \"c\"\n")},
			nil, `{"contents":[{"role":"user","parts":[{"text":"a <b> & \"c\"\n"}]}]}`},
		{"system messages anywhere", providers.Request{Model: "m", Messages: pt.Messages("system", "s", "user", "a", "developer", "d", "assistant", "b", "system", "")},
			nil, `{"contents":[{"role":"user","parts":[{"text":"a"}]},{"role":"model","parts":[{"text":"b"}]}],"systemInstruction":{"parts":[{"text":"s"},{"text":"d"}]}}`},
		{"roles in a row", providers.Request{Model: "m", Messages: pt.Messages("user", "a", "system", "s", "user", "b", "assistant", "c", "assistant", "d", "user", "e")},
			nil, `{"contents":[{"role":"user","parts":[{"text":"a"},{"text":"b"}]},{"role":"model","parts":[{"text":"c"},{"text":"d"}]},{"role":"user","parts":[{"text":"e"}]}],"systemInstruction":{"parts":[{"text":"s"}]}}`},
		{"messages without text", providers.Request{Model: "m", Messages: pt.Messages("user", "a", "assistant", "", "user", "b")},
			nil, `{"contents":[{"role":"user","parts":[{"text":"a"},{"text":"b"}]}]}`},
		{"all parameters", providers.Request{Model: "m", Messages: pt.Messages("user", "a"), Parameters: all, Stream: true},
			nil, `{"contents":[{"role":"user","parts":[{"text":"a"}]}],"generationConfig":{"frequencyPenalty":-0.5,"maxOutputTokens":400,"presencePenalty":0.25,"temperature":0,"topK":40,"topP":0.9}}`},
		{"extra wins", providers.Request{Model: "m", Messages: pt.Messages("system", "s", "user", "a"), Extra: map[string]json.RawMessage{
			"safetySettings": json.RawMessage(`[ ]`), "systemInstruction": json.RawMessage(`{"parts":[]}`),
		}}, nil, `{"contents":[{"role":"user","parts":[{"text":"a"}]}],"safetySettings":[],"systemInstruction":{"parts":[]}}`},
		{"extra wins member by member", providers.Request{Model: "m", Messages: pt.Messages("user", "a"), Parameters: providers.Parameters{Temperature: new(0.5), TopP: new(0.9)}, Extra: map[string]json.RawMessage{
			"generationConfig": json.RawMessage(`{"temperature": 1.5, "thinkingConfig": {"thinkingBudget": 0}, "stopSequences": ["x"]}`),
		}}, nil, `{"contents":[{"role":"user","parts":[{"text":"a"}]}],"generationConfig":{"stopSequences":["x"],"temperature":1.5,"thinkingConfig":{"thinkingBudget":0},"topP":0.9}}`},
	})
}

func TestUnsendableRequests(t *testing.T) {
	user := []providers.Message{{Role: "user", Content: "a"}}
	extra := func(name, value string) map[string]json.RawMessage {
		return map[string]json.RawMessage{name: json.RawMessage(value)}
	}
	tests := []pt.Unsendable{
		{"an unknown role", `message 2 has the unknown role "wizard"`, providers.Request{Messages: append(user, providers.Message{Role: "wizard"})}},
		{"no messages", "no user or assistant message", providers.Request{}},
		{"a system prompt alone", "no user or assistant message", providers.Request{Messages: []providers.Message{{Role: "system", Content: "s"}}}},
		{"no number", "cannot be written", providers.Request{Messages: user, Parameters: providers.Parameters{TopP: new(math.Inf(1))}}},
		{"extra that is no JSON", "cannot be written", providers.Request{Messages: user, Extra: extra("x", `{`)}},
		{"a generationConfig that is no object", "generationConfig", providers.Request{Messages: user, Extra: extra("generationConfig", `7`)}},
		{"no model", "no name of a Gemini model", providers.Request{Messages: user, Model: "-"}},
		{"a path as the model", "no name of a Gemini model", providers.Request{Messages: user, Model: "../../v1/x"}},
		{"a query as the model", "no name of a Gemini model", providers.Request{Messages: user, Model: "m?key=1"}},
		{"a method as the model", "no name of a Gemini model", providers.Request{Messages: user, Model: "m:countTokens"}},
	}
	for i := range tests {
		if tests[i].Request.Model == "" {
			tests[i].Request.Model = "m"
		}
	}
	subject.CheckUnsendable(t, tests)
}

func TestRequestTarget(t *testing.T) {
	for _, test := range []struct {
		model, base string
		stream      bool
		path, query string
	}{
		{"gemini-2.5-flash", "", false, "/v1beta/models/gemini-2.5-flash:generateContent", ""},
		{"gemini-2.5-flash", "", true, "/v1beta/models/gemini-2.5-flash:streamGenerateContent", "alt=sse"},
		{"models/gemini-2.5-flash@001", "/", false, "/v1beta/models/gemini-2.5-flash@001:generateContent", ""},
		{"tunedModels/my-model", "", false, "/v1beta/tunedModels/my-model:generateContent", ""},
		{"gemini-2.5-pro", "/projects/p/locations/global/publishers/google", true, "/v1beta/projects/p/locations/global/publishers/google/models/gemini-2.5-pro:streamGenerateContent", "alt=sse"},
	} {
		r := sent(t, &providers.Request{Model: test.model, Messages: hello, Stream: test.stream}, func(c *Config) { c.Upstream.BaseURL.Path += test.base })
		if r.Method != "POST" || r.Path != test.path || r.Query != test.query {
			t.Errorf("%s %s?%s, want %s?%s", r.Method, r.Path, r.Query, test.path, test.query)
		}
	}
}

func TestRequestHeaders(t *testing.T) {
	for _, name := range []string{"GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"} {
		t.Setenv(name, "from-the-environment")
	}
	for _, test := range []struct {
		name   string
		stream bool
		change func(*Config)
		want   map[string]string
	}{
		{"with a key", false, func(*Config) {}, map[string]string{"X-Goog-Api-Key": testKey, "Accept": "application/json"}},
		{"with a token", true, func(c *Config) {
			c.Key, c.Token = "", func() (string, error) { return "ya29.token", nil }
		}, map[string]string{"Authorization": "Bearer ya29.token", "Accept": "text/event-stream"}},
		{"with neither", true, func(c *Config) { c.Key = "" }, map[string]string{"Accept": "text/event-stream"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := sent(t, &providers.Request{Model: "m", Messages: hello, Stream: test.stream}, test.change)
			pt.CheckHeaders(t, r, test.want)
		})
	}
}

func TestNoTokenNoCall(t *testing.T) {
	up := pt.NewUpstream(t)
	gone := errors.New("no token")
	c := client(t, up.URL, func(c *Config) {
		c.Key, c.Token = "", func() (string, error) { return "", gone }
	})
	_, err := c.Invoke(t.Context(), &providers.Request{Model: "m", Messages: hello})
	e, ok := errors.AsType[*providers.ConnectError](err)
	if !ok || !e.Permanent || !errors.Is(err, gone) || len(up.Requests()) != 0 {
		t.Errorf("error %v, %d requests", err, len(up.Requests()))
	}
}

func TestTheTokenIsNotLogged(t *testing.T) {
	const token = "ya29.0123456789"
	up := pt.NewUpstream(t).Always(pt.JSON(401, errorBody(401, "UNAUTHENTICATED", "Bad token "+token)))
	c := client(t, up.URL, func(c *Config) {
		c.Key, c.Token = "", func() (string, error) { return token, nil }
	})
	_, err := c.Invoke(t.Context(), &providers.Request{Model: "m", Messages: hello})
	if err == nil || strings.Contains(err.Error(), token) {
		t.Errorf("error %v", err)
	}
}

func TestARedirectIsNotFollowed(t *testing.T) { subject.CheckRedirect(t) }

func TestVertexBaseURL(t *testing.T) {
	for _, test := range []struct{ project, location, want string }{
		{"my-project", "europe-west4", "https://europe-west4-aiplatform.googleapis.com/v1/projects/my-project/locations/europe-west4/publishers/google"},
		{"123456789012", "global", "https://aiplatform.googleapis.com/v1/projects/123456789012/locations/global/publishers/google"},
		{"example.com:my-project", "eu", "https://aiplatform.eu.rep.googleapis.com/v1/projects/example.com:my-project/locations/eu/publishers/google"},
		{"p", "us", "https://aiplatform.us.rep.googleapis.com/v1/projects/p/locations/us/publishers/google"},
		{"p", "", ""}, {"", "global", ""}, {"p", "evil.example/", ""}, {"p", "us-central1.evil", ""}, {"p/q", "global", ""}, {"..", "global", ""}, {"P", "global", ""},
	} {
		got, err := VertexBaseURL(test.project, test.location)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%q, %q: %q, %v", test.project, test.location, got, err)
		}
	}
}

func TestBadConfigurations(t *testing.T) {
	pt.CheckBadConfigurations(t, New, map[string]func(*Config){
		"key":           func(c *Config) { c.Key = "a\nb" },
		"key and token": func(c *Config) { c.Key, c.Token = "a", func() (string, error) { return "b", nil } },
		"base URL":      func(c *Config) { c.Upstream.BaseURL = &url.URL{Scheme: "ftp", Host: "x"} },
	})
}

// TestAddress checks the address that a client with nothing but a key calls.
func TestAddress(t *testing.T) {
	c := pt.Client(t, New, Config{Key: testKey})
	pt.CheckAddress(t, c, &c.HTTP.Transport, &providers.Request{Model: "gemini-2.5-flash", Messages: hello}, "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.5-flash:generateContent")
}
