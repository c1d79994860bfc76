package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/anthropic"
	"github.com/cadenza-gateway/cadenza/providers/openai"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// agentPrompt has a variant for each model that an agent's requests are sent to.
const agentPrompt = `default: sonnet
variants:
  sonnet: { provider: claude, model: claude-sonnet-4-6, max_tokens: 8000, messages: [{ role: system, content: Be brief. }, { history: true }] }
  haiku: { extends: sonnet, model: claude-haiku-4-5 }
  opus: { extends: sonnet, model: claude-opus-4-8 }
  unforced: { extends: sonnet, model: claude-opus-5-5 }
  short: { extends: unforced, messages: [{ history: true, max_messages: 3 }] }
  older: { extends: short, model: claude-opus-4-8 }
  gpt: { extends: sonnet, provider: fake, model: gpt-5.1 }
  cached: { extends: sonnet, extra: { cache_control: { type: ephemeral } } }
`

// agents starts a gateway in front of Anthropic's and OpenAI's API. The endpoint agent has
// what accept says beside its history. sent returns the request that the model got last:
// its header and its body.
func agents(t *testing.T, accept string) (g *gateway, sent func() (http.Header, string)) {
	t.Helper()
	var mu sync.Mutex
	var header http.Header
	var body []byte
	server := newUpstream(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		read, _ := io.ReadAll(r.Body)
		mu.Lock()
		header, body = r.Header, read
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/messages") {
			fmt.Fprint(w, `{"id":"msg_1","type":"message","role":"assistant","model":"claude","content":[{"type":"thinking","thinking":"Hm.","signature":"EuYB"},{"type":"text","text":"Yes."}],"stop_reason":"end_turn","usage":{"input_tokens":7,"cache_creation_input_tokens":5,"cache_read_input_tokens":90,"output_tokens":3}}`)
			return
		}
		fmt.Fprint(w, `{"id":"c","object":"chat.completion","model":"gpt","choices":[{"index":0,"message":{"role":"assistant","content":"Yes."},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`)
	})
	base, err := upstream.ParseBaseURL(server.URL + "/v1")
	if err != nil {
		t.Fatal(err)
	}
	claude, err := anthropic.New(anthropic.Config{Key: testKey, Beta: []string{"ours"}, Upstream: upstream.Config{BaseURL: base}})
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"definitions/prompts/agent.yaml": agentPrompt, "definitions/endpoints/agent.yaml": "prompt: agent\naccept: { history: true, variants: true" + accept + " }\n",
	}
	g = startGateway(t, files, withProvider("claude", providers.Provider(claude)), withProvider("fake", openaiProvider(server.URL, openai.Quirks{NoTopK: true, CacheKey: true, Official: true})))
	return g, func() (http.Header, string) {
		mu.Lock()
		defer mu.Unlock()
		return header, string(body)
	}
}

// TestThinkingReachesTheModel checks that each API's words for thoughts become those of the
// model, within what the endpoint accepts, and that the caller sees the thoughts.
func TestThinkingReachesTheModel(t *testing.T) {
	t.Parallel()
	g, sent := agents(t, `, parameters: [ max_tokens, temperature, { reasoning_effort: [low, medium] } ]`)
	for _, test := range []struct {
		path, model, members string
		want, ignored        string
	}{
		{"messages", "sonnet", `"thinking":{"type":"adaptive"}`, `"thinking":{"type":"adaptive"}}`, ""},
		{"messages", "opus", `"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low"}`, `"output_config":{"effort":"low"},"thinking":{"type":"adaptive","display":"summarized"}}`, ""},
		{"messages", "opus", `"thinking":{"type":"enabled","budget_tokens":5000}`, `"output_config":{"effort":"medium"},"thinking":{"type":"adaptive"}}`, ""},
		{"messages", "haiku", `"thinking":{"type":"enabled","budget_tokens":5000}`, `"thinking":{"type":"enabled","budget_tokens":5000}}`, ""},
		{"messages", "haiku", `"thinking":{"type":"enabled","budget_tokens":5000},"max_tokens":5000,"temperature":0.5`, `"max_tokens":5000,"model":"claude-haiku-4-5","thinking":{"type":"enabled","budget_tokens":2500}}`, "temperature"},
		{"messages", "haiku", `"thinking":{"type":"enabled","budget_tokens":5000},"max_tokens":1500`, `"model":"claude-haiku-4-5"}`, "thinking.budget_tokens"},
		{"messages", "gpt", `"thinking":{"type":"enabled","budget_tokens":5000,"display":"omitted"}`, `"reasoning_effort":"medium"}`, "thinking.display"},
		{"messages", "gpt", `"thinking":{"type":"adaptive"},"output_config":{"effort":"low"}`, `"reasoning_effort":"low"}`, "thinking.type"},
		{"chat/completions", "haiku", `"reasoning_effort":"medium"`, `"thinking":{"type":"enabled","budget_tokens":4000}}`, ""},
		{"chat/completions", "sonnet", `"reasoning_effort":"low"`, `"output_config":{"effort":"low"},"thinking":{"type":"adaptive"}}`, ""},
		{"responses", "sonnet", `"reasoning":{"effort":"medium","summary":"auto"}`, `"output_config":{"effort":"medium"},"thinking":{"type":"adaptive","display":"summarized"}}`, ""},
		{"responses", "gpt", `"reasoning":{"effort":"medium","summary":"auto"}`, `"reasoning_effort":"medium"}`, "reasoning.summary"},
		{"responses", "sonnet", `"reasoning":{"summary":"auto"}`, `"model":"claude-sonnet-4-6"}`, "reasoning.summary"},
	} {
		messages := "messages"
		if test.path == "responses" {
			messages = "input"
		}
		a := g.post("/v1/"+test.path, `{"model":"agent@`+test.model+`",`+test.members+`,"`+messages+`":[`+user+`]}`)
		_, body := sent()
		if a.status != http.StatusOK || !strings.HasSuffix(body, test.want) || a.header.Get("Cadenza-Ignored") != test.ignored {
			t.Errorf("%s %s: %d %s\nIgnored %q, want %q\nsent %s\nwant %s", test.model, test.members, a.status, a.body, a.header.Get("Cadenza-Ignored"), test.ignored, body, test.want)
		}
		if test.path == "messages" && test.model != "gpt" && !strings.Contains(string(a.body), `{"type":"thinking","thinking":"Hm.","signature":"cdz1_`) {
			t.Errorf("the caller sees no thoughts: %s", a.body)
		}
	}
	for members, param := range map[string]string{
		`"thinking":{"type":"enabled","budget_tokens":20000}`:                                  "thinking.budget_tokens",
		`"thinking":{"type":"enabled","budget_tokens":20000},"output_config":{"effort":"low"}`: "thinking.budget_tokens",
		`"thinking":{"type":"adaptive"},"output_config":{"effort":"max"}`:                      "output_config.effort",
	} {
		checkMessagesError(t, g.post("/v1/messages", `{"model":"agent",`+members+`,"messages":[`+user+`]}`), http.StatusBadRequest, "invalid_request_error", "invalid_request", param)
	}
}

// TestForcedToolsOfClaude checks that a model which takes no choice that has it call a tool
// is asked with its tools, to think and to decide, and that others call one without thoughts.
func TestForcedToolsOfClaude(t *testing.T) {
	t.Parallel()
	g, sent := agents(t, `, tools: true, parameters: [ reasoning_effort, parallel_tool_calls ]`)
	const f, flat = `{"name":"f","input_schema":{"type":"object"}}`, `{"type":"function","name":"f","parameters":{"type":"object"}}`
	for _, test := range []struct{ model, path, members, want, ignored string }{
		{"unforced", "messages", `"tools":[` + f + `],"tool_choice":{"type":"any"},"thinking":{"type":"adaptive"}`, `"thinking":{"type":"adaptive"},"tool_choice":{"type":"auto"},"tools":[` + f + `]}`, "tool_choice"},
		{"unforced", "messages", `"tools":[` + f + `],"tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true}`, `"tool_choice":{"disable_parallel_tool_use":true,"type":"auto"},"tools":[` + f + `]}`, "tool_choice"},
		{"unforced", "responses", `"tools":[` + flat + `],"tool_choice":"required"`, `"tool_choice":{"type":"auto"},"tools":[` + f + `]}`, "tool_choice"},
		{"unforced", "messages", `"tools":[` + f + `],"tool_choice":{"type":"none"}`, `"tool_choice":{"type":"none"},"tools":[` + f + `]}`, ""},
		{"opus", "messages", `"tools":[` + f + `],"tool_choice":{"type":"any"},"thinking":{"type":"adaptive"}`, `"model":"claude-opus-4-8","tool_choice":{"type":"any"},"tools":[` + f + `]}`, "thinking.type"},
	} {
		messages := "messages"
		if test.path == "responses" {
			messages = "input"
		}
		a := g.post("/v1/"+test.path, `{"model":"agent@`+test.model+`",`+test.members+`,"`+messages+`":[`+user+`]}`)
		if _, body := sent(); a.status != http.StatusOK || !strings.HasSuffix(body, test.want) || a.header.Get("Cadenza-Ignored") != test.ignored {
			t.Errorf("%s %s: %d %s\nIgnored %q, want %q\nsent %s\nwant %s", test.model, test.members, a.status, a.body, a.header.Get("Cadenza-Ignored"), test.ignored, body, test.want)
		}
	}
}

// TestThoughtsOfACutHistory checks that a model whose thoughts belong to what was said before
// gets none where a part of that is left out, and that others keep theirs.
func TestThoughtsOfACutHistory(t *testing.T) {
	t.Parallel()
	g, sent := agents(t, "")
	const early, late = `{"role":"user","content":"a"},{"role":"assistant","content":"b"},`, `,{"role":"user","content":"c"}`
	for _, test := range []struct {
		by, model, early string
		keeps            bool
	}{
		{"unforced", "short", "", true},
		{"unforced", "short", early, false},
		{"unforced", "unforced", early, true},
		{"opus", "older", early, true},
	} {
		a := g.post("/v1/messages", `{"model":"agent@`+test.by+`","messages":[`+early+user+`]}`)
		said, err := json.Marshal(a.json(t)["content"])
		if err != nil {
			t.Fatal(err)
		}
		a = g.post("/v1/messages", `{"model":"agent@`+test.model+`","messages":[`+test.early+user+`,{"role":"assistant","content":`+string(said)+`}`+late+`]}`)
		want := `{"role":"assistant","content":[{"type":"text","text":"Yes."}]}`
		if test.keeps {
			want = `{"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":"EuYB"},{"type":"text","text":"Yes."}]}`
		}
		if _, body := sent(); a.status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%+v: %d %s\nsent %s", test, a.status, a.body, body)
		}
	}
}

// TestThinkingThatIsNotAccepted checks that the endpoint decides: what asks for a quantity
// is refused, and what agents send to every endpoint is ignored.
func TestThinkingThatIsNotAccepted(t *testing.T) {
	t.Parallel()
	g, sent := agents(t, "")
	a := g.post("/v1/messages", `{"model":"agent","thinking":{"type":"adaptive","display":"omitted"},"messages":[`+user+`]}`)
	if _, body := sent(); a.status != http.StatusOK || strings.Contains(body, "thinking") || a.header.Get("Cadenza-Ignored") != "thinking.type, thinking.display" {
		t.Errorf("%d %v\n%s", a.status, a.header, body)
	}
	checkMessagesError(t, g.post("/v1/messages", `{"model":"agent","thinking":{"type":"enabled","budget_tokens":2000},"messages":[`+user+`]}`), http.StatusBadRequest, "invalid_request_error", "invalid_request", "thinking.budget_tokens")
}

// TestCacheMarksReachTheModel checks that a caller's marks for the cache stand where they
// stood, that no more go out than the API takes, that a provider without them has them
// named, and that the usage says what the cache did.
func TestCacheMarksReachTheModel(t *testing.T) {
	t.Parallel()
	g, sent := agents(t, `, system: true, tools: true`)
	const mark = `"cache_control":{"type":"ephemeral"}`
	body := func(model string) string {
		return `{"model":"agent@` + model + `","system":[{"type":"text","text":"Code.",` + mark + `}],"tools":[{"name":"f","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral","ttl":"1h"}}],"messages":[` +
			`{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b",` + mark + `}]},{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{}}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"d",` + mark + `}]}]}`
	}
	a := g.post("/v1/messages", body("sonnet"))
	_, got := sent()
	want := `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b",` + mark + `}]},{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"d",` + mark + `}]}],"system":[{"type":"text","text":"Be brief."},{"type":"text","text":"Code.",` + mark + `}],` +
		`"max_tokens":8000,"model":"claude-sonnet-4-6","tools":[{"name":"f","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral","ttl":"1h"}}]}`
	if a.status != http.StatusOK || got != want || a.header.Get("Cadenza-Ignored") != "" {
		t.Errorf("%d %v %s\nsent %s\nwant %s", a.status, a.header, a.body, got, want)
	}
	if !strings.Contains(string(a.body), `"cache_creation_input_tokens":5`) || !strings.Contains(string(a.body), `"cache_read_input_tokens":90`) {
		t.Errorf("usage: %s", a.body)
	}
	a = g.post("/v1/messages", body("cached"))
	if _, got := sent(); strings.Count(got, `"cache_control"`) != 4 || strings.Contains(got, "1h") || a.header.Get("Cadenza-Ignored") != "tools[0].cache_control" {
		t.Errorf("%d %v\nsent %s", a.status, a.header, got)
	}
	a = g.post("/v1/messages", body("gpt"))
	if _, got := sent(); a.status != http.StatusOK || strings.Contains(got, "cache_control") ||
		a.header.Get("Cadenza-Ignored") != "tools[0].cache_control, system[0].cache_control, messages[0].content[1].cache_control, messages[2].content[0].cache_control" {
		t.Errorf("%d %v\nsent %s", a.status, a.header, got)
	}
	a = g.post("/v1/messages", `{"model":"agent","`+mark[1:]+`,"messages":[`+user+`]}`)
	if _, got := sent(); a.status != http.StatusOK || !strings.Contains(got, `"content":[{"type":"text","text":"How are you?",`+mark+`}]`) || a.header.Get("Cadenza-Ignored") != "" {
		t.Errorf("%d %v\nsent %s", a.status, a.header, got)
	}
}

// TestCacheMarksOfChatCompletions checks the same of chat completions, whose clients mark
// parts, whole messages, calls, tools or their functions, and the whole request.
func TestCacheMarksOfChatCompletions(t *testing.T) {
	t.Parallel()
	g, sent := agents(t, `, system: true, tools: true`)
	const mark, hour = `"cache_control":{"type":"ephemeral"}`, `"cache_control":{"type":"ephemeral","ttl":"1h"}`
	const f, g2 = `{"type":"function","function":{"name":"f"},` + hour + `}`, `{"type":"function","function":{"name":"g",` + mark + `}}`
	const call, result = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`, `{"role":"tool","tool_call_id":"c1","content":`
	const image = `{"type":"image_url","image_url":{"url":"https://x.test/a.png"},` + mark + `}`
	for _, test := range []struct{ members, want, ignored string }{
		{`"tools":[` + f + `,` + g2 + `],"messages":[{"role":"system","content":"Code.",` + mark + `},` + user + `]`,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"How are you?"}]}],"system":[{"type":"text","text":"Be brief."},{"type":"text","text":"Code.",` + mark + `}],"max_tokens":8000,"model":"claude-sonnet-4-6",` +
				`"tools":[{"name":"f","input_schema":{"type":"object","properties":{}},` + hour + `},{"name":"g","input_schema":{"type":"object","properties":{}},` + mark + `}]}`, ""},
		{`"tools":[` + f + `],"messages":[{"role":"user","content":[` + image + `,{"type":"text","text":"b"}]},` + call + `,` + result + `[{"type":"text","text":"d",` + mark + `},{"type":"text","text":"e"}]}]`,
			`{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x.test/a.png"},` + mark + `},{"type":"text","text":"b"}]},` +
				`{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"d"},{"type":"text","text":"e"}],` + mark + `}]}],` +
				`"system":[{"type":"text","text":"Be brief."}],"max_tokens":8000,"model":"claude-sonnet-4-6","tools":[{"name":"f","input_schema":{"type":"object","properties":{}},` + hour + `}]}`, ""},
		{`"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":" "}],` + mark + `},{"role":"assistant","content":[{"type":"text","text":"b",` + hour + `}],` + mark + `},{"role":"user","content":"c"}],` + mark,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"a",` + mark + `}]},{"role":"assistant","content":[{"type":"text","text":"b",` + hour + `}]},` +
				`{"role":"user","content":[{"type":"text","text":"c",` + mark + `}]}],"system":[{"type":"text","text":"Be brief."}],"max_tokens":8000,"model":"claude-sonnet-4-6"}`, ""},
		{`"messages":[{"role":"user","content":"a"},` + strings.Replace(call, `"type"`, mark+`,"type"`, 1) + `,` + result + `"d",` + mark + `},{"role":"user","content":" ",` + mark + `}],"tools":[` + f + `]`,
			`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{},` + mark + `}]},` +
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"d",` + mark + `}]}],"system":[{"type":"text","text":"Be brief."}],"max_tokens":8000,"model":"claude-sonnet-4-6","tools":[{"name":"f","input_schema":{"type":"object","properties":{}},` + hour + `}]}`, "messages[3].cache_control"},
	} {
		a := g.post("/v1/chat/completions", `{"model":"agent",`+test.members+`}`)
		if _, got := sent(); a.status != http.StatusOK || got != test.want || a.header.Get("Cadenza-Ignored") != test.ignored {
			t.Errorf("%s: %d %s\nIgnored %q\nsent %s\nwant %s", test.members, a.status, a.body, a.header.Get("Cadenza-Ignored"), got, test.want)
		}
	}
	marked := `"messages":[{"role":"system","content":[{"type":"text","text":"Code.",` + mark + `}]},` + call + `,` + result + `"d",` + mark + `}],"tools":[` + f + `,` + g2 + `],` + mark
	a := g.post("/v1/chat/completions", `{"model":"agent@cached",`+marked+`}`)
	if _, got := sent(); strings.Count(got, `"cache_control"`) != 4 || strings.Contains(got, "1h") || a.header.Get("Cadenza-Ignored") != "tools[0].cache_control" {
		t.Errorf("%d %v\nsent %s", a.status, a.header, got)
	}
	a = g.post("/v1/chat/completions", `{"model":"agent@gpt",`+marked+`}`)
	if _, got := sent(); a.status != http.StatusOK || strings.Contains(got, "cache_control") ||
		a.header.Get("Cadenza-Ignored") != "tools[0].cache_control, tools[1].function.cache_control, messages[0].content[0].cache_control, messages[2].cache_control" {
		t.Errorf("%d %v\nsent %s", a.status, a.header, got)
	}
	for members, param := range map[string]string{
		`"messages":[{"role":"user","content":"a","cache_control":true}]`:                                                      "messages[0].cache_control",
		`"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"lasting"}}]}]`:               "messages[0].content[0].cache_control.type",
		`"messages":[` + user + `],"tools":[{"type":"function","function":{"name":"f"},"cache_control":{"type":"a","ttl":1}}]`: "tools[0].cache_control.type",
	} {
		if a := g.post("/v1/chat/completions", `{"model":"agent",`+members+`}`); a.status != http.StatusBadRequest || !strings.Contains(string(a.body), `"param":"`+param+`"`) {
			t.Errorf("%s: %d %s", members, a.status, a.body)
		}
	}
}

// TestCallersMembersOfOneProvider checks that members which only some providers have go to
// those, and are named with others, and that a class of service needs the endpoint's word.
func TestCallersMembersOfOneProvider(t *testing.T) {
	t.Parallel()
	const members = `"prompt_cache_key":"k","prompt_cache_retention":"24h","safety_identifier":"u"`
	for accept, tests := range map[string][][4]string{
		"": {
			{"gpt", members + `,"service_tier":"auto"`, `"prompt_cache_key":"k","prompt_cache_retention":"24h","safety_identifier":"u"}`, "service_tier"},
			{"sonnet", members + `,"service_tier":"default"`, `"model":"claude-sonnet-4-6"}`, "service_tier, prompt_cache_key, prompt_cache_retention"},
		},
		`, parameters: { service_tier: [auto, default, flex] }`: {
			{"gpt", `"service_tier":"flex"`, `"service_tier":"flex"}`, ""},
			{"sonnet", `"service_tier":"default"`, `"service_tier":"standard_only"}`, ""},
			{"sonnet", `"service_tier":"flex"`, `"model":"claude-sonnet-4-6"}`, "service_tier"},
		},
	} {
		g, sent := agents(t, accept)
		for _, test := range tests {
			a := g.post("/v1/chat/completions", `{"model":"agent@`+test[0]+`",`+test[1]+`,"messages":[`+user+`]}`)
			if _, body := sent(); a.status != http.StatusOK || !strings.HasSuffix(body, test[2]) || a.header.Get("Cadenza-Ignored") != test[3] {
				t.Errorf("%s %s: %d %v %s\nsent %s\nwant %s", test[0], test[1], a.status, a.header, a.body, body, test[2])
			}
		}
		a := g.post("/v1/chat/completions", `{"model":"agent","service_tier":"priority","messages":[`+user+`]}`)
		checkError(t, a, "invalid_request", "service_tier")
	}
}

// TestPreviewsAndAttribution checks that the previews which the endpoint accepts go to
// Anthropic beside the provider's own, and that a system block of Claude Code's which
// differs with each request goes to Anthropic's own service at most.
func TestPreviewsAndAttribution(t *testing.T) {
	t.Parallel()
	g, sent := agents(t, `, system: true, betas: [ context-1m-2025-08-07, b ]`)
	header := anthropicHeader(testKey)
	header["Anthropic-Beta"] = []string{"context-1m-2025-08-07,  other", "b"}
	ask := func(model, system string) answer {
		return g.do(http.MethodPost, "/v1/messages", `{"model":"agent@`+model+`","system":[{"type":"text","text":"`+system+`"},{"type":"text","text":"Code."}],"messages":[`+user+`]}`, header)
	}
	const billing = "x-anthropic-billing-header: cc_version=2.1; cch=a1b2c;"
	a := ask("sonnet", billing)
	got, body := sent()
	if a.status != http.StatusOK || got.Get("Anthropic-Beta") != "ours,context-1m-2025-08-07,b" || strings.Contains(body, "billing") || !strings.Contains(body, `"text":"Code."`) ||
		a.header.Get("Cadenza-Ignored") != "anthropic-beta:other, system[0]" {
		t.Errorf("%d %v %s\nsent %v\n%s", a.status, a.header, a.body, got, body)
	}
	a = ask("gpt", billing)
	if got, body := sent(); a.status != http.StatusOK || got.Get("Anthropic-Beta") != "" || strings.Contains(body, "billing") ||
		a.header.Get("Cadenza-Ignored") != "anthropic-beta:other, system[0], anthropic-beta" {
		t.Errorf("%d %v\nsent %v\n%s", a.status, a.header, got, body)
	}
	plain, _ := agents(t, "")
	a = plain.post("/v1/messages", `{"model":"agent","system":[{"type":"text","text":"`+billing+`"}],"messages":[`+user+`]}`)
	checkMessagesError(t, a, http.StatusBadRequest, "invalid_request_error", "invalid_request", "system[0]")
}
