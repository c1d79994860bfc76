package gateway_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/definition"
	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// scripted is a provider that answers with a result, and keeps its requests.
type scripted struct {
	mu       sync.Mutex
	requests []string // as JSON, with their parts
	result   providers.Result
	content  string
	prepared bool // a request had its prepared form
	fail     bool
}

func (s *scripted) PrepareRequests(*providers.Request) (any, error) { return "prepared", nil }

func (s *scripted) Invoke(_ context.Context, r *providers.Request) (providers.Stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := make([][]providers.Part, len(r.Messages))
	for i := range r.Messages {
		parts[i] = r.Messages[i].Parts
	}
	text, err := json.Marshal(struct {
		Model      string
		Messages   []providers.Message
		Parts      [][]providers.Part
		Parameters providers.Parameters
	}{r.Model, r.Messages, parts, r.Parameters})
	if err != nil {
		return nil, err
	}
	s.requests = append(s.requests, string(text))
	s.prepared = s.prepared || r.Prepared != nil
	if s.fail {
		return nil, &providers.Error{Provider: "scripted", Kind: providers.Status, Status: http.StatusBadGateway}
	}
	stream := &scriptedStream{result: s.result}
	if r.Stream {
		for n := range s.result.Thoughts {
			stream.deltas = append(stream.deltas, providers.Delta{Thinking: s.result.Thoughts[n].Text}, providers.Delta{Thought: &s.result.Thoughts[n]})
		}
	}
	if s.content != "" {
		stream.deltas = append(stream.deltas, providers.Delta{Content: s.content})
	}
	if r.Stream {
		for n, c := range s.result.ToolCalls {
			stream.deltas = append(stream.deltas, providers.Delta{Calls: []providers.CallPiece{{Index: n, ID: c.ID, Name: c.Name, Arguments: c.Arguments, Opaque: c.Opaque}}})
		}
	}
	return stream, nil
}

// last returns the last request, and the number of requests.
func (s *scripted) last() (request string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n = len(s.requests); n == 0 {
		return "", 0
	}
	return s.requests[n-1], n
}

type scriptedStream struct {
	deltas []providers.Delta
	result providers.Result
}

func (s *scriptedStream) Next() (providers.Delta, error) {
	if len(s.deltas) == 0 {
		return providers.Delta{}, io.EOF
	}
	d := s.deltas[0]
	s.deltas = s.deltas[1:]
	return d, nil
}

func (s *scriptedStream) Result() providers.Result { return s.result }
func (s *scriptedStream) Close() error             { return nil }

const conversing = `
prompt: talk
accept: { history: true, tools: true, variants: true, parameters: [ temperature, { max_tokens: ..800 }, stop, logprobs ] }
fallback: [ { provider: other, model: large } ]
`

// conversation returns the files of an endpoint that accepts conversations, and of one
// that does not.
func conversation(more string) map[string]string {
	return map[string]string{
		"definitions/context.yaml":         "fields: {}\n",
		"definitions/prompts/plain.yaml":   "provider: scripted\nmodel: small\nmessages: [ { role: user, content: Hi } ]\n",
		"definitions/endpoints/plain.yaml": "prompt: plain\n",
		"definitions/prompts/talk.yaml": `
default: en
variants:
  en:
    provider: scripted
    model: small
    max_tokens: 100
    tools: [ { name: own } ]
    messages: [ { role: system, content: Be brief. }, { history: true } ]
  nl:
    extends: en
    model: klein
`,
		"definitions/endpoints/team/talk.yaml": conversing + more,
	}
}

func startScripted(t testing.TB, more string, settings ...setting) (*gateway, *scripted) {
	s := &scripted{content: "Fine.", result: providers.Result{FinishReason: providers.FinishStop, Usage: providers.Usage{PromptTokens: 7, CompletionTokens: 3, TotalTokens: 10}}}
	settings = append([]setting{withProvider("scripted", s), withProvider("other", s)}, settings...)
	return startGateway(t, conversation(more), settings...), s
}

const user = `{"role":"user","content":"How are you?"}`

// TestWhatCallersBring checks that the members that the endpoint accepts reach the model.
func TestWhatCallersBring(t *testing.T) {
	t.Parallel()
	g, s := startScripted(t, "", logContent)
	for _, path := range []string{"/v1/endpoints", "/v1/chat/completions"} {
		name, parameters := "model", `"temperature":0.5,"max_tokens":50,"stop":["END"]`
		if path == "/v1/endpoints" {
			name, parameters = "key", `"parameters":{"temperature":0.5,"max_tokens":50,"stop":["END"]}`
		}
		a := g.post(path, `{"`+name+`":"team/talk@nl","messages":[`+user+`,{"role":"assistant","content":"Well."},{"role":"user","content":[{"type":"text","text":"Look:"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo=","detail":"low"}}]}],`+
			parameters+`,"tools":[{"type":"function","function":{"name":"find","parameters":{"type":"object"}}}],"tool_choice":"required"}`)
		if a.status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, a.status, a.body)
		}
		got, _ := s.last()
		for _, want := range []string{
			`"Model":"klein"`, `{"role":"system","content":"Be brief."},{"role":"user","content":"How are you?"},{"role":"assistant","content":"Well."},{"role":"user","content":""}]`,
			`"Data":"iVBORw0KGgo=","Type":"image/png","Name":"","Detail":"low"`, `"Temperature":0.5,"MaxTokens":50,`, `"Stop":["END"]`,
			`"Tools":[{"Name":"own",`, `{"Name":"find",`, `"ToolChoice":{"Mode":"required"`,
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: the model got no %s in\n%s", path, want, got)
			}
		}
		record := g.ended(t, a.header.Get("Cadenza-Trace-Id"))
		want := `[{"role":"system","content":"Be brief."},{"role":"user","content":"How are you?"},{"role":"assistant","content":"Well."},{"role":"user","content":[{"type":"text","text":"Look:"},{"type":"image","media_type":"image/png","bytes":8}]}]`
		if diff := cmp.Diff(want, string(record.Messages)); diff != "" {
			t.Errorf("%s: the trace's messages (-want +got):\n%s", path, diff)
		}
		if notes := fmt.Sprint(record.Notes); !strings.Contains(notes, "caller: messages: 3") || !strings.Contains(notes, "caller: tools: 1") || !strings.Contains(notes, "max_tokens") {
			t.Errorf("%s: notes %s", path, notes)
		}
		if record.Variant != "nl" {
			t.Errorf("%s: the trace has the variant %q", path, record.Variant)
		}
		if id := a.header.Get("X-Request-Id"); (id == a.header.Get("Cadenza-Trace-Id")) != (name == "model") {
			t.Errorf("%s: X-Request-Id %q", path, id)
		}
	}
	if s.prepared {
		t.Error("a request with parameters of its own came prepared")
	}
	if a := g.post("/v1/endpoints", `{"key":"plain","model":"other","url":"x"}`); a.status != http.StatusOK || !s.prepared {
		t.Errorf("%d %s, prepared %t", a.status, a.body, s.prepared)
	}
}

// TestWhatIsNotAccepted checks that the error for any other member has its path, and that no
// call is made.
func TestWhatIsNotAccepted(t *testing.T) {
	t.Parallel()
	g, s := startScripted(t, "")
	for _, test := range []struct{ body, param string }{
		{`{"key":"plain","messages":[` + user + `]}`, "messages"},
		{`{"key":"plain","tools":[{"type":"function","function":{"name":"a"}}]}`, "tools"},
		{`{"key":"plain","tool_choice":"auto"}`, "tool_choice"},
		{`{"key":"plain","parameters":{"temperature":1}}`, "parameters.temperature"},
		{`{"key":"plain","messages":5}`, "messages"},
		{`{"key":"plain@en"}`, "key"},
		{`{"key":"team/talk","messages":[{"role":"system","content":"Obey."},` + user + `]}`, "messages[0].role"},
		{`{"key":"team/talk","messages":[` + user + `,{"role":"developer","content":"Obey."}]}`, "messages[1].role"},
		{`{"key":"team/talk","messages":[` + user + `],"parameters":{"max_tokens":801}}`, "parameters.max_tokens"},
		{`{"key":"team/talk","messages":[` + user + `],"parameters":{"top_p":0.5}}`, "parameters.top_p"},
		{`{"key":"team/talk","messages":[` + user + `],"parameters":{"model":"x"}}`, "parameters.model"},
		{`{"key":"team/talk","messages":[` + user + `],"tools":[{"type":"function","function":{"name":"own"}}]}`, "tools[0]"},
		{`{"key":"team/talk","messages":[` + user + `],"tool_choice":{"type":"function","function":{"name":"none"}}}`, "tool_choice"},
	} {
		a := g.post("/v1/endpoints", test.body)
		if a.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", test.body, a.status, a.body)
			continue
		}
		checkError(t, a, "invalid_request", test.param)
	}
	for body, param := range map[string]string{`{"key":"team/talk@fr","messages":[` + user + `]}`: "key", `{"key":"none@a"}`: "key"} {
		a := g.post("/v1/endpoints", body)
		checkError(t, a, "unknown_endpoint", param)
		if _, variant, _ := strings.Cut(body, "@fr"); variant != "" && !strings.Contains(string(a.body), "The endpoint team/talk has no variant fr.") {
			t.Errorf("an unknown variant: %s", a.body)
		}
	}
	a := g.post("/v1/chat/completions", `{"model":"none","messages":[`+user+`]}`)
	checkError(t, a, "model_not_found", "model")
	if len(a.header.Get("X-Request-Id")) != 36 {
		t.Errorf("X-Request-Id %q", a.header.Get("X-Request-Id"))
	}
	if a := g.do(http.MethodPost, "/v1/chat/completions", `{}`, nil); a.status != http.StatusUnauthorized || a.header.Get("X-Request-Id") == "" {
		t.Errorf("%d, X-Request-Id %q", a.status, a.header.Get("X-Request-Id"))
	}
	if _, n := s.last(); n > 0 {
		t.Errorf("%d calls", n)
	}
}

// TestBodiesOfConversations checks that an endpoint takes bodies up to its own limit, or
// up to the workspace's limit if it accepts no members.
func TestBodiesOfConversations(t *testing.T) {
	t.Parallel()
	g, _ := startScripted(t, "", with(func(c *gw.WorkspaceConfig) { c.MaxBodySize = 10_000 }))
	large := func(key string, size int) string {
		return `{"key":"` + key + `","messages":[{"role":"user","content":"` + strings.Repeat("x", size) + `"}]}`
	}
	g.post("/v1/endpoints", large("team/talk", 2<<20)).ok(t)
	eventually(t, "all is given back", func() bool { _, own := g.process.HeldByRequests(g.memory["default"]); return own == 0 })
	for _, refused := range []string{large("plain", 20_000), large("team/talk", definition.DefaultMaxBody)} {
		a := g.post("/v1/endpoints", refused)
		if a.status != http.StatusRequestEntityTooLarge {
			t.Errorf("%d bytes: %d %s", len(refused), a.status, a.body)
		}
		checkError(t, a, "body_too_large", "")
	}
	if a := g.post("/v1/prompts", `{"keys":["plain"],"x":"`+strings.Repeat("x", 10_000)+`"}`); a.status != http.StatusRequestEntityTooLarge {
		t.Errorf("another route: %d %s", a.status, a.body)
	}
}

// TestOpaqueData checks that opaque data is sealed for the caller, and returned to the
// target that made it, and to no other.
func TestOpaqueData(t *testing.T) {
	t.Parallel()
	g, s := startScripted(t, "cache: { ttl: 1h }\n", logContent)
	s.result = providers.Result{
		FinishReason: providers.FinishToolCalls, Thoughts: []providers.Thought{{Text: "Hm.", Opaque: "signature"}},
		ToolCalls: []providers.ToolCall{{ID: "call_1", Name: "own", Arguments: "{}", Opaque: "of a call"}},
	}
	signature, ofCall := g.seal("other/large", "signature"), g.seal("other/large", "of a call")
	s.fail = true // all targets fail
	if a := g.post("/v1/chat/completions", `{"model":"team/talk","messages":[`+user+`]}`); a.status != http.StatusBadGateway {
		t.Fatalf("%d %s", a.status, a.body)
	}
	s.fail = false

	for _, stream := range []string{"false", "true"} {
		for range 2 { // it is not cached
			_, before := s.last()
			a := g.post("/v1/chat/completions", `{"model":"team/talk","stream":`+stream+`,"messages":[`+user+`]}`)
			_, after := s.last()
			served := a.header.Get("Cadenza-Served-By")
			if a.status != http.StatusOK || after != before+1 ||
				!strings.Contains(string(a.body), g.seal(served, "signature")) || !strings.Contains(string(a.body), g.seal(served, "of a call")) {
				t.Errorf("stream=%s: %d calls, %d %s", stream, after-before, a.status, a.body)
			}
			if strings.Contains(string(g.ended(t, a.header.Get("Cadenza-Trace-Id")).ToolCalls), "of a call") {
				t.Error("a trace has opaque data")
			}
		}
	}

	// Our own API has it if the conversation can continue.
	for body, want := range map[string]bool{`{"key":"plain"}`: false, `{"key":"team/talk","messages":[` + user + `]}`: true} {
		if a := g.post("/v1/endpoints", body); a.status != http.StatusOK || strings.Contains(string(a.body), "reasoning") != want {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
	}

	history := func(signature, ofCall string) string {
		return `{"model":"team/talk","messages":[` + user + `,{"role":"assistant","content":null,"reasoning_details":[{"type":"reasoning.text","text":"Hm.","signature":"` + signature + `"},{"type":"reasoning.encrypted","data":"` + ofCall + `","id":"call_1"}],` +
			`"tool_calls":[{"id":"call_1","type":"function","function":{"name":"own","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_1","content":"found"}]}`
	}
	a := g.post("/v1/chat/completions", history(signature, ofCall))
	got, _ := s.last()
	if a.status != http.StatusOK || a.header.Get("Cadenza-Served-By") != "other/large" || !strings.Contains(got, `"Opaque":"signature"`) || !strings.Contains(got, `"Opaque":"of a call"`) || a.header.Get("Cadenza-Ignored") != "" {
		t.Errorf("%d, served by %s, ignored %q:\n%s", a.status, a.header.Get("Cadenza-Served-By"), a.header.Get("Cadenza-Ignored"), got)
	}
	if messages := string(g.ended(t, a.header.Get("Cadenza-Trace-Id")).Messages); strings.Contains(messages, "signature") || !strings.Contains(messages, `"opaque_bytes":9`) {
		t.Errorf("the trace has %s", messages)
	}
	for name, signature := range map[string]string{
		"another's": g.seal("gone/model", "x"), "nobody's": "EuYBCkQ",
		// Forged data has no proof, so it selects no target.
		"a forged one": "cdz1_" + strings.Repeat("A", 16) + base64.RawURLEncoding.EncodeToString([]byte("fake/small\x00x")),
	} {
		a := g.post("/v1/chat/completions", history(signature, ofCall))
		got, _ := s.last()
		if a.header.Get("Cadenza-Served-By") != "other/large" || a.header.Get("Cadenza-Ignored") != "messages[1].reasoning_details" || strings.Contains(got, `"x"`) || strings.Contains(got, "EuYB") || !strings.Contains(got, `"Text":"Hm."`) {
			t.Errorf("%s: served by %s, ignored %q:\n%s", name, a.header.Get("Cadenza-Served-By"), a.header.Get("Cadenza-Ignored"), got)
		}
	}
	s.mu.Lock()
	s.fail = true
	_, before := 0, len(s.requests)
	s.mu.Unlock()
	a = g.post("/v1/chat/completions", history(signature, ofCall))
	for _, request := range s.requests[before:] {
		if !strings.Contains(request, `"Model":"large"`) {
			t.Errorf("a pinned call went to %s", request)
		}
	}
	if a.status != http.StatusBadGateway || !strings.Contains(string(a.body), "No other target was asked, because the history has data (reasoning_details, encrypted_content, signatures) of this one.") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if notes := g.ended(t, a.header.Get("Cadenza-Trace-Id")).Notes; !slices.Contains(notes, "caller: data of other/large: asked alone") {
		t.Errorf("the trace notes %q", notes)
	}
	a = g.post("/v1/chat/completions", `{"model":"team/talk","messages":[`+user+`]}`)
	if strings.Contains(string(a.body), "No other target") {
		t.Errorf("a call without data: %s", a.body)
	}
}

// TestCachedConversations checks that the model's input is the question, whatever the API,
// and that each API returns the cached answer of any other.
func TestCachedConversations(t *testing.T) {
	t.Parallel()
	g, s := startScripted(t, "cache: { ttl: 1h }\n")
	s.content = "See."
	s.result.FinishReason = providers.FinishToolCalls
	s.result.Thoughts = []providers.Thought{{Text: "Hm."}}
	s.result.ToolCalls = []providers.ToolCall{{ID: "call_1", Name: "own", Arguments: `{"a":1}`}}

	const messages = `"messages":[` + user + `]`
	asked := func(path, body string) (answer, int) {
		_, before := s.last()
		a := g.post(path, body)
		_, after := s.last()
		if a.status != http.StatusOK {
			t.Errorf("%s: %d %s", body, a.status, a.body)
		}
		return a, after - before
	}
	if _, n := asked("/v1/endpoints", `{"key":"team/talk",`+messages+`}`); n != 1 {
		t.Fatalf("asked %d times", n)
	}
	for _, stream := range []string{"false", "true"} {
		a, n := asked("/v1/chat/completions", `{"model":"team/talk","stream":`+stream+`,`+messages+`}`)
		if n != 0 || !strings.HasPrefix(a.header.Get("Cache-Status"), "Cadenza; hit") {
			t.Errorf("stream=%s: asked %d times, Cache-Status %q", stream, n, a.header.Get("Cache-Status"))
		}
		for _, want := range []string{`"Hm."`, `"See."`, `"` + callID(a, 1) + `"`, `"{\"a\":1}"`, `"tool_calls"`} {
			if !strings.Contains(string(a.body), want) {
				t.Errorf("stream=%s: no %s in %s", stream, want, a.body)
			}
		}
		a, n = asked("/v1/endpoints", `{"key":"team/talk","stream":`+stream+`,`+messages+`}`)
		if n != 0 || !strings.Contains(string(a.body), `"tool_calls":[{"id":"`+callID(a, 1)+`","name":"own","arguments":"{\"a\":1}"}]`) {
			t.Errorf("stream=%s: asked %d times, %s", stream, n, a.body)
		}
	}
	image := func(data, detail string) string {
		return `"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + data + `","detail":"` + detail + `"}}]}]`
	}
	tool := func(name, schema string) string {
		return messages + `,"tools":[{"type":"function","function":{"name":"` + name + `","parameters":` + schema + `}}]`
	}
	for _, other := range []string{
		`"messages":[{"role":"user","content":"How are you!"}]`,
		`"messages":[` + user + `,` + user + `]`,
		image("aaaa", "low"), image("aaab", "low"), image("aaaa", "high"),
		messages + `,"temperature":1`, messages + `,"temperature":0.5`, messages + `,"max_tokens":1`, messages + `,"stop":"a"`, messages + `,"stop":["a","b"]`,
		tool("a", `{"type":"object"}`), tool("b", `{"type":"object"}`), tool("a", `{"type":"object","properties":{}}`),
		messages + `,"tool_choice":"required"`, messages + `,"tool_choice":"none"`,
	} {
		body := `{"model":"team/talk",` + other + `}`
		if _, n := asked("/v1/chat/completions", body); n != 1 {
			t.Errorf("%s: asked %d times", other, n)
		}
		if _, n := asked("/v1/chat/completions", body); n != 0 {
			t.Errorf("%s, again: asked %d times", other, n)
		}
	}
	if _, n := asked("/v1/chat/completions", `{"model":"team/talk@nl",`+messages+`}`); n != 1 {
		t.Errorf("a variant: asked %d times", n)
	}
}

// TestResponses checks that the Responses API asks the same question, and that its answer
// repeats members of the request.
func TestResponses(t *testing.T) {
	t.Parallel()
	g, s := startScripted(t, "cache: { ttl: 1h }\n")
	for n, stream := range []string{"false", "true"} {
		a := g.post("/v1/responses", `{"model":"team/talk","stream":`+stream+`,"temperature":0.5,"metadata":{"page":"/a"},"input":"How are you?"}`)
		if a.status != http.StatusOK || !strings.Contains(string(a.body), `"Fine."`) || !strings.Contains(string(a.body), `"page":"/a"`) || !strings.Contains(string(a.body), `"temperature":0.5`) {
			t.Errorf("%d %s", a.status, a.body)
		}
		if _, asked := s.last(); asked != 1 {
			t.Errorf("request %d: asked %d times", n, asked)
		}
	}
	if a := g.post("/v1/chat/completions", `{"model":"team/talk","temperature":0.5,"messages":[`+user+`]}`); !strings.HasPrefix(a.header.Get("Cache-Status"), "Cadenza; hit") {
		t.Errorf("Cache-Status %q", a.header.Get("Cache-Status"))
	}
	for body, param := range map[string]string{
		`"input":"Hi","instructions":"Be rude."`:           "instructions",
		`"input":[{"role":"developer","content":"Rude."}]`: "input[0].role",
		`"input":"Hi","top_p":1`:                           "top_p",
		`"input":"Hi","max_output_tokens":801`:             "max_output_tokens",
		`"input":"Hi","store":true`:                        "store",
	} {
		checkError(t, g.post("/v1/responses", `{"model":"team/talk",`+body+`}`), "invalid_request", param)
	}
	checkError(t, g.post("/v1/responses", `{"model":"plain","instructions":"Be rude."}`), "invalid_request", "instructions")
	checkError(t, g.post("/v1/responses", `{"model":"plain","input":"Hi"}`), "invalid_request", "input")
	checkError(t, g.post("/v1/responses", `{"model":"none","input":"Hi"}`), "model_not_found", "model")
	// Only metadata, which the answer repeats after the call.
	if a := g.post("/v1/responses", `{"model":"plain","metadata":{"page":"/a"},"input":[]}`); a.status != http.StatusOK || !strings.Contains(string(a.body), `"page":"/a"`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestStreamsThatKeepTheirAnswer checks that the text that a stream repeats at its end
// counts as a large answer, and that the stream ends if that does not fit.
func TestStreamsThatKeepTheirAnswer(t *testing.T) {
	t.Parallel()
	g, s := startScripted(t, "")
	s.content = strings.Repeat("word ", 40<<10)
	const asked = `"stream":true,"model":"team/talk",`
	memory := g.memory["default"]
	if a := g.post("/v1/responses", `{`+asked+`"input":"Hi"}`); a.status != http.StatusOK || !strings.Contains(string(a.body), `"type":"response.completed"`) {
		t.Errorf("%d %.200s", a.status, a.body)
	}
	eventually(t, "all room is given back", func() bool { return memory.HeldByAnswers() == 0 })
	defer memory.FillAnswers()()
	if a := g.post("/v1/chat/completions", `{`+asked+`"messages":[`+user+`]}`); !strings.Contains(string(a.body), "[DONE]") {
		t.Errorf("%.200s", a.body)
	}
	response, err := gatewaytest.Send(t.Context(), g.client, http.MethodPost, "/v1/responses", `{`+asked+`"input":"Hi"}`, bearer(testKey))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if text := string(body); !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(text, "event: response.failed") || !strings.Contains(text, "Too many large answers") || strings.Contains(text, "response.completed") {
		t.Errorf("%v %s", err, text[max(0, len(text)-2000):])
	}
	if record := g.ended(t, response.Header.Get("Cadenza-Trace-Id")); record.Status != http.StatusServiceUnavailable || record.Code != wire.Overloaded.Name {
		t.Errorf("the trace says %d %s", record.Status, record.Code)
	}
}

// TestRememberedStreamsThatKeepTheirAnswer checks that streams of a cached answer are
// refused if they do not fit.
func TestRememberedStreamsThatKeepTheirAnswer(t *testing.T) {
	t.Parallel()
	g, s := startScripted(t, "cache: { ttl: 1h }\n")
	s.content = strings.Repeat("word ", 4<<10)
	const asked = `{"stream":true,"model":"team/talk","input":"Hi"}`
	memory := g.memory["default"]
	for _, end := range []string{"", "hit"} {
		if a := g.post("/v1/responses", asked); !strings.Contains(a.header.Get("Cache-Status"), end) || !strings.Contains(string(a.body), `"type":"response.completed"`) {
			t.Errorf("%q %.200s", a.header.Get("Cache-Status"), a.body)
		}
	}
	eventually(t, "all room is given back", func() bool { return memory.HeldByAnswers() == 0 })
	defer memory.FillAnswers()()
	checkNoRoom(t, "a remembered stream", g.post("/v1/responses", asked))
}

// TestHugeToolCallsAreNotRemembered checks that tool calls count in the size of an answer
// that is cached.
func TestHugeToolCallsAreNotRemembered(t *testing.T) {
	t.Parallel()
	g, s := startScripted(t, "cache: { ttl: 1h }\n")
	s.result.FinishReason = providers.FinishToolCalls
	s.result.ToolCalls = []providers.ToolCall{{ID: "a", Name: "own", Arguments: `"` + strings.Repeat("x", 1<<20) + `"`}}
	for range 2 {
		g.post("/v1/endpoints", `{"key":"team/talk","messages":[`+user+`]}`).ok(t)
	}
	if _, n := s.last(); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

// TestCallerWithoutUsage checks that estimated usage is marked, in the body or a header.
func TestCallerWithoutUsage(t *testing.T) {
	t.Parallel()
	g, s := startScripted(t, "")
	s.result.Usage = providers.Usage{}
	a := g.post("/v1/endpoints", `{"key":"plain"}`)
	if !strings.Contains(string(a.body), `"estimated":true`) || a.header.Get("Cadenza-Usage") != "estimated" {
		t.Errorf("%v %s", a.header, a.body)
	}
	a = g.post("/v1/chat/completions", `{"model":"plain"}`)
	if strings.Contains(string(a.body), "estimated") || a.header.Get("Cadenza-Usage") != "estimated" || a.json(t)["usage"] == nil {
		t.Errorf("%v %s", a.header, a.body)
	}
}

// TestRememberedAnswersSayTheSame checks that an answer from the cache names estimates and
// ignored members like the first one. So does a stream from the cache, because all of this
// is known before it begins.
func TestRememberedAnswersSayTheSame(t *testing.T) {
	t.Parallel()
	g, s := startScripted(t, "cache: { ttl: 1h }\n")
	s.result.Usage = providers.Usage{}
	s.result.LeftOut = []string{"temperature"}
	const body = `{"model":"team/talk","temperature":1,"service_tier":"auto","messages":[` + user + `]`
	for n, body := range []string{body + "}", body + "}", body + `,"stream":true}`} {
		a := g.post("/v1/chat/completions", body)
		if hit := strings.Contains(a.header.Get("Cache-Status"), "hit"); a.status != http.StatusOK || hit != (n > 0) {
			t.Fatalf("%d %s, Cache-Status %q", a.status, a.body, a.header.Get("Cache-Status"))
		}
		if a.header.Get("Cadenza-Usage") != "estimated" || a.header.Get("Cadenza-Ignored") != "service_tier, temperature" {
			t.Errorf("answer %d: usage %q, ignored %q", n, a.header.Get("Cadenza-Usage"), a.header.Get("Cadenza-Ignored"))
		}
	}
}

// TestMetadataAsContext checks that rules match on the caller's metadata, without its
// user, and that an error names the request's member.
func TestMetadataAsContext(t *testing.T) {
	t.Parallel()
	files := conversation("")
	files["definitions/context.yaml"] = "on_type_mismatch: reject\nfields: { age: { type: number } }\n"
	g := startGateway(t, files, withProvider("scripted", &scripted{content: "Fine.", result: providers.Result{FinishReason: providers.FinishStop}}), withProvider("other", &scripted{}), logContent)
	for _, path := range []string{"/v1/chat/completions", "/v1/responses"} {
		a := g.post(path, `{"model":"plain","metadata":{"age":7},"user":"u-1"}`)
		record := g.ended(t, a.header.Get("Cadenza-Trace-Id"))
		if string(record.Context) != `{"age":7}` || string(record.Metadata) != `{"age":7,"user":"u-1"}` {
			t.Errorf("%s: context %s, metadata %s", path, record.Context, record.Metadata)
		}
		a = g.post(path, `{"model":"plain","metadata":{"age":"old"}}`)
		checkError(t, a, "invalid_request", "metadata.age")
		if strings.Contains(string(a.body), "context.age") {
			t.Errorf("%s: %s", path, a.body)
		}
		checkError(t, g.post(path, `{"model":"plain","metadata":{"age":7},"context":{"age":"old"}}`), "invalid_request", "context.age")
	}
}

// TestUserOfACaller checks that the caller's user is in the trace's metadata.
func TestUserOfACaller(t *testing.T) {
	t.Parallel()
	g, _ := startScripted(t, "")
	for body, want := range map[string]struct{ metadata, ignored string }{
		`{"model":"plain","user":"u-1"}`:                                    {`{"user":"u-1"}`, ""},
		`{"model":"plain","metadata":{"page":"/a"},"user":"u-1"}`:           {`{"page":"/a","user":"u-1"}`, ""},
		`{"model":"plain","metadata":{"user":"own"},"user":"u-1"}`:          {`{"user":"own"}`, "user"},
		`{"model":"plain","metadata":{"user":"u-1"},"user":"u-1"}`:          {`{"user":"u-1"}`, ""},
		`{"model":"plain","metadata":{"user":1},"safety_identifier":"u-1"}`: {`{"user":1}`, "safety_identifier"},
		`{"model":"plain","metadata":{"page":"/a"},"service_tier":"auto"}`:  {`{"page":"/a"}`, "service_tier"},
	} {
		a := g.post("/v1/chat/completions", body)
		if got := string(g.ended(t, a.header.Get("Cadenza-Trace-Id")).Metadata); got != want.metadata {
			t.Errorf("%s: metadata %s", body, got)
		}
		if got := a.header.Get("Cadenza-Ignored"); got != want.ignored {
			t.Errorf("%s: ignored %q", body, got)
		}
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	g, _ := startScripted(t, "")
	get := func(path string) answer { return g.do(http.MethodGet, path, "", bearer(testKey)) }
	a := get("/v1/models")
	if ids := fmt.Sprint(a.json(t)["data"]); a.status != http.StatusOK || !strings.Contains(ids, "id:plain") || !strings.Contains(ids, "id:team/talk") || a.header.Get("X-Request-Id") == "" {
		t.Errorf("%d %s", a.status, a.body)
	}
	for _, path := range []string{"/v1/models/team/talk", "/v1/models/team%2Ftalk"} {
		if a := get(path); a.status != http.StatusOK || a.json(t)["id"] != "team/talk" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	checkError(t, get("/v1/models/none"), "model_not_found", "model")
	if a := g.do(http.MethodGet, "/v1/models", "", nil); a.status != http.StatusUnauthorized {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := g.post("/v1/models", "{}"); a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != "GET" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// seal seals a provider's data like the gateway's default workspace.
func (g *gateway) seal(origin, opaque string) string {
	return g.current.Load().Workspace("default").Seal(origin, opaque)
}
