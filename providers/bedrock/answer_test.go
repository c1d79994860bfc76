package bedrock

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

const testModel = "eu.anthropic.claude-sonnet-4-5-20250929-v1:0"

func request(stream bool) *providers.Request {
	return &providers.Request{Model: testModel, Stream: stream, Messages: []providers.Message{{Role: "user", Content: "Say hello."}}}
}

// flip changes one bit of a text, in its middle.
func flip(s string) string {
	b := []byte(s)
	b[len(b)/2] ^= 4
	return string(b)
}

// The ways to cut or corrupt an answer. None may end as complete.
var corruptions = []pt.Corruption{
	{"clean end without a stop", streamed(start(), delta("a"), blockStop()), providers.Truncated},
	{"clean end in mid-event", streamed(start(), delta("a"), delta("b")[:60]), providers.Truncated},
	{"clean end in a prelude", streamed(start(), delta("a"), delta("b")[:5]), providers.Truncated},
	{"clean end in the stop", streamed(start(), delta("a"), stop("end_turn")[:100]), providers.Truncated},
	{"usage, but no stop", streamed(start(), delta("a"), metadata(9, 1)), providers.Truncated},
	{"cut between events", ending(pt.Cut, start(), delta("a")), providers.Truncated},
	{"cut in mid-event", ending(pt.Cut, start(), delta("a"), delta("b")[:60]), providers.Truncated},
	{"cut in the checksum of the stop", ending(pt.Cut, delta("a"), stop("end_turn")[:len(stop("end_turn"))-1]), providers.Truncated},
	{"reset", ending(pt.Reset, start(), delta("a")), providers.Truncated},
	{"unframed end", ending(pt.Unframed, start(), delta("a")), providers.Truncated},
	{"a flipped bit in the text", streamed(start(), flip(delta("aaaaaaaaaaaaaaaaaaaaaaaaaaa")), stop("end_turn"), metadata(9, 1)), providers.Invalid},
	{"a flipped bit in the stop", streamed(start(), delta("a"), flip(stop("end_turn")), metadata(9, 1)), providers.Invalid},
	{"a flipped bit in a length", streamed(start(), delta("a"), "\x00\x01"+stop("end_turn")[2:]), providers.Invalid},
	{"a message beyond the limit", streamed(start(), event("contentBlockDelta", `{"delta":{"text":"`+strings.Repeat("x", 3<<20)+`"}}`)), providers.Invalid},
	{"nothing", streamed(), providers.Invalid},
	{"a start only", streamed(start()), providers.Truncated},
	{"an empty message", streamed(frame("")), providers.Invalid},
	{"a message of an unknown type", streamed(start(), frame("{}", ":message-type", "surprise")), providers.Invalid},
	{"an event that is not JSON", streamed(start(), event("contentBlockDelta", "nonsense"), stop("end_turn"), metadata(9, 1)), providers.Invalid},
	{"an event that is no object", streamed(start(), event("messageStop", `"end_turn"`), metadata(9, 1)), providers.Invalid},
	{"a stop without a reason", streamed(start(), delta("a"), event("messageStop", `{}`), metadata(9, 1)), providers.Invalid},
	{"content after the stop", streamed(start(), delta("a"), stop("end_turn"), delta("b")), providers.Invalid},
	{"a thought after the stop", streamed(start(), delta("a"), stop("end_turn"), reasoning("b")), providers.Invalid},
	{"malformed output", streamed(start(), delta("a"), stop("malformed_model_output"), metadata(9, 1)), providers.Reported},
	{"a reason of the future", streamed(start(), delta("a"), stop("tired"), metadata(9, 1)), providers.Invalid},
	{"JSON with a reason of the future", answer("a", "tired", 9, 1), providers.Invalid},
	{"tool use without a tool", streamed(start(), stop("tool_use"), metadata(9, 1)), providers.Invalid},
	{"JSON content that is a text", pt.JSON(200, `{"output":{"message":{"content":"a"}},"stopReason":"end_turn"}`), providers.Invalid},
	{"a bad escape", streamed(start(), event("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"\q"}}`), stop("end_turn"), metadata(9, 1)), providers.Invalid},
	{"exception first", streamed(exception("validationException", `{"message":"boom"}`)), providers.Reported},
	{"exception after the start", streamed(start(), exception("throttlingException", `{"message":"boom"}`)), providers.Reported},
	{"exception after content", streamed(start(), delta("a"), exception("modelStreamErrorException", `{"message":"boom"}`)), providers.Reported},
	{"exception without a body", streamed(start(), exception("internalServerException", "")), providers.Reported},
	{"exception that is no JSON", streamed(start(), exception("internalServerException", "boom")), providers.Reported},
	{"error", streamed(start(), delta("a"), frame("", ":message-type", "error", ":error-code", "InternalError", ":error-message", "boom")), providers.Reported},
	{"blocked by a guardrail without a word", streamed(start(), stop("guardrail_intervened"), metadata(9, 0)), providers.Refused},
	{"filtered without a word", answer("", "content_filtered", 9, 0), providers.Refused},
	{"JSON error", pt.JSON(200, `{"message":"boom"}`), providers.Reported},
	{"JSON error of the front end", pt.JSON(200, `{"Output":{"__type":"com.amazon.coral.service#UnknownOperationException"},"Version":"1.0"}`), providers.Reported},
	{"JSON of nothing", pt.JSON(200, `{}`), providers.Invalid},
	{"JSON of a list", pt.JSON(200, `[]`), providers.Invalid},
	{"JSON cut", ending(pt.Unframed, answer("fine", "end_turn", 9, 1).Body[0][:90]), providers.Invalid},
	{"JSON without a stop", pt.JSON(200, `{"output":{"message":{"content":[{"text":"a"}]}}}`), providers.Invalid},
	{"JSON, malformed", answer("a", "malformed_tool_use", 9, 1), providers.Reported},
	{"deep JSON", pt.JSON(200, strings.Repeat("[", 100_000)), providers.Invalid},
	{"HTML", streamed("<!DOCTYPE html><title>502</title>"), providers.Invalid},
	{"server-sent events", streamed("data: {}\n\n"), providers.Invalid},
}

func TestNoCutOrCorruptAnswerIsComplete(t *testing.T) { subject.CheckCorruptions(t, corruptions) }

func TestAStreamCutAnywhere(t *testing.T) {
	pieces := wholeStream("Hello", ", ", "wörld 🌍")
	whole := join(pieces)
	subject.CheckCuts(t, whole, len(whole)-len(pieces[len(pieces)-1])) // the usage may be missing
}

func TestAStreamWithAFlippedBitAnywhere(t *testing.T) {
	pieces := wholeStream("Hello", ", ", "wörld 🌍")
	whole := join(pieces)
	stopped := len(whole) - len(pieces[len(pieces)-1])
	for at := range len(whole) {
		b := []byte(whole)
		b[at] ^= 1 << (at % 8)
		o := pt.Read(subject.Open(io.NopCloser(strings.NewReader(string(b)))))
		if o.Err == nil && (at < stopped || o.Text != "Hello, wörld 🌍") {
			t.Fatalf("a bit of byte %d of %d flipped: complete, with the text %q", at, len(whole), o.Text)
		}
	}
}

func TestOddAnswersThatAreComplete(t *testing.T) {
	usage := providers.Usage{PromptTokens: 9, CompletionTokens: 2, TotalTokens: 11}
	whole := providers.Result{Model: testModel, FinishReason: "stop", Usage: usage}
	noUsage := providers.Result{Model: testModel, FinishReason: "stop"}
	called := whole
	called.FinishReason = "tool_calls"
	called.ToolCalls = []providers.ToolCall{{ID: "t", Name: "f", Arguments: "{}"}}
	thought, cached := whole, whole
	thought.Thoughts = []providers.Thought{{Text: "Hm."}}
	cached.Usage.CachedTokens, cached.Usage.CacheWriteTokens = 5, 3
	finished := func(reason string) providers.Result {
		return providers.Result{Model: testModel, FinishReason: providers.FinishReason(reason), Usage: usage}
	}
	a, b, end, sum := delta("a"), delta("b"), stop("end_turn"), metadata(9, 2)
	subject.CheckAnswers(t, "ab", []pt.Answer{
		{"as Bedrock sends it", streamed(start(), a, b, blockStop(), end, sum), whole},
		{"in one piece", streamed(start() + a + b + blockStop() + end + sum), whole},
		{"byte by byte", streamed(strings.Split(start()+a+b+end+sum, "")...), whole},
		{"no start", streamed(a, b, end, sum), whole},
		{"reasoning", streamed(start(), reasoning("Hm."), blockStop(), a, b, blockStop(), end, sum), thought},
		{"events of the future", streamed(start(), event("initial-response", "{}"), a, event("surprise", "nonsense"), b, end, sum), whole},
		{"usage first", streamed(start(), sum, a, b, end), whole},
		{"no usage", streamed(start(), a, b, end), noUsage},
		{"stop, then a cut", ending(pt.Cut, start(), a, b, end), noUsage},
		{"stop, then a cut usage", ending(pt.Cut, start(), a, b, end, sum[:50]), noUsage},
		{"stop, then a broken usage", streamed(start(), a, b, end, flip(sum)), noUsage},
		{"stop, then no JSON", streamed(start(), a, b, end, event("metadata", "nonsense")), noUsage},
		{"stop, then an exception", streamed(start(), a, b, end, exception("internalServerException", `{"message":"too late"}`)), noUsage},
		{"stop twice", streamed(start(), a, b, end, end, sum), whole},
		{"usage, then the connection stays", ending(pt.Hang, start(), a, b, end, sum), whole},
		{"absurd usage", streamed(a, b, end, event("metadata", `{"usage":{"inputTokens":-3,"outputTokens":1e300,"totalTokens":"x"}}`)), noUsage},
		{"a prompt from the cache", streamed(a, b, end, event("metadata", `{"usage":{"cacheReadInputTokens":5,"cacheWriteInputTokens":3,"inputTokens":1,"outputTokens":2,"totalTokens":11}}`)), cached},
		{"stop sequence", streamed(a, b, stop("stop_sequence"), sum), whole},
		{"length", streamed(a, b, stop("max_tokens"), sum), finished("length")},
		{"the model's own length", streamed(a, b, stop("model_context_window_exceeded"), sum), finished("length")},
		{"tool", streamed(a, b, event("contentBlockStart", `{"contentBlockIndex":1,"start":{"toolUse":{"name":"f","toolUseId":"t"}}}`), event("contentBlockDelta", `{"contentBlockIndex":1,"delta":{"toolUse":{"input":"{}"}}}`), stop("tool_use"), sum), called},
		{"a guardrail's own words", streamed(a, b, stop("guardrail_intervened"), sum), finished("content_filter")},
		{"filtered after content", answer("ab", "content_filtered", 9, 2), finished("content_filter")},
		{"a whole answer", answer("ab", "end_turn", 9, 2), whole},
		{"a whole answer in pieces", pt.Reply{Body: strings.SplitAfter(answer("ab", "end_turn", 9, 2).Body[0], ",")}, whole},
		{"a whole answer of several blocks", pt.JSON(200, `{"output":{"message":{"content":[{"reasoningContent":{"reasoningText":{"text":"Hm."}}},{"text":"a"},{"text":"b"}]}},"stopReason":"end_turn","usage":{"inputTokens":9,"outputTokens":2,"totalTokens":11}}`), thought},
		{"wrong content type", pt.Reply{Header: map[string]string{"Content-Type": "text/html"}, Body: []string{a, b, end, sum}}, whole},
	})
}

func TestTheStopEndsAStreamThatStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, upstream := io.Pipe()
		go io.WriteString(upstream, delta("a")+stop("end_turn"))
		s := subject.Open(body)
		began := time.Now()
		o := pt.Read(s)
		took := time.Since(began)
		s.Close()
		if o.Err != nil || o.Text != "a" || took != linger {
			t.Errorf("error %v, text %q after %s", o.Err, o.Text, took)
		}
	})
}

func TestErrorAnswers(t *testing.T) {
	const notAllowed = "User: arn:aws:iam::1:user/x is not authorized to perform: bedrock:InvokeModel"
	subject.CheckErrors(t, []pt.ErrorAnswer{
		{"throttled", failure(429, "ThrottlingException", "Too many tokens, please wait before trying again."), providers.Error{Status: 429, Code: "ThrottlingException", Message: "Too many tokens, please wait before trying again."}},
		{"not allowed", failure(403, "AccessDeniedException", notAllowed), providers.Error{Status: 403, Code: "AccessDeniedException", Message: notAllowed}},
		{"capital", pt.JSON(403, `{"Message":"expired"}`), providers.Error{Status: 403, Message: "expired"}},
		{"type in the body", pt.JSON(400, `{"__type":"com.amazon.coral.service#SerializationException"}`), providers.Error{Status: 400, Code: "SerializationException"}},
		{"cut", pt.Reply{Status: 503, Body: []string{`{"mess`}, End: pt.Cut}, providers.Error{Status: 503, Message: `{"mess`}},
		{"hint", pt.Reply{Status: 429, Header: map[string]string{"Retry-After": "3"}}, providers.Error{Status: 429, RetryAfter: 3 * time.Second}},
		{"the key in the text", failure(403, "UnrecognizedClientException", "no such key: "+testKey), providers.Error{Status: 403, Code: "UnrecognizedClientException", Message: "no such key: [redacted]"}},
	})
	subject.CheckErrors(t, pt.OddErrors)
}

func TestExceptionsInAStream(t *testing.T) {
	subject.CheckErrors(t, []pt.ErrorAnswer{
		{"throttled", streamed(start(), exception("throttlingException", `{"message":"Slow down."}`)), providers.Error{Kind: providers.Reported, Code: "throttlingException", Message: "Slow down."}},
		{"the model's error", streamed(start(), exception("modelStreamErrorException", `{"originalMessage":"It broke.","originalStatusCode":500}`)), providers.Error{Kind: providers.Reported, Code: "modelStreamErrorException", Message: "It broke."}},
		{"without a body", streamed(start(), exception("serviceUnavailableException", "")), providers.Error{Kind: providers.Reported, Code: "serviceUnavailableException"}},
		{"an error", streamed(start(), frame("", ":message-type", "error", ":error-code", "InternalError", ":error-message", "It broke.")), providers.Error{Kind: providers.Reported, Code: "InternalError", Message: "It broke."}},
	})
}

func TestMoreSaysWhetherNextWaits(t *testing.T) {
	subject.CheckMore(t, streamed(delta("a")+delta("b")+blockStop(), delta("c")+stop("end_turn")+metadata(9, 3)), true)
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	subject.CheckReuse(t, func(r pt.Request) pt.Reply {
		if strings.HasSuffix(r.Path, "-stream") {
			return streamed(wholeStream("a", "b")...)
		}
		return answer("ab", "end_turn", 9, 2)
	})
}

// FuzzStream feeds the reader of answers with anything. A complete answer must
// have had a stop reason in it.
func FuzzStream(f *testing.F) {
	call := providers.ToolCall{ID: "a", Name: "f", Arguments: `{"x":1}`}
	subject.Fuzz(f, corruptions, []string{
		join(wholeStream("a", "b")),
		answer("ab", "end_turn", 9, 2).Text(),
		join(append(toolBlock(0, call), stop("tool_use"), metadata(1, 2))),
		toolAnswer("a", []providers.ToolCall{call}).Text(),
		join([]string{start(), reasoning("Hm."), piece(`{"signature":"Eq"}`), blockStop(), piece(`{"redactedContent":"EmwK"}`), delta("a"), stop("end_turn")}),
	}, func(body string, r providers.Result) bool {
		return strings.Contains(body, "stopReason") && r.FinishReason != ""
	})
}
