package anthropic

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// usage is the API's count of tokens. Input tokens that went through the prompt
// cache are counted apart from the others.
type usage struct {
	input, cacheWrite, cacheRead, output int64
}

// read takes in a usage object. The counts are running totals; a member that is
// absent or zero later on says nothing new.
func (u *usage) read(v *fastjson.Value) {
	if v == nil || v.Type() != fastjson.TypeObject {
		return
	}
	update(&u.input, v.Get("input_tokens"))
	update(&u.cacheWrite, v.Get("cache_creation_input_tokens"))
	update(&u.cacheRead, v.Get("cache_read_input_tokens"))
	update(&u.output, v.Get("output_tokens"))
}

// result is the usage as the gateway counts it: the prompt is all that was read.
func (u *usage) result() providers.Usage {
	prompt := u.input + u.cacheWrite + u.cacheRead
	return providers.Usage{PromptTokens: prompt, CompletionTokens: u.output, TotalTokens: prompt + u.output}
}

// update sets count to what v says, where that makes sense.
func update(count *int64, v *fastjson.Value) {
	if n := upstream.Tokens(v); n > 0 {
		*count = n
	}
}

// finishReason is the reason that the API's stop_reason stands for. A word that
// is not known, or says that the answer is not at its end (pause_turn, which
// only tools of the API's own bring about), is an error.
func (k call) finishReason(stop []byte) (providers.FinishReason, *providers.Error) {
	switch string(stop) {
	case "end_turn", "stop_sequence":
		return providers.FinishStop, nil
	case "max_tokens", "model_context_window_exceeded":
		return providers.FinishLength, nil
	case "tool_use":
		return providers.FinishToolCalls, nil
	case "refusal":
		return providers.FinishContentFilter, nil
	case "pause_turn":
		return "", k.invalid("an answer that ended with pause_turn, before its end: nothing goes on with it")
	}
	return "", k.invalid("an answer that ended with the unknown stop_reason", strconv.Quote(upstream.Redact(string(stop), k.key)))
}

// reported makes the error that an answer holds. It always returns one: it is
// called where the answer says that it is an error.
func (k call) reported(v *fastjson.Value) *providers.Error {
	e := &providers.Error{Provider: k.name, Kind: providers.Reported, Status: http.StatusOK}
	k.describeJSON(e, v)
	return e
}

// describe fills in what an error's body says.
func (k call) describe(e *providers.Error, body []byte) {
	var parser fastjson.Parser
	if v, err := parser.ParseBytes(body); err == nil && k.describeJSON(e, v) {
		return
	}
	e.Message = upstream.Redact(string(body), k.key)
}

// describeJSON reads {"type":"error","error":{"type","message","details"}}, and
// {"error":"text"} and {"message":"text"} as proxies before the API write it.
// It reports whether it found anything. The API's type is what others call code;
// where details name a narrower one, that is the code.
func (k call) describeJSON(e *providers.Error, v *fastjson.Value) bool {
	if v.Type() != fastjson.TypeObject {
		return false
	}
	inner := v.Get("error")
	if inner == nil || inner.Type() == fastjson.TypeNull {
		inner = v
	}
	switch inner.Type() {
	case fastjson.TypeString:
		e.Message = k.text(inner)
		return e.Message != ""
	case fastjson.TypeObject:
	default:
		return false
	}
	e.Message = k.text(inner.Get("message"))
	kind := k.text(inner.Get("type"))
	if inner == v && kind == "error" {
		// The outermost type only says that this is an error.
		kind = ""
	}
	if e.Code = k.text(inner.Get("details", "error_code")); e.Code == "" {
		e.Code = kind
	} else {
		e.Type = kind
	}
	return e.Message != "" || e.Code != ""
}

// text is a string fit for the log, empty where v is none.
func (k call) text(v *fastjson.Value) string {
	if v == nil || v.Type() != fastjson.TypeString {
		return ""
	}
	return upstream.Redact(string(v.GetStringBytes()), k.key)
}

// isError reports whether a JSON value is an error and no part of an answer.
func isError(v *fastjson.Value) bool {
	if v.Type() != fastjson.TypeObject {
		return false
	}
	if string(v.GetStringBytes("type")) == "error" {
		return true
	}
	e := v.Get("error")
	return e != nil && e.Type() != fastjson.TypeNull
}

func (k call) invalid(reason string, said ...string) *providers.Error {
	return &providers.Error{Provider: k.name, Kind: providers.Invalid, Status: http.StatusOK, Reason: reason, Message: strings.Join(said, "")}
}

// excerpt is the beginning of a body, for the log.
func (k call) excerpt(b []byte) string {
	return upstream.Excerpt(b, k.key)
}
