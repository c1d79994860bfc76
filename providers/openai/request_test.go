package openai

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// sent sends one request and returns the request that the upstream got.
func sent(t *testing.T, req *providers.Request, change ...func(*Config)) pt.Request {
	t.Helper()
	r, _ := pt.Sent(t, pt.OpenAIAnswer("fine", 1), req, func(base string) providers.Provider { return client(t, base, change...) })
	return r
}

func TestRequestBody(t *testing.T) {
	messages := []providers.Message{
		{Role: "system", Content: `a <b> & \"c\"`}, {Role: "developer", Content: "d"},
		{Role: "user", Content: `ü\n`}, {Role: "assistant", Content: ""},
	}
	all := providers.Parameters{
		Temperature: new(0.0), MaxTokens: new(int64(400)), TopP: new(0.9), TopK: new(int64(40)),
		FrequencyPenalty: new(-0.5), PresencePenalty: new(0.25),
	}
	pt.CheckBodies(t, client, pt.OpenAIAnswer("fine", 1), true, []pt.Body[Config]{
		{"nothing set", providers.Request{Model: "m", Messages: messages[:1]}, nil,
			`{"model":"m","messages":[{"role":"system","content":"a <b> & \"c\""}]}`},
		{"all roles", providers.Request{Model: "m", Messages: messages}, nil,
			`{"model":"m","messages":[{"role":"system","content":"a <b> & \"c\""},{"role":"developer","content":"d"},{"role":"user","content":"ü\n"},{"role":"assistant","content":""}]}`},
		{"all parameters", providers.Request{Model: "m", Messages: messages[1:2], Parameters: all}, nil,
			`{"model":"m","messages":[{"role":"developer","content":"d"}],"temperature":0,"max_tokens":400,"top_p":0.9,"top_k":40,"frequency_penalty":-0.5,"presence_penalty":0.25}`},
		{"all parameters, OpenAI itself", providers.Request{Model: "m", Messages: messages[1:2], Parameters: all},
			func(c *Config) { c.Upstream.Proxy = c.Upstream.BaseURL; c.Upstream.BaseURL = official(t) },
			`{"model":"m","messages":[{"role":"developer","content":"d"}],"temperature":0,"max_completion_tokens":400,"top_p":0.9,"frequency_penalty":-0.5,"presence_penalty":0.25}`},
		{"stream", providers.Request{Model: "m", Messages: messages[1:2], Stream: true}, nil,
			`{"model":"m","messages":[{"role":"developer","content":"d"}],"stream":true,"stream_options":{"include_usage":true}}`},
		{"stream without options", providers.Request{Model: "m", Messages: messages[1:2], Stream: true},
			func(c *Config) { c.Quirks.NoStreamOptions = true },
			`{"model":"m","messages":[{"role":"developer","content":"d"}],"stream":true}`},
		{"extra wins, but not over stream", providers.Request{Model: "m", Messages: messages[1:2], Parameters: all, Extra: map[string]json.RawMessage{
			"temperature": json.RawMessage(`1.5`), "response_format": json.RawMessage(`{"type": "json_object"}`),
			"a.b": json.RawMessage(`[1,"x"]`), "stream": json.RawMessage(`true`), "top_k": json.RawMessage(`7`),
		}}, nil,
			`{"model":"m","messages":[{"role":"developer","content":"d"}],"temperature":1.5,"max_tokens":400,"top_p":0.9,"top_k":7,"frequency_penalty":-0.5,"presence_penalty":0.25,"response_format":{"type":"json_object"},"a.b":[1,"x"]}`},
	})
}

// official is OpenAI's URL over plain HTTP, so that a test's proxy can answer
// in its place.
func official(t *testing.T) *url.URL {
	return pt.URL(t, strings.Replace(DefaultBaseURL, "https:", "http:", 1))
}

func TestRequestHeaders(t *testing.T) {
	for _, name := range []string{"OPENAI_API_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"} {
		t.Setenv(name, "from-the-environment")
	}
	t.Setenv("OPENAI_BASE_URL", "http://192.0.2.1/")
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Leak: from-the-environment")
	for _, test := range []struct {
		name   string
		stream bool
		change func(*Config)
		want   map[string]string
	}{
		{"with a key", false, func(*Config) {}, map[string]string{
			"Authorization": "Bearer sk-test-0123456789abcdef", "Accept": "application/json",
		}},
		{"without a key", true, func(c *Config) { c.Key = "" }, map[string]string{"Accept": "text/event-stream"}},
		{"organization and project", false, func(c *Config) { c.Organization, c.Project = "org-1", "proj-1" }, map[string]string{
			"Authorization": "Bearer sk-test-0123456789abcdef", "Accept": "application/json",
			"Openai-Organization": "org-1", "Openai-Project": "proj-1",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := sent(t, &providers.Request{Model: "m", Stream: test.stream}, test.change)
			if r.Method != "POST" || r.Path != "/v1/chat/completions" || r.Query != "" {
				t.Errorf("%s %s?%s", r.Method, r.Path, r.Query)
			}
			pt.CheckHeaders(t, r, test.want)
		})
	}
}

func TestTheSDKDoesNotRetry(t *testing.T) {
	for _, status := range []int{408, 409, 429, 500, 503} {
		up := pt.NewUpstream(t).Always(pt.Reply{Status: status, Header: map[string]string{"X-Should-Retry": "true"}})
		if _, err := client(t, up.URL).Invoke(t.Context(), &providers.Request{Model: "m"}); err == nil || len(up.Requests()) != 1 {
			t.Errorf("%d: error %v, %d requests", status, err, len(up.Requests()))
		}
	}
}

func TestAnUnknownRoleIsAnError(t *testing.T) {
	subject.CheckUnsendable(t, []pt.Unsendable{{"an unknown role", "wizard", providers.Request{Messages: pt.Messages("wizard", "")}}})
}

func TestARedirectIsNotFollowed(t *testing.T) { subject.CheckRedirect(t) }

func TestBadConfigurations(t *testing.T) {
	pt.CheckBadConfigurations(t, New, map[string]func(*Config){
		"key":          func(c *Config) { c.Key = "a\nb" },
		"organization": func(c *Config) { c.Organization = "a b" },
		"project":      func(c *Config) { c.Project = "ü" },
		"base URL":     func(c *Config) { c.Upstream.BaseURL = &url.URL{Scheme: "ftp", Host: "x"} },
	})
}
