package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers/openai"
)

// agent returns an endpoint with tools, whose fallback lacks a parameter of its prompt.
func agent() map[string]string {
	files := single()
	files["definitions/prompts/agent.yaml"] = `provider: fake
model: small
seed: 7
stop: [END, FIN]
reasoning_effort: low
response_format: { json_schema: { name: verdict, strict: true, schema: { type: object, properties: { z: { type: string }, a: { type: string } } } } }
tools:
- { name: find, description: Finds it., strict: true, parameters: { type: object, properties: { id: { type: string } }, required: [id] } }
- { name: hand_over }
tool_choice: { name: find }
variables: { question: { required: true } }
messages: [ { role: user, content: "{{question}}" } ]
`
	files["definitions/endpoints/agent.yaml"] = "prompt: agent\nlog: content\ncache: { ttl: 1h }\n"
	return files
}

const (
	firstCall  = `{"id":"call_a","name":"find","arguments":"{\"id\": \"\\u00fc\\n\"}"}`
	secondCall = `{"id":"call_b","name":"hand_over","arguments":"{}"}`
)

// callID is the id that the gateway makes for call n of an answer.
func callID(a answer, n int) string {
	id := strings.ReplaceAll(a.header.Get("Cadenza-Trace-Id"), "-", "")
	return fmt.Sprintf("call_%s_%d", id[16:], n)
}

// callTools answers with the two calls above.
func callTools(w http.ResponseWriter, content string, stream bool) {
	calls := []string{
		`{"index":0,"id":"call_a","type":"function","function":{"name":"find","arguments":""}}`,
		`{"index":0,"function":{"arguments":"{\"id\": \"\\u00"}}`,
		`{"index":0,"function":{"arguments":"fc\\n\"}"}}`,
		`{"index":1,"id":"call_b","type":"function","function":{"name":"hand_over","arguments":"{}"}}`,
	}
	if stream {
		w.Header().Set("Content-Type", "text/event-stream")
		if content != "" {
			io.WriteString(w, chunk(content, ""))
		}
		for _, call := range calls {
			fmt.Fprintf(w, `data: {"model":"small-1","choices":[{"index":0,"delta":{"tool_calls":[%s]},"finish_reason":null}]}`+"\n\n", call)
		}
		io.WriteString(w, `data: {"model":"small-1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`+"\n\ndata: [DONE]\n\n")
		return
	}
	said := "null"
	if content != "" {
		said = `"` + content + `"`
	}
	whole := `{"id":"call_a","type":"function","function":{"name":"find","arguments":"{\"id\": \"\\u00fc\\n\"}"}},{"id":"call_b","type":"function","function":{"name":"hand_over","arguments":"{}"}}`
	fmt.Fprintf(w, `{"model":"small-1","choices":[{"index":0,"message":{"role":"assistant","content":%s,"tool_calls":[%s]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":2,"cache_write_tokens":1},"completion_tokens_details":{"reasoning_tokens":1}}}`, said, whole)
}

func TestToolCallsThroughTheGateway(t *testing.T) {
	t.Parallel()
	bodies := make(chan string, 10)
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body)
		content := ""
		if strings.Contains(string(body), "aloud") {
			content = "Let me see."
		}
		callTools(w, content, strings.Contains(string(body), `"stream":true`))
	})
	g := startGateway(t, agent(), fakeProvider(u.URL))
	// The calls of an answer that is given again have other ids.
	list := func(a answer) string {
		list := `[` + firstCall + `,` + secondCall + `]`
		if strings.Contains(a.header.Get("Cache-Status"), "hit") {
			list = strings.NewReplacer("call_a", callID(a, 1), "call_b", callID(a, 2)).Replace(list)
		}
		return list
	}

	for _, content := range []string{"", "Let me see."} {
		question := "silent?"
		if content != "" {
			question = "aloud?"
		}
		stream := fmt.Sprintf(`{"key":"agent","stream":true,"variables":{"question":"%s stream"}}`, question)
		whole := fmt.Sprintf(`{"key":"agent","variables":{"question":"%s whole"}}`, question)
		for _, status := range []string{"Cadenza; fwd=miss", "Cadenza; hit; ttl="} {
			a := g.post("/v1/endpoints", stream)
			id := a.header.Get("Cadenza-Trace-Id")
			event := func(content, rest string) string {
				return fmt.Sprintf(`data: {"trace_id":"%s","content":"%s","is_final":%s}`+"\n\n", id, content, rest)
			}
			prompt, tokens := 71, 18
			if content != "" {
				prompt, tokens = 72, 21
			}
			usage := fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,"estimated":true}`, prompt, tokens, prompt+tokens)
			want := event("", `false,"tool_calls":`+list(a)) + event("", `true,"finish_reason":"tool_calls"`+usage) + "data: [DONE]\n\n"
			if content != "" {
				want = event(content, "false") + want
			}
			if diff := cmp.Diff(want, string(a.body)); a.status != http.StatusOK || diff != "" || !strings.HasPrefix(a.header.Get("Cache-Status"), status) {
				t.Errorf("stream: %d, Cache-Status %q (-want +got):\n%s", a.status, a.header.Get("Cache-Status"), diff)
			}

			a = g.post("/v1/endpoints", whole)
			id = a.header.Get("Cadenza-Trace-Id")
			want = fmt.Sprintf(`{"trace_id":"%s","content":"%s","is_final":true,"tool_calls":%s,"finish_reason":"tool_calls","usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,"cached_tokens":2,"cache_write_tokens":1,"reasoning_tokens":1}}`, id, content, list(a))
			if diff := cmp.Diff(want, string(a.body)); a.status != http.StatusOK || diff != "" || !strings.HasPrefix(a.header.Get("Cache-Status"), status) {
				t.Errorf("whole: %d, Cache-Status %q (-want +got):\n%s", a.status, a.header.Get("Cache-Status"), diff)
			}
			if served := a.header.Get("Cadenza-Served-By"); served != "fake/small" {
				t.Errorf("Cadenza-Served-By %q", served)
			}
			record := g.ended(t, id)
			if got := string(record.ToolCalls); got != list(a) || string(record.Response) != content {
				t.Errorf("the trace has the tool calls %s and the response %q", got, record.Response)
			}
		}
	}
	if u.Calls.Load() != 4 {
		t.Errorf("%d upstream calls", u.Calls.Load())
	}

	// The definition's parameters, with schemas in the order of the file.
	body := <-bodies
	for _, want := range []string{
		`"seed":7`, `"stop":["END","FIN"]`, `"reasoning_effort":"low"`,
		`"response_format":{"json_schema":{"name":"verdict","strict":true,"schema":{"type":"object","properties":{"z":{"type":"string"},"a":{"type":"string"}}}},"type":"json_schema"}`,
		`{"name":"find","description":"Finds it.","parameters":{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]},"strict":true}`,
		`{"name":"hand_over","parameters":{"type":"object","properties":{}}}`,
		`"tool_choice":{"function":{"name":"find"},"type":"function"}`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the upstream got no %s:\n%s", want, body)
		}
	}
	a := g.post("/v1/prompts", `{"keys":["agent"],"variables":{"question":"?"}}`)
	var prompts map[string]struct{ Value map[string]any }
	if err := json.Unmarshal(a.body, &prompts); err != nil || prompts["agent"].Value["tools"] == nil || prompts["agent"].Value["responseFormat"] == nil {
		t.Errorf("the prompt's value: %v, %s", err, a.body)
	}
}

func TestBrokenToolCallsAreNoAnswer(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"find","arguments":"{\"id\":"}}]},"finish_reason":"length"}]}`+"\n\ndata: [DONE]\n\n")
	})
	files := agent()
	files["definitions/endpoints/agent.yaml"] = "prompt: agent\nmax_attempts: 1\n"
	g := startGateway(t, files, fakeProvider(u.URL))
	for _, stream := range []bool{true, false} {
		a := g.post("/v1/endpoints", fmt.Sprintf(`{"key":"agent","stream":%t,"variables":{"question":"?"}}`, stream))
		if a.status != http.StatusBadGateway || a.json(t)["error_code"] != "upstream_invalid_response" {
			t.Errorf("stream=%t: %d %s", stream, a.status, a.body)
		}
	}
}

// A fallback that lacks a parameter answers without it, and the trace says so. A fallback
// that lacks tools does not answer.
func TestWhatAFallbackLacks(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { callTools(w, "", false) })
	deepSeek := openai.Quirks{NoTopK: true, NoSeed: true, NoThinking: true, NoJSONSchema: true, DeveloperIsSystem: true}
	files := agent()
	files["definitions/endpoints/agent.yaml"] = "prompt: agent\nmax_attempts: 4\nfallback:\n- { provider: lacking, model: m }\n- { provider: seedless, model: m, response_format: text }\n"
	g := startGateway(t, files,
		withProvider("fake", openaiProvider(u.URL, openai.Quirks{NoTools: true, NoSeed: true})),
		withProvider("lacking", openaiProvider(u.URL, deepSeek)),
		withProvider("seedless", openaiProvider(u.URL, deepSeek)))
	a := g.post("/v1/endpoints", `{"key":"agent","variables":{"question":"?"}}`)
	if a.status != http.StatusOK || a.header.Get("Cadenza-Served-By") != "seedless/m" || u.Calls.Load() != 1 {
		t.Fatalf("%d, served by %q after %d upstream calls: %s", a.status, a.header.Get("Cadenza-Served-By"), u.Calls.Load(), a.body)
	}
	record := g.ended(t, a.header.Get("Cadenza-Trace-Id"))
	if notes := strings.Join(record.Notes, "\n"); !strings.Contains(notes, "seedless has no seed: left out") {
		t.Errorf("notes %q", notes)
	}
}
