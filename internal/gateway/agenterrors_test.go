package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
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
