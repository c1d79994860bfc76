package canned

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
)

// said is the content of an answer, from its deltas and from its result.
type said struct {
	text, thinking string
	opaque         string // of the thoughts that ended
	calls          []providers.ToolCall
	logprobs       string
	result         providers.Result
}

// ask sends a request with the extra members given as JSON, and reads the answer.
func ask(t *testing.T, p *Provider, extra string, req *providers.Request) (a said, err error) {
	t.Helper()
	req.Extra = nil
	if err := json.Unmarshal([]byte(extra), &req.Extra); err != nil {
		t.Fatal(err)
	}
	s, err := p.Invoke(t.Context(), req)
	if err != nil {
		return a, err
	}
	defer s.Close()
	for {
		d, err := s.Next()
		if err == io.EOF {
			a.result = s.Result()
			return a, nil
		}
		if err != nil {
			return a, err
		}
		a.text += d.Content
		a.thinking += d.Thinking
		a.logprobs += string(d.Logprobs)
		if d.Thought != nil {
			a.opaque += d.Thought.Opaque
		}
		for _, c := range d.Calls {
			if c.Index == len(a.calls) {
				a.calls = append(a.calls, providers.ToolCall{ID: c.ID, Name: c.Name})
			} else if c.ID != "" || c.Name != "" {
				t.Errorf("a later piece has the id %q and the name %q", c.ID, c.Name)
			}
			a.calls[c.Index].Arguments += c.Arguments
			a.calls[c.Index].Opaque += c.Opaque
		}
	}
}

func user(text string) providers.Message {
	return providers.Message{Role: "user", Content: providers.Escape(text)}
}

// answered is the assistant's message of an answer, and the messages of its tools'
// results.
func answered(a said, results ...string) []providers.Message {
	m := providers.Message{Role: "assistant"}
	for _, t := range a.result.Thoughts {
		m.Parts = append(m.Parts, providers.Part{Kind: providers.PartThinking, Text: providers.Escape(t.Text), Opaque: t.Opaque})
	}
	if a.text != "" {
		m.Parts = append(m.Parts, providers.Part{Kind: providers.PartText, Text: providers.Escape(a.text)})
	}
	all := []providers.Message{m}
	for i, c := range a.result.ToolCalls {
		all[0].Parts = append(all[0].Parts, providers.Part{Kind: providers.PartToolCall, Call: c, Opaque: c.Opaque})
		all = append(all, providers.Message{Role: "tool", Parts: []providers.Part{{Kind: providers.PartToolResult, Result: providers.ToolResult{
			Call: c.ID, Content: []providers.Part{{Kind: providers.PartText, Text: providers.Escape(results[i])}},
		}}}})
	}
	return all
}

// TestAConversation plays a script: a thought and two calls, then a text, then the
// same for the next question.
func TestAConversation(t *testing.T) {
	const extra = `{"turns":[
		{"thinking":"They want the weather.","answer":"Let me see.","tool_calls":[{"name":"weather","arguments":{"city":"Gent","note":"long enough for pieces"}},{"id":"mine","name":"time"}]},
		{"echo":true}
	]}`
	for _, stream := range []bool{false, true} {
		history := []providers.Message{{Role: "system", Content: "s"}, user("Where?")}
		for range 2 {
			first, err := ask(t, &Provider{}, extra, &providers.Request{Messages: history, Stream: stream})
			if err != nil {
				t.Fatal(err)
			}
			if first.text != "Let me see." || first.thinking != "They want the weather." || first.result.FinishReason != providers.FinishToolCalls {
				t.Errorf("stream=%v: %+v", stream, first)
			}
			if diff := cmp.Diff(first.result.ToolCalls, first.calls); diff != "" || len(first.calls) != 2 {
				t.Errorf("stream=%v: the pieces are not the calls:\n%s", stream, diff)
			}
			if diff := cmp.Diff([]providers.Thought{{Text: first.thinking, Opaque: first.opaque}}, first.result.Thoughts); diff != "" || first.opaque == "" {
				t.Errorf("stream=%v: the thoughts:\n%s", stream, diff)
			}
			if c := first.calls[0]; c.ID != "" || c.Opaque == "" || c.Arguments != `{"city":"Gent","note":"long enough for pieces"}` {
				t.Errorf("stream=%v: call %+v", stream, c)
			}
			history = append(history, answered(first, "18 °C", "noon")...)
			second, err := ask(t, &Provider{}, extra, &providers.Request{Messages: history, Stream: stream})
			if err != nil || second.text != "18 °C\nnoon" || second.calls != nil || second.result.FinishReason != providers.FinishStop {
				t.Errorf("stream=%v: %+v, error %v", stream, second, err)
			}
			history = append(append(history, answered(second)...), user("And there?"))
		}
	}
}

// TestMessagesInARowAreOneTurn has a history with an answer in several messages.
func TestMessagesInARowAreOneTurn(t *testing.T) {
	history := []providers.Message{user("q"), {Role: "assistant", Content: "a"}, {Role: "assistant", Content: "b"}, user("q")}
	a, err := ask(t, &Provider{}, `{"turns":[{"answer":"1"},{"answer":"2"},{"answer":"3"}]}`, &providers.Request{Messages: history})
	if err != nil || a.text != "2" {
		t.Errorf("%q, error %v", a.text, err)
	}
}

func TestCallTool(t *testing.T) {
	tools := []providers.Tool{
		{Name: "find", Parameters: json.RawMessage(`{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}`)},
		{Name: "stop"},
	}
	asked := []providers.Message{user("Go!")}
	with := append(asked[:1:1], answered(said{result: providers.Result{ToolCalls: []providers.ToolCall{{ID: "call_1", Name: "find"}}}}, "found")...)
	for _, test := range []struct {
		name, extra string
		configured  string
		messages    []providers.Message
		tools       []providers.Tool
		choice      *providers.ToolChoice
		text, calls string
	}{
		{"first", `{"call_tool":"first"}`, "", asked, tools, nil, "", `find({"id":1})`},
		{"all", `{"call_tool":"all"}`, "", asked, tools, nil, "", `find({"id":1}) stop({})`},
		{"by name", `{"call_tool":"stop","answer":"So."}`, "", asked, tools, nil, "So.", `stop({})`},
		{"with a configured answer", `{"call_tool":"stop"}`, "x", asked, tools, nil, "", `stop({})`},
		{"with an echo", `{"call_tool":"stop","echo":true}`, "x", asked, tools, nil, "", `stop({})`},
		{"chosen", `{"call_tool":"first"}`, "", asked, tools, &providers.ToolChoice{Mode: providers.ToolsNamed, Name: "stop"}, "", `stop({})`},
		{"forbidden", `{"call_tool":"first"}`, "", asked, tools, &providers.ToolChoice{Mode: providers.ToolsNone}, "Go!", ""},
		{"none offered", `{"call_tool":"first"}`, "", asked, nil, nil, "Go!", ""},
		{"a result is there", `{"call_tool":"first"}`, "", with, tools, nil, "found", ""},
		{"a result is there, and an answer", `{"call_tool":"first","answer":"Done."}`, "", with, tools, nil, "Done.", ""},
		{"a result is there, and a configured answer", `{"call_tool":"first"}`, "x", with, tools, nil, "x", ""},
		{"another question", `{"call_tool":"first"}`, "", append(with[:len(with):len(with)], user("More!")), tools, nil, "", `find({"id":1})`},
		{"in a turn", `{"turns":[{"call_tool":"first"},{"call_tool":"stop"},{"answer":"x"}]}`, "", with, tools, nil, "", `stop({})`},
	} {
		for _, stream := range []bool{false, true} {
			req := &providers.Request{Messages: test.messages, Stream: stream}
			req.Parameters.Tools, req.Parameters.ToolChoice = test.tools, test.choice
			a, err := ask(t, &Provider{Answer: test.configured}, test.extra, req)
			if err != nil {
				t.Errorf("%s: %v", test.name, err)
				continue
			}
			var calls []string
			for _, c := range a.result.ToolCalls {
				calls = append(calls, fmt.Sprintf("%s(%s)%s", c.Name, c.Arguments, c.ID))
			}
			if a.text != test.text || strings.Join(calls, " ") != test.calls || (a.result.FinishReason == providers.FinishToolCalls) != (calls != nil) {
				t.Errorf("%s, stream=%v: %q, calls %q, %s", test.name, stream, a.text, calls, a.result.FinishReason)
			}
		}
	}
	req := &providers.Request{Messages: asked}
	req.Parameters.Tools = tools
	_, err := ask(t, &Provider{}, `{"call_tool":"fnid"}`, req)
	if e, ok := errors.AsType[*providers.Error](err); !ok || e.Status != 400 || e.Reason != `extra.call_tool is "fnid", but the request offers no such tool` {
		t.Errorf("a tool that is not offered: %v", err)
	}
}

// TestPiecesComeAtThePace holds that thoughts and calls are streamed as words are.
func TestPiecesComeAtThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		req := &providers.Request{Messages: []providers.Message{user("x")}, Stream: true}
		a, err := ask(t, &Provider{}, `{"pace":"1s","turns":[{"thinking":"a b","answer":"c d","tool_calls":[{"name":"f","arguments":{"x":"0123456789"}}]}]}`, req)
		// Two words, two words, the name and two pieces.
		if took := time.Since(began); err != nil || took != 6*time.Second || a.calls[0].Arguments != `{"x":"0123456789"}` {
			t.Errorf("took %s, %+v, error %v", took, a, err)
		}
		if got, want := a.result.Usage, (providers.Usage{PromptTokens: 1, CompletionTokens: 5, TotalTokens: 6, ReasoningTokens: 2}); got != want {
			t.Errorf("usage %+v", got)
		}
	})
}

// TestAFailureAfterAThought has an answer break after its thought, and within a call.
func TestAFailureAfterAThought(t *testing.T) {
	for after, want := range map[int]string{1: "a / ", 2: "a b/ ", 3: "a b/c ", 4: "a b/c f()"} {
		extra := fmt.Sprintf(`{"thinking":"a b","answer":"c","tool_calls":[{"name":"f"}],"fail":{"after":%d}}`, after)
		a, err := ask(t, &Provider{}, extra, &providers.Request{Messages: []providers.Message{user("x")}, Stream: true})
		got := a.thinking + "/" + a.text + " "
		for _, c := range a.calls {
			got += c.Name + "(" + c.Arguments + ")"
		}
		if e, ok := errors.AsType[*providers.Error](err); !ok || e.Kind != providers.Truncated || got != want {
			t.Errorf("after %d: %q, error %v", after, got, err)
		}
	}
}

// TestOpaqueDataIsChecked sends thoughts and calls back changed.
func TestOpaqueDataIsChecked(t *testing.T) {
	first, err := ask(t, &Provider{}, `{"thinking":"hm","tool_calls":[{"name":"f"}]}`, &providers.Request{Messages: []providers.Message{user("x")}})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		change func(thought, call *providers.Part)
		want   string
	}{
		"unchanged":               {func(*providers.Part, *providers.Part) {}, ""},
		"without it":              {func(th, c *providers.Part) { th.Opaque, c.Opaque = "", "" }, ""},
		"without the text":        {func(th, _ *providers.Part) { th.Text = "" }, ""},
		"other arguments":         {func(_, c *providers.Part) { c.Call.Arguments = `{ }` }, ""},
		"another text":            {func(th, _ *providers.Part) { th.Text = "so" }, "message 2 has opaque data of a thinking"},
		"other data":              {func(th, _ *providers.Part) { th.Opaque = "x" }, "message 2 has opaque data of a thinking"},
		"other data without text": {func(th, _ *providers.Part) { th.Text, th.Opaque = "", "canned-x" }, "message 2 has opaque data of a thinking"},
		"another call":            {func(_, c *providers.Part) { c.Call.Name = "g" }, "message 2 has opaque data of a tool_call"},
	} {
		history := append([]providers.Message{user("x")}, answered(first, "r")...)
		test.change(&history[1].Parts[0], &history[1].Parts[1])
		_, err := ask(t, &Provider{}, `{"answer":"y"}`, &providers.Request{Messages: history})
		e, _ := errors.AsType[*providers.Error](err)
		if test.want == "" && err != nil || test.want != "" && (e == nil || e.Status != 400 || e.Code != "invalid_signature" || !strings.Contains(e.Reason, test.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEcho(t *testing.T) {
	image := providers.Part{Kind: providers.PartImage, Media: providers.Media{Type: "image/png", Data: "AAAAAAA="}}
	text := providers.Part{Kind: providers.PartText, Text: "Look: "}
	for want, messages := range map[string][]providers.Message{
		"":                                     nil,
		"Look: [image image/png, 5 bytes]":     {{Role: "user", Parts: []providers.Part{text, image}}},
		"[image at https://example.com/a.png]": {{Role: "user", Parts: []providers.Part{{Kind: providers.PartImage, Media: providers.Media{URL: "https://example.com/a.png"}}}}},
		"[file a.pdf application/pdf, 3 bytes][audio audio/wav, 4 bytes]": {{Role: "user", Parts: []providers.Part{
			{Kind: providers.PartFile, Media: providers.Media{Type: "application/pdf", Name: "a.pdf", Data: "AAAA"}},
			{Kind: providers.PartAudio, Media: providers.Media{Type: "audio/wav", Data: "AAAAAA=="}},
		}}},
		"Look: [image image/png, 5 bytes]\n[failed] Look: \nplain": {user("x"),
			{Role: "tool", Parts: []providers.Part{
				{Kind: providers.PartToolResult, Result: providers.ToolResult{Content: []providers.Part{text, image}}},
				{Kind: providers.PartToolResult, Result: providers.ToolResult{Content: []providers.Part{text}, Failed: true}},
			}},
			{Role: "tool", Content: "plain"},
		},
		"Look: [tool_call f({})]": {{Role: "assistant", Parts: []providers.Part{text, {Kind: providers.PartToolCall, Call: providers.ToolCall{Name: "f", Arguments: "{}"}}}}},
	} {
		a, err := ask(t, &Provider{}, `{"echo":true}`, &providers.Request{Messages: messages})
		if err != nil || a.text != want {
			t.Errorf("%q, want %q, error %v", a.text, want, err)
		}
	}
	a, err := ask(t, &Provider{}, `{"echo":true}`, &providers.Request{Messages: []providers.Message{user("two words"), {Role: "user", Parts: []providers.Part{text, image}}}})
	if err != nil || a.result.Usage.PromptTokens != 4 {
		t.Errorf("usage %+v, error %v", a.result.Usage, err)
	}
}

func TestLogprobs(t *testing.T) {
	two := int64(2)
	const word = `{"token":"é","logprob":-0.105361,"bytes":[195,169],"top_logprobs":[{"token":"é","logprob":-0.105361,"bytes":[195,169]},{"token":"a ","logprob":-3.101093,"bytes":[97,32]}]}`
	for _, stream := range []bool{false, true} {
		req := &providers.Request{Messages: []providers.Message{user("x")}, Stream: stream}
		req.Parameters.Logprobs = &two
		a, err := ask(t, &Provider{}, `{"answer":["é","é"]}`, req)
		got, want := a.logprobs, "["+word+"]["+word+"]"
		if !stream {
			got, want = string(a.result.Logprobs), "["+word+","+word+"]"
		}
		if err != nil || got != want {
			t.Errorf("stream=%v: %s, error %v", stream, got, err)
		}
		req.Parameters.Logprobs = new(int64)
		a, _ = ask(t, &Provider{}, `{"answer":["é"]}`, req)
		if got := a.logprobs + string(a.result.Logprobs); got != `[{"token":"é","logprob":-0.105361,"bytes":[195,169],"top_logprobs":[]}]` {
			t.Errorf("stream=%v, no alternatives: %s", stream, got)
		}
	}
}

// TestScriptsAreChecked checks the errors of definitions at their loading.
func TestScriptsAreChecked(t *testing.T) {
	for extra, want := range map[string]string{
		`{"turns":[]}`:                                  "extra.turns must be a list of turns, each with some of the members answer, thinking, tool_calls, call_tool, finish_reason, usage, fail, echo",
		`{"turns":{"answer":"x"}}`:                      "extra.turns must be a list",
		`{"turns":[{"answer":"x"}],"answer":"y"}`:       "extra.answer is beside turns: put it into a turn",
		`{"turns":[{"answer":"x"}],"fail":{}}`:          "extra.fail is beside turns",
		`{"turns":[{"answer":"x"},{"anwser":"y"}]}`:     `extra.turns has a mistake in turn 2: anwser is not known: did you mean "answer"?`,
		`{"turns":[{"answer":"x","pace":"1s"}]}`:        "extra.turns has a mistake in turn 1: pace is not known",
		`{"turns":[{"turns":[{"answer":"x"}]}]}`:        "extra.turns has a mistake in turn 1: turns is not known",
		`{"turns":[{"thinking":"x"}]}`:                  "extra.turns has nothing to answer with in turn 1",
		`{"turns":[{"answer":"x","echo":true}]}`:        "turn 1: echo is true, but there is an answer",
		`{"thinking":"x"}`:                              "there is nothing to answer with",
		`{"thinking":7,"answer":"x"}`:                   "extra.thinking must be a string or a list",
		`{"call_tool":true}`:                            "extra.call_tool must be first, all or the name of a tool that callers offer",
		`{"call_tool":""}`:                              "extra.call_tool must be first",
		`{"call_tool":"f","tool_calls":[{"name":"f"}]}`: "extra.call_tool is given, but so are tool_calls",
		`{"call_tool":"f","finish_reason":"stop"}`:      "extra.finish_reason is stop, but call_tool decides that",
		`{"call_tool":"f","finish_reason":"length"}`:    "",
		`{"pace":"1ms","turns":[{"answer":"x"}]}`:       "",
	} {
		_, err := answer(t, t.Context(), &Provider{}, extra, true)
		e, _ := errors.AsType[*providers.Error](err)
		if want == "" && err != nil || want != "" && (e == nil || e.Status != 400 || !strings.Contains(e.Reason, want)) {
			t.Errorf("%s: error %v, want %q", extra, err, want)
		}
	}
}
