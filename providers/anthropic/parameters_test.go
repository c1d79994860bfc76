package anthropic

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// short is a body without the members that every request has.
func short(body, model string) string {
	return strings.Replace(body, `"messages":[{"role":"user","content":"Hello"}],"max_tokens":8192,"model":"`+model+`"`, "…", 1)
}

func TestParametersOfTheRequest(t *testing.T) {
	const (
		toolList = `[{"name":"get_weather","description":"Says what the weather is.","input_schema":` + pt.Schema + `,"strict":true},{"name":"get_time","input_schema":{"type":"object","properties":{}}}]`
		format   = `"format":{"type":"json_schema","schema":` + pt.Schema + `}`
	)
	choose := func(mode, name string) providers.Parameters {
		return providers.Parameters{Tools: pt.Tools(), ToolChoice: &providers.ToolChoice{Mode: mode, Name: name}}
	}
	number := 0.5
	subject.CheckParameters(t, answer("fine", "end_turn", 1), short, []pt.Translation{
		{"everything", "claude-sonnet-5", pt.Everything(), nil,
			`{…,"output_config":{"effort":"low",` + format + `},"stop_sequences":["END","\n\n"],"tool_choice":{"type":"any"},"tools":` + toolList + `}`, []string{"seed"}},
		{"everything, a model without effort", "claude-haiku-4-5", pt.Everything(), nil,
			`{…,"output_config":{` + format + `},"stop_sequences":["END","\n\n"],"tool_choice":{"type":"any"},"tools":` + toolList + `}`, []string{"seed", "reasoning_effort"}},
		{"penalties, and sampling where there is none", "claude-opus-5", providers.Parameters{Temperature: &number, TopP: &number, FrequencyPenalty: &number, PresencePenalty: &number}, nil,
			`{…}`, []string{"temperature", "top_p", "frequency_penalty", "presence_penalty"}},
		{"no effort", "claude-opus-4-5", providers.Parameters{ReasoningEffort: "none"}, nil, `{…,"thinking":{"type":"disabled"}}`, nil},
		{"no effort, none to be had", "claude-sonnet-4-5", providers.Parameters{ReasoningEffort: "none"}, nil, `{…}`, nil},
		{"an extra high effort", "claude-opus-4-7", providers.Parameters{ReasoningEffort: "xhigh"}, nil, `{…,"output_config":{"effort":"xhigh"},"thinking":{"type":"adaptive"}}`, nil},
		{"an extra high effort, a model without", "claude-opus-4-6", providers.Parameters{ReasoningEffort: "xhigh"}, nil, `{…,"output_config":{"effort":"high"},"thinking":{"type":"adaptive"}}`, nil},
		{"an extra high effort, a model without a version", "claude-mythos-preview", providers.Parameters{ReasoningEffort: "xhigh"}, nil, `{…,"output_config":{"effort":"high"},"thinking":{"type":"adaptive"}}`, nil},
		{"the most effort", "claude-sonnet-4-6", providers.Parameters{ReasoningEffort: "max"}, nil, `{…,"output_config":{"effort":"max"},"thinking":{"type":"adaptive"}}`, nil},
		{"the most effort, a model without", "claude-opus-4-5", providers.Parameters{ReasoningEffort: "max"}, nil, `{…,"output_config":{"effort":"high"},"thinking":{"type":"enabled","budget_tokens":4096}}`, nil},
		{"minimal effort", "claude-sonnet-4-6", providers.Parameters{ReasoningEffort: "minimal"}, nil, `{…,"output_config":{"effort":"low"},"thinking":{"type":"adaptive"}}`, nil},
		{"a budget, and sampling beside it", "claude-sonnet-4-5", providers.Parameters{Thinking: &providers.Thinking{On: true, Budget: 2000, Display: "omitted"}, Temperature: &number, TopK: new(int64(4))}, nil,
			`{…,"thinking":{"type":"enabled","budget_tokens":2000,"display":"omitted"}}`, []string{"temperature", "top_k"}},
		{"thoughts, but the definition has its own", "claude-sonnet-4-6", providers.Parameters{ReasoningEffort: "low", Thinking: &providers.Thinking{On: true}, Temperature: &number}, []string{"thinking", `{"type":"disabled"}`},
			`{…,"output_config":{"effort":"low"},"temperature":0.5,"thinking":{"type":"disabled"}}`, []string{"thinking"}},
		{"text", "m", providers.Parameters{ResponseFormat: &providers.ResponseFormat{Type: providers.FormatText}}, nil, `{…}`, nil},
		{"auto", "m", choose("auto", ""), nil, `{…,"tool_choice":{"type":"auto"},"tools":` + toolList + `}`, nil},
		{"none", "m", choose("none", ""), nil, `{…,"tool_choice":{"type":"none"},"tools":` + toolList + `}`, nil},
		{"named", "m", choose("named", "get_time"), nil, `{…,"tool_choice":{"name":"get_time","type":"tool"},"tools":` + toolList + `}`, nil},
		{"log probabilities", "m", providers.Parameters{Logprobs: new(int64(3))}, nil, `{…}`, []string{"logprobs"}},
		{"tools alone", "m", providers.Parameters{Tools: pt.Tools()}, nil, `{…,"tools":` + toolList + `}`, nil},
		{"extra wins", "claude-sonnet-5", pt.Everything(), []string{"tools", "[]", "tool_choice", "null", "output_config", `{"effort":"max"}`, "stop_sequences", "[]"},
			`{…,"output_config":{"effort":"max"},"stop_sequences":[],"tool_choice":null,"tools":[]}`, []string{"seed"}},
	})
}

func TestWhatMustNotBeLeftOut(t *testing.T) {
	subject.CheckUnsendableParameters(t, map[string]providers.Parameters{
		"no response_format json":    {ResponseFormat: &providers.ResponseFormat{Type: providers.FormatJSON}},
		`the unknown type "yaml"`:    {ResponseFormat: &providers.ResponseFormat{Type: "yaml"}},
		`the unknown mode "perhaps"`: {Tools: pt.Tools(), ToolChoice: &providers.ToolChoice{Mode: "perhaps"}},
	})
}

func TestOddToolCalls(t *testing.T) {
	input := func(index, text string) string {
		return "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":" + index + `,"delta":{"type":"input_json_delta","partial_json":` + quote(text) + "}}\n\n"
	}
	begin := func(kind, rest string) string {
		return "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":" + quote(kind) + `,"id":"a","name":"f"` + rest + "}}\n\n"
	}
	for _, test := range []struct {
		name  string
		reply pt.Reply
		want  []providers.ToolCall
	}{
		{"no input", sse([]string{messageStart, begin("tool_use", "")}, closing("tool_use", 2)), []providers.ToolCall{{ID: "a", Name: "f", Arguments: "{}"}}},
		{"input at once", sse([]string{messageStart, begin("tool_use", `,"input":{"x":[1.0]}`)}, closing("tool_use", 2)), []providers.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":[1.0]}`}}},
		{"a tool of the API's own", sse([]string{messageStart, begin("server_tool_use", `,"input":{}`), input("1", `{"query":`), textDelta("a")}, closing("end_turn", 2)), nil},
		{"out of tokens, but whole", sse([]string{messageStart, begin("tool_use", ""), input("1", "{}")}, closing("max_tokens", 2)), []providers.ToolCall{{ID: "a", Name: "f", Arguments: "{}"}}},
	} {
		o := subject.Receive(t, test.reply, true)
		if diff := cmp.Diff(test.want, o.Result.ToolCalls); o.Err != nil || diff != "" {
			t.Errorf("%s: error %v (-want +got):\n%s", test.name, o.Err, diff)
		}
	}
	subject.CheckBrokenCalls(t, map[string]pt.Reply{
		"out of tokens":   sse([]string{messageStart, begin("tool_use", ""), input("1", `{"x`)}, closing("max_tokens", 2)),
		"input twice":     sse([]string{messageStart, begin("tool_use", `,"input":{"x":1}`), input("1", `{"x":1}`)}, closing("tool_use", 2)),
		"a whole without": pt.JSON(200, `{"type":"message","content":[{"type":"tool_use","id":"a","input":{}}],"stop_reason":"tool_use"}`),
	})
}
