package visible

import "testing"

func TestWidth(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "plain": 5, "é": 1, "e\u0301": 1, "中文": 4, "🙂": 2, "ＡＢ": 4, "a中b": 4, "—": 1,
	} {
		if got := Width(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestClip(t *testing.T) {
	for _, test := range []struct {
		text string
		most int
		want string
	}{
		{"plain", 5, "plain"},
		{"plain", 4, "pla…"},
		{"中文字", 6, "中文字"},
		{"中文字", 5, "中文…"},
		{"中文字", 4, "中…"}, // half of a character does not fit
		{"e\u0301e\u0301e\u0301", 2, "e\u0301…"},
		{"ab", 1, "…"},
	} {
		if got := Clip(test.text, test.most); got != test.want || Width(got) > test.most {
			t.Errorf("%q to %d: %q, want %q", test.text, test.most, got, test.want)
		}
	}
}
