package invoke

import (
	"iter"

	"github.com/cadenza-gateway/cadenza/providers"
)

// used returns the usage of an attempt that ended with the class. A provider may not
// have counted its tokens: before the end of an answer it mostly has not, or has counted
// the prompt alone. A part of an answer is billed like a whole one, so used estimates
// what the provider did not count. If the caller or the gateway ended the attempt, the
// provider may have been at work before it sent anything: the prompt counts.
func (a *attempt) used(class Class) used {
	defer a.heard.release()
	u := used{usage: a.result.Usage}
	if a.heard == (heard{}) {
		switch class {
		case "", ClientGone, Superseded, Deadline, Slow:
		default:
			return u
		}
	}
	switch counted := &u.usage; {
	case !counted.Counted():
		counted.PromptTokens = a.promptTokens() + countExtra(a.target.Parameters.Tools, a.target.Parameters.Beside(), maxEstimated)
		counted.CompletionTokens = a.completionTokens()
	case class == "" || counted.PromptTokens == 0:
		return u
	default:
		// A count of an answer that went on says little: Anthropic's begins with 1.
		estimate := a.completionTokens()
		if estimate <= 2*counted.CompletionTokens {
			return u
		}
		counted.CompletionTokens = estimate
	}
	u.usage.TotalTokens = u.usage.PromptTokens + u.usage.CompletionTokens
	u.estimated = true
	return u
}

// promptTokens estimates the tokens of the call's messages, once.
func (k *call) promptTokens() int64 {
	k.countPrompt.Do(func() { k.promptCount = countMessages(k.Messages, maxEstimated) })
	return k.promptCount
}

// completionTokens estimates the tokens of the answer, or of the part of one, that was
// heard. A whole answer brings no pieces of its thoughts and tool calls: the result has
// them.
func (a *attempt) completionTokens() int64 {
	tokens := int64(0)
	if s := a.heard.sample; s != nil {
		c := newCounter(len(s.text), maxEstimated)
		c.add(string(s.text))
		tokens = c.scaled(a.heard.content + a.heard.extra)
	}
	if a.heard.extra > 0 {
		return tokens
	}
	size := 0
	for text := range extraTexts(&a.result) {
		size += len(text)
	}
	c := newCounter(size, maxEstimated)
	for text := range extraTexts(&a.result) {
		c.add(text)
	}
	return tokens + c.tokens()
}

// extraTexts returns the texts of an answer's thoughts and tool calls.
func extraTexts(r *providers.Result) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range r.Thoughts {
			if !yield(r.Thoughts[i].Text) {
				return
			}
		}
		for i := range r.ToolCalls {
			if !yield(r.ToolCalls[i].Name) || !yield(r.ToolCalls[i].Arguments) {
				return
			}
		}
	}
}

// texts returns all texts of a message that an error message may quote.
func texts(m *providers.Message) iter.Seq[string] {
	return func(yield func(string) bool) {
		if !yield(m.Content.Plain()) {
			return
		}
		for p := range parts(m.Parts) {
			for _, text := range [...]string{p.Text.Plain(), p.Media.URL, p.Media.Data, p.Media.Name, p.Call.Arguments, p.Opaque, p.Raw} {
				if !yield(text) {
					return
				}
			}
		}
	}
}

// parts returns all, and the parts of the tool results among them.
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
