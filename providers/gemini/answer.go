package gemini

import (
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fastjson"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// chunk is the content of one chunk of a stream, or of a whole answer: they
// have the same form.
type chunk struct {
	candidate *fastjson.Value // nil if it holds no part of the answer, not even an empty one
	parts     []*fastjson.Value
	finish    string // the API's word
	blocked   string // why the prompt was refused
	fault     string // why it cannot be read
}

// readChunk reads a chunk and adds its data about the whole answer to result.
func readChunk(v *fastjson.Value, result *providers.Result) (c chunk) {
	if model := v.GetStringBytes("modelVersion"); len(model) > 0 && result.Model != string(model) {
		result.Model = string(model)
	}
	readUsage(v.Get("usageMetadata"), &result.Usage)
	if b := v.GetStringBytes("promptFeedback", "blockReason"); len(b) > 0 {
		c.blocked = string(b)
	}
	for _, candidate := range v.GetArray("candidates") {
		// Where several answers were asked for, the first is the answer.
		if candidate.GetInt("index") != 0 {
			continue
		}
		c.candidate = candidate
		if f := candidate.GetStringBytes("finishReason"); len(f) > 0 && string(f) != "FINISH_REASON_UNSPECIFIED" {
			c.finish = word(f)
		}
		parts := candidate.Get("content", "parts")
		if parts != nil && parts.Type() != fastjson.TypeArray && parts.Type() != fastjson.TypeNull {
			c.fault = "the content is no list of parts"
			break
		}
		c.parts = parts.GetArray()
		if n := len(candidate.GetArray("groundingMetadata", "webSearchQueries")); n > 0 {
			result.Usage.WebSearches = int64(n)
		}
		break
	}
	return c
}

// word is a finishReason as a string, without an allocation if it is one
// that ends most answers.
func word(f []byte) string {
	switch string(f) {
	case "STOP":
		return "STOP"
	case "MAX_TOKENS":
		return "MAX_TOKENS"
	}
	return string(f)
}

// finishReason translates the API's finishReason, and reports whether an answer
// that ended so may be empty. It is empty for words that say
// that the answer is none, such as MALFORMED_FUNCTION_CALL and OTHER, and for
// those that are unknown.
func finishReason(finish string, tool bool) (reason providers.FinishReason, mayBeEmpty bool) {
	switch finish {
	case "STOP":
		if tool {
			return providers.FinishToolCalls, true
		}
		return providers.FinishStop, true
	case "MAX_TOKENS":
		return providers.FinishLength, true
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR":
		return providers.FinishContentFilter, false
	}
	return "", false
}

// reported makes the error that an answer holds.
func reported(k upstream.Call, v *fastjson.Value) *providers.Error {
	e := k.Error(providers.Reported)
	if !describe(k, e, v) {
		e.Message = k.Excerpt([]byte(v.String()))
	}
	return e
}

// describe reads {"error":{"code","message","status","details"}}, a list of
// these as streams without alt=sse begin, and {"error":"text"} as proxies before
// the API write it. It reports whether it found anything. The status is the type.
// The code is the number, and if the HTTP status says that already, the
// reason of an ErrorInfo among the details (google.rpc.ErrorInfo, RetryInfo).
func describe(k upstream.Call, e *providers.Error, v *fastjson.Value) bool {
	if list := v.GetArray(); len(list) > 0 {
		v = list[0]
	}
	inner := v.Get("error")
	if inner == nil {
		return false
	}
	switch inner.Type() {
	case fastjson.TypeString:
		e.Message = k.Text(inner)
		return e.Message != ""
	case fastjson.TypeObject:
	default:
		return false
	}
	e.Message = k.Text(inner.Get("message"))
	e.Type = k.Text(inner.Get("status"))
	if n := inner.GetInt("code"); n != 0 {
		e.Code = strconv.Itoa(n)
	} else {
		e.Code = k.Text(inner.Get("code"))
	}
	for _, d := range inner.GetArray("details") {
		kind := d.GetStringBytes("@type")
		switch string(kind[strings.LastIndexByte(string(kind), '/')+1:]) {
		case "google.rpc.ErrorInfo":
			if reason := k.Text(d.Get("reason")); reason != "" && e.Kind == providers.Status {
				e.Code = reason
			}
		case "google.rpc.RetryInfo":
			e.RetryAfter = retryDelay(d.GetStringBytes("retryDelay"))
		}
	}
	return e.Message != "" || e.Code != "" || e.Type != ""
}

// maxRetryDelay bounds the delay that the API may ask for.
const maxRetryDelay = 24 * time.Hour

// retryDelay reads a protobuf duration in its JSON form, such as 34.07s: 0 where
// it makes no sense, and 24 hours at most.
func retryDelay(text []byte) time.Duration {
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return 0
	}
	return min(max(0, d), maxRetryDelay)
}
