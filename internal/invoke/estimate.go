package invoke

import (
	"iter"

	"github.com/cadenza-gateway/cadenza/providers"
)

// mediaTokens is how many tokens an image, a sound or a file counts for where the
// provider does not count them: about what models take for an image of a megapixel.
const mediaTokens = 1000

// tokens estimates how many tokens a text has: one for four bytes, as in English.
func tokens(bytes int) int64 { return (int64(bytes) + 3) / 4 }

// used returns what an attempt that ended with the class has used. A provider may not
// have counted its tokens: before the end of an answer it mostly has not. An answer is
// paid for all the same, and so is a part of one, so their tokens are estimated.
func (a *attempt) used(class Class) used {
	usage := a.result.Usage
	u := used{prompt: usage.PromptTokens, completion: usage.CompletionTokens, abandoned: a.abandoned}
	nothing := class != "" && class != Superseded && a.heard == (heard{})
	if usage != (providers.Usage{}) || nothing {
		return u
	}
	u.prompt, u.completion, u.estimated = promptTokens(a.Messages), tokens(a.heard.content+max(a.heard.beside, besideOf(&a.result))), true
	return u
}

// besideOf returns the bytes of an answer's thoughts and tool calls, of which a whole
// answer brings no pieces.
func besideOf(r *providers.Result) int {
	size := 0
	for i := range r.Thoughts {
		size += len(r.Thoughts[i].Text)
	}
	for i := range r.ToolCalls {
		size += len(r.ToolCalls[i].Name) + len(r.ToolCalls[i].Arguments)
	}
	return size
}

// promptTokens estimates the tokens of messages.
func promptTokens(messages []providers.Message) int64 {
	size, media := 0, int64(0)
	for i := range messages {
		size += len(messages[i].Content)
		for p := range parts(messages[i].Parts) {
			switch p.Kind {
			case providers.PartImage, providers.PartAudio, providers.PartFile:
				media++
			default:
				size += len(p.Text) + len(p.Call.Name) + len(p.Call.Arguments)
			}
		}
	}
	return tokens(size) + media*mediaTokens
}

// texts returns all texts of a message that an error message may quote.
func texts(m *providers.Message) iter.Seq[string] {
	return func(yield func(string) bool) {
		if !yield(m.Content) {
			return
		}
		for p := range parts(m.Parts) {
			for _, text := range [...]string{p.Text, p.Media.URL, p.Media.Data, p.Media.Name, p.Call.Arguments, p.Opaque} {
				if !yield(text) {
					return
				}
			}
		}
	}
}

// parts returns the parts and those of tool results among them.
func parts(all []providers.Part) iter.Seq[*providers.Part] {
	return func(yield func(*providers.Part) bool) {
		for i := range all {
			if !yield(&all[i]) {
				return
			}
			for j := range all[i].Result.Content {
				if !yield(&all[i].Result.Content[j]) {
					return
				}
			}
		}
	}
}

// EstimateTokens estimates the tokens of messages and of the tools beside them.
func EstimateTokens(messages []providers.Message, tools []providers.Tool) int64 {
	size := 0
	for i := range tools {
		size += len(tools[i].Name) + len(tools[i].Description) + len(tools[i].Parameters)
	}
	return promptTokens(messages) + (int64(size)+3)/4
}
