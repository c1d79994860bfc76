package dialect_test

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/internal/dialect"
	"github.com/cadenza-gateway/cadenza/internal/dialect/chat"
	"github.com/cadenza-gateway/cadenza/internal/dialect/messages"
	"github.com/cadenza-gateway/cadenza/internal/dialect/native"
	"github.com/cadenza-gateway/cadenza/internal/dialect/responses"
	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

// TestSizeIsABound holds that no dialect's answer is larger than its size, whatever of it
// is large: the gateway makes room by it. It is not much larger than the longest, either.
func TestSizeIsABound(t *testing.T) {
	answers := map[string]dialect.Answer{"nothing": {FinishReason: providers.FinishContentFilter, Refusal: true}}
	for name, text := range map[string]string{"escapes": "\x01", "quotes": "\x00🙂\"", "umlauts": "ü", "ascii": "x"} {
		large := strings.Repeat(text, 10_000)
		answers["content of "+name] = dialect.Answer{Content: large, Key: large}
		answers["thoughts of "+name] = dialect.Answer{Thoughts: []providers.Thought{{Text: large, Opaque: large}, {Opaque: large}}}
		answers["a call of "+name] = dialect.Answer{ToolCalls: []providers.ToolCall{{ID: large, Name: large, Arguments: large, Opaque: large}}}
		answers["explanation of "+name] = dialect.Answer{Content: "a", Category: large, Explanation: large}
		answers["logprobs of "+name] = dialect.Answer{Logprobs: json.RawMessage("[" + large + "]")}
	}
	many := dialect.Answer{Thoughts: make([]providers.Thought, 500), ToolCalls: make([]providers.ToolCall, 500)}
	for i := range many.Thoughts {
		many.Thoughts[i].Text, many.Thoughts[i].Opaque, many.ToolCalls[i].Opaque = "t", "o", "o"
	}
	answers["many"] = many
	answers["refused"] = dialect.Answer{Content: "ab", Refusal: true, Refused: 1}
	sealer := dialect.Sealer(func(dst []byte, _, _ string) []byte { return append(dst, "0123456789abcdef"...) })
	for name, a := range answers {
		a.TraceID, a.Revision = "0193c1a0-7b00-8223-a456-0123456789ab", "0123456789abcdef"
		longest := 0
		for body, d := range map[string]dialect.Dialect{
			`{"key":"a"}`:                 native.Dialect,
			`{"model":"a"}`:               chat.Dialect,
			`{"model":"a","messages":[]}`: messages.Dialect,
			`{"model":"a","input":[{"type":"compaction_trigger"}]}`:              responses.Dialect,
			`{"model":"a","instructions":"` + strings.Repeat("i", 16_000) + `"}`: responses.Dialect,
		} {
			r := new(wire.Request)
			if err := r.ReadBody(nil, httptest.NewRequest("POST", "/", strings.NewReader(body)), 1<<20, 0, 0, nil); err != nil {
				t.Fatal(err)
			}
			_, w, err := dialect.Parse(d, r)
			if err != nil {
				t.Fatal(err)
			}
			a := a
			if strings.Contains(body, "compaction") {
				a.Seal = func(summary string) string { return sealer.Seal(dialect.SummaryOrigin, summary) }
			}
			size := a.Size()
			if keeper, keeps := w.(dialect.Keeper); keeps {
				size += keeper.Held()
			}
			whole := w.Answer(nil, &a)
			if longest = max(longest, len(whole)); len(whole) > size {
				t.Errorf("%s, %T: %d bytes, a size of %d", name, d, len(whole), size)
			}
		}
		if most := 3*longest + 2048; a.Size() > most {
			t.Errorf("%s: a size of %d, although no answer has more than %d bytes", name, a.Size(), longest)
		}
	}
}
