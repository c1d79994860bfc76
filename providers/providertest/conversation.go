package providertest

import "github.com/cadenza-gateway/cadenza/providers"

// Conversation returns a history with every kind of part: an image by URL and an inline
// image, a sound, a file, thoughts, tool calls and their results.
func Conversation() []providers.Message {
	return []providers.Message{
		{Role: "system", Content: "Be brief."},
		{Role: "user", Parts: []providers.Part{
			{Kind: providers.PartText, Text: `What is \"this\"?`},
			{Kind: providers.PartImage, Media: providers.Media{URL: "https://images.example/a.png", Detail: "high"}},
			{Kind: providers.PartImage, Media: providers.Media{Data: "iVBORw0KGgo=", Type: "image/png"}},
			{Kind: providers.PartAudio, Media: providers.Media{Data: "UklGRg==", Type: "audio/wav"}},
			{Kind: providers.PartFile, Media: providers.Media{Data: "JVBERi0=", Type: "application/pdf", Name: "a.pdf"}},
		}},
		{Role: "assistant", Parts: []providers.Part{
			{Kind: providers.PartThinking, Text: "Hm."},
			{Kind: providers.PartText, Text: "Let me see."},
			{Kind: providers.PartToolCall, Call: toolCalls[0]},
			{Kind: providers.PartToolCall, Call: toolCalls[1]},
		}},
		{Role: "tool", Parts: []providers.Part{
			{Kind: providers.PartToolResult, Result: providers.ToolResult{Call: toolCalls[0].ID, Name: toolCalls[0].Name, Content: []providers.Part{{Kind: providers.PartText, Text: "Rain \U0001f327"}}}},
			{Kind: providers.PartToolResult, Result: providers.ToolResult{Call: toolCalls[1].ID, Name: toolCalls[1].Name, Content: []providers.Part{{Kind: providers.PartText, Text: "No clock."}}, Failed: true}},
		}},
		{Role: "assistant", Parts: []providers.Part{{Kind: providers.PartToolCall, Call: toolCalls[2]}}},
		{Role: "tool", Parts: []providers.Part{
			{Kind: providers.PartToolResult, Result: providers.ToolResult{Call: toolCalls[2].ID, Name: toolCalls[2].Name, Content: []providers.Part{{Kind: providers.PartText, Text: "Sun."}}}},
		}},
		{Role: "user", Content: "And?"},
	}
}

// Text returns a part with text.
func Text(text string) providers.Part {
	return providers.Part{Kind: providers.PartText, Text: providers.Escape(text)}
}

// Media returns a part with an image, a sound or a file.
func Media(kind providers.PartKind, m providers.Media) providers.Part {
	return providers.Part{Kind: kind, Media: m}
}

// Call returns a tool call.
func Call(id, name, arguments string) providers.Part {
	return providers.Part{Kind: providers.PartToolCall, Call: providers.ToolCall{ID: id, Name: name, Arguments: arguments}}
}

// Result returns the result of the call with the id, of a tool f.
func Result(id string, content ...providers.Part) providers.Part {
	return providers.Part{Kind: providers.PartToolResult, Result: providers.ToolResult{Call: id, Name: "f", Content: content}}
}

// Thinking returns a thought with its opaque data.
func Thinking(text, opaque string) providers.Part {
	return providers.Part{Kind: providers.PartThinking, Text: providers.Escape(text), Opaque: opaque}
}

// Message returns a message with parts.
func Message(role string, parts ...providers.Part) providers.Message {
	return providers.Message{Role: role, Parts: parts}
}
