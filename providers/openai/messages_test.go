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

func said(s string) providers.Part { return providers.Part{Kind: providers.PartText, Text: s} }

func media(kind providers.PartKind, m providers.Media) providers.Part {
	return providers.Part{Kind: kind, Media: m}
}

func call(id, name, arguments string) providers.Part {
	return providers.Part{Kind: providers.PartToolCall, Call: providers.ToolCall{ID: id, Name: name, Arguments: arguments}}
}

func result(id string, content ...providers.Part) providers.Part {
	return providers.Part{Kind: providers.PartToolResult, Result: providers.ToolResult{Call: id, Content: content}}
}

func thinking(text, opaque string) providers.Part {
	return providers.Part{Kind: providers.PartThinking, Text: text, Opaque: opaque}
}

func message(role string, parts ...providers.Part) providers.Message {
	return providers.Message{Role: role, Parts: parts}
}

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
		{"texts", Quirks{}, []providers.Message{message("system", said("a")), message("user", said("b"), said("\"c\"")), message("user")},
			`{"content":"a","role":"system"},{"content":[{"text":"b","type":"text"},{"text":"\"c\"","type":"text"}],"role":"user"},{"content":"","role":"user"}`},
		{"images", Quirks{}, []providers.Message{message("user", media(providers.PartImage, image), said("?"), media(providers.PartImage, inline))},
			`{"content":[{"image_url":{"url":"https://a.example/x.png?\"","detail":"low"},"type":"image_url"},{"text":"?","type":"text"},{"image_url":{"url":"data:image/png;base64,aGk="},"type":"image_url"}],"role":"user"}`},
		{"sounds", Quirks{}, []providers.Message{message("user", media(providers.PartAudio, wav), media(providers.PartAudio, providers.Media{Data: "x", Type: "audio/mpeg"}))},
			`{"content":[{"input_audio":{"data":"UklG","format":"wav"},"type":"input_audio"},{"input_audio":{"data":"x","format":"mp3"},"type":"input_audio"}],"role":"user"}`},
		{"files", Quirks{}, []providers.Message{message("user", media(providers.PartFile, pdf)), message("user", media(providers.PartFile, providers.Media{Data: "x", Type: "text/plain"}))},
			`{"content":[{"file":{"file_data":"data:application/pdf;base64,JVBE","filename":"a \"b\".pdf"},"type":"file"}],"role":"user"},{"content":[{"file":{"file_data":"data:text/plain;base64,x","filename":"document"},"type":"file"}],"role":"user"}`},
		{"a file by URL", Quirks{FileURLs: true}, []providers.Message{message("user", media(providers.PartFile, byURL))},
			`{"content":[{"file":{"file_data":"https://a.example/b","filename":"document"},"type":"file"}],"role":"user"}`},
		{"Mistral's chunks", Quirks{Chunks: true}, []providers.Message{message("user", media(providers.PartAudio, wav), media(providers.PartAudio, byURL), media(providers.PartFile, pdf), media(providers.PartFile, byURL)), message("assistant", thinking("hm", ""), said("a"))},
			`{"content":[{"input_audio":"UklG","type":"input_audio"},{"input_audio":"https://a.example/b","type":"input_audio"},{"document_url":"data:application/pdf;base64,JVBE","document_name":"a \"b\".pdf","type":"document_url"},{"document_url":"https://a.example/b","type":"document_url"}],"role":"user"},` +
				`{"content":[{"thinking":[{"text":"hm","type":"text"}],"type":"thinking"},{"text":"a","type":"text"}],"role":"assistant"}`},
		{"tool calls", Quirks{}, []providers.Message{message("assistant", call("1", "f", `{"x":"y"}`), call("2", "g", "{}")), message("assistant", said("a"), call("3", "f", "{}"))},
			`{"content":null,"tool_calls":[{"id":"1","function":{"arguments":"{\"x\":\"y\"}","name":"f"},"type":"function"},{"id":"2","function":{"arguments":"{}","name":"g"},"type":"function"}],"role":"assistant"},` +
				`{"content":"a","tool_calls":[{"id":"3","function":{"arguments":"{}","name":"f"},"type":"function"}],"role":"assistant"}`},
		{"results", Quirks{}, []providers.Message{message("tool", result("1", said("a")), result("2"), result("3", said("a"), said("b")))},
			`{"content":"a","tool_call_id":"1","role":"tool"},{"content":"","tool_call_id":"2","role":"tool"},{"content":[{"text":"a","type":"text"},{"text":"b","type":"text"}],"tool_call_id":"3","role":"tool"}`},
		{"an image in a result", Quirks{ResultImages: true}, []providers.Message{message("tool", result("1", media(providers.PartImage, inline)))},
			`{"content":[{"image_url":{"url":"data:image/png;base64,aGk="},"type":"image_url"}],"tool_call_id":"1","role":"tool"}`},
		{"short ids", Quirks{ShortIDs: true}, []providers.Message{message("assistant", call("abcDEF123", "f", "{}"), call("toolu_01", "f", "{}")), message("tool", result("toolu_01"))},
			`{"content":null,"tool_calls":[{"id":"abcDEF123","function":{"arguments":"{}","name":"f"},"type":"function"},{"id":"PKK3OA4WJ","function":{"arguments":"{}","name":"f"},"type":"function"}],"role":"assistant"},{"content":"","tool_call_id":"PKK3OA4WJ","role":"tool"}`},
		{"long ids", Quirks{}, []providers.Message{message("tool", result(long[:40]), result(long))},
			`{"content":"","tool_call_id":"` + long[:40] + `","role":"tool"},{"content":"","tool_call_id":"LKQ5ZZZIG37E3E27OFBKWG6DSJ7C5AFGYNMC2SIZ","role":"tool"}`},
		{"thoughts that are left out", Quirks{}, []providers.Message{message("assistant", thinking("hm", signed), said("a"))}, `{"content":"a","role":"assistant"}`},
		{"thoughts alone", Quirks{}, []providers.Message{message("assistant", thinking("hm", ""))}, `{"content":"","role":"assistant"}`},
		{"thoughts as a text", Quirks{Thoughts: "reasoning_content"}, []providers.Message{message("assistant", thinking("h\"", signed), thinking("m", ""), call("1", "f", "{}")), message("assistant", thinking("", signed), said("a"))},
			`{"content":null,"reasoning_content":"h\"m","tool_calls":[{"id":"1","function":{"arguments":"{}","name":"f"},"type":"function"}],"role":"assistant"},{"content":"a","role":"assistant"}`},
		{"OpenRouter's details", Quirks{Thoughts: reasoningDetails}, []providers.Message{
			message("assistant", thinking("h\"m", signed), thinking("of another service", ""), thinking("", `{"type":"reasoning.encrypted","data":"x"}`), thinking("s", `{"type":"reasoning.summary"}`), said("a")),
			message("assistant", thinking("x", `{"type":"reasoning.text"},{`), thinking("x", `{"a":1}`), said("b")),
		},
			`{"content":"a","reasoning_details":[{"type":"reasoning.text","format":"anthropic-claude-v1","index":0,"signature":"s\/=","text":"h\"m"},{"type":"reasoning.encrypted","data":"x"},{"type":"reasoning.summary","summary":"s"}],"role":"assistant"},{"content":"b","role":"assistant"}`},
		{"a developer", Quirks{DeveloperIsSystem: true}, []providers.Message{message("developer", said("a")), {Role: "developer", Content: "b"}}, `{"content":"a","role":"system"},{"content":"b","role":"system"}`},
		{"turns that alternate", Quirks{DeveloperIsSystem: true, Alternate: true}, []providers.Message{
			{Role: "user", Content: "a"}, message("user", media(providers.PartImage, inline)), {Role: "assistant", Content: "c"}, {Role: "system", Content: "s"}, message("developer", said("t")), {Role: "user", Content: "d"}, {Role: "user", Content: "e"},
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

func TestPartsThatAServiceLacks(t *testing.T) {
	inline, byURL := providers.Media{Data: "x", Type: "a/b"}, providers.Media{URL: "https://a.example"}
	user := func(kind providers.PartKind, m providers.Media) providers.Message {
		return message("user", media(kind, m))
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
		{Quirks{NoTools: true}, message("assistant", call("1", "f", "{}")), "takes no tool_call,"},
		{Quirks{NoTools: true}, message("tool", result("1")), "takes no tool_result,"},
		{Quirks{}, message("tool", result("1", media(providers.PartImage, inline))), "takes no image in the result of a tool,"},
		{Quirks{ResultImages: true}, message("tool", result("1", media(providers.PartFile, inline))), "takes no file in the result of a tool,"},
		{Quirks{}, message("system", media(providers.PartImage, inline)), "takes no image in a message of the role system,"},
		{Quirks{}, message("assistant", media(providers.PartFile, inline)), "takes no file in a message of the role assistant,"},
		{Quirks{}, message("user", call("1", "f", "{}")), "takes no tool_call,"},
		{Quirks{}, message("user", result("1")), "takes no tool_result,"},
		{Quirks{}, message("user", thinking("hm", "")), "takes no thinking,"},
		{Quirks{}, message("tool", said("a")), "takes no text,"},
		{Quirks{}, message("user", providers.Part{}), "takes no unknown,"},
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

// TestPartsAreTheSDKs holds messages with parts to what the SDK's types make of them.
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
			"system": openai.SystemMessage(m.Content), "developer": openai.DeveloperMessage(m.Content), "user": openai.UserMessage(m.Content), "assistant": openai.AssistantMessage(m.Content),
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
				assistant.Content.OfString = openai.String(p.Text)
				continue
			}
			content = append(content, openai.TextContentPart(p.Text))
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
			list = append(list, openai.ToolMessage(p.Result.Text(), p.Result.Call))
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
