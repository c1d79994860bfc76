package openai

import "testing"

// TestEffortsByModel checks that each model gets an effort that it takes.
func TestEffortsByModel(t *testing.T) {
	for model, want := range map[string][7]string{ // none, minimal, low, medium, high, xhigh, max
		"o3":                   {"low", "low", "low", "medium", "high", "high", "high"},
		"o4-mini-2025-04-16":   {"low", "low", "low", "medium", "high", "high", "high"},
		"gpt-5":                {"minimal", "minimal", "low", "medium", "high", "high", "high"},
		"gpt-5-mini":           {"minimal", "minimal", "low", "medium", "high", "high", "high"},
		"gpt-5-pro-2025-10-06": {"high", "high", "high", "high", "high", "high", "high"},
		"gpt-5-codex":          {"low", "low", "low", "medium", "high", "high", "high"},
		"gpt-5.1":              {"none", "low", "low", "medium", "high", "high", "high"},
		"gpt-5.1-codex-mini":   {"low", "low", "low", "medium", "high", "high", "high"},
		"gpt-5.1-codex-max":    {"low", "low", "low", "medium", "high", "xhigh", "xhigh"},
		"gpt-5.2":              {"none", "low", "low", "medium", "high", "xhigh", "xhigh"},
		"gpt-5.2-pro":          {"medium", "medium", "medium", "medium", "high", "xhigh", "xhigh"},
		"gpt-5.3-codex":        {"low", "low", "low", "medium", "high", "xhigh", "xhigh"},
		"gpt-5.6":              {"none", "minimal", "low", "medium", "high", "xhigh", "max"},
		"gpt-6-luna":           {"none", "minimal", "low", "medium", "high", "xhigh", "max"},
	} {
		for i, effort := range ascending {
			if got := officialEfforts.of(model, effort); got != want[i] {
				t.Errorf("%s: %s is %s, want %s", model, effort, got, want[i])
			}
		}
	}
}
