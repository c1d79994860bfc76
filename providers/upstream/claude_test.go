package upstream

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/providers"
)

func TestTakesSampling(t *testing.T) {
	for model, want := range map[string]bool{
		"claude-3-haiku-20240307": true, "claude-3-5-haiku-latest": true, "claude-3-7-sonnet-20250219": true,
		"claude-sonnet-4-20250514": true, "claude-opus-4-1-20250805": true, "claude-sonnet-4-5-20250929": true,
		"claude-haiku-4-5": true, "claude-opus-4-6": true, "claude-sonnet-4-6": true,
		"claude-opus-4-7": false, "claude-opus-4-8": false, "claude-sonnet-5": false, "claude-opus-5-5": false,
		"claude-haiku-5-5-20260901": false, "claude-sonnet-5-20260601": false, "claude-fable-5-1": false, "claude-mythos-preview": false,
		"claude-sonnet-10": false, "anthropic.claude-opus-4-7-v1:0": false, "anthropic/claude-sonnet-4-5@20250929": true,
		"": true, "kimi-k2": true, "deepseek-chat": true, "claude": true,
	} {
		if got := ClaudeOf(model).Sampling; got != want {
			t.Errorf("%q: %v", model, got)
		}
	}
}

func TestTakesEffort(t *testing.T) {
	for model, want := range map[string]bool{
		"claude-opus-4-5-20251101": true, "claude-opus-4-6": true, "claude-sonnet-4-6": true, "claude-sonnet-5": true,
		"claude-haiku-5-5-20260901": true, "claude-mythos-preview": true, "anthropic.claude-opus-4-7-v1:0": true,
		"claude-opus-4-1-20250805": false, "claude-opus-4-20250514": false, "claude-sonnet-4-5-20250929": false, "claude-haiku-4-5": false,
		"claude-3-7-sonnet-20250219": false, "kimi-k2": false, "": false,
	} {
		if got := ClaudeOf(model).Efforts != nil; got != want {
			t.Errorf("%q: %v", model, got)
		}
	}
}

// TestTakesForcedCalls checks which models refuse a choice that has them call a tool.
func TestTakesForcedCalls(t *testing.T) {
	for model, want := range map[string]bool{
		"claude-sonnet-5-5": true, "anthropic.claude-opus-5-5-v1:0": true, "claude-opus-6": true, "claude-fable-5-1": true,
		"claude-sonnet-5": false, "claude-opus-5": false, "claude-fable-5": false, "claude-haiku-5-5": false, "claude-opus-4-8": false, "kimi-k2": false,
	} {
		if got := ClaudeOf(model).Unforced; got != want {
			t.Errorf("%q: %v", model, got)
		}
	}
}

// TestThink checks the words in which each generation thinks, as Anthropic's pages have
// them.
func TestThink(t *testing.T) {
	budget := func(n int64) *providers.Thinking { return &providers.Thinking{On: true, Budget: n} }
	for _, test := range []struct {
		model, effort string
		thinking      *providers.Thinking
		most          int64
		want, left    string // the type, the budget or display, and the effort
	}{
		{"claude-3-5-haiku-latest", "low", nil, 8192, "", "reasoning_effort"},
		{"claude-3-5-haiku-latest", "medium", budget(5000), 8192, "", "thinking reasoning_effort"},
		{"claude-3-7-sonnet-20250219", "low", nil, 8192, "enabled 2048", ""},
		{"claude-haiku-4-5", "", budget(2000), 8192, "enabled 2000", ""},
		{"claude-haiku-4-5", "low", budget(2000), 8192, "enabled 2000", ""},
		{"claude-sonnet-4-5", "", budget(10), 8192, "enabled 1024", ""},
		{"claude-sonnet-4-5", "", budget(31999), 32000, "enabled 31999", ""},
		{"claude-sonnet-4-5", "", budget(32000), 32000, "enabled 16000", ""},
		{"claude-sonnet-4-5", "", budget(32000), 2047, "", "thinking"},
		{"claude-sonnet-4-5", "high", nil, 2000, "", "reasoning_effort"},
		{"claude-sonnet-4-5", "max", nil, 64000, "enabled 32768", ""},
		{"claude-sonnet-4-5", "", &providers.Thinking{On: true}, 64000, "enabled 8192", ""},
		{"claude-sonnet-4-5", "none", nil, 8192, "", ""},
		{"claude-opus-4-5", "low", budget(9000), 16000, "enabled 9000 low", ""},
		{"claude-opus-4-5", "xhigh", nil, 16000, "enabled 8000 high", ""},
		{"claude-opus-4-5", "none", nil, 16000, "disabled", ""},
		{"claude-opus-4-6", "xhigh", nil, 16000, "adaptive high", ""},
		{"claude-opus-4-6", "medium", budget(9000), 16000, "enabled 9000 medium", ""},
		{"claude-sonnet-4-6", "", &providers.Thinking{On: true, Display: "omitted"}, 16000, "adaptive omitted", ""},
		{"claude-opus-4-7", "medium", budget(9000), 16000, "adaptive medium", ""},
		{"claude-opus-4-8", "minimal", nil, 100, "adaptive low", ""},
		{"claude-sonnet-5", "xhigh", &providers.Thinking{On: true, Display: "summarized"}, 16000, "adaptive summarized xhigh", ""},
		{"claude-sonnet-5", "", &providers.Thinking{Display: "summarized"}, 16000, "", "thinking"},
		{"claude-sonnet-5", "none", nil, 16000, "disabled", ""},
		{"claude-haiku-5-5", "low", nil, 16000, "adaptive low", ""},
		{"claude-sonnet-5-5", "none", nil, 16000, "between_tools", ""},
		{"claude-opus-5-5", "none", nil, 16000, "", "reasoning_effort"},
		{"claude-fable-5-1", "none", nil, 16000, "", "reasoning_effort"},
		{"us.anthropic.claude-mythos-5-2", "max", nil, 16000, "adaptive max", ""},
		{"claude-mythos-preview", "xhigh", nil, 16000, "adaptive high", ""},
		{"kimi-k2", "low", nil, 16000, "", "reasoning_effort"},
		{"kimi-k2", "low", budget(2000), 16000, "enabled 2000", ""},
		{"kimi-k2", "", &providers.Thinking{On: true}, 16000, "adaptive", ""},
	} {
		c := ClaudeOf(test.model)
		thinking, effort, left := c.Think(&providers.Parameters{ReasoningEffort: test.effort, Thinking: test.thinking}, test.most)
		got := effort
		if thinking != nil {
			got = fmt.Sprint(thinking.Type, " ", thinking.Display, " ", effort)
			if thinking.Budget > 0 {
				got = fmt.Sprint(thinking.Type, " ", thinking.Budget, " ", thinking.Display, " ", effort)
			}
		}
		if got = strings.Join(strings.Fields(got), " "); got != test.want || strings.Join(left, " ") != test.left {
			t.Errorf("%s, effort %q, %+v of %d: %q, left out %q, want %q, %q", test.model, test.effort, test.thinking, test.most, got, left, test.want, test.left)
		}
	}
}

// TestThoughtsBeside checks what goes with thoughts: no tool that has to be called, and
// of the parameters of sampling the ones that the API takes.
func TestThoughtsBeside(t *testing.T) {
	c := ClaudeOf("claude-sonnet-4-6")
	p := providers.Parameters{ReasoningEffort: "low", Temperature: new(1.0), TopP: new(0.97), TopK: new(int64(3)), Tools: []providers.Tool{{Name: "f"}}}
	samples := func(thinks bool) []string {
		names := c.Samples(&p, thinks)
		slices.Sort(names)
		return names
	}
	if got := samples(true); !slices.Equal(got, []string{"temperature", "top_p"}) {
		t.Errorf("while it thinks: %v", got)
	}
	if got := samples(false); len(got) != 3 {
		t.Errorf("without thoughts: %v", got)
	}
	p.Temperature, p.TopP = new(0.5), new(0.5)
	if got := samples(true); len(got) > 0 {
		t.Errorf("while it thinks: %v", got)
	}
	for mode, thinks := range map[string]bool{"auto": true, "none": true, "required": false, "named": false} {
		p.ToolChoice = &providers.ToolChoice{Mode: mode, Name: "f"}
		if got, effort, _ := c.Think(&p, 9000); got.Thinks() != thinks || effort != "low" {
			t.Errorf("%s: %+v, %q", mode, got, effort)
		}
	}
}

// TestThoughtless checks that a model which thinks within a budget is not asked to in a
// conversation that the API would refuse.
func TestThoughtless(t *testing.T) {
	call := providers.Part{Kind: providers.PartToolCall, Call: providers.ToolCall{ID: "a", Name: "f"}}
	thought := providers.Part{Kind: providers.PartThinking, Opaque: "x"}
	user := providers.Message{Role: "user", Content: "a"}
	result := providers.Message{Role: "tool", Parts: []providers.Part{{Kind: providers.PartToolResult}}}
	calls, thinks := providers.Message{Role: "assistant", Parts: []providers.Part{call}}, providers.Message{Role: "assistant", Parts: []providers.Part{thought, call}}
	said := providers.Message{Role: "assistant", Content: "b"}
	for i, test := range []struct {
		model    string
		messages []providers.Message
		lost     string
	}{
		{"claude-sonnet-4-5", []providers.Message{user}, ""},
		{"claude-sonnet-4-5", []providers.Message{user, said, user}, ""},
		{"claude-sonnet-4-5", []providers.Message{user, thinks, result}, ""},
		{"claude-sonnet-4-5", []providers.Message{user, thinks, result, user}, ""},
		{"claude-sonnet-4-5", []providers.Message{user, calls, result, said, user}, ""},
		{"claude-sonnet-4-5", []providers.Message{user, calls, result}, "thinking reasoning_effort"},
		{"claude-sonnet-4-5", []providers.Message{user, calls, result, user}, "thinking reasoning_effort"},
		{"claude-sonnet-4-5", []providers.Message{user, said}, "thinking reasoning_effort"},
		{"claude-opus-4-5", []providers.Message{user, calls, result}, "thinking"},
		{"claude-sonnet-5", []providers.Message{user, calls, result}, ""},
	} {
		req := &providers.Request{Model: test.model, Messages: test.messages, Prepared: 1, Parameters: providers.Parameters{
			ReasoningEffort: "low", Thinking: &providers.Thinking{On: true, Budget: 2000},
		}}
		plain, lost := Thoughtless(req)
		if strings.Join(lost, " ") != test.lost || (plain == req) != (test.lost == "") {
			t.Errorf("%d: %q", i, lost)
		}
		if plain != req && (plain.Parameters.Thinking != nil || plain.Prepared != nil || req.Parameters.Thinking == nil) {
			t.Errorf("%d: %+v", i, plain.Parameters)
		}
	}
	bare := &providers.Request{Model: "claude-sonnet-4-5", Messages: []providers.Message{user, calls, result}}
	if plain, _ := Thoughtless(bare); plain != bare {
		t.Error("without thinking, another request")
	}
}
