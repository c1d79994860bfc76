package invoke

import (
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
)

// TestNamesOfUpstreamsAreCut has a provider of anybody's give names of 8 MiB,
// for whole answers and for streams.
func TestNamesOfUpstreamsAreCut(t *testing.T) {
	for _, stream := range []bool{false, true} {
		for _, test := range []struct{ name, want string }{
			{strings.Repeat("m", providers.MaxName), strings.Repeat("m", providers.MaxName)},
			{strings.Repeat("m", 8<<20), strings.Repeat("m", providers.MaxName)},
		} {
			answer := says("fine")
			answer.result.Model = test.name
			answer.result.ToolCalls = []providers.ToolCall{{ID: "1", Name: "short"}, {ID: test.name, Name: test.name, Arguments: "{}"}}
			f := &fake{scripts: []script{answer}}
			c := &Call{Targets: []Target{{Name: "fake", Model: "m", Provider: f}}, Stream: stream}
			result, err := NewEngine().Invoke(t.Context(), c, func(providers.Delta) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			if result.Model != test.want {
				t.Errorf("stream %t: a model of %d bytes became one of %d, want %d", stream, len(test.name), len(result.Model), len(test.want))
			}
			if last := result.ToolCalls[1]; last.ID != test.want || last.Name != test.want || last.Arguments != "{}" || result.ToolCalls[0].Name != "short" {
				t.Errorf("stream %t: tool calls with names of %d and %d bytes", stream, len(last.ID), len(last.Name))
			}
			if given := answer.result.ToolCalls[1].ID; given != test.name {
				t.Error("the provider's own result was changed")
			}
		}
	}
}
