package anthropic

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// The ways to cut or corrupt an answer. None may end as complete.
var corruptions = slices.Concat(pt.NoAnswers, []pt.Corruption{
	{"clean end after the text", sse(opening(), deltas("a")), providers.Truncated},
	{"clean end after the block", sse(opening(), deltas("a"), []string{blockStop}), providers.Truncated},
	{"clean end after the stop reason", sse(opening(), deltas("a"), closing("end_turn", 1)[:2]), providers.Truncated},
	{"clean end after the message began", sse(opening()), providers.Truncated},
	{"clean end in mid-event", sse(opening(), deltas("a"), []string{textDelta("b")[:90]}), providers.Invalid},
	{"clean end in the end marker", sse(opening(), deltas("a"), closing("end_turn", 1)[:2], []string{messageStop[:40]}), providers.Invalid},
	{"clean end in the end marker's name", sse(opening(), deltas("a"), []string{"event: message_stop\n"}), providers.Truncated},
	{"cut between events", pt.Ended(pt.Cut, sse(opening(), deltas("a"))), providers.Truncated},
	{"cut in mid-event", pt.Ended(pt.Cut, sse(opening(), deltas("a"), []string{textDelta("b")[:90]})), providers.Truncated},
	{"cut after the stop reason", pt.Ended(pt.Cut, sse(opening(), deltas("a"), closing("end_turn", 1)[:2])), providers.Truncated},
	{"cut in the end marker", pt.Ended(pt.Cut, sse(opening(), deltas("a"), closing("end_turn", 1)[:2], []string{strings.TrimRight(messageStop, "\n")})), providers.Truncated},
	{"reset", pt.Ended(pt.Reset, sse(opening(), deltas("a"))), providers.Truncated},
	{"unframed end", pt.Ended(pt.Unframed, sse(opening(), deltas("a"))), providers.Truncated},
	{"unframed end in mid-event", pt.Ended(pt.Unframed, sse(opening(), deltas("a"), []string{textDelta("b")[:90]})), providers.Invalid},
	{"end marker only", sse([]string{messageStop}), providers.Invalid},
	{"start and end marker only", sse([]string{messageStart, messageStop}), providers.Invalid},
	{"end marker of another API", sse(opening(), deltas("a"), []string{pt.Done}), providers.Invalid},
	{"a stream of another API", pt.OpenAIStream("a", "b"), providers.Invalid},
	{"pings only", sse([]string{ping, ping}), providers.Invalid},
	{"comments only", sse([]string{": hello\n\n", ": hello\n\n"}), providers.Invalid},
	{"HTML after text", sse(opening(), deltas("a"), []string{"<html></html>\n\n"}), providers.Truncated},
	{"nonsense after text", sse(opening(), deltas("a"), []string{"data: {\"type\":\n\n"}, closing("end_turn", 1)), providers.Invalid},
	{"error first", sse([]string{errorEvent("overloaded_error", "Overloaded")}), providers.Reported},
	{"error after the start", sse(opening(), []string{errorEvent("overloaded_error", "Overloaded")}), providers.Reported},
	{"error after text", sse(opening(), deltas("a"), []string{errorEvent("api_error", "Internal server error")}, closing("end_turn", 1)), providers.Reported},
	{"error after the stop reason", sse(opening(), deltas("a"), closing("end_turn", 1)[:2], []string{errorEvent("api_error", "x")}), providers.Reported},
	{"error without an event name", sse(opening(), []string{"data: " + errorBody("overloaded_error", "Overloaded") + "\n\n"}), providers.Reported},
	{"error event of text", sse(opening(), []string{"event: error\ndata: boom\n\n"}), providers.Reported},
	{"error event of a JSON string", sse(opening(), []string{"event: error\ndata: \"boom\"\n\n"}), providers.Reported},
	{"error event of nothing", sse(opening(), []string{"event: error\ndata: {}\n\n"}), providers.Reported},
	{"error of another shape", sse(opening(), []string{"data: {\"error\":\"boom\"}\n\n"}), providers.Reported},
	{"JSON error", pt.JSON(200, errorBody("overloaded_error", "Overloaded")), providers.Reported},
	{"JSON list", pt.JSON(200, `[{"type":"message"}]`), providers.Invalid},
	{"JSON cut", pt.Ended(pt.Cut, pt.JSON(200, joined(answer("fine", "end_turn", 1))[:200])), providers.Truncated},
	{"JSON ends early", pt.Ended(pt.Unframed, pt.JSON(200, joined(answer("fine", "end_turn", 1))[:200])), providers.Invalid},
	{"JSON without a stop reason", pt.JSON(200, `{"type":"message","content":[{"type":"text","text":"a"}],"stop_reason":null}`), providers.Invalid},
	{"JSON of another API", pt.OpenAIAnswer("fine", 1), providers.Invalid},
	{"a line beyond the limit", pt.SSE("data: {\"type\":\"", strings.Repeat(" ", 3<<20)), providers.Invalid},
	{"paused", sse(opening(), deltas("a"), closing("pause_turn", 1)), providers.Invalid},
	{"an unknown reason", sse(opening(), deltas("a"), closing("tired", 1)), providers.Invalid},
	{"JSON with an unknown reason", answer("a", "tired", 1), providers.Invalid},
	{"a second message", sse(opening(), []string{strings.Replace(messageStart, "msg_", "other_", 1)}, deltas("SECRET of another."), closing("end_turn", 1)), providers.Invalid},
	{"a second message after text", sse(opening(), deltas("a"), []string{messageStart}, deltas("b"), closing("end_turn", 1)), providers.Invalid},
	{"tool use without a tool", sse(opening()[:1], closing("tool_use", 1)[1:]), providers.Invalid},
	{"JSON content that is a text", pt.JSON(200, `{"type":"message","model":"m","content":"a","stop_reason":"end_turn"}`), providers.Invalid},
	{"a bad escape", pt.JSON(200, `{"type":"message","model":"m","content":[{"type":"text","text":"\q"}],"stop_reason":"end_turn"}`), providers.Invalid},
	{"refusal", sse(opening()[:1], closing("refusal", 1)[1:]), providers.Refused},
	{"JSON refusal", pt.JSON(200, `{"type":"message","model":"m","content":[],"stop_reason":"refusal","stop_details":{"type":"refusal","category":"cyber","explanation":"It could enable harm."},"usage":{"input_tokens":9,"output_tokens":1}}`), providers.Refused},
})

func TestNoCutOrCorruptAnswerIsComplete(t *testing.T) { subject.CheckCorruptions(t, corruptions) }

// A stream that is cut after any of its bytes is complete only if the whole
// end marker was there.
func TestCutAnywhere(t *testing.T) {
	const marker = `data: {"type":"message_stop"      }`
	whole := joined(sse(opening(), deltas("wörld", "🌍"), closing("end_turn", 2)))
	subject.CheckCuts(t, whole, strings.Index(whole, marker)+len(marker))
}

func TestOddAnswersThatAreComplete(t *testing.T) {
	const model = "claude-sonnet-4-5-20250929"
	whole := providers.Result{Model: model, FinishReason: "stop", Usage: providers.Usage{PromptTokens: 9, CompletionTokens: 2, TotalTokens: 11}}
	called := whole
	called.FinishReason = "tool_calls"
	called.ToolCalls = []providers.ToolCall{{ID: "toolu_01T1x1fJ34qAmk2tNTrN7Up6", Name: "get_weather", Arguments: `{"location": "Gent"}`}}
	finished := func(reason string) providers.Result {
		r := whole
		r.FinishReason = providers.FinishReason(reason)
		return r
	}
	explained := finished("content_filter")
	explained.Category, explained.Explanation = "cyber", "It could enable harm."
	text := joined(wholeStream("a", "b"))
	counted := whole
	counted.Usage = providers.Usage{PromptTokens: 159, CompletionTokens: 2, TotalTokens: 161, CachedTokens: 100, CacheWriteTokens: 50}
	thought, unsigned := whole, whole
	thought.Thoughts = []providers.Thought{{Text: "Hm.", Opaque: `{"type":"thinking","thinking":"Hm.","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3h"}`}}
	unsigned.Thoughts = []providers.Thought{{Text: "x"}}
	subject.CheckAnswers(t, "ab", []pt.Answer{
		{"as Anthropic sends it", wholeStream("a", "b"), whole},
		{"in one piece", pt.SSE(text), whole},
		{"byte by byte", pt.SSE(strings.Split(text, "")...), whole},
		{"CRLF", pt.SSE(strings.ReplaceAll(text, "\n", "\r\n")), whole},
		{"CR", pt.SSE(strings.ReplaceAll(text, "\n", "\r")), whole},
		{"byte order mark", pt.SSE("\xef\xbb", "\xbf"+text), whole},
		{"comments", pt.SSE(": hello\n\n" + text), whole},
		{"no event names", pt.SSE(strings.ReplaceAll(text, "event: ", ": ")), whole},
		{"wrong event names", pt.SSE(strings.ReplaceAll(text, "event: ", "event: x_")), whole},
		{"JSON over several lines", pt.SSE(strings.ReplaceAll(text, `,"index"`, ",\ndata: \"index\"")), whole},
		{"pings in between", sse(opening(), deltas("a"), []string{ping, ping}, deltas("b"), []string{ping}, closing("end_turn", 2)), whole},
		{"thinking first", sse([]string{messageStart, thinkingStart, ping, thinkingDelta, signatureDelta, blockStop, blockStart}, deltas("a", "b"), closing("end_turn", 2)), thought},
		{"text in two blocks", sse(opening(), deltas("a"), []string{blockStop, blockStart}, deltas("b"), closing("end_turn", 2)), whole},
		{"text where a block starts", sse([]string{messageStart, strings.Replace(blockStart, `"text":""`, `"text":"a"`, 1)}, deltas("b"), closing("end_turn", 2)), whole},
		{"unknown events", sse(opening(), []string{"event: novelty\ndata: {\"type\":\"novelty\",\"text\":\"x\"}\n\n"}, deltas("a", "b"), closing("end_turn", 2)), whole},
		{"unknown deltas", sse(opening(), []string{strings.Replace(textDelta("x"), "text_delta", "novel_delta", 1)}, deltas("a", "b"), closing("end_turn", 2)), whole},
		{"error null", pt.SSE(strings.ReplaceAll(text, `,"index":0`, `,"index":0,"error":null`)), whole},
		{"an error after the end marker", sse([]string{text, errorEvent("api_error", "too late")}), whole},
		{"a cut after the end marker", pt.Ended(pt.Cut, pt.SSE(text)), whole},
		{"the end marker, then the connection stays", pt.Ended(pt.Hang, pt.SSE(text)), whole},
		{"the end marker without its blank line", pt.SSE(strings.TrimRight(text, "\n")), whole},
		{"no stop reason", sse(opening(), deltas("a", "b"), []string{messageStop}), providers.Result{Model: model, Usage: providers.Usage{PromptTokens: 9, CompletionTokens: 1, TotalTokens: 10}}},
		{"no usage", pt.SSE(strings.ReplaceAll(text, "usage", "usages")), providers.Result{Model: model, FinishReason: "stop"}},
		{"absurd usage", pt.SSE(strings.NewReplacer(`"input_tokens":9`, `"input_tokens":-3`, `"output_tokens":1`, `"output_tokens":"x"`, `"output_tokens":2`, `"output_tokens":1e300`).Replace(text)), providers.Result{Model: model, FinishReason: "stop"}},
		{"usage of the prompt cache", pt.SSE(strings.NewReplacer(`"cache_creation_input_tokens":0`, `"cache_creation_input_tokens":50`, `"cache_read_input_tokens":0`, `"cache_read_input_tokens":100`).Replace(text)), counted},
		{"zeros at the end", pt.SSE(strings.ReplaceAll(text, `"input_tokens":9,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":2`, `"input_tokens":0,"output_tokens":2`)), whole},
		{"stop sequence", sse(opening(), deltas("a", "b"), closing("stop_sequence", 2)), whole},
		{"max tokens", sse(opening(), deltas("a", "b"), closing("max_tokens", 2)), finished("length")},
		{"context window full", sse(opening(), deltas("a", "b"), closing("model_context_window_exceeded", 2)), finished("length")},
		{"explained refusal after text", sse(opening(), deltas("a", "b"), []string{refused}, []string{messageStop}), explained},
		{"JSON explained refusal after text", pt.JSON(200, `{"type":"message","model":"`+explained.Model+`","content":[{"type":"text","text":"ab"}],"stop_reason":"refusal","stop_details":{"type":"refusal","category":"cyber","explanation":"It could enable harm."},"usage":{"input_tokens":9,"output_tokens":2}}`), explained},
		{"details of another end", sse(opening(), deltas("a", "b"), []string{strings.Replace(refused, `"stop_reason":"refusal"`, `"stop_reason":"end_turn"`, 1)}, []string{messageStop}), whole},
		{"refusal after text", sse(opening(), deltas("a", "b"), closing("refusal", 2)), finished("content_filter")},
		{"tool call", sse(opening(), deltas("a", "b"), []string{blockStop, toolStart, toolDelta, toolRest}, closing("tool_use", 2)), called},
		{"wrong content type", pt.Reply{Header: map[string]string{"Content-Type": "text/html"}, Body: []string{text}}, whole},
		{"a whole answer", answer("ab", "end_turn", 2), whole},
		{"a whole answer with a byte order mark", pt.JSON(200, "\xef\xbb\xbf"+joined(answer("ab", "end_turn", 2))), whole},
		{"a whole answer in pieces", pt.Reply{Body: strings.SplitAfter(joined(answer("ab", "end_turn", 2)), ",")}, whole},
		{"a whole answer of several blocks", pt.JSON(200, strings.Replace(joined(answer("ab", "end_turn", 2)), `{"type":"text","text":"ab"}`, `{"type":"thinking","thinking":"x"},{"type":"text","text":"a"},{"type":"novelty","text":"x"},{"type":"text","text":"b"}`, 1)), unsigned},
		{"a whole answer cut short", answer("ab", "max_tokens", 2), finished("length")},
		{"a whole answer with error null", pt.JSON(200, strings.Replace(joined(answer("ab", "end_turn", 2)), `"content"`, `"error":null,"content"`, 1)), whole},
	})
}

func TestAnswersWithoutText(t *testing.T) {
	const model = "claude-sonnet-4-5-20250929"
	subject.CheckAnswers(t, "", []pt.Answer{
		{"a tool call alone", sse([]string{messageStart, toolStart, toolDelta, toolRest}, closing("tool_use", 5)), providers.Result{Model: model, FinishReason: "tool_calls", Usage: providers.Usage{PromptTokens: 9, CompletionTokens: 5, TotalTokens: 14}, ToolCalls: []providers.ToolCall{{ID: "toolu_01T1x1fJ34qAmk2tNTrN7Up6", Name: "get_weather", Arguments: `{"location": "Gent"}`}}}},
		{"a whole answer of a tool call", pt.JSON(200, `{"type":"message","content":[{"type":"tool_use","id":"t","name":"n","input":{}}],"stop_reason":"tool_use"}`), providers.Result{FinishReason: "tool_calls", ToolCalls: []providers.ToolCall{{ID: "t", Name: "n", Arguments: "{}"}}}},
		{"nothing more to say", sse([]string{messageStart}, closing("end_turn", 2)[1:]), providers.Result{Model: model, FinishReason: "stop", Usage: providers.Usage{PromptTokens: 9, CompletionTokens: 2, TotalTokens: 11}}},
		{"all tokens spent on thinking", sse([]string{messageStart, thinkingStart, thinkingDelta}, closing("max_tokens", 9)), providers.Result{Model: model, FinishReason: "length", Usage: providers.Usage{PromptTokens: 9, CompletionTokens: 9, TotalTokens: 18}, Thoughts: []providers.Thought{{Text: "Hm."}}}},
	})
}

func TestThinkingArrivesAtOnce(t *testing.T) {
	gate := make(chan struct{})
	reply := sse([]string{messageStart + thinkingStart, thinkingDelta, textDelta("a")}, closing("end_turn", 2))
	reply.Gate = gate
	up := pt.NewUpstream(t).Then(reply)
	s, err := client(t, up.URL).Invoke(t.Context(), &providers.Request{Stream: true, Messages: hello})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if d, err := s.Next(); err != nil || !reflect.DeepEqual(d, providers.Delta{}) {
		t.Errorf("%+v, %v after the message began", d, err)
	}
	gate <- struct{}{}
	if d, err := s.Next(); err != nil || !reflect.DeepEqual(d, providers.Delta{Thinking: "Hm."}) {
		t.Errorf("%+v, %v while the model thinks", d, err)
	}
	close(gate)
	for {
		d, err := s.Next()
		if err != nil {
			t.Fatal(err)
		}
		if d.Content == "a" {
			break
		}
	}
}

func TestMoreSaysWhetherNextWaits(t *testing.T) {
	subject.CheckMore(t, pt.SSE(textDelta("a")+textDelta("b")+": c\n\n", textDelta("c")+strings.Join(closing("end_turn", 3), "")), true)
}

func TestContentArrivesUnharmed(t *testing.T) {
	subject.CheckContent(t, wholeStream, sse(opening(), []string{strings.Replace(textDelta("x"), `"x"`, `"\ud83c\udf0d\u00e9"`, 1)}, closing("end_turn", 1)))
}

func TestErrorAnswers(t *testing.T) {
	subject.CheckErrors(t, []pt.ErrorAnswer{
		{"Anthropic's", pt.JSON(429, errorBody("rate_limit_error", "This request would exceed your rate limit.")), providers.Error{Status: 429, Code: "rate_limit_error", Message: "This request would exceed your rate limit."}},
		{"overloaded", pt.JSON(529, errorBody("overloaded_error", "Overloaded")), providers.Error{Status: 529, Code: "overloaded_error", Message: "Overloaded"}},
		{"with details", pt.JSON(429, `{"type":"error","error":{"type":"rate_limit_error","message":"m","details":{"error_code":"enforced_spend_limit_reached"}}}`), providers.Error{Status: 429, Type: "rate_limit_error", Code: "enforced_spend_limit_reached", Message: "m"}},
		{"text", pt.JSON(500, `{"error":"model is loading"}`), providers.Error{Status: 500, Message: "model is loading"}},
		{"message", pt.JSON(503, `{"message":"busy","type":"overloaded"}`), providers.Error{Status: 503, Code: "overloaded", Message: "busy"}},
		{"type alone", pt.JSON(503, `{"type":"error"}`), providers.Error{Status: 503, Message: `{"type":"error"}`}},
		{"an error of no shape", pt.JSON(503, `{"error":[1]}`), providers.Error{Status: 503, Message: `{"error":[1]}`}},
		{"null members", pt.JSON(400, `{"type":"error","error":{"type":null,"message":"m","details":null}}`), providers.Error{Status: 400, Message: "m"}},
		{"hints", pt.Reply{Status: 429, Header: map[string]string{"Retry-After": "3", "X-Should-Retry": "false"}}, providers.Error{Status: 429, RetryAfter: 3 * time.Second, Advice: providers.DoNotRetry}},
		{"the key in the text", pt.JSON(401, errorBody("authentication_error", "invalid x-api-key: "+testKey+". See https://x.example/?k=1")), providers.Error{Status: 401, Code: "authentication_error", Message: "invalid x-api-key: [redacted]. See https://x.example/?[redacted]"}},
		{"the key as the type", pt.JSON(401, errorBody(testKey, "m")), providers.Error{Status: 401, Code: "[redacted]", Message: "m"}},
	})
	subject.CheckErrors(t, pt.OddErrors)
}

// refused is the end of an answer that the model refuses to go on with.
const refused = `event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"refusal","stop_sequence":null,"stop_details":{"type":"refusal","category":"cyber","explanation":"It could enable harm."}},"usage":{"output_tokens":2}}

`

func TestErrorsInsideAnswers(t *testing.T) {
	refusal := strings.Replace(refused, `"output_tokens":2`, `"output_tokens":1`, 1)
	subject.CheckErrors(t, []pt.ErrorAnswer{
		{"overloaded", sse(opening(), []string{errorEvent("overloaded_error", "Overloaded")}), providers.Error{Kind: providers.Reported, Code: "overloaded_error", Message: "Overloaded"}},
		{"with the key", sse(opening(), []string{errorEvent("api_error", testKey)}), providers.Error{Kind: providers.Reported, Code: "api_error", Message: "[redacted]"}},
		{"text", sse(opening(), []string{"event: error\ndata: boom\n\n"}), providers.Error{Kind: providers.Reported, Message: "boom"}},
		{"a refusal", sse([]string{messageStart, refusal, messageStop}), providers.Error{Kind: providers.Refused, Code: "refusal", Message: "cyber: It could enable harm."}},
	})
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	subject.CheckReuse(t, func(r pt.Request) pt.Reply {
		if strings.Contains(r.Body, `"stream":true`) {
			return wholeStream("a", "b")
		}
		return answer("ab", "end_turn", 2)
	})
}

// TestAnEventWithoutMemory has an event come that is small until it is parsed.
func TestAnEventWithoutMemory(t *testing.T) {
	subject.CheckEventWithoutMemory(t, func(data string) pt.Reply { return pt.SSE(pt.Event(data)) })
}

// FuzzStream feeds the reader of answers with anything. A complete answer must
// have had the end marker, or a stop reason as a whole message has it, in it.
func FuzzStream(f *testing.F) {
	subject.Fuzz(f, corruptions, []string{
		joined(wholeStream("a", "b")),
		joined(answer("ab", "end_turn", 2)),
		joined(sse([]string{messageStart, toolStart, toolDelta, toolRest}, closing("tool_use", 5))),
		joined(sse([]string{messageStart, thinks(0, "Hm.", "Eq"), block(1, hidden), says(2, "a"), thinks(3, "So.", "Er")}, closing("end_turn", 5))),
		joined(toolAnswer("a", []providers.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":1}`}})),
	}, func(body string, r providers.Result) bool {
		// A string may be escaped in JSON; then it has a backslash.
		return strings.Contains(body, "message_stop") || r.FinishReason != "" || strings.Contains(body, `\`)
	})
}

// FuzzError feeds the reader of error bodies with anything.
func FuzzError(f *testing.F) {
	f.Add([]byte(errorBody("overloaded_error", "Overloaded")))
	f.Add([]byte(`{"error":"text"}`))
	f.Add([]byte(`{"message":"text","type":"x","details":{"error_code":"y"}}`))
	f.Add([]byte("<html>"))
	k := upstream.Call{Provider: "anthropic", Secrets: [2]string{testKey}}
	f.Fuzz(func(t *testing.T, body []byte) {
		var e providers.Error
		k.Describe(&e, body, describe)
		if strings.Contains(e.Error(), testKey) {
			t.Errorf("the key is in %q", e.Error())
		}
	})
}
