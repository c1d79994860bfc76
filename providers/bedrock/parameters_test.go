package bedrock

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// short is a body without the members that every request has.
func short(body, _ string) string {
	return strings.Replace(body, `"messages":[{"role":"user","content":[{"text":"Say hello."}]}]`, "…", 1)
}

func TestParametersOfTheRequest(t *testing.T) {
	const list = `"tools":[{"toolSpec":{"name":"get_weather","description":"Says what the weather is.","inputSchema":{"json":` + pt.Schema + `},"strict":true}},{"toolSpec":{"name":"get_time","inputSchema":{"json":{"type":"object","properties":{}}}}}]`
	choose := func(mode, name string) providers.Parameters {
		return providers.Parameters{Tools: pt.Tools(), ToolChoice: &providers.ToolChoice{Mode: mode, Name: name}}
	}
	format := `"outputConfig":{"textFormat":{"structure":{"jsonSchema":{"name":"verdict","schema":` + quoteRaw(pt.Schema) + `}},"type":"json_schema"}}`
	subject.CheckParameters(t, answer("fine", "end_turn", 1, 1), short, []pt.Translation{
		{"everything", testModel, pt.Everything(), nil,
			`{…,"inferenceConfig":{"stopSequences":["END","\n\n"]},` + format + `,"toolConfig":{"toolChoice":{"any":{}},` + list + `}}`, []string{"reasoning_effort", "seed"}},
		{"extra, member by member", testModel, pt.Everything(), []string{"outputConfig", `{"effort":"low"}`, "toolConfig", "null", "inferenceConfig", `{"topP":0.5}`},
			`{…,"inferenceConfig":{"stopSequences":["END","\n\n"],"topP":0.5},` + strings.Replace(format, `{"textFormat"`, `{"effort":"low","textFormat"`, 1) + `,"toolConfig":null}`, []string{"reasoning_effort", "seed"}},
		{"thoughts within a budget", testModel, providers.Parameters{Thinking: &providers.Thinking{On: true, Budget: 2000}, Temperature: new(0.5), TopK: new(int64(5)), MaxTokens: new(int64(4000))}, nil,
			`{…,"additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":2000}},"inferenceConfig":{"maxTokens":4000}}`, []string{"temperature", "top_k"}},
		{"thoughts as it finds right", "us.anthropic.claude-opus-4-7-v1:0", providers.Parameters{ReasoningEffort: "max", Temperature: new(0.5)}, nil,
			`{…,"additionalModelRequestFields":{"output_config":{"effort":"max"},"thinking":{"type":"adaptive"}}}`, []string{"temperature"}},
		{"the effort of an open model", "openai.gpt-oss-120b-1:0", providers.Parameters{ReasoningEffort: "xhigh", Thinking: &providers.Thinking{On: true}}, nil,
			`{…,"additionalModelRequestFields":{"reasoning_effort":"high"}}`, []string{"thinking"}},
		{"the effort of another model", "amazon.nova-pro-v1:0", providers.Parameters{ReasoningEffort: "low"}, nil, `{…}`, []string{"reasoning_effort"}},
		{"auto", testModel, choose("auto", ""), nil, `{…,"toolConfig":{"toolChoice":{"auto":{}},` + list + `}}`, nil},
		{"none", testModel, choose("none", ""), nil, `{…}`, []string{"tools"}},
		{"named", testModel, choose("named", "get_time"), nil, `{…,"toolConfig":{"toolChoice":{"tool":{"name":"get_time"}},` + list + `}}`, nil},
		{"previews", testModel, providers.Parameters{Caller: &providers.Caller{Betas: []string{"a", "b"}}, ReasoningEffort: "none"}, []string{"additionalModelRequestFields", `{"x":1}`},
			`{…,"additionalModelRequestFields":{"anthropic_beta":["a","b"],"x":1}}`, nil},
		{"previews of the definition", testModel, providers.Parameters{Caller: &providers.Caller{Betas: []string{"a"}}}, []string{"additionalModelRequestFields", `{"anthropic_beta":["c"]}`},
			`{…,"additionalModelRequestFields":{"anthropic_beta":["c"]}}`, []string{"betas"}},
		{"previews of another model", "amazon.nova-pro-v1:0", providers.Parameters{Caller: &providers.Caller{Betas: []string{"a"}}}, nil, `{…}`, []string{"betas"}},
		{"a model that is not forced", "us.anthropic.claude-sonnet-5-5-v1:0", choose("named", "get_time"), nil, `{…,"toolConfig":{"toolChoice":{"auto":{}},` + list + `}}`, []string{"tool_choice"}},
		{"text", testModel, providers.Parameters{ResponseFormat: &providers.ResponseFormat{Type: providers.FormatText}}, nil, `{…}`, nil},
	})
}

// quoteRaw quotes without escapes for HTML.
func quoteRaw(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }

func TestWhatMustNotBeLeftOut(t *testing.T) {
	subject.CheckUnsendableParameters(t, map[string]providers.Parameters{
		"no response_format json":    {ResponseFormat: &providers.ResponseFormat{Type: providers.FormatJSON}},
		`the unknown type "yaml"`:    {ResponseFormat: &providers.ResponseFormat{Type: "yaml"}},
		`the unknown mode "perhaps"`: {Tools: pt.Tools(), ToolChoice: &providers.ToolChoice{Mode: "perhaps"}},
	})
}

func TestOddToolCalls(t *testing.T) {
	call := providers.ToolCall{ID: "t", Name: "f", Arguments: `{"x":1}`}
	whole := toolBlock(0, call)
	subject.CheckBrokenCalls(t, map[string]pt.Reply{
		"input of no tool": streamed(start(), event("contentBlockDelta", `{"contentBlockIndex":3,"delta":{"toolUse":{"input":"{}"}}}`), stop("tool_use"), metadata(9, 2)),
		"cut input":        streamed(start(), whole[0], whole[2], stop("max_tokens"), metadata(9, 2)),
		"after the end":    streamed(append([]string{start(), delta("a"), stop("end_turn")}, whole...)...),
	})
	o := subject.Receive(t, streamed(append(whole, stop("end_turn"), metadata(9, 2))...), true)
	if diff := cmp.Diff([]providers.ToolCall{call}, o.Result.ToolCalls); o.Err != nil || o.Result.FinishReason != "tool_calls" || diff != "" {
		t.Errorf("an ordinary end: %v, %+v\n%s", o.Err, o.Result, diff)
	}
}
