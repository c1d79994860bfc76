package bedrock

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// file is a file with a name, and document its block in the request.
func file(name string) providers.Part {
	return pt.Media(providers.PartFile, providers.Media{Type: "application/pdf", Data: "JVBERi0=", Name: name})
}

func document(name string) string {
	return `{"document":{"format":"pdf","name":"` + name + `","source":{"bytes":"JVBERi0="}}}`
}

const (
	png    = "iVBORw0KGgo="
	signed = `{"reasoningContent":{"reasoningText":{"text":"Hm.","signature":"EqQB/+=="}}}`
	hidden = `{"reasoningContent":{"redactedContent":"EmwK"}}`
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
		{"texts", []providers.Message{pt.Message("user", pt.Text("a"), pt.Text(" "), pt.Text("b"))}, `[{"role":"user","content":[{"text":"a"},{"text":"b"}]}]`},
		{"white space alone", []providers.Message{user, pt.Message("assistant", pt.Text("\n\n"), pt.Call("t1", "f", "{}")), pt.Message("tool", pt.Result("t1", pt.Text("x"))), {Role: "assistant", Content: `\n\n`}, {Role: "user", Content: "b"}},
			`[{"role":"user","content":[{"text":"a"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"t1","name":"f","input":{}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"t1","content":[{"text":"x"}]}},{"text":"b"}]}]`},
		{"images", []providers.Message{pt.Message("user", pt.Text("What is it?"), pt.Media(providers.PartImage, providers.Media{Type: "image/png", Data: png, Detail: "auto"}), pt.Media(providers.PartImage, providers.Media{Type: "image/jpg", Data: png}))},
			`[{"role":"user","content":[{"text":"What is it?"},{"image":{"format":"png","source":{"bytes":"iVBORw0KGgo="}}},{"image":{"format":"jpeg","source":{"bytes":"iVBORw0KGgo="}}}]}]`},
		{"data that would end its string", []providers.Message{pt.Message("user", pt.Media(providers.PartImage, providers.Media{Type: "image/gif", Data: `"}},{"x":"`}))},
			`[{"role":"user","content":[{"image":{"format":"gif","source":{"bytes":"\"}},{\"x\":\""}}}]}]`},
		{"files", []providers.Message{pt.Message("user", pt.Text("?"), pt.Media(providers.PartFile, providers.Media{Type: "application/pdf", Data: "JVBERi0=", Name: `the  "é" report_1.pdf`}), pt.Media(providers.PartFile, providers.Media{Type: "text/markdown; charset=utf-8", Data: "Iw=="}), pt.Media(providers.PartFile, providers.Media{Type: "text/csv", Data: "Iw=="}))},
			`[{"role":"user","content":[{"text":"?"},{"document":{"format":"pdf","name":"the --- report-1-pdf","source":{"bytes":"JVBERi0="}}},{"document":{"format":"md","name":"document","source":{"bytes":"Iw=="}}},{"document":{"format":"csv","name":"document (2)","source":{"bytes":"Iw=="}}}]}]`},
		{"files with one name", []providers.Message{pt.Message("user", pt.Text("?"), file("a"), file("a"), file("a (2)"), file("a"))},
			`[{"role":"user","content":[{"text":"?"},` + document("a") + "," + document("a (2)") + "," + document("a (2) (2)") + "," + document("a (3)") + `]}]`},
		{"tool calls", []providers.Message{user, pt.Message("assistant", pt.Text("Let me see."), pt.Call("t1", "f", ` {"x": [1.0]} `), pt.Call("a.b:0", "g", ""))},
			`[{"role":"user","content":[{"text":"a"}]},{"role":"assistant","content":[{"text":"Let me see."},{"toolUse":{"toolUseId":"t1","name":"f","input": {"x": [1.0]} }},{"toolUse":{"toolUseId":"call_3cd44bcb2626b86f79de9139ca632c87","name":"g","input":{}}}]}]`},
		{"results join the turn of the user, before its other parts", []providers.Message{user, pt.Message("assistant", pt.Call("t1", "f", "{}"), pt.Call("t2", "f", "{}")), {Role: "user", Content: "Hurry."}, pt.Message("tool", pt.Result("t1", pt.Text("1"))), {Role: "system", Content: "s"}, pt.Message("tool", pt.Result("t2", pt.Text("2"))), {Role: "user", Content: "b"}},
			`[{"role":"user","content":[{"text":"a"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"t1","name":"f","input":{}}},{"toolUse":{"toolUseId":"t2","name":"f","input":{}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"t1","content":[{"text":"1"}]}},{"toolResult":{"toolUseId":"t2","content":[{"text":"2"}]}},{"text":"Hurry."},{"text":"b"}]}],"system":[{"text":"s"}]`},
		{"results", []providers.Message{pt.Message("tool", pt.Result("t1"), failed, pt.Result("t1", pt.Text("")), pt.Result("t1", pt.Text("x"), pt.Media(providers.PartImage, providers.Media{Type: "image/webp", Data: png}), pt.Media(providers.PartFile, providers.Media{Type: "text/plain", Data: "Iw=="})))},
			`[{"role":"user","content":[{"toolResult":{"toolUseId":"t1","content":[]}},{"toolResult":{"toolUseId":"t1","content":[{"text":"No."}],"status":"error"}},{"toolResult":{"toolUseId":"t1","content":[]}},{"toolResult":{"toolUseId":"t1","content":[{"text":"x"},{"image":{"format":"webp","source":{"bytes":"iVBORw0KGgo="}}},{"document":{"format":"txt","name":"document","source":{"bytes":"Iw=="}}}]}}]}]`},
		{"thoughts", []providers.Message{user, pt.Message("assistant", pt.Text("b"), pt.Thinking("Hm.", signed), pt.Thinking("", hidden), pt.Call("t1", "f", "{}"))},
			`[{"role":"user","content":[{"text":"a"}]},{"role":"assistant","content":[` + signed + `,` + hidden + `,{"text":"b"},{"toolUse":{"toolUseId":"t1","name":"f","input":{}}}]}]`},
		{"thoughts between calls", []providers.Message{user, pt.Message("assistant", pt.Thinking("", hidden), pt.Thinking("Hm.", "@1,1:"+signed), pt.Text("bc"), pt.Call("t1", "f", "{}"), pt.Call("t2", "f", "{}"))},
			`[{"role":"user","content":[{"text":"a"}]},{"role":"assistant","content":[` + hidden + `,{"text":"b"},{"toolUse":{"toolUseId":"t1","name":"f","input":{}}},` + signed + `,{"text":"c"},{"toolUse":{"toolUseId":"t2","name":"f","input":{}}}]}]`},
		{"thoughts of others", []providers.Message{user, pt.Message("assistant", pt.Thinking("Hm.", ""), pt.Thinking("Hm.", "EqQB"), pt.Thinking("Hm.", signed[:40]), pt.Thinking("", hidden+","+hidden), pt.Thinking("", `{"text":"x"}`), pt.Text("b"))},
			`[{"role":"user","content":[{"text":"a"}]},{"role":"assistant","content":[{"text":"b"}]}]`},
		{"texts of the system", []providers.Message{pt.Message("system", pt.Text(" "), pt.Text("s"), pt.Text("t")), user, {Role: "developer", Content: "d"}},
			`[{"role":"user","content":[{"text":"a"}]}],"system":[{"text":"s"},{"text":"t"},{"text":"d"}]`},
	} {
		t.Run(test.name, func(t *testing.T) {
			req := &providers.Request{Model: testModel, Messages: test.messages, Parameters: providers.Parameters{Tools: []providers.Tool{{Name: "f"}}}}
			got, r := pt.Sent(t, answer("fine", "end_turn", 1, 1), req, func(base string) providers.Provider { return client(t, base) })
			want := `{"messages":` + test.want + `,"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object","properties":{}}}}}]}}`
			if diff := cmp.Diff(want, got.Body); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if !json.Valid([]byte(got.Body)) || r.LeftOut != nil {
				t.Errorf("JSON: %v, left out %q", json.Valid([]byte(got.Body)), r.LeftOut)
			}
		})
	}
}

// TestMediaInResults checks where the media of results are: in them for models that take
// them there, else behind the results of the turn. What Converse takes nowhere becomes a
// text, and its message is named.
func TestMediaInResults(t *testing.T) {
	image := pt.Media(providers.PartImage, providers.Media{Type: "image/png", Data: png})
	byURL := pt.Media(providers.PartImage, providers.Media{URL: "https://x.example/a.png"})
	zip := pt.Media(providers.PartFile, providers.Media{Type: "application/zip", Data: "UEsD", Name: "a.zip"})
	messages := []providers.Message{
		pt.Message("user", pt.Text("a")), pt.Message("assistant", pt.Call("t1", "f", "{}"), pt.Call("t2", "f", "{}")),
		pt.Message("tool", pt.Result("t1", pt.Text("x"), image)), pt.Message("tool", pt.Result("t2", byURL, zip)), {Role: "user", Content: "b"},
	}
	const shown, url, file = `{"image":{"format":"png","source":{"bytes":"iVBORw0KGgo="}}}`,
		`{"text":"[image at https://x.example/a.png: it can't be shown to the model]"}`, `{"text":"[file a.zip application/zip, 3 bytes: it can't be shown to the model]"}`
	within := `{"toolResult":{"toolUseId":"t1","content":[{"text":"x"},` + shown + `]}},{"toolResult":{"toolUseId":"t2","content":[` + url + `,` + file + `]}},{"text":"b"}`
	behind := `{"toolResult":{"toolUseId":"t1","content":[{"text":"x"},{"text":"[image image/png, 8 bytes: it follows the results]"}]}},` +
		`{"toolResult":{"toolUseId":"t2","content":[{"text":"[image at https://x.example/a.png: it follows the results]"},{"text":"[file a.zip application/zip, 3 bytes: it follows the results]"}]}},` +
		`{"text":"From the result of f:"},` + shown + `,{"text":"From the result of f:"},` + url + `,` + file + `,{"text":"b"}`
	for model, want := range map[string]string{
		"anthropic.claude-sonnet-4-20250514-v1:0": within, "eu.anthropic.claude-3-haiku-20240307-v1:0": within, "us.amazon.nova-pro-v1:0": within,
		"arn:aws:bedrock:eu-west-1:1:application-inference-profile/x": within,
		"us.meta.llama4-maverick-17b-instruct-v1:0":                   behind, "mistral.pixtral-large-2502-v1:0": behind,
	} {
		req := &providers.Request{Model: model, Messages: messages, Parameters: providers.Parameters{Tools: []providers.Tool{{Name: "f"}}}}
		got, r := pt.Sent(t, answer("fine", "end_turn", 1, 1), req, func(base string) providers.Provider { return client(t, base) })
		if !strings.Contains(got.Body, `{"role":"user","content":[`+want+`]}`) || !json.Valid([]byte(got.Body)) {
			t.Errorf("%s got\n%s\nwant\n%s", model, got.Body, want)
		}
		if diff := cmp.Diff([]string{"media in message 4"}, r.LeftOut); diff != "" {
			t.Errorf("%s: %s", model, diff)
		}
	}
}

func TestPartsThatConverseDoesNotHave(t *testing.T) {
	user, other := pt.Message("user", pt.Text("a")), pt.Media(providers.PartImage, providers.Media{Type: "image/png", Data: png})
	var tests []pt.Unsendable
	for want, m := range map[string]providers.Message{
		"bedrock takes no audio, which message 2 has":                     pt.Message("user", pt.Media(providers.PartAudio, providers.Media{Type: "audio/wav", Data: "UklG"})),
		"takes no images by URL, which message 2 has":                     pt.Message("user", pt.Media(providers.PartImage, providers.Media{URL: "https://x.example/a"})),
		"takes no images of the type image/svg+xml":                       pt.Message("user", pt.Media(providers.PartImage, providers.Media{Type: "image/svg+xml", Data: png})),
		"takes no images of an unusual type":                              pt.Message("user", pt.Media(providers.PartImage, providers.Media{Type: "png", Data: png})),
		"takes no files by URL, which message 2 has":                      pt.Message("user", pt.Media(providers.PartFile, providers.Media{URL: "https://x.example/a.pdf"})),
		"takes no files of an unusual type":                               pt.Message("user", pt.Media(providers.PartFile, providers.Media{Type: "application/x-secret", Data: "UEsD"})),
		"takes no files of the type application/zip":                      pt.Message("user", pt.Media(providers.PartFile, providers.Media{Type: "application/zip", Data: "UEsD"})),
		"takes no image of the assistant, which message 2 has":            pt.Message("assistant", other),
		"takes no image of the system, which message 2 has":               pt.Message("system", other),
		"takes no tool_call, which message 2 has":                         pt.Message("user", pt.Call("t", "f", "{}")),
		"message 2 has a tool call whose arguments are not a JSON object": pt.Message("assistant", pt.Call("t", "f", `{"a":`)),
	} {
		tests = append(tests, pt.Unsendable{Name: want, Want: want, Request: providers.Request{Model: testModel, Messages: []providers.Message{user, m}}})
	}
	subject.CheckUnsendable(t, tests)
}

func TestLeftOutOfMessagesAndTools(t *testing.T) {
	image := pt.Message("user", pt.Media(providers.PartImage, providers.Media{Type: "image/png", Data: png, Detail: "low"}))
	p := providers.Parameters{Tools: pt.Tools(), ToolChoice: &providers.ToolChoice{Mode: providers.ToolsNone}, ParallelToolCalls: new(false), Logprobs: new(int64(1))}
	req := providers.Request{Model: testModel, Messages: []providers.Message{image}, Parameters: p}
	_, r := pt.Sent(t, answer("fine", "end_turn", 1, 1), &req, func(base string) providers.Provider { return client(t, base) })
	if diff := cmp.Diff([]string{"parallel_tool_calls", "logprobs", "tools", "detail"}, r.LeftOut); diff != "" {
		t.Error(diff)
	}
}

// TestAConversationWithCallsHasTools checks a request whose history has
// tools, but which allows none to be called.
func TestAConversationWithCallsHasTools(t *testing.T) {
	messages := []providers.Message{
		{Role: "user", Content: "a"}, pt.Message("assistant", pt.Call("t1", `a"b`, "{}"), pt.Call("t2", "c", "{}")), pt.Message("tool", pt.Result("t1"), pt.Result("t2")),
	}
	const spec = `"inputSchema":{"json":{"type":"object","properties":{}}}}}`
	none := providers.Parameters{Tools: []providers.Tool{{Name: "c"}}, ToolChoice: &providers.ToolChoice{Mode: providers.ToolsNone}}
	whole := toolAnswer("", []providers.ToolCall{{ID: "t", Name: "c", Arguments: "{}"}})
	stream := streamed(append(toolBlock(0, providers.ToolCall{ID: "t", Name: "c", Arguments: "{}"}), stop("tool_use"), metadata(9, 2))...)
	for _, test := range []struct {
		name       string
		parameters providers.Parameters
		want       string
	}{
		{"no tools", providers.Parameters{}, `,"toolConfig":{"tools":[{"toolSpec":{"name":"a\"b",` + spec + `,{"toolSpec":{"name":"c",` + spec + `,{"toolSpec":{"name":"f",` + spec + `]}}`},
		{"tools that may not be called", none, `,"toolConfig":{"tools":[{"toolSpec":{"name":"c",` + spec + `]}}`},
	} {
		req := &providers.Request{Model: testModel, Messages: messages, Parameters: test.parameters}
		connect := func(base string) providers.Provider { return client(t, base) }
		got, r := pt.Sent(t, answer("fine", "end_turn", 1, 1), req, connect)
		if !strings.HasSuffix(got.Body, test.want) || !json.Valid([]byte(got.Body)) || r.LeftOut != nil {
			t.Errorf("%s: left out %q, %s, want %s", test.name, r.LeftOut, got.Body, test.want)
		}
		for _, reply := range []pt.Reply{whole, stream} {
			asking := pt.Subject{Name: "bedrock", Connect: subject.Connect, Request: *req}
			asking.CheckBrokenCalls(t, map[string]pt.Reply{test.name: reply})
		}
	}
	own := &providers.Request{Model: testModel, Messages: messages, Extra: pt.Extra("toolConfig", `{"tools":[]}`)}
	if got, _ := pt.Sent(t, answer("fine", "end_turn", 1, 1), own, func(base string) providers.Provider { return client(t, base) }); strings.Count(got.Body, "toolConfig") != 1 {
		t.Error(got.Body)
	}
}

func TestExtraMessages(t *testing.T) {
	req := &providers.Request{Model: testModel, Messages: pt.Messages("system", "s"), Extra: pt.Extra("messages", `[]`)}
	sent := func() string {
		got, _ := pt.Sent(t, answer("fine", "end_turn", 1, 1), req, func(base string) providers.Provider { return client(t, base) })
		return got.Body
	}
	if got := sent(); got != `{"system":[{"text":"s"}],"messages":[]}` {
		t.Error(got)
	}
	req.Extra["system"] = json.RawMessage(`[]`)
	if got := sent(); got != `{"messages":[],"system":[]}` {
		t.Error(got)
	}
}
