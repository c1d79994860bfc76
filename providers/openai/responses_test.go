package openai

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3/responses"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/httpmodule"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// byResponses has a client call the Responses API alone.
func byResponses(c *Config) { c.API = APIResponses }

// responder is the client of the Responses API as the checks of its wire format see it.
var responder = pt.Subject{
	Name:    "openai",
	Connect: func(t testing.TB, base string) providers.Provider { return client(t, base, byResponses) },
	Open: func(body io.ReadCloser) providers.Stream {
		return newResponseStream(upstream.Call{Provider: "openai", Secrets: [2]string{testKey}}, body, nil)
	},
	Request: providers.Request{Model: "m"},
}

// responding makes providers of the contract that call the Responses API.
func responding(t *testing.T, b pt.Behaviour, _ *providers.Request) providers.Provider {
	up := pt.NewUpstream(t)
	up.Play(b, func(r pt.Request) pt.Reply {
		if r.Path != "/v1/responses" {
			return pt.OpenAIError(404, "invalid_request_error", "unknown_url", r.Path)
		}
		return pt.ResponsesBehaviour(b, strings.Contains(r.Body, `"stream":true`))
	})
	if b.Key != "" {
		return pt.Provisioned(t, &Module{Options: httpmodule.Options{APIKey: b.Key, BaseURL: up.URL + "/v1"}, API: APIResponses})
	}
	return client(t, up.URL, byResponses)
}

func TestContractOfResponses(t *testing.T) { pt.Run(t, responding) }

func TestPartsOfResponses(t *testing.T) { pt.CheckTable(t, "openai`, `api responses", responding) }

func words(text ...string) pt.ResponsesItem { return pt.ResponsesItem{Words: text} }

// TestMockOfResponses reads what the mock sends with OpenAI's own library.
func TestMockOfResponses(t *testing.T) {
	call := providers.ToolCall{ID: "call_1", Name: "f", Arguments: `{"a":1}`}
	items := []pt.ResponsesItem{{Thought: &providers.Thought{Text: "Hm.", Opaque: "gAAA"}}, words("a", "b"), {Call: &call}}
	var whole responses.Response
	if err := json.Unmarshal([]byte(pt.ResponsesAnswer(pt.ResponsesEnd{}, items...).Text()), &whole); err != nil {
		t.Fatal(err)
	}
	if whole.OutputText() != "ab" || len(whole.Output) != 3 || whole.Output[0].EncryptedContent != "gAAA" || whole.Output[2].CallID != "call_1" || whole.Usage.TotalTokens == 0 {
		t.Errorf("%+v", whole)
	}
	for _, event := range pt.ResponsesStream(pt.ResponsesEnd{}, items...).Body {
		_, data, _ := strings.Cut(event, "\ndata: ")
		var e responses.ResponseStreamEventUnion
		if err := json.Unmarshal([]byte(data), &e); err != nil || !e.JSON.SequenceNumber.Valid() || e.AsAny() == nil {
			t.Errorf("%s: %v", event, err)
		}
	}
}

// endedBy returns a stream that ends with these events in place of its own end.
func endedBy(events ...string) pt.Reply {
	r := pt.ResponsesStream(pt.ResponsesEnd{}, words("a", "b"))
	r.Body = append(r.Body[:len(r.Body)-1], events...)
	return r
}

func responseOf(members string) pt.Reply {
	return pt.JSON(200, `{"object":"response","model":"m",`+members+`}`)
}

// event is an event of a stream.
func event(kind, members string) string { return pt.ResponsesEvent(kind, 0, members) }

// responseCorruptions are the ways to cut or corrupt an answer. None may end as complete.
var responseCorruptions = slices.Concat(pt.NoAnswers, []pt.Corruption{
	{"clean end", endedBy(), providers.Truncated},
	{"clean end in the last event", endedBy(`data: {"type":"response.completed","response":{"status":"comp`), providers.Invalid},
	{"cut", pt.Ended(pt.Cut, endedBy()), providers.Truncated},
	{"reset", pt.Ended(pt.Reset, endedBy()), providers.Truncated},
	{"another API's end marker", endedBy(pt.Done), providers.Invalid},
	{"another API's stream", pt.OpenAIStream("a"), providers.Invalid},
	{"another API's answer", pt.OpenAIAnswer("a", 1), providers.Invalid},
	{"comments only", pt.SSE(": hello\n\n"), providers.Invalid},
	{"error event", endedBy(event("error", `"code":"server_error","message":"boom","param":null`)), providers.Reported},
	{"error event without words", endedBy(event("error", `"code":null`)), providers.Reported},
	{"error event of text", endedBy("event: error\ndata: boom\n\n"), providers.Reported},
	{"error event of another form", endedBy(event("error", `"error":{"type":"server_error","message":"boom"}`)), providers.Reported},
	{"error without a type", endedBy(pt.Event(`{"error":{"message":"boom"}}`)), providers.Reported},
	{"failed", pt.ResponsesStream(pt.ResponsesEnd{Code: "server_error"}, words("a")), providers.Reported},
	{"failed without words", endedBy(event("response.failed", `"response":{"status":"failed","error":null}`)), providers.Reported},
	{"failed as a whole", pt.ResponsesAnswer(pt.ResponsesEnd{Code: "server_error"}, words("a")), providers.Reported},
	{"cancelled", responseOf(`"status":"cancelled","error":null,"output":[]`), providers.Reported},
	{"an error as a whole", pt.JSON(200, pt.ErrorObject("server_error", "x", "boom")), providers.Reported},
	{"an error in a response that completed", responseOf(`"status":"completed","error":{"code":"x","message":"boom"},"output":[]`), providers.Reported},
	{"in the background", responseOf(`"status":"queued","output":[]`), providers.Invalid},
	{"still in progress", responseOf(`"status":"in_progress","output":[]`), providers.Invalid},
	{"incomplete for an unknown reason", pt.ResponsesStream(pt.ResponsesEnd{Incomplete: "tired"}, words("a")), providers.Invalid},
	{"incomplete for no reason", responseOf(`"status":"incomplete","output":[]`), providers.Invalid},
	{"filtered without content", pt.ResponsesAnswer(pt.ResponsesEnd{Incomplete: "content_filter"}), providers.Refused},
	{"a refusal", responseOf(`"status":"completed","output":[{"type":"message","content":[{"type":"refusal","refusal":"No."}]}]`), providers.Refused},
	{"a refusal in a stream", pt.SSE(event("response.refusal.delta", `"output_index":0,"delta":"No"`)), providers.Refused},
	{"a part of an unknown type", responseOf(`"status":"completed","output":[{"type":"message","content":[{"type":"novelty"}]}]`), providers.Invalid},
	{"an item of an unknown type", responseOf(`"status":"completed","output":[{"type":"custom_tool_call","call_id":"c","name":"f","input":"x"}]`), providers.Invalid},
	{"an item that is a number", responseOf(`"status":"completed","output":[1]`), providers.Invalid},
	{"a call whose arguments break off", responseOf(`"status":"completed","output":[{"type":"function_call","call_id":"c","name":"f","arguments":"{"}]`), providers.Invalid},
	{"a call cut by a limit", responseOf(`"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a"}]`), providers.Invalid},
	{"arguments of no call", pt.SSE(event("response.function_call_arguments.delta", `"output_index":0,"delta":"{}"`)), providers.Invalid},
	{"a bad escape", responseOf(`"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"\q"}]}]`), providers.Invalid},
	{"an event that is no object", pt.SSE("data: [1]\n\n"), providers.Invalid},
})

func TestNoCutOrCorruptResponseIsComplete(t *testing.T) {
	responder.CheckCorruptions(t, responseCorruptions)
}

func TestOddResponsesThatAreComplete(t *testing.T) {
	const model = "gpt-5.6-sol-2026-08-01"
	usage := providers.Usage{PromptTokens: 9, CompletionTokens: 2, TotalTokens: 11}
	whole := providers.Result{Model: model, FinishReason: "stop", Usage: usage}
	stream := pt.ResponsesStream(pt.ResponsesEnd{}, words("a", "b"))
	end := stream.Body[len(stream.Body)-1]
	bare := providers.Result{Model: "m", FinishReason: "stop"}
	filtered, cut, refused, searched := bare, whole, bare, bare
	filtered.FinishReason, cut.FinishReason, refused.FinishReason = "content_filter", "length", "content_filter"
	refused.Refusal, refused.Refused = true, len("a")
	searched.Usage.WebSearches, searched.Usage.FileSearches, searched.Usage.CodeExecutions = 2, 1, 1
	message := `{"type":"message","content":[{"type":"output_text","text":"a"},{"type":"output_text","text":"b"}]}`
	responder.CheckAnswers(t, "ab", []pt.Answer{
		{"as OpenAI sends it", stream, whole},
		{"in one piece", pt.SSE(stream.Text()), whole},
		{"byte by byte", pt.SSE(strings.Split(stream.Text(), "")...), whole},
		{"without names of events", pt.SSE(withoutNames(stream.Text())), whole},
		{"without types", pt.SSE(strings.ReplaceAll(stream.Text(), `data: {"type":`, `data: {"kind":`)), whole},
		{"then the connection stays", pt.Ended(pt.Hang, stream), whole},
		{"then another API's end marker", pt.SSE(stream.Text(), pt.Done), whole},
		{"keepalive", pt.SSE(pt.Event(`{"type":"keepalive","sequence_number":1}`), stream.Text()), whole},
		{"the end alone", pt.SSE(end), whole},
		{"whole items alone", pt.SSE(slices.DeleteFunc(slices.Clone(stream.Body), func(e string) bool { return strings.Contains(e, "output_text.delta") })...), whole},
		{"a whole answer", pt.ResponsesAnswer(pt.ResponsesEnd{}, words("ab")), providers.Result{Model: model, FinishReason: "stop", Usage: providers.Usage{PromptTokens: 9, CompletionTokens: 1, TotalTokens: 10}}},
		{"two messages", pt.ResponsesStream(pt.ResponsesEnd{}, words("a"), words("b")), whole},
		{"two parts", responseOf(`"status":"completed","output":[` + message + `]`), bare},
		{"a limit", pt.ResponsesStream(pt.ResponsesEnd{Incomplete: "max_output_tokens"}, words("a", "b")), cut},
		{"a filter after content", responseOf(`"status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[` + message + `]`), filtered},
		{"a refusal after content", responseOf(`"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"a"},{"type":"refusal","refusal":"b"}]}]`), refused},
		{"a refusal after a message", responseOf(`"status":"completed","output":[` + strings.Replace(message, `,{"type":"output_text","text":"b"}`, "", 1) + `,{"type":"message","content":[{"type":"refusal","refusal":"b"}]}]`), refused},
		{"a refusal after content, streamed", pt.SSE(event("response.output_text.delta", `"output_index":0,"delta":"a"`), event("response.refusal.delta", `"output_index":0,"content_index":1,"delta":"b"`), event("response.completed", `"response":{"status":"completed","model":"m"}`)), refused},
		{"a refusal without words", pt.SSE(event("response.output_text.delta", `"output_index":0,"delta":"ab"`), event("response.refusal.delta", `"output_index":0,"content_index":1,"delta":""`), event("response.completed", `"response":{"status":"completed","model":"m"}`)), filtered},
		{"tools of the API", responseOf(`"status":"completed","output":[{"type":"web_search_call"},{"type":"web_search_call"},{"type":"file_search_call"},{"type":"code_interpreter_call"},{"type":"mcp_call"},` + message + `]`), searched},
		{"absurd usage", responseOf(`"status":"completed","output":[` + message + `],"usage":{"input_tokens":-3,"output_tokens":1e300}`), bare},
	})
}

// withoutNames leaves out the lines with the names of events.
func withoutNames(stream string) string {
	var kept []string
	for _, line := range strings.SplitAfter(stream, "\n") {
		if !strings.HasPrefix(line, "event: ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func TestResponsesArriveUnharmed(t *testing.T) {
	responder.CheckContent(t, func(text ...string) pt.Reply { return pt.ResponsesStream(pt.ResponsesEnd{}, words(text...)) },
		pt.SSE(event("response.output_text.delta", `"output_index":0,"delta":"\ud83c"`), event("response.output_text.delta", `"output_index":0,"delta":"\udf0d\u00e9"`), event("response.completed", `"response":{"status":"completed"}`)))
}

func TestMoreOfResponses(t *testing.T) {
	text := func(text string) string {
		return event("response.output_text.delta", `"output_index":0,"delta":`+pt.Quote(text))
	}
	responder.CheckMore(t, pt.SSE(text("a")+text("b")+pt.Event(`{"type":"keepalive"}`), text("c")+event("response.completed", `"response":{"status":"completed"}`)), true)
}

func TestErrorsOfResponses(t *testing.T) {
	responder.CheckErrors(t, slices.Concat(pt.OddErrors, []pt.ErrorAnswer{
		{"a rejection", pt.OpenAIError(400, "invalid_request_error", "unsupported_parameter", "no"), providers.Error{Status: 400, Type: "invalid_request_error", Code: "unsupported_parameter", Message: "no"}},
		{"a failure", pt.ResponsesStream(pt.ResponsesEnd{Code: "rate_limit_exceeded"}), providers.Error{Kind: providers.Reported, Code: "rate_limit_exceeded", Message: "It broke."}},
		{"a failure with a time", responseOf(`"status":"failed","error":{"code":"rate_limit_exceeded","message":"Please try again in 250ms."}`), providers.Error{Kind: providers.Reported, Code: "rate_limit_exceeded", Message: "Please try again in 250ms.", RetryAfter: 250 * time.Millisecond}},
		{"a failure without words", responseOf(`"status":"failed","error":null`), providers.Error{Kind: providers.Reported, Code: "failed"}},
		{"an error event with a time", pt.SSE(event("error", `"code":"rate_limit_exceeded","message":"Please try again in 1.5s."`)), providers.Error{Kind: providers.Reported, Code: "rate_limit_exceeded", Type: "error", Message: "Please try again in 1.5s.", RetryAfter: 1500 * time.Millisecond}},
		{"an error event", pt.SSE(event("error", `"code":"context_length_exceeded","message":"too long `+testKey+`","param":"input"`)), providers.Error{Kind: providers.Reported, Code: "context_length_exceeded", Type: "error", Param: "input", Message: "too long [redacted]"}},
	}))
	responder.CheckRedirect(t)
	responder.CheckEventWithoutMemory(t, func(data string) pt.Reply { return pt.SSE("data: " + data + "\n\n") })
	responder.CheckReuse(t, func(r pt.Request) pt.Reply {
		if strings.Contains(r.Body, `"stream":true`) {
			return pt.ResponsesStream(pt.ResponsesEnd{}, words("a", "b"))
		}
		return pt.ResponsesAnswer(pt.ResponsesEnd{}, words("ab"))
	})
}

func TestCutsOfResponses(t *testing.T) {
	call := providers.ToolCall{ID: "call_1", Name: "f", Arguments: `{"a":"ü"}`}
	items := []pt.ResponsesItem{{Thought: &providers.Thought{Text: "Hm.", Opaque: "gAAA"}}, words("a"), {Call: &call}}
	stream := pt.ResponsesStream(pt.ResponsesEnd{}, items...).Text()
	responder.CheckCuts(t, stream, len(stream)-2) // without the last line feeds
	answer := strings.TrimSuffix(pt.ResponsesAnswer(pt.ResponsesEnd{}, items...).Text(), "\n")
	responder.CheckCuts(t, answer, len(answer))
}

// TestToldByResponses holds the order in which an answer is told, the same whole and
// streamed, and what of it goes back.
func TestToldByResponses(t *testing.T) {
	f, g := providers.ToolCall{ID: "call_1", Name: "f", Arguments: `{"a":"ü"}`}, providers.ToolCall{ID: "call_2", Name: "g", Arguments: `{}`}
	items := []pt.ResponsesItem{
		{Thought: &providers.Thought{Text: "H\"m.", Opaque: "gAAA"}}, words("Let me ", "see."), {Call: &f},
		{Thought: &providers.Thought{Opaque: "gBBB"}}, {Call: &g},
	}
	const first, second = `{"type":"reasoning","id":"rs_0","encrypted_content":"gAAA"}`, `@11,1:{"type":"reasoning","id":"rs_3","encrypted_content":"gBBB"}`
	for name, test := range map[string]struct {
		reply pt.Reply
		want  string
	}{
		"streamed": {pt.ResponsesStream(pt.ResponsesEnd{}, items...), `~H"~~m.~<` + first + `>Let me see.[0 call_1 f ][0   {"a":][0   "ü"}]<` + second + `>[1 call_2 g ][1   {][1   }]`},
		"whole":    {pt.ResponsesAnswer(pt.ResponsesEnd{}, items...), `~H"m.~<` + first + `>Let me see.[0 call_1 f {"a":"ü"}]<` + second + `>[1 call_2 g {}]`},
	} {
		told, r, err := responder.Told(t, test.reply)
		if err != nil || told != test.want {
			t.Errorf("%s: %v\n%s, want\n%s", name, err, told, test.want)
		}
		if r.FinishReason != "tool_calls" || len(r.ToolCalls) != 2 || r.Usage.ReasoningTokens != 14 {
			t.Errorf("%s: %+v", name, r)
		}
		var parts []providers.Part
		for _, thought := range r.Thoughts {
			parts = append(parts, pt.Thinking(thought.Text, thought.Opaque))
		}
		parts = append(parts, pt.Text("Let me see."), pt.Call("call_1", "f", f.Arguments), pt.Call("call_2", "g", g.Arguments))
		want := `{"type":"reasoning","id":"rs_0","encrypted_content":"gAAA","summary":[{"type":"summary_text","text":"H\"m."}]},` +
			`{"role":"assistant","content":"Let me see."},{"type":"function_call","call_id":"call_1","name":"f","arguments":"{\"a\":\"ü\"}"},` +
			`{"type":"reasoning","id":"rs_3","encrypted_content":"gBBB","summary":[]},{"type":"function_call","call_id":"call_2","name":"g","arguments":"{}"}`
		if got := inputOf(t, Quirks{}, pt.Message("assistant", parts...)); got != want {
			t.Errorf("%s: (-want +got)\n%s", name, cmp.Diff(want, got))
		}
	}
}

// TestSummariesOfResponses puts paragraphs between the parts of a summary.
func TestSummariesOfResponses(t *testing.T) {
	part := func(summary, text string) string {
		in := `"output_index":0,"summary_index":` + summary + `,`
		return event("response.reasoning_summary_part.added", in+`"part":{"type":"summary_text","text":""}`) + event("response.reasoning_summary_text.delta", in+`"delta":`+pt.Quote(text))
	}
	item := `{"type":"reasoning","summary":[{"type":"summary_text","text":"a"},{"type":"summary_text","text":"b"}]}`
	open := `{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"a"},{"type":"reasoning_text","text":"b"}]}`
	for name, reply := range map[string]pt.Reply{
		"streamed":        pt.SSE(part("0", "a"), part("1", "b"), event("response.output_item.done", `"output_index":0,"item":`+item), event("response.completed", `"response":{"status":"completed"}`)),
		"whole":           responseOf(`"status":"completed","output":[` + item + `]`),
		"thoughts openly": responseOf(`"status":"completed","output":[` + open + `]`),
	} {
		_, r, err := responder.Told(t, reply)
		if diff := cmp.Diff([]providers.Thought{{Text: "a\n\nb"}}, r.Thoughts); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
	}
}

func TestUsageOfResponses(t *testing.T) {
	o := responder.Receive(t, responseOf(`"status":"completed","output":[],"service_tier":"flex","usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":60,"cache_write_tokens":30},"output_tokens":50,"output_tokens_details":{"reasoning_tokens":40},"total_tokens":150}`), false)
	want := providers.Usage{PromptTokens: 100, CompletionTokens: 50, TotalTokens: 150, CachedTokens: 60, CacheWriteTokens: 30, ReasoningTokens: 40, Tier: "flex"}
	if diff := cmp.Diff(want, o.Result.Usage); diff != "" || o.Err != nil {
		t.Errorf("%v (-want +got)\n%s", o.Err, diff)
	}
}

// inputOf is the input that messages become.
func inputOf(t *testing.T, q Quirks, m ...providers.Message) string {
	t.Helper()
	var body []byte
	for i := range m {
		body = q.byResponses().appendItems(body, &m[i])
	}
	text := strings.TrimSuffix(string(body), ",")
	if !json.Valid([]byte("[" + text + "]")) {
		t.Errorf("not JSON: %s", text)
	}
	return text
}

func TestInputOfResponses(t *testing.T) {
	inline := providers.Media{Data: "aGk=", Type: "image/png"}
	pdf := providers.Media{Data: "JVBE", Type: "application/pdf", Name: `a "b".pdf`}
	byURL := providers.Media{URL: "https://a.example/b", Name: "b", Detail: "low"}
	const thought = `{"type":"reasoning","id":"rs_0","encrypted_content":"gAAA"}`
	for _, test := range []struct {
		name string
		q    Quirks
		m    []providers.Message
		want string
	}{
		{"texts", Quirks{}, []providers.Message{{Role: "system", Content: "a"}, {Role: "developer", Content: "b"}, {Role: "user", Content: `\"c\"`}, {Role: "assistant", Content: "d"}, {Role: "assistant"}, {Role: "user"}},
			`{"role":"system","content":"a"},{"role":"developer","content":"b"},{"role":"user","content":"\"c\""},{"role":"assistant","content":"d"},{"role":"user","content":""}`},
		{"parts", Quirks{}, []providers.Message{pt.Message("system", pt.Text("a"), pt.Text("b")), pt.Message("user", pt.Text("c"), pt.Media(providers.PartImage, inline), pt.Media(providers.PartImage, byURL), pt.Media(providers.PartFile, pdf), pt.Media(providers.PartFile, byURL))},
			`{"role":"system","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},` +
				`{"role":"user","content":[{"type":"input_text","text":"c"},{"type":"input_image","image_url":"data:image/png;base64,aGk=","detail":"auto"},{"type":"input_image","image_url":"https://a.example/b","detail":"low"},{"type":"input_file","filename":"a \"b\".pdf","file_data":"data:application/pdf;base64,JVBE"},{"type":"input_file","file_url":"https://a.example/b"}]}`},
		{"results", Quirks{}, []providers.Message{pt.Message("tool", pt.Result("1", pt.Text("a")), pt.Result("2"), pt.Result("3", pt.Text("a"), pt.Media(providers.PartImage, inline)))},
			`{"type":"function_call_output","call_id":"1","output":"a"},{"type":"function_call_output","call_id":"2","output":""},{"type":"function_call_output","call_id":"3","output":[{"type":"input_text","text":"a"},{"type":"input_image","image_url":"data:image/png;base64,aGk=","detail":"auto"}]}`},
		{"a text before calls", Quirks{Responses: true}, []providers.Message{pt.Message("assistant", pt.Text("a"), pt.Text(""), pt.Call("1", "f", "{}")), pt.Message("assistant", pt.Text("b"))},
			`{"role":"assistant","content":"a","phase":"commentary"},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"role":"assistant","content":"b"}`},
		{"thoughts that nothing follows", Quirks{}, []providers.Message{pt.Message("assistant", pt.Thinking("", thought)), pt.Message("assistant", pt.Text("a"), pt.Thinking("", "@1,0:"+thought)), {Role: "user", Content: "b"}},
			`{"role":"assistant","content":"a"},{"role":"user","content":"b"}`},
		{"thoughts of others", Quirks{}, []providers.Message{pt.Message("assistant", pt.Thinking("x", `{"type":"reasoning.text"}`), pt.Thinking("x", `{"type":"reasoning",}`), pt.Thinking("x", ""), pt.Text("a"))},
			`{"role":"assistant","content":"a"}`},
	} {
		if diff := cmp.Diff(test.want, inputOf(t, test.q, test.m...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestBodiesOfResponses(t *testing.T) {
	const thought = `{"type":"reasoning","id":"rs_0","encrypted_content":"gAAA"}`
	const item = `{"type":"reasoning","id":"rs_0","encrypted_content":"gAAA","summary":[]}`
	messages := []providers.Message{{Role: "user", Content: "a <b>"}}
	lacking := providers.Parameters{TopK: new(int64(7)), FrequencyPenalty: new(0.5), PresencePenalty: new(0.5), Seed: new(int64(7)), Logprobs: new(int64(2))}
	tool := providers.Tool{Name: "f", Description: "d", Parameters: json.RawMessage(`{"type":"object"}`), Strict: true}
	pt.CheckBodies(t, client, pt.ResponsesAnswer(pt.ResponsesEnd{}, words("fine")), true, []pt.Body[Config]{
		{"nothing set", providers.Request{Model: "m", Messages: messages}, byResponses,
			`{"model":"m","input":[{"role":"user","content":"a <b>"}],"store":false,"include":["reasoning.encrypted_content"]}`},
		{"a model that does not reason", providers.Request{Model: "gpt-4.1-mini", Messages: messages, Stream: true}, byResponses,
			`{"model":"gpt-4.1-mini","input":[{"role":"user","content":"a <b>"}],"store":false,"stream":true}`},
		{"parameters", providers.Request{Model: "m", Messages: messages, Parameters: providers.Parameters{Temperature: new(0.5), TopP: new(0.9), MaxTokens: new(int64(400)), ReasoningEffort: "high", ResponseFormat: &providers.ResponseFormat{Type: providers.FormatJSON}}}, byResponses,
			`{"model":"m","input":[{"role":"user","content":"a <b>"}],"store":false,"include":["reasoning.encrypted_content"],"temperature":0.5,"top_p":0.9,"max_output_tokens":400,"reasoning":{"effort":"high"},"text":{"format":{"type":"json_object"}}}`},
		{"a summary of thoughts", providers.Request{Model: "m", Messages: messages, Parameters: providers.Parameters{Thinking: &providers.Thinking{Display: providers.DisplaySummarized}}}, byResponses,
			`{"model":"m","input":[{"role":"user","content":"a <b>"}],"store":false,"include":["reasoning.encrypted_content"],"reasoning":{"summary":"auto"}}`},
		{"an effort that the model lacks", providers.Request{Model: "gpt-5", Messages: messages, Parameters: providers.Parameters{ReasoningEffort: "max"}}, func(c *Config) { c.API, c.Quirks = APIResponses, officialQuirks },
			`{"model":"gpt-5","input":[{"role":"user","content":"a <b>"}],"store":false,"include":["reasoning.encrypted_content"],"reasoning":{"effort":"high"}}`},
		{"what a caller brings", providers.Request{Model: "m", Messages: messages, Parameters: providers.Parameters{Caller: &providers.Caller{Marks: true, CacheKey: "k", CacheRetention: "24h", User: "u", Tier: "flex"}}}, func(c *Config) { c.API, c.Quirks = APIResponses, officialQuirks },
			`{"model":"m","input":[{"role":"user","content":"a <b>"}],"store":false,"include":["reasoning.encrypted_content"],"prompt_cache_key":"k","prompt_cache_retention":"24h","safety_identifier":"u","service_tier":"flex"}`},
		{"a schema", providers.Request{Model: "m", Messages: messages, Parameters: providers.Parameters{ResponseFormat: &providers.ResponseFormat{Type: providers.FormatSchema, Name: "n", Schema: json.RawMessage(`{"type":"object","properties":{"b":{},"a":{}}}`)}}}, byResponses,
			`{"model":"m","input":[{"role":"user","content":"a <b>"}],"store":false,"include":["reasoning.encrypted_content"],"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object","properties":{"b":{},"a":{}}},"strict":false}}}`},
		{"tools", providers.Request{Model: "m", Messages: messages, Parameters: providers.Parameters{Tools: []providers.Tool{tool, {Name: "g"}}, ToolChoice: &providers.ToolChoice{Mode: providers.ToolsNamed, Name: "g"}, ParallelToolCalls: new(false)}}, byResponses,
			`{"model":"m","input":[{"role":"user","content":"a <b>"}],"store":false,"include":["reasoning.encrypted_content"],"tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object"},"strict":true},{"type":"function","name":"g","parameters":{"type":"object","properties":{}},"strict":false}],"tool_choice":{"type":"function","name":"g"},"parallel_tool_calls":false}`},
		{"a mode of tools", providers.Request{Model: "m", Messages: messages, Parameters: providers.Parameters{Tools: []providers.Tool{{Name: "g"}}, ToolChoice: &providers.ToolChoice{Mode: providers.ToolsRequired}}}, byResponses,
			`{"model":"m","input":[{"role":"user","content":"a <b>"}],"store":false,"include":["reasoning.encrypted_content"],"tools":[{"type":"function","name":"g","parameters":{"type":"object","properties":{}},"strict":false}],"tool_choice":"required"}`},
		{"an answer in several messages", providers.Request{Model: "gpt-4.1-mini", Messages: []providers.Message{pt.Message("assistant", pt.Thinking("", thought), pt.Text("a")), pt.Message("assistant", pt.Thinking("", "@1,0:"+thought), pt.Text("b")), {Role: "user", Content: "c"}}}, byResponses,
			`{"model":"gpt-4.1-mini","input":[` + item + `,{"role":"assistant","content":"a"},` + item + `,{"role":"assistant","content":"b"},{"role":"user","content":"c"}],"store":false}`},
		{"extra", providers.Request{Model: "m", Messages: messages, Extra: pt.Extra("store", "true", "reasoning", `{"summary":"auto"}`, "stream", "true", "input", `"b"`)}, byResponses,
			`{"model":"m","input":"b","store":true,"include":["reasoning.encrypted_content"],"reasoning":{"summary":"auto"}}`},
	})
	lacking.Thinking, lacking.Caller = &providers.Thinking{Budget: 9}, &providers.Caller{Marks: true, CacheKey: "k"}
	named := pt.Media(providers.PartFile, providers.Media{URL: "https://a.example/b", Name: "b.pdf"})
	r, result := pt.Sent(t, pt.ResponsesAnswer(pt.ResponsesEnd{}, words("fine")), &providers.Request{Model: "m", Messages: append(messages, pt.Message("user", named), pt.Message("user", named)), Parameters: lacking}, func(base string) providers.Provider { return client(t, base, byResponses) })
	if diff := cmp.Diff([]string{"top_k", "frequency_penalty", "presence_penalty", "seed", "thinking", "logprobs", "cache_control", "prompt_cache_key", "filename of a URL"}, result.LeftOut); diff != "" || r.Path != "/v1/responses" {
		t.Errorf("%s left out (-want +got):\n%s", r.Path, diff)
	}
	c := client(t, "http://localhost", byResponses)
	for _, p := range []providers.Parameters{{Stop: []string{"x"}}, {ResponseFormat: &providers.ResponseFormat{Type: "x"}}, {Tools: []providers.Tool{{Name: "f"}}, ToolChoice: &providers.ToolChoice{Mode: "x"}}} {
		if _, err := providers.Prepare(c, &providers.Request{Model: "m", Parameters: p}); err == nil {
			t.Errorf("%+v can be sent", p)
		} else if e, ok := errors.AsType[*providers.Error](err); !ok || e.Status != 400 {
			t.Errorf("%+v: %v", p, err)
		}
	}
}

func FuzzResponses(f *testing.F) {
	call := providers.ToolCall{ID: "call_1", Name: "f", Arguments: `{"a":1}`}
	items := []pt.ResponsesItem{{Thought: &providers.Thought{Text: "Hm.", Opaque: "gAAA"}}, words("a", "b"), {Call: &call}}
	responder.Fuzz(f, responseCorruptions, []string{pt.ResponsesStream(pt.ResponsesEnd{}, items...).Text(), pt.ResponsesAnswer(pt.ResponsesEnd{}, items...).Text()}, func(body string, r providers.Result) bool {
		// The word may have escapes.
		return r.FinishReason != "" && (strings.Contains(body, "complete") || strings.Contains(body, `\u`))
	})
}
