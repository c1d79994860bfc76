package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers/openai"
)

// TestMediaInResults has a conversation with an image in the result of a tool, as agents
// have after they read one. A provider that takes images from the user alone gets it
// behind the results. One that takes none gets a text, and the caller is told of its
// message: also where the prompt has messages before it, in streams, and with an answer
// of the cache.
func TestMediaInResults(t *testing.T) {
	t.Parallel()
	bodies := make(chan string, 1)
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
		if strings.Contains(string(body), `"stream":true`) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, chunk("A cat.", "stop")+"data: [DONE]\n\n")
			return
		}
		completion(w, "A cat.")
	})
	files := map[string]string{
		"definitions/prompts/sees.yaml":    "provider: sees\nmodel: m\nmessages: [ { role: system, content: Be brief. }, { history: true } ]\n",
		"definitions/prompts/blind.yaml":   "provider: blind\nmodel: m\nmessages: [ { role: system, content: Be brief. }, { role: user, content: Hello. }, { role: assistant, content: Hi. }, { history: true, max_messages: 5 } ]\n",
		"definitions/endpoints/sees.yaml":  "prompt: sees\naccept: { history: true, tools: true }\n",
		"definitions/endpoints/blind.yaml": "prompt: blind\naccept: { history: true, tools: true }\ncache: { ttl: 1h }\n",
	}
	g := startGateway(t, files, withProvider("sees", openaiProvider(u.URL, openai.Quirks{})), withProvider("blind", openaiProvider(u.URL, openai.Quirks{NoImages: true})))

	const (
		old    = `{"role":"user","content":"Oldest."},{"role":"assistant","content":"So."},{"role":"user","content":"Old."},{"role":"assistant","content":"So."},`
		called = `{"role":"user","content":"Look."},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"read","input":{}},{"type":"tool_use","id":"t2","name":"read","input":{}}]},`
		image  = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}`
		claude = `"messages":[` + old + called + `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[` + image + `]},{"type":"tool_result","tool_use_id":"t2","content":"none"}]}]`

		item  = `{"type":"function_call","call_id":"t1","name":"read","arguments":"{}"},`
		codex = `"input":[` + old + `{"role":"user","content":"Look."},` + item + `{"type":"function_call_output","call_id":"t1","output":[{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo="}]}]`

		toolCalls = `{"role":"assistant","content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"read","arguments":"{}"}}]},`
		chat      = `"messages":[` + old + `{"role":"user","content":"Look."},` + toolCalls + `{"role":"tool","tool_call_id":"t1","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}]`
	)
	for _, api := range []struct{ path, model, members, ignored string }{
		{"/v1/messages", "model", claude, "messages[6]"},
		{"/v1/responses", "model", codex, "input[6]"},
		{"/v1/chat/completions", "model", chat, "messages[6]"},
		{"/v1/endpoints", "key", chat, "messages[6]"},
	} {
		for _, stream := range []string{"false", "true"} {
			ask := func(endpoint string) answer {
				a := g.post(api.path, `{"`+api.model+`":"`+endpoint+`","stream":`+stream+`,`+api.members+`}`)
				if a.status != http.StatusOK || !strings.Contains(string(a.body), "A cat.") {
					t.Fatalf("%s %s: %d %s", api.path, endpoint, a.status, a.body)
				}
				return a
			}
			a := ask("sees")
			body, ignored := <-bodies, a.header.Get("Cadenza-Ignored")
			_, behind, ok := strings.Cut(body, `[image image/png, 8 bytes: it follows the results]`)
			if !ok || !strings.Contains(behind, `{"content":[{"text":"From the result of read:","type":"text"},{"image_url":{"url":"data:image/png;base64,iVBORw0KGgo="},"type":"image_url"}],"role":"user"}]`) || strings.Contains(ignored, api.ignored) {
				t.Errorf("%s stream=%s: ignored %q, the provider got %s", api.path, stream, ignored, body)
			}
			for range 2 {
				a = ask("blind")
				if !strings.Contains(a.header.Get("Cadenza-Ignored"), api.ignored) {
					t.Errorf("%s stream=%s: ignored %q, want %s", api.path, stream, a.header.Get("Cadenza-Ignored"), api.ignored)
				}
				if a.header.Get("Cadenza-Attempts") == "0" {
					continue
				}
				if body := <-bodies; !strings.Contains(body, `[image image/png, 8 bytes: it can't be shown to the model]`) || strings.Contains(body, "iVBOR") || strings.Contains(body, "Oldest.") {
					t.Errorf("%s stream=%s: the provider got %s", api.path, stream, body)
				}
				if notes := strings.Join(g.ended(t, a.header.Get("Cadenza-Trace-Id")).Notes, "\n"); !strings.Contains(notes, "has no media in message ") {
					t.Errorf("the trace notes %s", notes)
				}
			}
		}
	}
}
