package openai

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// read reads a value as one of the shapes, for its error.
func read(what string, v *fastjson.Value) (err *wire.Error) {
	var c dialect.Call
	r, flat := Request{Call: &c}, Request{Call: &c, Flat: true}
	switch what {
	case "messages":
		_, err = r.messages(At("messages"), v)
	case "tools":
		err = r.Tools(v)
	case "flat tools":
		err = flat.Tools(v)
	case "tool_choice":
		_, err = r.toolChoice(At("tool_choice"), v)
	case "flat tool_choice":
		_, err = flat.toolChoice(At("tool_choice"), v)
	case "parameters":
		err = Parameters(At("parameters"), v, &c)
	case "flat format":
		err = FlatFormat(At("text.format"), v, &c)
	}
	if err == nil && c.Unknown != "" {
		err = dialect.NotKnown(c.Unknown) // as an endpoint has it that refuses what is not known
	}
	return err
}

func tools(v *fastjson.Value, flat bool) ([]providers.Tool, *wire.Error) {
	r := Request{Call: new(dialect.Call), Flat: flat}
	err := r.Tools(v)
	return r.Call.Parameters.Tools, err
}

func TestTools(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"b":{},"a":{}}}`)
	want := []providers.Tool{{Name: "f", Description: "d", Parameters: schema, Strict: true}, {Name: "_g-1"}}
	got, err := tools(fastjson.MustParse(`[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object", "properties":{"b":{},"a":{}}},"strict":true}},{"type":"function","function":{"name":"_g-1","parameters":{},"strict":null}}]`), false)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	got, err = tools(fastjson.MustParse(`[{"type":"function","name":"f","description":"d","parameters":{"type":"object", "properties":{"b":{},"a":{}}},"strict":true},{"type":"function","name":"_g-1","parameters":null,"strict":false}]`), true)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for _, none := range []string{`null`, `[]`} {
		if got, err := tools(fastjson.MustParse(none), false); got != nil || err != nil {
			t.Error(none, got, err)
		}
	}
}

func TestToolChoice(t *testing.T) {
	named := &providers.ToolChoice{Mode: providers.ToolsNamed, Name: "f"}
	for in, want := range map[string]*providers.ToolChoice{
		`null`:       nil,
		`"auto"`:     {Mode: providers.ToolsAuto},
		`"none"`:     {Mode: providers.ToolsNone},
		`"required"`: {Mode: providers.ToolsRequired},
		`{"type":"function","function":{"name":"f"}}`: named,
		`{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"f"}}]}}`: named,
	} {
		if got, err := (&Request{Call: new(dialect.Call)}).toolChoice(At("tool_choice"), fastjson.MustParse(in)); err != nil || !cmp.Equal(got, want) {
			t.Error(in, got, err)
		}
	}
	for _, in := range []string{`{"type":"function","name":"f"}`, `{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"f"}]}`} {
		if got, err := (&Request{Call: new(dialect.Call), Flat: true}).toolChoice(At("tool_choice"), fastjson.MustParse(in)); err != nil || !cmp.Equal(got, named) {
			t.Error(in, got, err)
		}
	}
}

func TestParameters(t *testing.T) {
	var c dialect.Call
	if err := Parameters(At("parameters"), fastjson.MustParse(`{"temperature":0.7,"top_p":1,"frequency_penalty":-2,"presence_penalty":2,"max_completion_tokens":800,"max_tokens":null,"top_k":40,"seed":-7,
		"stop":"END","reasoning_effort":"xhigh","response_format":{"type":"json_schema","json_schema":{"name":"n","description":"d","schema":{"type":"object"},"strict":true}},"parallel_tool_calls":false,"logprobs":true,"top_logprobs":3}`), &c); err != nil {
		t.Fatal(err)
	}
	want := providers.Parameters{
		Temperature: new(0.7), TopP: new(1.0), FrequencyPenalty: new(-2.0), PresencePenalty: new(2.0), MaxTokens: new(int64(800)), TopK: new(int64(40)), Seed: new(int64(-7)),
		Stop: []string{"END"}, ReasoningEffort: "xhigh", ParallelToolCalls: new(false), Logprobs: new(int64(3)),
		ResponseFormat: &providers.ResponseFormat{Type: providers.FormatSchema, Name: "n", Schema: json.RawMessage(`{"type":"object"}`), Strict: true},
	}
	if diff := cmp.Diff(want, c.Parameters); diff != "" {
		t.Error(diff)
	}
	var given []string
	for _, g := range c.Given {
		given = append(given, g.Name+"="+strings.TrimPrefix(g.Param, "parameters."))
	}
	if got := strings.Join(given, " "); got != "temperature=temperature top_p=top_p frequency_penalty=frequency_penalty presence_penalty=presence_penalty max_tokens=max_completion_tokens top_k=top_k seed=seed stop=stop reasoning_effort=reasoning_effort response_format=response_format parallel_tool_calls=parallel_tool_calls logprobs=logprobs" {
		t.Error(got)
	}
	if diff := cmp.Diff([]string{"parameters.response_format.json_schema.description"}, c.Ignored); diff != "" {
		t.Error(diff)
	}

	// The order of logprobs and top_logprobs does not matter, and what sets nothing is
	// not given.
	c = dialect.Call{}
	if err := Parameters(At("parameters"), fastjson.MustParse(`{"top_logprobs":2,"logprobs":true,"stop":[],"seed":null,"response_format":{"type":"json_object","json_schema":null}}`), &c); err != nil || *c.Parameters.Logprobs != 2 || len(c.Given) != 2 || c.Parameters.ResponseFormat.Type != providers.FormatJSON {
		t.Error(err, c.Given, c.Parameters)
	}
	c = dialect.Call{}
	if err := Parameters(At("parameters"), fastjson.MustParse(`{"logprobs":false,"stop":["a","b"]}`), &c); err != nil || c.Parameters.Logprobs != nil || len(c.Given) != 1 || len(c.Parameters.Stop) != 2 {
		t.Error(err, c.Given)
	}
	if err := Parameters(At("parameters"), fastjson.MustParse(`null`), &c); err != nil {
		t.Error(err)
	}

	c = dialect.Call{}
	if err := FlatFormat(At("text.format"), fastjson.MustParse(`{"type":"json_schema","name":"n","schema":{"type":"object"}}`), &c); err != nil || c.Parameters.ResponseFormat.Name != "n" || c.Given[0] != (dialect.Given{Name: "response_format", Param: "text.format"}) {
		t.Error(err, c.Given)
	}
	if err := FlatFormat(At("text.format"), fastjson.MustParse(`{"type":"text"}`), &c); err != nil || c.Parameters.ResponseFormat.Type != providers.FormatText {
		t.Error(err)
	}
}

// TestNamesOutliveTheRequest checks that the name of a given parameter is no view of the
// request, whose memory the next request gets.
func TestNamesOutliveTheRequest(t *testing.T) {
	var parser fastjson.Parser
	v, err := parser.Parse(`{"temperature":1}`)
	if err != nil {
		t.Fatal(err)
	}
	var c dialect.Call
	if problem := Parameters(At("parameters"), v, &c); problem != nil {
		t.Fatal(problem)
	}
	if _, err := parser.Parse(`{"xxxxxxxxxxx":1}`); err != nil {
		t.Fatal(err)
	}
	if want := (dialect.Given{Name: "temperature", Param: "parameters.temperature"}); c.Given[0] != want {
		t.Errorf("%v, want %v", c.Given[0], want)
	}
}

func TestModels(t *testing.T) {
	at := time.Unix(1700000000, 0)
	const a = `{"id":"a","object":"model","created":1700000000,"owned_by":"cadenza"}`
	if got := string(AppendModel(nil, "a", at)); got != a {
		t.Error(got)
	}
	if got := string(AppendModels(nil, []string{"a", "a"}, at)); got != `{"object":"list","data":[`+a+`,`+a+`]}` {
		t.Error(got)
	}
	if got := string(AppendModels(nil, nil, at)); got != `{"object":"list","data":[]}` {
		t.Error(got)
	}
}

// FuzzShapes reads any JSON as each of the shapes. An error names a path, and messages
// that are read have the parts of their roles alone.
func FuzzShapes(f *testing.F) {
	f.Add(conversation()[:20_000] + `"}]`)
	for _, in := range []string{
		`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}]}]`,
		`[{"role":"assistant","tool_calls":[` + call7 + `],"reasoning_details":[{"type":"reasoning.encrypted","data":"x","id":"c7"}]},{"role":"tool","tool_call_id":"c7","content":"rain"}]`,
		`[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`, `{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{}]}}`,
		`{"temperature":0.7,"stop":["a"],"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}}`,
	} {
		f.Add(in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		v, err := fastjson.Parse(in)
		if err != nil {
			return
		}
		for _, what := range []string{"tools", "flat tools", "tool_choice", "flat tool_choice", "parameters", "flat format"} {
			if err := read(what, v); err != nil && (err.Param == "" || err.Status != 400) {
				t.Errorf("%s: %+v", what, err)
			}
		}
		messages, bad := (&Request{Call: new(dialect.Call)}).messages(At("messages"), v)
		if bad != nil {
			if !strings.HasPrefix(bad.Param, "messages") {
				t.Errorf("%+v", bad)
			}
			return
		}
		for i, m := range messages {
			if m.Content != "" && m.Parts != nil || m.Parts != nil && len(m.Parts) == 0 {
				t.Errorf("message %d has a text and parts, or no part: %+v", i, m)
			}
			for _, p := range m.Parts {
				allowed := map[string]string{"user": "text image audio file", "assistant": "text thinking tool_call", "tool": "tool_result", "system": "text", "developer": "text"}[m.Role]
				if !strings.Contains(allowed, p.Kind.String()) || p.Media.Data != "" && p.Media.Type == "" || p.Kind == providers.PartToolCall && (p.Call.ID == "" || p.Call.Name == "") || p.Kind == providers.PartToolResult && p.Result.Name == "" {
					t.Errorf("message %d (%s): %+v", i, m.Role, p)
				}
			}
		}
	})
}
