package openai

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

const tools = `[{"function":{"name":"get_weather","description":"Says what the weather is.","parameters":` + pt.Schema + `,"strict":true},"type":"function"},` +
	`{"function":{"name":"get_time","parameters":{"type":"object","properties":{}}},"type":"function"}]`

// asked is the body sent to a service and the parameters that it lacks.
type asked struct {
	body    map[string]string // members, without model and messages
	leftOut []string
}

// ask sends a request with parameters to a service with quirks.
func ask(t *testing.T, q Quirks, req providers.Request) asked {
	t.Helper()
	r, result := pt.Sent(t, pt.OpenAIAnswer("fine", 1), &req, func(base string) providers.Provider {
		return client(t, base, func(c *Config) { c.Quirks = q })
	})
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(r.Body), &members); err != nil {
		t.Fatal(err)
	}
	got := asked{body: map[string]string{}, leftOut: result.LeftOut}
	for name, raw := range members {
		if name != "model" && name != "messages" {
			got.body[name] = string(raw)
		}
	}
	return got
}

func TestParametersOfTheRequest(t *testing.T) {
	with := func(change func(*providers.Parameters)) providers.Request {
		req := providers.Request{Model: "m", Messages: []providers.Message{{Role: "user", Content: "u"}}}
		change(&req.Parameters)
		return req
	}
	everything := with(func(p *providers.Parameters) { *p = pt.Everything() })
	format := `{"json_schema":{"name":"verdict","strict":true,"schema":` + pt.Schema + `},"type":"json_schema"}`
	for _, test := range []struct {
		name string
		q    Quirks
		req  providers.Request
		want asked
	}{
		{"everything", Quirks{}, everything, asked{body: map[string]string{
			"seed": "7", "stop": `["END","\n\n"]`, "reasoning_effort": `"low"`, "response_format": format, "tools": tools, "tool_choice": `"required"`,
		}}},
		{"a random seed, no effort", Quirks{RandomSeed: true, NoEffort: regexp.MustCompile("")}, everything, asked{map[string]string{
			"random_seed": "7", "stop": `["END","\n\n"]`, "response_format": format, "tools": tools, "tool_choice": `"required"`,
		}, []string{"reasoning_effort"}}},
		{"no seed", Quirks{NoSeed: true, NoTopK: true}, with(func(p *providers.Parameters) { p.Seed, p.TopK = new(int64(1)), new(int64(2)) }), asked{map[string]string{}, []string{"top_k", "seed"}}},
		{"text", Quirks{NoJSON: true, NoJSONSchema: true}, with(func(p *providers.Parameters) {
			p.ResponseFormat = &providers.ResponseFormat{Type: providers.FormatText}
		}), asked{body: map[string]string{}}},
		{"JSON", Quirks{NoJSONSchema: true}, with(func(p *providers.Parameters) {
			p.ResponseFormat = &providers.ResponseFormat{Type: providers.FormatJSON}
		}), asked{body: map[string]string{"response_format": `{"type":"json_object"}`}}},
		{"a schema only to be shown", Quirks{NoJSON: true}, with(func(p *providers.Parameters) {
			p.ResponseFormat = &providers.ResponseFormat{Type: providers.FormatSchema, Name: "n", Schema: json.RawMessage(`{"type":"object"}`)}
		}), asked{body: map[string]string{"response_format": `{"json_schema":{"name":"n","schema":{"type":"object"}},"type":"json_schema"}`}}},
		{"tools by default", Quirks{}, with(func(p *providers.Parameters) { p.Tools = pt.Tools() }), asked{body: map[string]string{"tools": tools}}},
		{"a named tool", Quirks{}, with(func(p *providers.Parameters) {
			p.Tools, p.ToolChoice = pt.Tools(), &providers.ToolChoice{Mode: providers.ToolsNamed, Name: "get_time"}
		}), asked{body: map[string]string{"tools": tools, "tool_choice": `{"function":{"name":"get_time"},"type":"function"}`}}},
		{"no tool to be called", Quirks{}, with(func(p *providers.Parameters) {
			p.Tools, p.ToolChoice = pt.Tools(), &providers.ToolChoice{Mode: providers.ToolsNone}
		}), asked{body: map[string]string{"tools": tools, "tool_choice": `"none"`}}},
		{"no tool to be called by one that has none", Quirks{NoTools: true}, with(func(p *providers.Parameters) {
			p.Tools, p.ToolChoice = pt.Tools(), &providers.ToolChoice{Mode: providers.ToolsNone}
		}), asked{map[string]string{}, []string{"tools"}}},
		{"empty lists", Quirks{}, with(func(p *providers.Parameters) {
			p.Stop, p.Tools, p.ToolChoice = []string{}, []providers.Tool{}, &providers.ToolChoice{Mode: providers.ToolsNone}
		}), asked{body: map[string]string{}}},
		{"effort for a model that does not reason", Quirks{NoEffort: older}, providers.Request{Model: "ft:gpt-4o-mini:x", Parameters: providers.Parameters{ReasoningEffort: "high"}}, asked{map[string]string{}, []string{"reasoning_effort"}}},
		{"effort for one that does", Quirks{NoEffort: older}, providers.Request{Model: "gpt-5-mini", Parameters: providers.Parameters{ReasoningEffort: "minimal"}}, asked{body: map[string]string{"reasoning_effort": `"minimal"`}}},
		{"one tool at a time, log probabilities", Quirks{}, with(func(p *providers.Parameters) {
			p.Tools, p.ParallelToolCalls, p.Logprobs = pt.Tools(), new(false), new(int64(5))
		}), asked{body: map[string]string{"tools": tools, "parallel_tool_calls": "false", "logprobs": "true", "top_logprobs": "5"}}},
		{"log probabilities without alternatives, no tools", Quirks{}, with(func(p *providers.Parameters) {
			p.ParallelToolCalls, p.Logprobs = new(true), new(int64(0))
		}), asked{body: map[string]string{"logprobs": "true"}}},
		{"neither", Quirks{NoParallelToolCalls: true, NoLogprobs: true}, with(func(p *providers.Parameters) {
			p.Tools, p.ParallelToolCalls, p.Logprobs = pt.Tools(), new(false), new(int64(5))
		}), asked{map[string]string{"tools": tools}, []string{"parallel_tool_calls", "logprobs"}}},
		{"extra wins", Quirks{}, providers.Request{Model: "m", Parameters: pt.Everything(), Extra: map[string]json.RawMessage{
			"tools": json.RawMessage(`[]`), "response_format": json.RawMessage(`null`), "stop": json.RawMessage(`"x"`), "tool_choice": json.RawMessage(`"auto"`), "seed": json.RawMessage(`1`), "reasoning_effort": json.RawMessage(`"xhigh"`),
		}}, asked{body: map[string]string{"seed": "1", "stop": `"x"`, "reasoning_effort": `"xhigh"`, "response_format": "null", "tools": "[]", "tool_choice": `"auto"`}}},
	} {
		if diff := cmp.Diff(test.want, ask(t, test.q, test.req), cmp.AllowUnexported(asked{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestWhatMustNotBeLeftOut(t *testing.T) {
	for _, test := range []struct {
		name, want string
		q          Quirks
		p          providers.Parameters
	}{
		{"tools", "openai has no tools", Quirks{NoTools: true}, providers.Parameters{Tools: pt.Tools()}},
		{"a schema", "openai has no response_format json_schema", Quirks{NoJSONSchema: true}, pt.Everything()},
		{"JSON", "openai has no response_format json", Quirks{NoJSON: true}, providers.Parameters{ResponseFormat: &providers.ResponseFormat{Type: providers.FormatJSON}}},
		{"an unknown format", `the unknown type "yaml"`, Quirks{}, providers.Parameters{ResponseFormat: &providers.ResponseFormat{Type: "yaml"}}},
		{"an unknown choice", `the unknown mode "some"`, Quirks{}, providers.Parameters{Tools: pt.Tools(), ToolChoice: &providers.ToolChoice{Mode: "some"}}},
	} {
		up := pt.NewUpstream(t)
		_, err := client(t, up.URL, func(c *Config) { c.Quirks = test.q }).Invoke(t.Context(), &providers.Request{Model: "m", Parameters: test.p})
		e, ok := errors.AsType[*providers.Error](err)
		if !ok || e.Kind != providers.Status || e.Status != 400 || !strings.Contains(e.Reason, test.want) || len(up.Requests()) > 0 {
			t.Errorf("%s: error %v, %d requests", test.name, err, len(up.Requests()))
		}
	}
}

func TestToolCallsAsServicesSendThem(t *testing.T) {
	chunk := func(delta, finish string) string {
		return pt.Event(`{"model":"m","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}]}`)
	}
	piece := func(call string) string { return chunk(`{"tool_calls":[`+call+`]}`, "null") }
	one := []providers.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":1}`}}
	for _, test := range []struct {
		name   string
		reply  pt.Reply
		finish providers.FinishReason
		want   []providers.ToolCall
	}{
		{"in one chunk with the finish", pt.SSE(chunk(`{"content":null,"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}]}`, `"tool_calls"`), pt.Done), "tool_calls", one},
		{"finish stop", pt.SSE(piece(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}`), pt.FinishChunk("stop"), pt.Done), "tool_calls", one},
		{"no finish", pt.SSE(piece(`{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}`), pt.Done), "tool_calls", one},
		{"no index", pt.SSE(piece(`{"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}`), pt.FinishChunk("tool_calls"), pt.Done), "tool_calls", one},
		{"arguments as an object", pt.SSE(piece(`{"id":"a","function":{"name":"f","arguments":{"x":1}}}`), pt.FinishChunk("tool_calls"), pt.Done), "tool_calls", one},
		{"after a finish", pt.SSE(pt.FinishChunk("stop"), piece(`{"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}`), pt.FinishChunk("tool_calls"), pt.Done), "tool_calls", one},
		{"length, but whole", pt.SSE(piece(`{"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}`), pt.FinishChunk("length"), pt.Done), "length", one},
		{"several of a whole answer without an index", pt.OpenAIToolCalls("", 3, one[0], providers.ToolCall{ID: "b", Name: "g", Arguments: "{}"}), "tool_calls", append(one[:1:1], providers.ToolCall{ID: "b", Name: "g", Arguments: "{}"})},
		{"an empty list", pt.SSE(chunk(`{"content":"x","tool_calls":[]}`, "null"), pt.FinishChunk("stop"), pt.Done), "stop", nil},
	} {
		o := subject.Receive(t, test.reply, true)
		if o.Err != nil || o.Result.FinishReason != test.finish {
			t.Errorf("%s: error %v, result %+v", test.name, o.Err, o.Result)
		}
		if diff := cmp.Diff(test.want, o.Result.ToolCalls); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
	subject.CheckBrokenCalls(t, map[string]pt.Reply{
		"cut arguments":   pt.SSE(piece(`{"id":"a","function":{"name":"f","arguments":"{\"x\":"}}`), pt.FinishChunk("length"), pt.Done),
		"no name":         pt.SSE(piece(`{"id":"a","function":{"arguments":"{}"}}`), pt.FinishChunk("tool_calls"), pt.Done),
		"whole, cut":      pt.OpenAIToolCalls("text", 3, providers.ToolCall{ID: "a", Name: "f", Arguments: `{"x":`}),
		"an odd element":  pt.SSE(piece(`7`), pt.FinishChunk("tool_calls"), pt.Done),
		"no finish, cut":  pt.SSE(piece(`{"id":"a","function":{"name":"f","arguments":"{\"x\":"}}`), pt.Done),
		"nothing to call": pt.SSE(pt.Done),
	})
	cut := pt.SSE(pt.ToolChunks(0, "a", "f", `{"x":1}`)...)
	cut.End = pt.Cut
	if o := subject.Receive(t, cut, true); o.Err == nil || len(o.Result.ToolCalls) > 0 {
		t.Errorf("a cut stream: %+v", o)
	}
}
