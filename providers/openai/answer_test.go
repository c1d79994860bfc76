package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// The ways to cut or corrupt a stream. None may end as complete.
var corruptions = slices.Concat(pt.NoAnswers, []pt.Corruption{
	{"clean end without a finish", pt.SSE(pt.RoleChunk(), pt.ContentChunk("a")), providers.Truncated},
	{"clean end in mid-event", pt.SSE(pt.RoleChunk(), pt.ContentChunk("a"), pt.ContentChunk("b")[:60]), providers.Invalid},
	{"clean end in the finish event", pt.SSE(pt.ContentChunk("a"), pt.FinishChunk("stop")[:200]), providers.Invalid},
	{"clean end in the end marker", pt.SSE(pt.ContentChunk("a"), "data: [DON"), providers.Invalid},
	{"cut between events", end(pt.Cut, pt.RoleChunk(), pt.ContentChunk("a")), providers.Truncated},
	{"cut in mid-event", end(pt.Cut, pt.ContentChunk("a"), pt.ContentChunk("b")[:60]), providers.Truncated},
	{"cut in the finish event", end(pt.Cut, pt.ContentChunk("a"), pt.FinishChunk("stop")[:len(pt.FinishChunk("stop"))-2]), providers.Truncated},
	{"cut in the end marker", end(pt.Cut, pt.ContentChunk("a"), "data: [DONE]"), providers.Truncated},
	{"reset", end(pt.Reset, pt.RoleChunk(), pt.ContentChunk("a")), providers.Truncated},
	{"unframed end", end(pt.Unframed, pt.RoleChunk(), pt.ContentChunk("a")), providers.Truncated},
	{"unframed end in mid-event", end(pt.Unframed, pt.ContentChunk("a"), pt.ContentChunk("b")[:60]), providers.Invalid},
	{"end marker only", pt.SSE(pt.Done), providers.Invalid},
	{"role and end marker only", pt.SSE(pt.RoleChunk(), pt.Done), providers.Invalid},
	{"usage and end marker only", pt.SSE(pt.UsageChunk(1, 0), pt.Done), providers.Invalid},
	{"comments only", pt.SSE(": hello\n\n", ": hello\n\n"), providers.Invalid},
	{"HTML after content", pt.SSE(pt.ContentChunk("a"), "<html></html>\n\n"), providers.Truncated},
	{"nonsense after content", pt.SSE(pt.ContentChunk("a"), "data: {\"choices\":[\n\n", pt.FinishChunk("stop"), pt.Done), providers.Invalid},
	{"error first", pt.SSE(pt.Event(pt.ErrorObject("server_error", "x", "boom"))), providers.Reported},
	{"error after the role", pt.SSE(pt.RoleChunk(), pt.Event(pt.ErrorObject("server_error", "x", "boom"))), providers.Reported},
	{"error after content", pt.SSE(pt.ContentChunk("a"), pt.Event(pt.ErrorObject("server_error", "x", "boom")), pt.Done), providers.Reported},
	{"error event", pt.SSE(pt.ContentChunk("a"), "event: error\ndata: {\"message\":\"boom\"}\n\n", pt.Done), providers.Reported},
	{"error event of text", pt.SSE(pt.ContentChunk("a"), "event: error\ndata: boom\n\n", pt.Done), providers.Reported},
	{"error as text", pt.SSE(pt.ContentChunk("a"), pt.Event(`{"error":"boom"}`), pt.Done), providers.Reported},
	{"finish reason error", pt.SSE(pt.ContentChunk("a"), pt.FinishChunk("error"), pt.Done), providers.Reported},
	{"JSON error", pt.JSON(200, `{"error":{"message":"boom"}}`), providers.Reported},
	{"JSON list of errors", pt.JSON(200, `[{"error":{"message":"boom","status":"UNAVAILABLE"}}]`), providers.Reported},
	{"JSON message", pt.JSON(200, `{"message":"boom"}`), providers.Reported},
	{"JSON cut", end(pt.Unframed, pt.OpenAIAnswer("fine", 1).Body[0][:300]), providers.Invalid},
	{"JSON without a finish", pt.JSON(200, `{"choices":[{"message":{"content":"a"},"finish_reason":null}]}`), providers.Invalid},
	{"JSON without choices", pt.JSON(200, `{"choices":[],"usage":{"total_tokens":3}}`), providers.Invalid},
	{"a line beyond the limit", pt.SSE("data: {\"choices\":[", strings.Repeat(" ", 3<<20)), providers.Invalid},
	{"refusal", pt.SSE(pt.Event(`{"choices":[{"delta":{"refusal":"I can't"},"finish_reason":null}]}`), pt.FinishChunk("stop"), pt.Done), providers.Refused},
	{"an unknown finish reason after content", pt.SSE(pt.ContentChunk("a"), pt.FinishChunk("tired"), pt.Done), providers.Invalid},
	{"JSON with an unknown finish reason", pt.JSON(200, `{"choices":[{"message":{"content":"a"},"finish_reason":"tired"}]}`), providers.Invalid},
	{"an unknown finish reason with content after a finish", pt.SSE(pt.ContentChunk("a"), pt.FinishChunk("stop"), strings.Replace(pt.ContentChunk("b"), `"finish_reason":null`, `"finish_reason":"tired"`, 1), pt.Done), providers.Invalid},
	{"a legacy function call", pt.SSE(pt.Event(`{"choices":[{"index":0,"delta":{"function_call":{"name":"f","arguments":"{}"}}}]}`), pt.FinishChunk("function_call"), pt.Done), providers.Invalid},
	{"JSON with a legacy function call", pt.JSON(200, `{"choices":[{"message":{"content":null,"function_call":{"name":"f","arguments":"{}"}},"finish_reason":"stop"}]}`), providers.Invalid},
	{"tool calls without a call", pt.JSON(200, `{"choices":[{"message":{"content":null},"finish_reason":"tool_calls"}]}`), providers.Invalid},
	{"content of an unknown form", pt.JSON(200, `{"choices":[{"message":{"content":{"text":"a"}},"finish_reason":"stop"}]}`), providers.Invalid},
	{"content that is a number", pt.SSE(pt.Event(`{"choices":[{"delta":{"content":1}}]}`), pt.FinishChunk("stop"), pt.Done), providers.Invalid},
	{"a part of an unknown type", pt.JSON(200, `{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"image_url","image_url":"x"}]},"finish_reason":"stop"}]}`), providers.Invalid},
	{"a part that is a string", pt.JSON(200, `{"choices":[{"message":{"content":["a"]},"finish_reason":"stop"}]}`), providers.Invalid},
	{"a text without text", pt.JSON(200, `{"choices":[{"message":{"content":[{"type":"text","text":null}]},"finish_reason":"stop"}]}`), providers.Invalid},
	{"an unknown part of a stream", pt.SSE(pt.ContentChunk("a"), pt.Event(`{"choices":[{"delta":{"content":[{"type":"novelty","text":"b"}]}}]}`), pt.FinishChunk("stop"), pt.Done), providers.Invalid},
	{"another choice alone", pt.JSON(200, `{"choices":[{"index":1,"message":{"content":"a"},"finish_reason":"stop"}]}`), providers.Invalid},
	{"the end of another choice", pt.SSE(pt.ContentChunk("a"), strings.Replace(pt.FinishChunk("stop"), `"index":0`, `"index":1`, 1)), providers.Truncated},
	{"a bad escape", pt.JSON(200, `{"choices":[{"message":{"content":"a\q"},"finish_reason":"stop"}]}`), providers.Invalid},
	{"a bad escape in a stream", pt.SSE(pt.Event(`{"choices":[{"delta":{"content":"a\u12"}}]}`), pt.FinishChunk("stop"), pt.Done), providers.Invalid},
	{"a refusal in a part", pt.JSON(200, `{"choices":[{"message":{"content":[{"type":"refusal","refusal":"No."}]},"finish_reason":"stop"}]}`), providers.Refused},
	{"content filter without content", pt.SSE(pt.RoleChunk(), pt.FinishChunk("content_filter"), pt.Done), providers.Refused},
})

func end(how pt.End, pieces ...string) pt.Reply {
	r := pt.SSE(pieces...)
	r.End = how
	return r
}

func TestNoCutOrCorruptStreamIsComplete(t *testing.T) { subject.CheckCorruptions(t, corruptions) }

func TestOddStreamsThatAreComplete(t *testing.T) {
	usage := providers.Usage{PromptTokens: 9, CompletionTokens: 2, TotalTokens: 11}
	const model = "gpt-4o-mini-2024-07-18"
	a, b, finish, sum := pt.ContentChunk("a"), pt.ContentChunk("b"), pt.FinishChunk("stop"), pt.UsageChunk(9, 2)
	whole := providers.Result{Model: model, FinishReason: "stop", Usage: usage}
	noUsage := providers.Result{Model: model, FinishReason: "stop"}
	refused := providers.Result{Model: model, FinishReason: "content_filter", Refusal: true, Refused: len("a")}
	thought := noUsage
	thought.Thoughts = []providers.Thought{{Text: "Hm."}}
	subject.CheckAnswers(t, "ab", []pt.Answer{
		{"as OpenAI sends it", pt.SSE(pt.RoleChunk(), a, b, finish, sum, pt.Done), whole},
		{"in one piece", pt.SSE(pt.RoleChunk() + a + b + finish + sum + pt.Done), whole},
		{"byte by byte", pt.SSE(strings.Split(pt.RoleChunk()+a+b+finish+sum+pt.Done, "")...), whole},
		{"CRLF", pt.SSE(strings.ReplaceAll(a+b+finish+sum+pt.Done, "\n", "\r\n")), whole},
		{"CR", pt.SSE(strings.ReplaceAll(a+b+finish+sum+pt.Done, "\n", "\r")), whole},
		{"byte order mark", pt.SSE("\xef\xbb", "\xbf"+a+b+finish+sum+pt.Done), whole},
		{"comments", pt.SSE(": OPENROUTER PROCESSING\n\n", a, ": PROCESSING\n\n", b, finish, sum, ":\n\n", pt.Done), whole},
		{"JSON over several lines", pt.SSE(strings.ReplaceAll(a, ",", ",\ndata: ")+b, finish, sum, pt.Done), whole},
		{"error null", pt.SSE(strings.ReplaceAll(a+b+finish, `"usage":null`, `"usage":null,"error":null`)+sum, pt.Done), whole},
		{"error empty", pt.SSE(strings.ReplaceAll(a+b+finish, `"usage":null`, `"error":""`)+sum, pt.Done), whole},
		{"no usage", pt.SSE(a, b, finish, pt.Done), noUsage},
		{"choices that were not asked for", pt.SSE(strings.ReplaceAll(pt.RoleChunk()+pt.ContentChunk("WRONG")+a+pt.ContentChunk("WRONG")+b, `"index":0,"delta":{"content":"WRONG"`, `"index":1,"delta":{"content":"WRONG"`), finish, strings.Replace(pt.FinishChunk("length"), `"index":0`, `"index":1`, 1), sum, pt.Done), whole},
		{"whole choices in another order", pt.JSON(200, `{"model":"`+model+`","choices":[{"index":1,"message":{"content":"WRONG"},"finish_reason":"length"},{"index":0,"message":{"content":"ab"},"finish_reason":"stop"}]}`), noUsage},
		{"content in parts", pt.JSON(200, `{"model":"`+model+`","choices":[{"message":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]},{"type":"text","text":"a"},{"type":"reference","reference_ids":[1]},{"type":"text","text":"b"}]},"finish_reason":"stop"}]}`), thought},
		{"content in parts, streamed", pt.SSE(strings.Replace(pt.ContentChunk("x"), `"content":"x"`, `"content":[{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]}]`, 1), strings.Replace(pt.ContentChunk("x"), `"content":"x"`, `"content":[{"type":"text","text":"a"}]`, 1), b, finish, pt.Done), thought},
		{"a refusal after content", pt.SSE(a, pt.Event(`{"choices":[{"delta":{"refusal":"b"},"finish_reason":null}]}`), finish, pt.Done), refused},
		{"a refusal with the content", pt.SSE(pt.Event(`{"model":"`+model+`","choices":[{"delta":{"content":"a","refusal":"b"},"finish_reason":null}]}`), finish, pt.Done), refused},
		{"a refusal after content, whole", pt.JSON(200, `{"model":"`+model+`","choices":[{"message":{"content":"a","refusal":"b"},"finish_reason":"stop"}]}`), refused},
		{"a refusal in parts", pt.JSON(200, `{"model":"`+model+`","choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"refusal","refusal":"b"}]},"finish_reason":"stop"}]}`), refused},
		{"a refusal without words", pt.SSE(a, b, pt.Event(`{"choices":[{"delta":{"content":[{"type":"refusal","refusal":""}]},"finish_reason":null}]}`), finish, pt.Done), providers.Result{Model: model, FinishReason: "content_filter"}},
		{"a filter after content", pt.SSE(a, b, pt.FinishChunk("content_filter"), pt.Done), providers.Result{Model: model, FinishReason: "content_filter"}},
		{"a limit", pt.SSE(a, b, pt.FinishChunk("length"), pt.Done), providers.Result{Model: model, FinishReason: "length"}},
		{"usage twice", pt.SSE(a, pt.UsageChunk(9, 1), b, finish, sum, sum, pt.Done), whole},
		{"usage, then zeros", pt.SSE(a, b, finish, sum, pt.UsageChunk(0, 0), pt.Done), whole},
		{"usage with the finish", pt.SSE(a, b, strings.Replace(finish, `"usage":null`, `"usage":{"prompt_tokens":9,"completion_tokens":2}`, 1), pt.Done), whole},
		{"finish, no end marker", pt.SSE(a, b, finish), noUsage},
		{"finish, then a cut", end(pt.Cut, a, b, finish), noUsage},
		{"finish, then a cut usage", end(pt.Cut, a, b, finish, sum[:50]), noUsage},
		{"finish, then an error", pt.SSE(a, b, finish, pt.Event(`{"error":{"message":"too late"}}`)), noUsage},
		{"finish with the last word", pt.SSE(a, strings.Replace(b, `"finish_reason":null`, `"finish_reason":"stop"`, 1), sum, pt.Done), whole},
		{"finish with each word", pt.SSE(strings.ReplaceAll(a+b, `"finish_reason":null`, `"finish_reason":"stop"`)+sum, pt.Done), whole},
		{"end marker, no finish", pt.SSE(a, b, sum, pt.Done), providers.Result{Model: model, Usage: usage}},
		{"end marker without its blank line", pt.SSE(a, b, finish, sum, "data: [DONE]"), whole},
		{"end marker, then the connection stays", end(pt.Hang, a, b, finish, sum, pt.Done), whole},
		{"content filter after content", pt.SSE(a, b, pt.FinishChunk("content_filter"), sum, pt.Done), providers.Result{Model: model, FinishReason: "content_filter", Usage: usage}},
		{"length", pt.SSE(a, b, pt.FinishChunk("length"), sum, pt.Done), providers.Result{Model: model, FinishReason: "length", Usage: usage}},
		{"wrong content type", pt.Reply{Header: map[string]string{"Content-Type": "text/html"}, Body: []string{a, b, finish, sum, pt.Done}}, whole},
		{"a whole answer", pt.OpenAIAnswer("ab", 2), whole},
		{"a whole answer with a byte order mark", pt.JSON(200, "\xef\xbb\xbf"+pt.OpenAIAnswer("ab", 2).Body[0]), whole},
		{"a whole answer in pieces", pt.Reply{Body: strings.SplitAfter(pt.OpenAIAnswer("ab", 2).Body[0], ",")}, whole},
		{"fractional usage", pt.SSE(a, b, finish, strings.Replace(sum, `"prompt_tokens":9`, `"prompt_tokens":9.0`, 1), pt.Done), whole},
		{"absurd usage", pt.SSE(a, b, finish, pt.Event(`{"choices":[],"usage":{"prompt_tokens":-3,"completion_tokens":1e300,"total_tokens":"x"}}`), pt.Done), noUsage},
	})
}

// TestAConnectionThatStaysOpen holds how long exactly.
func TestTheFinishEndsAStreamThatStaysOpen(t *testing.T) {
	began := time.Now()
	o := subject.Receive(t, end(pt.Hang, pt.ContentChunk("a"), pt.FinishChunk("stop")), true)
	if took := time.Since(began); o.Err != nil || o.Text != "a" || took < lingerUsage/2 || took > time.Minute {
		t.Errorf("error %v, text %q after %s", o.Err, o.Text, took)
	}
}

func TestContentAfterAFinishTakesItBack(t *testing.T) {
	o := subject.Receive(t, pt.SSE(pt.ContentChunk("a"), pt.FinishChunk("stop"), pt.ContentChunk("b")), true)
	if e, ok := errors.AsType[*providers.Error](o.Err); !ok || e.Kind != providers.Truncated {
		t.Errorf("error %v", o.Err)
	}
}

func TestContentArrivesUnharmed(t *testing.T) {
	subject.CheckContent(t, pt.OpenAIStream, pt.SSE(pt.Event(`{"choices":[{"delta":{"content":"\ud83c\udf0d\u00e9"},"finish_reason":"stop"}]}`), pt.Done))
}

func TestMoreSaysWhetherNextWaits(t *testing.T) {
	subject.CheckMore(t, pt.SSE(pt.ContentChunk("a")+pt.ContentChunk("b")+": c\n\n", pt.ContentChunk("c")+pt.FinishChunk("stop")+pt.Done), true)
}

func TestErrorAnswers(t *testing.T) {
	subject.CheckErrors(t, []pt.ErrorAnswer{
		{"OpenAI's", pt.OpenAIError(429, "insufficient_quota", "insufficient_quota", "You exceeded"), providers.Error{Status: 429, Type: "insufficient_quota", Code: "insufficient_quota", Message: "You exceeded"}},
		{"text", pt.JSON(500, `{"error":"model is loading"}`), providers.Error{Status: 500, Message: "model is loading"}},
		{"message", pt.JSON(503, `{"message":"busy","type":"overloaded"}`), providers.Error{Status: 503, Type: "overloaded", Message: "busy"}},
		{"detail", pt.JSON(422, `{"detail":[{"loc":["body"],"msg":"bad"}]}`), providers.Error{Status: 422, Message: `[{"loc":["body"],"msg":"bad"}]`}},
		{"list", pt.JSON(400, `[{"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT"}}]`), providers.Error{Status: 400, Code: "400", Type: "INVALID_ARGUMENT", Message: "API key not valid"}},
		{"null members", pt.JSON(400, `{"error":{"message":"m","type":null,"code":null,"param":null}}`), providers.Error{Status: 400, Message: "m"}},
		{"a member of the request", pt.JSON(400, `{"error":{"message":"m","code":"unsupported_value","param":"temperature"}}`), providers.Error{Status: 400, Code: "unsupported_value", Param: "temperature", Message: "m"}},
		{"not found", pt.JSON(404, `{"error":{"code":"DeploymentNotFound","message":"no"}}`), providers.Error{Status: 404, Code: "DeploymentNotFound", Message: "no"}},
		{"hints", pt.Reply{Status: 429, Header: map[string]string{"Retry-After": "3", "Retry-After-Ms": "2500", "X-Should-Retry": "false"}}, providers.Error{Status: 429, RetryAfter: 2500 * time.Millisecond, Advice: providers.DoNotRetry}},
		{"a time in the text", pt.OpenAIError(429, "tokens", "rate_limit_exceeded", "Rate limit reached for m. Please try again in 6m0.5s. Visit x."), providers.Error{Status: 429, Type: "tokens", Code: "rate_limit_exceeded", Message: "Rate limit reached for m. Please try again in 6m0.5s. Visit x.", RetryAfter: 6*time.Minute + 500*time.Millisecond}},
		{"a time in the text of an answer", pt.OpenAIError(200, "", "rate_limit_exceeded", "Please retry after 10 seconds."), providers.Error{Kind: providers.Reported, Code: "rate_limit_exceeded", Message: "Please retry after 10 seconds.", RetryAfter: 10 * time.Second}},
		{"no time in the text", pt.OpenAIError(429, "", "", "Please try again in a while."), providers.Error{Status: 429, Message: "Please try again in a while."}},
		{"too long a time", pt.OpenAIError(429, "", "", "Try again in 9999999999h."), providers.Error{Status: 429, Message: "Try again in 9999999999h."}},
		{"the key in the text", pt.OpenAIError(401, "", "invalid_api_key", "Incorrect API key provided: "+testKey+". See https://x.example/?k=1"), providers.Error{Status: 401, Code: "invalid_api_key", Message: "Incorrect API key provided: [redacted]. See https://x.example/?[redacted]"}},
		{"the key as the code", pt.JSON(401, `{"error":{"code":"`+testKey+`"}}`), providers.Error{Status: 401, Code: "[redacted]"}},
	})
	subject.CheckErrors(t, pt.OddErrors)
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	subject.CheckReuse(t, func(r pt.Request) pt.Reply {
		if strings.Contains(r.Body, `"stream":true`) {
			return pt.OpenAIStream("a", "b")
		}
		return pt.OpenAIAnswer("ab", 2)
	})
}

// TestAnEventWithoutMemory has an event come that is small until it is parsed.
func TestAnEventWithoutMemory(t *testing.T) {
	subject.CheckEventWithoutMemory(t, func(data string) pt.Reply { return pt.SSE(pt.Event(data)) })
}

// FuzzStream feeds the reader of answers with anything. A complete answer must
// have had a finish reason or the end marker in it. All of its thinking goes back as
// JSON.
func FuzzStream(f *testing.F) {
	services := []*Client{
		client(f, "http://localhost", func(c *Config) { c.Quirks.Thoughts = reasoningDetails }),
		client(f, "http://localhost", func(c *Config) { c.Quirks.Chunks = true }),
	}
	subject.Fuzz(f, corruptions, []string{
		pt.OpenAIStream("a", "b").Text(),
		pt.OpenAIAnswer("ab", 2).Text(),
		strings.Join(append(pt.ToolChunks(0, "a", "f", `{"x":1}`), pt.FinishChunk("tool_calls"), pt.Done), ""),
		pt.OpenAIToolCalls("a", 2, providers.ToolCall{ID: "a", Name: "f", Arguments: `{"x":1}`}).Text(),
		streamed(`"reasoning":"a\ud83d"`, `"reasoning_details":[{"type":"reasoning.text","text":"b","signature":"c","index":0},{"type":"reasoning.encrypted","data":"\ud83d","id":7}]`, `"content":[{"type":"thinking","thinking":[{"text":"c"}]}]`).Text(),
		whole(`"content":"a","reasoning_details":[{"type":"reasoning.summary","summary":"\ud83d","":{}},{"type":"reasoning.\"","a\"b":[]}]`).Text(),
		strings.ReplaceAll(pt.OpenAIStream("a", "b").Text(), `"logprobs":null`, `"logprobs":{"content":[{"token":"\ud83d"}]}`),
	}, func(text string, r providers.Result) bool {
		var parts []providers.Part
		for _, thought := range r.Thoughts {
			parts = append(parts, pt.Thinking(thought.Text, thought.Opaque))
		}
		for _, c := range services {
			sent, _, err := c.body(&form{rest: []byte("}")}, []providers.Message{pt.Message("assistant", parts...)})
			if err != nil || !json.Valid(sent) {
				panic(fmt.Sprintf("thoughts go back as %s, %v", sent, err))
			}
		}
		return strings.Contains(text, "[DONE]") || r.FinishReason != ""
	})
}

// TestTheFirstOfTwoMembers holds which of two members of the same name counts, as in
// the parser.
func TestTheFirstOfTwoMembers(t *testing.T) {
	o := subject.Receive(t, pt.JSON(200, `{"choices":[{"index":0,"message":{"content":"a","content":"b"},"finish_reason":"stop","finish_reason":"length"}],"model":"m","model":"n"}`), false)
	if o.Err != nil || o.Text != "a" || o.Result.Model != "m" || o.Result.FinishReason != providers.FinishStop {
		t.Errorf("%+v", o)
	}
}
