package visible

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestTextForATerminal(t *testing.T) {
	for text, want := range map[string]string{
		"plain — “ünïcödé” 中文 🙂": "plain — “ünïcödé” 中文 🙂",
		"a\x1b[31mb\x07\x7f":     `a\u001b[31mb\u0007\u007f`,
		"\u009b2J\u202e\u2028":   `\u009b2J\u202e\u2028`,
		"\xff\xc3(":              `\xff\xc3(`,
		"a\nb\tc\r":              `a\nb\tc\r`,
		"\U000e0001x":            `\udb40\udc01x`,
		"non\u00a0breaking":      "non\u00a0breaking",
	} {
		if got := Line(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := Lines("a\r\n\tb\x1b\rc"); got != "a\n\tb\\u001b\\rc" {
		t.Errorf("%q", got)
	}
	line, _ := json.Marshal("\u009b\u202e\U000e0001 ü\x1b")
	var back string
	if got := JSON(line); json.Unmarshal(got, &back) != nil || back != "\u009b\u202e\U000e0001 ü\x1b" || bytes.ContainsAny(got, "\u009b\u202e\U000e0001") {
		t.Errorf("%s", got)
	}
}
