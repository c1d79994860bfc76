package messages

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
}{
	{
		name: "text",
		answer: dialect.Answer{Content: "Hello\n\"you\" 🙂", FinishReason: providers.FinishStop,
			Usage: providers.Usage{PromptTokens: 19, CompletionTokens: 10, TotalTokens: 29, CachedTokens: 4, ReasoningTokens: 3}},
		stream: []providers.Delta{{Content: "Hello\n"}, {Content: `"you" 🙂`}},
	},
	{name: "empty", answer: dialect.Answer{FinishReason: providers.FinishStop}},
	{name: "length", answer: dialect.Answer{Content: "So", FinishReason: providers.FinishLength}, stream: []providers.Delta{{Content: "So"}}},
	{name: "filtered", answer: dialect.Answer{Content: "So", FinishReason: providers.FinishContentFilter}, stream: []providers.Delta{{Content: "So"}}},
	{name: "refusal-after-text", answer: dialect.Answer{Content: "So: no. Never.", Refusal: true, Refused: len("So: "), FinishReason: providers.FinishContentFilter}, stream: []providers.Delta{{Content: "So: "}, {Content: "no. ", Refusal: true}, {Content: "Never.", Refusal: true}}},
	{name: "explained-refusal", answer: dialect.Answer{Content: "So", Category: "cyber", Explanation: "It's \"harm\".", FinishReason: providers.FinishContentFilter}, stream: []providers.Delta{{Content: "So"}}},
	{name: "refusal", answer: dialect.Answer{Content: "I can't.", Refusal: true, FinishReason: providers.FinishStop}, stream: []providers.Delta{{Content: "I "}, {Content: "can't."}}},
	{
		name:   "tools",
		answer: dialect.Answer{FinishReason: providers.FinishToolCalls, ToolCalls: []providers.ToolCall{{ID: "c1", Name: "f", Arguments: `{"a":1}`}, {ID: "c2", Name: "g"}}},
		stream: []providers.Delta{
			{Calls: []providers.CallPiece{{ID: "c1", Name: "f"}}}, {Calls: []providers.CallPiece{{Arguments: `{"a"`}}},
			{Calls: []providers.CallPiece{{Arguments: `:1}`}, {Index: 1, ID: "c2", Name: "g"}}},
		},
	},
	{
		name: "thinking",
		answer: dialect.Answer{Content: "4", FinishReason: providers.FinishToolCalls,
			Thoughts: []providers.Thought{{Text: "2 and 2, hm.", Opaque: "cdz1_a"}, {Opaque: "cdz1_b"}}, ToolCalls: []providers.ToolCall{{ID: "c1", Name: "f", Arguments: "{}", Opaque: "cdz1_c"}}},
		stream: []providers.Delta{
			{Thinking: "2 and 2, "}, {Thinking: "hm."}, {Thought: &providers.Thought{Text: "2 and 2, hm.", Opaque: "cdz1_a"}}, {Thought: &providers.Thought{Opaque: "cdz1_b"}},
			{Content: "4"}, {Calls: []providers.CallPiece{{ID: "c1", Name: "f", Arguments: "{}", Opaque: "cdz1_c"}}},
		},
	},
	{
		// The pieces of interleaved thoughts and texts are in several blocks, and a
		// call's data that came late is after it.
		name:   "turns",
		answer: dialect.Answer{Content: "Let me see.Done.", FinishReason: providers.FinishToolCalls, Thoughts: []providers.Thought{{Text: "Hm."}, {Text: "Ah."}}, ToolCalls: []providers.ToolCall{{ID: "c1", Name: "f", Arguments: "{}", Opaque: "cdz1_c"}}},
		stream: []providers.Delta{
			{Thinking: "Hm."}, {Thought: &providers.Thought{Text: "Hm."}}, {Content: "Let me see."}, {Thinking: "Ah."}, {Thought: &providers.Thought{}}, {Thought: &providers.Thought{}},
			{Calls: []providers.CallPiece{{ID: "c1", Name: "f"}}}, {Calls: []providers.CallPiece{{Arguments: "{}", Opaque: "cdz1_c"}}}, {Content: "Done."},
		},
	},
	{
		// As from a cache, or if a provider sends all at once.
		name:   "unsaid",
		answer: dialect.Answer{Content: "Yes.", FinishReason: providers.FinishStop, Thoughts: []providers.Thought{{Text: "Hm.", Opaque: "cdz1_a"}}, ToolCalls: []providers.ToolCall{{ID: "c1", Name: "f", Arguments: " ", Opaque: "cdz1_c"}, {ID: "c2", Name: "f", Arguments: `{"a":`}}},
	},
	{name: "search", answer: searched, stream: searching},
}

// streamed returns the events of a stream.
func streamed(a *dialect.Answer, deltas []providers.Delta) []byte {
	before, w := *a, &writer{}
	before.Content, before.FinishReason, before.Usage = "", "", providers.Usage{}
	var out []byte
	for _, d := range deltas {
		out = w.Delta(out, &before, d)
	}
	end := *a
	if len(deltas) > 0 {
		out = w.Heartbeat(out, &before)
		end.Content = ""
	}
	return w.Finish(out, &end)
}

// TestGolden compares answers and streams with the golden files.
func TestGolden(t *testing.T) {
	for _, c := range answers {
		t.Run(c.name, func(t *testing.T) {
			a, w := dialecttest.Answer(c.answer), &writer{}
			whole := w.Answer(nil, a)
			if !json.Valid(whole) {
				t.Errorf("%s is not JSON", whole)
			}
			dialecttest.Golden(t, c.name+".json", append(whole, '\n'))
			dialecttest.Golden(t, c.name+".sse", streamed(a, c.stream))
		})
	}
	w := &writer{}
	a := dialecttest.Answer(dialect.Answer{})
	dialecttest.Golden(t, "broken.sse", w.Fail(w.Delta(nil, a, providers.Delta{Content: "So"}), a, wire.Errorf(wire.UpstreamInterrupted, "", "It broke off.")))
}

// TestNulls: these are null in what Anthropic's API answers, too. It leaves out citations,
// container and the parts of the usage that there are none of.
func TestNulls(t *testing.T) {
	dialecttest.CheckNulls(t,
		"content[].content[].page_age", "content_block.content[].page_age", "delta.stop_details", "delta.stop_details.category", "delta.stop_details.explanation", "delta.stop_sequence",
		"message.stop_details", "message.stop_reason", "message.stop_sequence",
		"stop_details", "stop_details.category", "stop_details.explanation", "stop_sequence")
}

// TestNothingThought holds that a thought of which nothing is known is no block.
func TestNothingThought(t *testing.T) {
	without, with := dialecttest.Answer(dialect.Answer{Content: "4"}), dialecttest.Answer(dialect.Answer{Content: "4", Thoughts: []providers.Thought{{}}})
	if diff := cmp.Diff(string((&writer{}).Answer(nil, without)), string((&writer{}).Answer(nil, with))); diff != "" {
		t.Errorf("-without +with\n%s", diff)
	}
	if diff := cmp.Diff(string((&writer{}).Finish(nil, without)), string((&writer{}).Finish(nil, with))); diff != "" {
		t.Errorf("in a stream: -without +with\n%s", diff)
	}
}

// accumulate puts the events of a stream together as Anthropic's library does. It
// returns the message in the shape of a whole answer.
func accumulate(t *testing.T, events []byte) map[string]any {
	t.Helper()
	var message map[string]any
	var blocks []any
	inputs := map[int]string{}
	open := -1
	for event := range strings.SplitSeq(strings.TrimSuffix(string(events), "\n\n"), "\n\n") {
		first, second, _ := strings.Cut(event, "\n")
		var data map[string]any
		if err := json.Unmarshal([]byte(strings.TrimPrefix(second, "data: ")), &data); err != nil {
			t.Fatalf("%v: %s", err, event)
		}
		if first != "event: "+data["type"].(string) {
			t.Errorf("%s has the type %s", first, data["type"])
		}
		if index, ok := data["index"].(float64); ok {
			if starts := data["type"] == "content_block_start"; starts && (open >= 0 || int(index) != len(blocks)) || !starts && int(index) != open {
				t.Fatalf("the block %d is open, %d have begun: %s", open, len(blocks), event)
			}
		}
		switch data["type"] {
		case "message_start":
			message = data["message"].(map[string]any)
		case "content_block_start":
			open = len(blocks)
			blocks = append(blocks, data["content_block"])
		case "content_block_delta":
			block, delta := blocks[open].(map[string]any), data["delta"].(map[string]any)
			switch delta["type"] {
			case "text_delta":
				block["text"] = block["text"].(string) + delta["text"].(string)
			case "thinking_delta":
				block["thinking"] = block["thinking"].(string) + delta["thinking"].(string)
			case "signature_delta":
				block["signature"] = delta["signature"]
			case "citations_delta":
				list, _ := block["citations"].([]any)
				block["citations"] = append(list, delta["citation"])
			case "input_json_delta":
				inputs[open] += delta["partial_json"].(string)
			}
		case "content_block_stop":
			if text := inputs[open]; strings.TrimSpace(text) != "" {
				var input any
				if json.Unmarshal([]byte(text), &input) != nil {
					input = text
				}
				blocks[open].(map[string]any)["input"] = input
			}
			open = -1
		case "message_delta":
			for name, value := range data["delta"].(map[string]any) {
				message[name] = value
			}
			for name, value := range data["usage"].(map[string]any) {
				message["usage"].(map[string]any)[name] = value
			}
		}
	}
	if blocks == nil {
		blocks = []any{}
	}
	message["content"] = blocks
	return message
}

// TestStreamIsTheAnswer holds that a stream comes to the same message as a whole answer.
func TestStreamIsTheAnswer(t *testing.T) {
	for _, c := range answers {
		if c.name == "turns" {
			continue // it has the same in another order
		}
		a := dialecttest.Answer(c.answer)
		var whole map[string]any
		if err := json.Unmarshal((&writer{}).Answer(nil, a), &whole); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(whole, accumulate(t, streamed(a, c.stream))); diff != "" {
			t.Errorf("%s (-whole +stream)\n%s", c.name, diff)
		}
	}
}

// TestRoundTrip sends each answer back, whole and as streamed, with a result for each of
// its calls: the model's thoughts, texts and calls are in the turns again.
func TestRoundTrip(t *testing.T) {
	for _, c := range answers {
		t.Run(c.name, func(t *testing.T) {
			a := dialecttest.Answer(c.answer)
			if c.name == "unsaid" {
				a.ToolCalls = a.ToolCalls[:1] // no provider takes back invalid JSON
			}
			var whole map[string]any
			if err := json.Unmarshal((&writer{}).Answer(nil, a), &whole); err != nil {
				t.Fatal(err)
			}
			for _, message := range []map[string]any{whole, accumulate(t, streamed(a, c.stream))} {
				results := []any{map[string]any{"type": "text", "text": "Go on."}}
				for i := range a.ToolCalls {
					results = append([]any{map[string]any{"type": "tool_result", "tool_use_id": a.ToolCalls[i].ID}}, results...)
				}
				body, err := json.Marshal(map[string]any{"model": "m", "messages": []any{
					map[string]any{"role": message["role"], "content": message["content"]}, map[string]any{"role": "user", "content": results},
				}})
				if err != nil {
					t.Fatal(err)
				}
				call, refused := parse(t, string(body))
				if refused != nil {
					t.Fatalf("%s: %v", body, refused)
				}
				var thoughts []providers.Thought
				var calls []providers.ToolCall
				for _, p := range call.Turns[0].Parts {
					switch p.Kind {
					case providers.PartThinking:
						thoughts = append(thoughts, providers.Thought{Text: p.Text.Plain(), Opaque: p.Opaque})
					case providers.PartToolCall:
						p.Call.Opaque = p.Opaque
						calls = append(calls, p.Call)
					}
				}
				want := append([]providers.ToolCall(nil), a.ToolCalls...)
				for i := range want {
					if strings.TrimSpace(want[i].Arguments) == "" {
						want[i].Arguments = "{}"
					}
				}
				if diff := cmp.Diff(a.Thoughts, thoughts) + cmp.Diff(want, calls) + cmp.Diff(a.Content, call.Turns[0].Text().Plain()); diff != "" {
					t.Errorf("-want +got\n%s", diff)
				}
				var ignored []string
				if c.name == "search" {
					ignored = []string{"messages[0].content[3].citations"} // no API takes those of another one
				}
				if diff := cmp.Diff(ignored, call.Ignored); diff != "" {
					t.Errorf("what is ignored: -want +got\n%s", diff)
				}
			}
		})
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		err  *wire.Error
		want string
	}{
		{&wire.Error{Code: wire.InvalidRequest, Param: "messages[0].role", Message: `"a"`}, `{"type":"error","error":{"type":"invalid_request_error","message":"\"a\"","details":{"error_code":"invalid_request","param":"messages[0].role"}},"request_id":null}`},
		{&wire.Error{Code: wire.InvalidAPIKey, Message: "secret", Param: "secret", RequestID: "r"}, `{"type":"error","error":{"type":"authentication_error","message":"` + wire.Unauthorized(false).Message + `","details":{"error_code":"invalid_api_key"}},"request_id":"r"}`},
		{&wire.Error{Code: wire.InvalidRequest, Message: "a", Param: "thread"}, `{"type":"error","error":{"type":"invalid_request_error","message":"a","details":{"error_code":"thread_unsupported_request","param":"thread"}},"request_id":null}`},
		{&wire.Error{Code: wire.ContextLengthExceeded, Message: "a", Tokens: 210000, Window: 200000}, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum","details":{"error_code":"context_length_exceeded"}},"request_id":null}`},
		{&wire.Error{Code: wire.ContextLengthExceeded, Message: "a"}, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long","details":{"error_code":"context_length_exceeded"}},"request_id":null}`},
		{&wire.Error{Code: wire.UpstreamTimeout, Message: "a", TraceID: "t"}, `{"type":"error","error":{"type":"timeout_error","message":"a","details":{"error_code":"upstream_timeout"}},"request_id":"t"}`},
	} {
		if got := string(Dialect.AppendError(nil, c.err)); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
	types := map[string]string{}
	for _, code := range wire.Codes() {
		types[code.Name] = typeOf(code.Status)
	}
	for name, want := range map[string]string{
		"conflict": "invalid_request_error", "key_not_allowed": "permission_error", "body_too_large": "request_too_large", "model_not_found": "not_found_error", "rate_limited": "rate_limit_error", "internal": "api_error",
		"upstream_error": "api_error", "upstream_refused": "api_error", "overloaded": "overloaded_error", "upstream_unavailable": "overloaded_error", "upstream_interrupted": "api_error",
	} {
		if types[name] != want {
			t.Errorf("%s: %s, want %s", name, types[name], want)
		}
	}
}

func BenchmarkStream(b *testing.B) {
	a := dialecttest.Answer(dialect.Answer{FinishReason: providers.FinishStop})
	buffer := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		w := &writer{}
		for range 100 {
			buffer = w.Delta(buffer[:0], a, providers.Delta{Content: "a few words "})
		}
		buffer = w.Finish(buffer[:0], a)
	}
}
