package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/wire"
)

// talks are the routes that call models, with a request of one message for the endpoint
// "talk".
var talks = map[string]string{
	"/v1/endpoints":        `{"key":"talk","messages":[` + user + `]%s}`,
	"/v1/chat/completions": `{"model":"talk","messages":[` + user + `]%s}`,
	"/v1/responses":        `{"model":"talk","input":[` + user + `]%s}`,
	"/v1/messages":         `{"model":"talk","messages":[` + user + `]%s}`,
}

// talk returns the definitions of the endpoint "talk", which takes conversations, with
// more lines of its own and of its prompt.
func talk(prompt, endpoint string) map[string]string {
	return map[string]string{
		"definitions/prompts/talk.yaml":   "provider: fake\nmodel: m\nmessages: [ { history: true } ]\n" + prompt,
		"definitions/endpoints/talk.yaml": "prompt: talk\naccept: { history: true, tools: true, parameters: [ response_format ] }\nretry: { count: 0 }\n" + endpoint,
	}
}

// refuses answers each request with a status and a body.
func refuses(status int, body string) func(int64, http.ResponseWriter, *http.Request) {
	return func(_ int64, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}
}

// TestConversationsThatAreTooLong checks that each API says so in the words by which its
// clients know that they have to shorten a conversation.
func TestConversationsThatAreTooLong(t *testing.T) {
	t.Parallel()
	for said, want := range map[string][2]string{
		"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.": {"maximum context length is 8192 tokens", "prompt is too long: 9000 tokens > 8192 maximum"},
		"Your input exceeds the context window of this model.":                                                {"exceeds the context window", "prompt is too long"},
	} {
		u := newUpstream(t, refuses(http.StatusBadRequest, `{"error":{"message":"`+said+`","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`))
		g := startGateway(t, talk("", ""), fakeProvider(u.URL))
		for path, body := range talks {
			for _, stream := range []string{"", `,"stream":true`} {
				if path == "/v1/responses" && stream != "" {
					continue // see TestErrorsWithinAStream
				}
				a := g.post(path, fmt.Sprintf(body, stream))
				if path == "/v1/messages" {
					checkMessagesError(t, a, http.StatusBadRequest, "invalid_request_error", "context_length_exceeded", "")
					if e := a.json(t)["error"].(map[string]any); e["message"] != want[1] {
						t.Errorf("%s%s: %s", path, stream, a.body)
					}
				} else {
					checkError(t, a, "context_length_exceeded", "")
					if e := a.json(t)["error"].(map[string]any); a.status != http.StatusBadRequest || e["type"] != "invalid_request_error" || !strings.Contains(e["message"].(string), want[0]) {
						t.Errorf("%s%s: %d %s", path, stream, a.status, a.body)
					}
				}
				if got := g.ended(t, a.header.Get("Cadenza-Trace-Id")); got.Status != http.StatusBadRequest || got.Code != "context_length_exceeded" || len(got.Attempts) != 1 {
					t.Errorf("%s%s: a trace of %d %s with %d attempts", path, stream, got.Status, got.Code, len(got.Attempts))
				}
			}
		}
	}
}

// TestRateLimitsOfProviders checks that clients of other APIs hear of them by the status at
// which they wait, and that our own API keeps its 503.
func TestRateLimitsOfProviders(t *testing.T) {
	t.Parallel()
	const overloaded = `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`
	type told struct {
		status     int
		kind, code string
		after      string
	}
	for _, test := range []struct {
		name   string
		answer func(w http.ResponseWriter)
		want   map[string]told
	}{
		{"429", func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "17")
			w.WriteHeader(http.StatusTooManyRequests)
		}, map[string]told{
			"/v1/endpoints":        {503, "server_error", "upstream_rate_limited", "17"},
			"/v1/chat/completions": {429, "rate_limit_error", "upstream_rate_limited", "17"},
			"/v1/responses":        {429, "rate_limit_error", "upstream_rate_limited", "17"},
			"/v1/messages":         {429, "rate_limit_error", "upstream_rate_limited", "17"},
		}},
		{"529", func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(wire.StatusOverloaded)
			fmt.Fprint(w, overloaded)
		}, map[string]told{
			"/v1/endpoints":        {502, "server_error", "upstream_error", ""},
			"/v1/chat/completions": {502, "server_error", "upstream_error", ""},
			"/v1/responses":        {502, "server_error", "upstream_error", ""},
			"/v1/messages":         {529, "overloaded_error", "upstream_error", "3"},
		}},
		{"overloaded inside an answer", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, overloaded)
		}, map[string]told{
			"/v1/messages": {529, "overloaded_error", "upstream_error", "1"},
		}},
		{"a fault", func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }, map[string]told{
			"/v1/messages": {502, "api_error", "upstream_error", ""},
		}},
	} {
		u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { test.answer(w) })
		for path, want := range test.want {
			for _, stream := range []string{"", `,"stream":true`} {
				if path == "/v1/responses" && want.status == http.StatusTooManyRequests && stream != "" {
					continue // see TestErrorsWithinAStream
				}
				g := startGateway(t, talk("", "fallback: [ { provider: fake, model: other } ]\n"), fakeProvider(u.URL))
				a := g.post(path, fmt.Sprintf(talks[path], stream))
				e := a.json(t)["error"].(map[string]any)
				code := e["code"]
				if details, ok := e["details"].(map[string]any); ok {
					code = details["error_code"]
				}
				if got := (told{a.status, e["type"].(string), code.(string), a.header.Get("Retry-After")}); got != want {
					t.Errorf("%s, %s%s: %+v, want %+v", test.name, path, stream, got, want)
				}
				if got := g.ended(t, a.header.Get("Cadenza-Trace-Id")); int(got.Status) != want.status || got.Code != want.code || len(got.Attempts) != 2 {
					t.Errorf("%s, %s%s: a trace of %d %s with %d attempts", test.name, path, stream, got.Status, got.Code, len(got.Attempts))
				}
			}
		}
	}
}
