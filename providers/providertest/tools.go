package providertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cadenza-gateway/cadenza/providers"
)

// toolCalls are the calls of models in the contract.
var toolCalls = []providers.ToolCall{
	{ID: "call_a1", Name: "get_weather", Arguments: `{"city":"Gent \"\u2028 ü 🌍","days":[1,2.50]}`},
	{ID: "call_b2", Name: "get_time", Arguments: `{}`},
	{ID: "call_c3", Name: "get_weather", Arguments: `{"city":"Rio"}`},
}

// withoutIDs returns calls of a service that gives them no ids.
func withoutIDs(calls []providers.ToolCall) []providers.ToolCall {
	calls = slices.Clone(calls)
	for i := range calls {
		calls[i].ID = ""
	}
	return calls
}

// withTools returns a request that offers tools.
func withTools(stream bool) *providers.Request {
	req := request(stream)
	req.Parameters.Tools = []providers.Tool{
		{
			Name: "get_weather", Description: "Says what the weather will be.",
			Parameters: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"array"}},"required":["city"]}`),
		},
		{Name: "get_time"},
	}
	req.Parameters.ToolChoice = &providers.ToolChoice{Mode: providers.ToolsAuto}
	return req
}

// offer sends a request with tools. It returns nil if the provider has no tools: then
// the provider must return an error, and not answer without them.
func offer(t *testing.T, p providers.Provider, req *providers.Request) providers.Stream {
	t.Helper()
	s, err := p.Invoke(t.Context(), req)
	if err == nil {
		t.Cleanup(func() { s.Close() })
		return s
	}
	e, ok := errors.AsType[*providers.Error](err)
	if !ok || e.Kind != providers.Status || e.Status != http.StatusBadRequest {
		t.Fatalf("error %v, want tools, or *providers.Error with status 400 that there are none", err)
	}
	return nil
}

func testToolCalls(t *testing.T, factory Factory) {
	for _, stream := range []bool{false, true} {
		for _, said := range [][]string{nil, {"Let me ", "see."}} {
			req := withTools(stream)
			s := offer(t, factory(t, Behaviour{Words: said, Tools: toolCalls}, req), req)
			if s == nil {
				return
			}
			var text strings.Builder
			var pieces []providers.CallPiece
			var err error
			for err == nil {
				var d providers.Delta
				d, err = s.Next()
				text.WriteString(d.Content)
				pieces = append(pieces, d.Calls...)
			}
			if err != io.EOF || text.String() != strings.Join(said, "") {
				t.Fatalf("stream=%v: text %q, error %v", stream, text.String(), err)
			}
			r := s.Result()
			checkPieces(t, pieces, r.ToolCalls)
			if r.FinishReason != "tool_calls" {
				t.Errorf("stream=%v: finish reason %q", stream, r.FinishReason)
			}
			if diff := cmp.Diff(comparable(t, toolCalls), comparable(t, r.ToolCalls)); diff != "" {
				t.Errorf("stream=%v after %q: tool calls (-want +got):\n%s", stream, said, diff)
			}
			ids := map[string]bool{}
			for _, c := range r.ToolCalls {
				if ids[c.ID] {
					t.Errorf("the id %q is used twice", c.ID)
				}
				ids[c.ID] = c.ID != ""
			}
		}
	}
}

// testCallIDs has two answers of a service whose calls have no ids. The calls of a
// conversation have different ids: those of the provider do not repeat, or there are none.
func testCallIDs(t *testing.T, factory Factory) {
	ids := map[string]bool{}
	for _, stream := range []bool{false, true, false, true} {
		req := withTools(stream)
		s := offer(t, factory(t, Behaviour{Tools: withoutIDs(toolCalls)}, req), req)
		if s == nil {
			return
		}
		var pieces []providers.CallPiece
		var err error
		for err == nil {
			var d providers.Delta
			d, err = s.Next()
			pieces = append(pieces, d.Calls...)
		}
		r := s.Result()
		if err != io.EOF || len(r.ToolCalls) != len(toolCalls) {
			t.Fatalf("stream=%v: calls without ids: %v, error %v", stream, r.ToolCalls, err)
		}
		checkPieces(t, pieces, r.ToolCalls)
		for _, c := range r.ToolCalls {
			if ids[c.ID] {
				t.Errorf("stream=%v: the id %q is used twice", stream, c.ID)
			}
			ids[c.ID] = c.ID != ""
		}
	}
}

// comparable normalizes arguments, and removes ids, which the provider chooses.
func comparable(t *testing.T, calls []providers.ToolCall) []providers.ToolCall {
	t.Helper()
	list := make([]providers.ToolCall, len(calls))
	for i, c := range calls {
		var b bytes.Buffer
		if err := json.Compact(&b, []byte(c.Arguments)); err != nil {
			t.Errorf("arguments %q: %v", c.Arguments, err)
		}
		list[i] = providers.ToolCall{Name: c.Name, Arguments: b.String()}
	}
	return list
}

func testBrokenToolCalls(t *testing.T, factory Factory) {
	for _, stream := range []bool{false, true} {
		for what, b := range map[string]Behaviour{
			"arguments that break off":  {Tools: []providers.ToolCall{{ID: "call_a1", Name: "get_weather", Arguments: `{"city":`}}},
			"an answer that breaks off": {Tools: toolCalls, Fail: Stops},
		} {
			req := withTools(stream)
			s := offer(t, factory(t, b, req), req)
			if s == nil {
				return
			}
			o := Read(s)
			e, ok := errors.AsType[*providers.Error](o.Err)
			if !ok || o.Text != "" || e.Kind != providers.Invalid && (b.Fail != Stops || e.Kind != providers.Truncated) {
				t.Errorf("stream=%v, %s: text %q, error %v", stream, what, o.Text, o.Err)
			}
			if calls := s.Result().ToolCalls; len(calls) > 0 {
				t.Errorf("stream=%v, %s: tool calls %v", stream, what, calls)
			}
		}
	}
}

// mayBeLeftOut are the parameters that do not change the meaning of a request.
var mayBeLeftOut = []string{
	"temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty", "seed", "reasoning_effort", "tools", "tools.strict",
}

func testLeftOut(t *testing.T, factory Factory) {
	for _, stream := range []bool{false, true} {
		req := request(stream)
		p := &req.Parameters
		share, count := 0.5, int64(7)
		p.TopP, p.FrequencyPenalty, p.PresencePenalty, p.TopK, p.Seed = &share, &share, &share, &count, &count
		p.ReasoningEffort = "low"
		p.ResponseFormat = &providers.ResponseFormat{Type: providers.FormatText}
		s := invoke(t, factory(t, Behaviour{Words: words}, req), req)
		if o := Read(s); o.Err != nil {
			t.Fatal(o.Err)
		}
		for _, name := range s.Result().LeftOut {
			if !slices.Contains(mayBeLeftOut, name) {
				t.Errorf("%s was left out: that changes what is asked for", name)
			}
		}
	}
}

// CheckToolCalls checks the tool calls of an answer that ended with err: each must be
// complete, but for its id, and an incomplete answer must have none.
func CheckToolCalls(t testing.TB, err error, calls []providers.ToolCall) {
	t.Helper()
	if err != io.EOF && len(calls) > 0 {
		t.Errorf("an answer that ended with %v has the tool calls %v", err, calls)
	}
	for _, c := range calls {
		if c.Name == "" || !json.Valid([]byte(c.Arguments)) {
			t.Errorf("half a tool call: %+v", c)
		}
	}
}
