package caddymodule_test

import (
	"bufio"
	"context"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
)

// played is the answer of a call of the playground.
type played struct {
	TraceID    string          `json:"trace_id"`
	Variant    string          `json:"variant"`
	Row        string          `json:"row"`
	Target     string          `json:"target"`
	Content    string          `json:"content"`
	ToolCalls  json.RawMessage `json:"tool_calls"`
	Finish     string          `json:"finish_reason"`
	Prompt     int64           `json:"prompt_tokens"`
	Completion int64           `json:"completion_tokens"`
	Cost       *float64        `json:"cost_usd"`
	FirstToken float64         `json:"first_token_ms"`
	Took       float64         `json:"took_ms"`
	Code       string          `json:"code"`
	Error      string          `json:"error"`
	Targets    []string        `json:"targets"`
	MostTokens int64           `json:"most_tokens"`
	MostCost   *float64        `json:"most_cost_usd"`
}

// playground is a gateway whose model repeats what it is asked: it cuts a stream of a
// question with CUT, and goes on until its caller leaves with HANG.
type playground struct {
	*gateway
	*testing.T
	session http.Header
	left    chan struct{} // an upstream call that hung has ended
}

func startPlayground(t *testing.T, more string) *playground {
	p := &playground{T: t, left: make(chan struct{}, 1)}
	upstream := gatewaytest.NewUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked := string(body)
		const usage = `"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`
		switch {
		case strings.Contains(asked, "FAIL"):
			w.WriteHeader(http.StatusBadRequest)
		case strings.Contains(asked, "TOOL"):
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"id":"c1","object":"chat.completion","created":1,"model":"small","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"find","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`)
		case !strings.Contains(asked, `"stream":true`):
			gatewaytest.Completion(w, asked)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, gatewaytest.Chunk("You asked: ", ""))
			_ = http.NewResponseController(w).Flush()
			if strings.Contains(asked, "CUT") {
				panic(http.ErrAbortHandler)
			}
			if strings.Contains(asked, "HANG") {
				<-r.Context().Done()
				p.left <- struct{}{}
				return
			}
			_, _ = io.WriteString(w, gatewaytest.Chunk(asked, "stop")+`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"small",`+usage+"\n\ndata: [DONE]\n\n")
		}
	})
	files := map[string]string{
		"definitions/context.yaml": "fields: { plan: { type: string, values: [free, pro] } }\n",
		"definitions/prompts/chat.yaml": `
default: plain
variables: { question: { required: true }, company: { default: Acme } }
variants:
  plain:
    provider: fake
    model: small
    max_tokens: 50
    messages:
      - { role: system, content: "You work for {{company}}." }
      - history: true
      - { role: user, content: "{{question}}" }
  warm:
    extends: plain
    model: large
columns: [ id, plan, value ]
matrix:
  - [ payers, pro, warm ]
`,
		"definitions/endpoints/chat.yaml":    "prompt: chat\naccept: { history: true }\nfallback: [ { provider: canned, model: c, extra: { answer: Later. } } ]\ncache: { ttl: 1h }\n",
		"definitions/endpoints/away.yaml":    "prompt: chat\n",
		"definitions/endpoints/silent.yaml":  "prompt: chat\nlog: none\n",
		"definitions/prompts/letter.yaml":    "variables: { what: { default: a text } }\nmessages: [ { role: user, content: \"Write {{what}}.\" } ]\n",
		"definitions/prompts/look.yaml":      "provider: fake\nmodel: small\nvariables: { picture: {} }\nmessages: [ { role: user, content: [ { image: \"{{picture}}\" } ] } ]\n",
		"definitions/endpoints/looking.yaml": "prompt: look\n",
	}
	for _, role := range []string{"viewer", "editor"} {
		t.Setenv("our_"+role, consoleKey("our_"+role))
	}
	text := fakeProvider(upstream.URL) + `
		log content
		api_key our_editor {env.our_editor} {
			role editor
		}
		api_key our_viewer {env.our_viewer} {
			role viewer
		}
		price small 1000 2000
	` + more
	p.gateway = startGateway(t, files, text)
	p.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if err := p.loadText(strings.Replace(p.caddyfile(text), "\tcadenza\n}\n", "\tcadenza_console {\n\t\tinsecure_http\n\t}\n\tcadenza\n}\n", 1)); err != nil {
		t.Fatal(err)
	}
	p.session = p.signIn("our_editor")
	return p
}

// play plays without a stream.
func (p *playground) play(body string) (a played) {
	p.Helper()
	if err := json.Unmarshal(p.do("POST", "/console/api/play", body, p.session).ok(p.T).body, &a); err != nil {
		p.Fatal(err)
	}
	return a
}

// streamed returns the text of a stream of the playground, and what its last event says.
func streamed(t *testing.T, body []byte) (text string, a played) {
	t.Helper()
	for event := range strings.SplitSeq(string(body), "\n\n") {
		data, done := strings.CutPrefix(event, "event: done\n")
		switch {
		case done:
			if err := json.Unmarshal([]byte(strings.TrimPrefix(data, "data: ")), &a); err != nil {
				t.Fatalf("%v: %s", err, event)
			}
		case strings.HasPrefix(event, "data: {"):
			var delta struct{ Content string }
			if err := json.Unmarshal([]byte(event[len("data: "):]), &delta); err != nil {
				t.Fatalf("%v: %s", err, event)
			}
			text += delta.Content
		}
	}
	return text, a
}

// TestPlaygroundCalls calls in all the ways that the playground has.
func TestPlaygroundCalls(t *testing.T) {
	p := startPlayground(t, "")
	const question = `"variables":{"question":"Why?"}`
	for _, test := range []struct {
		name, body               string
		variant, row, target, in string
	}{
		{"the context decides", `{"endpoint":"chat",` + question + `,"context":{"plan":"pro"}}`, "warm", "payers", "fake/large", `You work for Acme.`},
		{"without a context", `{"endpoint":"chat",` + question + `}`, "plain", "", "fake/small", `Why?`},
		{"a variant", `{"endpoint":"chat","variant":"plain",` + question + `,"context":{"plan":"pro"}}`, "plain", "payers", "fake/small", `Why?`},
		{"a fallback", `{"endpoint":"chat","target":"canned/c",` + question + `}`, "plain", "", "canned/c", `Later.`},
		{"another target of the same prompt", `{"endpoint":"chat","target":"fake/large",` + question + `}`, "plain", "", "fake/large", `"model\":\"large\"`},
		{"texts that are not saved", `{"endpoint":"chat","variant":"warm","texts":["Be kind to {{company}}.",null,null],` + question + `}`, "warm", "", "fake/large", `Be kind to Acme.`},
		{"history", `{"endpoint":"chat","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"}],` + question + `}`, "plain", "", "fake/small", `Hello`},
		{"a prompt alone", `{"prompt":"letter","target":"fake/small"}`, "letter", "", "fake/small", `Write a text.`},
		{"a picture in the request", `{"endpoint":"looking","variables":{"picture":"data:image/png;base64,iVBORw0KGgo="}}`, "look", "", "fake/small", `iVBORw0KGgo=`},
	} {
		t.Run(test.name, func(t *testing.T) {
			p.T = t
			a := p.play(test.body)
			whole, _ := json.Marshal(a.Content)
			if a.Variant != test.variant || a.Row != test.row || a.Target != test.target || !strings.Contains(string(whole), test.in) && !strings.Contains(a.Content, test.in) || a.Error != "" {
				t.Errorf("%+v", a)
			}
			stored(p.gateway, a.TraceID)
			record, _ := p.trace("data/cadenza.db", a.TraceID)
			if record.APIKey != "console:our_editor" || len(record.Response) == 0 || len(record.Messages) == 0 {
				t.Errorf("%+v", record)
			}
			p.do("GET", "/console/traces/"+a.TraceID, "", p.session).ok(t)
			notes := strings.Join(record.Notes, "; ")
			if strings.Contains(notes, "not saved") != strings.Contains(test.body, "texts") || strings.Contains(notes, "was asked for") != strings.Contains(test.body, "target") {
				t.Errorf("notes: %s", notes)
			}
		})
	}
	p.T = t
	a := p.play(`{"endpoint":"chat","target":"fake/small",` + question + `}`)
	if a.Cost == nil || *a.Cost != 0.013 || a.Prompt != 7 || a.Completion != 3 || a.Finish != "stop" || a.Took <= 0 {
		t.Errorf("%+v", a)
	}
	if a := p.play(`{"endpoint":"silent",` + question + `}`); a.TraceID != "" || a.Content == "" {
		t.Errorf("log none: %+v", a)
	}
	if a := p.play(`{"endpoint":"chat","target":"fake/small","variables":{"question":"TOOL"}}`); !strings.Contains(string(a.ToolCalls), `"name":"find"`) || a.Finish != "tool_calls" {
		t.Errorf("tools: %+v", a)
	}
	if a := p.play(`{"endpoint":"chat","target":"fake/small","variables":{"question":"FAIL"}}`); a.Code == "" || a.Error == "" || a.TraceID == "" || a.Target != "fake/small" {
		t.Errorf("a failure: %+v", a)
	}
	if a := p.play(`{"endpoint":"chat",` + question + `,"dry_run":true,"stream":true}`); a.TraceID != "" || a.MostTokens < 50 || a.MostCost == nil || strings.Join(a.Targets, " ") != "fake/small canned/c" {
		t.Errorf("a dry run: %+v", a)
	}
	if a := p.play(`{"endpoint":"chat","target":"fake/large",` + question + `,"dry_run":true}`); a.MostTokens < 50 || a.MostCost != nil {
		t.Errorf("the most without a price: %+v", a)
	}
	if a := p.play(`{"endpoint":"chat","target":"fake/small",` + question + `,"dry_run":true}`); a.MostCost == nil || *a.MostCost < 0.1 || *a.MostCost > 0.2 {
		t.Errorf("the most: %+v", a)
	}
}

// TestPlaygroundRefuses checks requests that call no model.
func TestPlaygroundRefuses(t *testing.T) {
	p := startPlayground(t, "")
	const question = `"variables":{"question":"Why?"}`
	for body, want := range map[string]string{
		`{`:                             "the body must be a JSON object",
		`{"endpoint":"chat"} {}`:        "something follows the JSON object",
		`{"endpoints":"chat"}`:          "unknown field",
		`{}`:                            "Name an endpoint, or a prompt.",
		`{"endpoint":"a","prompt":"b"}`: "Name an endpoint, or a prompt.",
		`{"endpoint":"nothing"}`:        "There is no endpoint nothing.",
		`{"prompt":"nothing"}`:          "There is no prompt nothing.",
		`{"endpoint":"chat"}`:           `question`,
		`{"endpoint":"chat","variant":"cold",` + question + `}`:        "has no variant cold",
		`{"endpoint":"chat","target":"openai/gpt-9",` + question + `}`: "has the target openai/gpt-9",
		`{"endpoint":"chat","target":"canned",` + question + `}`:       "not configured",
		`{"prompt":"letter"}`:                                                                                                                                "names no target: choose one",
		`{"endpoint":"chat","texts":["x"],` + question + `}`:                                                                                                 "name it",
		`{"endpoint":"chat","variant":"warm","texts":["{{who}}"],` + question + `}`:                                                                          "texts[0]: {{who}} is not declared",
		`{"endpoint":"chat","variant":"warm","texts":[null,"x"],` + question + `}`:                                                                           "texts[1]: this message is no text",
		`{"endpoint":"chat","variant":"warm","texts":[null,null,null,"x"],` + question + `}`:                                                                 "there are 4 texts",
		`{"endpoint":"away","messages":[{"role":"user","content":"Hi"}],` + question + `}`:                                                                   "history: true",
		`{"endpoint":"looking","variables":{"picture":"https://example.com/a.png"}}`:                                                                         "no media by address",
		`{"endpoint":"chat","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}],` + question + `}`: "no media by address",
	} {
		a := p.do("POST", "/console/api/play", body, p.session)
		if a.status/100 != 4 || !strings.Contains(string(a.body), want) {
			t.Errorf("%s: %d %s, want %s", body, a.status, a.body, want)
		}
	}
	viewer := p.signIn("our_viewer")
	for _, method := range []string{"GET", "POST"} {
		if a := p.do(method, "/console/api/play", `{"endpoint":"chat",`+question+`}`, viewer); a.status != http.StatusForbidden {
			t.Errorf("%s by a viewer: %d %s", method, a.status, a.body)
		}
	}
	var all struct {
		As                          string
		Endpoints, Prompts, Targets []string
		Chosen                      *struct {
			Prompt, File, Log string
			History           bool
			Variants          []struct {
				Key, Target string
				Messages    []struct {
					Role, Text, Place string
					History           bool
				}
			}
			Variables []struct {
				Name, Default string
				Required      bool
			}
		}
	}
	if err := json.Unmarshal(p.do("GET", "/console/api/play?endpoint=chat", "", p.session).ok(t).body, &all); err != nil {
		t.Fatal(err)
	}
	if all.As != "console:our_editor" || strings.Join(all.Targets, " ") != "canned/c fake/large fake/small" || len(all.Endpoints) != 4 || len(all.Prompts) != 3 {
		t.Errorf("%+v", all)
	}
	c := all.Chosen
	if c.Prompt != "chat" || !strings.HasSuffix(c.File, "prompts/chat.yaml") || c.Log != "content" || !c.History || len(c.Variants) != 2 || len(c.Variables) != 2 ||
		c.Variants[1].Target != "fake/large" || c.Variants[1].Messages[0].Text != "You work for {{company}}." || !strings.Contains(c.Variants[0].Messages[0].Place, "chat.yaml:10:") || !c.Variants[0].Messages[1].History {
		t.Errorf("%+v", c)
	}
	if a := p.do("GET", "/console/api/play?endpoint=nothing", "", p.session); a.status != http.StatusNotFound {
		t.Errorf("an unknown endpoint: %d %s", a.status, a.body)
	}
}

// TestPlaygroundStreams has streams end whole, by the provider's cut, and by their visitor.
func TestPlaygroundStreams(t *testing.T) {
	p := startPlayground(t, "")
	body := func(question string) string {
		return `{"endpoint":"chat","target":"fake/small","stream":true,"variables":{"question":"` + question + `"}}`
	}
	whole := p.do("POST", "/console/api/play", body("Why?"), p.session).ok(t)
	text, a := streamed(t, whole.body)
	if !strings.HasPrefix(text, "You asked: ") || !strings.Contains(text, "Why?") || a.Content != "" || a.Finish != "stop" || a.FirstToken <= 0 || a.Took < a.FirstToken || a.Cost == nil || *a.Cost != 0.013 || a.Error != "" {
		t.Errorf("%q, %+v", text, a)
	}
	if kind := whole.header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") || !strings.Contains(string(whole.body), "data: [DONE]\n\nevent: done\n") {
		t.Errorf("%s: %s", kind, whole.body)
	}

	text, a = streamed(t, p.do("POST", "/console/api/play", body("CUT"), p.session).ok(t).body)
	if text != "You asked: " || a.Code != "upstream_interrupted" || a.Error == "" || a.TraceID == "" {
		t.Errorf("a cut: %q, %+v", text, a)
	}
	text, a = streamed(t, p.do("POST", "/console/api/play", body("FAIL"), p.session).ok(t).body)
	if text != "" || a.Error == "" || a.TraceID == "" {
		t.Errorf("a failure before its first event: %q, %+v", text, a)
	}

	ctx, stop := context.WithCancel(t.Context())
	response, err := p.send(ctx, "POST", "/console/api/play", body("HANG"), p.session)
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(response.Body).ReadString('\n')
	if err != nil || !strings.Contains(line, "You asked: ") {
		t.Fatalf("%q, %v", line, err)
	}
	stop()
	_ = response.Body.Close()
	<-p.left
	_, id, _ := strings.Cut(line, `"trace_id":"`)
	id, _, _ = strings.Cut(id, `"`)
	stored(p.gateway, id)
	if record, _ := p.trace("data/cadenza.db", id); record.Code != "client_gone" || string(record.Response) != "You asked: " {
		t.Errorf("a visitor's stop: %+v", record)
	}
}

// TestPlaygroundCounts checks where calls of the playground count: under the limits of
// their own name, in costs and in lists, and not in statistics.
func TestPlaygroundCounts(t *testing.T) {
	p := startPlayground(t, "limit keys {\nrequests 2/366d\n}\n")
	const body = `{"endpoint":"chat","target":"fake/small","variables":{"question":"Why?"}}`
	first := p.play(body)
	p.play(body)
	stored(p.gateway, first.TraceID)
	for _, stream := range []string{"", `"stream":true,`} {
		a := p.do("POST", "/console/api/play", "{"+stream+body[1:], p.session)
		if a.status != http.StatusTooManyRequests || !strings.Contains(string(a.body), "The limit keys (requests 2/366d by api_key) is used up. There is room again in ") {
			t.Errorf("beyond the limit: %d %s", a.status, a.body)
		}
	}
	if a := p.play(body[:len(body)-1] + `,"dry_run":true}`); a.MostTokens == 0 {
		t.Errorf("a dry run counts: %+v", a)
	}
	if limits := string(p.do("GET", "/console/api/limits?subject=console:our_editor", "", p.session).ok(t).body); !strings.Contains(limits, `"used":2`) {
		t.Errorf("%s", limits)
	}
	app := p.post("/v1/endpoints", `{"key":"chat","variables":{"question":"Why?"}}`).ok(t)
	stored(p.gateway, app.header.Get("Cadenza-Trace-Id"))
	eventually(t, "the statistics have the app's call", func() bool {
		stats := string(p.do("GET", "/console/api/stats", "", p.session).ok(t).body)
		if strings.Contains(stats, `"traces":2`) || strings.Contains(stats, `"traces":3`) {
			t.Fatal(stats)
		}
		return strings.Contains(stats, `"traces":1`)
	})
	costs := string(p.do("GET", "/console/api/costs?by=api_key", "", p.session).ok(t).body)
	if !strings.Contains(costs, "console:our_editor") || !strings.Contains(costs, `0.026`) {
		t.Errorf("%s", costs)
	}
	if list := string(p.do("GET", "/console/api/traces?api_key=console:our_editor", "", p.session).ok(t).body); strings.Count(list, `"trace_id":`) != 2 {
		t.Errorf("%s", list)
	}
}

// TestPlaygroundPage uses the page as a browser without JavaScript does.
func TestPlaygroundPage(t *testing.T) {
	p := startPlayground(t, "limit keys {\nrequests 3/366d\n}\n")
	form := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Cookie": p.session["Cookie"]}
	page := func(values url.Values) string {
		t.Helper()
		return html.UnescapeString(string(p.do("POST", "/console/playground", values.Encode(), form).ok(t).body))
	}
	check := func(text string, parts ...string) {
		t.Helper()
		text = shownText(text)
		for _, part := range parts {
			if absent := strings.HasPrefix(part, "!"); strings.Contains(text, strings.TrimPrefix(part, "!")) == absent {
				t.Errorf("%s in\n%s", part, text)
			}
		}
	}
	empty := string(p.do("GET", "/console/playground", "", p.session).ok(t).body)
	check(empty, `value="endpoint/chat"`, `value="prompt/letter"`, "console:our_editor", "keys: 0 of 3/366d requests", "!Keep as a test")

	asked := url.Values{
		"of": {"endpoint/chat"}, "two": {"1"}, "variable.question": {"Line one\r\nline two"}, "field.plan": {"pro"},
		"role.0": {"user"}, "turn.0": {"Hi"}, "role.1": {"assistant"}, "turn.1": {"Hello"}, "role.2": {"user"}, "turn.2": {""},
		"a.variant": {"warm"}, "a.texts": {"endpoint/chat@warm"}, "a.text.0": {"Be kind\r\nto {{company}}."}, "a.text.2": {"{{question}}"},
		"b.target": {"fake/small"}, "b.texts": {"endpoint/chat@plain"}, "b.text.0": {"of another variant"},
	}
	shown := page(asked)
	check(shown, "not saved", `data-saved="You work for {{company}}."`, "may use at most", "; not all targets have a known price.", "!Calls made", "the history",
		`context: {"plan":"pro"}, rule: "payers" }`, "prompts/chat.yaml", "keys: 0 of 3/366d requests", "!of another variant")
	_, test, _ := strings.Cut(shown, `<code data-out="test">`)
	test, _, _ = strings.Cut(test, "</code>")
	prompt := filepath.Join(p.dir, "definitions/prompts/chat.yaml")
	text, err := os.ReadFile(prompt)
	if err != nil {
		t.Fatal(err)
	}
	p.write("definitions/prompts/chat.yaml", string(text)+test+"\n")
	if snapshot, err := definition.Load(filepath.Join(p.dir, "definitions")); err != nil || snapshot.Tests != 1 {
		t.Errorf("%s: %v", test, err)
	}
	asked.Set("do", "ask")
	// A link, which a browser may follow for another site, shows the form and calls nothing.
	check(html.UnescapeString(string(p.do("GET", "/console/playground?"+asked.Encode(), "", p.session).ok(t).body)), "may use at most", "keys: 0 of 3/366d requests", "!$0.013")
	answered := page(asked)
	check(answered, `Be kind\nto Acme.`, `Line one\nline two`, `"Hello"`, "fake/large", "fake/small", "$0.013", "7 + 3", `href="/console/traces/0`)
	_, id, _ := strings.Cut(answered, `href="/console/traces/0`)
	id = "0" + id[:35]
	stored(p.gateway, id)

	check(string(p.do("GET", "/console/traces/"+id, "", p.session).ok(t).body), "/console/playground?trace="+id, "The record is as it was made", "playground: texts that are not saved")
	again := html.UnescapeString(string(p.do("GET", "/console/playground?two=1&trace="+id, "", p.session).ok(t).body))
	check(again, "Line one\nline two</textarea>", `value="pro"`, "\nHi</textarea>", "\nHello</textarea>", `<option selected>warm</option>`, `id="h-b"`)

	page(asked) // the third call, and one too many
	check(page(asked), "The limit keys (requests 3/366d by api_key) is used up. There is room again in ")
	check(page(url.Values{"of": {"endpoint/chat"}, "do": {"two"}}), "known once the required variables are filled in", `id="h-b"`)
	check(page(url.Values{"of": {"endpoint/chat"}, "two": {"1"}, "do": {"one"}}), `!id="h-b"`)
	if a := p.do("GET", "/console/playground?endpoint=nothing", "", p.session); a.status != http.StatusNotFound {
		t.Errorf("an unknown endpoint: %d", a.status)
	}

	viewer := p.signIn("our_viewer")
	check(string(p.do("GET", "/console/playground", "", viewer).ok(t).body), "needs the role editor")
	check(string(p.do("GET", "/console/traces/"+id, "", viewer).ok(t).body), "!playground?trace=")
	var plays int
	if err := p.database().QueryRowContext(t.Context(), "SELECT count(*) FROM audit WHERE visitor = 'our_editor' AND role = 'editor' AND action = 'play' AND subject = 'chat'").Scan(&plays); err != nil || plays == 0 {
		t.Errorf("the audit has %d calls: %v", plays, err)
	}
}
