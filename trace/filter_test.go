package trace_test

import (
	"strings"
	"testing"

	"github.com/cadenza-gateway/cadenza/trace"
)

func TestParseScoreRange(t *testing.T) {
	for _, test := range []struct {
		text    string
		in, out []float64
	}{
		{"..20", []float64{0, 20}, []float64{20.1, 100}},
		{"..<20", []float64{0, 19.999}, []float64{20, 21}},
		{"80..", []float64{80, 100}, []float64{0, 79.9}},
		{"20..40", []float64{20, 40}, []float64{19.9, 40.1}},
		{"20..<40.5", []float64{20, 40.4}, []float64{40.5}},
		{"0", []float64{0}, []float64{0.1, 100}},
		{"99.5", []float64{99.5}, []float64{99, 100}},
	} {
		scores, err := trace.ParseScoreRange(test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
		}
		within := func(score float64) bool { return scores.Least <= score && score <= scores.Most }
		for _, score := range test.in {
			if !within(score) {
				t.Errorf("%s: %v is not in %v", test.text, score, scores)
			}
		}
		for _, score := range test.out {
			if within(score) {
				t.Errorf("%s: %v is in %v", test.text, score, scores)
			}
		}
	}
	for text, want := range map[string]string{
		"": "such as ..20", "..": "such as ..20", "..<": "such as ..20", "20..<": "such as ..20", "x": "such as ..20", "1..x": "such as ..20",
		"-1..": "0 to 100", "..100.5": "0 to 100", "null": "such as ..20", "..null": "such as ..20", "<20": "such as ..20", "020": "such as ..20",
		"20...40": "such as ..20", "40..20": "selects nothing", "20..<20": "selects nothing", "..<0": "selects nothing",
	} {
		if _, err := trace.ParseScoreRange(text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
