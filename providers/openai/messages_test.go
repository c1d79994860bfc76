package openai

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// messagesOf is the list of messages that a service with quirks gets, without its
// brackets.
func messagesOf(t testing.TB, q Quirks, messages ...providers.Message) string {
	t.Helper()
	got := string(body(t, client(t, "http://localhost", func(c *Config) { c.Quirks = q }), &providers.Request{Messages: messages}))
	return strings.TrimSuffix(strings.TrimPrefix(got, beforeMessages), `]}`)
}

func TestParts(t *testing.T) {
	const signed = `{"type":"reasoning.text","format":"anthropic-claude-v1","index":0,"signature":"s\/="}`
	image := providers.Media{URL: "https://a.example/x.png?\"", Detail: "low"}
	inline := providers.Media{Data: "aGk=", Type: "image/png"}
	wav, pdf := providers.Media{Data: "UklG", Type: "audio/x-wav"}, providers.Media{Data: "JVBE", Type: "application/pdf", Name: "a \"b\".pdf"}
	byURL := providers.Media{URL: "https://a.example/b"}
	long := strings.Repeat("long", 20)
	for _, test := range []struct {
		name string
		q    Quirks
		m    []providers.Message
		want string
	}{
		{"texts", Quirks{}, []providers.Message{pt.Message("system", pt.Text("a")), pt.Message("user", pt.Text("b"), pt.Text("\"c\"")), pt.Message("user")},
			`{"content":"a","role":"system"},{"content":[{"text":"b","type":"text"},{"text":"\"c\"","type":"text"}],"role":"user"},{"content":"","role":"user"}`},
		{"images", Quirks{}, []providers.Message{pt.Message("user", pt.Media(providers.PartImage, image), pt.Text("?"), pt.Media(providers.PartImage, inline))},
			`{"content":[{"image_url":{"url":"https://a.example/x.png?\"","detail":"low"},"type":"image_url"},{"text":"?","type":"text"},{"image_url":{"url":"data:image/png;base64,aGk="},"type":"image_url"}],"role":"user"}`},
		{"sounds", Quirks{}, []providers.Message{pt.Message("user", pt.Media(providers.PartAudio, wav), pt.Media(providers.PartAudio, providers.Media{Data: "x", Type: "audio/mpeg"}))},
			`{"content":[{"input_audio":{"data":"UklG","format":"wav"},"type":"input_audio"},{"input_audio":{"data":"x","format":"mp3"},"type":"input_audio"}],"role":"user"}`},
		{"files", Quirks{}, []providers.Message{pt.Message("user", pt.Media(providers.PartFile, pdf)), pt.Message("user", pt.Media(providers.PartFile, providers.Media{Data: "x", Type: "text/plain"}))},
			`{"content":[{"file":{"file_data":"data:application/pdf;base64,JVBE","filename":"a \"b\".pdf"},"type":"file"}],"role":"user"},{"content":[{"file":{"file_data":"data:text/plain;base64,x","filename":"document"},"type":"file"}],"role":"user"}`},
		{"a file by URL", Quirks{FileURLs: true}, []providers.Message{pt.Message("user", pt.Media(providers.PartFile, byURL))},
			`{"content":[{"file":{"file_data":"https://a.example/b","filename":"document"},"type":"file"}],"role":"user"}`},
		{"Mistral's chunks", Quirks{Chunks: true}, []providers.Message{pt.Message("user", pt.Media(providers.PartAudio, wav), pt.Media(providers.PartAudio, byURL), pt.Media(providers.PartFile, pdf), pt.Media(providers.PartFile, byURL)), pt.Message("assistant", pt.Thinking("hm", ""), pt.Text("a"))},
			`{"content":[{"input_audio":"UklG","type":"input_audio"},{"input_audio":"https://a.example/b","type":"input_audio"},{"document_url":"data:application/pdf;base64,JVBE","document_name":"a \"b\".pdf","type":"document_url"},{"document_url":"https://a.example/b","type":"document_url"}],"role":"user"},` +
				`{"content":[{"thinking":[{"text":"hm","type":"text"}],"type":"thinking"},{"text":"a","type":"text"}],"role":"assistant"}`},
		{"tool calls", Quirks{}, []providers.Message{pt.Message("assistant", pt.Call("1", "f", `{"x":"y"}`), pt.Call("2", "g", "{}")), pt.Message("assistant", pt.Text("a"), pt.Call("3", "f", "{}"))},
			`{"content":null,"tool_calls":[{"id":"1","function":{"arguments":"{\"x\":\"y\"}","name":"f"},"type":"function"},{"id":"2","function":{"arguments":"{}","name":"g"},"type":"function"}],"role":"assistant"},` +
				`{"content":"a","tool_calls":[{"id":"3","function":{"arguments":"{}","name":"f"},"type":"function"}],"role":"assistant"}`},
		{"results", Quirks{}, []providers.Message{pt.Message("tool", pt.Result("1", pt.Text("a")), pt.Result("2"), pt.Result("3", pt.Text("a"), pt.Text("b")))},
			`{"content":"a","tool_call_id":"1","role":"tool"},{"content":"","tool_call_id":"2","role":"tool"},{"content":[{"text":"a","type":"text"},{"text":"b","type":"text"}],"tool_call_id":"3","role":"tool"}`},
		{"an image in a result", Quirks{ResultImages: true}, []providers.Message{pt.Message("tool", pt.Result("1", pt.Media(providers.PartImage, inline)))},
			`{"content":[{"image_url":{"url":"data:image/png;base64,aGk="},"type":"image_url"}],"tool_call_id":"1","role":"tool"}`},
		{"chunks in a result", Quirks{ResultImages: true, ResultFiles: true, Chunks: true}, []providers.Message{pt.Message("tool", pt.Result("1", pt.Text("a"), pt.Media(providers.PartFile, pdf)))},
			`{"content":[{"text":"a","type":"text"},{"document_url":"data:application/pdf;base64,JVBE","document_name":"a \"b\".pdf","type":"document_url"}],"tool_call_id":"1","role":"tool"}`},
		{"media behind results", Quirks{}, []providers.Message{
			pt.Message("tool", pt.Result("1", pt.Text("a"), pt.Media(providers.PartImage, inline), pt.Text("b")), pt.Result("2", pt.Text("c"), pt.Text("d"))), pt.Message("tool", pt.Result("3", pt.Media(providers.PartFile, pdf))),
			{Role: "user", Content: "And?"}, {Role: "assistant", Content: "Hm."}, pt.Message("tool", pt.Result("4", pt.Media(providers.PartImage, image))),
		}, `{"content":"a\n[image image/png, 2 bytes: it follows the results]\nb","tool_call_id":"1","role":"tool"},` +
			`{"content":[{"text":"c","type":"text"},{"text":"d","type":"text"}],"tool_call_id":"2","role":"tool"},` +
			`{"content":"[file a \"b\".pdf application/pdf, 3 bytes: it follows the results]","tool_call_id":"3","role":"tool"},` +
			`{"content":[{"text":"From the result of f:","type":"text"},{"image_url":{"url":"data:image/png;base64,aGk="},"type":"image_url"},{"text":"From the result of f:","type":"text"},{"file":{"file_data":"data:application/pdf;base64,JVBE","filename":"a \"b\".pdf"},"type":"file"}],"role":"user"},` +
			`{"content":"And?","role":"user"},{"content":"Hm.","role":"assistant"},` +
			`{"content":"[image at https://a.example/x.png?\": it follows the results]","tool_call_id":"4","role":"tool"},` +
			`{"content":[{"text":"From the result of f:","type":"text"},{"image_url":{"url":"https://a.example/x.png?\"","detail":"low"},"type":"image_url"}],"role":"user"}`},
		{"media that become texts", Quirks{NoImages: true, ResultImages: true}, []providers.Message{pt.Message("tool", pt.Result("1", pt.Media(providers.PartImage, image)), pt.Result("2", pt.Media(providers.PartFile, byURL)))},
			`{"content":"[image at https://a.example/x.png?\": it can't be shown to the model]","tool_call_id":"1","role":"tool"},{"content":"[file at https://a.example/b: it can't be shown to the model]","tool_call_id":"2","role":"tool"}`},
		{"short ids", Quirks{ShortIDs: true}, []providers.Message{pt.Message("assistant", pt.Call("abcDEF123", "f", "{}"), pt.Call("toolu_01", "f", "{}")), pt.Message("tool", pt.Result("toolu_01"))},
			`{"content":null,"tool_calls":[{"id":"abcDEF123","function":{"arguments":"{}","name":"f"},"type":"function"},{"id":"PKK3OA4WJ","function":{"arguments":"{}","name":"f"},"type":"function"}],"role":"assistant"},{"content":"","tool_call_id":"PKK3OA4WJ","role":"tool"}`},
		{"long ids", Quirks{}, []providers.Message{pt.Message("tool", pt.Result(long[:40]), pt.Result(long))},
			`{"content":"","tool_call_id":"` + long[:40] + `","role":"tool"},{"content":"","tool_call_id":"LKQ5ZZZIG37E3E27OFBKWG6DSJ7C5AFGYNMC2SIZ","role":"tool"}`},
		{"thoughts that are left out", Quirks{}, []providers.Message{pt.Message("assistant", pt.Thinking("hm", signed), pt.Text("a"))}, `{"content":"a","role":"assistant"}`},
		{"thoughts alone", Quirks{}, []providers.Message{pt.Message("assistant", pt.Thinking("hm", ""))}, `{"content":"","role":"assistant"}`},
		{"thoughts as a text", Quirks{Thoughts: "reasoning_content"}, []providers.Message{pt.Message("assistant", pt.Thinking("h\"", signed), pt.Thinking("m", ""), pt.Call("1", "f", "{}")), pt.Message("assistant", pt.Thinking("", signed), pt.Text("a"))},
			`{"content":null,"reasoning_content":"h\"m","tool_calls":[{"id":"1","function":{"arguments":"{}","name":"f"},"type":"function"}],"role":"assistant"},{"content":"a","role":"assistant"}`},
		{"OpenRouter's details", Quirks{Thoughts: reasoningDetails}, []providers.Message{
			pt.Message("assistant", pt.Thinking("h\"m", signed), pt.Thinking("of another service", ""), pt.Thinking("", `{"type":"reasoning.encrypted","data":"x"}`), pt.Thinking("s", `{"type":"reasoning.summary"}`), pt.Text("a")),
			pt.Message("assistant", pt.Thinking("x", `{"type":"reasoning.text"},{`), pt.Thinking("x", `{"a":1}`), pt.Text("b")),
		},
			`{"content":"a","reasoning_details":[{"type":"reasoning.text","format":"anthropic-claude-v1","index":0,"signature":"s\/=","text":"h\"m"},{"type":"reasoning.encrypted","data":"x"},{"type":"reasoning.summary","summary":"s"}],"role":"assistant"},{"content":"b","role":"assistant"}`},
		{"a developer", Quirks{DeveloperIsSystem: true}, []providers.Message{pt.Message("developer", pt.Text("a")), {Role: "developer", Content: "b"}}, `{"content":"a","role":"system"},{"content":"b","role":"system"}`},
		{"turns that alternate", Quirks{DeveloperIsSystem: true, Alternate: true}, []providers.Message{
			{Role: "user", Content: "a"}, pt.Message("user", pt.Media(providers.PartImage, inline)), {Role: "assistant", Content: "c"}, {Role: "system", Content: "s"}, pt.Message("developer", pt.Text("t")), {Role: "user", Content: "d"}, {Role: "user", Content: "e"},
		},
			`{"content":[{"text":"s","type":"text"},{"text":"\n\n","type":"text"},{"text":"t","type":"text"}],"role":"system"},` +
				`{"content":[{"text":"a","type":"text"},{"text":"\n\n","type":"text"},{"image_url":{"url":"data:image/png;base64,aGk="},"type":"image_url"}],"role":"user"},{"content":"c","role":"assistant"},{"content":"d\n\ne","role":"user"}`},
	} {
		got := messagesOf(t, test.q, test.m...)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		if !json.Valid([]byte("[" + got + "]")) {
			t.Errorf("%s: not JSON: %s", test.name, got)
		}
	}
}

// TestMediaThatBecomeTexts checks that the messages are named in which media of results
// became texts, each once, and that the request keeps its media.
func TestMediaThatBecomeTexts(t *testing.T) {
	file := pt.Media(providers.PartFile, providers.Media{URL: "https://a.example/b"})
	messages := []providers.Message{
		{Role: "user", Content: "a"}, pt.Message("assistant", pt.Call("1", "f", "{}"), pt.Call("2", "f", "{}")), pt.Message("tool", pt.Result("1", file, file), pt.Result("2", file)),
		pt.Message("assistant", pt.Call("3", "f", "{}")), pt.Message("tool", pt.Result("3", pt.Media(providers.PartImage, providers.Media{URL: "https://a.example/x.png"}))),
	}
	req := &providers.Request{Model: "m", Messages: messages, Parameters: providers.Parameters{TopK: new(int64(1))}}
	for range 2 {
		_, r := pt.Sent(t, pt.OpenAIAnswer("fine", 1), req, func(base string) providers.Provider {
			return client(t, base, func(c *Config) { c.Quirks = Quirks{NoTopK: true} })
		})
		if diff := cmp.Diff([]string{"top_k", "media in message 3"}, r.LeftOut); diff != "" {
			t.Error(diff)
		}
	}
	if len(messages) != 5 || messages[2].Parts[0].Result.Content[1].Media != file.Media {
		t.Errorf("the request was changed: %+v", messages)
	}
}

func TestPartsThatAServiceLacks(t *testing.T) {
	inline, byURL := providers.Media{Data: "x", Type: "a/b"}, providers.Media{URL: "https://a.example"}
	user := func(kind providers.PartKind, m providers.Media) providers.Message {
		return pt.Message("user", pt.Media(kind, m))
	}
	for _, test := range []struct {
		q    Quirks
		m    providers.Message
		want string
	}{
		{Quirks{NoImages: true}, user(providers.PartImage, inline), "openai takes no image, which message 2 has"},
		{Quirks{NoAudio: true}, user(providers.PartAudio, inline), "takes no audio,"},
		{Quirks{}, user(providers.PartAudio, byURL), "takes no audio by URL,"},
		{Quirks{NoFiles: true}, user(providers.PartFile, inline), "takes no file,"},
		{Quirks{}, user(providers.PartFile, byURL), "takes no file by URL,"},
		{Quirks{NoTools: true}, pt.Message("assistant", pt.Call("1", "f", "{}")), "takes no tool_call,"},
		{Quirks{NoTools: true}, pt.Message("tool", pt.Result("1")), "takes no tool_result,"},
		{Quirks{}, pt.Message("tool", pt.Result("1", pt.Thinking("hm", ""))), "takes no thinking in the result of a tool,"},
		{Quirks{}, pt.Message("system", pt.Media(providers.PartImage, inline)), "takes no image in a message of the role system,"},
		{Quirks{}, pt.Message("assistant", pt.Media(providers.PartFile, inline)), "takes no file in a message of the role assistant,"},
		{Quirks{}, pt.Message("user", pt.Call("1", "f", "{}")), "takes no tool_call,"},
		{Quirks{}, pt.Message("user", pt.Result("1")), "takes no tool_result,"},
		{Quirks{}, pt.Message("user", pt.Thinking("hm", "")), "takes no thinking,"},
		{Quirks{}, pt.Message("tool", pt.Text("a")), "takes no text,"},
		{Quirks{}, pt.Message("user", providers.Part{}), "takes no unknown,"},
		{Quirks{}, providers.Message{Role: "tool", Content: "a"}, "message 2 is the result of a tool, but of no call"},
		{Quirks{}, providers.Message{Role: "narrator"}, `message 2 has the unknown role "narrator"`},
	} {
		c := client(t, "http://localhost:1", func(c *Config) { c.Quirks = test.q })
		_, err := c.Invoke(t.Context(), &providers.Request{Messages: []providers.Message{{Role: "user", Content: "a"}, test.m}})
		e, ok := errors.AsType[*providers.Error](err)
		if !ok || e.Kind != providers.Status || e.Status != 400 || !strings.Contains(e.Reason, test.want) {
			t.Errorf("error %v, want %s", err, test.want)
		}
	}
}

// TestPartsAreTheSDKs compares messages with parts with the JSON of the SDK's types.
func TestPartsAreTheSDKs(t *testing.T) {
	c := client(t, "http://localhost")
	req := &providers.Request{Model: "m", Messages: pt.Conversation(), Parameters: pt.Everything()}
	req.Parameters.ParallelToolCalls, req.Parameters.Logprobs = new(false), new(int64(2))
	var a, b any
	if err := errors.Join(json.Unmarshal(body(t, c, req), &a), json.Unmarshal([]byte(written(t, c, req)), &b)); err != nil {
		t.Fatal(err)
	}
	// The SDK leaves out a content of null.
	for _, m := range a.(map[string]any)["messages"].([]any) {
		if m := m.(map[string]any); m["content"] == nil {
			delete(m, "content")
		}
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("the body differs from the SDK's (-want +got):\n%s", cmp.Diff(b, a))
	}
}

// sdkMessages are the SDK's messages for one with parts.
func sdkMessages(m *providers.Message) (list []openai.ChatCompletionMessageParamUnion) {
	if m.Parts == nil {
		return []openai.ChatCompletionMessageParamUnion{map[string]openai.ChatCompletionMessageParamUnion{
			"system": openai.SystemMessage(m.Content.Plain()), "developer": openai.DeveloperMessage(m.Content.Plain()), "user": openai.UserMessage(m.Content.Plain()), "assistant": openai.AssistantMessage(m.Content.Plain()),
		}[m.Role]}
	}
	assistant := &openai.ChatCompletionAssistantMessageParam{}
	var content []openai.ChatCompletionContentPartUnionParam
	url := func(m providers.Media) string {
		if m.URL != "" {
			return m.URL
		}
		return "data:" + m.Type + ";base64," + m.Data
	}
	for _, p := range m.Parts {
		switch p.Kind {
		case providers.PartText:
			if m.Role == "assistant" {
				assistant.Content.OfString = openai.String(p.Text.Plain())
				continue
			}
			content = append(content, openai.TextContentPart(p.Text.Plain()))
		case providers.PartImage:
			content = append(content, openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: url(p.Media), Detail: p.Media.Detail}))
		case providers.PartAudio:
			content = append(content, openai.InputAudioContentPart(openai.ChatCompletionContentPartInputAudioInputAudioParam{Data: p.Media.Data, Format: "wav"}))
		case providers.PartFile:
			content = append(content, openai.FileContentPart(openai.ChatCompletionContentPartFileFileParam{FileData: openai.String(url(p.Media)), Filename: openai.String(p.Media.Name)}))
		case providers.PartToolCall:
			assistant.ToolCalls = append(assistant.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID: p.Call.ID, Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: p.Call.Name, Arguments: p.Call.Arguments},
			}})
		case providers.PartToolResult:
			list = append(list, openai.ToolMessage(p.Result.Text().Plain(), p.Result.Call))
		}
	}
	switch m.Role {
	case "assistant":
		return []openai.ChatCompletionMessageParamUnion{{OfAssistant: assistant}}
	case "user":
		return []openai.ChatCompletionMessageParamUnion{openai.UserMessage(content)}
	}
	return list
}
