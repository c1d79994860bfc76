package openai

import (
	"slices"
	"strconv"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/internal/jsontext"
	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// betweenSummaries is between two parts of a thought's summary, each of which is a
// paragraph.
const betweenSummaries = "\n\n"

// item takes in an item of the output that is whole: what pieces of it have not said.
func (s *responseStream) item(at int, v *fastjson.Value) error {
	pieces := slices.Contains(s.pieces, at)
	switch kind := string(v.GetStringBytes("type")); kind {
	case "message":
		for _, part := range v.GetArray("content") {
			if pieces {
				s.cite(part)
				continue
			}
			switch kind := string(part.GetStringBytes("type")); kind {
			case "output_text":
				s.Lookahead.Say(providers.Delta{Content: s.text(part.GetStringBytes("text"))})
				s.cite(part)
			case "refusal":
				d, err := s.refuse(part.GetStringBytes("refusal"))
				if err != nil {
					return err
				}
				s.Lookahead.Say(d)
			default:
				return s.Invalid("a part of a message has the unknown type", strconv.Quote(s.Redact(kind)))
			}
		}
	case "reasoning":
		if !pieces {
			s.Lookahead.Say(providers.Delta{Thinking: s.Body.String(reasoningText(v))})
		}
		s.Lookahead.Say(providers.Delta{Thought: s.thought(v)})
	case "function_call":
		s.call(at, v)
		if !pieces {
			s.Lookahead.Calls.Value(at, v.Get("arguments"))
		}
		s.Lookahead.Calls.End(at)
	case searchCall:
		s.searched(v)
	case "file_search_call":
		s.result.Usage.FileSearches++
	case "code_interpreter_call":
		s.result.Usage.CodeExecutions++
	case "mcp_list_tools", "mcp_call", "image_generation_call", "tool_search_call", "tool_search_output", "compaction":
		// What the API's own tools do is no part of the answer.
	default:
		return s.Invalid("an item of the output has the unknown type", strconv.Quote(s.Redact(kind)))
	}
	return nil
}

// call begins the call of an item, if it did not begin before.
func (s *responseStream) call(at int, item *fastjson.Value) {
	s.Lookahead.Calls.Piece(at, item.GetStringBytes("call_id"), item.GetStringBytes("name"))
}

// reasoningText is the text of a thought that is whole: its summary, or of models that
// show it the thought itself.
func reasoningText(item *fastjson.Value) (text []byte) {
	parts := item.GetArray("summary")
	if len(parts) == 0 {
		parts = item.GetArray("content")
	}
	for i, part := range parts {
		if i > 0 {
			text = append(text, betweenSummaries...)
		}
		text = upstream.AppendText(text, part.GetStringBytes("text"))
	}
	return text
}

// thought returns the thought that an item ends, in its place. Its data is the item as the
// API wants it back, but for the summary, which is the thought's text.
func (s *responseStream) thought(item *fastjson.Value) *providers.Thought {
	encrypted := item.GetStringBytes("encrypted_content")
	if len(encrypted) == 0 {
		return new(providers.Thought)
	}
	opaque := []byte(reasoningPrefix)
	if id := item.GetStringBytes("id"); len(id) > 0 {
		opaque = append(jsontext.AppendString(append(opaque, `"id":`...), id), ',')
	}
	opaque = append(jsontext.AppendString(append(opaque, `"encrypted_content":`...), encrypted), '}')
	return &providers.Thought{Opaque: s.Lookahead.Place().Opaque(string(opaque))}
}

// incomplete translates the API's word for what cut a response. An unknown word is an
// error.
func incomplete(k upstream.Call, word []byte) (providers.FinishReason, *providers.Error) {
	switch string(word) {
	case "max_output_tokens",
		"max_tokens": // servers that pass on a model's own word
		return providers.FinishLength, nil
	case "content_filter":
		return providers.FinishContentFilter, nil
	}
	return "", k.Invalid("an answer that is incomplete for the unknown reason", strconv.Quote(k.Redact(string(word))))
}

// readResponseUsage reads the tokens of a response, and its class of service.
func readResponseUsage(response *fastjson.Value, usage *providers.Usage) {
	v := response.Get("usage")
	prompt, completion := v.Get("input_tokens"), v.Get("output_tokens")
	if !upstream.Countable(prompt, completion) {
		return
	}
	usage.PromptTokens, usage.CompletionTokens = upstream.Tokens(prompt), upstream.Tokens(completion)
	usage.TotalTokens = usage.PromptTokens + usage.CompletionTokens
	usage.CachedTokens = upstream.Tokens(v.Get("input_tokens_details", "cached_tokens"))
	usage.CacheWriteTokens = upstream.Tokens(v.Get("input_tokens_details", "cache_write_tokens"))
	usage.ReasoningTokens = upstream.Tokens(v.Get("output_tokens_details", "reasoning_tokens"))
	usage.Tier = upstream.Tier(response.GetStringBytes("service_tier"))
	upstream.KeepWithin(usage)
}
