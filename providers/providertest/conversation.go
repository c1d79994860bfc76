package providertest

import "github.com/cadenza-gateway/cadenza/providers"

// Conversation is a history with every kind of part: an image by URL and one inline, a
// sound, a file, thoughts, tool calls and their results.
func Conversation() []providers.Message {
	return []providers.Message{
		{Role: "system", Content: "Be brief."},
		{Role: "user", Parts: []providers.Part{
			{Kind: providers.PartText, Text: "What is \"this\"?"},
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
