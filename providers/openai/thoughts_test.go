package openai

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
)

// delta is a chunk with members of the delta, whole an answer with the same of the
// message.
func delta(members string) string {
	return pt.Event(`{"model":"m","choices":[{"index":0,"delta":{` + members + `},"finish_reason":null}]}`)
}

func whole(members string) pt.Reply {
	return pt.JSON(200, `{"model":"m","choices":[{"index":0,"message":{"role":"assistant",`+members+`},"finish_reason":"stop"}]}`)
}

func streamed(members ...string) pt.Reply {
	r := pt.SSE()
	for _, m := range members {
		r.Body = append(r.Body, delta(m))
	}
	r.Body = append(r.Body, pt.FinishChunk("stop"), pt.Done)
	return r
}

// deltas is the text of an answer's deltas, one after the other.
func deltas(t *testing.T, reply pt.Reply) (said []string, r providers.Result) {
	t.Helper()
	s := subject.Open(io.NopCloser(strings.NewReader(reply.Text())))
	defer s.Close()
	for {
		d, err := s.Next()
		if err != nil {
			if err != io.EOF {
				t.Error(err)
			}
			return said, s.Result()
		}
		if d.Thinking != "" {
			said = append(said, "thinking "+d.Thinking)
		}
		if d.Thought != nil {
			said = append(said, "thought "+d.Thought.Text+" "+d.Thought.Opaque)
		}
		if d.Content != "" {
			said = append(said, "content "+d.Content)
		}
		for _, c := range d.Calls {
			said = append(said, "call "+c.Name+c.Arguments)
		}
	}
}

func TestThoughts(t *testing.T) {
	const (
		signed    = `{"type":"reasoning.text","format":"anthropic-claude-v1","index":0,"signature":"s="}`
		encrypted = `{"type":"reasoning.encrypted","data":"x","format":"google-gemini-v1","id":"call_1","index":1}`
		summary   = `{"type":"reasoning.summary","format":"openai-responses-v1","index":0}`
	)
	for _, test := range []struct {
		name  string
		reply pt.Reply
		said  []string
		want  []providers.Thought
	}{
		{"reasoning_content", streamed(`"role":"assistant","content":null,"reasoning_content":""`, `"reasoning_content":"a","content":null`, `"reasoning_content":"b"`, `"content":"c"`),
			[]string{"thinking a", "thinking b", "content c"}, []providers.Thought{{Text: "ab"}}},
		{"reasoning", streamed(`"content":"","reasoning":"a"`, `"content":"c"`), []string{"thinking a", "content c"}, []providers.Thought{{Text: "a"}}},
		{"both names", whole(`"reasoning":"a","reasoning_content":"a","content":"c"`), []string{"thinking a", "content c"}, []providers.Thought{{Text: "a"}}},
		{"with the content", streamed(`"content":"c","reasoning":"a"`), []string{"thinking a", "content c"}, []providers.Thought{{Text: "a"}}},
		{"a content of parts", streamed(`"content":[{"type":"thinking","thinking":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"type":"text","text":"c"}]`),
			[]string{"thinking ab", "content c"}, []providers.Thought{{Text: "ab"}}},
		{"half a character", streamed(`"reasoning":"\ud83d"`, `"reasoning":"\ude00"`, `"content":"c"`), []string{"thinking 😀", "content c"}, []providers.Thought{{Text: "😀"}}},
		{"no content after", streamed(`"reasoning":"a"`), []string{"thinking a"}, []providers.Thought{{Text: "a"}}},
		{"signed details in pieces", streamed(
			`"content":"","reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a","format":"anthropic-claude-v1","index":0}]`,
			`"content":"","reasoning":"b","reasoning_details":[{"type":"reasoning.text","text":"b","format":"anthropic-claude-v1","index":0}]`,
			`"content":"","reasoning":null,"reasoning_details":[{"type":"reasoning.text","signature":"s=","text":null,"format":"anthropic-claude-v1","index":0}]`,
			`"content":"c"`),
			[]string{"thinking a", "thinking b", "thought ab " + signed, "content c"}, []providers.Thought{{Text: "ab", Opaque: signed}}},
		{"details of Claude without a signature", whole(`"content":"c","reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a"}]`),
			[]string{"thinking a", "content c"}, []providers.Thought{{Text: "a"}}},
		{"details of others without a signature", whole(`"content":"c","reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a","format":"unknown"}]`),
			[]string{"thinking a", `thought a {"type":"reasoning.text","format":"unknown"}`, "content c"}, []providers.Thought{{Text: "a", Opaque: `{"type":"reasoning.text","format":"unknown"}`}}},
		{"a summary, and what is encrypted, with a call", streamed(
			`"reasoning":"a","reasoning_details":[{"type":"reasoning.summary","summary":"a","format":"openai-responses-v1","index":0}]`,
			`"reasoning_details":[`+encrypted+`],"tool_calls":[{"index":0,"id":"call_1","function":{"name":"f","arguments":"{}"}}]`),
			[]string{"thinking a", "thought a " + summary, "thought  " + encrypted, "call f{}"}, []providers.Thought{{Text: "a", Opaque: summary}, {Opaque: encrypted}}},
		{"what is encrypted, with a text that no detail has", whole(`"content":"c","reasoning":"a","reasoning_details":[` + encrypted + `]`),
			[]string{"thinking a", "thought a " + encrypted, "content c"}, []providers.Thought{{Text: "a", Opaque: encrypted}}},
		{"what is encrypted, at the end", streamed(`"content":"c"`, `"reasoning_details":[`+encrypted+`]`), []string{"content c", "thought  " + encrypted}, []providers.Thought{{Opaque: encrypted}}},
		{"details that are none", streamed(`"reasoning":"a","reasoning_details":[7,{},{"type":"novelty","text":"x"}]`, `"content":"c"`), []string{"thinking a", "content c"}, []providers.Thought{{Text: "a"}}},
	} {
		said, r := deltas(t, test.reply)
		if diff := cmp.Diff(test.said, said); diff != "" {
			t.Errorf("%s: deltas (-want +got):\n%s", test.name, diff)
		}
		if diff := cmp.Diff(test.want, r.Thoughts); diff != "" {
			t.Errorf("%s: thoughts (-want +got):\n%s", test.name, diff)
		}
		// They come back as they were.
		var parts []providers.Part
		var details []string
		for _, thought := range r.Thoughts {
			parts = append(parts, pt.Thinking(thought.Text, thought.Opaque))
			if thought.Opaque != "" {
				details = append(details, thought.Opaque)
			}
		}
		sent := messagesOf(t, Quirks{Thoughts: reasoningDetails}, pt.Message("assistant", parts...))
		var got struct {
			Details []map[string]any `json:"reasoning_details"`
		}
		if err := json.Unmarshal([]byte(sent), &got); err != nil || len(got.Details) != len(details) {
			t.Errorf("%s: %v, sent back %s", test.name, err, sent)
			continue
		}
		for i := range details {
			var want map[string]any
			if err := json.Unmarshal([]byte(details[i]), &want); err != nil {
				t.Error(err)
			}
			delete(got.Details[i], "text")
			delete(got.Details[i], "summary")
			if diff := cmp.Diff(want, got.Details[i]); diff != "" {
				t.Errorf("%s: a detail came back as another (-want +got):\n%s", test.name, diff)
			}
		}
	}
}

func TestLogprobs(t *testing.T) {
	chunk := func(content, list string) string {
		return pt.Event(`{"model":"m","choices":[{"index":0,"delta":{"content":` + content + `},"logprobs":{"content":` + list + `,"refusal":null},"finish_reason":null}]}`)
	}
	// The bytes of half a character are none of a text.
	const halfToken = "\ufffd\ufffd\ufffd"
	const one, two = `[{"token":"a","logprob":-0.50,"bytes":[97],"top_logprobs":[]}]`, `[{"token":"b"},{"token":"\ud83d"}]`
	s := subject.Open(io.NopCloser(strings.NewReader(pt.SSE(chunk(`"a"`, one), chunk(`"b"`, two), chunk(`"c"`, "null"), chunk(`""`, "[]"), pt.FinishChunk("stop"), pt.Done).Text())))
	defer s.Close()
	var got []string
	for {
		d, err := s.Next()
		if err != nil {
			break
		}
		got = append(got, d.Content+string(d.Logprobs))
	}
	if diff := cmp.Diff([]string{"a" + one, "b" + `[{"token":"b"},{"token":"` + halfToken + `"}]`, "c"}, got); diff != "" {
		t.Errorf("deltas (-want +got):\n%s", diff)
	}
	const all = `[{"token":"a","logprob":-0.50,"bytes":[97],"top_logprobs":[]},{"token":"b"},{"token":"` + halfToken + `"}]`
	for range 2 {
		if r := s.Result(); string(r.Logprobs) != all {
			t.Errorf("the answer's are %s", r.Logprobs)
		}
	}
	o := subject.Receive(t, pt.JSON(200, `{"choices":[{"message":{"content":"a"},"logprobs":{"content":`+one+`},"finish_reason":"stop"}]}`), false)
	if string(o.Result.Logprobs) != one {
		t.Errorf("a whole answer's are %s", o.Result.Logprobs)
	}
}

func TestUsage(t *testing.T) {
	for usage, want := range map[string]providers.Usage{
		`{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":3}}`: {PromptTokens: 9, CompletionTokens: 5, TotalTokens: 14, CachedTokens: 4, ReasoningTokens: 3},
		`{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14,"prompt_cache_hit_tokens":8,"prompt_cache_miss_tokens":1}`:                                       {PromptTokens: 9, CompletionTokens: 5, TotalTokens: 14, CachedTokens: 8},
		`{"prompt_tokens":9,"completion_tokens":5,"cached_tokens":99}`:                                                                                               {PromptTokens: 9, CompletionTokens: 5, TotalTokens: 14, CachedTokens: 9},
		`{"prompt_tokens":9,"completion_tokens":5,"total_tokens":17,"completion_tokens_details":{"reasoning_tokens":3}}`:                                             {PromptTokens: 9, CompletionTokens: 8, TotalTokens: 17, ReasoningTokens: 3},
		`{"prompt_tokens":9,"completion_tokens":5,"total_tokens":14,"completion_tokens_details":{"reasoning_tokens":7},"prompt_tokens_details":null}`:                {PromptTokens: 9, CompletionTokens: 5, TotalTokens: 14, ReasoningTokens: 5},
	} {
		o := subject.Receive(t, pt.JSON(200, `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":`+usage+`}`), false)
		if diff := cmp.Diff(want, o.Result.Usage); diff != "" {
			t.Errorf("%s (-want +got):\n%s", usage, diff)
		}
	}
}
