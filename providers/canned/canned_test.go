package canned

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/cadenza-gateway/cadenza/providers"
	"github.com/cadenza-gateway/cadenza/providers/providertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) { providertest.Run(t, contract) }

// TestContractWithoutStreaming holds the contract for a provider that answers each
// request as a whole.
func TestContractWithoutStreaming(t *testing.T) {
	providertest.Run(t, func(t *testing.T, b providertest.Behaviour, req *providers.Request) providers.Provider {
		p := contract(t, b, req)
		if p == nil {
			return nil
		}
		return atOnce{p}
	}, providertest.Streaming)
}

// atOnce is a provider that streams nothing.
type atOnce struct{ providers.Provider }

func (a atOnce) Invoke(ctx context.Context, req *providers.Request) (providers.Stream, error) {
	whole := *req
	whole.Stream = false
	return a.Provider.Invoke(ctx, &whole)
}

func TestTableOfParts(t *testing.T) { providertest.CheckTable(t, "canned", contract) }

// contract makes providers whose upstream behaves as the contract wants.
func contract(t *testing.T, b providertest.Behaviour, req *providers.Request) providers.Provider {
	set := func(name string, value any) {
		raw, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		req.Extra[name] = raw
	}
	// It needs no key, knows its reasons, and its words come out of a
	// definition, which has no halves of characters.
	if b.Key != "" || b.Finish == providertest.UnknownReason || !utf8.ValidString(strings.Join(b.Words, "|")) {
		return nil
	}
	// Nor has it an upstream that answers anything else but silence.
	if b.Fail == providertest.Switches || b.Fail == providertest.Drips || b.Fail == providertest.Silent && b.Status != 0 {
		return nil
	}
	if b.Finish != "" {
		set("finish_reason", b.Finish)
	}
	set("answer", append([]string{}, b.Words...))
	if b.Thought != nil {
		set("thinking", b.Thought.Text)
	}
	if len(b.Tools) > 0 {
		calls := make([]map[string]any, len(b.Tools))
		for i, c := range b.Tools {
			calls[i] = map[string]any{"id": c.ID, "name": c.Name, "arguments": c.Arguments}
		}
		set("tool_calls", calls)
	}
	fail := map[string]any{"after": len(b.Words), "code": b.Code}
	switch {
	case b.Status != 0:
		set("fail", map[string]any{"status": b.Status, "code": b.Code, "retry_after": b.RetryAfter.String()})
	case b.Fail == providertest.Stops:
		fail["kind"] = "truncate"
		set("fail", fail)
	case b.Fail == providertest.Stalls, b.Fail == providertest.Silent:
		fail["kind"] = "hang"
		set("fail", fail)
	case b.Fail == providertest.Reported:
		fail["kind"] = "error"
		set("fail", fail)
	}
	return &Provider{Pace: b.Pace}
}

// answer reads the answer to a request with the extra members given as JSON.
func answer(t *testing.T, ctx context.Context, p *Provider, extra string, stream bool) ([]string, error) {
	t.Helper()
	req := &providers.Request{
		Messages: []providers.Message{{Role: "system", Content: "x"}, {Role: "user", Content: "the last  message"}},
		Stream:   stream,
	}
	if err := json.Unmarshal([]byte(extra), &req.Extra); err != nil {
		t.Fatal(err)
	}
	s, err := p.Invoke(ctx, req)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	var pieces []string
	for {
		d, err := s.Next()
		if err == io.EOF {
			return pieces, nil
		}
		if err != nil {
			return pieces, err
		}
		pieces = append(pieces, d.Content)
	}
}

func TestWhatIsAnswered(t *testing.T) {
	for _, test := range []struct {
		name, configured, extra string
		stream                  bool
		want                    []string
	}{
		{"echo", "", `{"echo":true}`, true, []string{"the ", "last  ", "message"}},
		{"echo whole", "so be it", `{"echo":true}`, false, []string{"the last  message"}},
		{"configured", "so be it", `{}`, true, []string{"so ", "be ", "it"}},
		{"definition's text", "so be it", `{"answer":" a\n b "}`, true, []string{" a\n ", "b "}},
		{"definition's pieces", "so be it", `{"answer":["a b","c"]}`, true, []string{"a b", "c"}},
		{"definition's pieces whole", "", `{"answer":["a b","c"]}`, false, []string{"a bc"}},
		{"nothing", "so be it", `{"answer":""}`, true, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := answer(t, t.Context(), &Provider{Answer: test.configured}, test.extra, test.stream)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPace(t *testing.T) {
	for _, test := range []struct {
		extra string
		want  time.Duration
	}{
		{`{"answer":"a b c"}`, 40 * time.Millisecond},
		{`{"answer":"a b c","pace":"1s"}`, 2 * time.Second},
		{`{"answer":"a b c","pace":"0s"}`, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			if _, err := answer(t, t.Context(), &Provider{Pace: DefaultPace}, test.extra, true); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != test.want {
				t.Errorf("%s took %s, want %s", test.extra, took, test.want)
			}
		})
	}
}

func TestFailures(t *testing.T) {
	for _, test := range []struct {
		extra string
		said  []string
		want  any // *providers.Error, or nil for a *providers.ConnectError
	}{
		{`{"fail":{}}`, nil, &providers.Error{Provider: "canned", Status: 500}},
		{`{"fail":{"status":529,"code":"overloaded","message":"m"}}`, nil, &providers.Error{Provider: "canned", Status: 529, Code: "overloaded", Message: "m"}},
		{`{"fail":{"kind":"refuse","code":"content_filter"}}`, nil, &providers.Error{Provider: "canned", Kind: providers.Refused, Status: 200, Code: "content_filter"}},
		{`{"answer":"a b c","fail":{"after":2}}`, []string{"a ", "b "}, &providers.Error{Provider: "canned", Kind: providers.Truncated, Status: 200}},
		{`{"answer":"a b c","fail":{"after":1,"kind":"error","code":"x"}}`, []string{"a "}, &providers.Error{Provider: "canned", Kind: providers.Reported, Status: 200, Code: "x"}},
		{`{"answer":"a b","fail":{"kind":"truncate"}}`, nil, &providers.Error{Provider: "canned", Kind: providers.Truncated, Status: 200}},
		{`{"fail":{"kind":"connect"}}`, nil, nil},
	} {
		said, err := answer(t, t.Context(), &Provider{}, test.extra, true)
		if diff := cmp.Diff(test.said, said); diff != "" {
			t.Errorf("%s said:\n%s", test.extra, diff)
		}
		if test.want == nil {
			if _, ok := errors.AsType[*providers.ConnectError](err); !ok {
				t.Errorf("%s: error %v", test.extra, err)
			}
			continue
		}
		e, ok := errors.AsType[*providers.Error](err)
		if !ok {
			t.Fatalf("%s: error %v", test.extra, err)
		}
		if diff := cmp.Diff(test.want, e); diff != "" {
			t.Errorf("%s:\n%s", test.extra, diff)
		}
	}
}

func TestTimesCountsTheTriesAtTheTarget(t *testing.T) {
	budget := providertest.NewBudget(10)
	ctx := providers.WithBudget(t.Context(), budget)
	const extra = `{"answer":"fine","fail":{"status":503,"times":2}}`
	for try, fails := range []bool{true, true, false, false} {
		_, err := answer(t, ctx, &Provider{}, extra, false)
		if (err != nil) != fails {
			t.Errorf("try %d: error %v", try+1, err)
		}
		budget.Repeat(ctx, nil)
	}
	ctx = providers.WithBudget(t.Context(), providertest.NewBudget(1))
	if _, err := answer(t, ctx, &Provider{}, extra, false); err == nil {
		t.Error("the first try at another target does not fail")
	}
}

func TestRateFailsAShare(t *testing.T) {
	failed := 0
	for range 2000 {
		if _, err := answer(t, t.Context(), &Provider{}, `{"fail":{"rate":0.3},"echo":true}`, false); err != nil {
			failed++
		}
	}
	if failed < 450 || failed > 750 {
		t.Errorf("%d of 2000 failed, want about 600", failed)
	}
}

func TestExtraIsChecked(t *testing.T) {
	for _, test := range []struct{ extra, want string }{
		{`{"anwser":"x"}`, `extra.anwser is not known: did you mean "answer"?`},
		{`{"answer":1}`, "extra.answer must be a string or a list"},
		{`{}`, "there is nothing to answer with"},
		{`{"answer":null}`, "there is nothing to answer with"},
		{`{"echo":false,"pace":"1ms"}`, "there is nothing to answer with"},
		{`{"fail":{"times":1}}`, "there is nothing to answer with"},
		{`{"fail":{"rate":0.5}}`, "there is nothing to answer with"},
		{`{"tool_calls":[]}`, "there is nothing to answer with"},
		{`{"fail":{"rate":1e-9},"echo":true,"pace":null}`, ""},
		{`{"echo":"yes"}`, "extra.echo must be true or false"},
		{`{"echo":true,"answer":"x"}`, "extra.echo is true, but there is an answer"},
		{`{"pace":20}`, "extra.pace must be a duration"},
		{`{"pace":"-1s"}`, "extra.pace must be a duration"},
		{`{"pace":"2h"}`, "extra.pace must be a duration"},
		{`{"finish_reason":"tired"}`, "extra.finish_reason must be stop"},
		{`{"finish_reason":1}`, "extra.finish_reason must be stop"},
		{`{"finish_reason":"tool_calls"}`, "extra.finish_reason is tool_calls, but there are 0 tool_calls"},
		{`{"finish_reason":"stop","tool_calls":[{"name":"f"}]}`, "extra.finish_reason is stop, but there are 1 tool_calls"},
		{`{"usage":7}`, "extra.usage is not understood"},
		{`{"usage":{"tokens":7}}`, `extra.usage has the unknown member "tokens"`},
		{`{"usage":{"cached_token":7}}`, `extra.usage has the unknown member "cached_token": did you mean "cached_tokens"?`},
		{`{"usage":{"tier":"best"}}`, `extra.usage has the tier "best", but there are batch, flex and priority`},
		{`{"usage":{"cost_usd":-1}}`, `extra.usage has a cost_usd that is none: give US dollars, from 0 to a million`},
		{`{"usage":{"web_searches":-1}}`, `extra.usage has counts from 0 to 1000000000`},
		{`{"usage":{"prompt_tokens":-1}}`, "extra.usage has counts from 0"},
		{`{"usage":{"completion_tokens":1e30}}`, "extra.usage is not understood"},
		{`{"fail":"yes"}`, "extra.fail is not understood: it must have the members kind, status, code, message, retry_after, times, after, rate, this is a JSON string"},
		{`{"fail":{"times":"two"}}`, "extra.fail is not understood: times has the wrong type, this is a JSON string"},
		{`{"tool_calls":[{"nmae":"f"}]}`, `extra.tool_calls has the unknown member "nmae": did you mean "name"?`},
		{`{"fail":{"statsu":1}}`, `extra.fail has the unknown member "statsu": did you mean "status"?`},
		{`{"fail":{"kind":"explode"}}`, "unknown kind"},
		{`{"fail":{"status":200}}`, "400 to 599"},
		{`{"fail":{"status":500,"kind":"status","after":1}}`, "before all words"},
		{`{"fail":{"rate":2}}`, "rate of 0 to 1"},
		{`{"fail":{"retry_after":7}}`, "retry_after must be a duration"},
	} {
		_, err := answer(t, t.Context(), &Provider{}, test.extra, true)
		if test.want == "" {
			if err != nil {
				t.Errorf("%s: %v", test.extra, err)
			}
			continue
		}
		e, ok := errors.AsType[*providers.Error](err)
		if !ok || e.Status != 400 || !strings.Contains(e.Reason, test.want) {
			t.Errorf("%s: error %v, want a 400 with %q", test.extra, err, test.want)
		}
	}
}

func TestCaddyfile(t *testing.T) {
	for _, test := range []struct {
		input, err string
		want       Provider
	}{
		{`canned`, "", Provider{Pace: DefaultPace}},
		{"canned {\n answer \"Hello there\"\n pace 5ms\n}", "", Provider{Answer: "Hello there", Pace: 5 * time.Millisecond}},
		{"canned {\n pace 0\n}", "", Provider{}},
		{"canned {\n pase 5ms\n}", "provider option", Provider{}},
		{"canned {\n pace fast\n}", "pace", Provider{}},
		{"canned {\n pace 5m\n}", "must be 0 to", Provider{}},
		{"canned {\n answer\n}", "argument", Provider{}},
		{"canned {\n answer a b\n}", "argument", Provider{}},
		{"canned x", "argument", Provider{}},
	} {
		var m Module
		err := m.UnmarshalCaddyfile(caddyfile.NewTestDispenser(test.input))
		if err == nil {
			err = m.Provision(caddy.Context{})
		}
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: error %v, want %q", test.input, err, test.err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.input, err)
		}
		if diff := cmp.Diff(test.want, m.Provider); diff != "" {
			t.Errorf("%s:\n%s", test.input, diff)
		}
	}
}

func TestToolCalls(t *testing.T) {
	for _, test := range []struct {
		extra, text string
		want        []providers.ToolCall
	}{
		{`{"tool_calls":[{"name":"f"}]}`, "", []providers.ToolCall{{Name: "f", Arguments: "{}"}}},
		{`{"tool_calls":[{"id":"a","name":"f","arguments":{"x": [1, 2]}},{"name":"g","arguments":"{\"y\": 1}"}],"answer":"Let me see."}`, "Let me see.",
			[]providers.ToolCall{{ID: "a", Name: "f", Arguments: `{"x":[1,2]}`}, {Name: "g", Arguments: `{"y": 1}`}}},
		{`{"tool_calls":[],"answer":"No."}`, "No.", nil},
	} {
		for _, stream := range []bool{false, true} {
			req := &providers.Request{Stream: stream, Messages: []providers.Message{{Role: "user", Content: "the last message"}}}
			if err := json.Unmarshal([]byte(test.extra), &req.Extra); err != nil {
				t.Fatal(err)
			}
			s, err := (&Provider{}).Invoke(t.Context(), req)
			text := ""
			for err == nil {
				var d providers.Delta
				d, err = s.Next()
				text += d.Content
			}
			if err != io.EOF || text != test.text {
				t.Fatalf("%s: %q, error %v", test.extra, text, err)
			}
			if diff := cmp.Diff(test.want, s.Result().ToolCalls); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.extra, diff)
			}
			if finish := s.Result().FinishReason; (finish == "tool_calls") != (test.want != nil) {
				t.Errorf("%s: finish reason %q", test.extra, finish)
			}
		}
	}
	for extra, want := range map[string]string{
		`{"tool_calls":{}}`: "extra.tool_calls is not understood", `{"tool_calls":[{}]}`: "needs a name for call 1",
		`{"tool_calls":[{"name":"f","argument":1}]}`: `has the unknown member "argument"`, `{"tool_calls":[{"name":7}]}`: "is not understood",
	} {
		if _, err := answer(t, t.Context(), &Provider{}, extra, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v", extra, err)
		}
	}
}

// TestHowAnAnswerEnds holds that a definition decides it: why the model stopped,
// and what was used.
func TestHowAnAnswerEnds(t *testing.T) {
	for _, test := range []struct {
		extra string
		want  providers.Result
	}{
		{`{"answer":"a b"}`, providers.Result{FinishReason: providers.FinishStop, Usage: providers.Usage{PromptTokens: 2, CompletionTokens: 2, TotalTokens: 4}}},
		{`{"answer":"a b","finish_reason":"length"}`, providers.Result{FinishReason: providers.FinishLength, Usage: providers.Usage{PromptTokens: 2, CompletionTokens: 2, TotalTokens: 4}}},
		{`{"answer":"a","finish_reason":"content_filter","usage":{"prompt_tokens":120,"completion_tokens":4000}}`, providers.Result{FinishReason: providers.FinishContentFilter, Usage: providers.Usage{PromptTokens: 120, CompletionTokens: 4000, TotalTokens: 4120}}},
		{`{"answer":"a b","usage":false}`, providers.Result{FinishReason: providers.FinishStop}},
		{`{"answer":"a b","usage":{"prompt_tokens":100,"completion_tokens":50,"cached_tokens":1,"cache_write_tokens":2,"cache_write_hour_tokens":3,"prompt_audio_tokens":4,"prompt_image_tokens":5,"reasoning_tokens":6,"completion_audio_tokens":7,"completion_image_tokens":8,"web_searches":9,"file_searches":10,"code_executions":11,"tier":"flex","cost_usd":0}}`,
			providers.Result{FinishReason: providers.FinishStop, Usage: providers.Usage{
				PromptTokens: 100, CompletionTokens: 50, TotalTokens: 150, CachedTokens: 1, CacheWriteTokens: 2, CacheWriteHourTokens: 3, PromptAudioTokens: 4, PromptImageTokens: 5,
				ReasoningTokens: 6, CompletionAudioTokens: 7, CompletionImageTokens: 8, WebSearches: 9, FileSearches: 10, CodeExecutions: 11, Tier: "flex", HasCost: true,
			}}},
		{`{"answer":"a b","usage":{"cost_usd":0.25}}`, providers.Result{FinishReason: providers.FinishStop, Usage: providers.Usage{PromptTokens: 2, CompletionTokens: 2, TotalTokens: 4, Cost: 0.25, HasCost: true}}},
		{`{"answer":"a b","usage":{"completion_tokens":0}}`, providers.Result{FinishReason: providers.FinishStop, Usage: providers.Usage{PromptTokens: 2, TotalTokens: 2}}},
		{`{"tool_calls":[{"name":"f"}],"finish_reason":"tool_calls","usage":{"prompt_tokens":0}}`, providers.Result{FinishReason: providers.FinishToolCalls, Usage: providers.Usage{CompletionTokens: 1, TotalTokens: 1}, ToolCalls: []providers.ToolCall{{Name: "f", Arguments: "{}"}}}},
		{`{"tool_calls":[{"name":"f"}],"finish_reason":"length"}`, providers.Result{FinishReason: providers.FinishLength, Usage: providers.Usage{PromptTokens: 2, CompletionTokens: 1, TotalTokens: 3}, ToolCalls: []providers.ToolCall{{Name: "f", Arguments: "{}"}}}},
	} {
		for _, stream := range []bool{true, false} {
			req := &providers.Request{Model: "m", Messages: []providers.Message{{Role: "user", Content: "two words"}}, Stream: stream}
			if err := json.Unmarshal([]byte(test.extra), &req.Extra); err != nil {
				t.Fatal(err)
			}
			s, err := (&Provider{}).Invoke(t.Context(), req)
			if err != nil {
				t.Errorf("%s: %v", test.extra, err)
				continue
			}
			for err == nil {
				_, err = s.Next()
			}
			test.want.Model = "m"
			if diff := cmp.Diff(test.want, s.Result()); err != io.EOF || diff != "" {
				t.Errorf("stream=%v, %s: %v (-want +got):\n%s", stream, test.extra, err, diff)
			}
		}
	}
}
