package responses

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3/packages/ssestream"
	sdk "github.com/openai/openai-go/v3/responses"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/dialecttest"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// answers are the answers of the golden files.
var answers = []struct {
	name    string
	request string // request whose members the answer repeats
	answer  dialect.Answer
	stream  []providers.Delta
	late    bool // that it is a refusal is known at the end of the stream
}{
	{
		name:    "text",
		request: `{"model":"support/chat","input":"Hi","instructions":"Be brief.","max_output_tokens":100,"temperature":0.20,"metadata":{"a":"b"},"user":"u1","reasoning":{"effort":"low","summary":"auto"},"text":{"format":{"type":"json_object"}}}`,
		answer: dialect.Answer{Content: "Hello\n\"you\" 🙂", FinishReason: providers.FinishStop,
			Usage: providers.Usage{PromptTokens: 19, CompletionTokens: 10, TotalTokens: 29, CachedTokens: 4, ReasoningTokens: 3}},
		stream: []providers.Delta{{Content: "Hello\n"}, {Content: `"you" 🙂`}},
	},
	{
		name:    "agent-tools",
		request: `{"model":"support/chat","tools":[{"type":"web_search"},{"type":"namespace","name":"agents","description":"d","tools":[{"type":"function","name":"spawn"}]},{"type":"custom","name":"apply_patch"}]}`,
		answer: dialect.Answer{FinishReason: providers.FinishToolCalls, ToolCalls: []providers.ToolCall{
			{ID: "c1", Name: "agents__spawn", Arguments: `{"a":1}`}, {ID: "c2", Name: "apply_patch", Arguments: `{"input":"*** \"Begin\"\n+ü"}`, Opaque: "cdz1_c"}}},
		stream: []providers.Delta{
			{Calls: []providers.CallPiece{{ID: "c1", Name: "agents__spawn"}}}, {Calls: []providers.CallPiece{{Arguments: `{"a":1}`}}},
			{Calls: []providers.CallPiece{{Index: 1, ID: "c2", Name: "apply_patch", Opaque: "cdz1_c"}}}, {Calls: []providers.CallPiece{{Index: 1, Arguments: `{"input":"*** \"Be`}}}, {Calls: []providers.CallPiece{{Index: 1, Arguments: `gin\"\n+ü"}`}}},
		},
	},
	{name: "empty", answer: dialect.Answer{FinishReason: providers.FinishStop}},
	{name: "length", answer: dialect.Answer{Content: "So", FinishReason: providers.FinishLength}, stream: []providers.Delta{{Content: "So"}}},
	{name: "filtered", answer: dialect.Answer{Content: "So", FinishReason: providers.FinishContentFilter}, stream: []providers.Delta{{Content: "So"}}},
	{name: "refusal-after-text", answer: dialect.Answer{Content: "So: no. Never.", Refusal: true, Refused: len("So: "), FinishReason: providers.FinishContentFilter}, stream: []providers.Delta{{Content: "So: "}, {Content: "no. ", Refusal: true}, {Content: "Never.", Refusal: true}}, late: true},
	{name: "explained-refusal", answer: dialect.Answer{Content: "So", Category: "cyber", Explanation: "It's \"harm\".", FinishReason: providers.FinishContentFilter}, stream: []providers.Delta{{Content: "So"}}, late: true},
	{name: "refusal", answer: dialect.Answer{Content: "I can't.", Refusal: true, FinishReason: providers.FinishStop}, stream: []providers.Delta{{Content: "I "}, {Content: "can't."}}},
	{name: "late-refusal", answer: dialect.Answer{Content: "I can't.", Refusal: true, FinishReason: providers.FinishStop}, stream: []providers.Delta{{Content: "I can't."}}, late: true},
	{
		name:   "logprobs",
		answer: dialect.Answer{Content: "Hi!", FinishReason: providers.FinishStop, Logprobs: json.RawMessage(`[{"token":"Hi","logprob":-0.5,"bytes":[72,105],"top_logprobs":[]},{"token":"!","logprob":-1,"bytes":[33],"top_logprobs":[]}]`)},
		stream: []providers.Delta{
			{Content: "Hi", Logprobs: json.RawMessage("[{\"token\":\"Hi\",\"logprob\":-0.5,\"bytes\":[72,105],\"top_logprobs\":[]}]")},
			{Content: "!", Logprobs: json.RawMessage("[{\"token\":\"!\",\"logprob\":-1,\r\n\"bytes\":[33],\"top_logprobs\":[]}]")},
		},
	},
	{
		name:    "tools",
		request: `{"model":"support/chat","tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{}}}],"tool_choice":"required","parallel_tool_calls":false}`,
		answer:  dialect.Answer{FinishReason: providers.FinishToolCalls, ToolCalls: []providers.ToolCall{{ID: "c1", Name: "f", Arguments: `{"a":1}`}, {ID: "c2", Name: "g"}}},
		stream: []providers.Delta{
			{Calls: []providers.CallPiece{{ID: "c1", Name: "f"}}}, {Calls: []providers.CallPiece{{Arguments: `{"a"`}}},
			{Calls: []providers.CallPiece{{Arguments: `:1}`}, {Index: 1, ID: "c2", Name: "g"}}},
		},
	},
	{
		name: "reasoning",
		answer: dialect.Answer{Content: "4", FinishReason: providers.FinishStop,
			Thoughts: []providers.Thought{{Text: "2 and 2, hm.", Opaque: "cdz1_a"}, {Opaque: "cdz1_b"}}, ToolCalls: []providers.ToolCall{{ID: "c1", Name: "f", Arguments: "{}", Opaque: "cdz1_c"}}},
		stream: []providers.Delta{
			{Thinking: "2 and 2, "}, {Thinking: "hm."}, {Thought: &providers.Thought{Text: "2 and 2, hm.", Opaque: "cdz1_a"}}, {Thought: &providers.Thought{Opaque: "cdz1_b"}},
			{Content: "4"}, {Calls: []providers.CallPiece{{ID: "c1", Name: "f", Arguments: "{}", Opaque: "cdz1_c"}}},
		},
	},
	{
		// The pieces of interleaved thoughts and texts are in several items, and a
		// call's data that came late is after it.
		name:   "turns",
		answer: dialect.Answer{Content: "Let me see.Done.", FinishReason: providers.FinishToolCalls, Thoughts: []providers.Thought{{Text: "Hm."}, {Text: "Ah."}}, ToolCalls: []providers.ToolCall{{ID: "c1", Name: "f", Arguments: "{}", Opaque: "cdz1_c"}}},
		stream: []providers.Delta{
			{Thinking: "Hm."}, {Thought: &providers.Thought{Text: "Hm."}}, {Content: "Let me see."}, {Thinking: "Ah."},
			{Calls: []providers.CallPiece{{ID: "c1", Name: "f"}}}, {Calls: []providers.CallPiece{{Arguments: "{}", Opaque: "cdz1_c"}}}, {Content: "Done."},
		},
	},
}

// writerFor returns a writer of the answer to a request.
func writerFor(t testing.TB, request string) *writer {
	if request == "" {
		request = `{"model":"support/chat","input":"Hi"}`
	}
	_, w, err := dialect.Parse(Dialect, dialecttest.Request(t, request))
	if err != nil {
		t.Fatal(err)
	}
	return w.(*writer)
}

// streamed returns the events of a stream.
func streamed(w *writer, a *dialect.Answer, deltas []providers.Delta, late bool) []byte {
	before := *a
	before.Content, before.FinishReason, before.Usage, before.Refusal = "", "", providers.Usage{}, a.Refusal && !late
	var out []byte
	for _, d := range deltas {
		out = w.Heartbeat(w.Delta(out, &before, d), &before)
	}
	end := *a
	end.Content = ""
	return w.Finish(out, &end)
}

// TestGolden compares answers and streams with the golden files.
func TestGolden(t *testing.T) {
	for _, c := range answers {
		t.Run(c.name, func(t *testing.T) {
			a := dialecttest.Answer(c.answer)
			w := writerFor(t, c.request)
			whole := w.Answer(nil, a)
			if !json.Valid(whole) {
				t.Errorf("%s is not JSON", whole)
			}
			dialecttest.Golden(t, c.name+".json", append(whole, '\n'))
			dialecttest.Golden(t, c.name+".sse", streamed(writerFor(t, c.request), a, c.stream, c.late))
		})
	}
}

// TestGoldenSearch compares an answer with searches, whose history has more than it.
func TestGoldenSearch(t *testing.T) {
	const request = `{"model":"support/chat","tools":[{"type":"web_search"}]}`
	searched, deltas := dialecttest.Searched()
	a := dialecttest.Answer(searched)
	dialecttest.Golden(t, "search.json", append(writerFor(t, request).Answer(nil, a), '\n'))
	out := streamed(writerFor(t, request), a, deltas, false)
	dialecttest.Golden(t, "search.sse", out)
	events, err := read(out)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(writerFor(t, request).Answer(nil, a)), events[len(events)-1].Response.RawJSON()); diff != "" {
		t.Errorf("-whole +streamed\n%s", diff)
	}
}

// TestNulls: these are null in what OpenAI's API answers, too.
func TestNulls(t *testing.T) {
	want := []string{"error.param", "param"} // of the event error
	for _, member := range []string{
		"access_programs", "error", "incomplete_details", "instructions", "max_output_tokens", "max_tool_calls", "previous_response_id",
		"prompt_cache_key", "prompt_cache_retention", "reasoning.effort", "reasoning.summary", "safety_identifier", "temperature", "top_p",
	} {
		want = append(want, member, "response."+member)
	}
	dialecttest.CheckNulls(t, want...)
}

// TestBroken checks the end of a broken stream.
func TestBroken(t *testing.T) {
	w := writerFor(t, "")
	a := dialecttest.Answer(dialect.Answer{})
	out := w.Delta(nil, a, providers.Delta{Content: "half of the an"})
	out = w.Fail(out, a, &wire.Error{Code: wire.UpstreamInterrupted, Message: "The model's answer broke off."})
	dialecttest.Golden(t, "broken.sse", out)
	events, err := read(out)
	if err == nil || !strings.Contains(err.Error(), "broke off") {
		t.Errorf("the library raises %v", err)
	}
	for _, e := range events {
		if e.Type == "response.completed" || e.Type == "response.incomplete" {
			t.Errorf("a broken stream has %s", e.Type)
		}
	}
}

// read reads a stream with OpenAI's library.
func read(events []byte) (list []sdk.ResponseStreamEventUnion, err error) {
	stream := ssestream.NewStream[sdk.ResponseStreamEventUnion](ssestream.NewDecoder(&http.Response{
		Header: http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}},
		Body:   io.NopCloser(bytes.NewReader(events)),
	}), nil)
	for stream.Next() {
		list = append(list, stream.Current())
	}
	return list, stream.Err()
}

// TestStreamsAddUp reads each stream with OpenAI's library, and joins its pieces as the
// libraries do. The last event must have the same content, and so must the whole answer
// if the order of its items is the same.
func TestStreamsAddUp(t *testing.T) {
	for _, c := range answers {
		t.Run(c.name, func(t *testing.T) {
			a := dialecttest.Answer(c.answer)
			events, err := read(streamed(writerFor(t, c.request), a, c.stream, c.late))
			if err != nil {
				t.Fatal(err)
			}
			items, err := accumulate(events)
			if err != nil {
				t.Fatal(err)
			}
			last := events[len(events)-1]
			if want := "response." + statusOf(a); last.Type != want {
				t.Errorf("the stream ends with %s, not with %s", last.Type, want)
			}
			var response, whole struct {
				Output []any
			}
			if err := json.Unmarshal([]byte(last.Response.RawJSON()), &response); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(items, response.Output); diff != "" {
				t.Errorf("-pieces +last event\n%s", diff)
			}
			if c.name == "turns" {
				return
			}
			if err := json.Unmarshal(writerFor(t, c.request).Answer(nil, a), &whole); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(whole.Output, response.Output); diff != "" {
				t.Errorf("-whole +streamed\n%s", diff)
			}
		})
	}
}

// accumulate joins the pieces of a stream, and compares each repeated piece with the
// first one.
func accumulate(events []sdk.ResponseStreamEventUnion) (items []any, err error) {
	var item map[string]any
	var text string
	again := func(what string, v any) {
		if v != text && err == nil {
			err = fmt.Errorf("%s is %q after %q", what, v, text)
		}
	}
	for i, e := range events {
		var raw map[string]any
		if err := json.Unmarshal([]byte(e.RawJSON()), &raw); err != nil {
			return nil, err
		}
		if raw["sequence_number"] != float64(i) || e.Type != raw["type"] {
			return nil, fmt.Errorf("event %d is %v %v", i, raw["sequence_number"], raw["type"])
		}
		if of, ok := raw["item_id"]; ok && (of != item["id"] || raw["output_index"] != float64(len(items))) {
			return nil, fmt.Errorf("%s is of the item %v at %v, in %v at %d", e.Type, of, raw["output_index"], item["id"], len(items))
		}
		switch e.Type {
		case "response.created", "response.in_progress":
			if want := []string{"response.created", "response.in_progress"}; i > 1 || want[i] != e.Type {
				return nil, fmt.Errorf("event %d is %s", i, e.Type)
			}
		case "response.output_item.added":
			if item != nil {
				return nil, errors.New("an item begins in another")
			}
			item, text = raw["item"].(map[string]any), ""
		case "response.content_part.added", "response.reasoning_summary_part.added":
		case "response.output_text.delta", "response.refusal.delta", "response.reasoning_summary_text.delta", "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
			text += raw["delta"].(string)
		case "response.output_text.done", "response.reasoning_summary_text.done":
			again(e.Type, raw["text"])
		case "response.refusal.done":
			again(e.Type, raw["refusal"])
		case "response.function_call_arguments.done":
			again(e.Type, raw["arguments"])
		case "response.custom_tool_call_input.done":
			again(e.Type, raw["input"])
		case "response.content_part.done", "response.reasoning_summary_part.done":
			part := raw["part"].(map[string]any)
			if part["type"] == "refusal" {
				again(e.Type, part["refusal"])
			} else {
				again(e.Type, part["text"])
			}
		case "response.output_item.done":
			done := raw["item"].(map[string]any)
			if done["id"] != item["id"] || done["type"] != item["type"] || done["status"] == "in_progress" {
				return nil, fmt.Errorf("the item %v ends as %v", item, done)
			}
			items, item = append(items, done), nil
		case "response.completed", "response.incomplete":
			if i != len(events)-1 || item != nil {
				return nil, fmt.Errorf("%s is event %d of %d", e.Type, i, len(events))
			}
		default:
			return nil, errors.New("an unknown event: " + e.Type)
		}
	}
	return items, err
}

// TestFinishWithoutPieces holds that an answer which was not said in pieces, such as
// one from a cache, is whole at the end of its stream.
func TestFinishWithoutPieces(t *testing.T) {
	for _, c := range answers {
		a := dialecttest.Answer(c.answer)
		events, err := read(writerFor(t, c.request).Finish(nil, a))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		items, err := accumulate(events)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var whole struct{ Output []any }
		if err := json.Unmarshal(writerFor(t, c.request).Answer(nil, a), &whole); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(whole.Output, items); diff != "" {
			t.Errorf("%s: -whole +streamed\n%s", c.name, diff)
		}
	}
}

// TestLargeMembersAreNotRepeated holds that a request can't make a stream many times
// its size.
func TestLargeMembersAreNotRepeated(t *testing.T) {
	large := strings.Repeat("x", maxEcho)
	w := writerFor(t, `{"model":"m","instructions":"`+large+`","tools":[{"type":"function","name":"f","description":"`+large+`"}],"temperature":1}`)
	body := w.Answer(nil, dialecttest.Answer(dialect.Answer{Content: "a"}))
	for _, want := range []string{`"instructions":null`, `"tools":[]`, `"temperature":1,`} {
		if !bytes.Contains(body, []byte(want)) {
			t.Errorf("%s has no %s", body, want)
		}
	}
}

// TestHeld holds that a stream's memory is counted before it is taken.
func TestHeld(t *testing.T) {
	w := writerFor(t, "")
	a := dialecttest.Answer(dialect.Answer{})
	piece := providers.Delta{Content: strings.Repeat("a", 1000)}
	for range 100 {
		w.Delta(nil, a, piece)
	}
	w.Delta(nil, a, providers.Delta{Calls: []providers.CallPiece{{ID: "c", Name: "f", Arguments: strings.Repeat("a", 50_000)}}})
	held, kept := w.Held(), cap(w.text)+cap(w.output)
	if took := kept + len(w.Finish(nil, a)); held > took*2 || held < took*2/3 {
		t.Errorf("%d bytes are counted, and %d are taken", held, took)
	}
}

func FuzzStream(f *testing.F) {
	f.Add("Hm.", "cdz1_a", "Hello \"you\"", `{"a":1}`, uint8(0b1101))
	f.Add("", "", "\xff\u2028", "", uint8(0b0110))
	f.Fuzz(func(t *testing.T, thought, opaque, text, arguments string, order uint8) {
		w := writerFor(t, "")
		a := dialecttest.Answer(dialect.Answer{})
		var out []byte
		for i := range 8 {
			var d providers.Delta
			switch order >> (i % 8) & 3 {
			case 0:
				d.Content = text
			case 1:
				d.Thinking = thought
			case 2:
				d.Thought = &providers.Thought{Opaque: opaque}
			case 3:
				d.Calls = []providers.CallPiece{{Index: i, ID: "c" + strconv.Itoa(i), Name: "f", Arguments: arguments, Opaque: opaque}}
			}
			out = w.Delta(out, a, d)
		}
		events, err := read(w.Finish(out, a))
		if err != nil {
			t.Fatal(err)
		}
		items, err := accumulate(events)
		if err != nil {
			t.Fatal(err)
		}
		var response struct{ Output []any }
		if err := json.Unmarshal([]byte(events[len(events)-1].Response.RawJSON()), &response); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(items, response.Output); diff != "" {
			t.Error(diff)
		}
	})
}

// TestStreamAllocations holds that the pieces of a stream cost no allocation each.
func TestStreamAllocations(t *testing.T) {
	a := dialecttest.Answer(dialect.Answer{FinishReason: providers.FinishStop})
	rest := writerFor(t, "").rest
	dst := make([]byte, 0, 64<<10)
	if allocations := testing.AllocsPerRun(20, func() {
		w := &writer{rest: rest}
		for range 100 {
			dst = w.Delta(dst[:0], a, providers.Delta{Content: "word "})
		}
		dst = w.Finish(dst[:0], a)
	}); allocations > 6 {
		t.Errorf("%v allocations", allocations)
	}
}

func BenchmarkStream(b *testing.B) {
	a := dialecttest.Answer(dialect.Answer{FinishReason: providers.FinishStop})
	piece := providers.Delta{Content: " and some more"}
	rest := writerFor(b, "").rest
	dst := make([]byte, 0, 64<<10)
	b.ReportAllocs()
	for range b.N {
		w := &writer{rest: rest}
		for range 100 {
			dst = w.Delta(dst[:0], a, piece)
		}
		dst = w.Finish(dst[:0], a)
	}
}

func BenchmarkAnswer(b *testing.B) {
	a := dialecttest.Answer(dialect.Answer{Content: strings.Repeat("Some text. ", 100), FinishReason: providers.FinishStop})
	rest := writerFor(b, "").rest
	var dst []byte
	b.ReportAllocs()
	for range b.N {
		w := &writer{rest: rest}
		dst = w.Answer(dst[:0], a)
	}
}
