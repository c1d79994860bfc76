package invoke

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/internal/wire"
	"github.com/cadenza-gateway/cadenza/providers"
)

func thinks(after time.Duration, text string) step {
	return step{after: after, piece: providers.Delta{Thinking: text}}
}

func calls(after time.Duration, pieces ...providers.CallPiece) step {
	return step{after: after, piece: providers.Delta{Calls: pieces}}
}

// shown writes what emit got: content as it is, ~thinking, !opaque of a thought,
// and #index:id/name(arguments) of a piece of a call.
func shown(d *providers.Delta) string {
	var b strings.Builder
	b.WriteString(d.Content)
	if d.Thinking != "" {
		b.WriteString("~" + d.Thinking)
	}
	if d.Thought != nil {
		b.WriteString("!" + d.Thought.Opaque)
	}
	for _, c := range d.Calls {
		fmt.Fprintf(&b, "#%d:%s/%s(%s)%s", c.Index, c.ID, c.Name, c.Arguments, c.Opaque)
	}
	return b.String()
}

// TestPieces has a caller that wants thoughts and tool calls as they arrive, and one
// that does not.
func TestPieces(t *testing.T) {
	broken := &providers.Error{Kind: providers.Truncated, Status: 200}
	long := strings.Repeat("n", providers.MaxName+1)
	whole := func(r providers.Result, steps ...step) script {
		r.Model, r.Usage = "real-model", providers.Usage{PromptTokens: 1}
		return script{steps: steps, result: r}
	}
	fallback := []script{slowly(time.Second, "b")}
	type want = struct {
		got  string // by emit, a space between; or the failure's code behind it
		took time.Duration
	}
	for _, test := range []struct {
		name            string
		policy          Policy
		first           script
		with, without   want
		attempts        int // with pieces
		committedBefore time.Duration
	}{
		{
			name:  "a thought, a call and a text",
			first: whole(providers.Result{ToolCalls: []providers.ToolCall{{ID: "1", Name: "f", Arguments: "{}"}}}, thinks(time.Second, "hm"), step{piece: providers.Delta{Thought: &providers.Thought{Text: "hm", Opaque: "sig"}}}, step{}, step{after: time.Second, say: "x"}, calls(time.Second, providers.CallPiece{ID: "1", Name: "f"}), calls(0, providers.CallPiece{Arguments: "{}", Opaque: "o"})),
			with:  want{"~hm !sig x #0:1/f() #0:/({})o", 3 * time.Second}, without: want{"x", 3 * time.Second}, attempts: 1, committedBefore: 1500 * time.Millisecond,
		}, {
			name:  "it breaks after a thought",
			first: script{steps: []step{thinks(time.Second, "hm"), {after: time.Second, err: broken}}},
			with:  want{"~hm " + wire.UpstreamInterrupted.Name, 2 * time.Second}, without: want{"b", 3 * time.Second}, attempts: 1, committedBefore: 1500 * time.Millisecond,
		}, {
			name:  "it breaks after a sign of life",
			first: script{steps: []step{{}, {after: time.Second, err: broken}}},
			with:  want{"b", 2 * time.Second}, without: want{"b", 2 * time.Second}, attempts: 2, committedBefore: time.Hour,
		}, {
			name:  "a thought ends the time for the first content",
			first: whole(providers.Result{}, thinks(5*time.Second, "hm"), thinks(10*time.Second, "hm"), step{after: 10 * time.Second, say: "x"}),
			with:  want{"~hm ~hm x", 25 * time.Second}, without: want{"b", 21 * time.Second}, attempts: 1, committedBefore: 6 * time.Second,
		}, {
			name:  "silence after a piece of a call",
			first: script{steps: []step{calls(time.Second, providers.CallPiece{ID: "1", Name: "f"}), calls(31*time.Second, providers.CallPiece{Arguments: "{}"})}},
			with:  want{"#0:1/f() " + wire.UpstreamInterrupted.Name, 31 * time.Second}, without: want{wire.UpstreamTimeout.Name, 31 * time.Second}, attempts: 1, committedBefore: 2 * time.Second,
		}, {
			name: "a hedge for a thought", policy: Policy{Hedge: 2 * time.Second},
			first: whole(providers.Result{}, thinks(time.Second, "hm"), step{after: 9 * time.Second, say: "x"}),
			with:  want{"~hm x", 10 * time.Second}, without: want{"b", 3 * time.Second}, attempts: 1, committedBefore: 1500 * time.Millisecond,
		}, {
			name:  "a provider without pieces",
			first: whole(providers.Result{Thoughts: []providers.Thought{{Text: "hm", Opaque: "sig"}, {Text: "so"}}, ToolCalls: []providers.ToolCall{{ID: "1", Name: "f", Arguments: "{}", Opaque: "o"}, {ID: "2", Name: "g", Arguments: "[]"}}}, step{say: "x"}, step{}),
			with:  want{"x ~hm !sig ~so #0:1/f({})o #1:2/g([])", 0}, without: want{"x", 0}, attempts: 1, committedBefore: time.Second,
		}, {
			name:  "an answer without a piece",
			first: whole(providers.Result{ToolCalls: []providers.ToolCall{{ID: "1", Name: "f", Arguments: "{}"}}}),
			with:  want{"#0:1/f({})", 0}, without: want{"", 0}, attempts: 1, committedBefore: time.Second,
		}, {
			name:  "text and a call at once, and a long name",
			first: whole(providers.Result{ToolCalls: []providers.ToolCall{{ID: "1", Name: long}}}, step{say: "x", piece: providers.Delta{Calls: []providers.CallPiece{{ID: "1", Name: long}}}}),
			with:  want{"x#0:1/" + providers.ShortName(long) + "()", 0}, without: want{"x", 0}, attempts: 1, committedBefore: time.Second,
		},
	} {
		for _, pieces := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/pieces=%v", test.name, pieces), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := scripted(test.first)
					began, committed := time.Now(), time.Duration(-1)
					var got []string
					c := &Call{
						Targets: []Target{target("a", f), target("b", scripted(fallback...))}, Stream: true, Pieces: pieces, Policy: test.policy,
						Committed: func(int, int, []string) { committed = time.Since(began) },
					}
					c.Policy.Retries = retries(0)
					r, err := NewEngine().Invoke(t.Context(), c, func(d providers.Delta) error {
						got = append(got, shown(&d))
						return nil
					})
					if err != nil {
						got = append(got, err.(*Error).Code.Name)
					}
					want := test.without
					if pieces {
						want = test.with
						if len(r.Attempts) != test.attempts {
							t.Errorf("%d attempts", len(r.Attempts))
						}
						if test.attempts == 1 && (committed < 0 || committed > test.committedBefore) {
							t.Errorf("committed at %s", committed)
						}
					}
					if diff := cmp.Diff(want, struct {
						got  string
						took time.Duration
					}{strings.Join(got, " "), r.Duration}, cmp.AllowUnexported(want)); diff != "" {
						t.Error(diff)
					}
					if f.open != 0 {
						t.Error("a stream is open")
					}
				})
			})
		}
	}
}

// TestASlowCallerOfPiecesIsNoSilence has a caller take longer for a piece of a thought
// than the provider may be silent.
func TestASlowCallerOfPiecesIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := scripted(script{steps: []step{{say: "x"}, thinks(0, "hm"), calls(20*time.Second, providers.CallPiece{ID: "1", Name: "f"})}})
		c := &Call{Targets: []Target{target("a", f)}, Stream: true, Pieces: true}
		n := 0
		if _, err := NewEngine().Invoke(t.Context(), c, func(providers.Delta) error {
			n++
			time.Sleep(20 * time.Second)
			return nil
		}); err != nil || n != 3 {
			t.Errorf("error %v, %d pieces", err, n)
		}
	})
}

// TestAWholeAnswerHasNoPieces holds that emit gets the content once.
func TestAWholeAnswerHasNoPieces(t *testing.T) {
	result := providers.Result{ToolCalls: []providers.ToolCall{{ID: "1", Name: "f"}}, Thoughts: []providers.Thought{{Text: "hm"}}}
	f := scripted(script{steps: []step{thinks(0, "hm"), {say: "x"}, calls(0, providers.CallPiece{ID: "1", Name: "f"}), {say: "y"}}, result: result})
	var got []string
	r, err := NewEngine().Invoke(t.Context(), &Call{Targets: []Target{target("a", f)}, Pieces: true}, func(d providers.Delta) error {
		got = append(got, shown(&d))
		return nil
	})
	if err != nil || !cmp.Equal(got, []string{"xy"}) || !cmp.Equal(r.ToolCalls, result.ToolCalls) || !cmp.Equal(r.Thoughts, result.Thoughts) {
		t.Errorf("error %v, got %q, result %+v", err, got, r.Result)
	}
}

// TestThoughtsAndCallsAreBounded has a provider think, or call, without an end.
func TestThoughtsAndCallsAreBounded(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	for name, step := range map[string]step{
		"thoughts": thinks(0, big),
		"opaque":   {piece: providers.Delta{Thought: &providers.Thought{Opaque: big}}},
		"calls":    calls(0, providers.CallPiece{Arguments: big}),
	} {
		for _, c := range []*Call{{}, {Stream: true}, {Stream: true, Pieces: true}} {
			s := script{hang: true}
			for range 1 + maxContent>>20 {
				s.steps = append(s.steps, step)
			}
			c.Targets = []Target{target("a", scripted(s))}
			if _, err, _ := run(t, c); err == nil || err.Class != InvalidAnswer || !strings.Contains(err.Error(), "its thoughts and tool calls, has more than") {
				t.Errorf("%s, stream=%v, pieces=%v: %v", name, c.Stream, c.Pieces, err)
			}
		}
	}
}

// TestEstimates has providers that count no tokens.
func TestEstimates(t *testing.T) {
	text := []providers.Message{{Role: "system", Content: "1234"}, {Role: "user", Content: "12345"}}
	parts := append(text[:1:1], providers.Message{Role: "user", Parts: []providers.Part{
		{Kind: providers.PartText, Text: "12345678"},
		{Kind: providers.PartImage, Media: providers.Media{Type: "image/png", Data: strings.Repeat("A", 1<<16)}},
		{Kind: providers.PartFile, Media: providers.Media{URL: "https://example.com/a.pdf"}},
	}}, providers.Message{Role: "assistant", Parts: []providers.Part{
		{Kind: providers.PartThinking, Text: "1234", Opaque: strings.Repeat("s", 400)},
		{Kind: providers.PartToolCall, Call: providers.ToolCall{ID: "1", Name: "find", Arguments: `{"a":12}`}},
	}}, providers.Message{Role: "tool", Parts: []providers.Part{{Kind: providers.PartToolResult, Result: providers.ToolResult{Call: "1", Content: []providers.Part{
		{Kind: providers.PartText, Text: "1234"}, {Kind: providers.PartImage, Media: providers.Media{URL: "https://example.com/a.png"}},
	}}}}})
	called := providers.Result{
		Thoughts:  []providers.Thought{{Text: "1234", Opaque: strings.Repeat("s", 400)}},
		ToolCalls: []providers.ToolCall{{ID: "1", Name: "find", Arguments: `{"a":12}`}},
	}
	counted := providers.Usage{PromptTokens: 7, CompletionTokens: 8, TotalTokens: 15}
	for _, test := range []struct {
		name      string
		messages  []providers.Message
		answer    script
		want      providers.Usage
		estimated bool
	}{
		{"counted", text, script{steps: []step{{say: "x"}}, result: providers.Result{Usage: counted}}, counted, false},
		{"a part is counted", text, script{steps: []step{{say: "x"}}, result: providers.Result{Usage: providers.Usage{TotalTokens: 3}}}, providers.Usage{TotalTokens: 3}, false},
		{"text", text, script{steps: []step{{say: "1234"}, {say: "5"}}}, providers.Usage{PromptTokens: 15, CompletionTokens: 2, TotalTokens: 17}, true},
		{"nothing", text, script{}, providers.Usage{PromptTokens: 15, TotalTokens: 15}, true},
		// 2+3+2+1+5+2 tokens of texts, 3 and 4 a message around them, and three of media.
		{"parts", parts, script{steps: []step{{say: "1234"}}}, providers.Usage{PromptTokens: 3034, CompletionTokens: 2, TotalTokens: 3036}, true},
		{"thoughts and calls in the result", text, script{steps: []step{{say: "1234"}}, result: called}, providers.Usage{PromptTokens: 15, CompletionTokens: 10, TotalTokens: 25}, true},
	} {
		for _, stream := range []bool{false, true} {
			r, err, _ := run(t, &Call{Targets: []Target{target("a", scripted(test.answer))}, Messages: test.messages, Stream: stream})
			if err != nil || r.Usage != test.want || r.Estimated != test.estimated {
				t.Errorf("%s, stream=%v: error %v, usage %+v, estimated %v", test.name, stream, err, r.Usage, r.Estimated)
			}
			a := r.Attempts[0]
			if a.PromptTokens != test.want.PromptTokens || a.CompletionTokens != test.want.CompletionTokens || a.Estimated != test.estimated {
				t.Errorf("%s, stream=%v: attempt %+v", test.name, stream, a.Attempt)
			}
		}
	}
}

// TestABrokenThoughtIsPaidFor has a provider fail while it thinks.
func TestABrokenThoughtIsPaidFor(t *testing.T) {
	f := scripted(script{steps: []step{thinks(0, "12345678"), {err: &providers.Error{Kind: providers.Truncated, Status: 200}}}})
	r, _, _ := run(t, &Call{Targets: []Target{target("a", f)}, Messages: []providers.Message{{Content: "1234"}}, Stream: true, Policy: Policy{Retries: retries(0)}})
	if a := r.Attempts[0]; r.Estimated || !a.Estimated || a.PromptTokens != 9 || a.CompletionTokens != 3 {
		t.Errorf("%+v, estimated %v", a.Attempt, r.Estimated)
	}
}

// TestAStreamedThoughtIsCountedOnce has a provider give its thought in pieces, and again
// with the whole answer.
func TestAStreamedThoughtIsCountedOnce(t *testing.T) {
	thought := strings.Repeat("word ", 100)
	result := providers.Result{FinishReason: providers.FinishStop, Thoughts: []providers.Thought{{Text: thought}}}
	for name, steps := range map[string][]step{
		"in pieces": {thinks(0, thought), {say: "yes"}},
		"at once":   {{say: "yes"}},
	} {
		f := scripted(script{steps: steps, result: result})
		r, err, _ := run(t, &Call{Targets: []Target{target("a", f)}, Messages: []providers.Message{{Content: "1234"}}, Stream: true})
		if err != nil {
			t.Fatal(err)
		}
		if n := r.Attempts[0].CompletionTokens; n < 100 || n > 110 {
			t.Errorf("%s: %d tokens of 101 words", name, n)
		}
	}
}

// TestPartsAreNotQuoted holds for the texts of parts what TestBrief holds for
// messages of one text.
func TestPartsAreNotQuoted(t *testing.T) {
	const said = "Where is order 4711 of Ada Lovelace?"
	for name, part := range map[string]providers.Part{
		"text":      {Text: said},
		"url":       {Media: providers.Media{URL: said}},
		"data":      {Media: providers.Media{Data: said}},
		"file":      {Media: providers.Media{Name: said}},
		"arguments": {Call: providers.ToolCall{Arguments: said}},
		"opaque":    {Opaque: said},
		"result":    {Result: providers.ToolResult{Content: []providers.Part{{Text: said}}}},
	} {
		k := &call{Call: &Call{Messages: []providers.Message{{Role: "user", Parts: []providers.Part{part}}}}}
		if !k.quoted("The key may not ask: " + said[6:30]) {
			t.Errorf("%s: a quotation is not found", name)
		}
		if k.quoted("The key is not valid.") {
			t.Errorf("%s: a text that quotes nothing is taken for a quotation", name)
		}
	}
}
