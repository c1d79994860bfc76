package openai

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

const call7 = `{"id":"c7","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Bern\"}"}}`

func TestMessages(t *testing.T) {
	text := func(s string) providers.Part {
		return providers.Part{Kind: providers.PartText, Text: providers.Escape(s)}
	}
	call := providers.Part{Kind: providers.PartToolCall, Call: providers.ToolCall{ID: "c7", Name: "get_weather", Arguments: `{"city":"Bern"}`}}
	result := func(content ...providers.Part) providers.Message {
		return providers.Message{Role: "tool", Parts: []providers.Part{{Kind: providers.PartToolResult, Result: providers.ToolResult{Call: "c7", Name: "get_weather", Content: content}}}}
	}
	thought := func(text, opaque string) providers.Part {
		return providers.Part{Kind: providers.PartThinking, Text: providers.Escape(text), Opaque: opaque}
	}
	for _, c := range []struct {
		name, in string
		want     []providers.Message
		ignored  string
	}{
		{name: "none", in: `null`},
		{name: "empty", in: `[]`},
		{name: "texts", in: `[{"role":"system","content":"S"},{"role":"developer","content":[{"type":"text","text":"D"}]},{"role":"user","content":"a\u00fc"},{"role":"assistant","content":""}]`,
			want: []providers.Message{{Role: "system", Content: "S"}, {Role: "developer", Content: "D"}, {Role: "user", Content: "aü"}, {Role: "assistant"}}},
		{name: "parts of a user", in: `[{"role":"user","name":"ann","content":[{"type":"text","text":"a","prompt_cache_breakpoint":{"type":"x"},"cache_control":null},
			{"type":"image_url","image_url":{"url":"https://x.test/a.png","detail":"low"}},
			{"type":"image_url","image_url":{"url":"DATA:image/png;base64,aGk="}},
			{"type":"input_audio","input_audio":{"data":"aGkh","format":"wav"}},{"type":"input_audio","input_audio":{"data":"aGkh","format":"mp3"}},
			{"type":"file","file":{"file_data":"data:application/pdf;name=x;base64,aA==","filename":"a.pdf","file_id":null}}]}]`,
			want: []providers.Message{{Role: "user", Parts: []providers.Part{
				text("a"),
				{Kind: providers.PartImage, Media: providers.Media{URL: "https://x.test/a.png", Detail: "low"}},
				{Kind: providers.PartImage, Media: providers.Media{Type: "image/png", Data: "aGk="}},
				{Kind: providers.PartAudio, Media: providers.Media{Type: "audio/wav", Data: "aGkh"}},
				{Kind: providers.PartAudio, Media: providers.Media{Type: "audio/mpeg", Data: "aGkh"}},
				{Kind: providers.PartFile, Media: providers.Media{Type: "application/pdf", Data: "aA==", Name: "a.pdf"}},
			}}}, ignored: "messages[0].name messages[0].content[0].prompt_cache_breakpoint"},
		{name: "a call and its result", in: `[{"role":"assistant","content":null,"refusal":null,"annotations":[],"audio":null,"function_call":null,"tool_calls":[` + call7 + `]},{"role":"tool","tool_call_id":"c7","content":"rain"}]`,
			want: []providers.Message{{Role: "assistant", Parts: []providers.Part{call}}, result(text("rain"))}},
		{name: "results of two calls in any order", in: `[{"role":"assistant","content":"Let me see.","tool_calls":[{"id":"c8","type":"function","function":{"name":"b","arguments":""}},` + call7 + `]},
			{"role":"tool","tool_call_id":"c7","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"http://x.test"}}]},{"role":"tool","tool_call_id":"c8","content":""},{"role":"user","content":"?"}]`,
			want: []providers.Message{
				{Role: "assistant", Parts: []providers.Part{text("Let me see."), {Kind: providers.PartToolCall, Call: providers.ToolCall{ID: "c8", Name: "b"}}, call}},
				result(text("a"), providers.Part{Kind: providers.PartImage, Media: providers.Media{URL: "http://x.test"}}),
				{Role: "tool", Parts: []providers.Part{{Kind: providers.PartToolResult, Result: providers.ToolResult{Call: "c8", Name: "b", Content: []providers.Part{text("")}}}}},
				{Role: "user", Content: "?"},
			}},
		{name: "an id twice", in: `[{"role":"assistant","tool_calls":[` + call7 + `,` + call7 + `]},{"role":"tool","tool_call_id":"c7","content":"1"},{"role":"tool","tool_call_id":"c7","content":"2"}]`,
			want: []providers.Message{{Role: "assistant", Parts: []providers.Part{call, call}}, result(text("1")), result(text("2"))}},
		{name: "as libraries send answers back", in: `[{"role":"assistant","content":"a","parsed":{"a":1},"annotations":[{"type":"url_citation"}],"tool_calls":[{"index":0,"id":"c7","type":"function","function":{"name":"f","arguments":"{}","parsed_arguments":{}}}]},{"role":"tool","tool_call_id":"c7","name":"f","content":"1"}]`,
			want: []providers.Message{
				{Role: "assistant", Parts: []providers.Part{text("a"), {Kind: providers.PartToolCall, Call: providers.ToolCall{ID: "c7", Name: "f", Arguments: "{}"}}}},
				{Role: "tool", Parts: []providers.Part{{Kind: providers.PartToolResult, Result: providers.ToolResult{Call: "c7", Name: "f", Content: []providers.Part{text("1")}}}}},
			}, ignored: "messages[0].parsed messages[0].annotations messages[0].tool_calls[0].index messages[0].tool_calls[0].function.parsed_arguments messages[1].name"},
		{name: "a refusal", in: `[{"role":"assistant","content":null,"refusal":"No."},{"role":"assistant","content":[{"type":"refusal","refusal":"Never."}]}]`,
			want: []providers.Message{{Role: "assistant", Content: "No."}, {Role: "assistant", Content: "Never."}}},
		{name: "a thought without data", in: `[{"role":"assistant","content":"a","reasoning_content":"Hm."},{"role":"assistant","content":"b","reasoning_content":"  "}]`,
			want: []providers.Message{{Role: "assistant", Parts: []providers.Part{thought("Hm.", ""), text("a")}}, {Role: "assistant", Content: "b"}}},
		{name: "thoughts with data", in: `[{"role":"assistant","content":"a","reasoning_content":"Hm.So.","reasoning_details":[{"type":"reasoning.text","text":"Hm.","signature":"s1","format":"cadenza","index":0},{"type":"reasoning.encrypted","data":"s2","format":"cadenza","index":1},{"type":"reasoning.text","text":"So.","index":2},{"type":"reasoning.encrypted","data":"s3","id":"c7"},{"type":"reasoning.encrypted","data":"s4","id":"gone"}],"tool_calls":[` + call7 + `]},{"role":"tool","tool_call_id":"c7","content":"rain"}]`,
			want: []providers.Message{{Role: "assistant", Parts: []providers.Part{thought("Hm.", "s1"), thought("", "s2"), thought("So.", ""), thought("", "s4"), text("a"),
				{Kind: providers.PartToolCall, Call: call.Call, Opaque: "s3"}}}, result(text("rain"))}},
		{name: "a thought and a call's data", in: `[{"role":"assistant","reasoning_content":"Hm.","reasoning_details":[{"type":"reasoning.encrypted","data":"s0"},{"type":"reasoning.encrypted","data":"s3","id":"c7"}],"tool_calls":[` + call7 + `]},{"role":"tool","tool_call_id":"c7","content":"rain"}]`,
			want: []providers.Message{{Role: "assistant", Parts: []providers.Part{thought("Hm.", ""), thought("", "s0"), {Kind: providers.PartToolCall, Call: call.Call, Opaque: "s3"}}}, result(text("rain"))}},
	} {
		var call dialect.Call
		got, err := (&Request{Call: &call}).messages(At("messages"), fastjson.MustParse(c.in))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.name, diff)
		}
		if strings.Join(call.Ignored, " ") != c.ignored {
			t.Errorf("%s: ignored %q", c.name, call.Ignored)
		}
	}
}

// TestRefusals compares the refusals with the golden file: each line is a value, then
// its error.
func TestRefusals(t *testing.T) {
	user := func(part string) string { return `[{"role":"user","content":[` + part + `]}]` }
	said := func(members string) string { return `[{"role":"assistant",` + members + `}]` }
	function := func(members string) string { return `[{"type":"function","function":{` + members + `}}]` }
	many := func(n int, element string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(element+",", n), ",") + "]"
	}
	var out strings.Builder
	for _, c := range []struct {
		what   string
		values []string
	}{
		{"messages", []string{
			`{}`, `["hi"]`, `[{}]`, `[{"role":1}]`, `[{"role":"function","name":"f","content":"x"}]`, `[{"role":"bot","content":"x"}]`,
			`[{"role":"user"}]`, `[{"role":"user","content":null}]`, `[{"role":"user","content":1}]`, `[{"role":"user","content":[]}]`,
			`[{"role":"user","content":"a","tool_calls":[]}]`, `[{"role":"user","content":"a","tool_call_id":"x"}]`, `[{"role":"user","content":"a","x\ny":1}]`,
			user(`"a"`), user(`{}`), user(`{"type":"video"}`), user(`{"type":"refusal","refusal":"a"}`), user(`{"type":"text"}`), user(`{"type":"text","text":null}`), user(`{"type":"text","text":"a","more":1}`),
			`[{"role":"system","content":[{"type":"image_url","image_url":{"url":"https://x.test"}}]}]`,
			user(`{"type":"image_url","image_url":"https://x.test"}`), user(`{"type":"image_url","image_url":{}}`), user(`{"type":"image_url","image_url":{"url":"https://x.test","detail":"most"}}`), user(`{"type":"image_url","image_url":{"url":"https://x.test","size":1}}`),
			user(`{"type":"image_url","image_url":{"url":"ftp://x.test"}}`), user(`{"type":"image_url","image_url":{"url":"https://"}}`), user(`{"type":"image_url","image_url":{"url":"http://x.test/a b"}}`),
			user(`{"type":"image_url","image_url":{"url":"data:image/png"}}`), user(`{"type":"image_url","image_url":{"url":"data:image/png,a"}}`), user(`{"type":"image_url","image_url":{"url":"data:;base64,aGk="}}`), user(`{"type":"image_url","image_url":{"url":"data:image/p ng;base64,aGk="}}`),
			user(`{"type":"image_url","image_url":{"url":"data:image/png;base64,"}}`), user(`{"type":"image_url","image_url":{"url":"data:image/png;base64,aG-k"}}`), user(`{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk"}}`), user(`{"type":"image_url","image_url":{"url":"data:image/png;base64,a==="}}`), user(`{"type":"image_url","image_url":{"url":"data:text/html;base64,aGk="}}`),
			user(`{"type":"input_audio","input_audio":{"data":"aGkh","format":"flac"}}`), user(`{"type":"input_audio","input_audio":{"format":"wav"}}`), user(`{"type":"input_audio","input_audio":{"data":"a","format":"wav"}}`),
			user(`{"type":"file","file":{"file_id":"file-1"}}`), user(`{"type":"file","file":{}}`), user(`{"type":"file","file":{"file_data":"aGk=","filename":"a.pdf"}}`), user(`{"type":"file","file":{"file_data":"https://x.test","filename":1}}`),
			said(`"name":"x"`), said(`"content":{}`), said(`"function_call":{"name":"f"}`), said(`"content":"a","audio":{"id":"x"}`), said(`"tool_calls":{}`), said(`"content":"a","thoughts":1`),
			said(`"tool_calls":[{"type":"custom","id":"a"}]`), said(`"tool_calls":[{"type":"function"}]`), said(`"tool_calls":[{"id":"","function":{}}]`), said(`"tool_calls":[{"id":"a","function":{"name":""}}]`), said(`"tool_calls":[{"id":"a","function":{"name":"f","arguments":{}}}]`), said(`"tool_calls":[{"id":"a","function":{"name":"f","arguments":"","x":1}}]`), said(`"tool_calls":[{"id":"a","x":1}]`),
			said(`"tool_calls":` + many(MaxCalls+1, call7)), said(`"content":"a","reasoning_details":` + many(maxDetails+1, `{}`)),
			said(`"content":"a","reasoning_details":[{"type":"reasoning.summary"}]`), said(`"content":"a","reasoning_details":[{"type":"reasoning.text"}]`), said(`"content":"a","reasoning_details":[{"type":"reasoning.encrypted","data":""}]`), said(`"content":"a","reasoning_details":[{"type":"reasoning.text","text":"","x":1}]`), said(`"content":"a","reasoning_content":1`), said(`"refusal":1`),
			`[{"role":"tool","content":"x"}]`, `[{"role":"tool","tool_call_id":"c7","content":"x"}]`, `[{"role":"tool","tool_call_id":"c7"}]`, `[{"role":"tool","tool_call_id":"c7","content":[{"type":"file"}]}]`,
			said(`"tool_calls":[` + call7 + `]`),
			`[{"role":"assistant","tool_calls":[` + call7 + `]},{"role":"user","content":"a"}]`,
			`[{"role":"assistant","tool_calls":[` + call7 + `]},{"role":"assistant","content":"a"}]`,
			`[{"role":"assistant","tool_calls":[` + call7 + `]},{"role":"tool","tool_call_id":"c8","content":"a"}]`,
			`[{"role":"assistant","tool_calls":[` + call7 + `]},{"role":"tool","tool_call_id":"c7","content":"a"},{"role":"tool","tool_call_id":"c7","content":"a"}]`,
			`[{"role":"assistant","tool_calls":[` + call7 + `]},{"role":"tool","tool_call_id":"c7","content":"a"},{"role":"user","content":"a"},{"role":"tool","tool_call_id":"c7","content":"a"}]`,
		}},
		{"tools", []string{
			`{}`, `["f"]`, `[{}]`, `[{"type":"custom","custom":{"name":"a"}}]`, `[{"type":"web_search"}]`, `[{"type":"function"}]`, `[{"type":"function","function":{"name":"f"},"x":1}]`,
			function(``), function(`"name":"1st"`), function(`"name":""`), function(`"name":"` + strings.Repeat("n", 65) + `"`), function(`"name":"f","parameters":[]`), function(`"name":"f","parameters":{"type":"string"}`), function(`"name":"f","parameters":{"properties":{}}`), function(`"name":"f","strict":"yes"`), function(`"name":"f","description":1`), function(`"name":"f","x":1`),
			`[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}]`, many(MaxTools+1, `{}`),
		}},
		{"flat tools", []string{`[{"type":"function"}]`, `[{"type":"function","name":"f","x":1}]`, `[{"type":"function","function":{"name":"f"}}]`}},
		{"tool_choice", []string{
			`1`, `"any"`, `{}`, `{"type":"custom","custom":{"name":"f"}}`, `{"type":"function"}`, `{"type":"function","function":{"name":"f","x":1}}`, `{"type":"function","function":{"name":"-"}}`, `{"type":"function","name":"f"}`,
			`{"type":"allowed_tools"}`, `{"type":"allowed_tools","x":1}`, `{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}}`,
			`{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[]}}`, `{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]}}`, `{"type":"allowed_tools","allowed_tools":{"mode":"required","x":1}}`, `{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"mcp"}]}}`,
		}},
		{"flat tool_choice", []string{`{"type":"function","name":"f","x":1}`, `{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":""}]}`, `{"type":"file_search"}`}},
		{"parameters", []string{
			`[]`, `{"model":"x"}`, `{"temperature":"1"}`, `{"temperature":2.1}`, `{"top_p":-0.1}`, `{"frequency_penalty":3}`, `{"presence_penalty":-3}`, `{"max_tokens":0}`, `{"max_tokens":1.5}`, `{"max_tokens":"9"}`, `{"max_tokens":1,"max_completion_tokens":1}`, `{"max_completion_tokens":0}`, `{"top_k":-1}`, `{"seed":1e300}`,
			`{"stop":1}`, `{"stop":""}`, `{"stop":["a","b","c","d","e"]}`, `{"stop":["a",2]}`, `{"reasoning_effort":"most"}`, `{"parallel_tool_calls":1}`, `{"logprobs":1}`, `{"top_logprobs":1}`, `{"logprobs":false,"top_logprobs":1}`, `{"logprobs":true,"top_logprobs":21}`,
			`{"response_format":"json"}`, `{"response_format":{"type":"xml"}}`, `{"response_format":{}}`, `{"response_format":{"type":"json_object","json_schema":{}}}`, `{"response_format":{"type":"json_schema"}}`, `{"response_format":{"type":"json_schema","json_schema":{"name":"a b"}}}`, `{"response_format":{"type":"json_schema","json_schema":{"name":"a"}}}`, `{"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"type":"array"}}}}`, `{"response_format":{"type":"json_schema","json_schema":{"x":1}}}`, `{"response_format":{"type":"json_schema","json_schema":{"strict":1}}}`,
		}},
		{"flat format", []string{`1`, `{"type":"json_object","name":"a"}`, `{"type":"json_schema","name":"a"}`, `{"type":"json_schema","name":"a","x":1}`, `{"type":"grammar"}`}},
	} {
		fmt.Fprintf(&out, "# %s\n", c.what)
		for _, in := range c.values {
			err := read(c.what, fastjson.MustParse(in))
			if err == nil {
				t.Errorf("%s %s is not refused", c.what, in)
				continue
			}
			if len(in) > 300 {
				in = in[:100] + "…"
			}
			fmt.Fprintf(&out, "%s\n\t%s: %s\n", in, err.Param, err.Message)
		}
	}
	golden(t, "refusals.txt", out.String())
}

// golden compares a text with a file of testdata. UPDATE=1 writes the file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s: -want +got\n%s", file, diff)
	}
}

// TestDataIsNotCopied holds that inline data is a view of the request.
func TestDataIsNotCopied(t *testing.T) {
	v := fastjson.MustParse(`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("QUJD", 1000) + `"}},{"type":"text","text":"a"}]}]`)
	url := v.GetStringBytes("0", "content", "0", "image_url", "url")
	got, err := (&Request{Call: new(dialect.Call)}).messages(At("messages"), v)
	if err != nil {
		t.Fatal(err)
	}
	data := got[0].Parts[0].Media.Data
	if len(data) != 4000 || unsafe.StringData(data) != &url[len(url)-4000] {
		t.Error("the data is a copy")
	}
}

// conversation returns 200 messages with 1 MiB in all: questions, tool calls, results
// and answers.
func conversation() string {
	text := strings.Repeat("The quick brown fox jumps over the dog.\\n", 200)
	turn := []string{
		`{"role":"user","content":"` + text + `"}`,
		`{"role":"assistant","content":null,"tool_calls":[` + call7 + `]}`,
		`{"role":"tool","tool_call_id":"c7","content":"` + text + `"}`,
		`{"role":"assistant","content":"` + text[:4100] + `"}`,
	}
	return "[" + strings.Join(slices.Repeat(turn, 50), ",") + "]"
}

func TestMessagesAllocations(t *testing.T) {
	for _, c := range []struct {
		name, in string
		ceiling  float64
	}{
		{"small", `[{"role":"user","content":"Hello"}]`, 1},
		{"image", `[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"https://x.test"}}]}]`, 2},
		{"200 messages", conversation(), 12},
	} {
		of := wire.AcquireRequest()
		if err := of.ReadBody(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader(`{"messages":`+c.in+`}`)), 64<<20, time.Minute, 0, nil); err != nil {
			t.Fatal(err)
		}
		body, err := of.Conversation()
		if err != nil {
			t.Fatal(err)
		}
		v, r := body.Get("messages"), &Request{Wire: of, Call: new(dialect.Call)}
		if n := testing.AllocsPerRun(20, func() {
			if _, err := r.messages(At("messages"), v); err != nil {
				t.Fatal(err)
			}
		}); n > c.ceiling {
			t.Errorf("%s: %v allocations, at most %v are meant", c.name, n, c.ceiling)
		}
	}
}

func BenchmarkMessages(b *testing.B) {
	for name, in := range map[string]string{"small": `[{"role":"user","content":"Hello"}]`, "200": conversation()} {
		b.Run(name, func(b *testing.B) {
			var p fastjson.Parser
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				v, err := p.Parse(in)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := (&Request{Call: new(dialect.Call)}).messages(At("messages"), v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
