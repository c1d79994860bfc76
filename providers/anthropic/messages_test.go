package anthropic

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// bodyOf is the body of a request with the messages and a tool, short to read.
func bodyOf(t testing.TB, messages ...providers.Message) (body string, leftOut []string, err error) {
	t.Helper()
	req := &providers.Request{Model: "m", Messages: messages, Parameters: providers.Parameters{Tools: []providers.Tool{{Name: "f"}}}}
	b, leftOut, err := client(t, "http://localhost").body(req)
	body = strings.TrimSuffix(string(b), `,"max_tokens":8192,"model":"m","tools":[{"name":"f","input_schema":{"type":"object","properties":{}}}]}`)
	return strings.TrimPrefix(body, `{"messages":`), leftOut, err
}

const (
	png    = "iVBORw0KGgo="
	signed = `{"type":"thinking","thinking":"Hm.","signature":"EqQB/+=="}`
	hidden = `{"type":"redacted_thinking","data":"EmwK"}`
)

func TestParts(t *testing.T) {
	user := pt.Message("user", pt.Text("a"))
	failed := pt.Result("t1", pt.Text("No."))
	failed.Result.Failed = true
	for _, test := range []struct {
		name     string
		messages []providers.Message
		want     string
	}{
		{"a text", []providers.Message{user}, `[{"role":"user","content":"a"}]`},
		{"texts", []providers.Message{pt.Message("user", pt.Text("a"), pt.Text(""), pt.Text("b"))},
			`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`},
		{"white space alone", []providers.Message{pt.Message("user", pt.Text("a"), pt.Text(" \n")), pt.Message("assistant", pt.Text("\n\n"), pt.Call("t1", "f", "{}")), pt.Message("tool", pt.Result("t1", pt.Text("x"))), {Role: "assistant", Content: `\n\n`}, {Role: "user", Content: "b"}},
			`[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"x"},{"type":"text","text":"b"}]}]`},
		{"images", []providers.Message{pt.Message("user", pt.Media(providers.PartImage, providers.Media{URL: "https://x.example/a.png?b=\"&c", Detail: "auto"}), pt.Text("What is it?"), pt.Media(providers.PartImage, providers.Media{Type: "image/png", Data: png}), pt.Media(providers.PartImage, providers.Media{Type: "image/JPG", Data: png}))},
			`[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://x.example/a.png?b=\"&c"}},{"type":"text","text":"What is it?"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}},{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"iVBORw0KGgo="}}]}]`},
		{"an image alone", []providers.Message{pt.Message("user", pt.Media(providers.PartImage, providers.Media{Type: "image/png", Data: png}))},
			`[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]}]`},
		{"data that would end its string", []providers.Message{pt.Message("user", pt.Media(providers.PartImage, providers.Media{Type: `image/png"}`, Data: `"},{"x":"`}))},
			`[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png\"}","data":"\"},{\"x\":\""}}]}]`},
		{"files", []providers.Message{pt.Message("user", pt.Media(providers.PartFile, providers.Media{Type: "application/pdf", Data: "JVBERi0=", Name: `a "b".pdf`}), pt.Media(providers.PartFile, providers.Media{URL: "https://x.example/a.pdf"}), pt.Media(providers.PartFile, providers.Media{URL: "https://x.example/b", Type: "application/PDF"}),
			pt.Media(providers.PartFile, providers.Media{Type: "text/markdown; charset=utf-8", Data: base64.StdEncoding.EncodeToString([]byte("# \"ü\"\n"))}), pt.Media(providers.PartFile, providers.Media{Type: "application/json", Data: base64.StdEncoding.EncodeToString([]byte("{}"))}))},
			`[{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="},"title":"a \"b\".pdf"},{"type":"document","source":{"type":"url","url":"https://x.example/a.pdf"}},{"type":"document","source":{"type":"url","url":"https://x.example/b"}},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"# \"ü\"\n"}},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"{}"}}]}]`},
		{"tool calls", []providers.Message{user, pt.Message("assistant", pt.Text("Let me see."), pt.Call("t1", "f", ` {"x": [1.0, "é\u00e9"]} `), pt.Call("t2", "g", ""), pt.Call("t3", "g", "null"))},
			`[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"text","text":"Let me see."},{"type":"tool_use","id":"t1","name":"f","input": {"x": [1.0, "é\u00e9"]} },{"type":"tool_use","id":"t2","name":"g","input":{}},{"type":"tool_use","id":"t3","name":"g","input":{}}]}]`},
		{"results join the turn of the user, before its other parts", []providers.Message{user, pt.Message("assistant", pt.Call("t1", "f", "{}"), pt.Call("t2", "f", "{}")), {Role: "user", Content: "Hurry."}, pt.Message("tool", pt.Result("t1", pt.Text("1"))), {Role: "system", Content: "s"}, pt.Message("tool", pt.Result("t2", pt.Text("2"))), {Role: "user", Content: "b"}, {Role: "assistant", Content: "c"}},
			`[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{}},{"type":"tool_use","id":"t2","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"1"},{"type":"tool_result","tool_use_id":"t2","content":"2"},{"type":"text","text":"Hurry."},{"type":"text","text":"b"}]},{"role":"assistant","content":"c"}],"system":"s"`},
		{"results", []providers.Message{pt.Message("tool", pt.Result("t1"), failed, pt.Result("t1", pt.Text("")), pt.Result("t1", pt.Text(" ")), pt.Result("t1", pt.Text(""), pt.Text("")), pt.Result("t1", pt.Text("x"), pt.Media(providers.PartImage, providers.Media{Type: "image/png", Data: png}), pt.Media(providers.PartFile, providers.Media{URL: "https://x.example/a.pdf"})))},
			`[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"},{"type":"tool_result","tool_use_id":"t1","content":"No.","is_error":true},{"type":"tool_result","tool_use_id":"t1","content":""},{"type":"tool_result","tool_use_id":"t1","content":" "},{"type":"tool_result","tool_use_id":"t1","content":[]},{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"x"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}},{"type":"document","source":{"type":"url","url":"https://x.example/a.pdf"}}]}]}]`},
		{"ids of other services", []providers.Message{pt.Message("assistant", pt.Call("functions.f:0", "f", "{}")), pt.Message("tool", pt.Result("functions.f:0", pt.Text("1")))},
			`[{"role":"assistant","content":[{"type":"tool_use","id":"call_d6bdd4de328a22edd610f9548b4f419f","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_d6bdd4de328a22edd610f9548b4f419f","content":"1"}]}]`},
		{"thoughts", []providers.Message{user, pt.Message("assistant", pt.Text("b"), pt.Thinking("Hm.", signed), pt.Thinking("", hidden), pt.Call("t1", "f", "{}"))},
			`[{"role":"user","content":"a"},{"role":"assistant","content":[` + signed + `,` + hidden + `,{"type":"text","text":"b"},{"type":"tool_use","id":"t1","name":"f","input":{}}]}]`},
		{"thoughts between calls", []providers.Message{user, pt.Message("assistant", pt.Thinking("", hidden), pt.Thinking("Hm.", "@1,1:"+signed), pt.Text("bc"), pt.Call("t1", "f", "{}"), pt.Call("t2", "f", "{}"))},
			`[{"role":"user","content":"a"},{"role":"assistant","content":[` + hidden + `,{"type":"text","text":"b"},{"type":"tool_use","id":"t1","name":"f","input":{}},` + signed + `,{"type":"text","text":"c"},{"type":"tool_use","id":"t2","name":"f","input":{}}]}]`},
		{"thoughts of others", []providers.Message{user, pt.Message("assistant", pt.Thinking("Hm.", ""), pt.Thinking("Hm.", "EqQB"), pt.Thinking("Hm.", signed[:20]), pt.Thinking("", hidden+","+hidden), pt.Thinking("", `{"type":"text","text":"x"}`), pt.Text("b"))},
			`[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"text","text":"b"}]}]`},
		{"a thought alone", []providers.Message{user, pt.Message("assistant", pt.Thinking("Hm.", signed)), {Role: "user", Content: "b"}},
			`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]`},
		{"texts of the system", []providers.Message{pt.Message("system", pt.Text("s"), pt.Text(" "), pt.Text("t")), user, {Role: "developer", Content: "d"}},
			`[{"role":"user","content":"a"}],"system":[{"type":"text","text":"s"},{"type":"text","text":"t"},{"type":"text","text":"d"}]`},
		{"a text of the system, then none", []providers.Message{{Role: "system", Content: "s"}, {Role: "system", Content: `\n`}, user}, `[{"role":"user","content":"a"}],"system":"s"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, leftOut, err := bodyOf(t, test.messages...)
			if err != nil || leftOut != nil {
				t.Fatalf("left out %q, error %v", leftOut, err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if err := fastjson.Validate(`{"messages":` + got + `}`); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPartsThatTheAPIDoesNotHave(t *testing.T) {
	user, other := pt.Message("user", pt.Text("a")), pt.Media(providers.PartImage, providers.Media{URL: "https://x.example/a"})
	var tests []pt.Unsendable
	for want, m := range map[string]providers.Message{
		"anthropic takes no audio, which message 2 has":                           pt.Message("user", pt.Media(providers.PartAudio, providers.Media{Type: "audio/wav", Data: "UklG"})),
		"takes no files of an unusual type, which message 2 has":                  pt.Message("user", pt.Media(providers.PartFile, providers.Media{Type: "application/x-secret", Data: "UEsD"})),
		"takes no files of an unusual type by URL":                                pt.Message("user", pt.Media(providers.PartFile, providers.Media{Type: "application/x-secret", URL: "https://x.example/a"})),
		"has a file of an unusual type that is not UTF-8":                         pt.Message("user", pt.Media(providers.PartFile, providers.Media{Type: "text/x-secret", Data: "/w=="})),
		"takes no files of the type application/zip, which message 2 has":         pt.Message("user", pt.Media(providers.PartFile, providers.Media{Type: "application/zip", Data: "UEsD"})),
		"takes no files of the type text/plain by URL":                            pt.Message("user", pt.Media(providers.PartFile, providers.Media{Type: "text/plain", URL: "https://x.example/a"})),
		"message 2 has a file of the type text/plain that is not UTF-8 in base64": pt.Message("user", pt.Media(providers.PartFile, providers.Media{Type: "text/plain", Data: "/w=="})),
		"message 2 has a file of the type text/csv that is not UTF-8 in base64":   pt.Message("user", pt.Media(providers.PartFile, providers.Media{Type: "text/csv", Data: "/"})),
		"takes no image of the assistant, which message 2 has":                    pt.Message("assistant", other),
		"takes no image of the system, which message 2 has":                       pt.Message("system", other),
		"takes no tool_call, which message 2 has":                                 pt.Message("user", pt.Call("t", "f", "{}")),
		"takes no tool_result of the assistant":                                   pt.Message("assistant", pt.Result("t")),
		"message 2 has a tool call whose arguments are not a JSON object":         pt.Message("assistant", pt.Call("t", "f", `{"a":`)),
		"tool call whose arguments are not a JSON object":                         pt.Message("assistant", pt.Call("t", "f", `{},"x":{}`)),
		"has a tool call whose arguments are not a JSON object":                   pt.Message("assistant", pt.Call("t", "f", `[1]`)),
	} {
		tests = append(tests, pt.Unsendable{Name: want, Want: want, Request: providers.Request{Model: "m", Messages: []providers.Message{user, m}}})
	}
	subject.CheckUnsendable(t, tests)
}

// TestMediaThatBecomeTexts checks that media of results that the API takes nowhere become
// texts, whose messages are named.
func TestMediaThatBecomeTexts(t *testing.T) {
	req := providers.Request{Model: "m", Messages: []providers.Message{
		pt.Message("user", pt.Text("a")), pt.Message("assistant", pt.Call("t1", "f", "{}")),
		pt.Message("tool", pt.Result("t1", pt.Media(providers.PartImage, providers.Media{Type: "image/png", Data: png}), pt.Media(providers.PartFile, providers.Media{Type: "application/zip", Data: "UEsD"}),
			pt.Media(providers.PartAudio, providers.Media{Type: "audio/wav", Data: "UklG"}))),
	}}
	got, r := pt.Sent(t, answer("fine", "end_turn", 1), &req, func(base string) providers.Provider { return client(t, base) })
	const want = `"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + png + `"}},` +
		`{"type":"text","text":"[file application/zip, 3 bytes: it can't be shown to the model]"},{"type":"text","text":"[audio audio/wav, 3 bytes: it can't be shown to the model]"}]`
	if !strings.Contains(got.Body, want) || !json.Valid([]byte(got.Body)) {
		t.Errorf("got %s, want %s", got.Body, want)
	}
	if diff := cmp.Diff([]string{"media in message 3"}, r.LeftOut); diff != "" {
		t.Error(diff)
	}
}

func TestDetailIsLeftOut(t *testing.T) {
	image := pt.Message("user", pt.Media(providers.PartImage, providers.Media{Type: "image/png", Data: png, Detail: "low"}))
	req := providers.Request{Model: "m", Messages: []providers.Message{image}, Parameters: providers.Parameters{Seed: new(int64(1))}}
	_, r := pt.Sent(t, answer("fine", "end_turn", 1), &req, func(base string) providers.Provider { return client(t, base) })
	if diff := cmp.Diff([]string{"seed", "detail"}, r.LeftOut); diff != "" {
		t.Error(diff)
	}
}

// TestAConversationWithCallsHasTools checks the tools of a request whose history has
// tools and which itself offers none.
func TestAConversationWithCallsHasTools(t *testing.T) {
	messages := []providers.Message{
		{Role: "user", Content: "a"}, pt.Message("assistant", pt.Call("t1", `a"b`, "{}"), pt.Call("t2", "c", "{}"), pt.Call("t3", "c", "{}")),
		pt.Message("tool", pt.Result("t1"), pt.Result("t2"), pt.Result("t3")),
	}
	const none = `{"type":"object","properties":{}}`
	for _, test := range []struct {
		extra []string
		want  string
	}{
		{nil, `"tool_choice":{"type":"none"},"tools":[{"name":"a\"b","input_schema":` + none + `},{"name":"c","input_schema":` + none + `},{"name":"f","input_schema":` + none + `}],"max_tokens":8192,"model":"m"}`},
		{[]string{"tools", "[]"}, `"max_tokens":8192,"model":"m","tools":[]}`},
		{[]string{"messages", "[]"}, `{"max_tokens":8192,"messages":[],"model":"m"}`},
	} {
		req := &providers.Request{Model: "m", Messages: messages, Extra: pt.Extra(test.extra...)}
		if got := sent(t, req).Body; !strings.HasSuffix(got, test.want) || !json.Valid([]byte(got)) {
			t.Errorf("%s, want %s", got, test.want)
		}
	}
	nameless := &providers.Request{Model: "m", Messages: []providers.Message{pt.Message("tool", providers.Part{Kind: providers.PartToolResult})}}
	if got := sent(t, nameless).Body; strings.Contains(got, "tools") {
		t.Error(got)
	}
}

func TestExtraMessages(t *testing.T) {
	req := &providers.Request{Model: "m", Messages: pt.Messages("system", "s"), Extra: pt.Extra("messages", `[{"role":"user","content":"x"}]`), Stream: true}
	want := `{"system":"s","max_tokens":8192,"messages":[{"role":"user","content":"x"}],"model":"m","stream":true}`
	if got := sent(t, req).Body; got != want {
		t.Error(got)
	}
	req.Extra["system"] = json.RawMessage(`"t"`)
	if got, want := sent(t, req).Body, `{"max_tokens":8192,"messages":[{"role":"user","content":"x"}],"model":"m","system":"t","stream":true}`; got != want {
		t.Error(got)
	}
}

func TestParallelToolCalls(t *testing.T) {
	for _, test := range []struct {
		parallel bool
		choice   *providers.ToolChoice
		want     string
	}{
		{true, nil, ""},
		{false, nil, `"tool_choice":{"disable_parallel_tool_use":true,"type":"auto"},`},
		{false, &providers.ToolChoice{Mode: providers.ToolsRequired}, `"tool_choice":{"disable_parallel_tool_use":true,"type":"any"},`},
		{false, &providers.ToolChoice{Mode: providers.ToolsNamed, Name: "f"}, `"tool_choice":{"disable_parallel_tool_use":true,"name":"f","type":"tool"},`},
		{false, &providers.ToolChoice{Mode: providers.ToolsNone}, `"tool_choice":{"type":"none"},`},
		{true, &providers.ToolChoice{Mode: providers.ToolsAuto}, `"tool_choice":{"type":"auto"},`},
	} {
		p := providers.Parameters{Tools: []providers.Tool{{Name: "f"}}, ToolChoice: test.choice, ParallelToolCalls: &test.parallel}
		got := sent(t, &providers.Request{Model: "m", Messages: hello, Parameters: p}).Body
		if want := `"model":"m",` + test.want + `"tools":[`; !strings.Contains(got, want) {
			t.Errorf("%v %+v: %s", test.parallel, test.choice, got)
		}
	}
}

// TestAnImageIsCopiedOnce holds that a large image goes into the body, and nowhere
// else.
func TestAnImageIsCopiedOnce(t *testing.T) {
	const size = 4 << 20
	m := pt.Message("user", pt.Text("What is it?"), pt.Media(providers.PartImage, providers.Media{Type: "image/png", Data: strings.Repeat("abcd", size/4)}))
	req := &providers.Request{Model: "m", Messages: []providers.Message{m}}
	c := client(t, "http://localhost")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, _, err := c.body(req); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > size*5/4 {
		t.Errorf("%d bytes are allocated for an image of %d", bytes, size)
	}
}

// FuzzParts has histories of any order. A body is JSON whose turns alternate, and in
// which no result follows another part.
func FuzzParts(f *testing.F) {
	f.Add("uUatar", "x", `{"a":1}`, signed)
	f.Add("hcrstu", "\n", "null", "@1,0:"+hidden)
	f.Add("ahchcr", "é", "{", "@0,1:"+signed)
	f.Fuzz(func(t *testing.T, kinds, said, arguments, opaque string) {
		var messages []providers.Message
		add := func(role string, p providers.Part, again bool) {
			if n := len(messages); again && n > 0 && messages[n-1].Role == role && messages[n-1].Parts != nil {
				messages[n-1].Parts = append(messages[n-1].Parts, p)
				return
			}
			messages = append(messages, pt.Message(role, p))
		}
		for _, kind := range kinds {
			switch kind {
			case 's':
				messages = append(messages, providers.Message{Role: "system", Content: providers.Escape(said)})
			case 'u':
				messages = append(messages, providers.Message{Role: "user", Content: providers.Escape(said)})
			case 'U':
				add("user", pt.Text(said), true)
			case 'i':
				add("user", pt.Media(providers.PartImage, providers.Media{Type: said, Data: arguments}), true)
			case 'f':
				add("user", pt.Media(providers.PartFile, providers.Media{Type: "text/plain", Data: said, Name: said}), true)
			case 'a':
				messages = append(messages, providers.Message{Role: "assistant", Content: providers.Escape(said)})
			case 't':
				add("assistant", pt.Text(said), true)
			case 'h':
				add("assistant", pt.Thinking(said, opaque), true)
			case 'c':
				add("assistant", pt.Call(said, said, arguments), true)
			case 'r':
				add("tool", pt.Result(said, pt.Text(said)), false)
			}
		}
		body, _, err := bodyOf(t, messages...)
		if _, refused := errors.AsType[*providers.Error](err); err != nil && !refused {
			t.Fatal(err)
		} else if refused {
			return
		}
		var got struct {
			Messages []struct {
				Role    string
				Content json.RawMessage
			}
		}
		if err := json.Unmarshal([]byte(`{"messages":`+body+"}"), &got); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
		last := ""
		for _, m := range got.Messages {
			if m.Role == last {
				t.Errorf("two turns of the %s in %s", m.Role, body)
			}
			last = m.Role
			if m.Content[0] == '"' {
				continue
			}
			var blocks []struct{ Type string }
			if err := json.Unmarshal(m.Content, &blocks); err != nil || len(blocks) == 0 {
				t.Fatalf("%d blocks, %v in %s", len(blocks), err, body)
			}
			for i := range blocks {
				if i > 0 && blocks[i].Type == "tool_result" && blocks[i-1].Type != "tool_result" {
					t.Errorf("a result after another part in %s", body)
				}
			}
		}
	})
}

func TestPrefix(t *testing.T) {
	subject.CheckPrefix(t, answer("fine", "end_turn", 1), "messages", true)
}
