package gemini

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// short is a body without the members that every request has.
func short(body, _ string) string {
	return strings.Replace(body, `"contents":[{"role":"user","parts":[{"text":"Hello"}]}]`, "…", 1)
}

func TestParametersOfTheRequest(t *testing.T) {
	const declarations = `"tools":[{"functionDeclarations":[{"name":"get_weather","description":"Says what the weather is.","parametersJsonSchema":` + pt.Schema + `},{"name":"get_time"}]}]`
	const schema = `"responseJsonSchema":` + pt.Schema + `,"responseMimeType":"application/json"`
	choose := func(mode, name string) providers.Parameters {
		tools := pt.Tools()
		tools[0].Strict = false
		return providers.Parameters{Tools: tools, ToolChoice: &providers.ToolChoice{Mode: mode, Name: name}}
	}
	effort := func(word string) providers.Parameters { return providers.Parameters{ReasoningEffort: word} }
	seed := int64(1 << 31)
	subject.CheckParameters(t, answer("fine", "STOP", 1), short, []pt.Translation{
		{"everything", "gemini-2.5-flash", pt.Everything(), nil,
			`{…,"generationConfig":{` + schema + `,"seed":7,"stopSequences":["END","\n\n"],"thinkingConfig":{"thinkingBudget":1024}},"toolConfig":{"functionCallingConfig":{"mode":"ANY"}},` + declarations + `}`, []string{"tools.strict"}},
		{"extra wins", "gemini-2.5-flash", pt.Everything(), []string{"generationConfig", `{"seed":1,"thinkingConfig":{"thinkingBudget":5},"responseMimeType":"text/plain"}`, "tools", "[]", "toolConfig", "null"},
			`{…,"generationConfig":{"responseJsonSchema":` + pt.Schema + `,"responseMimeType":"text/plain","seed":1,"stopSequences":["END","\n\n"],"thinkingConfig":{"thinkingBudget":5}},"toolConfig":null,"tools":[]}`, []string{"tools.strict"}},
		{"JSON", "m", providers.Parameters{ResponseFormat: &providers.ResponseFormat{Type: providers.FormatJSON}}, nil, `{…,"generationConfig":{"responseMimeType":"application/json"}}`, nil},
		{"text", "m", providers.Parameters{ResponseFormat: &providers.ResponseFormat{Type: providers.FormatText}}, nil, `{…}`, nil},
		{"a seed too large", "m", providers.Parameters{Seed: &seed}, nil, `{…}`, []string{"seed"}},
		{"auto", "m", choose("auto", ""), nil, `{…,"toolConfig":{"functionCallingConfig":{"mode":"AUTO"}},` + declarations + `}`, nil},
		{"none", "m", choose("none", ""), nil, `{…,"toolConfig":{"functionCallingConfig":{"mode":"NONE"}},` + declarations + `}`, nil},
		{"named", "m", choose("named", "get_time"), nil, `{…,"toolConfig":{"functionCallingConfig":{"allowedFunctionNames":["get_time"],"mode":"ANY"}},` + declarations + `}`, nil},
		{"thoughts, none", "gemini-2.5-flash-lite", effort("none"), nil, `{…,"generationConfig":{"thinkingConfig":{"thinkingBudget":0}}}`, nil},
		{"thoughts, minimal", "models/gemini-2.5-flash", effort("minimal"), nil, `{…,"generationConfig":{"thinkingConfig":{"thinkingBudget":512}}}`, nil},
		{"thoughts, none with Pro", "gemini-2.5-pro", effort("none"), nil, `{…,"generationConfig":{"thinkingConfig":{"thinkingBudget":128}}}`, nil},
		{"thoughts, high", "gemini-2.5-pro", effort("high"), nil, `{…,"generationConfig":{"thinkingConfig":{"thinkingBudget":24576}}}`, nil},
		{"levels, medium", "gemini-3-flash-preview", effort("medium"), nil, `{…,"generationConfig":{"thinkingConfig":{"thinkingLevel":"MEDIUM"}}}`, nil},
		{"levels, the most", "gemini-3-flash-preview", effort("max"), nil, `{…,"generationConfig":{"thinkingConfig":{"thinkingLevel":"HIGH"}}}`, nil},
		{"thoughts, extra high", "gemini-2.5-flash", effort("xhigh"), nil, `{…,"generationConfig":{"thinkingConfig":{"thinkingBudget":24576}}}`, nil},
		{"levels, none", "gemini-3-flash-preview", effort("none"), nil, `{…,"generationConfig":{"thinkingConfig":{"thinkingLevel":"MINIMAL"}}}`, nil},
		{"levels, minimal with Pro", "gemini-3.1-pro-preview", effort("minimal"), nil, `{…,"generationConfig":{"thinkingConfig":{"thinkingLevel":"LOW"}}}`, nil},
		{"no thoughts", "gemini-2.0-flash", effort("high"), nil, `{…}`, []string{"reasoning_effort"}},
		{"no thoughts, none asked for", "gemini-2.0-flash", effort("none"), nil, `{…}`, nil},
	})
}

func TestWhatMustNotBeLeftOut(t *testing.T) {
	subject.CheckUnsendableParameters(t, map[string]providers.Parameters{
		`the unknown type "yaml"`:    {ResponseFormat: &providers.ResponseFormat{Type: "yaml"}},
		`the unknown mode "perhaps"`: {Tools: pt.Tools(), ToolChoice: &providers.ToolChoice{Mode: "perhaps"}},
	})
}

func TestToolCallsKeepTheirIDs(t *testing.T) {
	const chunk = `{"candidates": [{"content": {"parts": [{"functionCall": {"id": "x1","name": "f","args": {"a": 1.0}}},{"functionCall": {"name": "g"}}],"role": "model"},"finishReason": "STOP"}],"modelVersion": "gemini-2.5-flash"}`
	want := []providers.ToolCall{{ID: "x1", Name: "f", Arguments: `{"a":1.0}`}, {Name: "g", Arguments: "{}"}}
	for _, reply := range []pt.Reply{pt.SSE(event(chunk)), pt.JSON(200, chunk)} {
		o := subject.Receive(t, reply, true)
		if diff := cmp.Diff(want, o.Result.ToolCalls); o.Err != nil || o.Result.FinishReason != "tool_calls" || diff != "" {
			t.Errorf("%v, %+v\n%s", o.Err, o.Result, diff)
		}
	}
	nameless := strings.Replace(chunk, `"name": "g"`, `"name": ""`, 1)
	o := subject.Receive(t, pt.SSE(event(nameless)), true)
	if e, ok := errors.AsType[*providers.Error](o.Err); !ok || e.Kind != providers.Invalid {
		t.Errorf("a call without a name: %v", o.Err)
	}
}

// TestServiceTier checks a caller's class of service in the words of Google AI and of Vertex
// AI, which has others than its usual one where no region is named.
func TestServiceTier(t *testing.T) {
	const vertex, header = "/v1/projects/p/locations/", "X-Vertex-Ai-Llm-Shared-Request-Type"
	for _, test := range []struct{ path, tier, extra, member, header, leftOut string }{
		{path: "/v1beta", tier: "flex", member: `,"serviceTier":"flex"`},
		{path: "/v1beta", tier: "priority", member: `,"serviceTier":"priority"`},
		{path: "/v1beta", tier: "default", member: `,"serviceTier":"standard"`},
		{path: "/v1beta", tier: "auto", leftOut: "service_tier"},
		{path: "/v1beta", tier: "flex", extra: "service_tier", member: `,"service_tier":"priority"`, leftOut: "service_tier"},
		{path: "/v1beta", tier: "flex", extra: "serviceTier", member: `,"serviceTier":"priority"`, leftOut: "service_tier"},
		{path: vertex + "global/publishers/google", tier: "flex", header: "flex"},
		{path: "/v1/publishers/google", tier: "priority", header: "priority"},
		{path: vertex + "global/publishers/google", tier: "default"},
		{path: vertex + "eu/publishers/google", tier: "priority", header: "priority"},
		{path: vertex + "us/publishers/google", tier: "flex", leftOut: "service_tier"},
		{path: vertex + "europe-west4/publishers/google", tier: "priority", leftOut: "service_tier"},
		{path: vertex + "europe-west4/publishers/google", tier: "default"},
	} {
		req := &providers.Request{Model: "gemini-3.8-flash", Messages: hello, Parameters: providers.Parameters{Caller: &providers.Caller{Tier: test.tier}}}
		if test.extra != "" {
			req.Extra = map[string]json.RawMessage{test.extra: json.RawMessage(`"priority"`)}
		}
		up := pt.NewUpstream(t).Always(answer("fine", "STOP", 1))
		s, err := client(t, up.URL, func(c *Config) { c.Upstream.BaseURL = pt.URL(t, up.URL+test.path) }).Invoke(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		o, r := pt.Read(s), up.Requests()[0]
		if got, want := short(r.Body, ""), "{…"+test.member+"}"; got != want {
			t.Errorf("%+v: sent %s, want %s", test, got, want)
		}
		if got := r.Header.Get(header); got != test.header || strings.Join(o.Result.LeftOut, " ") != test.leftOut {
			t.Errorf("%+v: header %q, left out %q", test, got, o.Result.LeftOut)
		}
	}
}
