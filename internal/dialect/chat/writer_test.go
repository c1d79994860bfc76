package chat

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/dialecttest"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

var searched, searching = dialecttest.Searched()

// answers are the answers of the golden files.
var answers = []struct {
	name   string
	answer dialect.Answer
	stream []providers.Delta
	usage  bool // the stream ends with its usage
}{
	{
		name:   "text",
		answer: dialect.Answer{Content: "Hello\n\"you\" 🙂", FinishReason: providers.FinishStop, Usage: providers.Usage{PromptTokens: 19, CompletionTokens: 10, TotalTokens: 29, CachedTokens: 4, ReasoningTokens: 3}},
		stream: []providers.Delta{{Content: "Hello\n"}, {Content: `"you" 🙂`}},
		usage:  true,
	},
	{name: "empty", answer: dialect.Answer{FinishReason: providers.FinishLength}},
	{name: "refusal-after-text", answer: dialect.Answer{Content: "So: no. Never.", Refusal: true, Refused: len("So: "), FinishReason: providers.FinishContentFilter}, stream: []providers.Delta{{Content: "So: "}, {Content: "no. ", Refusal: true}, {Content: "Never.", Refusal: true}}},
	{name: "explained-refusal", answer: dialect.Answer{Content: "So", Category: "cyber", Explanation: "It's \"harm\".", FinishReason: providers.FinishContentFilter}, stream: []providers.Delta{{Content: "So"}}},
	{name: "refusal", answer: dialect.Answer{Content: "I can't.", Refusal: true, FinishReason: providers.FinishStop, Logprobs: json.RawMessage(`[]`)}},
	{
		name:   "logprobs",
		answer: dialect.Answer{Content: "Hi", FinishReason: providers.FinishStop, Logprobs: json.RawMessage(`[{"token":"Hi","logprob":-0.5,"bytes":[72,105],"top_logprobs":[]}]`)},
		stream: []providers.Delta{{Content: "Hi", Logprobs: json.RawMessage("[{\"token\":\"Hi\",\"logprob\":-0.5,\r\n\"bytes\":[72,105],\"top_logprobs\":[]}]")}},
	},
	{
		name:   "tools",
		answer: dialect.Answer{FinishReason: providers.FinishToolCalls, ToolCalls: []providers.ToolCall{{ID: "c1", Name: "f", Arguments: `{"a":1}`}, {ID: "c2", Name: "g", Arguments: ""}}},
		stream: []providers.Delta{
			{Calls: []providers.CallPiece{{ID: "c1", Name: "f"}}}, {Calls: []providers.CallPiece{{Arguments: `{"a"`}}},
			{Calls: []providers.CallPiece{{Arguments: `:1}`}, {Index: 1, ID: "c2", Name: "g"}}},
		},
	},
	{
		name: "reasoning",
		answer: dialect.Answer{Content: "4", FinishReason: providers.FinishStop,
			Thoughts: []providers.Thought{{Text: "2 and 2, "}, {Text: "hm.", Opaque: "cdz1_a"}, {Opaque: "cdz1_b"}}, ToolCalls: []providers.ToolCall{{ID: "c1", Name: "f", Arguments: "{}", Opaque: "cdz1_c"}}},
		stream: []providers.Delta{
			{Thinking: "2 and 2, "}, {Thought: &providers.Thought{Text: "2 and 2, "}}, {Thinking: "hm."}, {Thought: &providers.Thought{Text: "hm.", Opaque: "cdz1_a"}}, {Thought: &providers.Thought{Opaque: "cdz1_b"}},
			{Content: "4"}, {Calls: []providers.CallPiece{{ID: "c1", Name: "f", Arguments: "{}"}}}, {Calls: []providers.CallPiece{{Opaque: "cdz1_c"}}},
		},
		usage: true,
	},
	{name: "search", answer: searched, stream: searching},
}

// streamed returns the events of a stream.
func streamed(a *dialect.Answer, deltas []providers.Delta, usage bool) []byte {
	w := &writer{usage: usage}
	before := *a
	before.Content, before.FinishReason, before.Usage = "", "", providers.Usage{}
	var out []byte
	for _, d := range deltas {
		out = w.Delta(out, &before, d)
	}
	end := *a
	end.Content = ""
	return w.Finish(w.Heartbeat(out, &before), &end)
}

// TestGolden compares answers and streams with the golden files.
func TestGolden(t *testing.T) {
	for _, c := range answers {
		t.Run(c.name, func(t *testing.T) {
			a := dialecttest.Answer(c.answer)
			w := &writer{}
			whole := w.Answer(nil, a)
			if !json.Valid(whole) {
				t.Errorf("%s is not JSON", whole)
			}
			dialecttest.Golden(t, c.name+".json", append(whole, '\n'))
			dialecttest.Golden(t, c.name+".sse", streamed(a, c.stream, c.usage))
		})
	}
}

// TestNulls: these are null in what OpenAI's API answers, too.
func TestNulls(t *testing.T) {
	dialecttest.CheckNulls(t,
		"choices[].delta.content", "choices[].delta.refusal", "choices[].message.content", "choices[].message.refusal",
		"choices[].finish_reason", "choices[].logprobs", "choices[].logprobs.content", "choices[].logprobs.refusal", "usage")
}

// read reads a stream with OpenAI's library.
func read(events []byte) (*openai.ChatCompletionAccumulator, error) {
	res := &http.Response{Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(bytes.NewReader(events))}
	stream := ssestream.NewStream[openai.ChatCompletionChunk](ssestream.NewDecoder(res), nil)
	acc := &openai.ChatCompletionAccumulator{}
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			return acc, io.ErrUnexpectedEOF
		}
	}
	return acc, stream.Err()
}

// TestOpenAIsLibraryReads holds that OpenAI's library reads the same from a stream as
// from a whole answer.
func TestOpenAIsLibraryReads(t *testing.T) {
	for _, c := range answers {
		if c.stream == nil {
			continue
		}
		a := dialecttest.Answer(c.answer)
		var whole openai.ChatCompletion
		if err := json.Unmarshal((&writer{}).Answer(nil, a), &whole); err != nil {
			t.Fatal(err)
		}
		acc, err := read(streamed(a, c.stream, c.usage))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got, want := acc.Choices[0], whole.Choices[0]
		if got.Message.Content != want.Message.Content || got.FinishReason != want.FinishReason || len(got.Message.ToolCalls) != len(want.Message.ToolCalls) || len(got.Logprobs.Content) != len(want.Logprobs.Content) ||
			acc.ID != whole.ID || acc.Model != "support/chat" || acc.Created != 1700000000 || c.usage && acc.Usage.TotalTokens != whole.Usage.TotalTokens {
			t.Errorf("%s: %+v, want %+v", c.name, got, want)
		}
		for i, call := range want.Message.ToolCalls {
			if g := got.Message.ToolCalls[i]; g.ID != call.ID || g.Function.Name != call.Function.Name || g.Function.Arguments != call.Function.Arguments {
				t.Errorf("%s: %+v, want %+v", c.name, g, call)
			}
		}
	}
}

// TestFailRaises holds that OpenAI's library raises the error of a stream that broke.
func TestFailRaises(t *testing.T) {
	a := dialecttest.Answer(dialect.Answer{})
	w := &writer{}
	events := w.Delta(nil, a, providers.Delta{Content: "Hel"})
	events = w.Fail(events, a, wire.Errorf(wire.UpstreamInterrupted, "", "The provider's answer broke off."))
	if acc, err := read(events); err == nil || !strings.Contains(err.Error(), "The provider's answer broke off.") || acc.Choices[0].Message.Content != "Hel" {
		t.Error(err)
	}
	if !bytes.HasSuffix(events, []byte("\n\n")) || bytes.Contains(events, []byte("[DONE]")) {
		t.Errorf("%s", events)
	}
}

func TestDeltaAllocations(t *testing.T) {
	a := dialecttest.Answer(dialect.Answer{})
	w := &writer{}
	dst := w.Delta(make([]byte, 0, 4096), a, providers.Delta{Content: "a"})
	piece := []providers.CallPiece{{Arguments: "{}"}}
	if n := testing.AllocsPerRun(100, func() {
		dst = w.Delta(dst[:0], a, providers.Delta{Content: "Hello"})
		dst = w.Delta(dst, a, providers.Delta{Thinking: "Hm"})
		dst = w.Delta(dst, a, providers.Delta{Calls: piece})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDelta(b *testing.B) {
	a := dialecttest.Answer(dialect.Answer{})
	w := &writer{usage: true}
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = w.Delta(dst[:0], a, providers.Delta{Content: "Hello you"})
	}
}
