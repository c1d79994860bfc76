package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/limit"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/providers/gemini"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// byGemini is a gateway whose endpoint asks a model at a server that speaks Gemini's API.
func byGemini(t *testing.T, up *pt.Upstream, model string, more ...setting) *gateway {
	t.Helper()
	base, err := upstream.ParseBaseURL(up.URL + "/v1beta")
	if err != nil {
		t.Fatal(err)
	}
	p, err := gemini.New(gemini.Config{Key: testKey, Upstream: upstream.Config{BaseURL: base}})
	if err != nil {
		t.Fatal(err)
	}
	return startGateway(t, searching(model), append(more, withProvider("scripted", p), withProvider("other", p))...)
}

// What Gemini's API answers: a text that two pages are behind, its signature, and beside
// functions parts of the API's own.
const (
	googleCall     = `{"toolCall":{"toolType":"GOOGLE_SEARCH_WEB","args":{"queries":["shannon born"]},"id":"h"},"thoughtSignature":"c2ln"}`
	googleResponse = `{"toolResponse":{"toolType":"GOOGLE_SEARCH_WEB","response":{"search_suggestions":"<b>"},"id":"h"},"thoughtSignature":"c2lo"}`
	googleBegin    = `{"text":"Né "}`
	googleRest     = `{"text":"en 1916. 🙂 Né."}`
	googleSigned   = `{"text":"","thoughtSignature":"c2lp"}`
	googleFunction = `{"functionCall":{"id":"f1","name":"f","args":{}},"thoughtSignature":"c2lq"}`
	googleFound    = `,"groundingMetadata":{"searchEntryPoint":{"renderedContent":"<b>"},"webSearchQueries":["shannon born"],` +
		`"groundingChunks":[{"web":{"uri":"https://g.org/A","title":"e.org"}},{"web":{"uri":"https://g.org/B","title":"f.org"}}],` +
		`"groundingSupports":[{"segment":{"endIndex":12,"text":"Né en 1916."},"groundingChunkIndices":[0,1]},{"segment":{"startIndex":18,"endIndex":21,"text":"Né"},"groundingChunkIndices":[1]}]}`
	googleText = "Né en 1916. 🙂 Né."
)

// googleReply is an answer of Gemini's API, of parts. A stream has what was found in its
// last chunk.
func googleReply(r pt.Request, parts ...string) pt.Reply {
	chunk := func(end string, parts ...string) string {
		return `{"candidates":[{"content":{"role":"model","parts":[` + strings.Join(parts, ",") + `]},"index":0` + end + `}],"usageMetadata":{"promptTokenCount":60,"candidatesTokenCount":9,"totalTokenCount":69},"modelVersion":"gemini-3-pro","responseId":"JPoz"}`
	}
	const end = `,"finishReason":"STOP"` + googleFound
	if !strings.HasSuffix(r.Path, ":streamGenerateContent") {
		return pt.JSON(200, chunk(end, parts...))
	}
	reply := pt.SSE()
	for _, p := range parts {
		reply.Body = append(reply.Body, "data: "+chunk("", p)+"\r\n\r\n")
	}
	reply.Body = append(reply.Body, "data: "+chunk(end, `{"text":""}`)+"\r\n\r\n")
	return reply
}

// TestSearchByGemini has callers of each API search with Gemini: they get the search, its
// pages and the citations in their shape, and the next request has the answer as it was.
func TestSearchByGemini(t *testing.T) {
	t.Parallel()
	parts := []string{googleBegin, googleRest, googleSigned}
	up := pt.NewUpstream(t).Choose(func(r pt.Request) pt.Reply {
		if strings.Contains(r.Body, "functionDeclarations") {
			return googleReply(r, googleCall, googleResponse, googleBegin, googleRest, googleFunction)
		}
		return googleReply(r, parts...)
	})
	g := byGemini(t, up, "gemini-3-pro-preview")
	last := func() (got struct {
		Contents []struct{ Parts json.RawMessage }
		Tools    json.RawMessage
		Config   json.RawMessage `json:"toolConfig"`
	}) {
		t.Helper()
		requests := up.Requests()
		mustParse(t, []byte(requests[len(requests)-1].Body), &got)
		return got
	}
	cite := func(format string) string { // of each page
		return fmt.Sprintf(`[`+format+`,`+format+`,`+format+`]`, 0, 11, "e.org", "A", 0, 11, "f.org", "B", 14, 16, "f.org", "B")
	}
	const quoted, pages = `"` + googleText + `"`, `"sources":[{"type":"url","url":"https://g.org/A"},{"type":"url","url":"https://g.org/B"}]`
	for _, stream := range []bool{false, true} {
		post := func(path, body, named string) answer {
			t.Helper()
			a := g.post(path, fmt.Sprintf(`{"model":"team/talk","stream":%v,%s}`, stream, body))
			if got := a.header.Get("Cadenza-Ignored"); a.status != http.StatusOK || got != named {
				t.Fatalf("%s, stream=%v: %d %s\n%q is named, not %q", path, stream, a.status, a.body, got, named)
			}
			if u := g.ended(t, a.header.Get("Cadenza-Trace-Id")).Attempts[0]; u.WebSearches != 1 {
				t.Errorf("%s: %d searches are counted", path, u.WebSearches)
			}
			return a
		}
		back := func(want ...string) {
			t.Helper()
			if got := last(); len(got.Contents) != 3 || !sameJSON(t, string(got.Contents[1].Parts), "["+strings.Join(want, ",")+"]") {
				t.Errorf("stream=%v: Gemini got back %s, want %s", stream, got.Contents, want)
			}
		}
		whole := []string{`{"text":` + quoted + `}`, googleSigned}

		// Messages.
		const tool = `{"type":"web_search_20250305","name":"web_search","max_uses":3,"user_location":{"type":"approximate","city":"Ann Arbor"}}`
		const asked, named = `"max_tokens":99,"tools":[` + tool + `],"messages":[` + user, "tools[0].max_uses, tools[0].user_location"
		a := post("/v1/messages", asked+`]`, named)
		if got := last(); string(got.Tools) != `[{"googleSearch":{}}]` || got.Config != nil {
			t.Errorf("Gemini got the tools %s %s", got.Tools, got.Config)
		}
		content, stop := heard(t, stream, a.body)
		blocks := itemsBut(content, "redacted_thinking")
		citation := func(title, page string) string {
			return `{"type":"web_search_result_location","url":"https://g.org/` + page + `","title":"` + title + `","encrypted_index":"","cited_text":""}`
		}
		cited := `{"type":"text","text":` + quoted + `,"citations":[` + citation("e.org", "A") + `,` + citation("f.org", "B") + `,` + citation("f.org", "B") + `]}`
		const results = `{"type":"server_tool_use","id":"srvtoolu_cdz_JPoz_1","name":"web_search","caller":{"type":"direct"},"input":{"query":"shannon born"}},` +
			`{"type":"web_search_tool_result","tool_use_id":"srvtoolu_cdz_JPoz_1","caller":{"type":"direct"},"content":[{"type":"web_search_result","url":"https://g.org/A","title":"e.org","encrypted_content":"","page_age":null},` +
			`{"type":"web_search_result","url":"https://g.org/B","title":"f.org","encrypted_content":"","page_age":null}]}`
		if !sameJSON(t, written(t, blocks), `[`+cited+`,`+results+`]`) || stop != "end_turn" || !strings.Contains(string(a.body), `"web_search_requests":1`) {
			t.Errorf("stream=%v: the caller got %s", stream, a.body)
		}
		post("/v1/messages", asked+`,{"role":"assistant","content":`+written(t, content)+`},`+user+`]`, "messages[1].content[0].citations, "+named)
		back(whole...)

		// Responses.
		const items, ignored = `"tools":[{"type":"web_search","search_context_size":"low"}],"tool_choice":{"type":"web_search"},"include":["web_search_call.action.sources"],"max_tool_calls":4,"input":[` + user, "tools[0].search_context_size, max_tool_calls, tool_choice"
		a = post("/v1/responses", items+`]`, ignored)
		output, _ := responded(t, stream, a.body)
		const search = `{"id":"ws_cdz_JPoz_1","type":"web_search_call","status":"completed","action":{"type":"search","query":"shannon born","queries":["shannon born"],` + pages + `}}`
		shown := itemsBut(output, "reasoning")
		if len(shown) != 2 || !sameJSON(t, written(t, shown[1]), search) {
			t.Errorf("stream=%v: the caller got %s", stream, a.body)
		} else if got := written(t, shown[0].(map[string]any)["content"]); !sameJSON(t, got, `[{"type":"output_text","annotations":`+cite(`{"type":"url_citation","start_index":%d,"end_index":%d,"title":"%s","url":"https://g.org/%s"}`)+`,"logprobs":[],"text":`+quoted+`}]`) {
			t.Errorf("stream=%v: the message is %s", stream, got)
		}
		history := strings.TrimSuffix(strings.TrimPrefix(written(t, output), "["), "]")
		post("/v1/responses", items+`,`+history+`,`+user+`]`, "input[1].content[0].annotations, "+ignored)
		back(whole...)

		// Chat completions.
		const chat = `"web_search_options":{},"messages":[` + user
		a = post("/v1/chat/completions", chat+`]`, "")
		format := `{"type":"url_citation","url_citation":{"start_index":%d,"end_index":%d,"title":"%s","url":"https://g.org/%s"}}`
		if stream {
			if n := strings.Count(string(a.body), `"annotations":[{"type":"url_citation","url_citation":{"end_index":`); n != 3 {
				t.Errorf("%d citations: %s", n, a.body)
			}
		} else {
			var got struct {
				Choices []struct{ Message json.RawMessage }
			}
			mustParse(t, a.body, &got)
			var message struct{ Annotations json.RawMessage }
			mustParse(t, got.Choices[0].Message, &message)
			if !sameJSON(t, string(message.Annotations), cite(format)) {
				t.Errorf("the annotations are %s", message.Annotations)
			}
			post("/v1/chat/completions", chat+`,`+string(got.Choices[0].Message)+`,`+user+`]`, "messages[1].annotations")
			back(whole...)
		}

		// Beside functions: a loop of them.
		const function = `{"name":"f","input_schema":{"type":"object"}}`
		const both = `"max_tokens":99,"tool_choice":{"type":"auto"},"tools":[{"type":"web_search_20250305","name":"web_search"},` + function + `],"messages":[` + user
		content, stop = heard(t, stream, post("/v1/messages", both+`]`, "").body)
		if got := last(); !sameJSON(t, string(got.Config), `{"functionCallingConfig":{"mode":"VALIDATED"},"includeServerSideToolInvocations":true}`) {
			t.Errorf("Gemini got %s", got.Config)
		}
		blocks = itemsBut(content, "redacted_thinking")
		citations := fmt.Sprintf("messages[1].content[%d].citations", slices.IndexFunc(content, func(b any) bool { return b.(map[string]any)["citations"] != nil }))
		if !sameJSON(t, written(t, blocks), `[`+cited+`,`+results+`,{"type":"tool_use","id":"f1","name":"f","caller":{"type":"direct"},"input":{}}]`) || stop != "tool_use" {
			t.Errorf("stream=%v: the caller got %s", stream, written(t, content))
		}
		post("/v1/messages", both+`,{"role":"assistant","content":`+written(t, content)+`},{"role":"user","content":[{"type":"tool_result","tool_use_id":"f1","content":"ok"}]}]`, citations)
		back(googleCall, googleResponse, whole[0], googleFunction)
	}
}

// TestSearchesThatGeminiDoesNotRun checks that they are named, and that Gemini gets nothing
// of them.
func TestSearchesThatGeminiDoesNotRun(t *testing.T) {
	t.Parallel()
	up := pt.NewUpstream(t).Choose(func(r pt.Request) pt.Reply { return googleReply(r, googleBegin) })
	old, young := byGemini(t, up, "gemini-2.5-flash"), byGemini(t, up, "gemini-3-pro-preview")
	for _, test := range []struct {
		name, path, body, named string
		g                       *gateway
	}{
		{"a blocked domain", "/v1/messages", `"max_tokens":99,"tools":[{"type":"web_search_20250305","name":"web_search","blocked_domains":["x.org"]}],"messages":[` + user + `]`, "tools[0]", young},
		{"some domains alone", "/v1/responses", `"tools":[{"type":"web_search","filters":{"allowed_domains":["x.org"]}}],"input":"Hi"`, "tools[0]", young},
		{"functions of an old model", "/v1/responses", `"tools":[{"type":"web_search"},{"type":"function","name":"f"}],"max_tool_calls":3,"input":"Hi"`, "tools[0], max_tool_calls", old},
	} {
		a := test.g.post(test.path, `{"model":"team/talk",`+test.body+`}`)
		if got := a.header.Get("Cadenza-Ignored"); a.status != http.StatusOK || got != test.named || strings.Contains(string(a.body), "g.org") {
			t.Errorf("%s: %d %s\n%q is named, not %q", test.name, a.status, a.body, got, test.named)
		}
		requests := up.Requests()
		if body := requests[len(requests)-1].Body; strings.Contains(body, "googleSearch") {
			t.Errorf("%s: Gemini got %s", test.name, body)
		}
	}
}

// TestSearchesOfGeminiCountInLimits checks that a limit sets aside the caller's bound of
// searches, which Gemini is not told, and counts those that were made.
func TestSearchesOfGeminiCountInLimits(t *testing.T) {
	t.Parallel()
	up := pt.NewUpstream(t).Choose(func(r pt.Request) pt.Reply { return googleReply(r, googleBegin) })
	budget := &limit.Limit{Name: "budget", By: limit.ByEndpoint, Ceilings: []limit.Ceiling{yearly(limit.Money, limit.Dollar/20)}}
	prices := with(func(c *gw.WorkspaceConfig) {
		c.Prices = map[string]*price.Price{"gemini-3-pro-preview": {WebSearch: 10}}
	})
	g := byGemini(t, up, "gemini-3-pro-preview", withLimits(budget), prices)
	for uses, status := range map[int]int{6: http.StatusTooManyRequests, 5: http.StatusOK} {
		body := fmt.Sprintf(`{"model":"team/talk","tools":[{"type":"web_search"}],"max_tool_calls":%d,"max_output_tokens":99,"input":"Hi"}`, uses)
		if a := g.post("/v1/responses", body); a.status != status {
			t.Errorf("%d searches: %d %s", uses, a.status, a.body)
		}
	}
	g.holdUses("one of them was made", budget, "team/talk", limit.Dollar/100)
}
