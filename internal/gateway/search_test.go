package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/anthropic"
	"github.com/cadenza-gateway/cadenza/providers/openai"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// claudeProvider is a provider at a server that speaks Anthropic's API.
func claudeProvider(t *testing.T, url string) providers.Provider {
	t.Helper()
	base, err := upstream.ParseBaseURL(url + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	claude, err := anthropic.New(anthropic.Config{Key: testKey, Upstream: upstream.Config{BaseURL: base}})
	if err != nil {
		t.Fatal(err)
	}
	return claude
}

// searching returns the files of an endpoint whose callers may search.
func searching(model string) map[string]string {
	files := conversation("")
	files["definitions/endpoints/team/talk.yaml"] = strings.NewReplacer("tools: true", "tools: { hosted: [web_search] }", "fallback: [ { provider: other, model: large } ]\n", "").Replace(conversing)
	files["definitions/prompts/talk.yaml"] = "provider: scripted\nmodel: " + model + "\nmessages: [ { role: system, content: Be brief. }, { history: true } ]\n"
	return files
}

// What Anthropic's API answers: two thoughts, of which the second follows the results of a
// search, and a text of which a part rests on a result.
const (
	claudeThought  = `{"type":"thinking","thinking":"Look it up.","signature":"sig1"}`
	claudeBefore   = `{"type":"text","text":"I'll look — "}`
	claudeCall     = `{"type":"server_tool_use","id":"srvtoolu_01A","name":"web_search","input":{"query":"shannon born"}}`
	claudeResults  = `{"type":"web_search_tool_result","tool_use_id":"srvtoolu_01A","content":[{"type":"web_search_result","url":"https://e.org/s","title":"Shannon","encrypted_content":"EqgfCi==","page_age":"April 30, 2025"}]}`
	claudeAgain    = `{"type":"redacted_thinking","data":"b3BhcXVl"}`
	claudeText     = `{"type":"text","text":"Found: "}`
	claudeCitation = `{"type":"web_search_result_location","cited_text":"Claude was born …","url":"https://e.org/s","title":"Shannon","encrypted_index":"Eo8BCio="}`
	claudeCited    = `{"type":"text","text":"né in 1916","citations":[` + claudeCitation + `]}`
	claudeEnd      = `{"type":"text","text":"."}`
	claudeUsage    = `{"input_tokens":60,"output_tokens":9,"server_tool_use":{"web_search_requests":1}}`
)

// claudeReply is an answer of Anthropic's API, of blocks.
func claudeReply(stream bool, stop string, blocks ...string) pt.Reply {
	if !stream {
		return pt.JSON(200, `{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-6","content":[`+strings.Join(blocks, ",")+`],"stop_reason":"`+stop+`","stop_sequence":null,"usage":`+claudeUsage+`}`)
	}
	events := []string{`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-6","content":[],"stop_reason":null,"usage":{"input_tokens":60,"output_tokens":1}}}`}
	say := func(format string, args ...any) { events = append(events, fmt.Sprintf(format, args...)) }
	for i, block := range blocks {
		var b map[string]json.RawMessage
		if err := json.Unmarshal([]byte(block), &b); err != nil {
			panic(err)
		}
		delta := func(kind, member string) {
			if value, ok := b[member]; ok {
				say(`{"type":"content_block_delta","index":%d,"delta":{"type":"%s","%s":%s}}`, i, kind, member, value)
			}
		}
		switch string(b["type"]) {
		case `"text"`:
			say(`{"type":"content_block_start","index":%d,"content_block":{"type":"text","text":""}}`, i)
			if b["citations"] != nil {
				say(`{"type":"content_block_delta","index":%d,"delta":{"type":"citations_delta","citation":%s}}`, i, claudeCitation)
			}
			delta("text_delta", "text")
		case `"thinking"`:
			say(`{"type":"content_block_start","index":%d,"content_block":{"type":"thinking","thinking":"","signature":""}}`, i)
			delta("thinking_delta", "thinking")
			delta("signature_delta", "signature")
		case `"server_tool_use"`:
			say(`{"type":"content_block_start","index":%d,"content_block":%s}`, i, strings.Replace(block, string(b["input"]), "{}", 1))
			input := string(b["input"])
			for _, piece := range []string{"", input[:5], input[5:]} {
				text, _ := json.Marshal(piece)
				say(`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%s}}`, i, text)
			}
		default:
			say(`{"type":"content_block_start","index":%d,"content_block":%s}`, i, block)
		}
		say(`{"type":"content_block_stop","index":%d}`, i)
	}
	say(`{"type":"message_delta","delta":{"stop_reason":"%s","stop_sequence":null},"usage":%s}`, stop, claudeUsage)
	say(`{"type":"message_stop"}`)
	return sse(events)
}

// sse are events, each named by its type.
func sse(events []string) pt.Reply {
	for i, e := range events {
		var of struct{ Type string }
		if err := json.Unmarshal([]byte(e), &of); err != nil {
			panic(err)
		}
		events[i] = "event: " + of.Type + "\ndata: " + e + "\n\n"
	}
	return pt.SSE(events...)
}

// heard returns the message of an answer of Anthropic's API. That of a stream is put
// together as Anthropic's libraries do.
func heard(t *testing.T, stream bool, body []byte) (content []any, stop string) {
	t.Helper()
	type message struct {
		Content []any
		Stop    string `json:"stop_reason"`
	}
	var m message
	if !stream {
		mustParse(t, body, &m)
		return m.Content, m.Stop
	}
	for _, line := range strings.Split(string(body), "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type  string
			Index int
			Block map[string]any `json:"content_block"`
			Delta map[string]any
		}
		mustParse(t, []byte(data), &e)
		switch e.Type {
		case "content_block_start":
			if m.Content = append(m.Content, e.Block); e.Index != len(m.Content)-1 {
				t.Fatalf("the block %d is %s", len(m.Content)-1, data)
			}
		case "content_block_delta":
			b := m.Content[e.Index].(map[string]any)
			switch kind := e.Delta["type"]; kind {
			case "text_delta":
				b["text"] = b["text"].(string) + e.Delta["text"].(string)
			case "thinking_delta":
				b["thinking"] = b["thinking"].(string) + e.Delta["thinking"].(string)
			case "signature_delta":
				b["signature"] = b["signature"].(string) + e.Delta["signature"].(string)
			case "citations_delta":
				list, _ := b["citations"].([]any)
				b["citations"] = append(list, e.Delta["citation"])
			case "input_json_delta":
				var input any
				mustParse(t, []byte(e.Delta["partial_json"].(string)), &input)
				b["input"] = input
			default:
				t.Fatalf("the delta %s", data)
			}
		case "message_delta":
			m.Stop = e.Delta["stop_reason"].(string)
		}
	}
	return m.Content, m.Stop
}

func written(t *testing.T, v any) string {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}

// sameJSON reports whether two texts are the same JSON.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	mustParse(t, []byte(a), &x)
	mustParse(t, []byte(b), &y)
	return written(t, x) == written(t, y)
}

// TestSearchThroughMessages has a caller of Anthropic's API search with Anthropic: the tool,
// the search, its results and the citations arrive as they are, and the next request has
// them in their places among the thoughts.
func TestSearchThroughMessages(t *testing.T) {
	t.Parallel()
	blocks := []string{claudeThought, claudeBefore, claudeCall, claudeResults, claudeAgain, claudeText, claudeCited, claudeEnd}
	up := pt.NewUpstream(t).Choose(func(r pt.Request) pt.Reply {
		return claudeReply(strings.Contains(r.Body, `"stream":true`), "end_turn", blocks...)
	})
	g := startGateway(t, searching("claude-sonnet-4-6"), withProvider("scripted", claudeProvider(t, up.URL)), withProvider("other", claudeProvider(t, up.URL)))
	const tool = `{"type":"web_search_20250305","name":"web_search","max_uses":3,"allowed_domains":["e.org"],"user_location":{"type":"approximate","city":"Ann Arbor"}}`
	for _, stream := range []bool{false, true} {
		post := func(more string) answer {
			a := g.post("/v1/messages", fmt.Sprintf(`{"model":"team/talk","max_tokens":99,"stream":%v,"tools":[%s],"messages":[%s%s]}`, stream, tool, user, more))
			if a.status != http.StatusOK || a.header.Get("Cadenza-Ignored") != "" {
				t.Fatalf("%d %v %s", a.status, a.header, a.body)
			}
			return a
		}
		a := post("")
		content, stop := heard(t, stream, a.body)
		if stop != "end_turn" || !strings.Contains(string(a.body), `"web_search_requests":1`) {
			t.Errorf("%s", a.body)
		}
		var shown []string
		for _, b := range content {
			if kind := b.(map[string]any)["type"]; kind != "thinking" && kind != "redacted_thinking" {
				shown = append(shown, written(t, b))
			}
		}
		if want := []string{claudeBefore, claudeCall, claudeResults, claudeText, claudeCited, claudeEnd}; !sameJSON(t, "["+strings.Join(shown, ",")+"]", "["+strings.Join(want, ",")+"]") {
			t.Errorf("stream=%v: the caller got %s", stream, strings.Join(shown, "\n"))
		}
		post(`,{"role":"assistant","content":` + written(t, content) + `},` + user)
		requests := up.Requests()
		var got struct {
			Tools    json.RawMessage
			Messages []struct{ Content json.RawMessage }
		}
		mustParse(t, []byte(requests[len(requests)-1].Body), &got)
		if !sameJSON(t, string(got.Tools), "["+tool+"]") {
			t.Errorf("the tools are %s", got.Tools)
		}
		if back := string(got.Messages[1].Content); !sameJSON(t, back, "["+strings.Join(blocks, ",")+"]") {
			t.Errorf("stream=%v: Anthropic got back %s", stream, back)
		}
	}
}

// What OpenAI's Responses API answers: a thought, a search, another thought and a message
// with a citation.
const (
	openThought = `{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAA1"}`
	openCall    = `{"id":"ws_67","type":"web_search_call","status":"completed","action":{"type":"search","queries":["shannon born"],"query":"shannon born","sources":[{"type":"url","url":"https://e.org/s"}]}}`
	openAgain   = `{"id":"rs_2","type":"reasoning","summary":[],"encrypted_content":"gAAA2"}`
	openPage    = `{"id":"ws_68","type":"web_search_call","status":"completed","action":{"type":"open_page","url":"https://e.org/s"}}`
	openCited   = `{"type":"url_citation","end_index":10,"start_index":3,"title":"Shannon","url":"https://e.org/s"}`
	openMessage = `{"id":"msg_1","type":"message","status":"completed","content":[{"type":"output_text","annotations":[` + openCited + `],"logprobs":[],"text":"né in 1916."}],"role":"assistant"}`
	openUsage   = `{"input_tokens":60,"output_tokens":9,"total_tokens":69}`
)

// openReply is an answer of the Responses API, of items.
func openReply(stream bool, items ...string) pt.Reply {
	whole := func(status string, items ...string) string {
		return `{"id":"resp_1","object":"response","status":"` + status + `","model":"gpt-5.6-sol","output":[` + strings.Join(items, ",") + `],"usage":` + openUsage + `}`
	}
	if !stream {
		return pt.JSON(200, whole("completed", items...))
	}
	events := []string{`{"type":"response.created","response":` + whole("in_progress") + `}`}
	for i, item := range items {
		say := func(kind, more string) {
			events = append(events, fmt.Sprintf(`{"type":"%s","output_index":%d,%s}`, kind, i, more))
		}
		var of struct {
			ID, Type string
			Content  []struct{ Text json.RawMessage }
		}
		if err := json.Unmarshal([]byte(item), &of); err != nil {
			panic(err)
		}
		begun := `"item":{"id":"` + of.ID + `","type":"` + of.Type + `","status":"in_progress"}`
		say("response.output_item.added", begun)
		if of.Type == "web_search_call" {
			for _, state := range []string{"in_progress", "searching", "completed"} {
				say("response.web_search_call."+state, `"item_id":"`+of.ID+`"`)
			}
		}
		for _, part := range of.Content {
			say("response.content_part.added", `"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}`)
			say("response.output_text.delta", `"content_index":0,"delta":`+string(part.Text))
			say("response.output_text.annotation.added", `"content_index":0,"annotation_index":0,"annotation":`+openCited)
		}
		say("response.output_item.done", `"item":`+item)
	}
	return sse(append(events, `{"type":"response.completed","response":`+whole("completed", items...)+`}`))
}

// responded returns the items of an answer of the Responses API. A stream has said each of
// them before it ends.
func responded(t *testing.T, stream bool, body []byte) (items []any, status string) {
	t.Helper()
	type response struct {
		Output []any
		Status string
	}
	var r response
	if !stream {
		mustParse(t, body, &r)
		return r.Output, r.Status
	}
	var said []any
	for _, line := range strings.Split(string(body), "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type     string
			Item     any
			Response response
		}
		mustParse(t, []byte(data), &e)
		if e.Type == "response.output_item.done" {
			said = append(said, e.Item)
		}
		r = e.Response
	}
	if written(t, said) != written(t, r.Output) {
		t.Errorf("the stream said %s, and ends with %s", written(t, said), written(t, r.Output))
	}
	return r.Output, r.Status
}

// itemsBut returns the items of other types than one.
func itemsBut(items []any, kind string) (rest []any) {
	for _, item := range items {
		if item.(map[string]any)["type"] != kind {
			rest = append(rest, item)
		}
	}
	return rest
}

// TestSearchThroughResponses has a caller of OpenAI's Responses API search with OpenAI, which
// gets it all back with the next request.
func TestSearchThroughResponses(t *testing.T) {
	t.Parallel()
	items := []string{openThought, openCall, openAgain, openPage, openMessage}
	up := pt.NewUpstream(t).Choose(func(r pt.Request) pt.Reply {
		return openReply(strings.Contains(r.Body, `"stream":true`), items...)
	})
	g := startGateway(t, searching("gpt-5.6-sol"), withProvider("scripted", openaiProvider(up.URL, openai.Quirks{Responses: true})), withProvider("other", openaiProvider(up.URL, openai.Quirks{})))
	const tool = `{"type":"web_search","filters":{"allowed_domains":["e.org"]},"search_context_size":"low","user_location":{"type":"approximate","country":"US"},"external_web_access":false}`
	for _, stream := range []bool{false, true} {
		post := func(more string) answer {
			a := g.post("/v1/responses", fmt.Sprintf(`{"model":"team/talk","stream":%v,"tools":[%s],"tool_choice":{"type":"web_search"},"include":["web_search_call.action.sources"],"max_tool_calls":4,"input":[%s%s]}`, stream, tool, user, more))
			if a.status != http.StatusOK || a.header.Get("Cadenza-Ignored") != "" {
				t.Fatalf("%d %v %s", a.status, a.header, a.body)
			}
			return a
		}
		a := post("")
		output, _ := responded(t, stream, a.body)
		shown := itemsBut(output, "reasoning")
		if len(shown) != 3 || !sameJSON(t, written(t, shown[:2]), "["+openCall+","+openPage+"]") || !sameJSON(t, written(t, shown[2].(map[string]any)["content"]), `[{"type":"output_text","annotations":[`+openCited+`],"logprobs":[],"text":"né in 1916."}]`) {
			t.Errorf("stream=%v: the caller got %s", stream, written(t, shown))
		}
		if stream && (strings.Count(string(a.body), "event: response.web_search_call.") != 6 || !strings.Contains(string(a.body), `"annotation_index":0,"annotation":`+openCited)) {
			t.Errorf("%s", a.body)
		}
		if u := g.ended(t, a.header.Get("Cadenza-Trace-Id")).Attempts[0]; u.WebSearches != 1 {
			t.Errorf("%d searches are counted: pages that are opened are none", u.WebSearches)
		}
		post("," + strings.TrimSuffix(strings.TrimPrefix(written(t, output), "["), "]") + "," + user)
		requests := up.Requests()
		var got struct {
			Tools   json.RawMessage
			Choice  json.RawMessage `json:"tool_choice"`
			Most    int             `json:"max_tool_calls"`
			Include json.RawMessage
			Input   []any
		}
		mustParse(t, []byte(requests[len(requests)-1].Body), &got)
		if !sameJSON(t, string(got.Tools), "["+tool+"]") || string(got.Choice) != `{"mode":"required","tools":[{"type":"web_search"}],"type":"allowed_tools"}` || got.Most != 4 || string(got.Include) != `["reasoning.encrypted_content","web_search_call.action.sources"]` {
			t.Errorf("the request is %s", requests[len(requests)-1].Body)
		}
		want := `[` + openThought + `,` + openCall + `,` + openAgain + `,` + openPage + `,{"role":"assistant","content":[{"type":"output_text","annotations":[` + openCited + `],"text":"né in 1916."}]}]`
		if back := written(t, got.Input[2:len(got.Input)-1]); !sameJSON(t, back, want) {
			t.Errorf("stream=%v: OpenAI got back\n%s, want\n%s", stream, back, want)
		}
	}
}

// TestSearchOfAnotherAPI has callers search with a provider of another API: they get the
// search, its pages and the citations in their shape, and the provider gets its own JSON
// back.
func TestSearchOfAnotherAPI(t *testing.T) {
	t.Parallel()
	claudeBlocks := []string{claudeThought, claudeBefore, claudeCall, claudeResults, claudeAgain, claudeText, claudeCited, claudeEnd}
	claude := pt.NewUpstream(t).Choose(func(r pt.Request) pt.Reply {
		return claudeReply(strings.Contains(r.Body, `"stream":true`), "end_turn", claudeBlocks...)
	})
	open := pt.NewUpstream(t).Choose(func(r pt.Request) pt.Reply {
		return openReply(strings.Contains(r.Body, `"stream":true`), openThought, openCall, openAgain, openMessage)
	})
	byClaude := startGateway(t, searching("claude-sonnet-4-6"), withProvider("scripted", claudeProvider(t, claude.URL)), withProvider("other", claudeProvider(t, claude.URL)))
	byOpen := startGateway(t, searching("gpt-5.6-sol"), withProvider("scripted", openaiProvider(open.URL, openai.Quirks{Responses: true})), withProvider("other", openaiProvider(open.URL, openai.Quirks{})))
	last := func(up *pt.Upstream) string {
		requests := up.Requests()
		return requests[len(requests)-1].Body
	}
	for _, stream := range []bool{false, true} {
		post := func(g *gateway, path, body string) answer {
			t.Helper()
			a := g.post(path, fmt.Sprintf(`{"model":"team/talk","stream":%v,%s}`, stream, body))
			if a.status != http.StatusOK {
				t.Fatalf("%d %v %s", a.status, a.header, a.body)
			}
			return a
		}
		// Responses, by Anthropic.
		const asked = `"tools":[{"type":"web_search_preview","search_context_size":"low","filters":{"blocked_domains":["x.org"]}}],"input":[`
		a := post(byClaude, "/v1/responses", asked+user+`]`)
		output, status := responded(t, stream, a.body)
		items := itemsBut(output, "reasoning")
		const search = `{"id":"ws_cdz_srvtoolu_01A","type":"web_search_call","status":"completed","action":{"type":"search","query":"shannon born","queries":["shannon born"],"sources":[{"type":"url","url":"https://e.org/s"}]}}`
		if len(items) != 3 || status != "completed" || !sameJSON(t, written(t, items[1]), search) || a.header.Get("Cadenza-Ignored") != "tools[0].search_context_size" {
			t.Errorf("stream=%v: %q is named, the caller got %s", stream, a.header.Get("Cadenza-Ignored"), a.body)
		}
		// The text is one message: its citation counts the characters before it.
		if got := written(t, items[2].(map[string]any)["content"]); !sameJSON(t, got, `[{"type":"output_text","annotations":[{"type":"url_citation","start_index":7,"end_index":17,"title":"Shannon","url":"https://e.org/s"}],"logprobs":[],"text":"Found: né in 1916."}]`) {
			t.Errorf("stream=%v: the message is %s", stream, got)
		}
		if body := last(claude); !strings.Contains(body, `"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":10,"blocked_domains":["x.org"]}]`) {
			t.Errorf("Anthropic got %s", body)
		}
		history := strings.TrimSuffix(strings.TrimPrefix(written(t, output), "["), "]")
		a = post(byClaude, "/v1/responses", asked+user+`,`+history+`,`+user+`]`)
		// The text alone has no citation, and is one.
		if body, want := last(claude), `"content":[`+strings.Join([]string{claudeThought, claudeBefore, claudeCall, claudeResults, claudeAgain, `{"type":"text","text":"Found: né in 1916."}`}, ",")+`]`; !strings.Contains(body, want) {
			t.Errorf("stream=%v: Anthropic got\n%s, want\n%s", stream, body, want)
		}
		if named := a.header.Get("Cadenza-Ignored"); !strings.HasPrefix(named, "input[") || !strings.HasSuffix(named, ".content[0].annotations, tools[0].search_context_size") {
			t.Errorf("%q is named", named)
		}

		// Messages, by OpenAI.
		const tools = `"max_tokens":99,"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":2}],"messages":[`
		a = post(byOpen, "/v1/messages", tools+user+`]`)
		content, _ := heard(t, stream, a.body)
		blocks := itemsBut(content, "redacted_thinking")
		want := `[{"type":"server_tool_use","id":"srvtoolu_cdz_ws_67","name":"web_search","caller":{"type":"direct"},"input":{"query":"shannon born"}},` +
			`{"type":"web_search_tool_result","tool_use_id":"srvtoolu_cdz_ws_67","caller":{"type":"direct"},"content":[{"type":"web_search_result","url":"https://e.org/s","title":"","encrypted_content":"","page_age":null}]},` +
			`{"type":"text","text":"né in 1916.","citations":[{"type":"web_search_result_location","url":"https://e.org/s","title":"Shannon","encrypted_index":"","cited_text":""}]}]`
		if !sameJSON(t, written(t, blocks), want) || a.header.Get("Cadenza-Ignored") != "" {
			t.Errorf("stream=%v: %q is named, the caller got %s", stream, a.header.Get("Cadenza-Ignored"), written(t, blocks))
		}
		if body := last(open); !strings.Contains(body, `"max_tool_calls":2`) || !strings.Contains(body, `"tools":[{"type":"web_search"}]`) || !strings.Contains(body, `"web_search_call.action.sources"`) {
			t.Errorf("OpenAI got %s", body)
		}
		a = post(byOpen, "/v1/messages", tools+user+`,{"role":"assistant","content":`+written(t, content)+`},`+user+`]`)
		var got struct{ Input []any }
		mustParse(t, []byte(last(open)), &got)
		if back, want := written(t, got.Input[2:len(got.Input)-1]), `[`+openThought+`,`+openCall+`,`+openAgain+`,{"role":"assistant","content":"né in 1916."}]`; !sameJSON(t, back, want) || a.header.Get("Cadenza-Ignored") != "messages[1].content[5].citations" {
			t.Errorf("stream=%v: %q is named, OpenAI got back %s", stream, a.header.Get("Cadenza-Ignored"), back)
		}
	}
}

// TestSearchThroughChat has a caller of chat completions search, by either provider.
func TestSearchThroughChat(t *testing.T) {
	t.Parallel()
	claude := pt.NewUpstream(t).Choose(func(r pt.Request) pt.Reply {
		return claudeReply(strings.Contains(r.Body, `"stream":true`), "end_turn", claudeCall, claudeResults, claudeText, claudeCited)
	})
	g := startGateway(t, searching("claude-sonnet-4-6"), withProvider("scripted", claudeProvider(t, claude.URL)), withProvider("other", claudeProvider(t, claude.URL)))
	const body = `"model":"team/talk","web_search_options":{"search_context_size":"high","user_location":{"type":"approximate","approximate":{"country":"GB"}}},"messages":[` + user
	const citation = `"annotations":[{"type":"url_citation","url_citation":{"end_index":17,"start_index":7,"title":"Shannon","url":"https://e.org/s"}}]`
	a := g.post("/v1/chat/completions", "{"+body+"]}")
	if a.status != http.StatusOK || a.header.Get("Cadenza-Ignored") != "web_search_options.search_context_size" || !strings.Contains(string(a.body), citation) || !strings.Contains(string(a.body), `"content":"Found: né in 1916"`) {
		t.Fatalf("%d %v %s", a.status, a.header, a.body)
	}
	if streamed := g.post("/v1/chat/completions", `{"stream":true,`+body+"]}"); !strings.Contains(string(streamed.body), `"delta":{`+citation+`}`) {
		t.Errorf("%s", streamed.body)
	}
	var got struct {
		Choices []struct{ Message json.RawMessage }
	}
	mustParse(t, a.body, &got)
	g.post("/v1/chat/completions", "{"+body+","+string(got.Choices[0].Message)+","+user+"]}")
	requests := claude.Requests()
	if back := requests[len(requests)-1].Body; !strings.Contains(back, `"content":[`+claudeCall+`,`+claudeResults+`,{"type":"text","text":"Found: né in 1916"}]`) || !strings.Contains(back, `"user_location":{"country":"GB","type":"approximate"}`) {
		t.Errorf("Anthropic got %s", back)
	}
}

// TestSearchesThatAreNotRun checks what becomes of searches that an endpoint or a provider
// does not have: they are named, refused where the definition says so, and the provider gets
// nothing of them.
func TestSearchesThatAreNotRun(t *testing.T) {
	t.Parallel()
	said := pt.JSON(200, `{"id":"c","object":"chat.completion","model":"gpt-4o","choices":[{"index":0,"message":{"role":"assistant","content":"Fine."},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`)
	chat := pt.NewUpstream(t).Always(said)
	open := pt.NewUpstream(t).Choose(func(r pt.Request) pt.Reply {
		if strings.HasSuffix(r.Path, "/chat/completions") {
			return said
		}
		return openReply(false, openMessage)
	})
	provider := func(up *pt.Upstream, quirks openai.Quirks) []setting {
		return []setting{withProvider("scripted", openaiProvider(up.URL, quirks)), withProvider("other", openaiProvider(up.URL, quirks))}
	}
	byChat := startGateway(t, searching("gpt-4o"), provider(chat, openai.Quirks{})...)
	byOpen := startGateway(t, searching("gpt-5.6-sol"), provider(open, openai.Quirks{Responses: true})...)
	unaccepted := searching("gpt-5.6-sol")
	unaccepted["definitions/endpoints/team/talk.yaml"] = strings.Replace(unaccepted["definitions/endpoints/team/talk.yaml"], "{ hosted: [web_search] }", "true", 1)
	no := startGateway(t, unaccepted, provider(open, openai.Quirks{Responses: true})...)
	refusing := searching("gpt-5.6-sol")
	refusing["definitions/endpoints/team/talk.yaml"] = strings.Replace(refusing["definitions/endpoints/team/talk.yaml"], "[web_search]", "refuse", 1)
	refuses := startGateway(t, refusing, provider(open, openai.Quirks{Responses: true})...)

	const history = `{"role":"assistant","content":[` + claudeCall + `,` + claudeResults + `,` + claudeCited + `]},` + user
	const searched = ", messages[1].content[0], messages[1].content[1], messages[1].content[2].citations"
	for _, test := range []struct {
		name, path, body, named string
		g                       *gateway
		up                      *pt.Upstream
	}{
		{"chat completions have none", "/v1/messages", `"tools":[{"type":"web_search_20250305","name":"web_search"}],"tool_choice":{"type":"tool","name":"web_search"},"messages":[` + user + `,` + history + `]`, "messages[1].content[0], messages[1].content[1], messages[1].content[2].citations, tools[0], tool_choice", byChat, chat},
		{"chat completions have functions", "/v1/responses", `"tools":[{"type":"web_search","external_web_access":true},{"type":"function","name":"f"}],"tool_choice":"required","max_tool_calls":3,"input":"Hi"`, "tools[0], max_tool_calls", byChat, chat},
		{"OpenAI blocks no domains", "/v1/messages", `"tools":[{"type":"web_search_20260209","name":"web_search","blocked_domains":["x.org"]}],"messages":[` + user + `]`, "tools[0]", byOpen, open},
		{"of another API", "/v1/messages", `"tools":[{"type":"web_search_20250305","name":"web_search"}],"messages":[` + user + `,` + history + `]`, searched[2:], byOpen, open},
		{"without the tool", "/v1/responses", `"input":[` + user + `,` + openCall + `,` + user + `]`, "input[1]", byOpen, open},
		{"other tools", "/v1/responses", `"tools":[{"type":"file_search"}],"input":"Hi"`, "tools[0]", byOpen, open},
		{"not accepted", "/v1/messages", `"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":8}],"messages":[` + user + `,` + history + `]`, "tools[0]" + searched, no, open},
		{"not accepted", "/v1/chat/completions", `"web_search_options":{},"messages":[` + user + `]`, "web_search_options", no, open},
		{"refused", "/v1/chat/completions", `"web_search_options":{},"messages":[` + user + `]`, "", refuses, nil},
	} {
		a := test.g.post(test.path, `{"model":"team/talk","max_tokens":99,`+strings.Replace(test.body, `"max_tokens":99,`, "", 1)+`}`)
		if test.path == "/v1/responses" {
			a = test.g.post(test.path, `{"model":"team/talk",`+test.body+`}`)
		}
		if test.up == nil {
			checkError(t, a, "invalid_request", "web_search_options")
			continue
		}
		if got := a.header.Get("Cadenza-Ignored"); a.status != http.StatusOK || len(strings.Split(got, ", ")) != len(strings.Split(test.named, ", ")) || !containsAll(got, strings.Split(test.named, ", ")) {
			t.Errorf("%s: %d %s\n%q is named, not %q", test.name, a.status, a.body, got, test.named)
		}
		requests := test.up.Requests()
		if body := requests[len(requests)-1].Body; strings.Contains(body, "srvtoolu") || strings.Contains(body, "encrypted_index") || strings.Contains(body, `"web_search_call"`) ||
			strings.Contains(body, "web_search") != (test.name == "of another API") || strings.Contains(body, "tool_choice") != strings.Contains(test.name, "functions") {
			t.Errorf("%s: the provider got %s", test.name, body)
		}
	}
}

func containsAll(text string, all []string) bool {
	for _, one := range all {
		if !strings.Contains(text, one) {
			return false
		}
	}
	return true
}

// TestPausedSearch checks an answer that Anthropic pauses in a search: a caller of its API
// sends it back to have it go on, and others get what there is as incomplete.
func TestPausedSearch(t *testing.T) {
	t.Parallel()
	up := pt.NewUpstream(t).Choose(func(r pt.Request) pt.Reply {
		return claudeReply(strings.Contains(r.Body, `"stream":true`), "pause_turn", claudeThought, claudeCall)
	})
	g := startGateway(t, searching("claude-sonnet-4-6"), withProvider("scripted", claudeProvider(t, up.URL)), withProvider("other", claudeProvider(t, up.URL)))
	for _, stream := range []bool{false, true} {
		post := func(path, body string) answer {
			a := g.post(path, fmt.Sprintf(`{"model":"team/talk","stream":%v,%s}`, stream, body))
			if a.status != http.StatusOK || a.header.Get("Cadenza-Ignored") != "" {
				t.Fatalf("%d %v %s", a.status, a.header, a.body)
			}
			return a
		}
		const asked = `"max_tokens":99,"tools":[{"type":"web_search_20260209","name":"web_search"}],"messages":[` + user
		content, stop := heard(t, stream, post("/v1/messages", asked+`]`).body)
		if stop != "pause_turn" || len(content) != 2 {
			t.Errorf("%s: %s", stop, written(t, content))
		}
		post("/v1/messages", asked+`,{"role":"assistant","content":`+written(t, content)+`}]`)
		requests := up.Requests()
		var got struct {
			Tools    json.RawMessage
			Messages []json.RawMessage
		}
		mustParse(t, []byte(requests[len(requests)-1].Body), &got)
		if !sameJSON(t, string(got.Messages[1]), `{"role":"assistant","content":[`+claudeThought+`,`+claudeCall+`]}`) ||
			string(got.Tools) != `[{"type":"web_search_20260209","name":"web_search","max_uses":10,"allowed_callers":["direct"]}]` {
			t.Errorf("Anthropic got %s", requests[len(requests)-1].Body)
		}
		if output, status := responded(t, stream, post("/v1/responses", `"tools":[{"type":"web_search"}],"input":"Hi"`).body); status != "incomplete" || !strings.Contains(written(t, output), "shannon born") {
			t.Errorf("%s: %s", status, written(t, output))
		}
		if a := post("/v1/chat/completions", `"web_search_options":{},"messages":[`+user+`]`); !strings.Contains(string(a.body), `"finish_reason":"length"`) {
			t.Errorf("%s", a.body)
		}
	}
}

// TestSearchesCountInLimits checks that what searches may cost is set aside before the call,
// and what they cost is counted after it.
func TestSearchesCountInLimits(t *testing.T) {
	t.Parallel()
	up := pt.NewUpstream(t).Choose(func(pt.Request) pt.Reply { return claudeReply(false, "end_turn", claudeCall, claudeResults, claudeEnd) })
	budget := &limit.Limit{Name: "budget", By: limit.ByEndpoint, Ceilings: []limit.Ceiling{yearly(limit.Money, limit.Dollar/20)}}
	prices := with(func(c *gw.WorkspaceConfig) { c.Prices = map[string]*price.Price{"claude-sonnet-4-6": {WebSearch: 10}} })
	g := startGateway(t, searching("claude-sonnet-4-6"), withProvider("scripted", claudeProvider(t, up.URL)), withProvider("other", claudeProvider(t, up.URL)), withLimits(budget), prices)
	ask := func(tool string) answer {
		return g.post("/v1/messages", `{"model":"team/talk","max_tokens":99,"tools":[`+tool+`],"messages":[`+user+`]}`)
	}
	if a := ask(`{"type":"web_search_20250305","name":"web_search"}`); a.status != http.StatusTooManyRequests {
		t.Errorf("ten searches for five cents: %d %s", a.status, a.body)
	}
	if a := ask(`{"type":"web_search_20250305","name":"web_search","max_uses":5}`); a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.body)
	}
	g.holdUses("one of them was made", budget, "team/talk", limit.Dollar/100)
}
