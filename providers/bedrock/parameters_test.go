package bedrock

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// ask sends parameters and returns the request's JSON, without what every
// request has, and what was left out.
func ask(t *testing.T, p providers.Parameters, extra ...string) (string, []string) {
	t.Helper()
	req := request(false)
	req.Parameters, req.Extra = p, map[string]json.RawMessage{}
	for i := 0; i < len(extra); i += 2 {
		req.Extra[extra[i]] = json.RawMessage(extra[i+1])
	}
	up := pt.NewUpstream(t).Always(answer("fine", "end_turn", 1, 1))
	s, err := client(t, up.URL).Invoke(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	body := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(up.Requests()[0].Body)
	return strings.Replace(body, `"messages":[{"role":"user","content":[{"text":"Say hello."}]}]`, "…", 1), s.Result().LeftOut
}

func TestParametersOfTheRequest(t *testing.T) {
	const list = `"tools":[{"toolSpec":{"name":"get_weather","description":"Says what the weather is.","inputSchema":{"json":` + pt.Schema + `},"strict":true}},{"toolSpec":{"name":"get_time","inputSchema":{"json":{"type":"object","properties":{}}}}}]`
	choose := func(mode, name string) providers.Parameters {
		return providers.Parameters{Tools: pt.Tools(), ToolChoice: &providers.ToolChoice{Mode: mode, Name: name}}
	}
	format := `"outputConfig":{"textFormat":{"structure":{"jsonSchema":{"name":"verdict","schema":` + quoteRaw(pt.Schema) + `}},"type":"json_schema"}}`
	for _, test := range []struct {
		name    string
		p       providers.Parameters
		extra   []string
		want    string
		leftOut []string
	}{
		{"everything", pt.Everything(), nil,
			`{"inferenceConfig":{"stopSequences":["END","\n\n"]},…,` + format + `,"toolConfig":{"toolChoice":{"any":{}},` + list + `}}`, []string{"seed", "reasoning_effort"}},
		{"extra, member by member", pt.Everything(), []string{"outputConfig", `{"effort":"low"}`, "toolConfig", "null", "inferenceConfig", `{"topP":0.5}`},
			`{"inferenceConfig":{"stopSequences":["END","\n\n"],"topP":0.5},…,` + strings.Replace(format, `{"textFormat"`, `{"effort":"low","textFormat"`, 1) + `,"toolConfig":null}`, []string{"seed", "reasoning_effort"}},
		{"auto", choose("auto", ""), nil, `{…,"toolConfig":{"toolChoice":{"auto":{}},` + list + `}}`, nil},
		{"none", choose("none", ""), nil, `{…}`, []string{"tools"}},
		{"named", choose("named", "get_time"), nil, `{…,"toolConfig":{"toolChoice":{"tool":{"name":"get_time"}},` + list + `}}`, nil},
		{"text", providers.Parameters{ResponseFormat: &providers.ResponseFormat{Type: providers.FormatText}}, nil, `{…}`, nil},
	} {
		got, leftOut := ask(t, test.p, test.extra...)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		if diff := cmp.Diff(test.leftOut, leftOut); diff != "" {
			t.Errorf("%s: left out (-want +got):\n%s", test.name, diff)
		}
	}
}

// quoteRaw quotes without escapes for HTML.
func quoteRaw(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }

func TestWhatMustNotBeLeftOut(t *testing.T) {
	for name, p := range map[string]providers.Parameters{
		"no response_format json":    {ResponseFormat: &providers.ResponseFormat{Type: providers.FormatJSON}},
		`the unknown type "yaml"`:    {ResponseFormat: &providers.ResponseFormat{Type: "yaml"}},
		`the unknown mode "perhaps"`: {Tools: pt.Tools(), ToolChoice: &providers.ToolChoice{Mode: "perhaps"}},
	} {
		req := request(true)
		req.Parameters = p
		_, err := client(t, "http://localhost:1").Invoke(t.Context(), req)
		e, ok := errors.AsType[*providers.Error](err)
		if !ok || e.Kind != providers.Status || e.Status != 400 || !strings.Contains(e.Reason, name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestOddToolCalls(t *testing.T) {
	call := providers.ToolCall{ID: "t", Name: "f", Arguments: `{"x":1}`}
	whole := toolBlock(0, call)
	for name, pieces := range map[string][]string{
		"input of no tool": {start(), event("contentBlockDelta", `{"contentBlockIndex":3,"delta":{"toolUse":{"input":"{}"}}}`), stop("tool_use"), metadata(9, 2)},
		"cut input":        {start(), whole[0], whole[2], stop("max_tokens"), metadata(9, 2)},
		"after the end":    append([]string{start(), delta("a"), stop("end_turn")}, whole...),
	} {
		o := receive(t, streamed(pieces...), true)
		if e, ok := errors.AsType[*providers.Error](o.err); !ok || e.Kind != providers.Invalid || len(o.result.ToolCalls) > 0 {
			t.Errorf("%s: error %v, result %+v", name, o.err, o.result)
		}
	}
	o := receive(t, streamed(append(whole, stop("end_turn"), metadata(9, 2))...), true)
	if diff := cmp.Diff([]providers.ToolCall{call}, o.result.ToolCalls); o.err != nil || o.result.FinishReason != "tool_calls" || diff != "" {
		t.Errorf("an ordinary end: %v, %+v\n%s", o.err, o.result, diff)
	}
}
