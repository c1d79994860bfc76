package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
)

// TestUnknownMembers checks that members of others' APIs that no table has are ignored and
// named, or refused by their path where the endpoint says so. Those that are known to
// change the answer are refused in any case.
func TestUnknownMembers(t *testing.T) {
	t.Parallel()
	g, _ := startScripted(t, "")
	strict := conversation("")
	strict["definitions/endpoints/team/talk.yaml"] = strings.Replace(conversing, "history: true", "history: true, unknown: refuse", 1)
	s := &scripted{content: "Fine."}
	refusing := startGateway(t, strict, withProvider("scripted", s), withProvider("other", s))

	said := `{"role":"assistant","content":[{"type":"text","text":"I look.","annotations":[],"refusal":"","audio":{"id":"a"},"tool_calls":[{"id":"x"}]}]}`
	for _, c := range []struct{ path, members, named string }{
		{"/v1/chat/completions", `"client_metadata":{"a":"b"},"messages":[` + user + `]`, "client_metadata"},
		{"/v1/chat/completions", `"messages":[` + user + `,` + said + `,` + user + `]`, "messages[1].content[0].annotations, messages[1].content[0].refusal, messages[1].content[0].audio, messages[1].content[0].tool_calls"},
		{"/v1/chat/completions", `"messages":[{"role":"user","content":"Hi","next":1}],"tools":[{"type":"function","next":1,"function":{"name":"f","next":2}}]`, "messages[0].next, tools[0].next, tools[0].function.next"},
		{"/v1/responses", `"client_metadata":{"a":"b"},"reasoning":{"next":1},"input":[{"role":"user","next":1,"content":[{"type":"input_text","text":"Hi","next":2}]}]`, "client_metadata, reasoning.next, input[0].next, input[0].content[0].next"},
		{"/v1/messages", `"next":1,"messages":[{"role":"user","next":1,"content":[{"type":"text","text":"Hi","next":2}]}]`, "next, messages[0].next, messages[0].content[0].next"},
		{"/v1/messages/count_tokens", `"next":1,"messages":[{"role":"user","content":"Hi"}]`, "next"},
	} {
		body := `{"model":"team/talk",` + c.members + `}`
		if a := g.post(c.path, body); a.status != http.StatusOK || a.header.Get("Cadenza-Ignored") != c.named {
			t.Errorf("%s %s: %d, %q is named\n%s", c.path, body, a.status, a.header.Get("Cadenza-Ignored"), a.body)
		}
		first, _, _ := strings.Cut(c.named, ",")
		if a := refusing.post(c.path, body); a.status != http.StatusBadRequest || !strings.Contains(string(a.body), `"param":"`+first+`"`) {
			t.Errorf("%s %s is not refused for %s: %d %s", c.path, body, first, a.status, a.body)
		}
	}
	for path, members := range map[string]string{
		"/v1/chat/completions": `"audio":{"format":"wav"},"messages":[` + user + `]`,
		"/v1/responses":        `"previous_response_id":"resp_1","input":"Hi"`,
		"/v1/messages":         `"speed":"fast","messages":[` + user + `]`,
	} {
		if a := g.post(path, `{"model":"team/talk",`+members+`}`); a.status != http.StatusBadRequest {
			t.Errorf("%s %s: %d %s", path, members, a.status, a.body)
		}
	}
	// Our own API has no other libraries.
	checkError(t, g.post("/v1/endpoints", `{"key":"team/talk","messages":[{"role":"user","content":"Hi","next":1}]}`), "invalid_request", "messages[0].next")

	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, `"member_%d":1,`, i)
	}
	a := g.post("/v1/chat/completions", `{`+many.String()+`"model":"team/talk","messages":[`+user+`]}`)
	if named := a.header.Get("Cadenza-Ignored"); a.status != http.StatusOK || len(named) > 1100 || !strings.HasPrefix(named, "member_0, member_1, ") || !strings.HasSuffix(named, fmt.Sprintf("...+%d", 1000-strings.Count(named, "member_"))) {
		t.Errorf("%d, %d bytes: %s", a.status, len(named), named)
	}
}

// TestHostedTools checks that tools of OpenAI and Anthropic, choices of them and their calls
// in a history are ignored and named, or refused where the endpoint says so.
func TestHostedTools(t *testing.T) {
	t.Parallel()
	g, s := startScripted(t, "")
	files := conversation("")
	files["definitions/endpoints/team/talk.yaml"] = strings.Replace(conversing, "tools: true", "tools: { hosted: refuse }", 1)
	refusing := startGateway(t, files, withProvider("scripted", s), withProvider("other", s))
	const function = `{"type":"function","name":"f"}`
	for _, c := range []struct{ path, members, named string }{
		{"/v1/responses", `"tools":[{"type":"web_search","external_web_access":false},` + function + `,{"type":"mcp","server_label":"a"}],"input":"Hi"`, "tools[0], tools[2]"},
		{"/v1/responses", `"tools":[{"type":"web_search_preview_2025_03_11"}],"tool_choice":"required","input":"Hi"`, "tools[0], tool_choice"},
		{"/v1/responses", `"tools":[{"type":"file_search"},` + function + `],"tool_choice":{"type":"file_search"},"input":"Hi"`, "tools[0], tool_choice"},
		{"/v1/responses", `"input":[` + user + `,{"type":"web_search_call","id":"ws_1","status":"completed","action":{"type":"search"}},{"type":"mcp_list_tools","tools":[]},{"type":"shell_call_output","call_id":"c"},` + user + `]`, "input[1], input[2], input[3]"},
		{"/v1/messages", `"tools":[{"type":"web_search_20250305","name":"web_search","max_uses":8}],"tool_choice":{"type":"tool","name":"web_search"},"messages":[` + user + `]`, "tools[0], tool_choice"},
		{"/v1/messages", `"tools":[{"type":"bash_20250124","name":"bash"},{"name":"f","input_schema":{"type":"object"}}],"messages":[` + user + `,{"role":"assistant","content":[{"type":"server_tool_use","id":"s","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"s","content":[]},{"type":"text","text":"So."}]},` + user + `]`, "tools[0], messages[1].content[0], messages[1].content[1]"},
	} {
		body := `{"model":"team/talk",` + c.members + `}`
		a := g.post(c.path, body)
		if named := strings.Split(a.header.Get("Cadenza-Ignored"), ", "); a.status != http.StatusOK || strings.Join(named, ", ") != c.named {
			t.Errorf("%s %s: %d, %q is named\n%s", c.path, body, a.status, named, a.body)
		}
		if strings.Contains(string(a.body), "_search") || strings.Contains(string(a.body), "mcp") {
			t.Errorf("the answer says that the tool is in effect: %s", a.body)
		}
		if got, _ := s.last(); strings.Contains(got, "_search") || strings.Contains(got, "mcp") {
			t.Errorf("the provider got %s", got)
		}
		first, _, _ := strings.Cut(c.named, ",")
		if a := refusing.post(c.path, body); a.status != http.StatusBadRequest || !strings.Contains(string(a.body), `"param":"`+first+`"`) {
			t.Errorf("%s %s is not refused for %s: %d %s", c.path, body, first, a.status, a.body)
		}
	}
	// A tool of a type that no table has.
	body := `{"model":"team/talk","tools":[{"type":"next_tool"}],"input":"Hi"}`
	for _, g := range []*gateway{g, refusing} {
		if a := g.post("/v1/responses", body); a.status != http.StatusOK || a.header.Get("Cadenza-Ignored") != "tools[0]" {
			t.Errorf("%d, %q is named: %s", a.status, a.header.Get("Cadenza-Ignored"), a.body)
		}
	}
	// A name of the definition's tools is refused by the place in the request.
	checkError(t, g.post("/v1/responses", `{"model":"team/talk","tools":[{"type":"web_search"},{"type":"function","name":"own"}],"input":"Hi"}`), "invalid_request", "tools[1]")
}

// TestToolsOfCodex checks that an agent's namespaces, custom tools and additional tools are
// functions for the model, and that their calls come back as the agent knows them, whole
// and in a stream.
func TestToolsOfCodex(t *testing.T) {
	t.Parallel()
	g, s := startScripted(t, "")
	s.content, s.result.FinishReason = "", providers.FinishToolCalls
	s.result.ToolCalls = []providers.ToolCall{{ID: "c1", Name: "agents__spawn", Arguments: `{"task":"look"}`}, {ID: "c2", Name: "functions__exec", Arguments: `{"input":"text(\"hi\")"}`}}
	const tools = `"tools":[{"type":"namespace","name":"agents","description":"Sub-agents.","tools":[{"type":"function","name":"spawn","parameters":{"type":"object"}}]},{"type":"web_search"}]`
	const more = `{"type":"additional_tools","role":"developer","tools":[{"type":"namespace","name":"functions","description":"","tools":[{"type":"custom","name":"exec","format":{"type":"grammar","syntax":"lark","definition":"start: /.+/"}}]}]}`
	for _, stream := range []string{"false", "true"} {
		a := g.post("/v1/responses", `{"model":"team/talk","stream":`+stream+`,"client_metadata":{},`+tools+`,"input":[`+more+`,`+user+`]}`)
		for _, want := range []string{
			`"type":"function_call","status":"completed","arguments":"{\"task\":\"look\"}","call_id":"c1","name":"spawn","namespace":"agents"}`,
			`"type":"custom_tool_call","input":"text(\"hi\")","call_id":"c2","name":"exec","namespace":"functions"}`,
		} {
			if !strings.Contains(string(a.body), want) {
				t.Errorf("the answer has no %s: %s", want, a.body)
			}
		}
		if named := a.header.Get("Cadenza-Ignored"); named != "client_metadata, tools[1], input[0].tools[0].tools[0].format" {
			t.Errorf("%q is named", named)
		}
	}
	a := g.post("/v1/responses", `{"model":"team/talk",`+tools+`,"input":[`+more+`,`+user+`,
		{"type":"function_call","call_id":"c1","name":"spawn","namespace":"agents","arguments":"{}"},{"type":"custom_tool_call","call_id":"c2","name":"exec","namespace":"functions","input":"a"},
		{"type":"function_call_output","call_id":"c1","output":"1"},{"type":"custom_tool_call_output","call_id":"c2","output":"2"}]}`)
	got, _ := s.last()
	if a.status != http.StatusOK || !strings.Contains(got, `"Name":"agents__spawn","Description":"The tools of agents: Sub-agents."`) || !strings.Contains(got, `"ID":"c1","Name":"agents__spawn"`) || !strings.Contains(got, `"ID":"c2","Name":"functions__exec","Arguments":"{\"input\":\"a\"}"`) {
		t.Errorf("%d %s\nthe provider got %s", a.status, a.body, got)
	}
	// What items bring needs the endpoint's word, too.
	checkError(t, g.post("/v1/responses", `{"model":"plain","input":[`+more+`]}`), "invalid_request", "input[0].tools")
}

// TestCompaction checks both ways in which agents have a conversation summarized, and that
// the summary stands for it in the next request, whichever target answers.
func TestCompaction(t *testing.T) {
	t.Parallel()
	g, s := startScripted(t, "")
	s.content = `They asked "how".`
	const said = `{"role":"assistant","content":"Well."},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"1"}`
	const tools = `"tools":[{"type":"function","name":"f"}]`
	summaryOf := func(item any) string {
		t.Helper()
		of, _ := item.(map[string]any)
		sealed, _ := of["encrypted_content"].(string)
		if of["type"] != "compaction" || !strings.HasPrefix(sealed, "cdz1_") || !strings.HasPrefix(of["id"].(string), "cmp_") {
			t.Fatalf("%v is no summary", item)
		}
		return sealed
	}
	checkAsked := func() {
		t.Helper()
		got, _ := s.last()
		for _, want := range []string{`"content":"How are you?"`, `Write a summary of the conversation above`, `"ToolChoice":{"Mode":"none"`, `{"Name":"f"`} {
			if !strings.Contains(got, want) {
				t.Errorf("the provider got no %s: %s", want, got)
			}
		}
	}
	alone := g.post("/v1/responses/compact", `{"model":"team/talk","client_metadata":{},`+tools+`,"input":[`+user+`,`+said+`]}`)
	checkAsked()
	body := alone.ok(t).json(t)
	output, _ := body["output"].([]any)
	if body["object"] != "response.compaction" || len(output) != 2 || body["usage"] == nil {
		t.Fatalf("%s", alone.body)
	}
	if first, _ := output[0].(map[string]any); first["role"] != "user" || first["content"] != "How are you?" {
		t.Errorf("%s", alone.body)
	}
	sealed := summaryOf(output[1])

	whole := g.post("/v1/responses", `{"model":"team/talk",`+tools+`,"text":{"format":{"type":"json_object"}},"tool_choice":"auto","input":[`+user+`,`+said+`,{"type":"compaction_trigger"}]}`)
	checkAsked()
	if output, _ = whole.ok(t).json(t)["output"].([]any); len(output) != 1 || whole.header.Get("Cadenza-Ignored") != "text.format, tool_choice" {
		t.Fatalf("%v %s", whole.header, whole.body)
	}
	summaryOf(output[0])

	stream := g.post("/v1/responses", `{"model":"team/talk","stream":true,`+tools+`,"input":[`+user+`,`+said+`,{"type":"compaction_trigger"}]}`)
	if n := strings.Count(string(stream.body), "event: response.output_item.done"); stream.status != http.StatusOK || n != 1 || strings.Contains(string(stream.body), "how") || !strings.Contains(string(stream.body), `"output":[{"id":"cmp_`) {
		t.Errorf("%d, %d items: %s", stream.status, n, stream.body)
	}

	for _, kind := range []string{"compaction", "compaction_summary"} {
		next := g.post("/v1/responses", `{"model":"team/talk","input":[{"type":"`+kind+`","encrypted_content":"`+sealed+`"},`+user+`]}`)
		if got, _ := s.last(); next.status != http.StatusOK || !strings.Contains(got, `{"role":"user","content":"The conversation before this was summarized:\n\nThey asked \"how\"."}`) || next.header.Get("Cadenza-Ignored") != "" {
			t.Errorf("%d %s\nthe provider got %s", next.status, next.body, got)
		}
	}
	for input, param := range map[string]string{
		`[{"type":"compaction","encrypted_content":"gAAAA"}]`:                             "input[0].encrypted_content",
		`[` + user + `,{"type":"compaction","encrypted_content":"` + sealed[:40] + `A"}]`: "input[1].encrypted_content",
		`[{"type":"compaction"}]`:                      "input[0].encrypted_content",
		`[{"type":"compaction_trigger"},` + user + `]`: "input[0]",
	} {
		checkError(t, g.post("/v1/responses", `{"model":"team/talk","input":`+input+`}`), "invalid_request", param)
	}
	checkError(t, g.post("/v1/responses/compact", `{"model":"team/talk","stream":true,"input":"Hi"}`), "invalid_request", "stream")

	// A model without a summary: the agent keeps its conversation.
	s.content = ""
	checkError(t, g.post("/v1/responses/compact", `{"model":"team/talk","input":"Hi"}`), "upstream_invalid_response", "")
	if a := g.post("/v1/responses", `{"model":"team/talk","stream":true,"input":[`+user+`,{"type":"compaction_trigger"}]}`); strings.Contains(string(a.body), "response.completed") || !strings.Contains(string(a.body), "response.failed") {
		t.Errorf("%s", a.body)
	}
}
