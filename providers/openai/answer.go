package openai

import (
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// piece is the content of one chunk of a stream, or of a whole answer.
type piece struct {
	content  []byte            // valid until the parser or the buffer is used again
	thinking []byte            // as content
	details  []*fastjson.Value // thoughts, or pieces of them, in place of thinking
	tools    []*fastjson.Value // pieces of tool calls, or whole ones
	logprobs *fastjson.Value   // of content, a list
	refusal  []byte
	refuses  bool // even without a word
	choice   bool // it holds a part of the answer, even if it is empty
	finish   providers.FinishReason
	err      *providers.Error
}

// readPiece reads a chunk of a stream or a whole answer: they differ in one
// member's name. It adds its data about the whole answer to result, and
// joins a text that comes in parts in buffer, which it returns for the next one.
func readPiece(k *upstream.Call, v *fastjson.Value, result *providers.Result, buffer []byte) (piece, []byte) {
	p := piece{}
	if v.Type() != fastjson.TypeObject {
		if e := reported(*k, v); e != nil {
			return piece{err: e}, buffer
		}
		return piece{err: k.Invalid("neither a completion nor an error")}, buffer
	}
	m := members(v, [4]string{"error", "model", "usage", "choices"})
	if isError(m[0]) {
		return piece{err: reported(*k, v)}, buffer
	}
	if model := m[1].GetStringBytes(); len(model) > 0 && result.Model != string(model) {
		result.Model = string(model)
	}
	if m[2] != nil {
		readUsage(m[2], v.GetStringBytes("service_tier"), &result.Usage)
	}
	choices := m[3].GetArray()
	if len(choices) == 0 {
		// A chunk of usage alone, or an error in words of its own.
		if m[3] == nil && m[2] == nil {
			if e := reported(*k, v); e != nil {
				return piece{err: e}, buffer
			}
		}
		return p, buffer
	}
	for _, choice := range choices {
		// Where several answers were asked for, the first is the answer.
		if choice.GetInt("index") == 0 {
			buffer = readChoice(k, &p, choice, buffer)
			break
		}
	}
	return p, buffer
}

// readChoice reads the choice of a piece.
func readChoice(k *upstream.Call, p *piece, choice *fastjson.Value, buffer []byte) []byte {
	p.choice = true
	of := members(choice, [4]string{"delta", "message", "finish_reason", "logprobs"})
	message := of[0]
	if message == nil || message.Type() != fastjson.TypeObject {
		message = of[1]
	}
	m := members(message, [4]string{"function_call", "tool_calls", "refusal", "content"})
	if call := m[0]; call != nil && call.Type() != fastjson.TypeNull {
		p.err = legacy(*k)
		return buffer
	}
	p.tools = m[1].GetArray()
	p.refusal = m[2].GetStringBytes()
	p.refuses = len(p.refusal) > 0
	if o := message.GetObject(); o != nil && (o.Len() > 1 || m[3] == nil) {
		thought := members(message, [4]string{"reasoning_content", "reasoning", reasoningDetails})
		if p.thinking = thought[0].GetStringBytes(); len(p.thinking) == 0 {
			p.thinking = thought[1].GetStringBytes()
		}
		p.details = thought[2].GetArray()
	}
	if of[3] != nil {
		p.logprobs = of[3].Get("content")
	}
	if content := m[3]; content != nil {
		switch content.Type() {
		case fastjson.TypeString:
			p.content = content.GetStringBytes()
		case fastjson.TypeNull:
		case fastjson.TypeArray:
			buffer = readParts(k, p, content.GetArray(), buffer[:0])
		default:
			p.err = k.Invalid("the content is neither text nor a list of parts")
		}
	}
	if word := of[2].GetStringBytes(); len(word) > 0 && p.err == nil {
		p.finish, p.err = finishReason(*k, word)
	}
	return buffer
}

// members returns the members of an object by their names, or nil if it has none, and
// the first of members with the same name. One pass costs as much as one look-up of
// an absent member, and most are absent.
func members(v *fastjson.Value, names [4]string) (found [4]*fastjson.Value) {
	v.GetObject().Visit(func(key []byte, v *fastjson.Value) {
		for i, name := range names {
			if found[i] == nil && string(key) == name {
				found[i] = v
				return
			}
		}
	})
	return found
}

// readParts joins the text of content that is a list of parts, as models of
// Mistral that reason send it, and its thoughts. References are no part of the
// answer. The other members of a part are not known, so it is not passed over.
func readParts(k *upstream.Call, p *piece, parts []*fastjson.Value, buffer []byte) []byte {
	// The thoughts come first: the texts of both are in one buffer.
	for _, part := range parts {
		if kind := part.GetStringBytes("type"); string(kind) == "thinking" {
			for _, thought := range part.GetArray("thinking") {
				buffer = upstream.AppendText(buffer, thought.GetStringBytes("text"))
			}
		}
	}
	thinking := len(buffer)
	for _, part := range parts {
		switch kind := string(part.GetStringBytes("type")); kind {
		case "text":
			text := part.Get("text")
			if text == nil || text.Type() != fastjson.TypeString {
				p.err = k.Invalid("a part of the content is a text without text")
				return buffer
			}
			if len(buffer) == thinking {
				buffer = append(buffer, text.GetStringBytes()...)
			} else {
				buffer = upstream.AppendText(buffer, text.GetStringBytes())
			}
		case "refusal":
			p.refuses = true
			p.refusal = append(slices.Clip(p.refusal), part.GetStringBytes("refusal")...)
		case "thinking", "redacted_thinking", "reasoning", "reference":
		default:
			p.err = k.Invalid("a part of the content has the unknown type", strconv.Quote(k.Redact(kind)))
			return buffer
		}
	}
	if thinking > 0 {
		p.thinking = buffer[:thinking]
	}
	p.content = buffer[thinking:]
	return buffer
}

// finishReason translates a service's word. An unknown word is an error, and so is
// one for an answer that failed.
func finishReason(k upstream.Call, word []byte) (providers.FinishReason, *providers.Error) {
	switch string(word) {
	case "stop",
		"eos",                                    // Together
		"eos_token", "stop_sequence", "end_turn": // servers that pass on a model's own word
		return providers.FinishStop, nil
	case "length",
		"model_length", // Mistral: the model's limit, not the request's
		"max_tokens":
		return providers.FinishLength, nil
	case "tool_calls", "tool_use":
		return providers.FinishToolCalls, nil
	case "error",
		"insufficient_system_resource": // DeepSeek: it was interrupted
		e := k.Error(providers.Reported)
		e.Code = string(word)
		return "", e
	case "function_call":
		return "", legacy(k)
	}
	// Google adds its own word after a colon.
	if bytes.HasPrefix(word, contentFilter) {
		return providers.FinishContentFilter, nil
	}
	return "", k.Invalid("an answer that ended with the unknown finish_reason", strconv.Quote(k.Redact(string(word))))
}

var contentFilter = []byte(providers.FinishContentFilter)

// legacy is the failure of an answer to functions, which came before tools.
// Only extra can ask for one.
func legacy(k upstream.Call) *providers.Error {
	return k.Invalid("the model answered with a function_call, which is not read: offer tools in place of functions")
}

// hasError reports whether v has an error. Some services send "error": null, or
// an empty one, with each chunk.
func hasError(v *fastjson.Value) bool { return isError(v.Get("error")) }

// isError reports whether the member error, which may be nil, is an error.
func isError(e *fastjson.Value) bool {
	if e == nil {
		return false
	}
	switch e.Type() {
	case fastjson.TypeNull, fastjson.TypeFalse:
		return false
	case fastjson.TypeString:
		return len(e.GetStringBytes()) > 0
	}
	return true
}

// readToolCalls takes in pieces of tool calls. A whole answer's have no index.
func readToolCalls(pieces []*fastjson.Value, calls *upstream.ToolCalls) {
	for i, v := range pieces {
		index := i
		if n := v.Get("index"); n != nil && n.Type() == fastjson.TypeNumber {
			index = n.GetInt()
		}
		calls.Piece(index, v.GetStringBytes("id"), v.GetStringBytes("function", "name"))
		calls.Value(index, v.Get("function", "arguments"))
	}
}

// reported makes the error that a JSON value describes, or nil if it
// describes none.
func reported(k upstream.Call, v *fastjson.Value) *providers.Error {
	e := k.Error(providers.Reported)
	if !describe(k, e, v) {
		return nil
	}
	return e
}

// describe reads {"error":{…}}, {"error":"text"}, {"message":…},
// {"detail":…}, {"type":"error",…} and lists of these. It reports whether it
// found anything.
func describe(k upstream.Call, e *providers.Error, v *fastjson.Value) bool {
	switch v.Type() {
	case fastjson.TypeArray:
		for _, item := range v.GetArray() {
			if item.Type() == fastjson.TypeObject && describe(k, e, item) {
				return true
			}
		}
		return false
	case fastjson.TypeObject:
	default:
		return false
	}
	inner := v
	switch member := v.Get("error"); {
	case !hasError(v):
	case member.Type() == fastjson.TypeObject:
		inner = member
	default:
		say(k, e, member)
		e.Code, e.Type = word(k, v.Get("code")), word(k, v.Get("type"))
		return true
	}
	e.Code, e.Type = word(k, inner.Get("code")), word(k, inner.Get("type"))
	e.Param = word(k, inner.Get("param"))
	if e.Type == "" {
		// Google's name for it.
		e.Type = word(k, inner.Get("status"))
	}
	for _, name := range [...]string{"message", "detail", "error_description", "title"} {
		if m := inner.Get(name); m != nil && m.Type() != fastjson.TypeNull {
			say(k, e, m)
			return true
		}
	}
	return inner != v || e.Code != "" && e.Type != ""
}

// waits matches what messages say of when to ask again: "try again in 6m0.5s", as OpenAI
// does, or "retry after 10 seconds", as Azure does.
var waits = regexp.MustCompile(`(?i)(?:try again in|retry after) ((?:\d+(?:\.\d+)?(?:ms|[hms]))+|\d+ s)`)

// say gives the error its message, and the wait in it: of an error inside an answer no
// header has one.
func say(k upstream.Call, e *providers.Error, message *fastjson.Value) {
	e.Message = k.Redact(text(message))
	if m := waits.FindStringSubmatch(e.Message); m != nil {
		// A number that is too large is none.
		e.RetryAfter, _ = time.ParseDuration(strings.Replace(m[1], " ", "", 1))
	}
}

// word reads a code, which may be a string or a number.
func word(k upstream.Call, v *fastjson.Value) string {
	if v == nil {
		return ""
	}
	switch v.Type() {
	case fastjson.TypeString:
		return k.Redact(string(v.GetStringBytes()))
	case fastjson.TypeNumber:
		if n, err := v.Int64(); err == nil {
			return strconv.FormatInt(n, 10)
		}
	}
	return ""
}

// text is a member as text: a string's content, else its JSON.
func text(v *fastjson.Value) string {
	if v.Type() == fastjson.TypeString {
		return string(v.GetStringBytes())
	}
	return v.String()
}
