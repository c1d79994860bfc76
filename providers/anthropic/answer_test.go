package anthropic

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// outcome is what a caller sees of an answer.
type outcome struct {
	text   string
	pieces []string
	result providers.Result
	err    error
}

var hello = []providers.Message{{Role: "user", Content: "Hello"}}

// receive gets one answer.
func receive(t testing.TB, reply pt.Reply, stream bool) outcome {
	t.Helper()
	up := pt.NewUpstream(t).Then(reply)
	return receiveFrom(t, client(t, up.URL), stream)
}

func receiveFrom(t testing.TB, c *Client, stream bool) outcome {
	t.Helper()
	s, err := c.Invoke(t.Context(), &providers.Request{Model: "m", Messages: hello, Stream: stream})
	if err != nil {
		return outcome{err: err}
	}
	defer s.Close()
	var o outcome
	for {
		d, err := s.Next()
		o.result = s.Result()
		if err == io.EOF {
			return o
		}
		if err != nil {
			o.err = err
			return o
		}
		if d.Content != "" {
			o.pieces = append(o.pieces, d.Content)
			o.text += d.Content
		}
	}
}

// The ways to cut or corrupt an answer. None may end as complete.
var corruptions = []struct {
	name  string
	reply pt.Reply
	kind  providers.ErrorKind
}{
	{"clean end after the text", sse(opening(), deltas("a")), providers.Truncated},
	{"clean end after the block", sse(opening(), deltas("a"), []string{blockStop}), providers.Truncated},
	{"clean end after the stop reason", sse(opening(), deltas("a"), closing("end_turn", 1)[:2]), providers.Truncated},
	{"clean end after the message began", sse(opening()), providers.Truncated},
	{"clean end in mid-event", sse(opening(), deltas("a"), []string{textDelta("b")[:90]}), providers.Invalid},
	{"clean end in the end marker", sse(opening(), deltas("a"), closing("end_turn", 1)[:2], []string{messageStop[:40]}), providers.Invalid},
	{"clean end in the end marker's name", sse(opening(), deltas("a"), []string{"event: message_stop\n"}), providers.Truncated},
	{"cut between events", ended(pt.Cut, sse(opening(), deltas("a"))), providers.Truncated},
	{"cut in mid-event", ended(pt.Cut, sse(opening(), deltas("a"), []string{textDelta("b")[:90]})), providers.Truncated},
	{"cut after the stop reason", ended(pt.Cut, sse(opening(), deltas("a"), closing("end_turn", 1)[:2])), providers.Truncated},
	{"cut in the end marker", ended(pt.Cut, sse(opening(), deltas("a"), closing("end_turn", 1)[:2], []string{strings.TrimRight(messageStop, "\n")})), providers.Truncated},
	{"reset", ended(pt.Reset, sse(opening(), deltas("a"))), providers.Truncated},
	{"unframed end", ended(pt.Unframed, sse(opening(), deltas("a"))), providers.Truncated},
	{"unframed end in mid-event", ended(pt.Unframed, sse(opening(), deltas("a"), []string{textDelta("b")[:90]})), providers.Invalid},
	{"end marker only", sse([]string{messageStop}), providers.Invalid},
	{"start and end marker only", sse([]string{messageStart, messageStop}), providers.Invalid},
	{"end marker of another API", sse(opening(), deltas("a"), []string{pt.Done}), providers.Invalid},
	{"a stream of another API", pt.OpenAIStream("a", "b"), providers.Invalid},
	{"nothing", pt.SSE(), providers.Invalid},
	{"pings only", sse([]string{ping, ping}), providers.Invalid},
	{"comments only", sse([]string{": hello\n\n", ": hello\n\n"}), providers.Invalid},
	{"HTML", pt.SSE("<!DOCTYPE html><title>502</title>"), providers.Invalid},
	{"HTML after text", sse(opening(), deltas("a"), []string{"<html></html>\n\n"}), providers.Truncated},
	{"nonsense", pt.SSE("data: nonsense\n\n"), providers.Invalid},
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
	{"JSON of nothing", pt.JSON(200, `{}`), providers.Invalid},
	{"JSON of a string", pt.JSON(200, `"fine"`), providers.Invalid},
	{"JSON list", pt.JSON(200, `[{"type":"message"}]`), providers.Invalid},
	{"JSON cut", ended(pt.Cut, pt.JSON(200, joined(answer("fine", "end_turn", 1))[:200])), providers.Truncated},
	{"JSON ends early", ended(pt.Unframed, pt.JSON(200, joined(answer("fine", "end_turn", 1))[:200])), providers.Invalid},
	{"JSON without a stop reason", pt.JSON(200, `{"type":"message","content":[{"type":"text","text":"a"}],"stop_reason":null}`), providers.Invalid},
	{"JSON of another API", pt.OpenAIAnswer("fine", 1), providers.Invalid},
	{"white space", pt.JSON(200, strings.Repeat(" \n", 1000)), providers.Invalid},
	{"deep JSON", pt.JSON(200, strings.Repeat("[", 100_000)), providers.Invalid},
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
}

func TestNoCutOrCorruptAnswerIsComplete(t *testing.T) {
	for _, test := range corruptions {
		t.Run(test.name, func(t *testing.T) {
			for _, stream := range []bool{true, false} {
				o := receive(t, test.reply, stream)
				if o.err == nil {
					t.Fatalf("stream=%v: complete, with the text %q", stream, o.text)
				}
				e, ok := errors.AsType[*providers.Error](o.err)
				if !ok {
					t.Fatalf("stream=%v: error %T %v", stream, o.err, o.err)
				}
				if e.Kind != test.kind || e.Provider != "anthropic" || e.Status != 200 {
					t.Errorf("stream=%v: error %+v, want the kind %v", stream, e, test.kind)
				}
			}
		})
	}
}

// A stream that is cut after any of its bytes is complete only where the whole
// end marker was there.
func TestCutAnywhere(t *testing.T) {
	whole := joined(sse(opening(), deltas("wörld", "🌍"), closing("end_turn", 2)))
	marker := strings.Index(whole, `data: {"type":"message_stop"`)
	c := call{&Client{name: "anthropic"}, ""}
	for n := range len(whole) {
		s := newStream(c, io.NopCloser(strings.NewReader(whole[:n])), nil)
		var err error
		for err == nil {
			_, err = s.Next()
		}
		s.Close()
		if complete := err == io.EOF; complete && n < marker+len(`data: {"type":"message_stop"      }`) {
			t.Fatalf("complete after %d of %d bytes: %q", n, len(whole), whole[max(0, n-40):n])
		}
	}
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
	text := joined(wholeStream("a", "b"))
	counted := whole
	counted.Usage = providers.Usage{PromptTokens: 159, CompletionTokens: 2, TotalTokens: 161}
	for _, test := range []struct {
		name   string
		reply  pt.Reply
		result providers.Result
	}{
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
		{"thinking first", sse([]string{messageStart, thinkingStart, ping, thinkingDelta, signatureDelta, blockStop, blockStart}, deltas("a", "b"), closing("end_turn", 2)), whole},
		{"text in two blocks", sse(opening(), deltas("a"), []string{blockStop, blockStart}, deltas("b"), closing("end_turn", 2)), whole},
		{"text where a block starts", sse([]string{messageStart, strings.Replace(blockStart, `"text":""`, `"text":"a"`, 1)}, deltas("b"), closing("end_turn", 2)), whole},
		{"unknown events", sse(opening(), []string{"event: novelty\ndata: {\"type\":\"novelty\",\"text\":\"x\"}\n\n"}, deltas("a", "b"), closing("end_turn", 2)), whole},
		{"unknown deltas", sse(opening(), []string{strings.Replace(textDelta("x"), "text_delta", "novel_delta", 1)}, deltas("a", "b"), closing("end_turn", 2)), whole},
		{"error null", pt.SSE(strings.ReplaceAll(text, `,"index":0`, `,"index":0,"error":null`)), whole},
		{"an error after the end marker", sse([]string{text, errorEvent("api_error", "too late")}), whole},
		{"a cut after the end marker", ended(pt.Cut, pt.SSE(text)), whole},
		{"the end marker, then the connection stays", ended(pt.Hang, pt.SSE(text)), whole},
		{"the end marker without its blank line", pt.SSE(strings.TrimRight(text, "\n")), whole},
		{"no stop reason", sse(opening(), deltas("a", "b"), []string{messageStop}), providers.Result{Model: model, Usage: providers.Usage{PromptTokens: 9, CompletionTokens: 1, TotalTokens: 10}}},
		{"no usage", pt.SSE(strings.ReplaceAll(text, "usage", "usages")), providers.Result{Model: model, FinishReason: "stop"}},
		{"absurd usage", pt.SSE(strings.NewReplacer(`"input_tokens":9`, `"input_tokens":-3`, `"output_tokens":1`, `"output_tokens":"x"`, `"output_tokens":2`, `"output_tokens":1e300`).Replace(text)), providers.Result{Model: model, FinishReason: "stop"}},
		{"usage of the prompt cache", pt.SSE(strings.NewReplacer(`"cache_creation_input_tokens":0`, `"cache_creation_input_tokens":50`, `"cache_read_input_tokens":0`, `"cache_read_input_tokens":100`).Replace(text)), counted},
		{"zeros at the end", pt.SSE(strings.ReplaceAll(text, `"input_tokens":9,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":2`, `"input_tokens":0,"output_tokens":2`)), whole},
		{"stop sequence", sse(opening(), deltas("a", "b"), closing("stop_sequence", 2)), whole},
		{"max tokens", sse(opening(), deltas("a", "b"), closing("max_tokens", 2)), finished("length")},
		{"context window full", sse(opening(), deltas("a", "b"), closing("model_context_window_exceeded", 2)), finished("length")},
		{"refusal after text", sse(opening(), deltas("a", "b"), closing("refusal", 2)), finished("content_filter")},
		{"tool call", sse(opening(), deltas("a", "b"), []string{blockStop, toolStart, toolDelta, toolRest}, closing("tool_use", 2)), called},
		{"wrong content type", pt.Reply{Header: map[string]string{"Content-Type": "text/html"}, Body: []string{text}}, whole},
		{"a whole answer", answer("ab", "end_turn", 2), whole},
		{"a whole answer with a byte order mark", pt.JSON(200, "\xef\xbb\xbf"+joined(answer("ab", "end_turn", 2))), whole},
		{"a whole answer in pieces", pt.Reply{Body: strings.SplitAfter(joined(answer("ab", "end_turn", 2)), ",")}, whole},
		{"a whole answer of several blocks", pt.JSON(200, strings.Replace(joined(answer("ab", "end_turn", 2)), `{"type":"text","text":"ab"}`, `{"type":"thinking","thinking":"x"},{"type":"text","text":"a"},{"type":"novelty","text":"x"},{"type":"text","text":"b"}`, 1)), whole},
		{"a whole answer cut short", answer("ab", "max_tokens", 2), finished("length")},
		{"a whole answer with error null", pt.JSON(200, strings.Replace(joined(answer("ab", "end_turn", 2)), `"content"`, `"error":null,"content"`, 1)), whole},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, stream := range []bool{true, false} {
				o := receive(t, test.reply, stream)
				if o.err != nil || o.text != "ab" {
					t.Fatalf("stream=%v: error %v, text %q", stream, o.err, o.text)
				}
				if diff := cmp.Diff(test.result, o.result); diff != "" {
					t.Errorf("stream=%v: result (-want +got):\n%s", stream, diff)
				}
			}
		})
	}
}

func TestAnswersWithoutText(t *testing.T) {
	for _, test := range []struct {
		name   string
		finish providers.FinishReason
		reply  pt.Reply
	}{
		{"a tool call alone", "tool_calls", sse([]string{messageStart, toolStart, toolDelta, toolRest}, closing("tool_use", 5))},
		{"a whole answer of a tool call", "tool_calls", pt.JSON(200, `{"type":"message","content":[{"type":"tool_use","id":"t","name":"n","input":{}}],"stop_reason":"tool_use"}`)},
		{"nothing more to say", "stop", sse([]string{messageStart}, closing("end_turn", 2)[1:])},
		{"all tokens spent on thinking", "length", sse([]string{messageStart, thinkingStart, thinkingDelta}, closing("max_tokens", 9))},
	} {
		for _, stream := range []bool{true, false} {
			o := receive(t, test.reply, stream)
			if o.err != nil || o.text != "" || o.result.FinishReason != test.finish {
				t.Errorf("%s: error %v, text %q, result %+v", test.name, o.err, o.text, o.result)
			}
		}
	}
}

func TestThinkingIsASignOfLife(t *testing.T) {
	gate := make(chan struct{})
	reply := sse([]string{messageStart + thinkingStart, thinkingDelta, textDelta("a")}, closing("end_turn", 2))
	reply.Gate = gate
	up := pt.NewUpstream(t).Then(reply)
	s, err := client(t, up.URL).Invoke(t.Context(), &providers.Request{Stream: true, Messages: hello})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if d, err := s.Next(); err != nil || d != (providers.Delta{}) {
		t.Errorf("%+v, %v after the message began", d, err)
	}
	gate <- struct{}{}
	if d, err := s.Next(); err != nil || d != (providers.Delta{}) {
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
	gate := make(chan struct{})
	reply := pt.SSE(textDelta("a")+textDelta("b")+": c\n\n", textDelta("c")+strings.Join(closing("end_turn", 3), ""))
	reply.Gate = gate
	up := pt.NewUpstream(t).Then(reply)
	s, err := client(t, up.URL).Invoke(t.Context(), &providers.Request{Stream: true, Messages: hello})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, want := range []providers.Delta{{Content: "a", More: true}, {Content: "b"}, {Content: "c", More: true}} {
		if want.Content == "c" {
			close(gate)
		}
		if d, err := s.Next(); err != nil || d != want {
			t.Errorf("%+v, %v; want %+v", d, err, want)
		}
	}
	if _, err := s.Next(); err != io.EOF {
		t.Error(err)
	}
}

func TestContentArrivesUnharmed(t *testing.T) {
	words := []string{"", "a", "\"\\/\b\f\n\r\t", "\u2028\u2029\x00\x1f", "wörld 🌍 \U0010ffff", "event: message_stop\ndata: {}\n\n", strings.Repeat("x", 1_000_000), "{}", " "}
	o := receive(t, wholeStream(words...), true)
	if o.err != nil {
		t.Fatal(o.err)
	}
	if diff := cmp.Diff(words[1:], o.pieces); diff != "" {
		t.Error(diff[:min(len(diff), 2000)])
	}
	// A pair of surrogates in two escapes.
	o = receive(t, sse(opening(), []string{strings.Replace(textDelta("x"), `"x"`, `"\ud83c\udf0d\u00e9"`, 1)}, closing("end_turn", 1)), true)
	if o.text != "🌍é" {
		t.Errorf("text %q, error %v", o.text, o.err)
	}
}

func TestErrorAnswers(t *testing.T) {
	for _, test := range []struct {
		name  string
		reply pt.Reply
		want  providers.Error
	}{
		{"Anthropic's", pt.JSON(429, errorBody("rate_limit_error", "This request would exceed your rate limit.")), providers.Error{Status: 429, Code: "rate_limit_error", Message: "This request would exceed your rate limit."}},
		{"overloaded", pt.JSON(529, errorBody("overloaded_error", "Overloaded")), providers.Error{Status: 529, Code: "overloaded_error", Message: "Overloaded"}},
		{"with details", pt.JSON(429, `{"type":"error","error":{"type":"rate_limit_error","message":"m","details":{"error_code":"enforced_spend_limit_reached"}}}`), providers.Error{Status: 429, Type: "rate_limit_error", Code: "enforced_spend_limit_reached", Message: "m"}},
		{"text", pt.JSON(500, `{"error":"model is loading"}`), providers.Error{Status: 500, Message: "model is loading"}},
		{"message", pt.JSON(503, `{"message":"busy","type":"overloaded"}`), providers.Error{Status: 503, Code: "overloaded", Message: "busy"}},
		{"type alone", pt.JSON(503, `{"type":"error"}`), providers.Error{Status: 503, Message: `{"type":"error"}`}},
		{"an error of no shape", pt.JSON(503, `{"error":[1]}`), providers.Error{Status: 503, Message: `{"error":[1]}`}},
		{"null members", pt.JSON(400, `{"type":"error","error":{"type":null,"message":"m","details":null}}`), providers.Error{Status: 400, Message: "m"}},
		{"HTML", pt.Reply{Status: 502, Header: map[string]string{"Content-Type": "text/html"}, Body: []string{"<h1>Bad\nGateway</h1>"}}, providers.Error{Status: 502, Message: "<h1>Bad Gateway</h1>"}},
		{"empty", pt.Reply{Status: 500}, providers.Error{Status: 500}},
		{"cut JSON", pt.JSON(500, `{"error":{"mess`), providers.Error{Status: 500, Message: `{"error":{"mess`}},
		{"cut body", pt.Reply{Status: 500, Body: []string{"half"}, End: pt.Cut}, providers.Error{Status: 500, Message: "half"}},
		{"redirect", pt.Reply{Status: 307, Header: map[string]string{"Location": "http://192.0.2.1/"}}, providers.Error{Status: 307}},
		{"no content", pt.Reply{Status: 204}, providers.Error{Status: 204}},
		{"hints", pt.Reply{Status: 429, Header: map[string]string{"Retry-After": "3", "X-Should-Retry": "false"}}, providers.Error{Status: 429, RetryAfter: 3 * time.Second, Advice: providers.DoNotRetry}},
		{"the key in the text", pt.JSON(401, errorBody("authentication_error", "invalid x-api-key: "+testKey+". See https://x.example/?k=1")), providers.Error{Status: 401, Code: "authentication_error", Message: "invalid x-api-key: [redacted]. See https://x.example/?[redacted]"}},
		{"the key as the type", pt.JSON(401, errorBody(testKey, "m")), providers.Error{Status: 401, Code: "[redacted]", Message: "m"}},
		{"deep JSON", pt.JSON(500, strings.Repeat("[", 1000)), providers.Error{Status: 500, Message: strings.Repeat("[", 1000)}},
		{"a huge body", pt.JSON(500, strings.Repeat("x", 1<<20)), providers.Error{Status: 500, Message: strings.Repeat("x", 1<<10) + "…"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.want.Provider = "anthropic"
			for _, stream := range []bool{false, true} {
				o := receive(t, test.reply, stream)
				e, ok := errors.AsType[*providers.Error](o.err)
				if !ok {
					t.Fatalf("error %T %v", o.err, o.err)
				}
				if diff := cmp.Diff(test.want, *e); diff != "" {
					t.Errorf("stream=%v (-want +got):\n%s", stream, diff)
				}
			}
		})
	}
}

func TestErrorsInsideAnswers(t *testing.T) {
	refusal := `event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"refusal","stop_sequence":null,"stop_details":{"type":"refusal","category":"cyber","explanation":"It could enable harm."}},"usage":{"output_tokens":1}}

`
	for _, test := range []struct {
		name  string
		reply pt.Reply
		want  providers.Error
	}{
		{"overloaded", sse(opening(), []string{errorEvent("overloaded_error", "Overloaded")}), providers.Error{Kind: providers.Reported, Code: "overloaded_error", Message: "Overloaded"}},
		{"with the key", sse(opening(), []string{errorEvent("api_error", testKey)}), providers.Error{Kind: providers.Reported, Code: "api_error", Message: "[redacted]"}},
		{"text", sse(opening(), []string{"event: error\ndata: boom\n\n"}), providers.Error{Kind: providers.Reported, Message: "boom"}},
		{"a refusal", sse([]string{messageStart, refusal, messageStop}), providers.Error{Kind: providers.Refused, Code: "refusal", Message: "cyber: It could enable harm."}},
	} {
		test.want.Provider, test.want.Status = "anthropic", 200
		e, ok := errors.AsType[*providers.Error](receive(t, test.reply, true).err)
		if !ok {
			t.Fatalf("%s: no error", test.name)
		}
		if diff := cmp.Diff(test.want, *e); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	up := pt.NewUpstream(t).Choose(func(r pt.Request) pt.Reply {
		if strings.Contains(r.Body, `"stream":true`) {
			return wholeStream("a", "b")
		}
		return answer("ab", "end_turn", 2)
	})
	c := client(t, up.URL)
	for i := range 20 {
		if o := receiveFrom(t, c, i%2 == 0); o.err != nil || o.text != "ab" {
			t.Fatal(o.err)
		}
	}
	if n := up.Connections(); n != 1 {
		t.Errorf("%d connections for 20 calls one after another", n)
	}
}

// FuzzStream feeds the reader of answers with anything. A complete answer must
// have had the end marker, or a stop reason as a whole message has it, in it.
func FuzzStream(f *testing.F) {
	for _, c := range corruptions {
		if body := joined(c.reply); len(body) < 10_000 {
			f.Add([]byte(body))
		}
	}
	f.Add([]byte(joined(wholeStream("a", "b"))))
	f.Add([]byte(joined(answer("ab", "end_turn", 2))))
	f.Add([]byte(joined(sse([]string{messageStart, toolStart, toolDelta, toolRest}, closing("tool_use", 5)))))
	f.Add([]byte(joined(toolAnswer("a", []providers.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":1}`}}))))
	k := call{&Client{name: "anthropic"}, testKey}
	f.Fuzz(func(t *testing.T, body []byte) {
		s := newStream(k, io.NopCloser(strings.NewReader(string(body))), nil)
		defer s.Close()
		for {
			_, err := s.Next()
			if err == nil {
				continue
			}
			if err == io.EOF {
				// A string may be escaped in JSON; then it has a backslash.
				said := string(body)
				if !strings.Contains(said, "message_stop") && s.Result().FinishReason == "" && !strings.Contains(said, `\`) {
					t.Errorf("complete: %q", body)
				}
				if u := s.Result().Usage; u.PromptTokens < 0 || u.CompletionTokens < 0 || u.TotalTokens != u.PromptTokens+u.CompletionTokens {
					t.Errorf("usage %+v", u)
				}
			} else if _, ok := errors.AsType[*providers.Error](err); !ok {
				t.Errorf("error %T %v", err, err)
			}
			pt.CheckToolCalls(t, err, s.Result().ToolCalls)
			if _, again := s.Next(); again != err {
				t.Errorf("%v, then %v", err, again)
			}
			return
		}
	})
}

// FuzzError feeds the reader of error bodies with anything.
func FuzzError(f *testing.F) {
	f.Add([]byte(errorBody("overloaded_error", "Overloaded")))
	f.Add([]byte(`{"error":"text"}`))
	f.Add([]byte(`{"message":"text","type":"x","details":{"error_code":"y"}}`))
	f.Add([]byte("<html>"))
	k := call{&Client{name: "anthropic"}, testKey}
	f.Fuzz(func(t *testing.T, body []byte) {
		var e providers.Error
		k.describe(&e, body)
		if strings.Contains(e.Error(), testKey) {
			t.Errorf("the key is in %q", e.Error())
		}
	})
}
