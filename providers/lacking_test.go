package providers

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLacking(t *testing.T) {
	number, count := 0.5, int64(7)
	tools := []Tool{{Name: "f"}}
	all := Parameters{
		Temperature: &number, MaxTokens: &count, TopP: &number, TopK: &count, FrequencyPenalty: &number, PresencePenalty: &number,
		Seed: &count, ReasoningEffort: "low", ResponseFormat: &ResponseFormat{Type: FormatText}, Tools: tools, ToolChoice: &ToolChoice{Mode: ToolsNone},
	}
	for _, test := range []struct {
		name string
		p    Parameters
		has  []string
		want []string
		err  bool
	}{
		{"nothing set", Parameters{}, nil, nil, false},
		{"all that may be left out", all, nil, []string{"temperature", "max_tokens", "top_p", "top_k", "frequency_penalty", "presence_penalty", "seed", "reasoning_effort", "tools"}, false},
		{"some", all, []string{"temperature", "max_tokens", "top_p", "tools", "seed"}, []string{"top_k", "frequency_penalty", "presence_penalty", "reasoning_effort"}, false},
		{"empty lists", Parameters{Stop: []string{}, Tools: []Tool{}}, nil, nil, false},
		{"stop", Parameters{Stop: []string{"x"}}, nil, nil, true},
		{"stop there is", Parameters{Stop: []string{"x"}}, []string{"stop"}, nil, false},
		{"tools", Parameters{Tools: tools, TopK: &count}, nil, nil, true},
		{"tools there are", Parameters{Tools: tools, ToolChoice: &ToolChoice{Mode: ToolsRequired}}, []string{"tools"}, nil, false},
		{"JSON", Parameters{ResponseFormat: &ResponseFormat{Type: FormatJSON}}, nil, nil, true},
		{"a schema", Parameters{ResponseFormat: &ResponseFormat{Type: FormatSchema}}, []string{"tools"}, nil, true},
	} {
		got, err := test.p.Lacking("acme", test.has...)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
		e, ok := errors.AsType[*Error](err)
		if ok != test.err || ok && (e.Kind != Status || e.Status != 400 || e.Provider != "acme") {
			t.Errorf("%s: error %v", test.name, err)
		}
	}
}
