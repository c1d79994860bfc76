package bedrock

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
	pt "github.com/cadenza-gateway/cadenza/providers/providertest"
	"github.com/cadenza-gateway/cadenza/providers/upstream"
)

// piece is a piece of a thought, with the members of Converse's
// reasoningContent.
func piece(content string) string {
	return event("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"reasoningContent":`+content+`},"p":"abc"}`)
}

func TestThoughtsAndPiecesOfCalls(t *testing.T) {
	sign := piece(`{"signature":"EqQB/+=="}`)
	first, second := toolBlock(1, providers.ToolCall{ID: "t1", Name: "f", Arguments: `{"a":1}`}), toolBlock(2, providers.ToolCall{ID: "t2", Name: "f", Arguments: "{}"})
	for _, test := range []struct {
		name   string
		events []string
		want   string
	}{
		{"a thought", []string{reasoning("H"), reasoning("m."), sign, blockStop(), delta("a")}, "~H~~m.~<" + signed + ">a"},
		{"a signature in pieces", []string{reasoning("Hm."), piece(`{"signature":"EqQB"}`), piece(`{"signature":"/+=="}`), blockStop(), delta("a")}, "~Hm.~<" + signed + ">a"},
		{"no signature", []string{reasoning("Hm."), blockStop(), reasoning("So."), sign, blockStop(), delta("a")}, "~Hm.~~So.~<" + strings.Replace(signed, "Hm", "So", 1) + ">a"},
		{"a redacted thought", []string{piece(`{"redactedContent":"EmwK"}`), blockStop(), delta("a")}, "<" + hidden + ">a"},
		{"a redacted thought in pieces", []string{piece(`{"redactedContent":"Eg=="}`), piece(`{"redactedContent":"bAo="}`), blockStop(), delta("a")}, "<" + hidden + ">a"},
		{"a redacted thought whose second piece is none", []string{piece(`{"redactedContent":"EmwK"}`), piece(`{"redactedContent":"?"}`), blockStop(), delta("a")}, "<" + hidden + ">a"},
		{"an empty thought", []string{piece(`{}`), blockStop(), delta("a")}, "a"},
		{"no end before a text", []string{reasoning("Hm."), sign, delta("a")}, "~Hm.~<" + signed + ">a"},
		{"no end before a call", append([]string{reasoning("Hm."), sign}, second...), "~Hm.~<" + signed + ">[0 t2 f ][0   {}]"},
		{"no end before the stop", []string{delta("a"), reasoning("Hm."), sign}, "a~Hm.~<@1,0:" + signed + ">"},
		{"thoughts between calls", append(append(append([]string{delta("é")}, first...), reasoning("Hm."), sign, blockStop()), second...), `é[0 t1 f ][0   {"][0   a":1}]~Hm.~<@2,1:` + signed + ">[1 t2 f ][1   {}]"},
		{"an input that is cut in an escape", []string{
			event("contentBlockStart", `{"contentBlockIndex":1,"start":{"toolUse":{"name":"f","toolUseId":"t"}}}`),
			event("contentBlockDelta", `{"contentBlockIndex":1,"delta":{"toolUse":{"input":"{\"a\":\"\\"}}}`),
			event("contentBlockDelta", `{"contentBlockIndex":1,"delta":{"toolUse":{"input":"n\ud83d"}}}`),
			event("contentBlockDelta", `{"contentBlockIndex":1,"delta":{"toolUse":{"input":"\ude00\"}"}}}`),
		}, `[0 t f ][0   {"a":"\][0   n][0   😀"}]`},
	} {
		got, _, err := subject.Told(t, streamed(append(append([]string{start()}, test.events...), stop("end_turn"), metadata(9, 2))...))
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%s: error %v (-want +got):\n%s", test.name, err, diff)
		}
	}
	got, r, err := subject.Told(t, streamed(start(), reasoning("Hm."), sign))
	if e, ok := err.(*providers.Error); !ok || e.Kind != providers.Truncated || got != "~Hm.~" || len(r.Thoughts) != 1 || r.Thoughts[0].Opaque != "" {
		t.Errorf("a thought of a cut answer: %s, %+v, %v", got, r.Thoughts, err)
	}
	events := []string{start(), reasoning("Hm.")}
	for range upstream.MaxBody>>20 + 1 {
		events = append(events, piece(`{"signature":"`+strings.Repeat("x", 1<<20)+`"}`))
	}
	if got, _, err := subject.Told(t, streamed(append(events, blockStop(), stop("end_turn"))...)); err != nil || got != "~Hm.~" {
		t.Errorf("a signature beyond the limit: %.100s, %v", got, err)
	}
}

func TestThoughtsOfAWholeAnswer(t *testing.T) {
	content := hidden + "," + signed + `,{"text":"é"},{"toolUse":{"toolUseId":"t1","name":"f","input":{}}},` + strings.Replace(signed, "Hm", "So", 1) + `,{"text":"b"},{"toolUse":{"toolUseId":"t2","name":"f","input":{"a":1}}}`
	got, r, err := subject.Told(t, pt.JSON(200, `{"output":{"message":{"content":[`+content+`]}},"stopReason":"tool_use"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := "<" + hidden + ">~Hm.~<" + signed + ">é[0 t1 f {}]~So.~<@2,1:" + strings.Replace(signed, "Hm", "So", 1) + `>b[1 t2 f {"a":1}]`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}

	// The history that comes back is the answer.
	parts := []providers.Part{pt.Text("éb"), pt.Call("t1", "f", "{}"), pt.Call("t2", "f", `{"a":1}`)}
	for _, thought := range r.Thoughts {
		parts = append(parts, pt.Thinking(thought.Text, thought.Opaque))
	}
	req := &providers.Request{Model: testModel, Messages: []providers.Message{{Role: "user", Content: "a"}, pt.Message("assistant", parts...)}}
	sent, _ := pt.Sent(t, answer("fine", "end_turn", 1, 1), req, func(base string) providers.Provider { return client(t, base) })
	if !strings.Contains(sent.Body, `{"role":"assistant","content":[`+content+`]}`) {
		t.Errorf("%s, want %s", sent.Body, content)
	}
}
