package gemini

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

var a, b, stop = textChunk("a"), textChunk("b"), finishChunk("STOP", "", 2)

// The ways to cut or corrupt an answer. None may end as complete.
var corruptions = slices.Concat(pt.NoAnswers, []pt.Corruption{
	{"clean end without a finish", pt.SSE(a), providers.Truncated},
	{"clean end in mid-event", pt.SSE(a, b[:90]), providers.Invalid},
	{"clean end in the finish", pt.SSE(a, stop[:120]), providers.Invalid},
	{"text after the finish", pt.SSE(a, stop, b), providers.Truncated},
	{"a finish with each chunk, then a cut", pt.Ended(pt.Cut, pt.SSE(finishChunk("STOP", "a", 1))), providers.Truncated},
	{"unspecified finish", pt.SSE(a, finishChunk("FINISH_REASON_UNSPECIFIED", "", 1)), providers.Truncated},
	{"cut between events", pt.Ended(pt.Cut, pt.SSE(a)), providers.Truncated},
	{"cut in mid-event", pt.Ended(pt.Cut, pt.SSE(a, b[:90])), providers.Truncated},
	{"cut in the finish", pt.Ended(pt.Cut, pt.SSE(a, stop[:120])), providers.Truncated},
	{"cut after the finish", pt.Ended(pt.Cut, pt.SSE(a, stop)), providers.Truncated},
	{"reset", pt.Ended(pt.Reset, pt.SSE(a)), providers.Truncated},
	{"unframed end", pt.Ended(pt.Unframed, pt.SSE(a)), providers.Truncated},
	{"unframed end in mid-event", pt.Ended(pt.Unframed, pt.SSE(a, b[:90])), providers.Invalid},
	{"end marker of another API", pt.SSE(a, pt.Done), providers.Invalid},
	{"a stream of another API", pt.OpenAIStream("a"), providers.Invalid},
	{"comments only", pt.SSE(": hello\n\n", ": hello\n\n"), providers.Invalid},
	{"usage only", pt.SSE(event(`{"usageMetadata": {"promptTokenCount": 9,"totalTokenCount": 9}}`)), providers.Invalid},
	{"no candidates", pt.SSE(event(`{"candidates": []}`)), providers.Invalid},
	{"HTML after text", pt.SSE(a, "<html></html>\n\n"), providers.Truncated},
	{"nonsense after text", pt.SSE(a, "data: {\"candidates\":[\n\n", stop), providers.Invalid},
	{"a string", pt.SSE(a, "data: \"x\"\n\n", stop), providers.Invalid},
	{"error first", pt.SSE(event(`{"error": {"code": 503,"message": "x","status": "UNAVAILABLE"}}`)), providers.Reported},
	{"error after text", pt.SSE(a, event(`{"error": {"code": 503,"message": "x","status": "UNAVAILABLE"}}`), stop), providers.Reported},
	{"error of text", pt.SSE(a, event(`{"error": "boom"}`)), providers.Reported},
	{"error of no shape", pt.SSE(a, event(`{"error": [1]}`)), providers.Reported},
	{"bare error first", pt.SSE(errorBody(503, "UNAVAILABLE", overloaded)), providers.Reported},
	{"bare error after text", pt.SSE(a, b, errorBody(503, "UNAVAILABLE", overloaded)), providers.Reported},
	{"bare error after much text", pt.SSE(textChunk(strings.Repeat("x", 10_000)), errorBody(503, "UNAVAILABLE", overloaded)), providers.Reported},
	{"bare error byte by byte", pt.SSE(strings.Split(a+errorBody(503, "UNAVAILABLE", overloaded), "")...), providers.Reported},
	{"bare error with CRLF", pt.SSE(a, strings.ReplaceAll(errorBody(503, "UNAVAILABLE", overloaded), "\n", "\r\n")), providers.Reported},
	{"bare list of errors", pt.SSE(a, "["+errorBody(503, "UNAVAILABLE", overloaded)+"]\n"), providers.Reported},
	{"bare error after the finish", pt.SSE(a, stop, errorBody(503, "UNAVAILABLE", overloaded)), providers.Reported},
	{"bare error, cut", pt.SSE(a, errorBody(503, "UNAVAILABLE", overloaded)[:60]), providers.Truncated},
	{"bare JSON that is no error", pt.SSE(a, "{\"x\": 1}\n"), providers.Truncated},
	{"JSON error", pt.JSON(200, errorBody(503, "UNAVAILABLE", overloaded)), providers.Reported},
	{"JSON list of errors", pt.JSON(200, "["+errorBody(503, "UNAVAILABLE", overloaded)+"]"), providers.Reported},
	{"JSON list of nothing", pt.JSON(200, `[]`), providers.Invalid},
	{"JSON cut", pt.Ended(pt.Cut, pt.JSON(200, joined(answer("fine", "STOP", 1))[:200])), providers.Truncated},
	{"JSON ends early", pt.Ended(pt.Unframed, pt.JSON(200, joined(answer("fine", "STOP", 1))[:200])), providers.Invalid},
	{"JSON without a finish", pt.JSON(200, `{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}`), providers.Truncated},
	{"JSON list without a finish", pt.JSON(200, `[{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}]`), providers.Truncated},
	{"JSON of another API", pt.OpenAIAnswer("fine", 1), providers.Invalid},
	{"a line beyond the limit", pt.SSE("data: {\"candidates\":\"", strings.Repeat(" ", 3<<20)), providers.Invalid},
	{"blocked prompt", pt.SSE(blockedChunk), providers.Refused},
	{"blocked answer", pt.SSE(emptyFinish("SAFETY")), providers.Refused},
	{"recitation", pt.SSE(emptyFinish("RECITATION")), providers.Refused},
	{"malformed function call", pt.SSE(emptyFinish("MALFORMED_FUNCTION_CALL")), providers.Invalid},
	{"other", pt.SSE(emptyFinish("OTHER")), providers.Invalid},
	{"malformed function call after text", pt.SSE(a, emptyFinish("MALFORMED_FUNCTION_CALL")), providers.Invalid},
	{"too many tool calls after text", pt.SSE(a, finishChunk("TOO_MANY_TOOL_CALLS", "b", 2)), providers.Invalid},
	{"a reason of its own after text", pt.SSE(a, finishChunk("LANGUAGE", "", 1)), providers.Invalid},
	{"JSON with a reason of the future", answer("a", "TIRED", 1), providers.Invalid},
	{"JSON content that is a text", pt.JSON(200, `{"candidates":[{"content":{"parts":"a"},"finishReason":"STOP"}]}`), providers.Invalid},
	{"text that is a number", pt.SSE(event(`{"candidates":[{"content":{"parts":[{"text":1}]},"finishReason":"STOP"}]}`)), providers.Invalid},
	{"a bad escape", pt.SSE(event(`{"candidates":[{"content":{"parts":[{"text":"\q"}]},"finishReason":"STOP"}]}`)), providers.Invalid},
})

func TestNoCutOrCorruptAnswerIsComplete(t *testing.T) { subject.CheckCorruptions(t, corruptions) }

// breaking is a body that breaks off with an error.
type breaking struct {
	io.Reader
	err error
}

func (b breaking) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		err = b.err
	}
	return n, err
}

func (breaking) Close() error { return nil }

// TestAWrappedEndIsACut holds that only the end of the body in good order makes
// an answer whole: an error that has io.EOF within, as of a proxy's connection,
// does not.
func TestAWrappedEndIsACut(t *testing.T) {
	body := breaking{strings.NewReader(joined(wholeStream("a"))), fmt.Errorf("the tunnel is gone: %w", io.EOF)}
	s := subject.Open(body)
	defer s.Close()
	var err error
	for err == nil {
		_, err = s.Next()
	}
	if e, ok := errors.AsType[*providers.Error](err); !ok || e.Kind != providers.Truncated {
		t.Errorf("error %v, want a cut", err)
	}
}

// A stream that ends after any of its bytes is complete only if the whole
// last chunk was there.
func TestEndAnywhere(t *testing.T) {
	whole := joined(wholeStream("wörld", "🌍"))
	subject.CheckCuts(t, whole, len(whole)-len("\r\n\r\n"))
}

// A stream whose connection breaks after any of its bytes is never complete.
func TestCutAnywhere(t *testing.T) {
	whole := joined(wholeStream("wörld", "🌍"))
	for n := range len(whole) + 1 {
		broken := io.MultiReader(strings.NewReader(whole[:n]), failing{io.ErrUnexpectedEOF})
		s := subject.Open(io.NopCloser(broken))
		var err error
		for err == nil {
			_, err = s.Next()
		}
		s.Close()
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("%v after %d of %d bytes", err, n, len(whole))
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestOddAnswersThatAreComplete(t *testing.T) {
	usage := providers.Usage{PromptTokens: 9, CompletionTokens: 2, TotalTokens: 11}
	whole := providers.Result{Model: modelVersion, FinishReason: "stop", Usage: usage}
	called := whole
	called.FinishReason = "tool_calls"
	called.ToolCalls = []providers.ToolCall{{Name: "get_weather", Arguments: `{"location":"Utrecht"}`}}
	finished := func(reason string) providers.Result {
		r := whole
		r.FinishReason = providers.FinishReason(reason)
		return r
	}
	counted := func(prompt, completion int64) providers.Result {
		r := whole
		r.Usage = providers.Usage{PromptTokens: prompt, CompletionTokens: completion, TotalTokens: prompt + completion}
		return r
	}
	thoughts := func(texts ...string) providers.Result {
		r := whole
		for _, text := range texts {
			r.Thoughts = append(r.Thoughts, providers.Thought{Text: text})
		}
		return r
	}
	reasoned := counted(9, 32)
	reasoned.Usage.ReasoningTokens, reasoned.Usage.CachedTokens = 30, 5
	text := a + b + stop
	spelled := func(from, to string) pt.Reply { return pt.SSE(strings.ReplaceAll(text, from, to)) }
	json := joined(answer("ab", "STOP", 2))
	subject.CheckAnswers(t, "ab", []pt.Answer{
		{"as Google sends it", wholeStream("a", "b"), whole},
		{"in one piece", pt.SSE(text), whole},
		{"byte by byte", pt.SSE(strings.Split(text, "")...), whole},
		{"LF", pt.SSE(strings.ReplaceAll(text, "\r\n", "\n")), whole},
		{"CR", pt.SSE(strings.ReplaceAll(text, "\r\n", "\r")), whole},
		{"byte order mark", pt.SSE("\xef\xbb", "\xbf"+text), whole},
		{"comments", pt.SSE(": hello\n\n", a, ": hello\n\n", b, stop), whole},
		{"JSON over several lines", spelled(`,"index"`, ",\r\ndata: \"index\""), whole},
		{"no index", spelled(`,"index": 0`, ""), whole},
		{"error null", spelled(`{"candidates"`, `{"error": null,"candidates"`), whole},
		{"thoughts", pt.SSE(thoughtChunk("Hm."), a, thoughtChunk("Ha."), b, stop), thoughts("Hm.", "Ha.")},
		{"several parts", pt.SSE(strings.Replace(a, `{"text": "a"}`, `{"text": "x","thought": true},{"text": "a"},{"text": ""},{"inlineData": {}},{"text": "b"}`, 1), stop), thoughts("x")},
		{"many parts", pt.SSE(strings.Replace(a, `{"text": "a"}`, `{"text": "a"},{"text": "b"},{"text": ""}`, 1), stop), whole},
		{"the finish with the last text", pt.SSE(a, finishChunk("STOP", "b", 2)), whole},
		{"a finish with each chunk", pt.SSE(finishChunk("STOP", "a", 1), finishChunk("STOP", "b", 2)), whole},
		{"the usage after the finish", pt.SSE(a, b, emptyFinish("STOP"), event(`{"usageMetadata": {"promptTokenCount": 9,"candidatesTokenCount": 2,"totalTokenCount": 11}}`)), whole},
		{"a last chunk of nothing", pt.SSE(text, event(`{"candidates": [{"content": {"parts": []},"index": 0}]}`)), whole},
		{"another candidate", pt.SSE(strings.Replace(a, `"index": 0`, `"index": 1`, 1), a, strings.Replace(b, `"index": 0`, `"index": 1`, 1), b, stop, strings.Replace(b, `"index": 0`, `"index": 1`, 1)), whole},
		{"two candidates in a chunk", pt.SSE(a, strings.Replace(finishChunk("STOP", "b", 2), `"candidates": [`, `"candidates": [{"content": {"parts": [{"text": "x"}]},"index": 1},`, 1)), whole},
		{"the last line without its end", pt.SSE(strings.TrimRight(text, "\r\n")), whole},
		{"unframed, with a finish", pt.Ended(pt.Unframed, pt.SSE(text)), whole},
		{"length", pt.SSE(a, b, finishChunk("MAX_TOKENS", "", 2)), finished("length")},
		{"content filter after text", pt.SSE(a, b, finishChunk("SAFETY", "", 2)), finished("content_filter")},
		{"recitation after text", pt.SSE(a, b, finishChunk("RECITATION", "", 2)), finished("content_filter")},
		{"a function call", pt.SSE(a, b, toolChunk, stop), called},
		{"thoughts are counted", pt.SSE(a, b, strings.Replace(stop, `"totalTokenCount": 11`, `"thoughtsTokenCount": 30,"cachedContentTokenCount": 5,"totalTokenCount": 41`, 1)), reasoned},
		{"tools are counted", pt.SSE(a, b, strings.Replace(stop, `"totalTokenCount": 11`, `"toolUsePromptTokenCount": 100,"totalTokenCount": 111`, 1)), counted(109, 2)},
		{"the completion is not counted", pt.SSE(a, b, strings.Replace(stop, `"candidatesTokenCount": 2,`, "", 1)), counted(9, 2)},
		{"no usage", spelled("usageMetadata", "usage"), providers.Result{Model: modelVersion, FinishReason: "stop"}},
		{"absurd usage", pt.SSE(strings.NewReplacer(`"promptTokenCount": 9`, `"promptTokenCount": -9`, `"candidatesTokenCount": 2`, `"candidatesTokenCount": 1e300`, `"totalTokenCount": 11`, `"totalTokenCount": "x"`).Replace(text)), providers.Result{Model: modelVersion, FinishReason: "stop"}},
		{"no model", spelled("modelVersion", "version"), providers.Result{FinishReason: "stop", Usage: usage}},
		{"a safety rating of the prompt", spelled(`{"candidates"`, `{"promptFeedback": {"safetyRatings": []},"candidates"`), whole},
		{"wrong content type", pt.Reply{Header: map[string]string{"Content-Type": "text/html"}, Body: []string{text}}, whole},
		{"a whole answer", answer("ab", "STOP", 2), whole},
		{"a whole answer with a byte order mark", pt.JSON(200, "\xef\xbb\xbf"+json), whole},
		{"a whole answer in pieces", pt.Reply{Body: strings.SplitAfter(json, ",")}, whole},
		{"a whole answer of thoughts, too", pt.JSON(200, strings.Replace(json, `"parts": [`, `"parts": [{"text": "x", "thought": true},`, 1)), thoughts("x")},
		{"a list of chunks", pt.JSON(200, "["+strings.TrimPrefix(strings.NewReplacer("data: ", ",", "\r\n\r\n", "\r\n").Replace(text), ",")+"]"), whole},
	})
}

func TestAnswersWithoutText(t *testing.T) {
	subject.CheckAnswers(t, "", []pt.Answer{
		{"a function call alone", pt.SSE(toolChunk, stop), providers.Result{Model: modelVersion, FinishReason: "tool_calls", Usage: providers.Usage{PromptTokens: 9, CompletionTokens: 2, TotalTokens: 11}, ToolCalls: []providers.ToolCall{{Name: "get_weather", Arguments: `{"location":"Utrecht"}`}}}},
		{"nothing to say", pt.SSE(emptyFinish("STOP")), providers.Result{Model: modelVersion, FinishReason: "stop", Usage: providers.Usage{PromptTokens: 9, TotalTokens: 9}}},
		{"all tokens spent on thoughts", pt.SSE(thoughtChunk("Hm."), emptyFinish("MAX_TOKENS")), providers.Result{Model: modelVersion, FinishReason: "length", Usage: providers.Usage{PromptTokens: 9, TotalTokens: 9}, Thoughts: []providers.Thought{{Text: "Hm."}}}},
	})
}

func TestThoughtsAreASignOfLife(t *testing.T) {
	gate := make(chan struct{})
	reply := pt.SSE(thoughtChunk("Hm."), a+stop)
	reply.Gate = gate
	up := pt.NewUpstream(t).Then(reply)
	s, err := client(t, up.URL).Invoke(t.Context(), &providers.Request{Model: "m", Stream: true, Messages: hello})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if d, err := s.Next(); err != nil || !reflect.DeepEqual(d, providers.Delta{Thinking: "Hm."}) {
		t.Errorf("%+v, %v while the model thinks", d, err)
	}
	close(gate)
	if d, err := s.Next(); err != nil || d.Content != "a" {
		t.Errorf("%+v, %v", d, err)
	}
}

func TestMoreSaysWhetherNextWaits(t *testing.T) {
	subject.CheckMore(t, pt.SSE(a+b+": c\r\n\r\n", textChunk("c")+stop), false)
}

func TestContentArrivesUnharmed(t *testing.T) {
	subject.CheckContent(t, wholeStream, pt.SSE(strings.Replace(a, `"a"`, `"\ud83c\udf0d\u00e9"`, 1), stop))
}

func TestErrorAnswers(t *testing.T) {
	quota := "You exceeded your current quota, please check your plan and billing details."
	subject.CheckErrors(t, []pt.ErrorAnswer{
		{"Google's", pt.JSON(503, errorBody(503, "UNAVAILABLE", overloaded)), providers.Error{Status: 503, Code: "503", Type: "UNAVAILABLE", Message: overloaded}},
		{"a bad key", pt.JSON(400, errorBody(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", errorInfo("API_KEY_INVALID"))), providers.Error{Status: 400, Code: "API_KEY_INVALID", Type: "INVALID_ARGUMENT", Message: "API key not valid. Please pass a valid API key."}},
		{"quota", pt.JSON(429, errorBody(429, "RESOURCE_EXHAUSTED", quota, `{"@type": "type.googleapis.com/google.rpc.QuotaFailure","violations": []}`, `{"@type": "type.googleapis.com/google.rpc.Help"}`, retryInfo("34.074824224s"))), providers.Error{Status: 429, Code: "429", Type: "RESOURCE_EXHAUSTED", Message: quota, RetryAfter: 34074824224 * time.Nanosecond}},
		{"the header wins", pt.Reply{Status: 429, Header: map[string]string{"Retry-After": "3"}, Body: []string{errorBody(429, "RESOURCE_EXHAUSTED", "m", retryInfo("34s"))}}, providers.Error{Status: 429, Code: "429", Type: "RESOURCE_EXHAUSTED", Message: "m", RetryAfter: 3 * time.Second}},
		{"list", pt.JSON(503, "["+errorBody(503, "UNAVAILABLE", overloaded)+"]"), providers.Error{Status: 503, Code: "503", Type: "UNAVAILABLE", Message: overloaded}},
		{"text", pt.JSON(500, `{"error":"boom"}`), providers.Error{Status: 500, Message: "boom"}},
		{"a code of text", pt.JSON(500, `{"error":{"code":"invalid_request","message":"m"}}`), providers.Error{Status: 500, Code: "invalid_request", Message: "m"}},
		{"null members", pt.JSON(400, `{"error":{"code":null,"message":"m","status":null,"details":null}}`), providers.Error{Status: 400, Message: "m"}},
		{"odd details", pt.JSON(400, `{"error":{"message":"m","details":[1,"x",null,{"@type":7},{"@type":"type.googleapis.com/google.rpc.ErrorInfo"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"soon"}]}}`), providers.Error{Status: 400, Message: "m"}},
		{"another shape", pt.JSON(400, `{"detail":"m"}`), providers.Error{Status: 400, Message: `{"detail":"m"}`}},
		{"the key in the text", pt.JSON(400, errorBody(400, "INVALID_ARGUMENT", "Bad key "+testKey+" at https://x.example/?key=1")), providers.Error{Status: 400, Code: "400", Type: "INVALID_ARGUMENT", Message: "Bad key [redacted] at https://x.example/?[redacted]"}},
	})
	subject.CheckErrors(t, pt.OddErrors)
}

func TestErrorsInsideAnswers(t *testing.T) {
	subject.CheckErrors(t, []pt.ErrorAnswer{
		// The code stays the number, which has the error's meaning.
		{"quota", pt.SSE(a, errorBody(429, "RESOURCE_EXHAUSTED", "m", errorInfo("RATE_LIMIT_EXCEEDED"), retryInfo("2s"))), providers.Error{Kind: providers.Reported, Code: "429", Type: "RESOURCE_EXHAUSTED", Message: "m", RetryAfter: 2 * time.Second}},
		{"with the key", pt.SSE(a, errorBody(500, "INTERNAL", testKey)), providers.Error{Kind: providers.Reported, Code: "500", Type: "INTERNAL", Message: "[redacted]"}},
		{"a blocked prompt", pt.SSE(blockedChunk), providers.Error{Kind: providers.Refused, Code: "PROHIBITED_CONTENT"}},
		{"a blocked answer", pt.SSE(emptyFinish("SPII")), providers.Error{Kind: providers.Refused, Code: "SPII"}},
		{"no answer", pt.SSE(emptyFinish("MALFORMED_RESPONSE")), providers.Error{Kind: providers.Invalid, Reason: "an answer that ended for an unexpected reason", Message: "MALFORMED_RESPONSE"}},
	})
}

func TestRetryDelay(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"34s": 34 * time.Second, "0.5s": 500 * time.Millisecond, "3.000000001s": 3*time.Second + 1,
		"": 0, "s": 0, "34": 0, "-1s": 0, "NaNs": 0, "x": 0, "1e300s": 0, "315576000000s": 0, "36000s": 10 * time.Hour, "86401s": maxRetryDelay,
	} {
		if got := retryDelay([]byte(text)); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	subject.CheckReuse(t, func(r pt.Request) pt.Reply {
		if r.Query == "alt=sse" {
			return wholeStream("a", "b")
		}
		return answer("ab", "STOP", 2)
	})
}

func TestTheTailIsTheEndOfWhatWasRead(t *testing.T) {
	var whole strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&whole, "%d ", i)
	}
	for _, size := range []int{1, 7, tailSize - 1, tailSize, tailSize + 1, 1 << 20} {
		tail := &tailReader{ReadCloser: io.NopCloser(strings.NewReader(whole.String()))}
		p := make([]byte, size)
		for {
			if _, err := tail.Read(p); err != nil {
				break
			}
		}
		if got := string(tail.tail); got != whole.String()[whole.Len()-tailSize:] {
			t.Errorf("reads of %d bytes: the tail has %d bytes and begins %q", size, len(got), got[:min(len(got), 20)])
		}
	}
}

// TestAnEventWithoutMemory has an event come that is small until it is parsed.
func TestAnEventWithoutMemory(t *testing.T) {
	subject.CheckEventWithoutMemory(t, func(data string) pt.Reply { return pt.SSE(event(data)) })
}

// FuzzStream feeds the reader of answers with anything. A complete answer must
// have named its finish.
func FuzzStream(f *testing.F) {
	subject.Fuzz(f, corruptions, []string{
		joined(wholeStream("a", "b")),
		joined(answer("ab", "STOP", 2)),
		callChunk(`{"name":"f","willContinue":true}`) + partial(`{"jsonPath":"$.a[0]['b']","stringValue":"x"}`) + partial(`{"jsonPath":"$.a[1]","nullValue":"NULL_VALUE"}`) + callEnd + finishChunk("STOP", "", 2),
		toolChunk + finishChunk("STOP", "", 2),
		event(parts(`{"text":"x","thought":true,"thoughtSignature":"s"},{"text":"y","thoughtSignature":"s"},{"functionCall":{"id":"a","name":"f"},"thoughtSignature":"s"}`)),
		toolAnswer("a", providers.ToolCall{Name: "f", Arguments: `{"x":1}`}),
	}, func(_ string, r providers.Result) bool { return r.FinishReason != "" })
}

// FuzzError feeds the reader of error bodies with anything.
func FuzzError(f *testing.F) {
	f.Add([]byte(errorBody(429, "RESOURCE_EXHAUSTED", "m", errorInfo("X"), retryInfo("34.07s"))))
	f.Add([]byte("[" + errorBody(503, "UNAVAILABLE", overloaded) + "]"))
	f.Add([]byte(`{"error":"text"}`))
	f.Add([]byte("<html>"))
	k := upstream.Call{Provider: "gemini", Secrets: [2]string{testKey}}
	f.Fuzz(func(t *testing.T, body []byte) {
		var e providers.Error
		k.Describe(&e, body, describe)
		if strings.Contains(e.Error(), testKey) {
			t.Errorf("the key is in %q", e.Error())
		}
		if e.RetryAfter < 0 || e.RetryAfter > maxRetryDelay {
			t.Errorf("a wait of %s", e.RetryAfter)
		}
	})
}
