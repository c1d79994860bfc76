package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gw "github.com/cadenza-gateway/cadenza/internal/gateway"
	"github.com/cadenza-gateway/cadenza/internal/gatewaytest"
	"github.com/cadenza-gateway/cadenza/internal/price"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers/openai"
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

// TestRateLimitsOfProviders checks that clients of other APIs hear of them by the status at
// which they wait, and that our own API keeps its 503.
func TestRateLimitsOfProviders(t *testing.T) {
	t.Parallel()
	const overloaded = `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`
	type told struct {
		status     int
		kind, code string
		after      string
	}
	for _, test := range []struct {
		name   string
		answer func(w http.ResponseWriter)
		want   map[string]told
	}{
		{"429", func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "17")
			w.WriteHeader(http.StatusTooManyRequests)
		}, map[string]told{
			"/v1/endpoints":        {503, "server_error", "upstream_rate_limited", "17"},
			"/v1/chat/completions": {429, "rate_limit_error", "upstream_rate_limited", "17"},
			"/v1/responses":        {429, "rate_limit_error", "upstream_rate_limited", "17"},
			"/v1/messages":         {429, "rate_limit_error", "upstream_rate_limited", "17"},
		}},
		{"529", func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(wire.StatusOverloaded)
			fmt.Fprint(w, overloaded)
		}, map[string]told{
			"/v1/endpoints":        {502, "server_error", "upstream_error", ""},
			"/v1/chat/completions": {502, "server_error", "upstream_error", ""},
			"/v1/responses":        {502, "server_error", "upstream_error", ""},
			"/v1/messages":         {529, "overloaded_error", "upstream_error", "3"},
		}},
		{"overloaded inside an answer", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, overloaded)
		}, map[string]told{
			"/v1/messages": {529, "overloaded_error", "upstream_error", "1"},
		}},
		{"429 inside an answer", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"error":{"message":"Rate limit reached. Please try again in 16.5s.","code":"rate_limit_exceeded"}}`)
		}, map[string]told{
			"/v1/endpoints":        {503, "server_error", "upstream_rate_limited", "17"},
			"/v1/chat/completions": {429, "rate_limit_error", "upstream_rate_limited", "17"},
			"/v1/responses":        {429, "rate_limit_error", "upstream_rate_limited", "17"},
			"/v1/messages":         {429, "rate_limit_error", "upstream_rate_limited", "17"},
		}},
		{"a fault", func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }, map[string]told{
			"/v1/messages": {502, "api_error", "upstream_error", ""},
		}},
	} {
		u := newUpstream(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { test.answer(w) })
		for path, want := range test.want {
			for _, stream := range []string{"", `,"stream":true`} {
				if path == "/v1/responses" && want.status == http.StatusTooManyRequests && stream != "" {
					continue // see TestErrorsWithinAStream
				}
				g := startGateway(t, talk("", "fallback: [ { provider: fake, model: other } ]\n"), fakeProvider(u.URL))
				asked := time.Now()
				a := g.post(path, fmt.Sprintf(talks[path], stream))
				took := int(time.Since(asked) / time.Second) // of the time that is told, on a busy machine
				e := a.json(t)["error"].(map[string]any)
				code := e["code"]
				if details, ok := e["details"].(map[string]any); ok {
					code = details["error_code"]
				}
				got := told{a.status, e["type"].(string), code.(string), a.header.Get("Retry-After")}
				if most, _ := strconv.Atoi(want.after); most > 0 {
					if after, _ := strconv.Atoi(got.after); after < most && after >= most-took {
						got.after = want.after
					}
				}
				if got != want {
					t.Errorf("%s, %s%s: %+v, want %+v", test.name, path, stream, got, want)
				}
				if got := g.ended(t, a.header.Get("Cadenza-Trace-Id")); got.Status != want.status || got.Code != want.code || len(got.Attempts) != 2 {
					t.Errorf("%s, %s%s: a trace of %d %s with %d attempts", test.name, path, stream, got.Status, got.Code, len(got.Attempts))
				}
			}
		}
	}
}

// TestErrorsWithinAStream checks that a streamed call of the Responses API says within its
// stream what Codex acts on only there, and that the stream then ends as a whole one.
func TestErrorsWithinAStream(t *testing.T) {
	t.Parallel()
	// The pattern is Codex's own: codex-rs/codex-api/src/sse/responses.rs.
	wait := regexp.MustCompile(`(?i)try again in\s*(\d+(?:\.\d+)?)\s*(s|ms|seconds?)`)
	for _, test := range []struct {
		answer         func(int64, http.ResponseWriter, *http.Request)
		status         int // in the trace
		code, inStream string
		seconds        string // that Codex waits
	}{
		{refuses(http.StatusBadRequest, `{"error":{"message":"Your input exceeds the context window of this model.","code":"context_length_exceeded"}}`), http.StatusBadRequest, "context_length_exceeded", "context_length_exceeded", ""},
		{func(_ int64, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "17")
			w.WriteHeader(http.StatusTooManyRequests)
		}, http.StatusTooManyRequests, "upstream_rate_limited", "rate_limit_exceeded", "17"},
		{refuses(http.StatusOK, `{"error":{"message":"Rate limit reached. Please try again in 1.5s.","code":"rate_limit_exceeded"}}`), http.StatusTooManyRequests, "upstream_rate_limited", "rate_limit_exceeded", "2"},
		{func(_ int64, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: error\ndata: {\"error\":{\"message\":\"Rate limit reached. Please try again in 250ms.\",\"code\":\"rate_limit_exceeded\"}}\n\n")
		}, http.StatusTooManyRequests, "upstream_rate_limited", "rate_limit_exceeded", "1"},
		{refuses(http.StatusInternalServerError, ""), http.StatusBadGateway, "upstream_error", "", ""},
	} {
		u := newUpstream(t, test.answer)
		g := startGateway(t, talk("", ""), fakeProvider(u.URL))
		a := g.post("/v1/responses", fmt.Sprintf(talks["/v1/responses"], `,"stream":true`))
		if got := g.ended(t, a.header.Get("Cadenza-Trace-Id")); got.Status != test.status || got.Code != test.code {
			t.Errorf("a trace of %d %s", got.Status, got.Code)
		}
		if test.inStream == "" {
			checkError(t, a, test.code, "")
			continue
		}
		a.ok(t, test.code)
		var names []string
		for block := range strings.SplitSeq(strings.TrimSuffix(string(a.body), "\n\n"), "\n\n") {
			name, data, _ := strings.Cut(strings.TrimPrefix(block, "event: "), "\ndata: ")
			names = append(names, name)
			event := gatewaytest.Object(t, []byte(data))
			if event["type"] != name || int(event["sequence_number"].(float64)) != len(names)-1 {
				t.Errorf("event %d: %s", len(names), block)
			}
			switch name {
			case "error":
				if event["code"] != test.inStream {
					t.Errorf("%s", block)
				}
			case "response.failed":
				e := event["response"].(map[string]any)["error"].(map[string]any)
				found := append(wait.FindStringSubmatch(e["message"].(string)), "", "")
				if e["code"] != test.inStream || found[1] != test.seconds {
					t.Errorf("%s", block)
				}
			}
		}
		if want := []string{"response.created", "response.in_progress", "error", "response.failed"}; !slices.Equal(names, want) {
			t.Errorf("%s: events %q", test.code, names)
		}
	}
}

// TestLargerWindows checks that a conversation that is too long for one target goes to the
// one that has more room by the list of prices.
func TestLargerWindows(t *testing.T) {
	t.Parallel()
	u := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if gatewaytest.Object(t, body)["model"] == "wide" {
			completion(w, "Hello!")
			return
		}
		refuses(http.StatusBadRequest, `{"error":{"code":"context_length_exceeded"}}`)(0, w, r)
	})
	prices := make(map[string]*price.Price)
	for model, window := range map[string]int64{"m": 8192, "narrow": 8192, "wide": 32768} {
		prices[model] = &price.Price{Model: price.Model{ContextWindow: window}}
	}
	files := talk("", "fallback: [ { provider: fake, model: unknown }, { provider: fake, model: narrow }, { provider: fake, model: wide } ]\n")
	g := startGateway(t, files, fakeProvider(u.URL), with(func(c *gw.WorkspaceConfig) { c.Prices = prices }))
	a := g.post("/v1/chat/completions", fmt.Sprintf(talks["/v1/chat/completions"], "")).ok(t)
	if a.header.Get("Cadenza-Served-By") != "fake/wide" || a.header.Get("Cadenza-Attempts") != "2" {
		t.Errorf("%v", a.header)
	}
	const note = "skipped fake/narrow: its window is no larger than one that was too small for the input"
	if got := g.ended(t, a.header.Get("Cadenza-Trace-Id")); !slices.Contains(got.Notes, note) {
		t.Errorf("notes %q", got.Notes)
	}
}

// TestWhatCallersShape checks that a provider's refusal of what the caller brings is the
// caller's error, with the member in the caller's API, and that of what the definition
// brings is not.
func TestWhatCallersShape(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"json_schema","name":"a","schema":{"type":"object"}}`
	const format = `{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"object"}}}`
	function := func(name string) string {
		return `{"type":"function","name":"` + name + `","parameters":{"type":"object"}}`
	}
	tool := func(name string) string {
		return `{"type":"function","function":{"name":"` + name + `","parameters":{"type":"object"}}}`
	}
	input := func(name string) string { return `{"name":"` + name + `","input_schema":{"type":"object"}}` }
	const own = "tools: [ { name: own, parameters: { type: object } } ]\n"
	const image = `,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]}]`
	for _, test := range []struct {
		prompt, path, members string
		param                 string // that the provider names
		want                  string // that the caller hears of; empty: 502
	}{
		{"", "/v1/endpoints", `,"parameters":{"response_format":` + format + `}`, "response_format", "parameters.response_format"},
		{"", "/v1/chat/completions", `,"response_format":` + format, "response_format", "response_format"},
		{"", "/v1/responses", `,"text":{"format":` + schema + `}`, "response_format", "text.format"},
		{"", "/v1/messages", `,"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}}`, "response_format", "output_config.format"},
		{"response_format: json\n", "/v1/chat/completions", "", "response_format", ""},
		{"", "/v1/endpoints", `,"tools":[` + tool("a") + `]`, "tools[0].function", "tools[0]"},
		{own, "/v1/chat/completions", `,"tools":[` + tool("a") + `,` + tool("b") + `]`, "tools[2].function.parameters", "tools[1]"},
		{own, "/v1/chat/completions", `,"tools":[` + tool("a") + `]`, "tools[0].function.parameters", ""},
		{own, "/v1/chat/completions", `,"tools":[` + tool("a") + `]`, "tools", ""},
		{own, "/v1/responses", `,"tools":[` + function("a") + `]`, "tools[1]", "tools[0]"},
		{"", "/v1/messages", `,"tools":[` + input("a") + `]`, "tools", "tools"},
		{"", "/v1/chat/completions", image, "messages[0].content[0].image_url.url", "messages"},
		{"", "/v1/chat/completions", "", "temperature", ""},
		{"", "/v1/chat/completions", "", "", ""},
	} {
		u := newUpstream(t, refuses(http.StatusBadRequest, `{"error":{"message":"Invalid: sk-secret","type":"invalid_request_error","param":"`+test.param+`"}}`))
		g := startGateway(t, talk(test.prompt, ""), fakeProvider(u.URL))
		for _, stream := range []string{"", `,"stream":true`} {
			body := fmt.Sprintf(talks[test.path], test.members+stream)
			if test.members == image {
				body = `{"model":"talk"` + image + stream + `}`
			}
			a := g.post(test.path, body)
			status, code := http.StatusBadRequest, "invalid_request"
			if test.want == "" {
				status, code = http.StatusBadGateway, "upstream_rejected"
			}
			switch e := a.json(t)["error"].(map[string]any); {
			case strings.Contains(string(a.body), "secret"):
				t.Errorf("a provider's words: %s", a.body)
			case test.path == "/v1/messages":
				checkMessagesError(t, a, status, "invalid_request_error", code, test.want)
			case a.status != status || test.want != "" && !strings.HasPrefix(e["message"].(string), strconv.Quote(test.want)+" is not valid to the model provider."):
				t.Errorf("%s%s, %s: %d %s", test.path, test.members, test.param, a.status, a.body)
			default:
				checkError(t, a, code, test.want)
			}
			if got := g.ended(t, a.header.Get("Cadenza-Trace-Id")); got.Status != status || got.Code != code {
				t.Errorf("%s%s: a trace of %d %s", test.path, test.members, got.Status, got.Code)
			}
		}
		// What callers shape is no error of the gateway's.
		level := map[bool]string{true: "error", false: "info"}[test.want == ""]
		if n := len(regexp.MustCompile(`"level":"`+level+`",[^\n]*"an endpoint failed"`).FindAll(g.logs.Bytes(), -1)); n != 2 {
			t.Errorf("%s%s: %d lines of the level %s", test.path, test.members, n, level)
		}
	}
}

// TestFormatsThatNoTargetHas checks that a response_format of the caller's that no target
// has is the caller's error, and that one of the definition is not.
func TestFormatsThatNoTargetHas(t *testing.T) {
	t.Parallel()
	lacks := withProvider("fake", openaiProvider("http://127.0.0.1:1", openai.Quirks{NoJSON: true}))
	for prompt, want := range map[string]string{"": "text.format", "response_format: json\n": ""} {
		g := startGateway(t, talk(prompt, ""), lacks)
		members := ""
		if want != "" {
			members = `,"text":{"format":{"type":"json_object"}}`
		}
		for _, stream := range []string{"", `,"stream":true`} {
			a := g.post("/v1/responses", fmt.Sprintf(talks["/v1/responses"], members+stream))
			code := "invalid_request"
			if want == "" {
				code = "upstream_rejected"
			}
			checkError(t, a, code, want)
			if !strings.Contains(string(a.body), "The endpoint's targets have no response_format as it is asked for.") {
				t.Errorf("%d %s", a.status, a.body)
			}
		}
	}
}
