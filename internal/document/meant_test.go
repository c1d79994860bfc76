package document

import (
	"testing"
	"time"
)

func TestNumberHint(t *testing.T) {
	for text, want := range map[string]string{
		"3,95": "3.95", "-0,5": "-0.5", "1,000": "1000", "12,345,678": "12345678", "1.000.000": "1000000",
		"1 000": "1000", "1\u00a0000": "1000", "1_000": "1000", "1'000": "1000", "0,123": "0.123",
		"1,0000": "1.0000", "1.000": "", "100-200": "", "a,b": "", "3,": "", "1,000,00": "", "": "",
	} {
		if want != "" {
			want = ": write " + want
		}
		if got := NumberHintOf(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestDurationHint(t *testing.T) {
	for text, want := range map[string]string{
		"30": "30s", "30 seconds": "30s", "2 min": "2m", "1 hour": "1h", "250 milliseconds": "250ms", "250 ms": "250ms",
		"1.5 Hours": "1.5h", "0": "", "7200": "", "3 hours": "", "soon": "", "30 days": "", "-5": "",
	} {
		if want != "" {
			want = ": did you mean " + want + "?"
		}
		if got := durationHint(text, time.Millisecond, 2*time.Hour-1); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for d, want := range map[time.Duration]string{time.Hour: "1h", 90 * time.Minute: "1h30m", time.Minute: "1m", 90 * time.Second: "1m30s", 10 * time.Second: "10s", 0: "0s"} {
		if got := durationText(d); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestNearestKnowsWordsOfOthers(t *testing.T) {
	for _, test := range []struct {
		word, want string
		among      []string
	}{
		{"integer", "number", []string{"boolean", "number"}},
		{"Integer", "number", []string{"boolean", "number"}},
		{"enum", "string", []string{"list", "string"}},
		{"enum", "values", []string{"type", "values"}},
		{"if", "when", []string{"id", "when"}},
		{"if", "id", []string{"id", "value"}},
		{"datetime", "", []string{"boolean", "number"}},
	} {
		if got := Nearest(test.word, test.among); got != test.want {
			t.Errorf("%s among %v: %q, want %q", test.word, test.among, got, test.want)
		}
	}
}
