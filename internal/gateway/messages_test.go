package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/anthropic"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// anthropicHeader returns the headers that Anthropic's libraries send.
func anthropicHeader(key string) http.Header {
	return http.Header{"X-Api-Key": {key}, "Anthropic-Version": {"2023-06-01"}, "Anthropic-Beta": {"a,b"}}
}

// checkMessagesError checks that an answer is an error in Anthropic's format.
func checkMessagesError(t *testing.T, a answer, status int, kind, code, param string) {
	t.Helper()
	got, _ := a.json(t)["error"].(map[string]any)
	details, _ := got["details"].(map[string]any)
	if a.status != status || a.json(t)["type"] != "error" || got["type"] != kind || got["message"] == "" || details["error_code"] != code || param != "" && details["param"] != param || a.header.Get("Request-Id") == "" || a.json(t)["request_id"] != a.header.Get("Request-Id") {
		t.Errorf("%d %s %v", a.status, a.body, a.header)
	}
}

// TestMessagesKeys checks that the header X-Api-Key of Anthropic's libraries is accepted on
// the routes of their API, and on no other.
func TestMessagesKeys(t *testing.T) {
	t.Parallel()
	g, _ := startScripted(t, "")
	const body = `{"model":"plain"}`
	if a := g.do(http.MethodPost, "/v1/messages", body, anthropicHeader(testKey)); a.status != http.StatusOK || a.header.Get("Request-Id") != a.header.Get("Cadenza-Trace-Id") || a.header.Get("X-Request-Id") != "" {
		t.Errorf("%d %s %v", a.status, a.body, a.header)
	}
	g.post("/v1/messages", body).ok(t, "by the bearer token")
	both := anthropicHeader("cadenza-no-such-key-01")
	both["Authorization"] = bearer(testKey)["Authorization"]
	g.do(http.MethodPost, "/v1/messages", body, both).ok(t, "by both")
	twice := anthropicHeader(testKey)
	twice.Add("X-Api-Key", testKey)
	for name, header := range map[string]http.Header{"none": nil, "another": anthropicHeader("cadenza-no-such-key-01"), "short": anthropicHeader("a"), "twice": twice} {
		for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens"} {
			a := g.do(http.MethodPost, path, body, header)
			checkMessagesError(t, a, http.StatusUnauthorized, "authentication_error", "invalid_api_key", "")
			if t.Failed() {
				t.Fatal(name)
			}
		}
	}
	for _, path := range []string{"/v1/endpoints", "/v1/chat/completions", "/v1/prompts"} {
		if a := g.do(http.MethodPost, path, body, anthropicHeader(testKey)); a.status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
}

// TestMessagesTakeManyTools: an agent with many servers brings more tools than OpenAI takes.
func TestMessagesTakeManyTools(t *testing.T) {
	t.Parallel()
	g, s := startScripted(t, "")
	list := func(n int, form string) string {
		tools := make([]string, n)
		for i := range tools {
			tools[i] = fmt.Sprintf(form, i)
		}
		return `"tools":[` + strings.Join(tools, ",") + `]`
	}
	const theirs = `{"name":"tool_%d","input_schema":{"type":"object"}}`
	g.post("/v1/messages", `{"model":"team/talk","messages":[`+user+`],`+list(1000, theirs)+`}`).ok(t)
	if got, _ := s.last(); strings.Count(got, `"Name":"tool_`) != 1000 {
		t.Errorf("the model got %.500s", got)
	}
	checkMessagesError(t, g.post("/v1/messages", `{"model":"team/talk","messages":[`+user+`],`+list(1001, theirs)+`}`), http.StatusBadRequest, "invalid_request_error", "invalid_request", "tools")
	checkError(t, g.post("/v1/chat/completions", `{"model":"team/talk","messages":[`+user+`],`+list(129, `{"type":"function","function":{"name":"tool_%d"}}`)+`}`), "invalid_request", "tools")
}

// TestMessagesAreAnswered checks that requests in Anthropic's format reach the model, and
// that members that the endpoint does not accept are refused in that format.
func TestMessagesAreAnswered(t *testing.T) {
	t.Parallel()
	g, s := startScripted(t, "", logContent)
	body := `{"model":"team/talk@nl","max_tokens":50,"temperature":0.5,"stop_sequences":["END"],"cache_control":{"type":"ephemeral"},"metadata":{"user_id":"u-1"},"messages":[` + user +
		`,{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"own","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","is_error":true,"content":"no"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]}],` +
		`"tools":[{"name":"find","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"}}`
	a := g.post("/v1/messages", body)
	if a.status != http.StatusOK || a.header.Get("Cadenza-Ignored") != "" {
		t.Fatalf("%d %s %v", a.status, a.body, a.header)
	}
	got, _ := s.last()
	for _, want := range []string{
		`"Model":"klein"`, `{"role":"system","content":"Be brief."},{"role":"user","content":"How are you?"},{"role":"assistant","content":""},{"role":"tool","content":""},{"role":"user","content":""}]`,
		`"Data":"iVBORw0KGgo=","Type":"image/png"`, `"Opaque":"","Cache":1,`, `"Temperature":0.5,"MaxTokens":50,`, `"Stop":["END"]`, `"Failed":true`, `"Tools":[{"Name":"own",`, `{"Name":"find",`, `"ToolChoice":{"Mode":"required"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the model got no %s in\n%s", want, got)
		}
	}
	record := g.ended(t, a.header.Get("Cadenza-Trace-Id"))
	if metadata := string(record.Metadata); metadata != `{"user_id":"u-1","user":"u-1"}` {
		t.Errorf("metadata %s", metadata)
	}
	if got := a.json(t); got["type"] != "message" || got["model"] != "team/talk@nl" || got["id"] != "msg_"+strings.ReplaceAll(a.header.Get("Cadenza-Trace-Id"), "-", "") {
		t.Errorf("%s", a.body)
	}
	if a := g.post("/v1/messages", `{"model":"plain","metadata":{"user_id":"u-1","user":"own"}}`); a.header.Get("Cadenza-Ignored") != "metadata.user_id" {
		t.Errorf("%d %s %v", a.status, a.body, a.header)
	}
	stream := g.post("/v1/messages", `{"model":"team/talk","stream":true,"messages":[`+user+`]}`)
	if text := string(stream.body); stream.status != http.StatusOK || !strings.HasPrefix(text, "event: message_start\n") || !strings.HasSuffix(text, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n") || !strings.Contains(text, `"input_tokens":7`) {
		t.Errorf("%d %s", stream.status, text)
	}
	for param, members := range map[string]string{
		"top_p": `"top_p":1`, "thinking.type": `"thinking":{"type":"disabled"}`, "max_tokens": `"max_tokens":100000000`, "mcp_servers": `"mcp_servers":[]`, "messages[0].role": `"messages":[{"role":"tool"}]`,
	} {
		checkMessagesError(t, g.post("/v1/messages", `{"model":"team/talk",`+members+`}`), http.StatusBadRequest, "invalid_request_error", "invalid_request", param)
	}
	checkMessagesError(t, g.post("/v1/messages", `{"model":"team/talk","thread":{"type":"create"}}`), http.StatusBadRequest, "invalid_request_error", "thread_unsupported_request", "thread")
	checkMessagesError(t, g.post("/v1/messages", `{"model":"none"}`), http.StatusNotFound, "not_found_error", "model_not_found", "model")
	checkMessagesError(t, g.do(http.MethodGet, "/v1/messages", "", nil), http.StatusMethodNotAllowed, "invalid_request_error", "method_not_allowed", "")
	s.fail = true
	failed := g.post("/v1/messages", `{"model":"team/talk","messages":[`+user+`]}`)
	checkMessagesError(t, failed, http.StatusBadGateway, "api_error", "upstream_error", "")
	if id := failed.header.Get("Request-Id"); id != failed.header.Get("Cadenza-Trace-Id") || failed.json(t)["request_id"] != id {
		t.Errorf("%s %v", failed.body, failed.header)
	}
}

// TestMessagesSignatures checks that signatures are sealed for the caller, and returned to
// the target that made them.
func TestMessagesSignatures(t *testing.T) {
	t.Parallel()
	g, s := startScripted(t, "", logContent)
	s.result = providers.Result{
		FinishReason: providers.FinishToolCalls, Thoughts: []providers.Thought{{Text: "Hm.", Opaque: "signature"}, {Opaque: "redacted"}},
		ToolCalls: []providers.ToolCall{{ID: "call_1", Name: "own", Arguments: "{}", Opaque: "of a call"}},
	}
	const question = `{"model":"team/talk","messages":[` + user
	a := g.post("/v1/messages", question+`]}`)
	content, served := a.json(t)["content"], a.header.Get("Cadenza-Served-By")
	for _, opaque := range []string{"signature", "redacted", "of a call"} {
		if !strings.Contains(string(a.body), g.seal(served, opaque)) {
			t.Errorf("no %s in %s", opaque, a.body)
		}
	}
	text := string(a.body)
	from, to := strings.Index(text, `"content":`), strings.Index(text, `,"stop_reason"`)
	if content == nil || from < 0 || to < from {
		t.Fatal(text)
	}
	history := question + `,{"role":"assistant",` + text[from:to] + `},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"found"}]}]}`
	for range 3 {
		again := g.post("/v1/messages", history)
		got, _ := s.last()
		if again.status != http.StatusOK || again.header.Get("Cadenza-Served-By") != served || again.header.Get("Cadenza-Ignored") != "" ||
			!strings.Contains(got, `"Opaque":"signature"`) || !strings.Contains(got, `"Opaque":"redacted"`) || !strings.Contains(got, `"Opaque":"of a call"`) {
			t.Fatalf("%d %s %v\n%s", again.status, again.body, again.header, got)
		}
	}
	foreign := g.post("/v1/messages", question+`,{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"EuYB"},{"type":"text","text":"Yes."}]},`+user+`]}`)
	if got, _ := s.last(); foreign.status != http.StatusOK || foreign.header.Get("Cadenza-Ignored") != "messages[1]" || strings.Contains(got, "EuYB") {
		t.Errorf("%d %s %v", foreign.status, foreign.body, foreign.header)
	}
}

// TestCountTokens checks the estimate of a request's tokens, which calls no model.
func TestCountTokens(t *testing.T) {
	t.Parallel()
	g, s := startScripted(t, "")
	count := func(members string) float64 {
		t.Helper()
		a := g.post("/v1/messages/count_tokens", `{"model":"team/talk"`+members+`}`)
		n, ok := a.json(t)["input_tokens"].(float64)
		if a.status != http.StatusOK || !ok || a.header.Get("Cadenza-Usage") != "estimated" || a.header.Get("Request-Id") == "" || a.header.Get("Cadenza-Trace-Id") != "" {
			t.Fatalf("%d %s %v", a.status, a.body, a.header)
		}
		return n
	}
	own := count("")
	if own <= 0 {
		t.Errorf("%v tokens of the prompt's own", own)
	}
	if got := count(`,"messages":[{"role":"user","content":"` + strings.Repeat("x1", 50) + `"}]`); got != own+104 {
		t.Errorf("%v tokens, of which %v are the prompt's own", got, own)
	}
	if got := count(`,"tools":[{"name":"find","description":"` + strings.Repeat("x1", 50) + `","input_schema":{"type":"object"}}]`); got != own+114 {
		t.Errorf("%v tokens, of which %v are the prompt's own", got, own)
	}
	if got := count(`,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x/y.png"}}]}]`); got != own+1004 {
		t.Errorf("%v tokens, of which %v are the prompt's own", got, own)
	}
	if _, calls := s.last(); calls != 0 {
		t.Errorf("%d calls", calls)
	}
	for param, members := range map[string]string{"top_p": `"top_p":1`, "messages": `"messages":1`, "tools[0]": `"tools":[{"name":"own","input_schema":{"type":"object"}}]`, "context": `"context":1`} {
		checkMessagesError(t, g.post("/v1/messages/count_tokens", `{"model":"team/talk",`+members+`}`), http.StatusBadRequest, "invalid_request_error", "invalid_request", param)
	}
	for _, model := range []string{"none", "team/talk@none"} {
		checkMessagesError(t, g.post("/v1/messages/count_tokens", `{"model":"`+model+`"}`), http.StatusNotFound, "not_found_error", "model_not_found", "model")
	}
}

func TestAnthropicModels(t *testing.T) {
	t.Parallel()
	g, _ := startScripted(t, "")
	get := func(path string) answer { return g.do(http.MethodGet, path, "", anthropicHeader(testKey)) }
	a := get("/v1/models")
	list, _ := a.json(t)["data"].([]any)
	if a.status != http.StatusOK || !strings.Contains(fmt.Sprint(list), "id:team/talk type:model") || a.json(t)["has_more"] != false || a.json(t)["first_id"] != list[0].(map[string]any)["id"] || a.json(t)["last_id"] != list[len(list)-1].(map[string]any)["id"] || a.header.Get("Request-Id") == "" {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := get("/v1/models/team/talk"); a.status != http.StatusOK || a.json(t)["display_name"] != "team/talk" || !strings.HasSuffix(fmt.Sprint(a.json(t)["created_at"]), "Z") {
		t.Errorf("%d %s", a.status, a.body)
	}
	checkMessagesError(t, get("/v1/models/none"), http.StatusNotFound, "not_found_error", "model_not_found", "model")
	checkMessagesError(t, g.do(http.MethodGet, "/v1/models", "", anthropicHeader("cadenza-no-such-key-01")), http.StatusUnauthorized, "authentication_error", "invalid_api_key", "")
	// Without the header the API is OpenAI's, which has the key in another header.
	if a := g.do(http.MethodGet, "/v1/models", "", http.Header{"X-Api-Key": {testKey}}); a.status != http.StatusUnauthorized || a.header.Get("X-Request-Id") == "" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestMessagesOfAnthropic checks that a conversation with Anthropic's own API is sent back
// with its blocks in their order, although the gateway's history has thoughts first.
func TestMessagesOfAnthropic(t *testing.T) {
	t.Parallel()
	blocks := []string{
		`{"type":"thinking","thinking":"Hm.","signature":"EuYB1"}`, `{"type":"text","text":"Let me look."}`, `{"type":"tool_use","id":"toolu_1","name":"own","input":{"a":1}}`,
		`{"type":"thinking","thinking":"And?","signature":"EuYB2"}`, `{"type":"redacted_thinking","data":"EmwK"}`, `{"type":"tool_use","id":"toolu_2","name":"own","input":{}}`,
	}
	asked := make(chan []byte, 1)
	server := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked <- body
		w.Header().Set("Content-Type", "application/json")
		const ends = `"stop_reason":"tool_use","stop_sequence":null`
		if !strings.Contains(string(body), `"stream":true`) {
			fmt.Fprintf(w, `{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[%s],%s,"usage":{"input_tokens":7,"output_tokens":3}}`, strings.Join(blocks, ","), ends)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		event := func(name, members string) {
			fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q%s}\n\n", name, name, members)
		}
		event("message_start", `,"message":{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[],"stop_reason":null,"usage":{"input_tokens":7,"output_tokens":1}}`)
		for i, block := range blocks {
			var b struct{ Type, Thinking, Signature, Data, Text, ID, Name string }
			var input struct{ Input json.RawMessage }
			if json.Unmarshal([]byte(block), &b) != nil || json.Unmarshal([]byte(block), &input) != nil {
				panic(block)
			}
			at := fmt.Sprintf(`,"index":%d`, i)
			piece := func(kind, member, text string) {
				event("content_block_delta", fmt.Sprintf(`%s,"delta":{"type":%q,%q:%q}`, at, kind, member, text))
			}
			switch b.Type {
			case "thinking":
				event("content_block_start", at+`,"content_block":{"type":"thinking","thinking":"","signature":""}`)
				piece("thinking_delta", "thinking", b.Thinking)
				piece("signature_delta", "signature", b.Signature)
			case "text":
				event("content_block_start", at+`,"content_block":{"type":"text","text":""}`)
				piece("text_delta", "text", b.Text)
			case "tool_use":
				event("content_block_start", fmt.Sprintf(`%s,"content_block":{"type":"tool_use","id":%q,"name":%q,"input":{}}`, at, b.ID, b.Name))
				piece("input_json_delta", "partial_json", string(input.Input))
			default:
				event("content_block_start", at+`,"content_block":`+block)
			}
			event("content_block_stop", at)
		}
		event("message_delta", `,"delta":{`+ends+`},"usage":{"output_tokens":3}`)
		event("message_stop", "")
	})
	base, err := upstream.ParseBaseURL(server.URL + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	claude, err := anthropic.New(anthropic.Config{Key: testKey, Upstream: upstream.Config{BaseURL: base}})
	if err != nil {
		t.Fatal(err)
	}
	g, _ := startScripted(t, "", withProvider("scripted", claude), withProvider("other", claude))
	const question = `{"model":"team/talk","max_tokens":50,"messages":[` + user
	for _, stream := range []string{"", `,"stream":true`} {
		a := g.post("/v1/messages", question+`]`+stream+`}`)
		<-asked
		content, err := json.Marshal(contentOf(t, a))
		if err != nil || a.status != http.StatusOK {
			t.Fatalf("%d %s: %v", a.status, a.body, err)
		}
		again := g.post("/v1/messages", question+`,{"role":"assistant","content":`+string(content)+`},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"found"},{"type":"tool_result","tool_use_id":"toolu_2","content":"found"}]}]}`)
		if again.status != http.StatusOK || again.header.Get("Cadenza-Ignored") != "" {
			t.Fatalf("%d %s %v", again.status, again.body, again.header)
		}
		var got struct {
			Messages []struct {
				Role    string
				Content any
			}
		}
		body := <-asked
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		var want any
		if err := json.Unmarshal([]byte("["+strings.Join(blocks, ",")+"]"), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Messages[1].Content); diff != "" {
			t.Errorf("stream%s: what came back (-want +got):\n%s\n%s", stream, diff, body)
		}
	}
}

// contentOf returns the blocks of an answer. It joins the blocks of a stream.
func contentOf(t *testing.T, a answer) []any {
	t.Helper()
	if !strings.HasPrefix(a.header.Get("Content-Type"), "text/event-stream") {
		content, _ := a.json(t)["content"].([]any)
		return content
	}
	var content []any
	input := ""
	for line := range strings.Lines(string(a.body)) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var event struct {
			Type  string
			Block map[string]any `json:"content_block"`
			Delta map[string]any
		}
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			t.Fatal(err)
		}
		switch event.Type {
		case "content_block_start":
			content, input = append(content, event.Block), ""
		case "content_block_delta":
			block := content[len(content)-1].(map[string]any)
			for _, member := range []string{"text", "thinking", "signature"} {
				if text, ok := event.Delta[member].(string); ok {
					block[member] = block[member].(string) + text
				}
			}
			if text, ok := event.Delta["partial_json"].(string); ok {
				input += text
				block["input"] = json.RawMessage(input)
			}
		}
	}
	return content
}
